"""What one invocation of the program carries: its flags, and where to print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from hetsim.core.going import heard_by

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.cli.going import Going
    from hetsim.graph.reading.extension import Extension
    from hetsim.partitioning.affinity import Affinity
    from hetsim.placement.objective import Objective
    from hetsim.problem.parts import Contention


Canonical = Literal["none", "basic", "extended"]
"""How far ONNX Runtime may rewrite a graph first."""

COMPLETION = "_HETSIM_COMPLETE"
"""The environment variable by which a shell asks for completions: ``bash_complete``, say."""


@dataclass(slots=True)
class Invocation:
    """The command line, and what its options say that several verbs take.

    Attributes
    ----------
    command : tuple of str
        The command line, program first.
    debug : bool
        Show tracebacks.
    quiet : bool
        No progress and no notes on stderr; errors stay.
    as_json : bool
        Print JSON in place of tables.
    trace, out, report : Path or None
        What is left on disk: a trace, a folder, a page.
    force : bool
        Let those replace what is there.
    platform, strategy, objective, contention, canonical : str or None
        As they are given; None where they are not.
    dims, shapes : mapping
        Sizes by dimension, and shapes by input.
    extensions : tuple of Extension
        Custom operators that models are read with.
    inputs : mapping, str or None
        Inputs of the model: arrays by name, or the path of a ``.npz`` file.
    frozen : mapping
        Inputs that are made constants, by name.
    execute : mapping of str to str
        Precisions, by device, that float models are executed in as if.
    runtime : mapping of str to str
        Runtimes, by device, whose figures are taken.
    changes, without : tuple of str
        What is supposed of the platform, see ``hetsim.what_if``.
    settings : tuple of str
        Options of strategies, ``KEY=VALUE``.
    affinity : Affinity, "model" or None
        Where nodes shall run; "model": as the model's nodes note.
    profiles : mapping of str to str
        Paths of profiles that prices are from, by device.
    cost : str or None
        Name of the cost model; None: the default one.
    pessimistic : bool
        Plans are judged at the bad end of what figures may be off by.
    noted : set of str
        The notes that were printed.
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

    def show(self, report: RenderableType) -> None:
        """Print a report to stdout."""
        from hetsim.reporting.words.console import console, whole

        target = console(sys.stdout)
        text = whole(target, report)
        if not target.is_terminal:
            # Tables pad their lines to the full width, which is noise in a file.
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
        """Print one line about the work to stderr, the same one once."""
        if not self.quiet and text not in self.noted:
            self.noted.add(text)
            click.echo(one_line(text), err=True)

    @contextmanager
    def progress(self, text: str) -> Iterator[Going]:
        """Show what is going on while it does, and how long still, where stderr is a terminal.

        What the block is given takes how far it is; what works within it may say so itself, as
        ``hetsim.core.going`` tells.
        """
        from hetsim.cli.going import Going, line_of

        going = Going(text)
        dumb = os.environ.get("TERM", "") in ("dumb", "unknown")
        if self.quiet or dumb or not sys.stderr.isatty():
            yield going
            return
        with line_of(going, sys.stderr), heard_by(going.hear):
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
