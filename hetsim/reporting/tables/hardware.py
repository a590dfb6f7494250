"""Devices and platforms, with the source of each figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from math import exp, hypot
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from hetsim.core.text import Record, fields
from hetsim.core.units import GIGA, format_bytes, format_seconds
from hetsim.hardware.catalog import offers
from hetsim.hardware.datasheet import CORES, FAMILIES
from hetsim.hardware.files.checking import Checked
from hetsim.hardware.files.device_schema import MICROSECONDS
from hetsim.hardware.files.kernels_schema import FittedModel, KinModel
from hetsim.hardware.files.platform_schema import LinkModel
from hetsim.hardware.files.prices_schema import PricesModel
from hetsim.hardware.files.runtimes import runtimes_by_factor
from hetsim.hardware.files.schema import Figure
from hetsim.hardware.kernel_figures import FigureError
from hetsim.hardware.kin import Kin
from hetsim.hardware.price import Offer
from hetsim.hardware.spec import DeviceSpec, Platform
from hetsim.hardware.variants import executed
from hetsim.problem.of_model import basis_floors, float_evidence, link_evidence
from hetsim.problem.parts import Z80, Evidence, Measured
from hetsim.problem.record import evidence_record, figures_record
from hetsim.reporting.tables.devices import (
    error_record,
    errors_table,
    kernels_record,
    kernels_table,
    parameters_table,
    standing_table,
    stated,
)
from hetsim.reporting.tables.question import (
    as_if,
    evidence_lines,
    evidence_text,
    measured_here_text,
    shared_text,
    within_text,
)
from hetsim.reporting.words.console import Heading, pairs, stack, table
from hetsim.reporting.words.text import ABSENT, count, fold_links, fold_rows, percent, rate

SHOWN_DTYPES = ("float32", "float16", "int8")
ON_ROWS = ("measured", "fitted")
"""Statuses of kernel figures that rest on measurements of the device."""
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

    `wide` adds full names, prices of devices, links of platforms, and which figures of kernels
    are measured.
    """
    return stack(
        _devices_table(devices, wide=wide),
        links_table(links, wide=wide),
        _platforms_table(platforms, wide=wide),
    )


def families_record(families: Sequence[tuple[str, Kin]]) -> Record:
    """Return device families, cores and makes of graphics as plain data."""
    return {
        "schema": "hetsim-families/1",
        "families": [
            {
                "name": name,
                **fields(kin, "runtime source"),
                "rests_on": None
                if kin.by_datasheet is None or kin.by_datasheet.basis is None
                else dataclasses.asdict(kin.by_datasheet.basis.family),
                "errors": [error_record(error) for error in _of_chips(kin)],
            }
            for name, kin in families
        ],
        "cores": list(CORES),
        "makes": list(FAMILIES),
    }


def families_report(families: Sequence[tuple[str, Kin]]) -> RenderableType:
    """Return device families, with the error of a chip that was left out of the fit."""
    lines = []
    for name, kin in families:
        of_one = next(iter(_of_chips(kin)), None)
        error, within = ABSENT, ABSENT
        if of_one is not None:
            error = f"{percent(of_one.median).removesuffix(' %')} / {percent(of_one.p90)}"
            basis = None if kin.by_datasheet is None else kin.by_datasheet.basis
            floors = () if basis is None else basis_floors(basis, of_one.sd, of_one.networks)
            sd = hypot(of_one.sd, *(floor.sd for floor in floors))
            within = f"{exp(Z80 * sd):.3g}x"
        lines.append((name, kin.runtime, error, within))
    return stack(
        table(
            (
                "|device family",
                Heading("runtime", 15),
                "#chip left out,\nmedian / P90",
                "#80 % within",
            ),
            lines,
        ),
        pairs([("cores", ", ".join(CORES)), ("makes", ", ".join(FAMILIES))]),
    )


def _of_chips(kin: Kin) -> tuple[FigureError, ...]:
    return () if kin.by_datasheet is None else kin.by_datasheet.errors


def _devices_table(devices: Sequence[tuple[str, DeviceSpec]], *, wide: bool) -> Table:
    folded_rows = fold_rows(devices, lambda row: row[0], lambda row: _figures(row[1]))
    shown = devices if wide else [(name, row[1]) for name, row in folded_rows]
    more = (
        ("#price", "#rent", "|kernels\nmeasured", "|kind", Heading("full name", 24)) if wide else ()
    )
    rates = (f"#{dtype}\nFLOP/s" for dtype in SHOWN_DTYPES)
    return table(
        ("|device", *rates, "#memory\nbandwidth", "#memory", *more),
        (
            (
                name,
                *_figures(spec),
                *((*_prices(name), _measured(spec), spec.kind, spec.full_name) if wide else ()),
            )
            for name, spec in shown
        ),
    )


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


def _platforms_table(platforms: Sequence[tuple[str, Platform]], *, wide: bool) -> Table:
    if wide:
        headings = ("|platform", "#price", "#rent", "devices", "links")
        rows = (
            (name, *_prices(name), _members(platform), _joined(platform))
            for name, platform in platforms
        )
        return table(headings, rows)
    firsts = (
        (name, price_text(known[0]) if (known := offers(name)) else ABSENT, _members(platform))
        for name, platform in platforms
    )
    return table(("|platform", "#price", "devices"), firsts)


def price_text(offer: Offer) -> str:
    """Return the price of an offer.

    >>> from hetsim.hardware.catalog import offers
    >>> price_text(offers("jetson-orin-nano")[0]), price_text(offers("server-t4")[0])
    ('$249', '$0.526/h')
    """
    if offer.usd_per_hour is not None:
        return f"${offer.usd_per_hour:.4g}/h"
    return f"${offer.usd:,.2f}".removesuffix(".00")


def _prices(name: str) -> tuple[str, str]:
    """The first purchase price and the first rent of a name."""
    known = offers(name)
    bought = next((price_text(one) for one in known if one.usd is not None), ABSENT)
    rented = next((price_text(one) for one in known if one.usd is None), ABSENT)
    return bought, rented


def _offers_table(name: str) -> Table | None:
    rows = [
        (
            price_text(one),
            f"{one.machine}: {one.what}" if one.machine else one.what,
            one.month,
            one.kind,
            one.source if one.checked == "page" else f"{one.source} (not read)",
        )
        for one in offers(name)
    ]
    headings = ("#price", Heading("offer", 20), "|month", "|kind", "source")
    return table(headings, rows) if rows else None


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
    """Return every figure of a device with its source.

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
    if spec.runtime:
        others, more = ", ".join(sorted(spec.runtimes)), ", ".join(runtimes_by_factor(spec))
        told = f"; --runtime also takes {others}" if others else ""
        told += f"; by a factor from other chips {more}" if more else ""
        rows.append(("runtime", f"{spec.runtime}{told}"))
    evidence = float_evidence(name, spec)
    within = within_text(exp(Z80 * evidence.sd))
    rows.append(("figures", f"times of float models are {evidence_text(evidence)}, {within}"))
    if evidence.measured_here is not None:
        rows.append(("measured by you", measured_here_text(evidence.measured_here)))
    peaks = [(dtype, rate(speed, "FLOP/s")) for dtype, speed in spec.flops_per_s.items()]
    shares = [(f"efficiency, {op_class}", f"{of:g}") for op_class, of in spec.efficiency.items()]
    kernels = spec.kernels
    return stack(
        pairs(rows),
        _measurements_table(evidence.measured_here),
        table(("|dense peak", "#rate"), [*peaks, *shares]),
        kernels_table(kernels) if kernels else None,
        standing_table(kernels) if kernels else None,
        errors_table(kernels) if kernels else None,
        parameters_table(kernels) if kernels and wide else None,
        _offers_table(name),
        provenance_table(spec.provenance) if spec.provenance else None,
    )


def _measurements_table(here: Measured | None) -> Table | None:
    """Return each measurement of the device's file beside what is predicted without any."""
    if here is None:
        return None
    return table(
        ("|measured network", "|precision", "#batch", "#measured", "#predicted", "#ratio"),
        (
            (
                one.model,
                one.precision or ABSENT,
                str(one.batch) if one.batch else ABSENT,
                format_seconds(one.seconds),
                format_seconds(predicted_s),
                f"{one.seconds / predicted_s:.2f}",
            )
            for one, predicted_s in zip(here.measurements, here.predicted_s, strict=True)
        ),
    )


def platform_report(name: str, platform: Platform, *, wide: bool = False) -> RenderableType:
    """Return a platform's devices and links; like ones as one, unless `wide`."""
    every = [(f"{link.a} - {link.b}", link) for link in platform.links]
    links = table(
        (*(["link"] if wide else []), "between", "|latency", "|bandwidth", "|directions", "bus"),
        (
            (
                *([link.name] if wide else []),
                between,
                format_seconds(link.latency_s),
                rate(link.bytes_per_s, "B/s"),
                _directions(duplex=link.duplex),
                link.bus or ABSENT,
            )
            for between, link in (every if wide else fold_links(platform.links))
        ),
    )
    header = [("platform", name), ("host", platform.host)]
    if executed(platform):
        header.append(("priced as", as_if(executed(platform))))
    if shared := shared_text(platform):
        header.append(("shared", f"{shared}; --sustained takes this into account"))
    devices = _devices_table(list(platform.devices.items()), wide=wide)
    evidence = table(
        ("|times of float models", "provenance", "#80 % within"),
        (
            (one, text, f"{within:.3g}x")
            for one, text, within in evidence_lines(*_evidence(platform))
        ),
    )
    return stack(pairs(header), devices, links, evidence, _offers_table(name))


def _directions(*, duplex: bool) -> str:
    return "full duplex" if duplex else "half duplex"


def _evidence(platform: Platform) -> tuple[list[Evidence], list[Evidence]]:
    """Evidence of float models on a platform, by device and by link."""
    return (
        [float_evidence(device, spec) for device, spec in platform.devices.items()],
        [link_evidence(link) for link in platform.links],
    )


def checked_line(checked: Checked) -> str:
    """Return a line on a valid file."""
    found = checked.found
    if isinstance(found, DeviceSpec):
        what = f"{found.kind}, {found.full_name}"
    elif isinstance(found, Platform):
        what = ", ".join(_members(found))
    elif isinstance(found, FittedModel):
        what = ", ".join(found.kernels)
    elif isinstance(found, KinModel):
        what = found.runtime
    elif isinstance(found, PricesModel):
        what = count(len(found.offers), "offer")
    else:
        what = "" if found is None else found.full_name
    words = {"fitted": "fitted parameters", "kin": "device family", "prices": "price list"}
    kind = words.get(checked.sort or "", checked.sort)
    return f"{checked.file}: valid {kind} '{checked.name}' ({what})"


def device_record(name: str, spec: DeviceSpec) -> dict[str, Any]:
    """Return a device as a record for ``to_json``."""
    rule = spec.support
    return {
        "name": name,
        **fields(
            spec,
            "kind full_name flops_per_s bytes_per_s memory_bytes memory_efficiency efficiency "
            "launch_s dispatch_s streams idle_w busy_w execution_dtype",
        ),
        "support": {
            "ops": None if rule.ops is None else sorted(rule.ops),
            "except_ops": sorted(rule.except_ops),
            "foreign": None if rule.foreign is None else sorted(rule.foreign),
            "dtypes": None if rule.dtypes is None else sorted(rule.dtypes),
            **fields(rule, "static_shapes_only opset max_rank max_tensor_bytes"),
            "attributes": dict(sorted(fields(rule, "attributes")["attributes"].items())),
        },
        **fields(spec, "fusions"),
        "patterns": {pattern.name: pattern.text for pattern in spec.patterns},
        "quantized": sorted(spec.quantized),
        "backend": spec.backend,
        "provenance": {figure: stated(told) for figure, told in spec.provenance.items()},
        "runtime": spec.runtime or None,
        "runtimes": sorted(spec.runtimes),
        "runtimes_by_factor": list(runtimes_by_factor(spec)),
        "measurements": [dataclasses.asdict(one) for one in spec.measurements],
        "kernels": kernels_record(spec.kernels),
        "figures": evidence_record(float_evidence(name, spec)),
        "offers": [dataclasses.asdict(one) for one in offers(name)],
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
                **fields(link, "name a b latency_s bytes_per_s duplex bus"),
                "provenance": {figure: stated(told) for figure, told in link.provenance.items()},
            }
            for link in platform.links
        ],
        "power_w": None
        if platform.power_w is None
        else {"value": platform.power_w, **stated(platform.power_provenance)},
        "memories": [
            {
                **fields(memory, "devices bytes_per_s"),
                **stated(memory.provenance),
            }
            for memory in platform.memories
        ],
        "figures": figures_record(*_evidence(platform)),
        "offers": [dataclasses.asdict(one) for one in offers(name)],
    }


def links_table(links: Sequence[tuple[str, LinkModel]], *, wide: bool = False) -> Table:
    """Return the links of the catalog; `wide` adds their full names."""
    rows = []
    for name, link in links:
        record = link_record(name, link)
        rates = (rate(record[key], "B/s") for key in ("peak_bytes_per_s", "bytes_per_s"))
        full = [link.full_name] if wide else []
        rows.append((name, format_seconds(record["latency_s"]), *rates, *full))
    more = [Heading("full name", 24)] if wide else []
    return table(("|link", "#latency", "#bandwidth", "#reached", *more), rows)


def link_report(name: str, link: LinkModel) -> RenderableType:
    """Return every figure of a link with its source."""
    record = link_record(name, link)
    header = [
        ("link", name),
        ("full name", link.full_name),
        ("latency", format_seconds(record["latency_s"])),
        (
            "bandwidth",
            f"{rate(record['peak_bytes_per_s'], 'B/s')} a direction, at an efficiency of "
            f"{link.efficiency.value:g}: {rate(record['bytes_per_s'], 'B/s')}",
        ),
        ("directions", _directions(duplex=link.duplex)),
    ]
    sources = {key: tuple(entry.values()) for key, entry in record["provenance"].items()}
    return stack(pairs(header), provenance_table(sources))


def provenance_table(provenance: Mapping[str, tuple[str, str]]) -> Table:
    """Return status and source of each figure."""
    rows = ((figure, *stated) for figure, stated in provenance.items())
    return table(("figure", "|status", "source"), rows)


def link_record(name: str, link: LinkModel) -> dict[str, Any]:
    """Return a link as a record for ``to_json``; `bytes_per_s` is what a transfer reaches."""
    figures: dict[str, Figure[float]] = {
        "latency_s": link.latency_us,
        "peak_bytes_per_s": link.bandwidth_gbytes_s,
        "efficiency": link.efficiency,
    }
    peak = link.bandwidth_gbytes_s.value * GIGA
    return {
        "name": name,
        "full_name": link.full_name,
        "latency_s": link.latency_us.value / MICROSECONDS,
        "peak_bytes_per_s": peak,
        "efficiency": link.efficiency.value,
        "bytes_per_s": peak * link.efficiency.value,
        "duplex": link.duplex,
        "provenance": {key: fields(figure, "status source") for key, figure in figures.items()},
    }
