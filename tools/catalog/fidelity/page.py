"""``docs/fidelity.md`` and its pictures: predicted against measured, told from the points alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import numpy as np

from catalog.fidelity.judged import device_of
from catalog.fidelity.points import FidelityPoint, Predicted, grouped
from catalog.fidelity.sections import (
    Choose,
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

Intervals of what was left out are as wide as the misses of other networks and other chips say, and
hold 80 % of times of the same sources. Those of *shipped* are what `simulate` says: they contain
besides that the user's machine is another source than those of the catalog, within 1.47 times where
figures are of one source (`docs/decisions/21-how-sure.md`). The *spread* is how far the largest of
repeated measurements is above the least: below it no prediction can go.

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


_SIDE, _GAP, _BELOW, _TOP, _LEFT = 250, 40, 40, 46, 44
_INK, _GRID, _IN, _OUT = "#333", "#ddd", "#2166ac", "#d6604d"


_WAYS: Sequence[tuple[str, Choose]] = (
    ("left out of the device", lambda point: point.left_out),
    ("left out of its kin", lambda point: point.unseen),
)


def scatter(by_kind: Mapping[str, Sequence[FidelityPoint]]) -> str:
    """Return a panel a kind of device and way of leaving out: predicted over measured, in ms."""
    times = [point.measured_s * 1e3 for points in by_kind.values() for point in points]
    low = math.floor(math.log10(min(times, default=1.0)))
    high = math.ceil(math.log10(max(times, default=10.0)))
    width = _LEFT + len(by_kind) * (_SIDE + _GAP)
    deep = _SIDE + _BELOW
    parts = [_open(width, _TOP + len(_WAYS) * deep + 14)]
    for row, (words, predicted) in enumerate(_WAYS):
        for column, (kind, points) in enumerate(by_kind.items()):
            found = [(point, one) for point in points if (one := predicted(point)) is not None]
            place = (_LEFT + column * (_SIDE + _GAP), _TOP + row * deep)
            parts += _panel(place, low, high, f"{kind}, {words}: {len(found)} points", found)
    middle = _LEFT + (width - _LEFT - _GAP) / 2
    parts.append(_text(middle, _TOP + len(_WAYS) * deep + 4, "measured, ms", "middle"))
    parts.append(_text(_LEFT, 14, "predicted without the network, ms; lines: half, equal, twice"))
    parts.append(f'<text x="{_LEFT}" y="28" fill="{_OUT}">outside its 80 % interval</text></svg>\n')
    return "\n".join(parts)


def _panel(
    place: tuple[int, int],
    low: int,
    high: int,
    title: str,
    found: Sequence[tuple[FidelityPoint, Predicted]],
) -> list[str]:
    def at(ms: float) -> float:
        return _SIDE * min(max((math.log10(ms) - low) / (high - low), 0.0), 1.0)

    left, top = place
    bottom = top + _SIDE
    parts = [_text(left + 4, top - 5, title)]
    for power in range(low, high + 1):
        x = at(10.0**power)
        label = f"{10.0**power:g}"
        parts += [
            f'<path d="M{left + x:.1f} {top}v{_SIDE}M{left} {bottom - x:.1f}h{_SIDE}" '
            f'stroke="{_GRID}"/>',
            _text(left + x, bottom + 14, label, "middle"),
            _text(left - 4, bottom - x + 4, label, "end"),
        ]
    for factor, dash in ((0.5, "3 3"), (1.0, "none"), (2.0, "3 3")):
        shift = _SIDE * math.log10(factor) / (high - low)
        start, end = max(0.0, -shift), _SIDE - max(0.0, shift)
        parts.append(
            f'<path d="M{left + start:.1f} {bottom - start - shift:.1f}'
            f'L{left + end:.1f} {bottom - end - shift:.1f}" '
            f'stroke="{_INK}" stroke-dasharray="{dash}" fill="none"/>'
        )
    for colour, covered in ((_IN, True), (_OUT, False)):
        dots = sorted(
            {
                f"M{left + at(point.measured_s * 1e3):.1f} {bottom - at(one.seconds * 1e3):.1f}h0"
                for point, one in found
                if one.covers(point.measured_s) == covered
            }
        )
        if dots:
            parts.append(
                f'<path d="{"".join(dots)}" stroke="{colour}" stroke-width="2.4" '
                'stroke-linecap="round" stroke-opacity="0.6"/>'
            )
    return parts


_ROW, _STRIP, _NAMES = 11, 460, 270
_EDGE = 4.0


def strips(by_device: Mapping[str, Sequence[FidelityPoint]]) -> str:
    """Return a strip a device and precision: predicted without the network over measured."""
    rows = {
        name: (of_device, _ratios(points, _WAYS[1][1]))
        for name, points in by_device.items()
        if (of_device := _ratios(points, _WAYS[0][1]))
    }
    bottom = 34 + _ROW * len(rows)

    def at(ratio: float) -> float:
        share = math.log(min(max(ratio, 1 / _EDGE), _EDGE)) / math.log(_EDGE)
        return _NAMES + _STRIP * (1 + share) / 2

    parts = [_open(_NAMES + _STRIP + 20, bottom + 22)]
    for ratio, label in ((0.25, "1/4"), (0.5, "1/2"), (1.0, "1"), (2.0, "2"), (4.0, "4")):
        colour = _INK if ratio == 1 else _GRID
        parts += [
            f'<path d="M{at(ratio):.1f} 28V{bottom}" stroke="{colour}"/>',
            _text(at(ratio), 24, label, "middle"),
            _text(at(ratio), bottom + 14, label, "middle"),
        ]
    parts.append(_text(_NAMES, 10, f"predicted without the network, over measured: {_WAYS[0][0]}"))
    parts.append(f'<text x="{_NAMES + 370}" y="10" fill="{_OUT}">{_WAYS[1][0]}</text>')
    for index, (name, (of_device, of_kin)) in enumerate(rows.items()):
        y = 34 + _ROW * index
        ticks = "".join(sorted({f"M{at(ratio):.1f} {y}v6" for ratio in of_device}))
        parts.append(_text(_NAMES - 6, y + 8, name, "end"))
        for told, colour, middle in ((of_device, _IN, y + 3), (of_kin, _OUT, y + 8)):
            if told:
                first, last = np.quantile(told, [0.1, 0.9]).tolist()
                parts.append(
                    f'<path d="M{at(first):.1f} {middle}H{at(last):.1f}" stroke="{colour}" '
                    'stroke-width="4" stroke-opacity="0.35"/>'
                )
        parts.append(f'<path d="{ticks}" stroke="{_IN}"/>')
    return "\n".join(parts) + "\n</svg>\n"


def _ratios(points: Sequence[FidelityPoint], predicted: Choose) -> list[float]:
    found = [(point, one) for point in points if (one := predicted(point)) is not None]
    return sorted(one.seconds / point.measured_s for point, one in found)


def _open(width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="sans-serif" font-size="10" '
        f'fill="{_INK}">\n<rect width="100%" height="100%" fill="#fff"/>'
    )


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
