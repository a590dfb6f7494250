"""Hooks of mkdocs: flow charts drawn when the site is built, and decisions left out of the search.

Pages have them as text that GitHub draws (``mermaid``); the theme would fetch a script to do so.
Taken are charts from left to right, of boxes and arrows with or without a word on them; all else
is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

_BOX = r'(\w+)(?:\["([^"]*)"\])?'
_ARROW = re.compile(rf"{_BOX} (?:-->|-- (.+?) -->) {_BOX}")
_TAG = re.compile(r"<(?!b>|/b>)[^>]*>")

LINE, LETTER = 20, 8.2
"""Pixels from line to line, and that a letter takes at most on average."""
PAD, GAP, BETWEEN = 14, 44, 22
"""Pixels within a box on each side; from column to column at least; between boxes of one."""


@dataclass(slots=True)
class Chart:
    """Boxes and arrows.

    Attributes
    ----------
    labels : dict of str to list of str
        Lines of each box by its name; some within ``<b>``.
    arrows : list of (str, str, str)
        From which box to which, and the word on it.
    """

    labels: dict[str, list[str]] = field(default_factory=dict)
    arrows: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a box is drawn, in pixels."""

    x: float
    y: float
    width: float
    height: float


def chart_of(text: str) -> Chart:
    """Read a chart. Raises ValueError for what is not known here."""
    head, *lines = [line.strip() for line in text.strip().splitlines()]
    if head != "flowchart LR":
        raise ValueError(f"a chart begins with 'flowchart LR', not with '{head}'")
    chart = Chart()
    for line in lines:
        match = _ARROW.fullmatch(line)
        if match is None:
            raise ValueError(f"no arrow between two boxes: '{line}'")
        start, told, word, end, of_end = match.groups()
        for name, label in ((start, told), (end, of_end)):
            if label is not None:
                chart.labels[name] = label.split("<br>")
                if any(map(_TAG.search, chart.labels[name])):
                    raise ValueError(f"markup but <b> and <br>: '{line}'")
            chart.labels.setdefault(name, [name])
        chart.arrows.append((start, end, word or ""))
    return chart


def columns_of(chart: Chart) -> list[list[str]]:
    """Return the boxes by column: each is right of all from which arrows lead to it."""
    column = dict.fromkeys(chart.labels, 0)
    for _ in chart.labels:
        for start, end, _word in chart.arrows:
            column[end] = max(column[end], column[start] + 1)
    if max(column.values()) >= len(column):
        raise ValueError("arrows lead round in a circle")
    return [
        [name for name in chart.labels if column[name] == at]
        for at in range(max(column.values()) + 1)
    ]


def places_of(chart: Chart) -> dict[str, Place]:
    """Return where each box is: columns side by side, each in the middle of the height."""
    columns = columns_of(chart)
    sizes = {name: (_width(lines), len(lines) * LINE + PAD) for name, lines in chart.labels.items()}
    heights = [sum(sizes[name][1] + BETWEEN for name in names) - BETWEEN for names in columns]
    found: dict[str, Place] = {}
    x = 1.0
    for names, height in zip(columns, heights, strict=True):
        y = (max(heights) - height) / 2 + 1
        width = max(sizes[name][0] for name in names)
        for name in names:
            found[name] = Place(x, y, width, sizes[name][1])
            y += sizes[name][1] + BETWEEN
        words = [word for start, _end, word in chart.arrows if start in names]
        x += width + max(GAP, max(map(len, words), default=0) * LETTER + PAD)
    return found


def _width(lines: list[str]) -> float:
    return max(len(_bare(line)) for line in lines) * LETTER + 2 * PAD


def _bare(text: str) -> str:
    """Text without what makes it bold: no other markup is in a chart."""
    return re.sub("</?b>", "", text)


def svg_of(text: str) -> str:
    """Return a chart as a picture that takes the colours of the page, with its text for readers."""
    chart = chart_of(text)
    places = places_of(chart)
    plain = {name: _bare(", ".join(lines)) for name, lines in chart.labels.items()}
    told = "; ".join(
        f"{plain[start]} to {plain[end]}{word and f': {word}'}" for start, end, word in chart.arrows
    )
    width = max(place.x + place.width for place in places.values()) + 1
    height = max(place.y + place.height for place in places.values()) + 1
    parts = [
        f'<svg class="chart" role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="width:100%;max-width:{width:.0f}px" font-size="14" text-anchor="middle" '
        f'fill="currentColor" xmlns="http://www.w3.org/2000/svg"><title>{escape(told)}</title>'
    ]
    for start, end, word in chart.arrows:
        a, b = places[start], places[end]
        x, y, to_x, to_y = a.x + a.width, a.y + a.height / 2, b.x, b.y + b.height / 2
        half = (x + to_x) / 2
        parts.append(
            f'<path d="M{x:.1f} {y:.1f}C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} '
            f'{to_x - 6:.1f} {to_y:.1f}" fill="none" stroke="currentColor"/>'
            f'<path d="M{to_x:.1f} {to_y:.1f}l-8 -4v8z"/>'
        )
        if word:
            # The line stops where the word is.
            parts.append(
                f'<text x="{half:.1f}" y="{(y + to_y) / 2 + 5:.1f}" stroke-width="8" '
                'paint-order="stroke" style="stroke:var(--md-default-bg-color,none)">'
                f"{escape(word)}</text>"
            )
    for name, place in places.items():
        parts.append(
            f'<rect x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" '
            f'height="{place.height:.1f}" rx="4" stroke="currentColor" '
            'style="fill:var(--md-code-bg-color,none)"/>'
        )
        for at, line in enumerate(chart.labels[name], start=1):
            weight = ' font-weight="bold"' if line.startswith("<b>") else ""
            line = escape(_bare(line))
            x, y = place.x + place.width / 2, place.y + PAD / 2 + at * LINE - 5
            parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{weight}>{line}</text>')
    return "".join([*parts, "</svg>"])


def fence(source: str, *_: object, **__: object) -> str:
    """Return a fenced chart as HTML, as ``pymdownx.superfences`` asks for it."""
    return f"<p>{svg_of(source)}</p>"


def on_config(config: Mapping[str, Any]) -> None:
    """Have charts of pages drawn; mkdocs calls this."""
    fences = {"name": "mermaid", "class": "chart", "format": fence}
    config["mdx_configs"].setdefault("pymdownx.superfences", {})["custom_fences"] = [fences]


def on_page_markdown(markdown: str, page: Any, **given: Any) -> None:
    """Leave decisions out of the search, so that it finds the pages that answer a question."""
    if page.file.src_uri.startswith("decisions/"):
        page.meta["search"] = {"exclude": True}
