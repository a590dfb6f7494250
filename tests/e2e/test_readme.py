"""README and the how-to pages: the commands they name work, and README shows what they print."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import pytest
import yaml
from click.testing import CliRunner, Result

from hetsim import load_affinity, load_platform
from hetsim.cli.invocation import Invocation
from hetsim.cli.main import main
from onnx_builders import make_model, op, value
from page_blocks import blocks_of
from sweeps import sweep

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
SHOWN = re.findall(r"^```console\n\$ (hetsim [^\n]*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands_of(page: Path) -> list[str]:
    """Commands that a page names and does not run: in fences ``text``, and in code of sentences."""
    text = page.read_text()
    fences = "\n".join(block.text for block in blocks_of(text) if block.language == "text")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    inline = [
        code
        for code in re.findall(r"`(hetsim [^`]+)`", prose)
        if not re.search(r"\.\.\.|[A-Z]{4}", code)
    ]
    return [*re.findall(r"^(hetsim .*)$", fences, re.MULTILINE), *inline]


COMMANDS = sorted({command for page in PAGES for command in commands_of(page)})
NEEDS = ("--address", "calibrate cpu", "cluster", "my-cpu", "detector", "library", "--inject")
"""What a command needs that is not on every machine, or takes minutes: these are parsed alone."""


def parsed(command: str) -> tuple[click.Command, dict[Any, Any]]:
    """The verb of a command, and the options and arguments that it gives the verb.

    Raises:
        click.UsageError: There is no such verb, or it takes no such option.
    """
    words = shlex.split(command, comments=True)[1:]
    with click.Context(main, info_name="hetsim", obj=Invocation(("hetsim", *words))) as ctx:
        verb: click.Command = main
        while isinstance(verb, click.Group) and words and words != ["--help"]:
            _, found, words = verb.resolve_command(ctx, words)
            assert found is not None, command
            verb = found
        given, _, _ = verb.make_parser(click.Context(verb)).parse_args(list(words))
    return verb, given


def names_a_verb(command: str) -> bool:
    """Whether a command only names a verb, which needs a model or a file and is given none."""
    verb, given = parsed(command)
    needs = [given.get(each.name) for each in verb.params if isinstance(each, click.Argument)]
    stands_alone = not needs or "schema" in given or "workload" in given
    return not stands_alone and not any(isinstance(each, str | tuple) for each in needs)


TO_RUN = [
    (page, command)
    for page in PAGES
    for command in dict.fromkeys(commands_of(page))
    if not any(word in command for word in NEEDS) and not names_a_verb(command)
]


def invoke(command: str) -> Result:
    program, *words = shlex.split(command, comments=True)
    assert program == "hetsim"
    return CliRunner().invoke(main, words)


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.slow
@sweep("command, shown", quick=SHOWN[:1], full=SHOWN, ids=[command for command, _ in SHOWN])
def test_readme_shows_what_is_printed(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = invoke(command).stdout
    head, cut, _ = shown.partition("...\n")
    assert printed == shown if not cut else printed.startswith(head)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_page_is_accepted(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verb is there, and takes each option."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "detector.onnx").touch()
    parsed(command)


@pytest.mark.slow
def test_readme_s_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = [block.text for block in blocks_of(README) if block.language == "python"]
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert capsys.readouterr().out.endswith(" ms\nTrue\n")


def test_commands_are_found() -> None:
    assert len(COMMANDS) >= 20
    assert len(TO_RUN) >= 20
    assert len(SHOWN) == 2


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("page", "command"), TO_RUN, ids=[f"{page.stem}: {command}" for page, command in TO_RUN]
)
def test_a_command_of_a_page_works(
    page: Path, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It works with the files of its page, and those that the pages call the reader's own."""
    monkeypatch.chdir(tmp_path)
    onnx.save(users_model(), tmp_path / "model.onnx")
    (tmp_path / "affinity.yaml").write_text(file_of("partition.md", "pins"))
    (tmp_path / "npu.json").write_text(json.dumps([{"count": 9}, _layer("conv1 + relu1")]))
    (tmp_path / "ort.json").write_text(json.dumps([_event("/head/MatMul")]))
    for block in blocks_of(page.read_text()):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
    done = invoke(command)
    for _ in range(3):
        # A loaded machine that emulates too slowly names the time scale to use.
        if slower := re.search(r"machine is too slow: .*(--time-scale [\d.]+)", done.stderr):
            command = re.sub(r"--time-scale [\d.]+", slower[1], command)
            done = invoke(command)
    assert done.exit_code == 0, done.stderr
    assert done.stdout


def users_model() -> onnx.ModelProto:
    """What the pages call ``model.onnx``: the nodes that ``affinity.yaml`` names."""
    weights = {"w": np.ones((4, 3, 3, 3)), "v": np.ones((4, 5)), "s": np.ones(5), "b": np.zeros(5)}
    return make_model(
        [
            op("Conv", "x w", "c", "conv1"),
            op("Relu", "c", "r", "conv2"),
            op("GlobalAveragePool", "r", "g", "pool"),
            op("Flatten", "g", "f", "flatten"),
            op("MatMul", "f v", "m", "/head/MatMul"),
            op("LayerNormalization", "m s b", "n", "/head/norm"),
            op("Softmax", "n", "y", "/head/softmax"),
        ],
        [value("x", ("batch", 3, 8, 8))],
        [value("y", ("batch", 5))],
        {name: array.astype(np.float32) for name, array in weights.items()},
    )


def _layer(name: str) -> dict[str, object]:
    """A layer of ``trtexec --exportProfile``."""
    return {"name": name, "timeMs": 0.9, "averageMs": 0.1, "medianMs": 0.1, "percentage": 100}


def _event(name: str) -> dict[str, object]:
    """A kernel in a profile of ONNX Runtime."""
    args = {"op_name": "MatMul", "provider": "CPUExecutionProvider"}
    named = {"cat": "Node", "name": f"{name}_kernel_time", "args": args}
    return {**named, "ph": "X", "pid": 1, "tid": 1, "ts": 5, "dur": 20}


def file_of(page: str, first: str) -> str:
    """The YAML block of a how-to page that starts with this key."""
    blocks = blocks_of((ROOT / "docs" / "how-to" / page).read_text())
    return next(b.text for b in blocks if b.language == "yaml" and b.text.startswith(first))


def test_the_affinity_file_is_one(tmp_path: Path) -> None:
    path = tmp_path / "affinity.yaml"
    path.write_text(file_of("partition.md", "pins"))
    wishes = load_affinity(path)
    assert wishes.pins == {"conv1": "npu", "/head/MatMul": "gpu"}
    assert wishes.default == "cpu"


def test_the_support_rules_are_ones(tmp_path: Path) -> None:
    rules = yaml.safe_load(file_of("own-platform.md", "support"))
    platform = yaml.safe_load(file_of("own-platform.md", "host"))
    platform["devices"]["npu"]["overrides"] |= rules
    path = tmp_path / "box.yaml"
    path.write_text(yaml.safe_dump(platform, sort_keys=False))
    spec = load_platform(path).devices["npu"]
    assert [pattern.name for pattern in spec.patterns] == ["gelu", "conv_unit"]
    assert spec.support.max_rank == 4
