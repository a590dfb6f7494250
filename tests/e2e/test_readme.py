"""What README.md shows is what the commands print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hetsim import load_platform, read_affinity

README = (Path(__file__).parents[2] / "README.md").read_text()
COMMANDS = re.findall(r"^(hetsim [^#\n]*?)\s*(?:#.*)?$", README, re.MULTILINE)


def hetsim(command: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_table_is_the_one_that_is_printed(tmp_path: Path) -> None:
    shown = next(block for block in README.split("```")[1::2] if "lower bound" in block)
    *report, blank, wall, verdict = shown.strip("\n").splitlines()
    printed = hetsim("hetsim compare zoo:resnet50 --platform laptop", tmp_path).splitlines()
    assert report == printed
    assert (blank, verdict) == ("", "outputs bitwise equal to the whole model: yes")
    assert re.fullmatch(r"heft on ray: .* wall clock", wall)


def test_commands_are_found() -> None:
    assert len(COMMANDS) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_command_works(command: str, tmp_path: Path) -> None:
    if "model.onnx" in command:
        import onnx
        from onnx import TensorProto, helper

        shape = ["batch", 3, 8, 8] if "--dim" in command else [1, 3, 8, 8]
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"], "relu")],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        onnx.save(model, tmp_path / "model.onnx")
        (tmp_path / "affinity.yaml").write_text("pins: {relu: gpu}\n")
    elif "affinity.yaml" in command:
        (tmp_path / "affinity.yaml").write_text("exclude: [{device: npu, ops: [Softmax]}]\n")
    assert hetsim(command, tmp_path)


def block(first: str) -> str:
    """The YAML block that starts with this key."""
    blocks = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    return next(text for text in blocks if text.startswith(first))


def test_the_affinity_file_is_one(tmp_path: Path) -> None:
    path = tmp_path / "affinity.yaml"
    path.write_text(block("pins"))
    wishes = read_affinity(path)
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
