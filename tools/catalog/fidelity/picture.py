"""Predicted against measured as pictures: plain SVG text, the same for the same points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import numpy as np

from catalog.fidelity.points import FidelityPoint, Predicted
from catalog.fidelity.sections import Choose

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
