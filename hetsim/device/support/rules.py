"""Node support by the rules and patterns of a device's description, with reasons."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hetsim.core.units import format_bytes
from hetsim.device.support.quantized import (
    Quantized,
    contraction,
    fallback,
    float_refusal,
    folded,
    held_in,
    held_tensor_bytes,
    integer_node,
    integer_units,
    taken_off,
)
from hetsim.graph.dag import joined
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.patterns.matching import Match, find_matches
from hetsim.graph.patterns.pattern import AttributeTest, attribute_of, check_names
from hetsim.graph.work import op_key
from hetsim.hardware.spec import DeviceSpec, SupportRule


@dataclass(frozen=True, slots=True)
class Support:
    """Result of ``query_model``.

    `supported`: by node id, whether the device supports it individually; `reasons`: one for each
    unsupported node; `composites`: disjoint nodes supported together as one kernel, by first node.
    """

    device: str
    supported: tuple[bool, ...]
    reasons: Mapping[int, str]
    composites: tuple[Match, ...] = ()

    @property
    def taken(self) -> tuple[bool, ...]:
        """Whether the device supports each node, individually or within a composite."""
        whole = {node for match in self.composites for node in match.nodes}
        return tuple(alone or node in whole for node, alone in enumerate(self.supported))


def by_rules(name: str, spec: DeviceSpec, graph: Graph, *, library: bool = False) -> Support:
    """Return support by the spec's rule, its patterns, and integer units.

    Members of a composite need not satisfy the rule's lists of ops and attributes. O(V + tensors),
    plus that of ``matching.find_matches``.
    """
    reasons: dict[int, str] = {}
    free = taken_off(spec, graph) | folded(spec, graph)
    for node in graph.nodes:
        reason = None if node.id in free else refusal(spec, graph, node.id, library=library)
        if reason is not None:
            reasons[node.id] = reason
    supported = tuple(node.id not in reasons for node in graph.nodes)
    matched = _by_patterns(spec, graph, reasons) if spec.patterns else ()
    if spec.quantized and not all(supported):
        matched += _quantized_units(spec, graph, supported, matched, reasons)
    return Support(name, supported, reasons, tuple(sorted(matched, key=lambda m: m.nodes)))


def _quantized_units(
    spec: DeviceSpec,
    graph: Graph,
    supported: tuple[bool, ...],
    matched: tuple[Match, ...],
    reasons: dict[int, str],
) -> tuple[Match, ...]:
    """Return integer units supported only as a whole; see `Quantized`."""
    quantized = Quantized(graph, spec)
    if not quantized:
        return ()

    def refuse(v: int) -> str | None:
        op = op_key(graph.nodes[v])
        if op in spec.quantized and _listed(spec.support, op):
            return reasons[v]
        return refusal_in_pattern(spec, graph, v)

    state = contraction(graph)
    for match in matched:
        state.add(match.nodes)
    found: list[Match] = []
    for unit in integer_units(quantized, spec, supported, state, refuse):
        if all(supported[v] for v in unit.nodes):
            continue
        ops = [v for v in unit.nodes if v not in quantized.dequantize | quantized.quantize]
        name = f"quantized {op_key(graph.nodes[ops[0]])}"
        found.append(Match(name, unit.nodes))
        for v in unit.nodes:
            if v in reasons:
                reasons[v] += f"; taken only as a part of '{name}'"
    return tuple(found)


def _by_patterns(spec: DeviceSpec, graph: Graph, reasons: dict[int, str]) -> tuple[Match, ...]:
    """Return matches of the description's patterns, and add results to `reasons`."""
    for pattern in spec.patterns:
        check_names(pattern)
    matches = find_matches(graph, spec.patterns, lambda node: refusal_in_pattern(spec, graph, node))
    for match in matches.found:
        for node_id in match.nodes:
            if node_id in reasons:
                reasons[node_id] += f"; taken only as a part of pattern '{match.pattern}'"
    for refused in matches.refused:
        for node_id in refused.nodes:
            if node_id in reasons:
                reasons[node_id] += f"; no match of '{refused.pattern}': {refused.reason}"
    return matches.found


def without_lone_housekeeping(support: Support, graph: Graph, idle: frozenset[int]) -> Support:
    """Return support without groups of only housekeeping nodes, which compute nothing. O(V + E)."""
    taken = support.taken
    home = joined(len(taken), ((u, v) for u, v in graph.edges() if taken[u] and taken[v]))
    computing = {home[v] for v in range(len(taken)) if taken[v] and v not in idle}
    reasons = dict(support.reasons)
    for node in graph.nodes:
        if support.supported[node.id] and home[node.id] not in computing:
            reasons[node.id] = "no node that computes is joined to it there"
    if reasons == support.reasons:
        return support
    supported = tuple(node.id not in reasons for node in graph.nodes)
    return Support(support.device, supported, reasons, support.composites)


def is_static(tensor: Tensor) -> bool:
    """Return whether a tensor's shape is fully known, independent of the inputs."""
    return tensor.is_static and not tensor.measured


def refusal(spec: DeviceSpec, graph: Graph, node_id: int, *, library: bool = False) -> str | None:
    """Return the reason why a device of `spec` does not support the node individually, or None.

    A function that the rule does not name is supported if all of its body is, control flow if all
    graphs that it may run are.
    """
    rule = spec.support
    node = graph.nodes[node_id]
    op = op_key(node)
    if op in rule.except_ops:
        return f"op {op}"
    if rule.ops is None or op not in rule.ops:
        custom = _custom_refusal(spec, graph, node_id, library)
        if custom is not None:
            return custom
        listed = _listed(rule, op) or casts_nothing(spec, graph, node)
        listed = listed or integer_node(spec, graph, node)
        if (node.body is None or node.whole) and not node.custom and not listed:
            return f"op {op}"
    for attribute, branch in node.branches.items():
        inside = None if branch is None else _first_refusal(spec, branch, library)
        if inside is not None:
            return f"{inside} in {attribute} of {op}"
    for name, accepted in rule.attributes.get(op, {}).items():
        value = attribute_of(graph, node, name)
        if value is not None and not AttributeTest(name, accepted).holds(graph, node):
            allowed = ", ".join(str(entry) for entry in accepted)
            return f"attribute {name} = {value} of {op} (it takes {allowed})"
    return refusal_in_pattern(spec, graph, node_id)


def casts_nothing(spec: DeviceSpec, graph: Graph, node: Node) -> bool:
    """Return whether `node` casts between two float types that the device computes as one."""
    if op_key(node) != "Cast":
        return False
    kinds = {graph.tensors[name].dtype for name in (*node.reads, *node.writes)}
    return all("float" in kind for kind in kinds) and (
        len({spec.execution_dtype.get(kind, kind) for kind in kinds}) == 1
    )


def _listed(rule: SupportRule, op: str) -> bool:
    """Return whether lists of ops accept `op`, which `except_ops` does not name."""
    if rule.ops is not None:
        return op in rule.ops
    return ":" not in op or rule.foreign is None or op in rule.foreign


def _custom_refusal(spec: DeviceSpec, graph: Graph, node_id: int, library: bool) -> str | None:
    """Return the reason why an operator from outside ONNX is unsupported, or None."""
    node = graph.nodes[node_id]
    if node.custom:
        if "library" not in spec.custom_ops:
            return f"op {op_key(node)} of a custom-op library (it takes none)"
        return (
            None if library else f"op {op_key(node)} of a custom-op library that it was not given"
        )
    if node.body is None or node.whole:
        return None
    if "function" not in spec.custom_ops:
        return f"op {op_key(node)}, a function (it takes none)"
    reason = _first_refusal(spec, node.body, library)
    return None if reason is None else f"{reason} in the body of {op_key(node)}"


def _first_refusal(spec: DeviceSpec, graph: Graph, library: bool) -> str | None:
    """Return the reason why part of a graph inside a node is unsupported, or None."""
    reasons = (refusal(spec, graph, inner.id, library=library) for inner in graph.nodes)
    first = next((reason for reason in reasons if reason is not None), None)
    if first is None or not spec.patterns:
        return first
    return None if all(by_rules(spec.name, spec, graph, library=library).taken) else first


def refusal_in_pattern(spec: DeviceSpec, graph: Graph, node_id: int) -> str | None:
    """Return the reason why the device does not support the node even in a pattern, or None."""
    rule = spec.support
    node = graph.nodes[node_id]
    version = graph.opsets.get("")
    if rule.opset is not None and version is not None and node.domain in ("", "ai.onnx"):
        oldest, newest = rule.opset
        if not oldest <= version <= newest:
            return f"operator set {version} (it takes {oldest} to {newest})"
    lacking = float_refusal(spec, graph, node)
    if lacking is None and spec.falls_back:
        lacking = fallback(spec, graph, node)
    if lacking is not None:
        return lacking
    limits = (rule.dtypes, rule.max_rank, rule.max_tensor_bytes)
    if limits == (None, None, None) and not rule.static_shapes_only:
        return None
    # With an assumed precision, the types of the device's storage count.
    types = {} if spec.executes is None else held_in(spec, graph, node)
    folded = node.writes and graph.dequantized.keys() >= set(node.writes)
    for name in (*node.reads, *node.writes):
        if folded and name in graph.constants:
            # Stored integers are read by the readers of their floats, in whatever type these are.
            continue
        tensor = graph.tensors[name]
        held = types.get(tensor.dtype, tensor.dtype)
        if rule.dtypes is not None and held not in rule.dtypes:
            return f"{held} tensor '{name}'"
        if rule.static_shapes_only and not is_static(tensor):
            return f"dynamic shape of tensor '{name}'"
        if rule.max_rank is not None and tensor.shape is not None:
            rank = len(tensor.shape)
            if rank > rule.max_rank:
                return f"rank {rank} of tensor '{name}' (it takes {rule.max_rank})"
        most = rule.max_tensor_bytes
        known = is_static(tensor) or tensor.measured
        if most is not None and known and held_tensor_bytes(tensor, types) > most:
            size, allowed = format_bytes(held_tensor_bytes(tensor, types)), format_bytes(most)
            return f"{size} of tensor '{name}' (it takes {allowed})"
    return None


def traceable(graph: Graph) -> Graph:
    """Return the graph with each node's `origins` set to its own name. O(V)."""
    return replace(graph, nodes=tuple(replace(node, origins=(node.name,)) for node in graph.nodes))


def mapped_back(graph: Graph, alone: Support, changed: Graph, answer: Support) -> Support:
    """Return the device's answer for `graph`, from its answer for the transformed graph."""
    ids = {node.name: node.id for node in graph.nodes}
    composites: list[Match] = []
    refused: dict[int, str] = {}
    kept: set[int] = set()
    in_composite = {node: match for match in answer.composites for node in match.nodes}
    for node in changed.nodes:
        own = sorted({ids[name] for name in node.origins if name in ids})
        match = in_composite.get(node.id)
        if not answer.supported[node.id] and match is None:
            what = op_key(node)
            for v in own:
                refused[v] = f"part of {what} on this device: {answer.reasons[node.id]}"
            if own == [ids.get(node.name, -1)] and what == op_key(graph.nodes[own[0]]):
                refused[own[0]] = answer.reasons[node.id]
        elif match is None and len(own) > 1:
            composites.append(Match(f"fused {op_key(node)}", tuple(own)))
        elif match is None:
            kept.update(own)
    for match in answer.composites:
        names = (name for v in match.nodes for name in changed.nodes[v].origins)
        own = sorted({ids[name] for name in names if name in ids})
        composites.append(replace(match, nodes=tuple(own)))
    whole = _disjoint(composites, refused)
    members = {v for match in whole for v in match.nodes}
    reasons = {v: why for v, why in alone.reasons.items() if v not in kept or v in refused}
    reasons.update(refused)
    for v in members:
        if v in reasons:
            reasons[v] = f"{reasons[v]}; taken only together with the nodes it is fused with"
    supported = tuple(v not in reasons for v in range(len(graph.nodes)))
    return Support(alone.device, supported, dict(sorted(reasons.items())), whole)


def _disjoint(composites: Sequence[Match], refused: dict[int, str]) -> tuple[Match, ...]:
    """Return those that share no node with an earlier one or with unsupported nodes."""
    taken: set[int] = set(refused)
    kept: list[Match] = []
    for match in composites:
        if taken.isdisjoint(match.nodes):
            taken.update(match.nodes)
            kept.append(match)
    return tuple(sorted(kept, key=lambda match: match.nodes))


Kind = Literal["op", "attribute", "opset", "type", "shape", "rank", "size", "lone", "other"]
"""Kind of reason: the op itself, or one inside of it; an attribute's value; the operator set; the
element type of a tensor; a data-dependent shape; too many dimensions; too many bytes; no computing
node joined to it; or a reason of another package's device."""

_JOINTS = re.compile(r"; (?=taken only as a part of |no match of ')")
"""Separator of parts that ``rules`` adds to a reason; tensor names may have semicolons too."""

_NO_MATCH = re.compile(r"no match of ('.*?'): (.*)", re.DOTALL)
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("lone", re.compile(r"^no node that computes is joined to it there$")),
    ("type", re.compile(r"^op .* has no integer kernel, and it computes no floats")),
    ("op", re.compile(r"^op ")),
    ("attribute", re.compile(r"^attribute (?>.*? of )(?>.*? \(it takes ).*\)")),
    ("opset", re.compile(r"^operator set \d+ \(it takes ")),
    ("shape", re.compile(r"^dynamic shape of tensor ")),
    ("rank", re.compile(r"^rank \d+ of tensor ")),
    ("size", re.compile(r"^\S+ \S+ of tensor '.*' \(it takes ")),
    ("type", re.compile(r"^\S+ tensor '")),
)
_NAMED_VALUE = re.compile(r"\b(tensor|value) '([^']*)'")


def cause_of(reason: str) -> tuple[Kind, str]:
    """Return the category of a reason, and its text.

    For an op in a pattern that did not match, the pattern's: what keeps the device from supporting
    all of it.

    >>> cause_of("op LRN")
    ('op', 'op LRN')
    >>> cause_of("op Erf; no match of 'gelu': float64 tensor 'x'")
    ('type', "pattern 'gelu': float64 tensor 'x'")
    """
    own, *more = _JOINTS.split(reason)
    missed = next(filter(None, map(_NO_MATCH.match, more)), None)
    text = missed[2] if missed else own
    for kind, words in _KINDS:
        if words.search(text):
            return kind, text if missed is None else f"pattern {missed[1]}: {text}"
    return "other", own if missed is None else f"pattern {missed[1]}: {text}"


def without_values(tensors: Container[str], reason: str) -> str:
    """Return `reason` without the names of `tensors`, so that equal reasons compare equal."""

    def shorter(found: re.Match[str]) -> str:
        return found[1] if found[2] in tensors else found[0]

    return _NAMED_VALUE.sub(shorter, reason)
