"""Templates of what is played: no batch is quicker than its way to be served says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.verifying.bounds import Way
from hetsim.verifying.node import Node
from hetsim.verifying.playing import Work, alone_s
from hetsim.verifying.question import Question

Task = tuple[int, float, list[int], list[int]]
"""Slot, or -1 for a transfer; seconds; links; tasks that must end first."""

CLOSE = 1e-9
"""By how much sums of seconds may be off."""


@dataclass(frozen=True, slots=True)
class Template:
    """What a batch does in a way to serve it, on its devices and links."""

    way: Way
    tasks: list[Task]


def templates_of(root: Node, question: Question, ways: Sequence[Way]) -> list[Template]:
    """Read the templates, and compare them with what ways take at least. Raises Untrue."""
    found = []
    for node in root["templates"].rows():
        node.fields("way tasks")
        way = ways[node["way"].place(ways)]
        template = Template(way, _tasks(node["tasks"], way))
        _compare(node["tasks"], template, question)
        found.append(template)
    return found


def _tasks(node: Node, way: Way) -> list[Task]:
    found: list[Task] = []
    rows = node.rows(100_000)
    for row in rows:
        parts = row.rows(length=4)
        slot = parts[0].whole(-1, len(way.devices) - 1)
        held, before = parts[2].places(way.links), parts[3].places(rows)
        if len(set(held)) != len(held) or len(set(before)) != len(before):
            row.broken("a link or a task twice")
        if slot >= 0 and (held or (found and found[-1][0] < 0)):
            row.broken("a subgraph that holds links, or comes after transfers")
        found.append((slot, parts[1].number(), held, before))
    return found


def _compare(node: Node, template: Template, question: Question) -> None:
    """No device or link is taken for less than the way takes it, nor a request alone."""
    way, tasks = template.way, template.tasks
    streams = [
        question.streams_of[question.kinds[way.kinds[unit]].devices[place]]
        for unit, place, _ in way.devices
    ]
    alone = alone_s(Work(tasks, streams), streams, len(way.links))
    if math.isnan(alone):
        node.broken("tasks wait for each other")
    if alone < way.alone_s * (1 - CLOSE):
        node.untrue(f"alone it takes {alone!r} s, at least {way.alone_s!r}")
    for slot, (_, _, seconds) in enumerate(way.devices):
        busy = sum(task[1] for task in tasks if task[0] == slot)
        if busy < seconds * (1 - CLOSE):
            node.untrue(f"{busy!r} s on slot {slot}, at least {seconds!r}")
    for link, seconds in enumerate(way.links):
        busy = sum(task[1] for task in tasks if link in task[2])
        if busy < seconds * (1 - CLOSE):
            node.untrue(f"{busy!r} s on link {link}, at least {seconds!r}")
