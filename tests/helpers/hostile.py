"""Texts that models and files may bring, and that shall be shown as texts wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from browsing import Open
from hetsim.problem.problem import Problem

HOSTILE = (
    "</script><img src=x onerror=window.hostile=1>",
    "<!--<script>window.hostile=1</script>",
    "&lt;b&gt; & \"quoted\" 'text' `x`",
    "a\x00b\x1b[31mred\x1b]0;title\x07\nline\r\u2028end\x9b1m",
    "\u202ertl\u2066mark\u200f",
    "[bold red]markup[/] [link=file:///x]y[/link] %{x} {{ x }} ${x}",
    "long" * 2500,
    "e\u0301\u0301\u0301 \U0001f9e0 漢字 \ufeff\u00ad",
    "\ud800 alone",
)
"""Markup of HTML, of rich, of templates; control characters; bidi marks; 10,000 characters."""

IN_FILES = HOSTILE[:3] + HOSTILE[5:6] + HOSTILE[7:8]
"""Those that a file's name may have, and UTF-8 can say, shorter than a name may be."""


def shown_safely(text: str) -> str:
    """The characters of a text that steer a terminal or turn lines; empty where there are none.

    Of blanks, those of a page's own are allowed: ends of lines, tabs, figures kept with units.
    """
    return "".join(sorted({char for char in text if not char.isprintable()} - set("\n\t\xa0")))


def poisoned(value: Any, names: Mapping[str, str]) -> Any:
    """A record with texts in the place of others, in keys and values, wherever they stand."""
    if isinstance(value, Mapping):
        return {poisoned(key, names): poisoned(inner, names) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [poisoned(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value


def hostile_problem(texts: tuple[str, ...] = HOSTILE) -> Problem:
    """Nodes, operators, tensors, devices and refusals that are called so; each by every text.

    Names are unique by a number behind them: a node's are ``TEXT 3``.
    """
    count = 2 * len(texts)
    rng = np.random.default_rng(0)
    seconds = rng.uniform(1e-4, 3e-3, (count, 3))
    seconds[1::5, 2] = np.inf
    edges = [(v, w, 10**5) for v in range(count) for w in (v + 1, v + 3) if w < count]
    problem = Problem.from_arrays(
        seconds, edges=edges, bytes_per_s=1e9, host=0, contention="fifo", name=texts[0]
    )
    called = cycle(texts)
    devices = tuple(f"{text} d{p}" for p, text in enumerate(texts[1:4]))
    return replace(
        problem,
        devices=devices,
        link_names=tuple(f"{next(called)} {name}" for name in problem.link_names),
        node_names=tuple(f"{texts[v % len(texts)]} {v}" for v in range(count)),
        op_types=tuple(texts[v // 2] for v in range(count)),
        origins=tuple((f"{next(called)} was {v}",) for v in range(count)),
        values=tuple(
            replace(value, name=f"{next(called)} v{k}") for k, value in enumerate(problem.values)
        ),
        refusals=tuple(
            {node: f"{next(called)} is refused" for node in refused} for refused in problem.refusals
        ),
    )


class Outline(HTMLParser):
    """The elements of a page, its scripts, and its text but for that of these and of styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.listeners: list[str] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes.append(dict(attrs))
        self.listeners += [key for key, _ in attrs if key.startswith("on")]
        self.texts += [value for _, value in attrs if value]

    def handle_data(self, data: str) -> None:
        if self.elements[-1:] == ["script"]:
            self.scripts.append(data)
        elif self.elements[-1:] != ["style"]:
            self.texts.append(data)


def strings(value: Any) -> Iterator[str]:
    """Every text of a record, its keys too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


def check_in_a_browser(path: Path, opened: Open, *, width: int = 1280) -> None:
    """Nothing of the names ran, became an element, or turned the page's lines."""
    one = opened(path, width=width)
    for view in one.views():
        one.show(view)
        assert one.too_wide() <= 0, view
    one.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert one.page.evaluate("window.hostile") is None
    assert one.page.locator("img, iframe, object, embed, main script, main style").count() == 0
    shown = one.page.evaluate("document.body.innerText")
    assert shown_safely(shown) == ""
