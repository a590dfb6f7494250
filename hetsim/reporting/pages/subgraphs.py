"""Devices of the nodes of plans, as columns and tables of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hetsim.core.text import Record, to_compact_json
from hetsim.core.units import significant
from hetsim.problem.groups import owners
from hetsim.problem.parts import distributed_seconds
from hetsim.problem.plan import Plan
from hetsim.reporting.console import plain_table
from hetsim.reporting.formatting import ABSENT, time_text
from hetsim.reporting.pages.page import Section, packed, table, unpacked
from hetsim.reporting.tables.plan import groups_table

PLAIN_BYTES = 100_000
"""Maximum size in bytes of columns stored as JSON; larger ones are gzip in base64."""

BUDGET_BYTES = 200_000
"""Share of the page's 2.5 MB for subgraphs."""

ROWS_MOST = 200
"""Maximum number of nodes in a table: those that take longest."""

ELSEWHERE = (
    "`hetsim partition --onnx DIR` writes annotated.onnx and split.onnx for Netron; `hetsim "
    "inspect --nodes --out FILE.model-explorer.json` writes node data for Model Explorer."
)

_DIGITS = 5


def plans_picture(plans: Sequence[Plan], budget_bytes: int = BUDGET_BYTES) -> Record:
    """Return ``subgraphs`` of plans of one problem, the first one shown first, as pictures.

    ``tables`` are of the first plan; ``plans`` have ``name``, the ``device`` of each group, and by
    node ``group`` and ``seconds``. A plan of several replicas gives one for each. Beyond
    `budget_bytes` the plans after the first are left out, then all of it; ``cut`` says so. O(V + E)
    per plan.
    """
    if not plans or not plans[0].problem.n:
        return {}
    problem = plans[0].problem
    named = [one for plan in plans for one in _replicas(plan)]
    first = named[0]
    found: Record = {
        "devices": list(problem.devices),
        "name": list(problem.node_names),
        "tables": [_groups_table(*first), _nodes_table(*first)],
        "plans": [_columns(*one) for one in named],
    }
    cut = f"The report would be too large with plans other than {first[0]}."
    for columns in (found, {**found, "plans": found["plans"][:1], "cut": cut}):
        if len(to_compact_json(columns)) <= min(PLAIN_BYTES, budget_bytes):
            return {"subgraphs": columns}
        made = packed(columns)
        if len(made["packed"]) <= budget_bytes:
            return {"subgraphs": made}
    return {"subgraphs": {"cut": f"A plan of {problem.n} nodes does not fit a report."}}


def _replicas(plan: Plan) -> list[tuple[str, Plan]]:
    count = len(plan.replicas)
    if count == 1:
        return [(plan.strategy, plan)]
    return [
        (f"{plan.strategy}, replica {number} of {count}", replica)
        for number, replica in enumerate(plan.replicas, 1)
    ]


def _columns(name: str, plan: Plan) -> Record:
    return {
        "name": name,
        "device": [plan.problem.devices.index(group.device) for group in plan.groups],
        "group": list(owners(plan.problem.n, plan.groups)),
        "seconds": [
            significant(float(one), _DIGITS) if np.isfinite(one) else None
            for one in _node_seconds(plan)
        ],
    }


def _node_seconds(plan: Plan) -> Any:
    """Seconds of each node in the plan: its share of the kernel that computes it."""
    problem = plan.problem
    taken_s = np.zeros(problem.n)
    for group in plan.groups:
        device = problem.devices.index(group.device)
        for members, whole_s in problem.kernels(device, group.nodes):
            taken_s[list(members)] = distributed_seconds(
                whole_s, problem.seconds[list(members), device]
            )
    return taken_s


def _groups_table(name: str, plan: Plan) -> Record:
    made = plain_table(groups_table(plan.problem, plan.groups))
    return {**made, "title": f"Subgraphs of {name}{made['title'].partition('nodes')[2]}"}


def _nodes_table(name: str, plan: Plan) -> Record:
    """Table of the slowest nodes, each with its times on other devices or their refusals."""
    problem = plan.problem
    owner, taken_s = owners(problem.n, plan.groups), _node_seconds(plan)
    able, alone_s = problem.runnable, problem.shared_seconds
    longest = sorted(range(problem.n), key=lambda node: (-taken_s[node], node))[:ROWS_MOST]
    more = ""
    if problem.n > ROWS_MOST:
        more = f", the {ROWS_MOST} of {problem.n} that take longest"

    def elsewhere(node: int, here: str) -> str:
        said = []
        for place, device in enumerate(problem.devices):
            if device != here and able[node, place]:
                said.append(f"{device} {time_text(float(alone_s[node, place]))}")
            elif device != here:
                why = problem.refusals[place] if problem.refusals else {}
                said.append(f"{device}: {why.get(node, 'unsupported')}")
        return "; ".join(said) or ABSENT

    rows = []
    for node in longest:
        device = plan.groups[owner[node]].device
        what = problem.node_names[node], problem.op_types[node], device, f"g{owner[node]}"
        rows.append([*what, time_text(float(taken_s[node])), elsewhere(node, device)])
    return {
        "title": f"Nodes of {name}{more}",
        "headings": ["node", "op", "device", "subgraph", "#time", "other devices"],
        "rows": rows,
        "marked": [],
    }


def subgraphs_section(pictures: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return subgraphs and nodes of the first plan as tables; empty without a plan."""
    if "subgraphs" not in pictures:
        return ()
    found = unpacked(pictures["subgraphs"])
    tables = tuple(table(**one) for one in found.get("tables", ()))
    caption = "Device and time of each node by the cost model."
    caption = " ".join(filter(None, (caption, found.get("cut"), ELSEWHERE)))
    return (Section("subgraphs", "Subgraphs", caption, tables, open=True, order=20),)
