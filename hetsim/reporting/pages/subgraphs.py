"""The model's graph as columns: who feeds whom, what each node takes where, and who runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hetsim.base.text import Record, to_compact_json
from hetsim.base.units import significant
from hetsim.partitioning.borders import crossings
from hetsim.plans.plan import Plan
from hetsim.problem.parts import GRAPH_INPUT, shared_out
from hetsim.problem.problem import Problem
from hetsim.reporting.pages.packing import packed

PLAIN_BYTES = 100_000
"""Up to here the columns stand in the page as they are; above, as gzip in base64."""

BUDGET_BYTES = 280_000
"""What they may take of the page's 2.5 MB."""

_DIGITS = 5


def graph_picture(plans: Sequence[Plan], budget_bytes: int = BUDGET_BYTES) -> Record | None:
    """Return the graph that `plans` are of, each plan a choice; None where there is no node.

    Parameters
    ----------
    plans : sequence of Plan
        Of one problem, the one to show first leading. One of several replicas gives a choice
        for each.
    budget_bytes : int
        More than that it does not take: plans behind the first are left out, then times and
        reasons elsewhere, then the nodes; ``cut`` says so.

    Returns
    -------
    ``graph_columns``, or ``{"packed": its JSON as gzip in base64}`` where it is large.

    Complexity: O((V + E) P) a plan.
    """
    if not plans or not plans[0].problem.n:
        return None
    choices = [replica for plan in plans for replica in _replicas(plan)]
    for columns in _less_and_less(plans[0].problem, choices):
        if len(to_compact_json(columns)) <= min(PLAIN_BYTES, budget_bytes):
            return columns
        made = packed(columns)
        if len(made["packed"]) <= budget_bytes:
            return made
    return {"cut": f"a graph of {plans[0].problem.n} nodes does not fit a report"}


def _replicas(plan: Plan) -> list[tuple[str, Plan]]:
    if len(plan.replicas) == 1:
        return [(plan.strategy, plan)]
    count = len(plan.replicas)
    return [
        (f"{plan.strategy}, replica {number} of {count}", replica)
        for number, replica in enumerate(plan.replicas, 1)
    ]


def _less_and_less(problem: Problem, choices: Sequence[tuple[str, Plan]]) -> Iterator[Record]:
    """The columns, whole and then with less and less of them."""
    yield graph_columns(problem, choices)
    left_out = "the whole of it is too large for a report: left out are "
    if len(choices) > 1:
        told = f"{left_out}all plans but {choices[0][0]}"
        yield {**graph_columns(problem, choices[:1]), "cut": told}
    told = f"{left_out}all plans but {choices[0][0]}, and what other devices take or refuse"
    yield {**graph_columns(problem, choices[:1], elsewhere=False), "cut": told}


def graph_columns(
    problem: Problem, choices: Sequence[tuple[str, Plan]], *, elsewhere: bool = True
) -> Record:
    """Return a problem's graph and named plans of it, as columns of equal length.

    ``nodes`` has a list a field, by node: ``name``, ``op`` (an index into ``ops``), ``weights``
    (bytes of the constants it reads), ``reads`` and ``writes`` (bytes of values), ``given`` and
    ``kept`` (those of them that are inputs and outputs of the model) and, where a node's name is
    not that in the file, ``origins``. ``times`` has a list a device: seconds of each node alone,
    null where the device does not take it; ``refusals`` the texts, and by device the index of
    each node's, -1 for none. ``values``: ``from``, ``bytes``,
    of what a node makes for others; ``edges``: ``value`` (an index), ``to``. ``plans``: ``name``,
    ``reason``, ``group`` by node, ``groups`` with a list a field, and ``shared``: nodes whose time
    in the plan is a share of a kernel of several, or its own for another reason.
    """
    return {
        "devices": list(problem.devices),
        "host": problem.host,
        "nodes": _nodes(problem),
        **_ops(problem),
        **_edges(problem),
        **(_elsewhere(problem) if elsewhere else {}),
        "notes": _notes(problem),
        "plans": [_plan(name, plan, problem) for name, plan in choices],
    }


def _nodes(problem: Problem) -> Record:
    count = problem.n
    reads, writes, given, kept, weights = ([0] * count for _ in range(5))
    for value in problem.values:
        if value.producer != GRAPH_INPUT:
            writes[value.producer] += value.nbytes
            kept[value.producer] += value.nbytes * value.is_output
        for node in value.consumers:
            reads[node] += value.nbytes
            given[node] += value.nbytes * (value.producer == GRAPH_INPUT)
    for constant in problem.constants:
        for node in constant.consumers:
            weights[node] += constant.nbytes
    names = list(problem.node_names)
    origins = {
        str(node): list(found)
        for node, found in enumerate(problem.origins)
        if tuple(found) != (names[node],)
    }
    return {
        "name": names,
        "weights": weights,
        "reads": reads,
        "writes": writes,
        "given": given,
        "kept": kept,
        "origins": origins,
    }


def _ops(problem: Problem) -> Record:
    ops = {op: index for index, op in enumerate(dict.fromkeys(problem.op_types))}
    return {"ops": list(ops), "op": [ops[op] for op in problem.op_types]}


def _edges(problem: Problem) -> Record:
    """Columns of the values that nodes make for others, and of who reads them."""
    moved = [value for value in problem.values if value.producer != GRAPH_INPUT and value.consumers]
    moved.sort(key=lambda value: value.producer)
    return {
        "values": {
            "from": [value.producer for value in moved],
            "bytes": [value.nbytes for value in moved],
        },
        "edges": {
            "value": [index for index, value in enumerate(moved) for _ in value.consumers],
            "to": [node for value in moved for node in value.consumers],
        },
    }


def _elsewhere(problem: Problem) -> Record:
    """Times and refusals by device, and what a transfer between any two takes."""
    texts: dict[str, int] = {}
    of: list[list[int]] = []
    for device in range(len(problem.devices)):
        refused = problem.refusals[device] if problem.refusals else {}
        taken = problem.runnable[:, device]
        of.append(
            [
                -1
                if taken[node] or node not in refused
                else texts.setdefault(refused[node], len(texts))
                for node in range(problem.n)
            ]
        )
    shared = problem.shared_seconds
    return {
        "times": [_rounded(shared[:, device]) for device in range(len(problem.devices))],
        "refusals": {"texts": list(texts), "of": of},
        "routes": {
            "latency_s": [[route.latency_s for route in row] for row in problem.routes],
            "s_per_byte": [
                [0.0 if np.isinf(r.bytes_per_s) else 1.0 / r.bytes_per_s for r in row]
                for row in problem.routes
            ],
        },
    }


def _notes(problem: Problem) -> dict[str, str]:
    """By node: why its times are less sure than others."""
    unpriced = {str(node): f"not priced: {why}" for node, why in sorted(problem.unpriced.items())}
    unsized = {str(node): f"less sure: {why}" for node, why in sorted(problem.unsized.items())}
    return {**unsized, **unpriced}


def _plan(name: str, plan: Plan, shown: Problem) -> Record:
    problem = plan.problem
    owner = [0] * problem.n
    shared: dict[int, tuple[float, int]] = {}
    seconds: list[float] = []
    weights: list[int] = []
    for index, group in enumerate(plan.groups):
        device = problem.devices.index(group.device)
        for node in group.nodes:
            owner[node] = index
        if problem is not shown:
            # As slow as its devices make each other, say: its times are its own.
            own = problem.seconds[:, device]
            shared.update((node, (float(own[node]), 1)) for node in group.nodes)
        shared.update(_in_kernels(problem, device, group.nodes))
        seconds.append(problem.group_seconds(device, group.nodes))
        constants = {index for node in group.nodes for index in problem.constants_of[node]}
        weights.append(sum(problem.constants[index].nbytes for index in sorted(constants)))
    borders = crossings(problem, plan.groups)
    nodes = sorted(shared)
    return {
        "name": name,
        "reason": plan.reason,
        "group": owner,
        "groups": {
            "device": [problem.devices.index(group.device) for group in plan.groups],
            "seconds": _rounded(np.array(seconds)),
            "weights": weights,
            "receives": [border.receives_bytes for border in borders],
            "sends": [border.sends_bytes for border in borders],
        },
        "shared": {
            "node": nodes,
            "seconds": _rounded(np.array([shared[node][0] for node in nodes])),
            "members": [shared[node][1] for node in nodes],
        },
    }


def _in_kernels(
    problem: Problem, device: int, nodes: Sequence[int]
) -> dict[int, tuple[float, int]]:
    """By node in a kernel of several: its share of the kernel's time, and how many they are.

    See ``shared_out``.
    """
    found: dict[int, tuple[float, int]] = {}
    for members, seconds in problem.kernels(device, nodes):
        if len(members) == 1:
            continue
        shares = shared_out(seconds, problem.seconds[list(members), device])
        for member, share in zip(members, shares.tolist(), strict=True):
            found[member] = (share, len(members))
    return found


def _rounded(values: Any) -> list[float | None]:
    return [significant(float(value), _DIGITS) if np.isfinite(value) else None for value in values]
