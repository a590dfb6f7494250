"""The program around the verbs: help, errors, exit codes, streams."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NoReturn

import pytest

import hetsim.cli.main
from cli_calls import call, ok
from hetsim import __version__
from hetsim.cli.main import VERBS, SignalExit, main
from hetsim.errors import HetsimError, Infeasible, InvalidInput, ObjectiveMissed, UsageError

HEAVY = ("ray", "onnxruntime", "onnx", "numpy", "scipy", "numba", "pydantic", "rich", "yaml")


def test_help_names_every_verb() -> None:
    result = ok("--help")
    for name, verb in VERBS.items():
        assert f"  {name} " in result.stdout
        assert verb.summary in result.stdout


def test_the_package_help_and_usage_errors_load_nothing_heavy() -> None:
    asked = [["--help"], ["compare", "--help"], ["devices", "query", "--help"], ["compar"]]
    probe = (
        "import sys, hetsim\nfrom hetsim.cli.main import main\ndir(hetsim), hetsim.HetsimError\n"
        f"for words in {asked!r}:\n    try: main(words)\n    except SystemExit: pass\n"
        f"    print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=300
    )
    loaded = [line for line in done.stdout.splitlines() if line.startswith("LOADED")]
    assert loaded == ["LOADED []"] * len(asked)


def test_version() -> None:
    assert call("--version").stdout == f"hetsim, version {__version__}\n"


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr("hetsim.placement.registry.strategies", fail)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HetsimError("w", where="x", hint="h"), 1),
        (UsageError("w", where="x", hint="h"), 2),
        (InvalidInput("w", where="x", hint="h"), 3),
        (Infeasible("w", where="x", hint="h"), 4),
        (ObjectiveMissed("w", where="x", hint="h"), 5),
    ],
)
def test_each_error_is_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: HetsimError, code: int
) -> None:
    raising(monkeypatch, error)
    result = call("compare", "--strategies")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "error: x: w; h\n"


@pytest.mark.parametrize(
    "words", [["--debug", "compare", "--strategies"], ["compare", "--strategies", "--debug"]]
)
def test_debug_shows_the_traceback_before_and_after_the_verb(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    raising(monkeypatch, InvalidInput("broken"))
    result = call(*words)
    assert result.exit_code == 3
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.endswith("\nerror: broken\n")


def test_an_unexpected_fault_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, ZeroDivisionError("a\nb"))
    result = call("compare", "--strategies")
    assert result.exit_code == 1
    assert result.stderr == (
        "internal error: ZeroDivisionError: a b (run with --debug for the traceback)\n"
    )
    assert "Traceback" in call("compare", "--strategies", "--debug").stderr


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    result = call("compare", "--strategies")
    assert result.exit_code == 130
    assert result.stderr.strip() == "error: interrupted"


@pytest.mark.parametrize(
    ("ending", "code"), [(KeyboardInterrupt(), 130), (SignalExit(signal.SIGTERM), 143)]
)
def test_an_interrupt_that_a_library_tells_as_its_own_error_is_one(
    monkeypatch: pytest.MonkeyPatch, ending: BaseException, code: int
) -> None:
    first = ValueError("while it was handled")
    first.__context__ = ending
    error = ImportError("initialization failed")
    error.__cause__ = first
    raising(monkeypatch, error)
    assert call("compare", "--strategies").exit_code == code
    # Errors that name each other.
    first.__context__ = error
    assert "internal error: ImportError" in call("compare", "--strategies").stderr


def test_a_file_that_ends_too_soon_is_no_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, EOFError("marshal data too short"))
    result = call("compare", "--strategies")
    assert result.exit_code == 1
    assert result.stderr.strip() == (
        "internal error: EOFError: marshal data too short (run with --debug for the traceback)"
    )


def test_names_cannot_steer_the_terminal_through_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, InvalidInput("node '\x1b[2J[/bold]\n'"))
    assert call("compare", "--strategies").stderr == "error: node '\\x1b[2J[/bold] '\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_warnings_are_lines_on_stderr(monkeypatch: pytest.MonkeyPatch, quiet: bool) -> None:
    def warn() -> tuple[()]:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("no rule for op X\n", stacklevel=1)
        return ()

    monkeypatch.setattr("hetsim.placement.registry.strategies", warn)
    result = ok("compare", "--strategies", "--json", *(["-q"] if quiet else []))
    assert result.stderr == ("" if quiet else "warning: no rule for op X \n")
    assert result.stdout.startswith("{")


@pytest.mark.parametrize("words", ["zoo list", "--help"])
def test_a_closed_pipe_is_no_fault(words: str) -> None:
    command = f"{sys.executable} -m hetsim {words} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stderr == ""
    assert int(done.stdout) in (0, 141)


def test_output_that_the_terminal_cannot_write_is_escaped(tmp_path: Path) -> None:
    platform = tmp_path / "\u6f22.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "hetsim", "devices", "show", str(platform)],
        capture_output=True,
        timeout=300,
        env={"PATH": "", "PYTHONIOENCODING": "latin-1", "HOME": str(tmp_path)},
        cwd=Path(hetsim.cli.main.__file__).parents[2],
    )
    assert done.returncode == 2
    assert b"\\u6f22.yaml: no such file" in done.stderr
    assert b"Traceback" not in done.stderr


def test_errors_reach_a_caller_that_asks_for_them() -> None:
    with pytest.raises(UsageError, match="no platform is given"):
        main(["run", "zoo:resnet18"], standalone_mode=False)
