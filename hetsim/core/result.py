"""Views that every result offers in Python: data frame, figure, page, notebook and console."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hetsim.core import checks
from hetsim.core.text import plain

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects

REPR_LINES, REPR_MOST = 5, 400
"""Maximum number of lines, and of characters, of a repr."""


class Result:
    """Base of all results.

    ``hetsim.reporting`` makes the views, of the record that ``--json`` prints and the tables that
    the terminal shows; it is loaded on first use.
    """

    __slots__ = ()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a DataFrame, by the keys of ``--json``: ``latency_s``, ``peak_bytes``.

        A figure within a record is named by its path, `sure.cost_s.p10`. Raises NotInstalled if
        pandas is not installed.
        """
        found: pandas.DataFrame = _views().frame(self)
        return found

    def plot(self) -> plotly.graph_objects.Figure:
        """Return the main picture of the result's page as a plotly figure.

        Raises UsageError if the result has nothing to draw.
        """
        found: plotly.graph_objects.Figure = _views().plot(self)
        return found

    @checks.takes(path=checks.path, force=checks.flag)
    def report(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the HTML page that ``--report`` writes, without sliders that repeat a command.

        Raises UsageError if `path` exists and `force` is not given.
        """
        _views().report(self, path, force=force)

    def _repr_html_(self) -> str:
        text: str = _views().html(self)
        return text

    def __repr__(self) -> str:
        try:
            lines: list[str] = _views().lines(self)
        except Exception as error:
            lines = [f"{type(self).__name__}: {type(error).__name__}, {error}"]
        return short(*lines)


def short(*lines: str) -> str:
    """Return some lines as a repr: at most REPR_LINES, REPR_MOST characters in all.

    >>> short("Platform laptop", "cpu, gpu")
    'Platform laptop\\ncpu, gpu'
    """
    kept = [plain(line) for line in lines[:REPR_LINES] if line]
    left = REPR_MOST - len(kept)
    # The shortest first: what they leave is for the longer ones.
    for waiting, at in enumerate(sorted(range(len(kept)), key=lambda k: len(kept[k]))):
        room = left // (len(kept) - waiting)
        if len(kept[at]) > room:
            kept[at] = f"{kept[at][: room - 4].rsplit(' ', 1)[0]} ..."
        left -= len(kept[at])
    return "\n".join(kept)


def _views() -> Any:
    # By its name: packages of lower floors do not import reporting.
    return import_module("hetsim.reporting.results")
