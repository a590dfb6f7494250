"""Inspection of a model: ops, FLOPs, sizes, and support by the devices of a platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.core.text import fields, grouped, plain, records, tally
from hetsim.core.units import format_bytes, format_flops
from hetsim.errors import UnboundDimension
from hetsim.graph.graph import Graph
from hetsim.graph.shapes.open_shapes import binding_flags, open_dims, open_ranks, unbound
from hetsim.graph.work import node_work, op_key
from hetsim.hardware.variants import executed
from hetsim.problem.record import seen_record, supposed_record
from hetsim.reporting.console import Heading, cell, pairs, stack, table, table_of
from hetsim.reporting.formatting import ABSENT, big, fold_rows, more_text
from hetsim.reporting.tables.question import as_if, shape_rows

if TYPE_CHECKING:
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import Platform, Supposed

REASONS_SHOWN = 2
"""Maximum number of reasons in the table for one op on one device; the JSON has all."""


@dataclass(frozen=True, slots=True)
class OpFacts:
    """Nodes of one op type, with its domain outside the ONNX standard.

    Sums are None if a dimension that they need is not bound. A weight that several nodes read
    counts at each; `read_bytes` leaves weights out. Without a cost function (`costed` is False, for
    the reason `why`) an op is priced by its bytes.
    """

    op: str
    op_class: str
    count: int
    flops: int | None
    read_bytes: int | None
    write_bytes: int | None
    weight_bytes: int | None
    costed: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class DeviceSupport:
    """Number of supported nodes, and counted reasons against others by op type."""

    device: str
    supported: int
    refused: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Facts of a model.

    `parameters` and `weight_bytes` count the constants of floating-point or quantized type that
    nodes read, or contain: in branches of control flow, bodies of functions, trees. `flops` is None
    if a dimension is not bound; `unbound` has dimensions by name or position, then inputs of
    unknown rank as ``x[...]``; `needs` lists the open shapes that costs need, and the options that
    bind them. `ops` have most FLOPs first; `support` is empty without a platform.
    """

    model: Model
    parameters: int
    weight_bytes: int
    flops: int | None
    unbound: tuple[str, ...]
    needs: str | None
    ops: tuple[OpFacts, ...]
    support: tuple[DeviceSupport, ...]
    executed: Mapping[str, str] = field(default_factory=dict)
    supposed: Supposed | None = None


def inspect_model(model: Model, platform: Platform | None = None) -> Inspection:
    """Return the facts of `model`, and its support by the devices of `platform`.

    An unbound dimension is a finding here, not an error: users learn here which ones to bind. O(V
    P).
    """
    graph = model.graph
    ops, needs = _facts_of_ops(graph)
    parameters, weight_bytes = _weights(graph)
    known = [op.flops for op in ops if op.flops is not None]
    return Inspection(
        model=model,
        parameters=parameters,
        weight_bytes=weight_bytes,
        flops=sum(known) if len(known) == len(ops) else None,
        unbound=(*sorted(open_dims(graph)), *(f"{name}[...]" for name in open_ranks(graph))),
        needs=None if needs is None else str(unbound(graph, model.source, model.unmeasured)),
        ops=ops,
        support=() if platform is None else _support(graph, platform),
        executed={} if platform is None else executed(platform),
        supposed=None if platform is None else platform.supposed,
    )


def _facts_of_ops(graph: Graph) -> tuple[tuple[OpFacts, ...], str | None]:
    needs: str | None = None
    facts: list[OpFacts] = []
    for op, nodes in grouped((op_key(node), node) for node in graph.nodes).items():
        works = []
        for node in nodes:
            try:
                works.append(node_work(graph, node))
            except UnboundDimension as error:
                needs = needs or str(error)
        bound = len(works) == len(nodes)
        flops, reads, writes, weights = (
            sum(getattr(work, name) for work in works) if bound else None
            for name in ("flops", "read_bytes", "write_bytes", "weight_bytes")
        )
        op_class = works[-1].op_class if works else "?"
        why = next((work.why for work in works if work.why), "")
        costed = all(work.rule for work in works)
        facts.append(OpFacts(op, op_class, len(nodes), flops, reads, writes, weights, costed, why))
    facts.sort(
        key=lambda fact: (
            -(fact.flops or 0),
            -((fact.read_bytes or 0) + (fact.write_bytes or 0)),
            fact.op,
        )
    )
    return tuple(facts), needs


def _weights(graph: Graph) -> tuple[int, int]:
    read = {name for node in graph.nodes for name in node.reads}
    parameters = weight_bytes = 0
    held = [tensor for node in graph.nodes for tensor in node.held]
    for tensor in (*(graph.tensors[name] for name in sorted(graph.constants & read)), *held):
        # Shapes, axes and indices are stored as constants too, but are not trained.
        if tensor.dtype in ("int64", "int32", "bool", "string"):
            continue
        parameters += tensor.elements
        weight_bytes += tensor.nbytes
    return parameters, weight_bytes


def _support(graph: Graph, platform: Platform) -> tuple[DeviceSupport, ...]:
    from hetsim.device.registry import platform_devices

    found = []
    for device in platform_devices(platform).values():
        support = device.query_model(graph)
        reasons = grouped(
            (op_key(graph.nodes[node]), reason)
            for node, reason in support.reasons.items()
            if not support.taken[node]
        )
        refused = {op: tally(mine) for op, mine in sorted(reasons.items())}
        found.append(DeviceSupport(support.device, sum(support.taken), refused))
    return tuple(found)


def shape_text(shape: Sequence[int | str | None] | None) -> str:
    """Return a shape such as ``[1, 3, N, ?]``."""
    if shape is None:
        return "[...]"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def inspection_report(inspection: Inspection, *, wide: bool = False) -> RenderableType:
    """Return header, op types, and support by device.

    `wide` adds the class by which each op is costed.
    """
    needs = inspection.needs
    return stack(
        pairs(_header(inspection)),
        _ops_table(inspection, wide=wide),
        None if needs is None else Text(f"No FLOPs for some nodes: {plain(needs)}"),
        _support_table(inspection) if inspection.support else None,
    )


def _header(inspection: Inspection) -> list[tuple[str, str | None]]:
    model, graph = inspection.model, inspection.model.graph
    opsets = ", ".join(f"{name or 'ai.onnx'} {v}" for name, v in sorted(graph.opsets.items()))
    unbound, supposed = ", ".join(inspection.unbound), inspection.supposed
    uncosted = [f"{op.op}: {op.why}" for op in inspection.ops if not op.costed]
    return [
        ("model", f"{model.name} ({model.source}), sha256 {model.sha256[:12]}"),
        (
            "nodes",
            f"{len(graph.nodes)} after optimisation ({model.canonical}), "
            f"{len(model.original_nodes)} in the file, {len(model.folded)} folded; opset {opsets}",
        ),
        (
            "parameters",
            f"{big(inspection.parameters)}, {format_bytes(inspection.weight_bytes)}",
        ),
        ("inputs", _tensors(inspection, graph.inputs)),
        ("outputs", _tensors(inspection, graph.outputs)),
        ("FLOPs", _flops(inspection)),
        ("unbound", f"{unbound}: bind with {plain(binding_flags(graph))}" if unbound else None),
        ("frozen", plain(", ".join(sorted(model.frozen))) or None),
        *shape_rows(model),
        ("not priced", plain("; ".join(uncosted)) or "none"),
        ("priced as", plain(as_if(inspection.executed)) if inspection.executed else None),
        ("what if", None if supposed is None else plain(str(supposed))),
    ]


def _flops(inspection: Inspection) -> str:
    if inspection.flops is None:
        return "unknown"
    whole = all(op.costed for op in inspection.ops)
    return format_flops(inspection.flops) + ("" if whole else ", without ops that have no price")


def _tensors(inspection: Inspection, names: tuple[str, ...]) -> str:
    tensors = [inspection.model.graph.tensors[name] for name in names]
    shown = (f"{one.name}: {one.dtype} {shape_text(one.shape)}" for one in tensors)
    return "; ".join(shown) or "none"


def _ops_table(inspection: Inspection, *, wide: bool) -> Table:
    return table_of(
        inspection.ops,
        (Heading("op type", 18), "op"),
        wide and ("|class", lambda op: op.op_class if op.costed else f"{op.op_class} (no rule)"),
        "#nodes=count",
        ("#FLOP", lambda op: ABSENT if op.flops is None else big(op.flops)),
        ("#share", lambda op: _share(op.flops, inspection.flops)),
        "#reads=read_bytes",
        "#weights=weight_bytes",
        "#writes=write_bytes",
    )


def _share(part: int | None, whole: int | None) -> str:
    return ABSENT if part is None or not whole else f"{100 * part / whole:.1f} %"


def _support_table(inspection: Inspection) -> Table:
    devices = fold_rows(
        inspection.support,
        lambda support: support.device,
        lambda support: (
            support.supported,
            repr(support.refused),
            inspection.executed.get(support.device),
        ),
    )
    made = table((Heading("op type", 18), "#nodes"), ())
    for name, support in devices:
        precision = inspection.executed.get(support.device)
        heading = [name] if precision is None else [name, f"as if {precision}"]
        made.add_column(cell(*heading), justify="right", overflow="fold")
    made.add_column(cell("reason"), overflow="fold", min_width=16)
    for op in inspection.ops:
        cells, reasons = [], []
        for name, support in devices:
            refused = sum(support.refused.get(op.op, {}).values())
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
                reasons.append(more_text(f"{name}: {text}", len(found) - REASONS_SHOWN))
        made.add_row(cell(op.op), cell(str(op.count)), *cells, cell(*reasons))
    made.add_section()
    total = len(inspection.model.graph.nodes)
    made.add_row(
        cell("all", style="bold"),
        cell(str(total)),
        *(cell(str(support.supported)) for _, support in devices),
        cell(""),
    )
    return made


def inspection_record(inspection: Inspection, platform: Platform | None) -> dict[str, Any]:
    """Return the facts as a record for ``to_json``; `platform` is the one that was queried."""
    model, graph = inspection.model, inspection.model.graph
    return {
        "schema": "hetsim-inspection/1",
        "model": {
            **fields(model, "name source sha256 canonical"),
            "opsets": dict(sorted(graph.opsets.items())),
            "dims": dict(sorted(model.dims.items())),
            "frozen": sorted(model.frozen),
            "observed": seen_record(model),
        },
        "nodes": len(graph.nodes),
        "original_nodes": len(model.original_nodes),
        "folded_nodes": len(model.folded),
        **fields(inspection, "parameters weight_bytes flops unbound_dims=unbound"),
        "unpriced_ops": {
            op.op: op.why for op in sorted(inspection.ops, key=lambda op: op.op) if not op.costed
        },
        "inputs": records((graph.tensors[name] for name in graph.inputs), "name dtype shape"),
        "outputs": records((graph.tensors[name] for name in graph.outputs), "name dtype shape"),
        "ops": records(
            inspection.ops,
            "op class=op_class nodes=count flops read_bytes weight_bytes write_bytes costed",
        ),
        "platform": None if platform is None else platform.name,
        **({} if platform is None else supposed_record(platform)),
        "execute": dict(inspection.executed),
        "support": {
            support.device: {"nodes": support.supported, "refused": support.refused}
            for support in inspection.support
        },
    }
