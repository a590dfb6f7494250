"""Invocation of the program: its options, its output, and its progress line."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click
from click.core import ParameterSource

from hetsim.core.progress import ABOUT, ProgressState, progress_to, rest_s

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.graph.reading.extension import Extension
    from hetsim.partitioning.affinity import Affinity
    from hetsim.placement.objective import Objective
    from hetsim.problem.parts import Contention


PATIENCE_S = 2.0
"""Seconds after which times are shown."""


@dataclass(slots=True)
class WorkProgress:
    """Progress of a piece of work.

    `now` is the clock in seconds; `share` of it is done, in [0, 1], 0 if unknown, and never falls;
    `told` is the last report.
    """

    text: str
    now: Callable[[], float] = monotonic
    share: float = field(init=False, default=0.0)
    told: ProgressState = field(init=False, default=ProgressState(0.0, ""))
    began_s: float = field(init=False)
    _said_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.began_s = self._said_s = self.now()

    def __call__(
        self, step: str, *, share: float | None = None, left_s: float | None = None
    ) -> None:
        """Report the progress: the step, the share of all, or the seconds left."""
        self.hear(ProgressState(self.share if share is None else share, step, left_s))

    def hear(self, told: ProgressState) -> None:
        """Take a report of `hetsim.core.progress`."""
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
    """Text of whole seconds, for times that change as they are read: ``1 min 5 s``."""
    whole = max(round(seconds), 1)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return " ".join(([f"{hours} h"] if hours else []) + ([f"{minutes} min"] if minutes else []))


@contextmanager
def line_of(going: WorkProgress, stream: TextIO) -> Iterator[None]:
    """Show `going` on one line of the terminal `stream`, and remove the line at the end."""
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    from hetsim.core.text import plain
    from hetsim.reporting.console import console

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


Canonical = Literal["none", "basic", "extended"]
"""Degree to which ONNX Runtime may rewrite a graph first."""

COMPLETION = "_HETSIM_COMPLETE"
"""Environment variable by which a shell requests completions, such as ``bash_complete``."""


@dataclass(slots=True)
class Invocation:
    """Command line, program first, and the options that several verbs share.

    `trace`, `out` and `report` are written to disk; `dims` and `shapes` are sizes by dimension and
    shapes by input; `inputs` are arrays by name, or the path of a ``.npz`` file; `execute`,
    `runtime`, `profiles` (paths) and `measured` are by device; `changes` and `without` change the
    platform, see ``hetsim.what_if``; `settings` are ``KEY=VALUE`` of strategies; `noted` are the
    notes that were printed.
    """

    command: tuple[str, ...]
    debug: bool = False
    quiet: bool = False
    as_json: bool = False
    trace: Path | None = None
    out: Path | None = None
    report: Path | None = None
    force: bool = False
    platform: str | None = None
    strategy: str | None = None
    objective: Objective | None = None
    contention: Contention | None = None
    canonical: Canonical | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    extensions: tuple[Extension, ...] = ()
    inputs: Mapping[str, Any] | str | None = None
    frozen: Mapping[str, object] = field(default_factory=dict)
    execute: Mapping[str, str] = field(default_factory=dict)
    runtime: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    affinity: Affinity | Literal["model"] | None = None
    profiles: Mapping[str, str] = field(default_factory=dict)
    measured: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cost: str | None = None
    pessimistic: bool = False
    noted: set[str] = field(default_factory=set)

    def answer(
        self, record: Callable[[], Mapping[str, Any]], report: Callable[[], RenderableType]
    ) -> None:
        """Print an answer to stdout: its record as JSON with ``--json``, else its report."""
        if self.as_json:
            self.show_json(record())
        else:
            self.show(report())

    def add(
        self,
        record: dict[str, Any],
        key: str,
        value: object,
        report: RenderableType,
        *,
        apart: bool = True,
    ) -> None:
        """Add a further answer to a record; without ``--json`` print its report, `apart` or not."""
        record[key] = value
        if not self.as_json:
            if apart:
                self.say("")
            self.show(report)

    def show(self, report: RenderableType) -> None:
        """Print a report to stdout."""
        from hetsim.reporting.console import console, whole

        target = console(sys.stdout)
        text = whole(target, report)
        if not target.is_terminal:
            # Tables pad their lines to the full width, which clutters a file.
            text = "\n".join(line.rstrip() for line in text.splitlines())
        click.echo(text, nl=not text.endswith("\n"), color=target.is_terminal)

    def show_json(self, record: Mapping[str, Any]) -> None:
        """Print a record to stdout, as JSON and nothing else."""
        from hetsim.core.text import to_json

        click.echo(to_json(record), nl=False)

    def say(self, line: str) -> None:
        """Print one line of a result to stdout."""
        click.echo(one_line(line))

    def note(self, text: str) -> None:
        """Print one line about the work to stderr, each line only once."""
        if not self.quiet and text not in self.noted:
            self.noted.add(text)
            click.echo(one_line(text), err=True)

    @contextmanager
    def progress(self, text: str) -> Iterator[WorkProgress]:
        """Show the current step and the time left during the block, if stderr is a terminal.

        The yielded ``WorkProgress`` takes the progress; code within the block may also report it
        through ``hetsim.core.progress``.
        """
        going = WorkProgress(text)
        dumb = os.environ.get("TERM", "") in ("dumb", "unknown")
        if self.quiet or dumb or not sys.stderr.isatty():
            yield going
            return
        with line_of(going, sys.stderr), progress_to(going.hear):
            yield going


def one_line(text: str) -> str:
    """Return `text` on one line, free of characters that steer a terminal."""
    from hetsim.core.text import plain

    return plain(" ".join(text.split("\n")))


def current() -> Invocation:
    """Return the invocation of the running verb."""
    invocation = click.get_current_context().find_root().obj
    assert isinstance(invocation, Invocation)
    return invocation


def given(*names: str) -> tuple[str, ...]:
    """Return those of the named options of the verb that are on the command line."""
    context = click.get_current_context()
    options = {str(one.name): max(one.opts, key=len) for one in context.command.params}
    return tuple(
        options[name]
        for name in names
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    )
