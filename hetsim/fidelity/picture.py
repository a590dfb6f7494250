"""Predicted against measured as pictures: plain SVG text, the same for the same points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import numpy as np

from hetsim.fidelity.points import FidelityPoint, Predicted

_SIDE, _GAP, _TOP, _LEFT = 250, 40, 46, 44
_INK, _GRID, _IN, _OUT = "#333", "#ddd", "#2166ac", "#d6604d"


def scatter(by_kind: Mapping[str, Sequence[FidelityPoint]]) -> str:
    """Return a panel a kind of device: predicted without the network over measured, in ms.

    Lines are equality, half and twice; times outside their interval are of another colour.
    """
    chosen = {
        kind: [(point, point.unseen) for point in points if point.unseen is not None]
        for kind, points in by_kind.items()
    }
    times = [point.measured_s * 1e3 for found in chosen.values() for point, _ in found]
    low = math.floor(math.log10(min(times, default=1.0)))
    high = math.ceil(math.log10(max(times, default=10.0)))
    width = _LEFT + len(chosen) * (_SIDE + _GAP)
    parts = [_open(width, _TOP + _SIDE + 44)]
    for index, (kind, found) in enumerate(chosen.items()):
        left = _LEFT + index * (_SIDE + _GAP)
        parts += _panel(left, low, high, f"{kind}: {len(found)} points", found)
    middle = _LEFT + (width - _LEFT - _GAP) / 2
    parts.append(_text(middle, _TOP + _SIDE + 34, "measured, ms", "middle"))
    parts.append(_text(_LEFT, 14, "predicted without the network, ms; lines: half, equal, twice"))
    parts.append(f'<text x="{_LEFT}" y="28" fill="{_OUT}">outside its 80 % interval</text></svg>\n')
    return "\n".join(parts)


def _panel(
    left: int,
    low: int,
    high: int,
    title: str,
    found: Sequence[tuple[FidelityPoint, Predicted]],
) -> list[str]:
    def at(ms: float) -> float:
        return _SIDE * min(max((math.log10(ms) - low) / (high - low), 0.0), 1.0)

    bottom = _TOP + _SIDE
    parts = [_text(left + 4, _TOP - 5, title)]
    for power in range(low, high + 1):
        x = at(10.0**power)
        label = f"{10.0**power:g}"
        parts += [
            f'<path d="M{left + x:.1f} {_TOP}v{_SIDE}M{left} {bottom - x:.1f}h{_SIDE}" '
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
    """Return a strip a device and precision: predicted without the network over measured.

    A tick a point, a bar from the 10th to the 90th percentile; beyond four times at the edge.
    """
    rows = [
        (name, ratios)
        for name, points in by_device.items()
        if (ratios := sorted(p.unseen.seconds / p.measured_s for p in points if p.unseen))
    ]
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
    parts.append(_text(_NAMES, 10, "predicted without the network, over measured"))
    for index, (name, ratios) in enumerate(rows):
        y = 34 + _ROW * index
        first, last = np.quantile(ratios, [0.1, 0.9]).tolist()
        ticks = "".join(sorted({f"M{at(ratio):.1f} {y + 1}v8" for ratio in ratios}))
        parts += [
            _text(_NAMES - 6, y + 8, name, "end"),
            f'<path d="M{at(first):.1f} {y + 5}H{at(last):.1f}" stroke="{_IN}" '
            'stroke-width="6" stroke-opacity="0.35"/>',
            f'<path d="{ticks}" stroke="{_IN}"/>',
        ]
    return "\n".join(parts) + "\n</svg>\n"


def _open(width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="sans-serif" font-size="10" '
        f'fill="{_INK}">\n<rect width="100%" height="100%" fill="#fff"/>'
    )


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
