"""Program ``hetsim``: its verbs, their help, and errors as one line."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import click

from hetsim.cli.commands import RENAMED, LazyGroup, Verb
from hetsim.cli.invocation import COMPLETION, Invocation, one_line
from hetsim.cli.options.common import common_options
from hetsim.core.process import ENDING
from hetsim.core.room import out_of_room
from hetsim.errors import HetsimError, ModelError, UsageError, closest
from hetsim.version import __version__


class SignalExit(BaseException):
    """Signal that ended this process."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP (the terminal closed) into ``SignalExit`` within the block.

    Only the first one: later ones during cleanup are ignored. Signals that are handled or ignored
    already, as by ``nohup``, stay so. Outside the main thread this does nothing.
    """
    found = []
    if threading.current_thread() is threading.main_thread():
        found = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        for each in found:
            signal.signal(each, signal.SIG_IGN)
        raise SignalExit(number)

    for number in found:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in found:
            signal.signal(number, signal.SIG_DFL)


INTERNAL_FAULT, USAGE = 1, 2
INTERRUPTED, PIPE_CLOSED = 130, 141
"""Exit codes: 128 plus the signal's number, as a shell reports SIGINT and SIGPIPE."""

_SUMMARIES: Mapping[str, Mapping[str, str]] = {
    "Ask": {
        "compare": "Which board, or which strategy, is fastest?",
        "recommend": "What should I buy or rent for a rate?",
        "simulate": "How long does one plan take, also under load?",
        "inspect": "What is in a file, and which device runs what?",
    },
    "Plan": {
        "partition": "Cut a model into subgraphs for devices.",
        "compile": "Write a plan as files that run alone.",
    },
    "Run": {
        "run": "Run a plan for real, and check its outputs.",
        "sweep": "Answer every point of a grid.",
        "cluster": "Check the Ray cluster that runs use.",
    },
    "Catalog, models and reports": {
        "devices": "List, show, query and calibrate devices.",
        "zoo": "List the models that hetsim includes.",
        "report": "Make one HTML page of saved answers.",
    },
}

VERBS = {
    name: Verb(f"hetsim.cli.verbs.{name}", summary, title)
    for title, summaries in _SUMMARIES.items()
    for name, summary in summaries.items()
}

OLD: Mapping[str, str] = {
    "calibrate": "devices calibrate",
    "capacity": "simulate --max-rate",
    "completion": "--completion",
    "devices schema": "inspect --schema",
    "devices validate": "inspect",
    "lint": "inspect --lint",
    "nodes": "inspect --nodes",
    "place": "recommend",
    "strategies": "compare --strategies",
    "verify": "recommend --verify",
    "workload schema": "inspect --schema",
    "workload show": "inspect",
    "workload validate": "inspect",
}
"""Present words for old verbs that are no longer in ``VERBS``."""


class App(LazyGroup):
    """Root group: every error ends in one line on stderr and its exit code."""

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
        # Objects of a command live until it ends: hardly any of them is garbage.
        gc.set_threshold(50_000, 20, 50)
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb: old verbs, or a model alone, are replaced by their present words."""
        invocation = ctx.obj
        words = _as_now(args, None if ctx.resilient_parsing else invocation)
        file = words is args and not args[0].startswith("-") and {".", os.sep} & set(args[0])
        if file and not ctx.resilient_parsing:
            from hetsim.core.files import no_such_file

            raise no_such_file(ModelError, args[0])
        if words is not args:
            invocation.command = (*invocation.command[: -len(args)], *words)
        return super().resolve_command(ctx, words)

    def _complete(self, asked: str, invocation: Invocation) -> int:
        from hetsim.cli.completion import answer

        invocation.quiet = True
        return answer(self, invocation, asked)

    def _start(self, args: list[str], invocation: Invocation) -> Any:
        # A process cannot receive a null character in its arguments: a caller of this function can.
        if any("\0" in word for word in args):
            raise UsageError("an argument has a null byte", hint="leave it out")
        # Completion requests in the environment are answered above, not by click.
        asks_nothing = ""
        return super().main(
            args or ["--help"], "hetsim", asks_nothing, standalone_mode=False, obj=invocation
        )

    def _ending_kept(self, args: list[str], invocation: Invocation) -> Any:
        """Run the command; raise the signal that ended it, even if a library turned it into another
        error, as libraries do that are interrupted during import."""
        try:
            return self._start(args, invocation)
        except Exception as error:
            chain: list[BaseException] = [error]
            while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
                if isinstance(cause, KeyboardInterrupt | SignalExit):
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
        except SignalExit as error:
            with contextlib.suppress(OSError):  # the terminal may be gone
                _fail(invocation, error, f"ended by {error}", 128 + error.number)
            return 128 + error.number
        except (KeyboardInterrupt, click.Abort) as error:
            if isinstance(error.__cause__, EOFError):
                # click takes the end of any file for the end of typed input.
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

    def make_context(self, *given: Any, **extra: Any) -> click.Context:
        """Parse the arguments, and print the requested help, also to a pipe closed early."""
        try:
            return super().make_context(*given, **extra)
        except BrokenPipeError:
            raise click.exceptions.Exit(_close_pipe()) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; a pipe that its reader closed early is not an error."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            ctx.exit(_close_pipe())


def _as_now(args: list[str], invocation: Invocation | None) -> list[str]:
    """Words with their present verb; the same list if they name one.

    `invocation` gets a note on an old one.
    """
    first = args[0]
    for length in (2, 1):
        old = " ".join(args[:length])
        if old in OLD and old not in VERBS:
            if invocation is not None:
                invocation.note(f"'hetsim {old}' is now 'hetsim {OLD[old]}'")
            return [*OLD[old].split(), *args[length:]]
    if first in VERBS or first.startswith("-"):
        return args
    if first.startswith("zoo:") or first.endswith(".onnx") or Path(first).is_file():
        rated = any(word.partition("=")[0] == "--rate" for word in args)
        return ["recommend" if rated else "compare", *args]
    return args


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
    """Return a stream that writes all of its input, or raises an error.

    With ``PYTHONUNBUFFERED`` Python's own stream takes a partial write, as on a full disk, for a
    complete one.
    """
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(stream.buffer, io.RawIOBase):
        return stream
    raw = io.FileIO(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, line_buffering=True)


def _printing(error: Exception) -> str | None:
    """Target of printing for an error that names none."""
    frames = [
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    return "stdout" if frames and frames[-1].partition(".")[0] in ("click", "rich") else None


def _unwritten(invocation: Invocation, error: OSError) -> int:
    """Report that stdout could not be written; return the exit code."""
    short = out_of_room(error, "stdout", hint="make room there, or print to another place")
    what = str(short or f"stdout: cannot be written: {error.strerror or error}")
    return _fail(invocation, error, what, INTERNAL_FAULT)


def _usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    message = message.replace("is not a valid integer range", "is not a whole number")
    of = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    if isinstance(of, click.Choice):
        # click's message ends in all choices; the nearest is the likely one.
        typed = error.message.partition("'")[2].partition("'")[0]
        close = closest(typed, map(str, of.choices))
        message += f"; {close}" if close else ""
    ctx = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and ctx is not None:
        typed = error.option_name
        known = [name for one in ctx.command.params for name in one.opts]
        verbs = ((verb, main.get_command(ctx, verb)) for verb in VERBS)
        have = [verb for verb, one in verbs if one and any(typed in p.opts for p in one.params)]
        now = RENAMED.get(typed)
        hint = f"verbs that have it: {', '.join(have)}" if have else closest(typed, known)
        hint = f"it is '{now}' now" if now in known else hint
        message = f"no option '{typed}'" + (f"; {hint}" if hint else "")
    return message if ctx is None else f"{message} (see {ctx.command_path} --help)"


def _close_pipe() -> int:
    # The interpreter flushes stdout once more as it ends: it needs an open target.
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)
    return PIPE_CLOSED


def _warn(invocation: Invocation) -> Any:
    def show(message: Warning | str, *_: object) -> None:
        if not invocation.quiet:
            click.echo(one_line(f"warning: {message}"), err=True)

    return show


def _completion(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:
    if shell is None or ctx.resilient_parsing:
        return
    from hetsim.cli.completion import script

    click.echo(script(ctx.command, shell), nl=False)
    ctx.exit()


EXAMPLES = (
    ("hetsim compare zoo:inception_v1 --platform rock-5b",
     "Does it pay to split GoogLeNet over the CPU, NPU and GPU of a board?"),
    ("hetsim run zoo:inception_v1 --platform rock-5b --executor threads",
     "Run the split for real: are the outputs equal to the last bit?"),
    ("hetsim devices query rockchip-rk3588-npu zoo:inception_v1",
     "Which ops does the NPU run, and why not the others?"),
)  # fmt: skip
"""Commands that need only hetsim, and the question that each answers."""


@click.group(
    cls=App,
    name="hetsim",
    verbs=VERBS,
    examples=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="hetsim")
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    is_eager=True,
    expose_value=False,
    callback=_completion,
    help="Print the completion script of a shell. In ~/.bashrc, or after compinit in ~/.zshrc: "
    'eval "$(hetsim --completion bash)". Fish reads it as ~/.config/fish/completions/hetsim.fish.',
)
@common_options
def main() -> None:
    """Find which device should run which part of an ONNX model, and how long it takes.

    `hetsim MODEL` compares all boards of the catalog. MODEL is an ONNX file or zoo:NAME. A
    platform is a name of the catalog (hetsim devices list) or a YAML file.
    """
