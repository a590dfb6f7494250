"""Support of a model by a device, and kernel figures from the catalog or calibration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.core.text import fields, records
from hetsim.core.units import format_seconds
from hetsim.device.support.rules import without_values
from hetsim.graph.graph import Graph
from hetsim.graph.work import op_key
from hetsim.hardware.kernel_figures import PARAMETERS, Basis, Counted, KernelFigures
from hetsim.reporting.console import cell, pairs, stack, table, table_of
from hetsim.reporting.formatting import ABSENT, count, listed, percent, rate
from hetsim.reporting.tables.question import named_as_if

if TYPE_CHECKING:
    from hetsim.cost.calibration.calibrate import Calibration
    from hetsim.cost.calibration.fit import JudgedNetwork
    from hetsim.device.device import Support
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import DeviceSpec

REASONS_SHOWN = 2
"""Maximum number of reasons in the table for one op; the list by number of nodes has all."""


@dataclass(frozen=True, slots=True)
class OpAnswer:
    """Support of all nodes of one op type, with reasons, most frequent first.

    `nodes` is the sum of those supported alone, only within a pattern, and not at all.
    """

    op: str
    nodes: int
    alone: int
    in_pattern: int
    refused: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SupportAnswer:
    """Support of a model by a device: op types, most nodes first; matches of patterns.

    `reasons` has by reason, without the names of tensors, the refused nodes by op type; `refused`
    the full reason by node id.
    """

    ops: tuple[OpAnswer, ...]
    patterns: Mapping[str, tuple[int, int]]
    reasons: Mapping[str, Mapping[str, int]]
    refused: Mapping[int, str]


def answer_of(graph: Graph, spec: DeviceSpec, support: Support) -> SupportAnswer:
    """Return the summary of `support`, of a device of `spec` for `graph`. O(V + matches)."""
    kinds: dict[str, Counter[str]] = {}
    why: dict[str, Counter[str]] = {}
    refused: dict[int, str] = {}
    for node, alone, taken in zip(graph.nodes, support.supported, support.taken, strict=True):
        op = op_key(node)
        kinds.setdefault(op, Counter())["alone" if alone else "in_pattern" if taken else "no"] += 1
        if not taken:
            reason = refused[node.id] = support.reasons[node.id]
            why.setdefault(without_values(graph.tensors, reason), Counter())[op] += 1
    ops = [
        OpAnswer(
            op,
            found.total(),
            found["alone"],
            found["in_pattern"],
            found["no"],
            _ordered({reason: of[op] for reason, of in why.items() if op in of}),
        )
        for op, found in kinds.items()
    ]
    matches = {pattern.name: (0, 0) for pattern in spec.patterns}
    for match in support.composites:
        number, nodes = matches.get(match.pattern, (0, 0))
        matches[match.pattern] = number + 1, nodes + len(match.nodes)
    return SupportAnswer(
        tuple(sorted(ops, key=lambda answer: (-answer.nodes, answer.op))),
        matches,
        {
            reason: _ordered(found)
            for reason, found in sorted(why.items(), key=lambda item: (-item[1].total(), item[0]))
        },
        refused,
    )


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by name, ordered as in ``tally``: the most frequent first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def query_report(
    name: str, spec: DeviceSpec, model: Model, answer: SupportAnswer
) -> RenderableType:
    """Return the support table by op type, the patterns, and the reasons by number of nodes."""
    total = sum(op.nodes for op in answer.ops)
    alone = sum(op.alone for op in answer.ops)
    inside = sum(op.in_pattern for op in answer.ops)
    header = [
        ("device", f"{named_as_if(name, spec.executes)} ({spec.kind}): {spec.full_name}"),
        ("model", f"{model.name} ({model.source})"),
        (
            "supports",
            f"{alone + inside} of {count(total, 'node')}: {alone} alone, {inside} only within a "
            f"pattern; {total - alone - inside} unsupported",
        ),
    ]
    return stack(
        pairs(header),
        _ops_table(answer),
        table(
            ("pattern", "#matches", "#nodes"),
            ((name, *map(str, found)) for name, found in answer.patterns.items()),
        ),
        table(
            ("#unsupported", "reason", "op types"),
            ((str(sum(ops.values())), why, listed(ops)) for why, ops in answer.reasons.items()),
        ),
    )


def _ops_table(answer: SupportAnswer) -> Table:
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
    return table(("op type", "#nodes", "#alone", "#in a pattern", "#unsupported", "reason"), rows)


def query_record(
    name: str, spec: DeviceSpec, model: Model, answer: SupportAnswer
) -> dict[str, Any]:
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
        "ops": records(answer.ops),
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


def kernels_table(kernels: Mapping[str, KernelFigures]) -> Table:
    """Return one row per precision: rate, bandwidth, launch and dispatch."""

    def speed(name: str, unit: str) -> Callable[[tuple[str, KernelFigures]], str]:
        return lambda row: rate(row[1].value(name), unit)

    return table_of(
        kernels.items(),
        ("|kernels", lambda row: row[0]),
        ("#rate", speed("rate_tflops", "FLOP/s")),
        ("#bandwidth", speed("bandwidth_gbytes_s", "B/s")),
        ("#weights", speed("weights_gbytes_s", "B/s")),
        ("#launch", lambda row: format_seconds(row[1].value("launch_us"))),
        ("#dispatch", lambda row: format_seconds(row[1].dispatch_s)),
        ("|weakest\nstatus", lambda row: row[1].status),
    )


def standing_table(kernels: Mapping[str, KernelFigures]) -> Table:
    """Return one row per precision: device family, measured runtime, and the evidence of both."""
    return table(
        ("|kernels", "|device family", "runtime", "device rests on", "family rests on"),
        (
            (precision, figures.kin, figures.runtime, *rests_text(figures.basis))
            for precision, figures in kernels.items()
        ),
    )


def rests_text(basis: Basis | None) -> tuple[str, str]:
    """Return the counts of evidence, of the device and of its family; dashes without any."""
    if basis is None:
        return ABSENT, ABSENT
    own = "its family" if basis.device is None else _counted(basis.device, ())
    return own, _counted(basis.family, ("die",))


def _counted(one: Counted, more: tuple[str, ...]) -> str:
    numbers = {"network": one.networks, "row": one.rows, "source": one.sources, "die": one.dies}
    return ", ".join(count(numbers[what], what) for what in ("network", "row", "source", *more))


def errors_table(kernels: Mapping[str, KernelFigures]) -> Table:
    """Return out-of-sample errors; without rows if there are none.

    Medians and P90 for networks that were left out of the fit of the device, and of its device
    family.
    """
    left_out = [f"#error, left\nout of {whom},\nmedian / P90" for whom in ("device", "family")]
    rows = ((name, error) for name, figures in kernels.items() for error in figures.errors)
    return table_of(
        rows,
        ("|errors of", lambda row: row[0]),
        ("|batch", lambda row: row[1].batch),
        ("#networks", lambda row: str(row[1].networks)),
        ("#rows", lambda row: str(row[1].rows)),
        (left_out[0], lambda row: errors_text(row[1].median, row[1].p90)),
        (left_out[1], lambda row: errors_text(row[1].unseen_median, row[1].unseen_p90)),
        ("#repeats\ndiffer by", lambda row: percent(row[1].spread)),
    )


def errors_text(median: float | None, p90: float | None) -> str:
    """Return two relative errors as ``6 / 21 %``; a dash if they are unknown."""
    if median is None or p90 is None:
        return ABSENT
    return f"{percent(median).removesuffix(' %')} / {percent(p90)}"


def parameters_table(kernels: Mapping[str, KernelFigures]) -> Table:
    """Return every parameter of every precision, in the unit of its key, with its source."""
    return table(
        ("|parameter", "|kernels", "#value", "|status", "source"),
        (
            (
                one.name,
                precision,
                f"{one.in_key_unit(figures.value(one.name)):.4g}",
                *figures.provenance[one.name],
            )
            for one in PARAMETERS
            for precision, figures in kernels.items()
        ),
    )


ERRORS = "errors(batch networks rows median p90 unseen_median unseen_p90 spread sd common)"
"""Fields of out-of-sample errors."""


def kernels_record(kernels: Mapping[str, KernelFigures]) -> dict[str, Any]:
    """Return the figures as a record for ``to_json``, in the units of their keys."""
    return {
        precision: {
            **fields(figures, "kin runtime source status"),
            "parameters": {
                parameter.name: {
                    "value": parameter.in_key_unit(figures.value(parameter.name)),
                    **stated(figures.provenance[parameter.name]),
                }
                for parameter in PARAMETERS
            },
            **fields(figures, f"{ERRORS} rests_on=basis"),
        }
        for precision, figures in kernels.items()
    }


def stated(provenance: tuple[str, str]) -> dict[str, str]:
    """Return the status and source of a figure as a record."""
    return dict(zip(("status", "source"), provenance, strict=True))


def calibration_report(done: Calibration) -> RenderableType:
    """Return settings, errors of whole networks, and errors of parts."""
    setting = done.setting
    clock = "CPU time" if setting.clock == "cpu" else "wall clock"
    lines = [
        f"measured  {setting.machine['processor']}, {count(setting.threads, 'thread')}, {clock}",
        f"runtime   {setting.runtime}, {setting.provider}",
        f"fitted    to {done.networks} generated networks"
        + ("" if done.complete else "; the time budget ended early, so run it again"),
        f"repeats   differ by {percent(done.spread)}",
    ]
    if done.noisy:
        lines.append(
            f"warning   other processes took {percent(done.waited)} of the time; stop them, delete "
            "the journal, and run it again"
        )
    whole = [one for one in done.judged if not one.part]
    said = [_said("whole network", whole), _said("part", [o for o in done.judged if o.part])]
    said.append(f"wrote {done.output}; measurements are in {done.journal}")
    return stack(
        Text("\n".join(lines)),
        table_of(
            whole,
            "|held out=name",
            "#measured=measured_s",
            "#predicted=predicted_s",
            ("#error", lambda one: f"{one.error:+.1%}".replace("%", " %")),
            ("#repeats", lambda one: f"\N{PLUS-MINUS SIGN}{percent(one.spread)}"),
        ),
        Text("\n".join(line for line in said if line)),
    )


def calibration_record(done: Calibration) -> dict[str, Any]:
    """Return a calibration as a record."""
    from hetsim.cost.calibration.fit import median_and_p90

    return {
        "schema": "hetsim-calibrate/1",
        **fields(done, "output journal"),
        **fields(done.setting, "provider threads runtime machine clock"),
        **fields(
            done,
            "networks complete spread waited noisy "
            "judged(name part measured_s predicted_s error spread)",
        ),
        "errors": {
            name: None if found is None else {"median": found[0], "p90": found[1]}
            for name, found in (
                ("whole", median_and_p90([one for one in done.judged if not one.part])),
                ("parts", median_and_p90([one for one in done.judged if one.part])),
            )
        },
    }


def _said(what: str, judged: list[JudgedNetwork]) -> str:
    from hetsim.cost.calibration.fit import median_and_p90

    found = median_and_p90(judged)
    if found is None:
        return ""
    return f"{count(len(judged), what)}: median error {percent(found[0])}, P90 {percent(found[1])}"
