"""Model-local functions: what calls what, and how much there is once calls are unfolded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

FunctionKey = tuple[str, str, str]
"""Domain, name and overload."""

NODES_LIMIT = 1_000_000
"""Most nodes once every call of a model-local function is replaced by its body."""

DEPTH_LIMIT = 100
"""Most functions that call each other in a row: what ONNX Runtime takes; more overran its stack."""


def key_of(function: onnx.FunctionProto) -> FunctionKey:
    """Return what calls of `function` name it by."""
    return function.domain, function.name, function.overload


def calls(nodes: Iterable[onnx.NodeProto]) -> list[FunctionKey]:
    """Return what nodes, and those of their bodies, would name a function by."""
    found: list[FunctionKey] = []
    pending = [*nodes]
    while pending:
        node = pending.pop()
        found.append((node.domain, node.op_type, node.overload))
        for attribute in node.attribute:
            if attribute.HasField("g"):
                pending.extend(attribute.g.node)
            for body in attribute.graphs:
                pending.extend(body.node)
    return found


def check_unfolding(
    called: Mapping[FunctionKey, Sequence[FunctionKey]], main: Iterable[FunctionKey]
) -> None:
    """Raise ValueError for functions that call themselves, or unfold to more than can be had.

    Parameters
    ----------
    called : mapping of FunctionKey to sequence of FunctionKey
        What each function calls, as often as it does: functions and operators.
    main : iterable of FunctionKey
        What the graph calls.

    Complexity: O(calls).
    """
    sizes: dict[FunctionKey, int] = {}
    depths: dict[FunctionKey, int] = {}
    entered: set[FunctionKey] = set()
    pending = list(called)
    while pending:
        key = pending[-1]
        if key not in entered:
            entered.add(key)
            missing = dict.fromkeys(c for c in called[key] if c in called and c not in sizes)
            if not entered.isdisjoint(missing):
                raise ValueError(f"function {key[1]!r} calls itself")
            pending.extend(missing)
            continue
        pending.pop()
        if key not in sizes:
            sizes[key] = _unfolded(called[key], sizes)
            depths[key] = 1 + max((depths.get(c, 0) for c in called[key]), default=0)
    if max(depths.values(), default=0) > DEPTH_LIMIT:
        raise ValueError(f"its functions call each other more than {DEPTH_LIMIT} deep")
    if _unfolded(main, sizes) > NODES_LIMIT:
        raise ValueError(f"its functions unfold to more than {NODES_LIMIT} nodes")


def _unfolded(called: Iterable[FunctionKey], sizes: Mapping[FunctionKey, int]) -> int:
    # Capped, because doubling a number in every one of many functions makes a huge one.
    return min(sum(1 + sizes.get(key, 0) for key in called), NODES_LIMIT + 1)
