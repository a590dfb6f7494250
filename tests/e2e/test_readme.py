"""What README.md shows is what the commands print."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from click.testing import CliRunner

from certificate_parts import certified
from hetsim import load_affinity, load_platform
from hetsim.cli.main import main
from hetsim.cost.calibration import calibrate
from onnx_builders import make_model, op, value
from sweeps import WHOLE

README = (Path(__file__).parents[2] / "README.md").read_text()
COMMANDS = re.findall(r"^(hetsim [^#\n]*?)\s*(?:#.*)?$", README, re.MULTILINE)


Call = Callable[[str], str]


@pytest.fixture
def hetsim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Give a command to the command line, in a folder of its own, and return what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(command: str) -> str:
        program, *words = shlex.split(command)
        assert program == "hetsim"
        done = CliRunner().invoke(main, words, catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    return call


def test_the_table_is_the_one_that_is_printed(hetsim: Call) -> None:
    shown = next(block for block in README.split("```")[1::2] if "lower bound" in block)
    *report, blank, wall, verdict = shown.strip("\n").splitlines()
    printed = hetsim("hetsim compare zoo:inception_v1 --platform rock-5b").splitlines()
    assert report == printed
    assert (blank, verdict) == ("", "outputs bitwise equal to the whole model: yes")
    assert re.fullmatch(r"auto on ray: .* by the wall clock of this machine", wall)


def test_the_verdict_for_throughput_is_the_one_that_is_printed(hetsim: Call) -> None:
    section = README[README.index("## Copies of the model") :]
    shown = section.split("```")[1].strip("\n")
    (command,) = re.findall("`(hetsim compare [^`]+)` says", section)
    assert hetsim(command).startswith(shown + "\n\n")


def test_commands_are_found() -> None:
    assert len(COMMANDS) >= 6


def users_model() -> onnx.ModelProto:
    """What README calls ``model.onnx``: a dim ``batch``, and the nodes of its affinity file."""
    weights = {"w": np.ones((4, 3, 3, 3)), "v": np.ones((4, 5)), "s": np.ones(5), "b": np.zeros(5)}
    return make_model(
        [
            op("Conv", "x w", "c", "conv1"),
            op("Relu", "c", "r", "relu1"),
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


def on_ray(command: str) -> bool:
    """Whether a command starts a Ray where there is none."""
    return command.startswith(("hetsim run ", "hetsim sweep ")) and "threads" not in command


def marks_of(command: str, k: int) -> list[pytest.MarkDecorator]:
    """Every third runs each time, the rest in the sweep; on one Ray what needs one."""
    return [pytest.mark.group("ray")] * on_ray(command) + [pytest.mark.sweep] * (k % 3 != 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [pytest.param(command, marks=marks_of(command, k)) for k, command in enumerate(COMMANDS)],
)
def test_command_works(
    command: str,
    hetsim: Call,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if on_ray(command):
        request.getfixturevalue("ray_connection")
    # As few networks as there may be, where it says how long to measure; the sweep has all of them.
    command = re.sub(r"--budget \w+", "--budget 1s", command)
    if request.config.getoption("sweep") != WHOLE:
        monkeypatch.setattr(calibrate, "FEWEST", 2)
    onnx.save(users_model(), tmp_path / "model.onnx")
    (tmp_path / "affinity.yaml").write_text(block("pins"))
    (tmp_path / "catalog.yaml").write_text(block("kinds"))
    (tmp_path / "workload.yaml").write_text(block("requests"))
    (tmp_path / "npu.json").write_text(json.dumps([{"count": 9}, _layer("conv1 + relu1")]))
    (tmp_path / "ort.json").write_text(json.dumps([_event("/head/MatMul")]))
    if command.startswith("hetsim recommend --verify "):
        (tmp_path / "why.json").write_text(json.dumps(certified(2)))
    assert hetsim(command)


def _layer(name: str) -> dict[str, object]:
    """A layer of ``trtexec --exportProfile``."""
    return {"name": name, "timeMs": 0.9, "averageMs": 0.1, "medianMs": 0.1, "percentage": 100}


def _event(name: str) -> dict[str, object]:
    """A kernel as ONNX Runtime takes it down."""
    args = {"op_name": "MatMul", "provider": "CPUExecutionProvider"}
    named = {"cat": "Node", "name": f"{name}_kernel_time", "args": args}
    return {**named, "ph": "X", "pid": 1, "tid": 1, "ts": 5, "dur": 20}


def block(first: str) -> str:
    """The YAML block that starts with this key."""
    blocks = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    return next(text for text in blocks if text.startswith(first))


def test_the_affinity_file_is_one(tmp_path: Path) -> None:
    path = tmp_path / "affinity.yaml"
    path.write_text(block("pins"))
    wishes = load_affinity(path)
    assert wishes.pins == {"conv1": "npu", "/head/MatMul": "gpu"}
    assert wishes.default == "cpu"


def test_the_support_rules_are_ones(tmp_path: Path) -> None:
    rules = yaml.safe_load(block("support"))
    platform = yaml.safe_load(block("host"))
    platform["devices"]["npu"]["overrides"] |= rules
    path = tmp_path / "box.yaml"
    path.write_text(yaml.safe_dump(platform, sort_keys=False))
    spec = load_platform(path).devices["npu"]
    assert [pattern.name for pattern in spec.patterns] == ["gelu", "conv_unit"]
    assert spec.support.max_rank == 4
