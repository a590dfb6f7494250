"""From an island to one HTML file that needs nothing else."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from hetsim.core.text import to_compact_json
from hetsim.reporting.output import write_file
from hetsim.reporting.pages.island import Island, told
from hetsim.reporting.pages.packing import digest, plotly
from hetsim.version import __version__

BYTES_MOST = 2_500_000
"""A report is at most so large; what does not fit is cut, and the page says so."""


_UNIT = re.compile(r"(?<=\d) (%|[num]?s|[KMG]iB|B|[kmu]?J)(?![\w/])")


_OPTION = re.compile(r"(--[a-z][a-z-]*)")


def page(island: Island) -> str:
    """Return the report as HTML, the same for the same island.

    The meta element's policy lets the page's own two scripts run, by their digests, and nothing
    else: no request, and no script that a name may bring. What makes it larger than BYTES_MOST is
    left out, the largest picture first, and the page says so.
    """
    left_out: list[str] = []
    while True:
        text = _rendered(island, left_out)
        if len(text.encode()) <= BYTES_MOST or not island.pictures:
            return text
        largest = max(island.pictures, key=lambda name: len(to_compact_json(island.pictures[name])))
        left_out.append(largest)
        pictures = {name: one for name, one in island.pictures.items() if name != largest}
        island = replace(island, pictures=pictures)


def _rendered(island: Island, left_out: Sequence[str]) -> str:
    script = _script()
    packed, of_plotly = plotly()
    scripts = " ".join(f"'{one}'" for one in (digest(script.encode()), of_plotly))
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return _template().render(
        island=island,
        left_out=left_out,
        title=told(island.title),
        policy=policy,
        css=Markup(_asset("page.css")),
        data=Markup(island.text()),
        script=Markup(script),
        packed=Markup(packed),
        sections=sorted(island.sections, key=lambda section: section.order),
        version=__version__,
    )


def write_page(island: Island, path: Path, *, force: bool = False) -> None:
    """Write the report to `path`, whole or not at all; see ``write_file``."""
    write_file(path, page(island), force=force, option="--report")


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["told"] = told
    environment.filters["bound"] = _bound
    environment.filters["options"] = _options
    return environment.from_string(_asset("page.html"))


def _bound(text: str) -> str:
    """Keep a figure and its unit on one line."""
    return _UNIT.sub("\N{NO-BREAK SPACE}\\1", text)


def _options(text: str) -> Markup:
    """Keep options whole, which browsers would break behind their dashes."""
    return Markup(_OPTION.sub(r'<span class="option">\1</span>', str(escape(text))))


@functools.cache
def _script() -> str:
    """The page's script, those of views, and the line that starts them."""
    views = sorted(_assets().joinpath("views").iterdir(), key=lambda one: one.name)
    parts = (_asset("page.js"), *(one.read_text(encoding="utf-8") for one in views))
    text = "\n".join(map(_lean, (*parts, "hetsim.start();\n")))
    if "</script" in text.lower() or "<!--" in text:
        raise AssertionError("a script of the page would end its element")
    return text


def _lean(script: str) -> str:
    """Return a script without indentation and comments; no text in ours is of several lines."""
    lines = (line.strip() for line in script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _asset(name: str) -> str:
    return _assets().joinpath(name).read_text(encoding="utf-8")


def _assets() -> Traversable:
    return files("hetsim.reporting.pages") / "assets"
