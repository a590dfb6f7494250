"""Which nodes of a model one device takes, alone or in a pattern, and why not the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table

from hetsim.core.text import fields, tally
from hetsim.device.support.rules import without_values
from hetsim.graph.graph import Graph
from hetsim.graph.work import op_key
from hetsim.reporting.words.console import cell, pairs, stack, table
from hetsim.reporting.words.text import count, listed

if TYPE_CHECKING:
    from hetsim.device.device import Support
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import DeviceSpec

REASONS_SHOWN = 2
"""Reasons that the table gives for one op; those by number of nodes are all there."""


@dataclass(frozen=True, slots=True)
class OpAnswer:
    """What the device says of all nodes of one op type, and why nodes are refused, most first.

    `nodes` is the sum of those taken alone, those taken only within a pattern, and those not taken.
    """

    op: str
    nodes: int
    alone: int
    in_pattern: int
    refused: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a device says of a model: op types, most nodes first; of patterns matches and their
    nodes.

    `reasons` has by reason, without the names of tensors, the refused nodes by op type; `refused`
    the reason in full by node id.
    """

    ops: tuple[OpAnswer, ...]
    patterns: Mapping[str, tuple[int, int]]
    reasons: Mapping[str, Mapping[str, int]]
    refused: Mapping[int, str]


def answer_of(graph: Graph, spec: DeviceSpec, support: Support) -> Answer:
    """Sum up `support`, the answer of a device of `spec` to `graph`. O(V + matches)."""
    taken = support.taken
    kinds: dict[str, list[str]] = {}
    why: dict[str, list[str]] = {}
    by_reason: dict[str, list[str]] = {}
    refused: dict[int, str] = {}
    for node in graph.nodes:
        op = op_key(node)
        alone = support.supported[node.id]
        kind = "alone" if alone else "in_pattern" if taken[node.id] else "refused"
        kinds.setdefault(op, []).append(kind)
        if kind == "refused":
            refused[node.id] = support.reasons[node.id]
            reason = without_values(graph.tensors, refused[node.id])
            why.setdefault(op, []).append(reason)
            by_reason.setdefault(reason, []).append(op)
    ops = [
        OpAnswer(
            op,
            len(found),
            found.count("alone"),
            found.count("in_pattern"),
            found.count("refused"),
            tally(why.get(op, ())),
        )
        for op, found in kinds.items()
    ]
    matches = {pattern.name: (0, 0) for pattern in spec.patterns}
    for match in support.composites:
        number, nodes = matches.get(match.pattern, (0, 0))
        matches[match.pattern] = number + 1, nodes + len(match.nodes)
    return Answer(
        tuple(sorted(ops, key=lambda answer: (-answer.nodes, answer.op))),
        matches,
        {
            reason: tally(found)
            for reason, found in sorted(
                by_reason.items(), key=lambda item: (-len(item[1]), item[0])
            )
        },
        refused,
    )


def query_report(name: str, spec: DeviceSpec, model: Model, answer: Answer) -> RenderableType:
    """Return the support table by op type, the patterns, and the reasons by number of nodes."""
    total = sum(op.nodes for op in answer.ops)
    alone = sum(op.alone for op in answer.ops)
    inside = sum(op.in_pattern for op in answer.ops)
    as_if = "" if spec.executes is None else f", as if {spec.executes}"
    header = [
        ("device", f"{name}{as_if} ({spec.kind}): {spec.full_name}"),
        ("model", f"{model.name} ({model.source})"),
        (
            "takes",
            f"{alone + inside} of {count(total, 'node')}: {alone} alone, {inside} only in a "
            f"pattern; {total - alone - inside} refused",
        ),
    ]
    return stack(
        pairs(header),
        _ops_table(answer),
        _patterns_table(answer) if answer.patterns else None,
        _reasons_table(answer) if answer.reasons else None,
    )


def _ops_table(answer: Answer) -> Table:
    rows = []
    for op in answer.ops:
        found = list(op.reasons.items())
        reasons = [
            reason if number == op.refused else f"{reason} ({number})"
            for reason, number in found[:REASONS_SHOWN]
        ]
        if len(found) > REASONS_SHOWN:
            reasons.append(f"+{len(found) - REASONS_SHOWN} more")
        refused = cell(str(op.refused), style="red" if op.refused else "")
        rows.append((op.op, str(op.nodes), str(op.alone), str(op.in_pattern), refused, reasons))
    return table(("op type", "#nodes", "#alone", "#in a pattern", "#refused", "why not"), rows)


def _patterns_table(answer: Answer) -> Table:
    return table(
        ("pattern", "#matches", "#nodes"),
        ((name, str(matches), str(nodes)) for name, (matches, nodes) in answer.patterns.items()),
    )


def _reasons_table(answer: Answer) -> Table:
    return table(
        ("#refused", "reason", "op types"),
        ((str(sum(ops.values())), reason, listed(ops)) for reason, ops in answer.reasons.items()),
    )


def query_record(name: str, spec: DeviceSpec, model: Model, answer: Answer) -> dict[str, Any]:
    """Return the answer as a record for ``to_json``, with every refused node."""
    nodes = model.graph.nodes
    return {
        "schema": "hetsim-query/1",
        "device": name,
        "kind": spec.kind,
        "execute": spec.executes,
        "model": {
            **fields(model, "name source sha256 canonical"),
            "dims": dict(sorted(model.dims.items())),
        },
        "nodes": len(nodes),
        "alone": sum(op.alone for op in answer.ops),
        "in_pattern": sum(op.in_pattern for op in answer.ops),
        "refused": len(answer.refused),
        "ops": [fields(op) for op in answer.ops],
        "patterns": [
            {"pattern": pattern, "matches": matches, "nodes": number}
            for pattern, (matches, number) in answer.patterns.items()
        ],
        "reasons": [
            {"reason": reason, "nodes": sum(ops.values()), "ops": dict(ops)}
            for reason, ops in answer.reasons.items()
        ],
        "refused_nodes": [
            {"id": node, "name": nodes[node].name, "op": op_key(nodes[node]), "reason": reason}
            for node, reason in answer.refused.items()
        ],
    }
