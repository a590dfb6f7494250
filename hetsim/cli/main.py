"""The program ``hetsim``: finds the verb, and turns whatever goes wrong into one line."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

import click

from hetsim.cli.commands import LazyGroup, Verb
from hetsim.cli.greeting import greeting
from hetsim.cli.invocation import COMPLETION, Invocation, one_line
from hetsim.cli.options.common import common_options
from hetsim.core.process import ENDING
from hetsim.core.room import out_of_room
from hetsim.errors import HetsimError, UsageError, closest
from hetsim.version import __version__


class Ended(BaseException):
    """A signal ended this process.

    Attributes
    ----------
    number : int
        Which.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP, the terminal closed, end what runs within by ``Ended``.

    Once: what comes while things are cleared away is passed over. Where somebody handles them, or
    ignores them as ``nohup`` has it, they stay so. Outside the main thread this does nothing.
    """
    found = []
    if threading.current_thread() is threading.main_thread():
        found = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        for each in found:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    for number in found:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in found:
            signal.signal(number, signal.SIG_DFL)


INTERNAL_FAULT, USAGE = 1, 2
INTERRUPTED, PIPE_CLOSED = 130, 141
"""128 plus the signal's number, as a shell reports SIGINT and SIGPIPE."""

VERBS = {
    "inspect": Verb(
        "hetsim.cli.verbs.inspect:inspect", "What a model is made of, and who supports it."
    ),
    "nodes": Verb(
        "hetsim.cli.verbs.nodes:nodes", "Which unit runs each node, why not another, at what cost."
    ),
    "partition": Verb(
        "hetsim.cli.verbs.partition:partition", "Cut a model into groups that devices take whole."
    ),
    "simulate": Verb("hetsim.cli.verbs.simulate:simulate", "Play one plan on the virtual clock."),
    "run": Verb("hetsim.cli.verbs.run:run", "Run one plan for real, and check its outputs."),
    "compile": Verb(
        "hetsim.cli.verbs.compile:compile_", "Compile a plan to files that run without the model."
    ),
    "compare": Verb(
        "hetsim.cli.verbs.compare:compare", "Compare strategies with every device alone."
    ),
    "lint": Verb("hetsim.cli.verbs.lint:lint", "What costs time, and which change takes it away."),
    "capacity": Verb(
        "hetsim.cli.verbs.capacity:capacity", "Which rates a platform carries within objectives."
    ),
    "recommend": Verb(
        "hetsim.cli.verbs.recommend:recommend", "The cheapest platform that meets objectives."
    ),
    "place": Verb("hetsim.cli.verbs.place:place", "Which models of a workload on which devices."),
    "verify": Verb("hetsim.cli.verbs.verify:verify", "Does a certificate hold?"),
    "devices": Verb("hetsim.cli.verbs.devices:devices", "The catalog of devices and platforms."),
    "workload": Verb(
        "hetsim.cli.verbs.workload:workload", "Which requests come when, and who serves them."
    ),
    "report": Verb(
        "hetsim.cli.verbs.report:report", "A page of answers on disk, or of what moved between two."
    ),
    "sweep": Verb("hetsim.cli.verbs.sweep:sweep", "Answer every point of a grid, once."),
    "calibrate": Verb(
        "hetsim.cli.verbs.calibrate:calibrate", "Measure this machine, and write its device file."
    ),
    "cluster": Verb("hetsim.cli.verbs.cluster:cluster", "The Ray cluster that plans run on."),
    "strategies": Verb(
        "hetsim.cli.verbs.strategies:strategies", "The strategies and merge methods."
    ),
    "zoo": Verb("hetsim.cli.verbs.zoo:zoo", "The models that come with hetsim."),
    "completion": Verb(
        "hetsim.cli.verbs.completion:completion", "Completion for bash, zsh or fish."
    ),
}


class App(LazyGroup):
    """The root group: every error ends in one line on stderr and its exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line `args` (default: the process's own) and exit.

        Without `standalone_mode` the exit code is returned and errors are raised.
        """
        given = list(sys.argv[1:] if args is None else args)
        invocation = Invocation(("hetsim", *given))
        if not standalone_mode:
            return self._start(given, invocation)
        sys.stdout = _written_whole(sys.stdout)
        for stream in (sys.stdout, sys.stderr):
            # A name that the terminal's encoding lacks must not end the program.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        asked = os.environ.get(COMPLETION)
        with warnings.catch_warnings():
            warnings.showwarning = _warn(invocation)
            with ended_by_signals():
                code = self._complete(asked, invocation) if asked else self._run(given, invocation)
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            code = _close_pipe()
        except OSError as error:
            code = code or _unwritten(invocation, error)
            _close_pipe()
        sys.exit(code)

    def _complete(self, asked: str, invocation: Invocation) -> int:
        from hetsim.cli.completing import answer

        invocation.quiet = True
        return answer(self, invocation, asked)

    def _start(self, args: list[str], invocation: Invocation) -> Any:
        if not args:
            click.echo(greeting())
            return 0
        # No process can be given one: a caller of this function can.
        if any("\0" in word for word in args):
            raise UsageError("an argument has a null byte", hint="leave it out")
        # What a shell asks by its environment is answered above, and not by click.
        asks_nothing = ""
        return super().main(args, "hetsim", asks_nothing, standalone_mode=False, obj=invocation)

    def _ending_kept(self, args: list[str], invocation: Invocation) -> Any:
        """Have what ended the command end it, also where a library made an error of its own of it,
        as those do that are interrupted while they are imported."""
        try:
            return self._start(args, invocation)
        except Exception as error:
            chain: list[BaseException] = [error]
            while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
                if isinstance(cause, KeyboardInterrupt | Ended):
                    raise cause from None
                chain.append(cause)
            raise

    def _run(self, args: list[str], invocation: Invocation) -> int:
        try:
            code = self._ending_kept(args, invocation)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            return USAGE
        except click.ClickException as error:
            return _fail(invocation, error, _usage(error), error.exit_code)
        except HetsimError as error:
            return _fail(invocation, error, str(error), error.exit_code)
        except Ended as error:
            with contextlib.suppress(OSError):  # the terminal may be gone
                _fail(invocation, error, f"ended by {error}", 128 + error.number)
            return 128 + error.number
        except (KeyboardInterrupt, click.Abort) as error:
            if isinstance(error.__cause__, EOFError):
                # click takes the end of any file for the end of what is typed.
                return _internal(invocation, error.__cause__)
            return _fail(invocation, error, "interrupted", INTERRUPTED)
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
                what = f"{error.filename}: {error.strerror}; name a shorter path"
                return _fail(invocation, error, what, USAGE)
            if (short := out_of_room(error, _printing(error))) is not None:
                return _fail(invocation, error, str(short), short.exit_code)
            return _internal(invocation, error)
        return code if isinstance(code, int) else 0

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; a reader that closed the pipe early is no fault."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            ctx.exit(_close_pipe())


def _internal(invocation: Invocation, error: BaseException) -> int:
    what = f"internal error: {type(error).__name__}: {error}"
    more = "" if invocation.debug else " (run with --debug for the traceback)"
    return _fail(invocation, error, what + more, INTERNAL_FAULT, prefix="")


def _fail(
    invocation: Invocation, error: BaseException, what: str, code: int, *, prefix: str = "error: "
) -> int:
    from hetsim.core.text import cut

    if invocation.debug:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    click.echo(one_line(cut(prefix + what)), err=True)
    return code


def _written_whole(stream: TextIO) -> TextIO:
    """Return a stream that writes all that it is given, or says why not.

    With ``PYTHONUNBUFFERED`` Python's own takes a write that the system did in part, as the one
    that fills a disk, for a whole one.
    """
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(stream.buffer, io.RawIOBase):
        return stream
    raw = io.FileIO(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, line_buffering=True)


def _printing(error: Exception) -> str | None:
    """The place of an error of printing, which names none."""
    frames = [
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    return "stdout" if frames and frames[-1].partition(".")[0] in ("click", "rich") else None


def _unwritten(invocation: Invocation, error: OSError) -> int:
    """Say that what was printed could not be written where stdout leads to."""
    short = out_of_room(error, "stdout", hint="make room there, or print to another place")
    what = str(short or f"stdout: cannot be written: {error.strerror or error}")
    return _fail(invocation, error, what, INTERNAL_FAULT)


def _usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    of = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    if isinstance(of, click.Choice):
        # What click says ends in all choices; the nearest is what was meant.
        typed = error.message.partition("'")[2].partition("'")[0]
        close = closest(typed, map(str, of.choices))
        message += f"; {close}" if close else ""
    ctx = getattr(error, "ctx", None)
    return message if ctx is None else f"{message} (see {ctx.command_path} --help)"


def _close_pipe() -> int:
    # The interpreter flushes stdout once more as it ends: give it somewhere to flush to.
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)
    return PIPE_CLOSED


def _warn(invocation: Invocation) -> Any:
    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not invocation.quiet:
            click.echo(one_line(f"warning: {message}"), err=True)

    return show


@click.group(
    cls=App, name="hetsim", verbs=VERBS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="hetsim")
@common_options
def main() -> None:
    """Where should each part of an ONNX model run, how long does it take, and is it right?

    MODEL is the path of an ONNX file or zoo:NAME; a platform is a catalog name or the path
    of a YAML file.
    """
