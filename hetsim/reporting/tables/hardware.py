"""Devices and platforms, with the source of each figure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import exp, hypot
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from hetsim.core.text import Record, fields, records
from hetsim.core.units import GIGA, MICRO, format_bytes, format_seconds, in_si
from hetsim.hardware.catalog import offers
from hetsim.hardware.datasheet import CORES, FAMILIES
from hetsim.hardware.files.checking import CheckedFile
from hetsim.hardware.files.kernels_schema import FittedModel, KinModel
from hetsim.hardware.files.platform_schema import LinkModel
from hetsim.hardware.files.prices_schema import PricesModel
from hetsim.hardware.files.runtimes import runtimes_by_factor
from hetsim.hardware.files.schema import Figure
from hetsim.hardware.kin import Kin
from hetsim.hardware.price import Offer
from hetsim.hardware.spec import DeviceSpec, Platform
from hetsim.hardware.variants import executed
from hetsim.problem.evidence import basis_floors, link_evidence
from hetsim.problem.of_model import float_evidence
from hetsim.problem.parts import Z80, Evidence, Measured
from hetsim.problem.record import evidence_record, figures_record
from hetsim.reporting.console import Heading, pairs, stack, table, table_of
from hetsim.reporting.formatting import ABSENT, count, fold_links, fold_rows, rate
from hetsim.reporting.tables.devices import (
    ERRORS,
    errors_table,
    errors_text,
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
    named_as_if,
    shared_text,
    within_text,
)

SHOWN_DTYPES = ("float32", "float16", "int8")
ON_ROWS = ("measured", "fitted")
"""Statuses of kernel figures that rest on measurements of the device."""
LINKS_SHOWN = 8
"""Maximum number of links in the list for one platform; the view of the platform has all."""


def devices_report(
    devices: Sequence[tuple[str, DeviceSpec]],
    links: Sequence[tuple[str, LinkModel]],
    platforms: Sequence[tuple[str, Platform]],
    *,
    wide: bool = False,
) -> RenderableType:
    """Return the catalog: devices, links, and the platforms that consist of them.

    `wide` adds full names, prices of devices, links of platforms, and the origin of kernel figures:
    measured or not.
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
                **fields(kin, "runtime source rests_on=by_datasheet.basis.family"),
                "errors": [],
                **(fields(kin.by_datasheet, ERRORS) if kin.by_datasheet else {}),
            }
            for name, kin in families
        ],
        "cores": list(CORES),
        "makes": list(FAMILIES),
    }


def families_report(families: Sequence[tuple[str, Kin]]) -> RenderableType:
    """Return device families, with the error of a chip that was left out of the fit."""

    def error(row: tuple[str, Kin]) -> str:
        by = row[1].by_datasheet
        found = by.errors[:1] if by else ()
        return errors_text(found[0].median, found[0].p90) if found else ABSENT

    def within(row: tuple[str, Kin]) -> str:
        by = row[1].by_datasheet
        if not (by and by.errors):
            return ABSENT
        found, basis = by.errors[0], by.basis
        floors = () if basis is None else basis_floors(basis, found.sd, found.networks)
        return f"{exp(Z80 * hypot(found.sd, *(floor.sd for floor in floors))):.3g}x"

    return stack(
        table_of(
            families,
            ("|device family", lambda row: row[0]),
            (Heading("runtime", 15), lambda row: row[1].runtime),
            ("#chip left out,\nmedian / P90", error),
            ("#80 % within", within),
        ),
        pairs([("cores", ", ".join(CORES)), ("makes", ", ".join(FAMILIES))]),
    )


def _devices_table(devices: Sequence[tuple[str, DeviceSpec]], *, wide: bool) -> Table:
    folded_rows = fold_rows(devices, lambda row: row[0], lambda row: _figures(row[1]))
    rates = (f"#{dtype}\nFLOP/s" for dtype in SHOWN_DTYPES)
    headings = (*rates, "#memory\nbandwidth", "#memory")
    return table_of(
        devices if wide else [(name, row[1]) for name, row in folded_rows],
        ("|device", lambda row: row[0]),
        *((one, lambda row, at=at: _figures(row[1])[at]) for at, one in enumerate(headings)),
        wide and ("#price", lambda row: _prices(row[0])[0]),
        wide and ("#rent", lambda row: _prices(row[0])[1]),
        wide and ("|kernels\nmeasured", lambda row: _measured(row[1])),
        wide and ("|kind", lambda row: row[1].kind),
        wide and (Heading("full name", 24), lambda row: row[1].full_name),
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
    """Precisions whose figures rest on measurements of the device."""
    stand = (name for name, known in spec.kernels.items() if known.standing in ON_ROWS)
    return " ".join(stand) or ABSENT


def _platforms_table(platforms: Sequence[tuple[str, Platform]], *, wide: bool) -> Table:
    def first(row: tuple[str, Platform]) -> str:
        known = offers(row[0])
        return price_text(known[0]) if known else ABSENT

    return table_of(
        platforms,
        ("|platform", lambda row: row[0]),
        ("#price", lambda row: _prices(row[0])[0] if wide else first(row)),
        wide and ("#rent", lambda row: _prices(row[0])[1]),
        ("devices", lambda row: _members(row[1])),
        wide and ("links", lambda row: _joined(row[1])),
    )


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
    """First purchase price and first rent of a name."""
    known = offers(name)
    bought = next((price_text(one) for one in known if one.usd is not None), ABSENT)
    rented = next((price_text(one) for one in known if one.usd is None), ABSENT)
    return bought, rented


def _offers_table(name: str) -> Table:
    return table_of(
        offers(name),
        ("#price", price_text),
        (
            Heading("offer", 20),
            lambda one: f"{one.machine}: {one.what}" if one.machine else one.what,
        ),
        "|month=month",
        "|kind=kind",
        (
            "source",
            lambda one: one.source if one.checked == "page" else f"{one.source} (not read)",
        ),
    )


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
    return f"{device}: {named_as_if(spec.name, spec.executes)}{host}"


def device_report(name: str, spec: DeviceSpec, *, wide: bool = False) -> RenderableType:
    """Return every figure of a device with its source.

    Of the kernels' figures it has the main ones and their errors; `wide` adds every parameter.
    """
    rule = spec.support

    def names(given: Collection[str] | None) -> str:
        return "all" if given is None else ", ".join(sorted(given))

    foreign = None if rule.ops is not None else names(rule.foreign) or "none"
    most = rule.max_tensor_bytes
    others, more = ", ".join(sorted(spec.runtimes)), ", ".join(runtimes_by_factor(spec))
    also = f"; --runtime also takes {others}" if others else ""
    also += f"; by a factor from other chips {more}" if more else ""
    evidence = float_evidence(name, spec)
    here, within = evidence.measured_here, within_text(exp(Z80 * evidence.sd))
    attributes = (
        (
            op,
            "; ".join(f"{name} {', '.join(map(str, values))}" for name, values in limits.items()),
        )
        for op, limits in sorted(rule.attributes.items())
    )
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
        ("ops", names(rule.ops)),
        ("not ops", names(rule.except_ops) if rule.except_ops else None),
        ("other domains", foreign),
        ("quantized", names(spec.quantized) if spec.quantized else None),
        ("dtypes", names(rule.dtypes)),
        ("operator set", rule.opset and f"{rule.opset[0]} to {rule.opset[1]}"),
        ("rank", None if rule.max_rank is None else f"at most {rule.max_rank}"),
        ("tensors", None if most is None else f"at most {format_bytes(most)}"),
        *attributes,
        ("shapes", "static only" if rule.static_shapes_only else None),
        *(("computes", f"{dtype} as {other}") for dtype, other in spec.execution_dtype.items()),
        ("fusions", count(len(spec.fusions), "chain")),
        *((f"pattern {pattern.name}", pattern.text) for pattern in spec.patterns),
        ("runtime", f"{spec.runtime}{also}" if spec.runtime else None),
        ("figures", f"times of float models are {evidence_text(evidence)}, {within}"),
        ("measured by you", None if here is None else measured_here_text(here)),
    ]  # fmt: skip
    peaks = [(dtype, rate(speed, "FLOP/s")) for dtype, speed in spec.flops_per_s.items()]
    shares = [(f"efficiency, {op_class}", f"{of:g}") for op_class, of in spec.efficiency.items()]
    kernels = spec.kernels
    return stack(
        pairs(rows),
        _measurements_table(here),
        table(("|dense peak", "#rate"), [*peaks, *shares]),
        kernels_table(kernels),
        standing_table(kernels),
        errors_table(kernels),
        parameters_table(kernels) if wide else None,
        _offers_table(name),
        provenance_table(spec.provenance),
    )


def _measurements_table(here: Measured | None) -> Table | None:
    """Table of each measurement of the device's file next to the prediction without any."""
    if here is None:
        return None
    return table_of(
        zip(here.measurements, here.predicted_s, strict=True),
        ("|measured network", lambda row: row[0].model),
        ("|precision", lambda row: row[0].precision or ABSENT),
        ("#batch", lambda row: str(row[0].batch) if row[0].batch else ABSENT),
        ("#measured", lambda row: format_seconds(row[0].seconds)),
        ("#predicted", lambda row: format_seconds(row[1])),
        ("#ratio", lambda row: f"{row[0].seconds / row[1]:.2f}"),
    )


def platform_report(name: str, platform: Platform, *, wide: bool = False) -> RenderableType:
    """Return a platform's devices and links; like ones are merged unless `wide`."""
    every = [(f"{link.a} - {link.b}", link) for link in platform.links]
    links = table_of(
        every if wide else fold_links(platform.links),
        wide and ("link", lambda row: row[1].name),
        ("between", lambda row: row[0]),
        ("|latency", lambda row: format_seconds(row[1].latency_s)),
        ("|bandwidth", lambda row: rate(row[1].bytes_per_s, "B/s")),
        ("|directions", lambda row: DIRECTIONS[row[1].duplex]),
        ("bus", lambda row: row[1].bus or ABSENT),
    )
    taken, shared = executed(platform), shared_text(platform)
    header = [
        ("platform", name),
        ("host", platform.host),
        ("priced as", as_if(taken) if taken else None),
        ("shared", f"{shared}; --sustained takes this into account" if shared else None),
    ]
    evidence = table(
        ("|times of float models", "provenance", "#80 % within"),
        (
            (one, text, f"{within:.3g}x")
            for one, text, within in evidence_lines(*_evidence(platform))
        ),
    )
    devices = _devices_table(list(platform.devices.items()), wide=wide)
    return stack(pairs(header), devices, links, evidence, _offers_table(name))


def _evidence(platform: Platform) -> tuple[list[Evidence], list[Evidence]]:
    """Evidence of float models on a platform, by device and by link."""
    return (
        [float_evidence(device, spec) for device, spec in platform.devices.items()],
        [link_evidence(link) for link in platform.links],
    )


def checked_line(checked: CheckedFile) -> str:
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
            **fields(
                rule,
                "ops except_ops foreign dtypes static_shapes_only opset max_rank max_tensor_bytes",
            ),
            "attributes": dict(sorted(fields(rule, "attributes")["attributes"].items())),
        },
        **fields(spec, "fusions"),
        "patterns": {pattern.name: pattern.text for pattern in spec.patterns},
        **fields(spec, "quantized backend"),
        "provenance": {figure: stated(told) for figure, told in spec.provenance.items()},
        "runtime": spec.runtime or None,
        "runtimes": sorted(spec.runtimes),
        "runtimes_by_factor": list(runtimes_by_factor(spec)),
        **fields(spec, "measurements"),
        "kernels": kernels_record(spec.kernels),
        "figures": evidence_record(float_evidence(name, spec)),
        "offers": records(offers(name)),
    }


def platform_record(name: str, platform: Platform) -> dict[str, Any]:
    """Return a platform as a record for ``to_json``."""
    return {
        "name": name,
        **fields(platform, "sha256 host"),
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
            {**fields(memory, "devices bytes_per_s"), **stated(memory.provenance)}
            for memory in platform.memories
        ],
        "figures": figures_record(*_evidence(platform)),
        "offers": records(offers(name)),
    }


def links_table(links: Sequence[tuple[str, LinkModel]], *, wide: bool = False) -> Table:
    """Return the links of the catalog; `wide` adds their full names."""
    rows = [(link_record(name, link), link) for name, link in links]
    return table_of(
        rows,
        ("|link", lambda row: row[0]["name"]),
        ("#latency", lambda row: format_seconds(row[0]["latency_s"])),
        ("#bandwidth", lambda row: rate(row[0]["peak_bytes_per_s"], "B/s")),
        ("#reached", lambda row: rate(row[0]["bytes_per_s"], "B/s")),
        wide and (Heading("full name", 24), lambda row: row[1].full_name),
    )


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
        ("directions", DIRECTIONS[link.duplex]),
    ]
    sources = {key: tuple(entry.values()) for key, entry in record["provenance"].items()}
    return stack(pairs(header), provenance_table(sources))


def provenance_table(provenance: Mapping[str, tuple[str, str]]) -> Table:
    """Return status and source of each figure."""
    rows = ((figure, *stated) for figure, stated in provenance.items())
    return table(("figure", "|status", "source"), rows)


def link_record(name: str, link: LinkModel) -> dict[str, Any]:
    """Return a link as a record for ``to_json``; `bytes_per_s` is the rate of a transfer."""
    figures: dict[str, Figure[float]] = {
        "latency_s": link.latency_us,
        "peak_bytes_per_s": link.bandwidth_gbytes_s,
        "efficiency": link.efficiency,
    }
    peak = link.bandwidth_gbytes_s.value * GIGA
    return {
        "name": name,
        "full_name": link.full_name,
        "latency_s": in_si(link.latency_us.value, MICRO),
        "peak_bytes_per_s": peak,
        "efficiency": link.efficiency.value,
        "bytes_per_s": peak * link.efficiency.value,
        "duplex": link.duplex,
        "provenance": {key: fields(figure, "status source") for key, figure in figures.items()},
    }


DIRECTIONS = {True: "full duplex", False: "half duplex"}
