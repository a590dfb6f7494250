"""``docs/fidelity.md``: predicted against measured, told from the points alone."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.fidelity.judged import device_of
from catalog.fidelity.points import FidelityPoint, Predicted, grouped
from catalog.fidelity.sections import (
    Summary,
    errors_of,
    errors_sections,
    milliseconds,
    percent,
    share,
    spread,
    worst_section,
)
from catalog.fidelity.server.points import ServerPoint
from catalog.fidelity.server.section import server_section
from hetsim.hardware.catalog import device_names


def page_text(points: Sequence[FidelityPoint], server: Sequence[ServerPoint]) -> str:
    """Return the document, the same text for the same points and catalog."""
    sections = [
        _top(points),
        *errors_sections(points),
        server_section(server),
        worst_section(points),
        _devices(points),
        _unmeasured(points),
        _networks(points),
    ]
    return "\n".join(sections)


def _top(points: Sequence[FidelityPoint]) -> str:
    devices = {point.device.partition(":")[0] for point in points}
    networks = {point.network for point in points}
    rows = sum(point.rows for point in points)
    return f"""\
# Fidelity: predicted against measured

Written by `make fidelity` out of `data/fidelity/points.csv`, which `make fit` writes.
{len(points)} points: {len(networks)} networks on {len(devices)} devices of the catalog, at the
batches and in the precisions in which others measured and published them; {rows} rows in all
(`data/measured/README.md`). A point is the median of comparable rows: one chip, runtime, precision
and setting. Errors are those of the predicted time as a share of the measured one. A device that
was measured in several runtimes is told by each; `:ncnn` names one that is not its first.

A point is predicted four times:

- *shipped*: by the figures of the catalog. **In sample**: they were fitted to these points, so
  this says how well the formula can follow, not how well it foretells.
- *left out of the device*: by figures fitted without the device's rows of the network, at any
  batch, and without those of the same chip in other settings or under other names; other devices of
  its kin may have run it: what to expect of a network that somebody has measured elsewhere.
- *left out of its kin*: by figures fitted without any device's rows of the network or of another
  of its family (BERT of any size, MobileNet of any width): what to expect of a network the like of
  which nobody has measured, on a device that was. Where all networks of a kin are of one family,
  each is left out alone.
- *datasheet*: by what other chips of its kin teach, at the device's datasheet, without any row of
  the chip: what to expect of a device that nobody has measured.

Intervals hold 80 %: those of what was left out are as wide as the misses of other networks and
other chips say. The *spread* is how far the largest of repeated measurements is above the least:
below it no prediction can go.

![Predicted against measured, by kind of device](fidelity.svg)

![Predicted over measured, by device](fidelity-devices.svg)
"""


def _devices(points: Sequence[FidelityPoint]) -> str:
    lines = [
        "## Devices\n",
        "Median error / 90th percentile. *Covered*: by the 80 % intervals of what stands before "
        "it.\n",
        "| device | precision | kin | networks | rows | spread | shipped (in sample) | "
        "left out of the device | covered | left out of its kin | covered | datasheet |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (device, precision), found in grouped(points, lambda p: (p.device, p.precision)).items():
        of_device = Summary.of(found, lambda p: p.left_out)
        unseen = Summary.of(found, lambda p: p.unseen)
        between = spread(found)
        cells = [
            device,
            precision,
            found[0].kin,
            str(len({p.network for p in found})),
            str(sum(p.rows for p in found)),
            "-" if between is None else percent(between),
            errors_of(Summary.of(found, lambda p: p.shipped)),
            errors_of(of_device),
            "-" if of_device is None else share(of_device.covered),
            errors_of(unseen),
            "-" if unseen is None else share(unseen.covered),
            errors_of(Summary.of(found, lambda p: p.datasheet)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _unmeasured(points: Sequence[FidelityPoint]) -> str:
    measured = {(point.device, point.precision) for point in points}
    lines = [
        "## Without rows of their own\n",
        "What these devices take in these precisions nobody has published, or not comparably. A "
        "*prior* is what devices of its kin have, at its datasheet; its error is that over chips "
        "that were left out. What has no kin is priced by the roofline.\n",
        "| device | precision | figures | median / 90th percentile at batch 1 |",
        "|---|---|---|---|",
    ]
    every = [
        f"{name}{runtime}"
        for name in device_names()
        for runtime in ("", *(f":{other}" for other in sorted(device_of(name).runtimes)))
    ]
    for name in every:
        kernels = device_of(name).kernels
        for precision, figures in sorted(kernels.items()):
            if (name, precision) not in measured:
                error = figures.error()
                told = errors_of(error)
                if error and error.unseen_median is not None and error.unseen_p90 is not None:
                    told += f"; {percent(error.unseen_median)} / {percent(error.unseen_p90)}"
                lines.append(
                    f"| {name} | {precision} | {figures.standing}, {figures.kin} | {told} |"
                )
        if not kernels:
            lines.append(f"| {name} | all | roofline | - |")
    return "\n".join(lines) + "\n"


def _networks(points: Sequence[FidelityPoint]) -> str:
    lines = [
        "## Networks\n",
        "Milliseconds a batch: measured (least to largest where they differ); left out of the "
        "device and of its kin, each with its 80 % interval in times, in bold where it does not "
        "hold; shipped.\n",
    ]
    ordered = sorted(points, key=lambda p: (p.network, p.batch, p.device, p.precision))
    for network, found in grouped(ordered, lambda p: p.network).items():
        told = errors_of(Summary.of(found, lambda p: p.left_out))
        unseen = errors_of(Summary.of(found, lambda p: p.unseen))
        lines += [
            f"<details><summary>{network}: {len(found)} points, left out of the device {told}, of "
            f"its kin {unseen}</summary>\n",
            "| device | precision | batch | measured | of the device | within | of its kin | "
            "within | shipped |",
            "|---|---|---|---|---|---|---|---|---|",
            *map(_line, found),
            "\n</details>\n",
        ]
    return "\n".join(lines)


def _line(point: FidelityPoint) -> str:
    measured = milliseconds(point.measured_s)
    if point.highest_s > point.lowest_s * 1.001:
        measured += f" ({milliseconds(point.lowest_s)} to {milliseconds(point.highest_s)})"
    shipped = "-" if point.shipped is None else milliseconds(point.shipped.seconds)
    cells = [
        point.device,
        point.precision,
        str(point.batch),
        measured,
        *_interval(point.left_out, point.measured_s),
        *_interval(point.unseen, point.measured_s),
        shipped,
    ]
    return f"| {' | '.join(cells)} |"


def _interval(predicted: Predicted | None, measured_s: float) -> tuple[str, str]:
    if predicted is None:
        return "-", "-"
    told = milliseconds(predicted.seconds)
    shown = told if predicted.covers(measured_s) else f"**{told}**"
    return shown, f"{predicted.within:.2f}"
