"""Control flow: the graphs that a node may run, and their numbers of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetsim.graph.graph import ITEM_BITS, Graph, Node
from hetsim.graph.work.rule import NodeView

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})

_SHAPES = "the shapes inside it are unknown"
_GROWS = "a loop-carried value changes its shape between iterations"
_TURNS = "its number of iterations is unknown: --input FILE.npz measures it in a run"
_ELEMENTS = "the length of its sequence is unknown: --canonical basic replaces it by a Loop"


@dataclass(frozen=True, slots=True)
class ControlPaths:
    """Graphs that a node `runs`, their counts, or `instead`; `unknown` is why some are missing."""

    runs: tuple[tuple[Graph, float], ...]
    instead: tuple[tuple[Graph, float], ...] = ()
    unknown: str = ""


def ways(graph: Graph, node: Node) -> ControlPaths | None:
    """Return the graphs that run inside `node`, and how often; None if it is one kernel.

    A function call runs its body once. An If runs the branch given by a constant condition, or
    observed in a run; else either. A Loop runs as many turns as its scanned results have entries,
    as its constant limit if nothing can end it sooner, or as observed; else none to that many. A
    Scan runs one per slice. Observations on random inputs, or within a Loop, need not recur.
    O(inputs).
    """
    if node.body is not None and not node.whole:
        return ControlPaths(((node.body, 1),))
    if node.domain not in ("", "ai.onnx") or node.op_type not in CONTROL_FLOW:
        return None
    view = NodeView(graph, node)
    if node.op_type == "If":
        return _branches(view)
    body = _where_shaped(graph, node.branches.get("body"))
    if body is None:
        return ControlPaths((), unknown=_SHAPES)
    turns = _turns(view, body)
    if turns is None:
        return ControlPaths(
            ((body, 1),), unknown=_ELEMENTS if node.op_type == "SequenceMap" else _TURNS
        )
    most, certain = turns
    if _grows(node, body):
        known = graph.seen is not None and node.name in graph.seen.trips
        return ControlPaths(((body, most),), ((body, 0),), "" if known else _GROWS)
    return ControlPaths(((body, most),), () if certain else ((body, 0),))


def _branches(view: NodeView) -> ControlPaths:
    branches = {
        name: _where_shaped(view.graph, view.node.branches.get(name))
        for name in ("then_branch", "else_branch")
    }
    condition, seen = view.constant(0), view.graph.seen
    wanted, others = [*branches], []
    if condition:
        wanted = ["then_branch" if condition[0] else "else_branch"]
    elif seen is not None and view.node.name in seen.branches:
        wanted = [seen.branches[view.node.name]]
        others = [] if seen.sure else [name for name in branches if name not in wanted]
    run = _known(branches, wanted)
    whole = len(run) == len(wanted) and len(_known(branches, others)) == len(others)
    return ControlPaths(run, _known(branches, others), "" if whole else _SHAPES)


def _where_shaped(graph: Graph, inner: Graph | None) -> Graph | None:
    """Return `inner`, or None if an observed run of `graph` left shapes in it open."""
    if inner is None or graph.seen is None:
        return inner
    names = (name for node in inner.nodes for name in (*node.reads, *node.writes))
    touched = (inner.tensors[name] for name in names)
    return inner if all(one.dtype not in ITEM_BITS or one.is_static for one in touched) else None


def _known(
    branches: Mapping[str, Graph | None], names: Sequence[str]
) -> tuple[tuple[Graph, float], ...]:
    found = (branches[name] for name in names)
    return tuple((branch, 1) for branch in found if branch is not None)


def _grows(node: Node, body: Graph) -> bool:
    """Return whether a value leaves the body in another shape than it entered."""
    if node.op_type != "Loop":
        return False
    count = _carried(node)
    return any(
        body.tensors[before].shape != body.tensors[after].shape
        for before, after in zip(body.inputs[2 : 2 + count], body.outputs[1:], strict=False)
    )


def _turns(view: NodeView, body: Graph) -> tuple[float, bool] | None:
    """Return the number of turns, and whether it holds in every run; None if unknown."""
    node, graph = view.node, view.graph
    if node.op_type == "Scan":
        return _slices(view), True
    if node.op_type == "Loop":
        for name in node.outputs[_carried(node) :]:
            shape = graph.tensors[name].shape if name else None
            if shape and isinstance(shape[0], int) and graph.seen is None:
                return shape[0], True
        most = view.constant(0)
        if most is not None and _goes_on(view, body):
            return most[0], True
    seen = graph.seen
    if seen is not None and node.name in seen.trips:
        return seen.trips[node.name], seen.sure
    if node.op_type == "Loop" and most is not None:
        return most[0], False
    return None


def _carried(node: Node) -> int:
    """Return the number of loop-carried values; other results collect one entry per turn."""
    return max(0, len(node.inputs) - 2)


def _goes_on(view: NodeView, body: Graph) -> bool:
    """Return whether only its limit ends a Loop: the condition starts true and stays unchanged."""
    starts = not view.has(1) or view.constant(1) in ((1,), (True,))
    after = body.outputs[0]
    makers = {name: node for node in body.nodes for name in node.writes}
    while after in makers and makers[after].op_type == "Identity":
        after = makers[after].inputs[0]
    stays = after == body.inputs[1] or body.constant_values.get(after) == (True,)
    return starts and stays


def _slices(view: NodeView) -> int:
    node, count = view.node, view.integer("num_scan_inputs", 1)
    first = node.inputs[len(node.inputs) - count]
    shape = view.graph.tensors[first].static_shape
    if view.graph.opsets.get("", 9) < 9:
        return math.prod(shape[:2])
    axes = view.integers("scan_input_axes")
    return shape[axes[0] if axes else 0]
