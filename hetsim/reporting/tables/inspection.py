"""What a model is made of, as tables and as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.base.text import plain
from hetsim.base.units import format_bytes, format_flops
from hetsim.graph.graph import Tensor
from hetsim.graph.shapes.unbound import binding_flags
from hetsim.problem.record import seen_record, supposed_record
from hetsim.reporting.inspection import Inspection, OpFacts, refused_count, shape_text
from hetsim.reporting.words.console import cell, new_table, pairs
from hetsim.reporting.words.like_devices import fold_rows
from hetsim.reporting.words.plan_figures import as_if, shape_rows
from hetsim.reporting.words.text import ABSENT, big

REASONS_SHOWN = 2
"""Reasons that the table gives for one op on one device; the JSON has all."""

if TYPE_CHECKING:
    from hetsim.hardware.spec import Platform


def inspection_report(inspection: Inspection, *, wide: bool = False) -> RenderableType:
    """Return header, op types, and with a platform who supports what.

    `wide` adds the class by which each op is costed.
    """
    parts: list[RenderableType] = [
        pairs(_header(inspection)),
        Text(""),
        _ops_table(inspection, wide=wide),
    ]
    if inspection.needs is not None:
        parts += [Text(""), Text(f"No FLOPs for some nodes: {plain(inspection.needs)}")]
    if inspection.support:
        parts += [Text(""), _support_table(inspection)]
    return Stack(*parts)


def _header(inspection: Inspection) -> list[tuple[str, str]]:
    model, graph = inspection.model, inspection.model.graph
    opsets = ", ".join(f"{name or 'ai.onnx'} {v}" for name, v in sorted(graph.opsets.items()))
    rows = [
        ("model", f"{model.name} ({model.source}), sha256 {model.sha256[:12]}"),
        (
            "nodes",
            f"{len(graph.nodes)} canonical ({model.canonical}) of {len(model.original_nodes)} in "
            f"the file, {len(model.folded)} folded; opset {opsets}",
        ),
        (
            "parameters",
            f"{big(inspection.parameters)}, {format_bytes(inspection.weight_bytes)}",
        ),
        ("inputs", _tensors(inspection, graph.inputs)),
        ("outputs", _tensors(inspection, graph.outputs)),
        ("FLOPs", _flops(inspection)),
    ]
    if inspection.unbound:
        flags = plain(binding_flags(graph))
        rows.append(("unbound", f"{', '.join(inspection.unbound)}: bind with {flags}"))
    if model.frozen:
        rows.append(("frozen", plain(", ".join(sorted(model.frozen)))))
    rows.extend(shape_rows(model))
    uncosted = [f"{op.op}: {op.why}" for op in inspection.ops if not op.costed]
    rows.append(("not priced", plain("; ".join(uncosted)) or "none"))
    if inspection.executed:
        rows.append(("as if", plain(as_if(inspection.executed))))
    if inspection.supposed is not None:
        rows.append(("what if", plain(str(inspection.supposed))))
    return rows


def _flops(inspection: Inspection) -> str:
    if inspection.flops is None:
        return "unknown"
    whole = all(op.costed for op in inspection.ops)
    return format_flops(inspection.flops) + ("" if whole else ", and what is not priced")


def _tensors(inspection: Inspection, names: tuple[str, ...]) -> str:
    return "; ".join(_tensor(inspection.model.graph.tensors[name]) for name in names) or "none"


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.name}: {tensor.dtype} {shape_text(tensor.shape)}"


def _ops_table(inspection: Inspection, *, wide: bool) -> Table:
    table = new_table()
    table.add_column(Text("op type"), overflow="fold", min_width=18)
    if wide:
        table.add_column(Text("class"), no_wrap=True)
    for name in ("nodes", "FLOP", "share", "reads", "weights", "writes"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for op in inspection.ops:
        table.add_row(
            cell(op.op),
            *([cell(_class(op))] if wide else []),
            cell(str(op.count)),
            cell(ABSENT if op.flops is None else big(op.flops)),
            cell(_share(op.flops, inspection.flops)),
            cell(ABSENT if op.read_bytes is None else format_bytes(op.read_bytes)),
            cell(ABSENT if op.weight_bytes is None else format_bytes(op.weight_bytes)),
            cell(ABSENT if op.write_bytes is None else format_bytes(op.write_bytes)),
        )
    return table


def _class(op: OpFacts) -> str:
    return op.op_class if op.costed else f"{op.op_class} (no rule)"


def _share(part: int | None, whole: int | None) -> str:
    return ABSENT if part is None or not whole else f"{100 * part / whole:.1f} %"


def _support_table(inspection: Inspection) -> Table:
    table = new_table()
    devices = fold_rows(
        inspection.support,
        lambda support: support.device,
        lambda support: (
            support.supported,
            repr(support.refused),
            inspection.executed.get(support.device),
        ),
    )
    table.add_column(Text("op type"), overflow="fold", min_width=18)
    table.add_column(Text("nodes"), justify="right", no_wrap=True)
    for name, support in devices:
        precision = inspection.executed.get(support.device)
        heading = [name] if precision is None else [name, f"as if {precision}"]
        table.add_column(cell(*heading), justify="right", overflow="fold")
    table.add_column(Text("why not"), overflow="fold", ratio=1, min_width=16)
    for op in inspection.ops:
        cells, reasons = [], []
        for name, support in devices:
            refused = refused_count(support, op.op)
            taken = op.count - refused
            cells.append(
                cell("yes", style="green")
                if not refused
                else cell("no" if not taken else f"{taken} of {op.count}", style="red")
            )
            found = list(support.refused.get(op.op, {}).items())
            if found:
                text = ", ".join(
                    reason if number == refused else f"{reason} ({number})"
                    for reason, number in found[:REASONS_SHOWN]
                )
                more = len(found) - REASONS_SHOWN
                reasons.append(f"{name}: {text}" + (f", +{more} more" if more > 0 else ""))
        table.add_row(cell(op.op), cell(str(op.count)), *cells, cell(*reasons))
    table.add_section()
    total = len(inspection.model.graph.nodes)
    table.add_row(
        cell("all", style="bold"),
        cell(str(total)),
        *(cell(str(support.supported)) for _, support in devices),
        cell(""),
    )
    return table


def inspection_record(inspection: Inspection, platform: Platform | None) -> dict[str, Any]:
    """Return the facts as a record for ``to_json``; `platform` is the one that was asked."""
    model, graph = inspection.model, inspection.model.graph
    return {
        "schema": "hetsim-inspection/1",
        "model": {
            "name": model.name,
            "source": model.source,
            "sha256": model.sha256,
            "canonical": model.canonical,
            "opsets": dict(sorted(graph.opsets.items())),
            "dims": dict(sorted(model.dims.items())),
            "frozen": sorted(model.frozen),
            "observed": seen_record(model),
        },
        "nodes": len(graph.nodes),
        "original_nodes": len(model.original_nodes),
        "folded_nodes": len(model.folded),
        "parameters": inspection.parameters,
        "weight_bytes": inspection.weight_bytes,
        "flops": inspection.flops,
        "unbound_dims": list(inspection.unbound),
        "unpriced_ops": {
            op.op: op.why for op in sorted(inspection.ops, key=lambda op: op.op) if not op.costed
        },
        "inputs": [_tensor_record(graph.tensors[name]) for name in graph.inputs],
        "outputs": [_tensor_record(graph.tensors[name]) for name in graph.outputs],
        "ops": [
            {
                "op": op.op,
                "class": op.op_class,
                "nodes": op.count,
                "flops": op.flops,
                "read_bytes": op.read_bytes,
                "weight_bytes": op.weight_bytes,
                "write_bytes": op.write_bytes,
                "costed": op.costed,
            }
            for op in inspection.ops
        ],
        "platform": None if platform is None else platform.name,
        **({} if platform is None else supposed_record(platform)),
        "execute": dict(inspection.executed),
        "support": {
            support.device: {"nodes": support.supported, "refused": support.refused}
            for support in inspection.support
        },
    }


def _tensor_record(tensor: Tensor) -> dict[str, Any]:
    shape = None if tensor.shape is None else list(tensor.shape)
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": shape}
