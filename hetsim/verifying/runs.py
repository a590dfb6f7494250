"""Deployments that were tried: are they what they should be, and do they do what is said?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetsim.verifying.bounds import Way
from hetsim.verifying.node import Node
from hetsim.verifying.playing import Player, Served, Work, alone_s
from hetsim.verifying.question import Policy, Question
from hetsim.verifying.statistic import counted, estimated, latencies, overloaded

Task = tuple[int, float, list[int], list[int]]
"""Slot, or -1 for a transfer; seconds; links; tasks that must end first."""

CLOSE = 1e-9
"""By how much sums of seconds may be off."""


@dataclass(frozen=True, slots=True)
class Template:
    """What a batch does, on slots in the place of devices and links."""

    of: int
    batch: int
    devices: list[int]
    links: int
    tasks: list[Task]


@dataclass(frozen=True, slots=True)
class Run:
    """A vector, the policy that was played on it, and what that says."""

    counts: tuple[int, ...]
    policy: int
    answer: str
    error: float


def templates_of(root: Node, question: Question, ways: Sequence[Way]) -> list[Template]:
    """Read the templates, and compare them with what devices take at least. Raises Untrue."""
    least = {way[:4]: way for way in ways}
    found = []
    for node in root["templates"].rows():
        node.fields("class batch devices links tasks")
        of, batch = node["class"].place(question.classes), node["batch"].whole(1, 10_000)
        devices = node["devices"].places(question.streams_of)
        links = node["links"].whole(0, 10_000)
        pieces: list[set[int]] = [set() for _ in devices]
        tasks = _tasks(node["tasks"], links, question.classes[of][1], pieces)
        template = Template(of, batch, devices, links, tasks)
        _compare(node, template, question, pieces, least)
        found.append(template)
    return found


def _tasks(node: Node, links: int, of_class: int, pieces: list[set[int]]) -> list[Task]:
    """Read tasks, and note which pieces of a class are done on each slot."""
    found: list[Task] = []
    rows = node.rows(100_000)
    for row in rows:
        parts = row.rows(length=5 if len(row.rows(5)) == 5 else 4)
        slot = parts[0].whole(-1, len(pieces) - 1)
        held, before = parts[2].places(range(links)), parts[3].places(rows)
        if len(set(held)) != len(held) or len(set(before)) != len(before):
            row.broken("a link or a task twice")
        if slot >= 0:
            if held or (found and found[-1][0] < 0):
                row.broken("a subgraph that holds links, or comes after transfers")
            pieces[slot].update(parts[4].places(range(of_class)) if parts[4:] else [0])
        found.append((slot, parts[1].number(), held, before))
    return found


def _compare(
    node: Node, template: Template, question: Question, pieces: list[set[int]],
    least: dict[Any, Way],
) -> None:  # fmt: skip
    """No slot takes less than what is done on it does at least, nor a request alone."""
    if set().union(*pieces) != set(range(question.classes[template.of][1])):
        node["tasks"].untrue("not every piece of the class is done")
    streams = [question.streams_of[device] for device in template.devices]
    alone = alone_s(Work(template.tasks, streams), streams, template.links)
    if math.isnan(alone):
        node["tasks"].broken("tasks wait for each other")
    for slot, device in enumerate(template.devices):
        seconds = 0.0
        for piece in pieces[slot]:
            way = least.get((device, template.of, piece, template.batch))
            if way is None:
                node.untrue(f"'least' has no way to do piece {piece} on device {device}")
            seconds += way.seconds
            if alone < way.alone_s * (1 - CLOSE):
                node["tasks"].untrue(f"alone it takes {alone!r} s, at least {way.alone_s!r}")
        busy = sum(task[1] for task in template.tasks if task[0] == slot)
        if busy < seconds * (1 - CLOSE):
            node["tasks"].untrue(f"{busy!r} s on slot {slot}, at least {seconds!r}")


def run_of(
    node: Node, question: Question, ways: Sequence[Way], templates: Sequence[Template]
) -> Run:
    """Read a run, play it, and check what is said of it. Raises Untrue."""
    counts = counts_of(node.having("counts")["counts"], question)
    number = node.having("policy")["policy"].place(question.policies)
    policy = question.policies[number]
    if "none" in node:
        node.fields("counts policy none")["none"].text()
        there = set(question.devices_of(list(counts)))
        if policy.placement == "all" and all(
            there.intersection(_useful(question, model, ways)) for model in range(question.models)
        ):
            node["policy"].untrue("this policy has a deployment there: each model has a device")
        return Run(counts, number, "none", 0.0)
    node.fields("counts policy links instances played judged")
    devices = question.devices_of(list(counts))
    links = node["links"].whole(0, 10_000)
    streams = [question.streams_of[device] for device in devices]
    models = []
    for model, one in enumerate(node["instances"].rows(length=question.models)):
        models.append(_served(one, model, question, policy, ways, templates, devices, links))
    played = node["played"].whole(1, len(question.time))
    if not question.sampled and played != len(question.time):
        node["played"].untrue("not the whole trace")
    kind_of = {of: k for m in range(len(models)) for k, of in enumerate(question.of_model(m))}
    asks = [
        (question.streams[stream].model, question.streams[stream].level, kind_of[of])
        for stream, of in question.asks
    ]
    which = [asks[ask] for ask in question.ask[:played].tolist()]
    player = Player(streams, links, models)
    ends, fresh = player.play(question.time[:played].tolist(), which)
    finish = np.array(ends)
    if np.isnan(finish).any():
        node["instances"].broken("requests never end: subgraphs wait for each other's turn")
    return Run(counts, number, *_judged(node, question, finish, np.array(fresh)))


def counts_of(node: Node, question: Question) -> tuple[int, ...]:
    """Read a vector that could be had."""
    counts = tuple(one.whole(0, 10_000) for one in node.rows(length=len(question.kinds)))
    if not question.allows(list(counts)):
        node.untrue("more than can be had")
    return counts


def _served(
    node: Node, model: int, question: Question, policy: Policy, ways: Sequence[Way],
    templates: Sequence[Template], devices: list[int], links: int,
) -> Served:  # fmt: skip
    """Read the instances of a model, which are what the policy says."""
    classes = question.of_model(model)
    largest = max((way.batch for way in ways if way.of in classes), default=1)
    largest = min(largest, policy.max_batch)
    work: list[list[list[Work]]] = []
    streams = [question.streams_of[device] for device in devices]
    served = []
    for one in node.rows(10_000):
        one.fields("devices links templates")
        placed = one["devices"].places(devices)
        held = one["links"].places(range(links))
        if len(set(placed)) != len(placed) or len(set(held)) != len(held):
            one.broken("a device or link twice")
        kinds = one["templates"].rows(length=len(classes))
        work.append([])
        for of, row in zip(classes, kinds, strict=True):
            numbers = row.places(templates, length=largest)
            for size, number in enumerate(numbers, start=1):
                template = templates[number]
                if template.of != of or template.batch < size:
                    row[size - 1].untrue(f"of class {template.of}, for {template.batch}")
                if template.devices != [devices[place] for place in placed]:
                    row[size - 1].untrue("of other devices")
                if template.links != len(held):
                    row[size - 1].broken(f"has {template.links} links")
            work[-1].append([_placed(templates[n], placed, held, streams) for n in numbers])
        served += placed
    if not work:
        node.broken("no instance")
    if policy.placement == "all":
        useful = _useful(question, model, ways)
        wanted = [place for place, device in enumerate(devices) if device in useful]
        if sorted(served) != wanted:
            node.untrue(f"on devices {sorted(served)}, and not on all of {wanted}")
    return Served(
        work,
        [policy.limit] * len(work),
        policy.routing,
        levels=1 + max((s.level for s in question.streams if s.model == model), default=0),
        room=policy.max_queue_size,
        timeout_s=policy.timeout_s,
        delays=policy.delays,
        preferred=[size for size in policy.preferred if size <= largest],
        delay_s=policy.delay_s,
    )


def _placed(template: Template, devices: list[int], links: list[int], streams: list[int]) -> Work:
    return Work(
        [
            (devices[slot] if slot >= 0 else -1, seconds, [links[k] for k in held], before)
            for slot, seconds, held, before in template.tasks
        ],
        streams,
    )


def _useful(question: Question, model: int, ways: Sequence[Way]) -> set[int]:
    """Types of devices that can serve every class of a model within its largest limit."""
    useful = set(range(len(question.streams_of)))
    for of in question.of_model(model):
        slos = [
            limit
            for stream, own in question.asks
            if own == of
            for _, limit in question.streams[stream].slos
        ]
        limit = max(slos, default=math.inf)
        useful &= {w.device for w in ways if w[1:4] == (of, 0, 1) and w.alone_s <= limit}
    return useful


def _judged(node: Node, question: Question, finish: Any, fresh: Any) -> tuple[str, float]:
    """Check what is said of each objective; return what that makes together, and its error."""
    said: dict[tuple[int, int], tuple[str, float]] = {}
    for row in node["judged"].rows(100_000):
        parts = row.rows(length=6)
        stream = parts[0].place(question.streams)
        slo = parts[1].place(question.streams[stream].slos)
        requests = parts[2].whole(1, len(finish))
        if (stream, slo) in said or (not question.sampled and requests != len(finish)):
            row.untrue("judged twice, or not over the whole trace")
        answer = parts[4].text("meets", "misses", "undecided")
        error = parts[5].number(0, 0.5)
        share, limit = question.streams[stream].slos[slo]
        mine = question.judged(stream)[:requests].nonzero()[0]
        if not len(mine):
            row.untrue("no request of this stream")
        waited = latencies(question.time[mine], finish[mine])
        late = int(np.count_nonzero(waited > limit))
        if late != parts[3].whole():
            parts[3].untrue(f"{late} of {len(mine)} are late")
        if not question.sampled:
            found = counted(late, len(mine), share)
        elif answer == "undecided":
            found = answer
        else:
            if not error:
                parts[5].untrue("a verdict of the long run may be wrong")
            found = estimated(waited, fresh[mine], share, limit, error)
            if found == "undecided" and late > (1 - share) * len(mine):
                found = _behind(question, stream, requests, finish, fresh, share)
        if answer not in ("undecided", found):
            parts[4].untrue(f"{late} of {len(mine)} are late: {found}")
        said[stream, slo] = answer, error
    if any(answer == "misses" for answer, _ in said.values()):
        return "misses", max(error for answer, error in said.values() if answer == "misses")
    asked = {(s, k) for s, one in enumerate(question.streams) for k in range(len(one.slos))}
    if set(said) == asked and all(answer == "meets" for answer, _ in said.values()):
        return "meets", max(error for _, error in said.values())
    return "undecided", 0.0


def _behind(
    question: Question, stream: int, requests: int, finish: Any, fresh: Any, share: float
) -> str:
    """What is so of a model that falls behind for good: all is late, or rejected, in the end."""
    model = question.streams[stream].model
    own = [s for s, one in enumerate(question.streams) if one.model == model]
    mine = np.zeros(requests, bool)
    for at in own:
        mine |= question.judged(at)[:requests]
    times, ends = question.time[:requests][mine], finish[:requests][mine]
    rate = sum(question.rate_of(at) for at in own)
    behind, carried = overloaded(times, ends, fresh[:requests][mine], rate)
    rejects = np.isinf(finish[:requests][question.judged(stream)[:requests]]).any()
    return "misses" if behind and (carried if rejects else 0.0) < share else "undecided"
