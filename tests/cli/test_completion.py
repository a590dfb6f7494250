"""Completions, asked for as shells ask: by the environment, and by a bash with the script in it."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from cli_calls import commands, ok
from hetsim.cli.completion import FILES, FILES_OF_VERB, LISTS_OF_VERB, NAMES, OF_VERB, answer
from hetsim.cli.invocation import Invocation
from hetsim.cli.main import main
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import device_names, platform_names
from hetsim.placement.registry import strategy_names

ZOO = [f"zoo:{name}" for name in zoo.names()]
HARDWARE = [*platform_names(), *device_names()]
LAPTOP = ("cpu", "gpu", "npu")
ASKED: list[tuple[str, list[str]]] = [
    ("comp", ["compare", "compile"]),
    ("devices s", ["show"]),
    ("compare zoo:incep", ["zoo:inception_v1", "zoo:inception_v2"]),
    ("inspect zoo:", ZOO),
    ("zoo:incep", ["zoo:inception_v1", "zoo:inception_v2"]),
    ("zoo:x --platform laptop,rock-5", ["laptop,rock-5b"]),
    ("compare x.onnx --platform rock", [name for name in HARDWARE if name.startswith("rock")]),
    ("compare x.onnx --strategy h", [n for n in strategy_names() if n.startswith("h")]),
    ("run x.onnx --platform laptop --strategy single:", [f"single:{d}" for d in LAPTOP]),
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


Offered = list[tuple[str, str]]
Ask = Callable[..., Offered]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Ask as a shell's script does, by the environment; kinds and values of what it prints."""

    def asked(typed: str, shell: str = "bash", breaks: str = "") -> Offered:
        line = f"hetsim {typed}"
        words = line.split(" ")
        told = {
            "bash": {"COMP_LINE": line, "COMP_WORDBREAKS": breaks},
            "zsh": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
            "fish": {"COMP_WORDS": line.rpartition(" ")[0] + " ", "COMP_CWORD": words[-1]},
        }[shell]
        for name, value in told.items():
            monkeypatch.setenv(name, value)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert answer(main, Invocation(("hetsim",)), f"{shell}_complete") == 0
        lines = out.getvalue().splitlines()
        if shell == "zsh":
            values = [value.replace("\\:", ":") for value in lines[1::3]]
            return list(zip(lines[::3], values, strict=True))
        pairs = (line.partition("\t")[0].partition(",") for line in lines if line)
        return [(kind, value) for kind, _, value in pairs]

    return asked


@pytest.mark.parametrize(("typed", "offered"), ASKED)
def test_what_is_offered(typed: str, offered: list[str], ask: Ask) -> None:
    assert sorted(value for kind, value in ask(typed) if kind == "plain") == sorted(offered)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_answered(shell: str, ask: Ask) -> None:
    offered = ask("inspect zoo:incep", shell)
    assert offered == [("plain", "zoo:inception_v1"), ("plain", "zoo:inception_v2")]
    script = ok("--completion", shell).stdout
    assert "_HETSIM_COMPLETE" in script
    assert "hetsim" in script


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("inspect zoo:incep", ["inception_v1", "inception_v2"]),
        ("compare --platform=rock-5", ["rock-5b"]),
        ("compare --platform laptop --strategy=single:n", ["npu"]),
        ("compare --platform laptop --execute npu=i", ["int8"]),
    ],
)
def test_bash_takes_a_colon_and_an_equals_sign_for_the_end_of_a_word(
    typed: str, offered: list[str], ask: Ask
) -> None:
    found = ask(typed, breaks=" \t\n\"'><=;|&(:")
    assert [value for kind, value in found if kind == "plain"] == offered


def test_bash_is_told_whole_words_where_nothing_ends_them(ask: Ask) -> None:
    found = ask("compare --platform=rock-5", breaks=" \t\n")
    assert [value for kind, value in found if kind == "plain"] == ["--platform=rock-5b"]


def test_a_model_may_be_a_file_and_a_zoo_model_is_none(ask: Ask) -> None:
    for typed in ("compare mod", "mod"):
        assert [kind for kind, _ in ask(typed)] == ["file"]
    assert {kind for kind, _ in ask("compare zoo:b")} == {"plain"}


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
