"""Devices and platforms, with the source of each figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.base.units import format_bytes, format_seconds
from hetsim.hardware.executing import executed
from hetsim.hardware.files.checking import Checked
from hetsim.hardware.files.kernels_schema import FittedModel
from hetsim.hardware.files.kin_schema import KinModel
from hetsim.hardware.files.platform_schema import LinkModel
from hetsim.hardware.spec import DeviceSpec, Platform
from hetsim.problem.evidence import Evidence
from hetsim.problem.evidence_of_platform import float_evidence, link_evidence
from hetsim.problem.record import evidence_record, figures_record
from hetsim.reporting.tables.kernel_figures import (
    errors_table,
    kernels_record,
    kernels_table,
    parameters_table,
    standing_table,
)
from hetsim.reporting.tables.links import links_table, provenance_table
from hetsim.reporting.words.console import cell, new_table, pairs
from hetsim.reporting.words.like_devices import fold_links, fold_rows
from hetsim.reporting.words.plan_figures import as_if
from hetsim.reporting.words.provenance import evidence_text, figures_text
from hetsim.reporting.words.sustained import shared_text
from hetsim.reporting.words.text import ABSENT, count, rate

SHOWN_DTYPES = ("float32", "float16", "int8")
ON_ROWS = ("measured", "fitted")
"""How figures of kernels stand that rest on measurements of the device."""
LINKS_SHOWN = 8
"""Links that the list gives for one platform; showing the platform gives all."""


def devices_report(
    devices: Sequence[tuple[str, DeviceSpec]],
    links: Sequence[tuple[str, LinkModel]],
    platforms: Sequence[tuple[str, Platform]],
    *,
    wide: bool = False,
) -> RenderableType:
    """Return the catalog: devices, links, and the platforms that they make up.

    `wide` adds the full names, and which figures of kernels are measured.
    """
    return Stack(
        _devices_table(devices, wide=wide),
        Text(""),
        links_table(links, wide=wide),
        Text(""),
        _platforms_table(platforms),
    )


def _devices_table(devices: Sequence[tuple[str, DeviceSpec]], *, wide: bool) -> Table:
    table = new_table()
    table.add_column(Text("device"), no_wrap=True)
    for dtype in SHOWN_DTYPES:
        table.add_column(cell(dtype, "FLOP/s"), justify="right", no_wrap=True)
    table.add_column(cell("memory", "bandwidth"), justify="right", no_wrap=True)
    table.add_column(Text("memory"), justify="right", no_wrap=True)
    if wide:
        table.add_column(cell("kernels", "measured"), no_wrap=True)
        table.add_column(Text("kind"), no_wrap=True)
        table.add_column(Text("full name"), overflow="fold", min_width=24)
    folded_rows = fold_rows(devices, lambda row: row[0], lambda row: _figures(row[1]))
    rows = devices if wide else [(name, row[1]) for name, row in folded_rows]
    for name, spec in rows:
        more = [cell(_measured(spec)), cell(spec.kind), cell(spec.full_name)] if wide else []
        table.add_row(cell(name), *(cell(figure) for figure in _figures(spec)), *more)
    return table


def _figures(spec: DeviceSpec) -> tuple[str, ...]:
    return (
        *(
            rate(spec.flops_per_s[dtype], "") if dtype in spec.flops_per_s else ABSENT
            for dtype in SHOWN_DTYPES
        ),
        rate(spec.bytes_per_s, "B/s"),
        format_bytes(spec.memory_bytes),
    )


def _measured(spec: DeviceSpec) -> str:
    """The precisions whose figures rest on measurements of the device."""
    stand = (name for name, known in spec.kernels.items() if known.standing in ON_ROWS)
    return " ".join(stand) or ABSENT


def _platforms_table(platforms: Sequence[tuple[str, Platform]]) -> Table:
    table = new_table()
    table.add_column(Text("platform"), no_wrap=True)
    table.add_column(Text("devices"), overflow="fold")
    table.add_column(Text("links"), overflow="fold")
    for name, platform in platforms:
        table.add_row(
            cell(name),
            cell(*_members(platform)),
            cell(*_joined(platform)),
        )
    return table


def _joined(platform: Platform) -> list[str]:
    joined = fold_links(platform.links)
    lines = [ends for ends, _ in joined[:LINKS_SHOWN]]
    more = len(joined) - len(lines)
    return [*lines, f"+{more} more"] if more else lines


def _members(platform: Platform) -> list[str]:
    rows = fold_rows(
        list(platform.devices.items()),
        lambda row: row[0],
        lambda row: (row[1].name, row[1].executes, row[0] == platform.host),
    )
    return [_named(name, spec, platform) for name, (_, spec) in rows]


def _named(device: str, spec: DeviceSpec, platform: Platform) -> str:
    host = " (host)" if device == platform.host else ""
    as_if = "" if spec.executes is None else f", as if {spec.executes}"
    return f"{device}: {spec.name}{as_if}{host}"


def device_report(name: str, spec: DeviceSpec, *, wide: bool = False) -> RenderableType:
    """Return every figure of a device, and where each is from.

    Of what its kernels take the main figures and their errors; `wide` adds every parameter.
    """
    rule = spec.support
    rows = [
        ("device", f"{name} ({spec.kind})"),
        ("full name", spec.full_name),
        ("memory", f"{format_bytes(spec.memory_bytes)}, {rate(spec.bytes_per_s, 'B/s')} at an "
         f"efficiency of {spec.memory_efficiency:g}"),
        ("launch", f"{format_seconds(spec.launch_s)} a kernel"),
        ("dispatch", f"{format_seconds(spec.dispatch_s)} a subgraph"),
        ("streams", str(spec.streams)),
        ("power", f"{spec.idle_w:g} W idle, {spec.busy_w:g} W busy"),
        ("backend", spec.backend),
        ("ops", "all" if rule.ops is None else ", ".join(sorted(rule.ops))),
    ]  # fmt: skip
    if rule.except_ops:
        rows.append(("not ops", ", ".join(sorted(rule.except_ops))))
    if rule.ops is None:
        foreign = "all" if rule.foreign is None else ", ".join(sorted(rule.foreign)) or "none"
        rows.append(("other domains", foreign))
    if spec.quantized:
        rows.append(("quantized", ", ".join(sorted(spec.quantized))))
    rows.append(("dtypes", "all" if rule.dtypes is None else ", ".join(sorted(rule.dtypes))))
    if rule.opset is not None:
        rows.append(("operator set", f"{rule.opset[0]} to {rule.opset[1]}"))
    if rule.max_rank is not None:
        rows.append(("rank", f"at most {rule.max_rank}"))
    if rule.max_tensor_bytes is not None:
        rows.append(("tensors", f"at most {format_bytes(rule.max_tensor_bytes)}"))
    for op, limits in sorted(rule.attributes.items()):
        shown = "; ".join(
            f"{name} {', '.join(str(value) for value in values)}" for name, values in limits.items()
        )
        rows.append((op, shown))
    if rule.static_shapes_only:
        rows.append(("shapes", "static only"))
    rows.extend(
        ("computes", f"{dtype} as {other}") for dtype, other in spec.execution_dtype.items()
    )
    rows.append(("fusions", count(len(spec.fusions), "chain")))
    rows.extend((f"pattern {pattern.name}", pattern.text) for pattern in spec.patterns)
    if spec.runtimes:
        others = ", ".join(sorted(spec.runtimes))
        rows.append(("runtime", f"{spec.runtime}; --runtime takes {others}, too"))
    rows.append(("figures", f"of float models: {evidence_text(float_evidence(name, spec))}"))
    parts: list[RenderableType] = [pairs(rows), Text(""), _peaks_table(spec)]
    if spec.kernels:
        parts += [Text(""), kernels_table(spec.kernels)]
        parts += [Text(""), standing_table(spec.kernels)]
        errors = errors_table(spec.kernels)
        if errors is not None:
            parts += [Text(""), errors]
        if wide:
            parts += [Text(""), parameters_table(spec.kernels)]
    if spec.provenance:
        parts += [Text(""), provenance_table(spec.provenance)]
    return Stack(*parts)


def _peaks_table(spec: DeviceSpec) -> Table:
    table = new_table()
    table.add_column(Text("dense peak"), no_wrap=True)
    table.add_column(Text("rate"), justify="right", no_wrap=True)
    for dtype, flops_per_s in spec.flops_per_s.items():
        table.add_row(cell(dtype), cell(rate(flops_per_s, "FLOP/s")))
    for op_class, efficiency in spec.efficiency.items():
        table.add_row(cell(f"efficiency, {op_class}"), cell(f"{efficiency:g}"))
    return table


def platform_report(name: str, platform: Platform, *, wide: bool = False) -> RenderableType:
    """Return a platform's devices and links; like ones as one, unless `wide`."""
    links = new_table()
    for title in (*(["link"] if wide else []), "between"):
        links.add_column(Text(title), overflow="fold")
    for title in ("latency", "bandwidth", "directions"):
        links.add_column(Text(title), no_wrap=True)
    links.add_column(Text("bus"), overflow="fold")
    every = [(f"{link.a} - {link.b}", link) for link in platform.links]
    for between, link in every if wide else fold_links(platform.links):
        links.add_row(
            *([cell(link.name)] if wide else []),
            cell(between),
            cell(format_seconds(link.latency_s)),
            cell(rate(link.bytes_per_s, "B/s")),
            cell("both at once" if link.duplex else "one at a time"),
            cell(link.bus or ABSENT),
        )
    header = [("platform", name), ("host", platform.host)]
    if executed(platform):
        header.append(("as if", as_if(executed(platform))))
    header.append(("figures", f"of float models: {figures_text(*_evidence(platform))}"))
    if shared := shared_text(platform):
        header.append(("shared", f"{shared}, heeded by --sustained"))
    return Stack(
        pairs(header),
        Text(""),
        _devices_table(list(platform.devices.items()), wide=wide),
        Text(""),
        links,
    )


def _evidence(platform: Platform) -> tuple[list[Evidence], list[Evidence]]:
    """What prices of float models on a platform rest on, by device and by link."""
    return (
        [float_evidence(device, spec) for device, spec in platform.devices.items()],
        [link_evidence(link) for link in platform.links],
    )


def checked_line(checked: Checked) -> str:
    """Return what a valid file describes."""
    found = checked.found
    if isinstance(found, DeviceSpec):
        what = f"{found.kind}, {found.full_name}"
    elif isinstance(found, Platform):
        what = ", ".join(_members(found))
    elif isinstance(found, FittedModel):
        what = ", ".join(found.kernels)
    elif isinstance(found, KinModel):
        what = found.runtime
    else:
        what = "" if found is None else found.full_name
    return f"{checked.file}: valid {checked.sort} '{checked.name}' ({what})"


def checked_record(checked: Checked) -> dict[str, Any]:
    """Return what became of a file as a record for ``to_json``."""
    return {
        "file": checked.file,
        "valid": not checked.errors,
        "sort": checked.sort,
        "name": checked.name,
        "errors": [
            {"where": error.where, "what": error.what, "hint": error.hint}
            for error in checked.errors
        ],
    }


def device_record(name: str, spec: DeviceSpec) -> dict[str, Any]:
    """Return a device as a record for ``to_json``."""
    rule = spec.support
    return {
        "name": name,
        "kind": spec.kind,
        "full_name": spec.full_name,
        "flops_per_s": dict(spec.flops_per_s),
        "bytes_per_s": spec.bytes_per_s,
        "memory_bytes": spec.memory_bytes,
        "memory_efficiency": spec.memory_efficiency,
        "efficiency": dict(spec.efficiency),
        "launch_s": spec.launch_s,
        "dispatch_s": spec.dispatch_s,
        "streams": spec.streams,
        "idle_w": spec.idle_w,
        "busy_w": spec.busy_w,
        "execution_dtype": dict(spec.execution_dtype),
        "support": {
            "ops": None if rule.ops is None else sorted(rule.ops),
            "except_ops": sorted(rule.except_ops),
            "foreign": None if rule.foreign is None else sorted(rule.foreign),
            "dtypes": None if rule.dtypes is None else sorted(rule.dtypes),
            "static_shapes_only": rule.static_shapes_only,
            "opset": None if rule.opset is None else list(rule.opset),
            "max_rank": rule.max_rank,
            "max_tensor_bytes": rule.max_tensor_bytes,
            "attributes": {
                op: {name: list(values) for name, values in limits.items()}
                for op, limits in sorted(rule.attributes.items())
            },
        },
        "fusions": [[list(step) for step in chain] for chain in spec.fusions],
        "patterns": {pattern.name: pattern.text for pattern in spec.patterns},
        "quantized": sorted(spec.quantized),
        "backend": spec.backend,
        "provenance": {
            figure: {"status": status, "source": source}
            for figure, (status, source) in spec.provenance.items()
        },
        "runtime": spec.runtime or None,
        "runtimes": sorted(spec.runtimes),
        "kernels": kernels_record(spec.kernels),
        "figures": evidence_record(float_evidence(name, spec)),
    }


def platform_record(name: str, platform: Platform) -> dict[str, Any]:
    """Return a platform as a record for ``to_json``."""
    return {
        "name": name,
        "sha256": platform.sha256,
        "host": platform.host,
        "devices": {device: spec.name for device, spec in platform.devices.items()},
        "execute": executed(platform),
        "links": [
            {
                "name": link.name,
                "a": link.a,
                "b": link.b,
                "latency_s": link.latency_s,
                "bytes_per_s": link.bytes_per_s,
                "duplex": link.duplex,
                "bus": link.bus,
                "provenance": {
                    figure: {"status": status, "source": source}
                    for figure, (status, source) in link.provenance.items()
                },
            }
            for link in platform.links
        ],
        "power_w": None
        if platform.power_w is None
        else {"value": platform.power_w, **_provenance(platform.power_provenance)},
        "memories": [
            {
                "devices": list(memory.devices),
                "bytes_per_s": memory.bytes_per_s,
                **_provenance(memory.provenance),
            }
            for memory in platform.memories
        ],
        "figures": figures_record(*_evidence(platform)),
    }


def _provenance(stated: tuple[str, str]) -> dict[str, str]:
    return {"status": stated[0], "source": stated[1]}
