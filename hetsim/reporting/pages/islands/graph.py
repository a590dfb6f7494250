"""The graph's part of a report as text: subgraphs, and what each node takes on which device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetsim.base.text import Record, tally
from hetsim.base.units import format_bytes
from hetsim.reporting.pages.island import Section, Table, table
from hetsim.reporting.pages.islands.shared import seconds
from hetsim.reporting.pages.packing import unpacked
from hetsim.reporting.words.text import ABSENT, listed

ROWS_MOST = 200
"""Nodes, and subgraphs, that are told one by one: those that take longest."""


def graph_section(pictures: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return the section under the graph's picture; none where there is no picture."""
    picture = pictures.get("graph")
    if picture is None:
        return ()
    graph = unpacked(picture)
    tables: tuple[Table, ...] = ()
    if "nodes" in graph:
        tables = (_groups(graph, graph["plans"][0]), _nodes(graph, graph["plans"][0]))
    return (
        Section(
            "graph",
            "Graph",
            "The model's graph, every node coloured by the device that the plan has it on; a bar "
            "along its foot is its time against the longest that is shown. Times by the cost "
            "model, of each node alone or its share of a kernel of several.",
            tables,
            order=20,
        ),
    )


def _groups(graph: Record, plan: Record) -> Table:
    groups, op = plan["groups"], graph["op"]
    members: list[list[int]] = [[] for _ in groups["device"]]
    for node, group in enumerate(plan["group"]):
        members[group].append(node)
    longest = sorted(range(len(members)), key=lambda g: (-(groups["seconds"][g] or 0.0), g))
    return table(
        _title("Subgraphs", plan, len(members)),
        ("subgraph", "device", "#nodes", "#time", "#weights", "#receives", "#sends", "ops"),
        [
            (
                f"g{group}",
                graph["devices"][groups["device"][group]],
                str(len(members[group])),
                seconds(groups["seconds"][group]),
                *(format_bytes(groups[key][group]) for key in ("weights", "receives", "sends")),
                listed(tally(graph["ops"][op[node]] for node in members[group]), limit=3),
            )
            for group in longest[:ROWS_MOST]
        ],
    )


def _nodes(graph: Record, plan: Record) -> Table:
    nodes, devices = graph["nodes"], graph["devices"]
    shared = dict(zip(plan["shared"]["node"], plan["shared"]["seconds"], strict=True))
    times = graph.get("times")

    def own(node: int) -> float | None:
        if node in shared:
            return float(shared[node])
        here = plan["groups"]["device"][plan["group"][node]]
        return None if times is None else times[here][node]

    count = len(nodes["name"])
    longest = sorted(range(count), key=lambda node: (-(own(node) or 0.0), node))
    return table(
        _title("Nodes", plan, count),
        ("node", "op", "device", "subgraph", "#time", "elsewhere"),
        [
            (
                nodes["name"][node],
                graph["ops"][graph["op"][node]],
                devices[plan["groups"]["device"][plan["group"][node]]],
                f"g{plan['group'][node]}",
                seconds(own(node)),
                _elsewhere(graph, plan, node),
            )
            for node in longest[:ROWS_MOST]
        ],
    )


def _title(what: str, plan: Record, count: int) -> str:
    more = f", the {ROWS_MOST} of {count} that take longest" if count > ROWS_MOST else ""
    return f"{what} of {plan['name']}{more}"


def _elsewhere(graph: Record, plan: Record, node: int) -> str:
    """What each other device takes for it, or why it does not take it."""
    if "times" not in graph:
        return ABSENT
    here = plan["groups"]["device"][plan["group"][node]]
    told = []
    for device, name in enumerate(graph["devices"]):
        if device == here:
            continue
        takes_s = graph["times"][device][node]
        why = graph["refusals"]["of"][device][node]
        if takes_s is not None:
            told.append(f"{name} {seconds(takes_s)}")
        else:
            reason = graph["refusals"]["texts"][why] if why >= 0 else "does not take it"
            told.append(f"{name}: {reason}")
    return "; ".join(told) or ABSENT
