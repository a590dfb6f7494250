"""Devices of the nodes of plans, as columns and tables of a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hetsim.core.text import Record, tally, to_compact_json
from hetsim.core.units import format_bytes, significant
from hetsim.partitioning.borders import crossings
from hetsim.problem.parts import shared_out
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.reporting.pages.page import Section, Table, packed, table, unpacked
from hetsim.reporting.words.text import ABSENT, listed, time_text

PLAIN_BYTES = 100_000
"""Up to here the columns stand in the page as they are; above, as gzip in base64."""

BUDGET_BYTES = 200_000
"""Their share of the page's 2.5 MB."""

ROWS_MOST = 200
"""Nodes, and subgraphs, in a table: those that take longest."""

ELSEWHERE = (
    "`hetsim partition --onnx DIR` writes annotated.onnx and split.onnx for Netron; `hetsim "
    "inspect --nodes --out FILE.model-explorer.json` writes node data for Model Explorer."
)

_DIGITS = 5


def plans_picture(plans: Sequence[Plan], budget_bytes: int = BUDGET_BYTES) -> Record:
    """Return ``subgraphs`` of plans of one problem, the first shown first, as pictures.

    A plan of several replicas gives one for each. Beyond `budget_bytes` plans behind the first are
    left out, then times and reasons elsewhere, then all of it; ``cut`` says so. O((V + E) P) a
    plan.
    """
    if not plans or not plans[0].problem.n:
        return {}
    problem = plans[0].problem
    named = [one for plan in plans for one in _replicas(plan)]
    for columns in _less_and_less(problem, named):
        if len(to_compact_json(columns)) <= min(PLAIN_BYTES, budget_bytes):
            return {"subgraphs": columns}
        made = packed(columns)
        if len(made["packed"]) <= budget_bytes:
            return {"subgraphs": made}
    return {"subgraphs": {"cut": f"A plan of {problem.n} nodes does not fit a report."}}


def _replicas(plan: Plan) -> list[tuple[str, Plan]]:
    if len(plan.replicas) == 1:
        return [(plan.strategy, plan)]
    count = len(plan.replicas)
    return [
        (f"{plan.strategy}, replica {number} of {count}", replica)
        for number, replica in enumerate(plan.replicas, 1)
    ]


def _less_and_less(problem: Problem, named: Sequence[tuple[str, Plan]]) -> Iterator[Record]:
    """The columns, whole and then with less and less of them."""
    first = named[0][0]
    left_out = "The report would be too large with "
    yield _columns(problem, named)
    yield {**_columns(problem, named[:1]), "cut": f"{left_out}plans other than {first}."}
    less = {**_columns(problem, named[:1]), "times": None, "refusals": None}
    yield {
        **less,
        "cut": f"{left_out}plans other than {first}, and support by other devices.",
    }


def _columns(problem: Problem, named: Sequence[tuple[str, Plan]]) -> Record:
    """Columns by node and by subgraph.

    ``name`` and ``op`` (an index into ``ops``) by node; ``times`` by device: seconds of each node
    alone, null where the device does not take it; ``refusals``: the ``texts``, and by device the
    index of each node's, -1 for none; ``plans``: ``name``, ``group`` by node, ``seconds`` by node
    in the plan, ``groups`` with a list a field.
    """
    ops = {op: index for index, op in enumerate(dict.fromkeys(problem.op_types))}
    texts: dict[str, int] = {}
    refused = [
        [
            -1 if taken or node not in why else texts.setdefault(why[node], len(texts))
            for node, taken in enumerate(problem.runnable[:, device])
        ]
        for device, why in enumerate(problem.refusals or [{}] * len(problem.devices))
    ]
    return {
        "devices": list(problem.devices),
        "name": list(problem.node_names),
        "ops": list(ops),
        "op": [ops[op] for op in problem.op_types],
        "times": [_rounded(column) for column in problem.shared_seconds.T],
        "refusals": {"texts": list(texts), "of": refused},
        "plans": [_plan(name, plan) for name, plan in named],
    }


def _plan(name: str, plan: Plan) -> Record:
    problem = plan.problem
    owner = [0] * problem.n
    taken_s = np.zeros(problem.n)
    weights: list[int] = []
    for index, group in enumerate(plan.groups):
        device = problem.devices.index(group.device)
        for members, whole_s in problem.kernels(device, group.nodes):
            taken_s[list(members)] = shared_out(whole_s, problem.seconds[list(members), device])
        for node in group.nodes:
            owner[node] = index
        read = {constant for node in group.nodes for constant in problem.constants_of[node]}
        weights.append(sum(problem.constants[constant].nbytes for constant in sorted(read)))
    borders = crossings(problem, plan.groups)
    devices = [problem.devices.index(group.device) for group in plan.groups]
    spent = [
        problem.group_seconds(device, group.nodes)
        for device, group in zip(devices, plan.groups, strict=True)
    ]
    return {
        "name": name,
        "group": owner,
        "seconds": _rounded(taken_s),
        "groups": {
            "device": devices,
            "seconds": _rounded(np.array(spent)),
            "weights": weights,
            "receives": [border.receives_bytes for border in borders],
            "sends": [border.sends_bytes for border in borders],
        },
    }


def _rounded(values: Any) -> list[float | None]:
    return [significant(float(value), _DIGITS) if np.isfinite(value) else None for value in values]


def subgraphs_section(pictures: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return subgraphs and nodes of the first plan as tables; none where there is no plan."""
    if "subgraphs" not in pictures:
        return ()
    found = unpacked(pictures["subgraphs"])
    tables = (_groups(found), _nodes(found)) if "plans" in found else ()
    caption = "Device and time of each node by the cost model."
    caption = " ".join(filter(None, (caption, found.get("cut"), ELSEWHERE)))
    return (Section("subgraphs", "Subgraphs", caption, tables, open=True, order=20),)


def _groups(found: Record) -> Table:
    plan = found["plans"][0]
    groups = plan["groups"]
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
                found["devices"][groups["device"][group]],
                str(len(members[group])),
                time_text(groups["seconds"][group]),
                *(format_bytes(groups[key][group]) for key in ("weights", "receives", "sends")),
                listed(tally(found["ops"][found["op"][node]] for node in members[group]), limit=3),
            )
            for group in longest[:ROWS_MOST]
        ],
    )


def _nodes(found: Record) -> Table:
    plan = found["plans"][0]
    count = len(found["name"])
    longest = sorted(range(count), key=lambda node: (-(plan["seconds"][node] or 0.0), node))
    return table(
        _title("Nodes", plan, count),
        ("node", "op", "device", "subgraph", "#time", "other devices"),
        [
            (
                found["name"][node],
                found["ops"][found["op"][node]],
                found["devices"][plan["groups"]["device"][plan["group"][node]]],
                f"g{plan['group'][node]}",
                time_text(plan["seconds"][node]),
                _elsewhere(found, plan, node),
            )
            for node in longest[:ROWS_MOST]
        ],
    )


def _title(what: str, plan: Record, count: int) -> str:
    more = f", the {ROWS_MOST} of {count} that take longest" if count > ROWS_MOST else ""
    return f"{what} of {plan['name']}{more}"


def _elsewhere(found: Record, plan: Record, node: int) -> str:
    """Time of the node on each other device, or why that cannot run it."""
    here = plan["groups"]["device"][plan["group"][node]]
    said = []
    for device, name in enumerate(found["devices"] if found["times"] is not None else ()):
        takes_s, why = found["times"][device][node], found["refusals"]["of"][device][node]
        if device == here:
            continue
        if takes_s is not None:
            said.append(f"{name} {time_text(takes_s)}")
        else:
            reason = found["refusals"]["texts"][why] if why >= 0 else "unsupported"
            said.append(f"{name}: {reason}")
    return "; ".join(said) or ABSENT
