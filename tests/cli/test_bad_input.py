"""Bad input: one line that says what to do, its exit code, and nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper

import hetsim
from cli_calls import call, refused

Spoil = Callable[[Path], None]


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def missing(path: Path) -> None:
    path.unlink()


def external(path: Path, location: str) -> None:
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())


def external_outside(path: Path) -> None:
    (path.parent.parent / "weights.bin").write_bytes(bytes(8 * 16 * 4))
    external(path, "../weights.bin")


def unbound(path: Path) -> None:
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, path)


MODELS: list[tuple[Spoil, int, str]] = [
    (missing, 2, "tiny.onnx"),
    (truncated, 3, "tiny.onnx"),
    (external_outside, 3, "weights.bin"),
    (unbound, 3, "--dim batch=N"),
]


@pytest.mark.parametrize(
    ("spoil", "code", "says"), MODELS, ids=lambda v: getattr(v, "__name__", "")
)
def test_a_broken_model(
    model: Path, platform: Path, tmp_path: Path, spoil: Spoil, code: int, says: str
) -> None:
    spoil(model)
    out = tmp_path / "out"
    words = ["run", model, "--platform", platform, "--out", out, "--trace", tmp_path / "t"]
    refused(call(*words), code, says)
    assert not out.exists()
    assert not (tmp_path / "t").exists()


PLATFORMS = [
    ("between: [cpu, npu]", "between: [cpu, npx]", "npu"),
    ("bandwidth_gbytes_s: 10", "bandwidth_gbytes_s: 0", "bandwidth_gbytes_s"),
    ("devices:", "devices: [", "pair.yaml"),
]


@pytest.mark.parametrize(("old", "new", "says"), PLATFORMS)
def test_a_broken_platform(model: Path, platform: Path, old: str, new: str, says: str) -> None:
    text = platform.read_text()
    assert old in text
    platform.write_text(text.replace(old, new))
    refused(call("compare", model, "--platform", platform), 3, says, "pair.yaml")


@pytest.mark.parametrize("content", [None, b"", b"no array", b"\x93NUMPY\x01\x00\x10\x00"])
def test_files_that_hold_no_array(
    model: Path, platform: Path, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "a.npy"
    if content is not None:
        path.write_bytes(content)
    words = ["run", model, "--platform", platform, "--executor", "threads"]
    refused(call(*words, "--input", f"x={path}"), 2 if content is None else 3, f"--input x={path}")


def test_an_array_of_objects_is_not_unpickled(model: Path, platform: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    words = ["run", model, "--platform", platform, "--executor", "threads"]
    refused(call(*words, "--input", f"x={path}"), 3, "not a .npy file of a plain array")


@pytest.mark.parametrize("text", ["{", '{"schema": "hetsim-plan/1"}'])
def test_a_broken_plan(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    refused(call("simulate", path), 3, "plan.json")
    refused(call("run", path), 3, "plan.json")


def test_a_plan_whose_model_changed(model: Path, platform: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call("simulate", model, "--platform", platform, "--out", out).exit_code == 0
    plan = out / "plan.json"
    proto = onnx.load(model)
    proto.graph.node[1].name = "renamed"
    onnx.save(proto, model)
    refused(call("simulate", plan), 3, "changed since")
    record = json.loads(plan.read_text())
    record["groups"][0]["nodes"][0] = "ghost"
    record["model"] = None
    plan.write_text(json.dumps(record))
    refused(call("simulate", plan), 3, "no model or platform")


@pytest.mark.parametrize("verb", ["simulate", "run", "compare"])
def test_targets_are_refused_before_any_work(
    model: Path, platform: Path, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    (tmp_path / "t.json").write_text("mine")
    model.unlink()
    words = [verb, model, "--platform", platform]
    refused(call(*words, "--out", tmp_path / "out"), 2, "--force")
    refused(call(*words, "--trace", tmp_path / "t.json"), 2, "--force")
    refused(call(*words, "--trace", tmp_path / "no" / "t.json"), 2, "no folder")
    assert (tmp_path / "t.json").read_text() == "mine"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "a\0.onnx"),
        ("compile", "m.onnx", "--platform", "laptop", "-o", "a\0b"),
        ("simulate", "m.onnx", "--platform", "lap\0top"),
        ("sweep", "grid.yaml", "-o", "\0"),
        ("simulate", "m.onnx", "--trace=\0"),
    ],
)
def test_an_argument_with_a_null_byte(words: tuple[str, ...]) -> None:
    result = call(*words)
    assert result.exit_code == 2
    assert result.stderr == "error: an argument has a null byte; leave it out\n"


def test_a_path_with_a_null_byte(dynamic_model: Path) -> None:
    problem = hetsim.Problem.of(
        hetsim.load_model(dynamic_model, dims={"batch": 1}), hetsim.load_platform("laptop")
    )
    plan = hetsim.plan(problem, "single:cpu")
    for question in (
        lambda: hetsim.load_model("a\0"),
        lambda: hetsim.load_platform("a\0"),
        lambda: hetsim.load_workload("a\0"),
        lambda: plan.save("a\0"),
        lambda: hetsim.partition(problem).save_onnx("a\0"),
    ):
        with pytest.raises(hetsim.errors.InvalidInput, match="a path without a null byte"):
            question()
