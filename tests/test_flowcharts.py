"""Charts of pages are drawn as they are written, without the network, and read out."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flowcharts import chart_of, columns_of, fence, places_of, svg_of

DOCS = Path(__file__).parents[1] / "docs"
CHARTS = [
    text
    for page in sorted(DOCS.rglob("*.md"))
    for text in re.findall(r"^```mermaid\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
]


def test_charts_of_pages_are_drawn_whole() -> None:
    assert CHARTS
    for text in CHARTS:
        chart, places = chart_of(text), places_of(chart_of(text))
        root = ElementTree.fromstring(fence(text))
        tags = [one.tag.rpartition("}")[2] for one in root.iter()]
        assert tags.count("rect") == len(chart.labels)
        assert tags.count("path") == 2 * len(chart.arrows)
        said = [one.text for one in root.iter() if one.tag.endswith("text")]
        lines = [re.sub("</?b>", "", line) for of in chart.labels.values() for line in of]
        assert sorted(said) == sorted([*lines, *(word for *_, word in chart.arrows if word)])
        assert "http" not in svg_of(text).replace("http://www.w3.org/2000/svg", "")
        for a, b in combinations(places.values(), 2):
            assert a.x + a.width < b.x or b.x + b.width < a.x or a.y + a.height < b.y
        for start, end, _ in chart.arrows:
            assert places[start].x + places[start].width < places[end].x


def test_boxes_stand_right_of_what_leads_to_them() -> None:
    chart = chart_of('flowchart LR\na["A"] --> c\nb --> c["<b>C</b><br>x < y"]\na -- by --> b\n')
    assert columns_of(chart) == [["a"], ["b"], ["c"]]
    assert chart.labels == {"a": ["A"], "c": ["<b>C</b>", "x < y"], "b": ["b"]}
    drawn = svg_of('flowchart LR\na["x < y"] --> b\n')
    assert "<title>x &lt; y to b</title>" in drawn


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("flowchart TD\na --> b", "begins with 'flowchart LR'"),
        ("flowchart LR\na -.-> b", "no arrow between two boxes"),
        ("flowchart LR\na --> b\nb --> a", "circle"),
        ('flowchart LR\na["<i>A</i>"] --> b', "markup"),
    ],
)
def test_what_is_not_known_is_an_error(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        svg_of(text)
