"""A bare ``hetsim`` greets with commands that work as they are copied."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from cli_calls import Cli
from hetsim.cli.greeting import COMMANDS, greeting
from sweeps import sweep


def test_a_bare_call_greets(cli: Cli) -> None:
    result = cli()
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == greeting() + "\n"
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_each_command_stands_alone_on_its_line() -> None:
    shown = [line.strip() for line in greeting().splitlines()]
    assert [line for line in shown if line.startswith("hetsim ")] == [line for line, _ in COMMANDS]
    assert len(COMMANDS) == 3


def test_the_first_command_is_the_demo() -> None:
    """Which is run, and what it prints compared with README."""
    assert f"`{COMMANDS[0][0]}" in (Path(__file__).parents[2] / "README.md").read_text().replace(
        "\n", " "
    )


@sweep("command", quick=[COMMANDS[2][0]], full=[command for command, _ in COMMANDS])
def test_each_command_works(command: str, cli: Cli) -> None:
    program, *words = shlex.split(command)
    assert program == "hetsim"
    result = cli(*words)
    assert (result.exit_code, bool(result.stdout)) == (0, True), result.stderr


def test_greeting_loads_nothing_heavy() -> None:
    probe = (
        "import sys\nfrom hetsim.cli.main import main\n"
        "try: main([])\nexcept SystemExit as end: assert not end.code\n"
        "print([name for name in ('onnx', 'numpy', 'rich', 'yaml') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"
