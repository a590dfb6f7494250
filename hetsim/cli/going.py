"""The line in a terminal that says what is going on, since when, and about how long still."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TextIO

from hetsim.core.going import ABOUT, Told, rest_s

PATIENCE_S = 2.0
"""Seconds after which times are told."""


@dataclass(slots=True)
class Going:
    """What is known of some work that is under way.

    Attributes
    ----------
    text : str
    now : function
        The clock, in seconds.
    share : float
        Which part of it is done, in [0, 1]; 0 where that is not known. It never falls.
    told : Told
        What the work said last.
    """

    text: str
    now: Callable[[], float] = monotonic
    share: float = field(init=False, default=0.0)
    told: Told = field(init=False, default=Told(0.0, ""))
    began_s: float = field(init=False)
    _said_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.began_s = self._said_s = self.now()

    def __call__(
        self, step: str, *, share: float | None = None, left_s: float | None = None
    ) -> None:
        """Take how far it is: in words, as a share of all, or by what is left."""
        self.hear(Told(self.share if share is None else share, step, left_s))

    def hear(self, told: Told) -> None:
        """Take what the work says of itself, as `hetsim.core.going` tells it."""
        self.share = max(self.share, told.share)
        self.told, self._said_s = told, self.now()

    def __str__(self) -> str:
        passed_s = self.now() - self.began_s
        told = self.told
        line = f"{self.text}: {told.what}" if told.what else self.text
        if passed_s < PATIENCE_S:
            return line
        line = f"{line}; {_short(passed_s)}"
        since_s = self.now() - self._said_s
        if told.left_s is not None and (told.of or told.until >= 1.0):
            if math.isinf(told.left_s):
                return line
            left = told.words.format(_short(max(told.left_s - since_s, 0.0)))
            return f"{line}, {left} {told.of}".rstrip()
        share = self.share
        if told.left_s is not None and told.left_s > 0:
            share += max(told.until - share, 0.0) * min(since_s / told.left_s, 1.0)
        left_s = rest_s(passed_s, share)
        return line if not left_s else f"{line}, {ABOUT.format(_short(left_s))}"


def _short(seconds: float) -> str:
    """Whole seconds, as nobody reads more of them while they pass: ``1 min 5 s``."""
    whole = max(round(seconds), 1)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return " ".join(([f"{hours} h"] if hours else []) + ([f"{minutes} min"] if minutes else []))


@contextmanager
def line_of(going: Going, stream: TextIO) -> Iterator[None]:
    """Show `going` on one line of the terminal `stream`, and take it away in the end."""
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    from hetsim.core.text import plain
    from hetsim.reporting.words.console import console

    target = console(stream)
    utf = (target.encoding or "").startswith("utf")
    spinner = Spinner("dots" if utf else "line")

    def drawn() -> Table:
        text = Text(plain(str(going)), no_wrap=True, overflow="ellipsis" if utf else "crop")
        row = Table.grid(padding=(0, 1, 0, 0))
        row.add_row(spinner, text)
        return row

    with Live(console=target, get_renderable=drawn, transient=True, refresh_per_second=8):
        yield
