"""Provenance of canonical nodes: the origins of each in the user's file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx

from hetsim.errors import ModelError
from hetsim.graph.reading.onnx_types import is_large
from hetsim.graph.reading.structure import bodies, captures
from hetsim.graph.shapes.open_shapes import RANDOM

_PASSING_ON = frozenset({"Identity", "Dropout"})


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation of a node for provenance; nodes with equal `key` compute the same."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captures: tuple[str, ...] = ()
    key: bytes | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """All values read."""
        if not self.captures and "" not in self.inputs:
            return self.inputs
        return tuple(name for name in (*self.inputs, *self.captures) if name)

    @property
    def writes(self) -> tuple[str, ...]:
        """All values written."""
        return tuple(name for name in self.outputs if name) if "" in self.outputs else self.outputs


def trace(
    originals: Sequence[Operation],
    stored: Mapping[str, bytes | None],
    canonicals: Sequence[Operation],
    folded: Collection[str],
    outputs: Collection[str],
) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Return the origins of every canonical node, and the originals without one.

    Operations are in topological order; `stored` has the constants of the original graph, with the
    content of small ones, `folded` those of the canonical one, `outputs` those of either. Origins
    are in the originals' order, never empty. O(V + E) if slices hardly overlap.
    """
    values = _Values(originals, stored, folded, canonicals)
    claims = [values.slice(names) for names in values.known_outputs]
    _claim_from_neighbours(canonicals, claims)
    for node, claim in zip(canonicals, claims, strict=True):
        if not claim:
            raise ModelError(
                "this optimised node cannot be traced to a node of the file",
                where=f"node '{node.name}'",
                hint="use --canonical none",
            )
    _attach_equals(originals, claims, values, outputs)
    claimed = set().union(*claims)
    origins = tuple(tuple(originals[i].name for i in sorted(claim)) for claim in claims)
    return origins, tuple(op.name for i, op in enumerate(originals) if i not in claimed)


class _Values:
    """Values of the original graph: producers, constants, and equal values."""

    def __init__(
        self,
        originals: Sequence[Operation],
        stored: Mapping[str, bytes | None],
        folded: Collection[str],
        canonicals: Sequence[Operation],
    ) -> None:
        self.originals = originals
        self.producer = {name: i for i, op in enumerate(originals) for name in op.writes}
        self.constant = set(stored) | set(folded)
        for op in originals:
            if op.op_type not in RANDOM and all(name in self.constant for name in op.reads):
                self.constant.update(op.writes)
        self.same_as = _equal_values(originals, stored)
        self.known_outputs = self._known_outputs(canonicals)
        self.computed = {name for names in self.known_outputs for name in names}
        self.owner: dict[str, int] = {}
        for i, names in enumerate(self.known_outputs):
            for name in names:
                self.owner.setdefault(self.same_as.get(name, name), i)

    def _known_outputs(self, canonicals: Sequence[Operation]) -> list[tuple[str, ...]]:
        """Return the original values that each canonical node computes."""
        by_name = {op.name: op for op in self.originals}
        found: list[tuple[str, ...]] = []
        for node in canonicals:
            names = tuple(name for name in node.writes if name in self.producer)
            match = by_name.get(node.name)
            if not names and match is not None and match.op_type == node.op_type:
                # The node kept its name; its output has a new name for another layout or type.
                names = match.writes
            found.append(names)
        return found

    def slice(self, outputs: Sequence[str]) -> set[int]:
        """Return the originals behind `outputs` of a canonical node, up to others' values."""
        pending = list(outputs)
        own = {self.same_as.get(name, name) for name in outputs}
        found: set[int] = set()
        while pending:
            i = self.producer[pending.pop()]
            if i in found:
                continue
            found.add(i)
            for name in self.originals[i].reads:
                if name in self.constant or name in self.computed or name not in self.producer:
                    continue
                same = self.same_as.get(name, name)
                if same not in self.owner or same in own:
                    pending.append(name)
        return found


def _equal_values(
    originals: Sequence[Operation], stored: Mapping[str, bytes | None]
) -> dict[str, str]:
    """Map each value to the first one that is equal by construction."""
    same: dict[str, str] = {}
    contents: dict[bytes, str] = {}
    for name, content in stored.items():
        same[name] = name if content is None else contents.setdefault(content, name)
    seen: dict[tuple[bytes, tuple[str, ...], int], str] = {}
    for op in originals:
        inputs = tuple(same.get(name, name) for name in op.inputs)
        for position, name in enumerate(op.outputs):
            if op.op_type in _PASSING_ON and position == 0:
                same[name] = inputs[0]
            elif op.key is None or op.op_type in RANDOM or op.captures:
                same[name] = name
            else:
                same[name] = seen.setdefault((op.key, inputs, position), name)
    return same


def _claim_from_neighbours(canonicals: Sequence[Operation], claims: list[set[int]]) -> None:
    """Give a helper node the origins of its readers, or else of its sources."""
    producer = {name: i for i, node in enumerate(canonicals) for name in node.writes}
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(canonicals):
        for name in node.reads:
            if name in producer:
                readers.setdefault(producer[name], []).append(i)
    for i in reversed(range(len(canonicals))):
        if not claims[i]:
            claims[i] = set().union(*(claims[j] for j in readers.get(i, ())))
    for i, node in enumerate(canonicals):
        if not claims[i]:
            sources = {producer[name] for name in node.reads if name in producer}
            claims[i] = set().union(*(claims[j] for j in sources))


def _attach_equals(
    originals: Sequence[Operation],
    claims: list[set[int]],
    values: _Values,
    outputs: Collection[str],
) -> None:
    """Assign each original without a slice to the nodes that compute an equal value."""
    holders: dict[int, list[int]] = {}
    for i, claim in enumerate(claims):
        for original in claim:
            holders.setdefault(original, []).append(i)
    read = set(outputs)
    for op in reversed(originals):
        if not read.isdisjoint(op.writes):
            read.update(op.reads)
    for original, op in enumerate(originals):
        if original in holders or read.isdisjoint(op.writes):
            continue
        for name in op.writes:
            if name in values.constant:
                continue
            same = values.same_as.get(name, name)
            if same in values.owner:
                claims[values.owner[same]].add(original)
            elif same in values.producer:
                for i in holders.get(values.producer[same], ()):
                    claims[i].add(original)


_APART = frozenset({onnx.AttributeProto.TENSOR, onnx.AttributeProto.SPARSE_TENSOR})


def operations_of(nodes: Iterable[onnx.NodeProto]) -> tuple[Operation, ...]:
    """Return the nodes as operations, in their order. O(V + E)."""
    return tuple(map(_operation, nodes))


def _operation(node: onnx.NodeProto) -> Operation:
    op_type = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    # Most nodes have no attributes, and each access creates a new list.
    attributes = list(node.attribute)
    return Operation(
        name=node.name,
        op_type=op_type,
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        captures=captures(node) if attributes else (),
        key=_key(node, op_type, attributes),
    )


def _key(
    node: onnx.NodeProto, op_type: str, attributes: Sequence[onnx.AttributeProto]
) -> bytes | None:
    """Return the common key of equal nodes besides inputs; None for bodies, tensors, long lists."""
    parts: list[bytes] = []
    for attribute in attributes:
        if attribute.type in _APART or is_large(attribute):
            return None
        parts.append(attribute.SerializeToString(deterministic=True))
    if parts and bodies(node):
        return None
    return b"\0".join((op_type.encode(), node.overload.encode(), *sorted(parts)))
