"""Nodes that a device does not take: for their op, type, shape, attribute or operator set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetsim.analysis.linting.change import Change
from hetsim.analysis.linting.seen import Seen, Suspect, Target
from hetsim.analysis.nodes.nodes import Nodes
from hetsim.base.text import tally
from hetsim.device.support.reasons import Kind, cause_of, without_values

KIND = "refused"
"""Of a finding here: ``refused-op``, ``refused-type`` and so on, and ``refused-all``."""

_REMEDY: dict[Kind, str] = {
    "op": "{device} takes it",
    "attribute": "{device} takes it, or the model has another value there",
    "opset": "{device} takes it, or the model is converted to such a set",
    "type": "{device} takes that type, or the model casts it away",
    "shape": "the shape is fixed, or {device} takes open ones",
    "rank": "{device} takes it, or the model is reshaped to fewer dimensions",
    "size": "{device} takes it, or the model splits the tensor",
    "other": "{device} takes it",
}


def refused(seen: Seen) -> Iterator[Suspect]:
    """Yield a suspect for each cause by which a device refuses nodes, and one for all of them.

    The change supposes that the device takes them, at the price that its own cost model gives.
    """
    for target in seen.targets:
        yield from _of(seen, target)


def _of(seen: Seen, target: Target) -> Iterator[Suspect]:
    problem = seen.problem
    away = np.flatnonzero(~problem.runnable[:, target.first]).tolist()
    if not away:
        return
    said = problem.refusals[target.first] if problem.refusals else {}
    tensors = problem.model.graph.tensors if problem.model is not None else {}
    causes: dict[tuple[Kind, str], list[int]] = {}
    for node in away:
        reason = said.get(node, "")
        kind, _ = cause_of(reason)
        _, text = cause_of(without_values(tensors, reason))
        # What a device says in words of its own may be of many ops.
        text = f"{problem.op_types[node]}: {text}" if kind == "other" else text
        causes.setdefault((kind, text), []).append(node)
    told = seen.wanted_on(target)
    cost = {} if told is None else _costs(told)

    def costs(ids: list[int]) -> float | None:
        return None if told is None else sum(cost.get(node, 0.0) for node in ids)

    def takes(ids: list[int]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return tuple((problem.devices[p], tuple(ids)) for p in target.devices)

    named = [(kind, text, ids) for (kind, text), ids in causes.items() if kind != "lone"]
    for kind, text, ids in named:
        remedy = _REMEDY[kind].format(device=target.name)
        ops = ", ".join(tally(problem.op_types[node] for node in ids))
        what = text if kind in ("op", "other") else f"{text}: {ops}"
        yield Suspect(
            f"{KIND}-{kind}", target.name, f"{target.name} refuses {what}", tuple(ids),
            costs(ids), (Change(remedy, takes=takes(ids)),),
        )  # fmt: skip
    if len(causes) > 1:
        yield Suspect(
            f"{KIND}-all", target.name, f"{target.name} refuses {len(away)} nodes in all",
            tuple(away), costs(away), (Change(f"{target.name} takes all", takes=takes(away)),),
        )  # fmt: skip


def _costs(told: Nodes) -> dict[int, float]:
    """What each refused node costs where it is, over replicas the mean."""
    found: dict[int, float] = {}
    for node in told.nodes:
        if node.supposed and node.cost_s is not None:
            found[node.node] = found.get(node.node, 0.0) + node.cost_s / told.replicas
    return found
