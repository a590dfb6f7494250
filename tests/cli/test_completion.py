"""Completions, asked for as shells ask: by the environment, and by a bash with the script in it."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli_calls import Cli
from hetsim.cli.commands import LazyGroup
from hetsim.cli.completion import FILES, FILES_OF_VERB, LISTS_OF_VERB, NAMES, OF_VERB, answer
from hetsim.cli.invocation import Invocation
from hetsim.cli.main import VERBS, main
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import device_names, platform_names
from hetsim.placement.registry import strategy_names
from sweeps import sweep

ZOO = [f"zoo:{name}" for name in zoo.names()]
HARDWARE = [*platform_names(), *device_names()]
ASKED: list[tuple[str, list[str]]] = [
    ("comp", ["compare", "compile"]),
    ("devices s", ["show"]),
    ("compare zoo:incep", ["zoo:inception_v1", "zoo:inception_v2"]),
    ("inspect zoo:", ZOO),
    ("zoo:incep", ["zoo:inception_v1", "zoo:inception_v2"]),
    ("zoo:x --platform laptop,rock-5", ["laptop,rock-5b"]),
    ("compare x.onnx --platform rock", [name for name in HARDWARE if name.startswith("rock")]),
    ("compare x.onnx --strategy h", [n for n in strategy_names() if n.startswith("h")]),
    (
        "simulate x.onnx --platform laptop --strategy single:",
        ["single:cpu", "single:gpu", "single:npu"],
    ),
    ("compare x.onnx --platform laptop --without gpu,n", ["gpu,npu"]),
    ("compare x.onnx --platform laptop --execute npu=i", ["npu=int8"]),
    ("compare x.onnx --platform laptop --what-if n", ["npu."]),
    ("compare x.onnx --strategy local-search --set time", ["time_limit_s="]),
    ("partition x.onnx --method co", ["compact", "convex"]),
    ("partition x.onnx --set min", ["min_nodes="]),
    ("simulate x.onnx --cost ", ["fitted", "roofline"]),
    ("compare x.onnx --objective t", ["throughput"]),
    ("sweep --front p9", ["p90_s", "p99_s"]),
    ("compare --strategies comp", ["compact"]),
    ("--completion ", ["bash", "zsh", "fish"]),
    ("compare --platfo", ["--platform"]),
    ("compare x.onnx --platform no-such --without ", []),
]
"""What is typed behind ``hetsim``, and what is offered, files apart."""


def ask(shell: str, typed: str, **more: str) -> list[tuple[str, str]]:
    """Ask as the shell's script does; return kinds and values."""
    line = f"hetsim {typed}"
    words = line.split(" ")
    told = {
        "bash": {"COMP_LINE": line},
        "zsh": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "fish": {"COMP_WORDS": line.rpartition(" ")[0] + " ", "COMP_CWORD": words[-1]},
    }[shell]
    done = subprocess.run(
        [sys.executable, "-m", "hetsim"],
        env={**os.environ, **told, **more, "_HETSIM_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    if shell == "zsh":
        values = [value.replace("\\:", ":") for value in lines[1::3]]
        return list(zip(lines[::3], values, strict=True))
    pairs = (line.partition("\t")[0].partition(",") for line in lines if line)
    return [(kind, value) for kind, _, value in pairs]


def plain(found: list[tuple[str, str]]) -> list[str]:
    return [value for kind, value in found if kind == "plain"]


@pytest.mark.parametrize(("typed", "offered"), ASKED)
def test_what_is_offered(typed: str, offered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", f"hetsim {typed}")
    monkeypatch.delenv("COMP_WORDBREAKS", raising=False)
    assert sorted(plain(in_process("bash"))) == sorted(offered)


def in_process(shell: str) -> list[tuple[str, str]]:
    """The same, without a process."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert answer(main, Invocation(("hetsim",)), f"{shell}_complete") == 0
    pairs = (line.partition(",") for line in out.getvalue().splitlines() if line)
    return [(kind, value) for kind, _, value in pairs]


@sweep("shell", quick=["zsh"], full=["bash", "zsh", "fish"])
def test_each_shell_is_answered(shell: str) -> None:
    assert plain(ask(shell, "inspect zoo:incep")) == ["zoo:inception_v1", "zoo:inception_v2"]


def test_bash_takes_a_colon_and_an_equals_sign_for_the_end_of_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COMP_WORDBREAKS", " \t\n\"'><=;|&(:")
    for typed, offered in (
        ("inspect zoo:incep", ["inception_v1", "inception_v2"]),
        ("compare --platform=rock-5", ["rock-5b"]),
        ("compare --platform laptop --strategy=single:n", ["npu"]),
        ("compare --platform laptop --execute npu=i", ["int8"]),
    ):
        monkeypatch.setenv("COMP_LINE", f"hetsim {typed}")
        assert plain(in_process("bash")) == offered
    monkeypatch.setenv("COMP_WORDBREAKS", " \t\n")
    monkeypatch.setenv("COMP_LINE", "hetsim compare --platform=rock-5")
    assert plain(in_process("bash")) == ["--platform=rock-5b"]


def test_a_model_may_be_a_file_and_a_zoo_model_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for typed in ("compare mod", "mod"):
        monkeypatch.setenv("COMP_LINE", f"hetsim {typed}")
        assert [kind for kind, _ in in_process("bash")] == ["file"]
    monkeypatch.setenv("COMP_LINE", "hetsim compare zoo:b")
    assert {kind for kind, _ in in_process("bash")} == {"plain"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_a_bash_completes_by_the_script(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "hetsim").write_text(f'#!/bin/sh\nexec {sys.executable} -m hetsim "$@"\n')
    (bin_ / "hetsim").chmod(0o755)
    asked = (
        'eval "$(hetsim --completion bash)"\n'
        'ask() { COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=(hetsim "$2") COMP_CWORD=1; '
        '_hetsim_completion hetsim "$2" inspect 2>/dev/null; echo "${COMPREPLY[@]}"; }\n'
        "ask 'hetsim inspect zoo:res' res\n"
        "ask 'hetsim inspect mod' mod\n"
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", asked],
        env={**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}",
             "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    names = [name for name in zoo.names() if name.startswith("res")]
    assert done.stdout.splitlines() == [" ".join(names), "model.onnx"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_the_function_and_the_program(shell: str, cli: Cli) -> None:
    result = cli("--completion", shell)
    assert result.exit_code == 0
    assert "_HETSIM_COMPLETE" in result.stdout
    assert "hetsim" in result.stdout


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every verb, and those in groups."""
    context = click.Context(main)
    for name in VERBS:
        verb = main.get_command(context, name)
        assert verb is not None
        if isinstance(verb, click.Group) and not isinstance(verb, LazyGroup):
            for child, command in verb.commands.items():
                yield f"{name} {child}", command
        else:
            yield name, verb


def test_every_parameter_that_takes_a_name_offers_some() -> None:
    """By their placeholders; what has no names of its own is named here."""
    open_ended = {"--dim", "--shape", "--freeze", "--explain", "--address"}
    lacking = []
    for verb, command in commands():
        for one in (one for one in command.params if one.type is click.STRING):
            label = str(getattr(one, "metavar", None) or one.name).upper()
            named = "NAME" in label or "DEVICE" in label or "COLUMN" in label
            known = str(one.name) in NAMES or (verb, str(one.name)) in OF_VERB
            files = str(one.name) in FILES or (verb, str(one.name)) in FILES_OF_VERB
            if named and not known and not files and not open_ended & set(one.opts):
                lacking.append((verb, one.opts))
    assert not lacking, "name what they offer in hetsim/cli/completion.py"


def test_every_completer_is_of_a_parameter() -> None:
    there = {(verb, str(one.name)) for verb, command in commands() for one in command.params}
    names = {name for _, name in there}
    assert set(NAMES) | FILES <= names
    assert set(OF_VERB) | FILES_OF_VERB | LISTS_OF_VERB <= there
