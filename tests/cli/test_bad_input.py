"""Bad input: one line that says what to do, its exit code, and nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import external_data_helper

import hetsim
from cli_calls import Cli

Spoil = Callable[[Path], None]


def no_onnx(path: Path) -> None:
    path.write_text("this is no model")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def missing(path: Path) -> None:
    path.unlink()


def newer_opset(path: Path) -> None:
    model = onnx.load(path)
    model.opset_import[0].version = 999
    onnx.save(model, path)


def newer_ir(path: Path) -> None:
    model = onnx.load(path)
    model.ir_version = 99
    onnx.save(model, path)


def unknown_op(path: Path) -> None:
    model = onnx.load(path)
    model.graph.node[1].op_type = "Frobnicate"
    onnx.save(model, path)


def cycle(path: Path) -> None:
    model = onnx.load(path)
    model.graph.node[0].input[0] = "e"
    onnx.save(model, path)


def dangling(path: Path) -> None:
    model = onnx.load(path)
    model.graph.node[1].input[0] = "nowhere"
    onnx.save(model, path)


def external(path: Path, location: str) -> None:
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())


def external_missing(path: Path) -> None:
    external(path, "weights.bin")


def external_outside(path: Path) -> None:
    (path.parent.parent / "weights.bin").write_bytes(bytes(8 * 16 * 4))
    external(path, "../weights.bin")


def unbound(path: Path) -> None:
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, path)


def refused(result: Result, code: int, says: str) -> None:
    assert result.exit_code == code, result.stderr
    assert result.stderr.startswith("error: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert "Traceback" not in result.stderr
    assert says in result.stderr


MODELS: list[tuple[Spoil, int, str]] = [
    (missing, 2, "tiny.onnx"),
    (folder, 3, "tiny.onnx"),
    (no_onnx, 3, "tiny.onnx"),
    (empty, 3, "tiny.onnx"),
    (truncated, 3, "tiny.onnx"),
    (newer_opset, 3, "999"),
    (newer_ir, 3, "99"),
    (unknown_op, 3, "Frobnicate"),
    (cycle, 3, "tiny.onnx"),
    (dangling, 3, "nowhere"),
    (external_missing, 3, "weights.bin"),
    (external_outside, 3, "weights.bin"),
    (unbound, 3, "--dim batch=N"),
]


@pytest.mark.parametrize(
    ("spoil", "code", "says"), MODELS, ids=lambda v: getattr(v, "__name__", "")
)
@pytest.mark.parametrize("verb", ["compare", "run"])
def test_a_broken_model(
    cli: Cli, model: Path, platform: Path, tmp_path: Path,
    verb: str, spoil: Spoil, code: int, says: str,
) -> None:  # fmt: skip
    spoil(model)
    out = tmp_path / "out"
    result = cli(verb, model, "--platform", platform, "--out", out, "--trace", tmp_path / "t")
    refused(result, code, says)
    assert result.stdout == ""
    assert not out.exists()
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--dim", "batch=2"], 2, "batch"),
        (["--shape", "z=2,8"], 2, "'z'"),
        (["--shape", "x=2,9"], 2, "x"),
        (["--shape", "x=2"], 2, "x"),
    ],
)
def test_a_wrong_binding(
    cli: Cli, model: Path, platform: Path, words: list[str], code: int, says: str
) -> None:
    refused(cli("compare", model, "--platform", platform, *words), code, says)


PLATFORMS = [
    (
        "cpu: intel-core-ultra-155h-cpu",
        "cpu: intel-core-ultra-155h-cp",
        "intel-core-ultra-155h-cpu",
    ),
    ("host: cpu", "hots: cpu", "host"),
    ("host: cpu", "host: gpu", "gpu"),
    ("between: [cpu, npu]", "between: [cpu, npx]", "npu"),
    ("  - {between: [cpu, npu], latency_us: 5, bandwidth_gbytes_s: 10}", "  []", "npu"),
    ("bandwidth_gbytes_s: 10", "bandwidth_gbytes_s: 0", "bandwidth_gbytes_s"),
    ("bandwidth_gbytes_s: 10", "bandwidth_gbytes_s: -1", "bandwidth_gbytes_s"),
    ("devices:", "devices: [", "pair.yaml"),
]


@pytest.mark.parametrize(("old", "new", "says"), PLATFORMS)
@pytest.mark.parametrize("verb", ["compare", "inspect", "partition"])
def test_a_broken_platform(
    cli: Cli, model: Path, platform: Path, verb: str, old: str, new: str, says: str
) -> None:
    text = platform.read_text()
    assert old in text
    platform.write_text(text.replace(old, new))
    result = cli(verb, model, "--platform", platform)
    refused(result, 3, says)
    assert "pair.yaml" in result.stderr
    assert result.stdout == ""


def test_an_unknown_platform(cli: Cli, model: Path) -> None:
    refused(cli("compare", model, "--platform", "none.yaml"), 2, "none.yaml")


@pytest.mark.parametrize(
    ("array", "name", "says"),
    [
        (np.zeros((2, 8), np.float32), "z", "z"),
        (np.zeros((2, 8), np.float64), "x", "float32"),
        (np.zeros((2, 9), np.float32), "x", "(2, 9)"),
    ],
)
def test_arrays_that_do_not_fit(
    cli: Cli, model: Path, platform: Path, tmp_path: Path,
    array: np.ndarray, name: str, says: str,
) -> None:  # fmt: skip
    np.save(tmp_path / "a.npy", array)
    words = ["run", model, "--platform", platform, "--executor", "threads"]
    refused(cli(*words, "--input", f"{name}={tmp_path / 'a.npy'}"), 3, says)


@pytest.mark.parametrize("content", [None, b"", b"no array", b"\x93NUMPY\x01\x00\x10\x00"])
def test_files_that_hold_no_array(
    cli: Cli, model: Path, platform: Path, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "a.npy"
    if content is not None:
        path.write_bytes(content)
    words = ["run", model, "--platform", platform, "--executor", "threads"]
    refused(cli(*words, "--input", f"x={path}"), 2 if content is None else 3, f"--input x={path}")


def test_an_array_of_objects_is_not_unpickled(
    cli: Cli, model: Path, platform: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    words = ["run", model, "--platform", platform, "--executor", "threads"]
    refused(cli(*words, "--input", f"x={path}"), 3, "not a .npy file of a plain array")


def test_a_node_that_no_device_supports(cli: Cli, model: Path, tmp_path: Path) -> None:
    npu_only = tmp_path / "npu.yaml"
    npu_only.write_text("host: npu\ndevices: {npu: intel-core-ultra-155h-npu}\nlinks: []\n")
    for verb in ("compare", "simulate", "partition", "run"):
        result = cli(verb, model, "--platform", npu_only)
        assert result.exit_code == 4
        assert result.stderr.count("\n") == 1
        assert "Greater" in result.stderr


def test_a_model_that_does_not_fit(cli: Cli, model: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.yaml"
    small.write_text(
        "host: cpu\ndevices:\n  cpu:\n    device: intel-core-ultra-155h-cpu\n"
        "    overrides: {memory_gib: 1.0e-7}\nlinks: []\n"
    )
    result = cli("compare", model, "--platform", small)
    assert result.exit_code == 4
    assert result.stderr.count("\n") == 1
    assert "needs 772 B" in result.stderr
    refused(cli("simulate", model, "--platform", small, "--strategy", "single:cpu"), 4, "cpu")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "hetsim-plan/1"}', "\x00"])
def test_a_broken_plan(cli: Cli, tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    refused(cli("simulate", path), 3, "plan.json")
    refused(cli("run", path), 3, "plan.json")


def test_a_missing_plan(cli: Cli, tmp_path: Path) -> None:
    refused(cli("simulate", tmp_path / "plan.json"), 2, "plan.json")


def test_a_plan_whose_model_changed(cli: Cli, model: Path, platform: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli("simulate", model, "--platform", platform, "--out", out).exit_code == 0
    plan = out / "plan.json"
    proto = onnx.load(model)
    proto.graph.node[1].name = "renamed"
    onnx.save(proto, model)
    refused(cli("simulate", plan), 3, "changed since")
    record = json.loads(plan.read_text())
    record["groups"][0]["nodes"][0] = "ghost"
    record["model"] = None
    plan.write_text(json.dumps(record))
    refused(cli("simulate", plan), 3, "no model or platform")


@pytest.mark.parametrize("verb", ["simulate", "run", "compare"])
def test_targets_are_refused_before_any_work(
    cli: Cli, model: Path, platform: Path, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    (tmp_path / "t.json").write_text("mine")
    model.unlink()
    words = [verb, model, "--platform", platform]
    refused(cli(*words, "--out", tmp_path / "out"), 2, "--force")
    refused(cli(*words, "--trace", tmp_path / "t.json"), 2, "--force")
    refused(cli(*words, "--trace", tmp_path / "no" / "t.json"), 2, "no folder")
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
def test_an_argument_with_a_null_byte(cli: Cli, words: tuple[str, ...]) -> None:
    result = cli(*words)
    assert result.exit_code == 2
    assert result.stderr == "error: an argument has a null byte; leave it out\n"


def test_a_path_with_a_null_byte(dynamic_model: Path) -> None:
    problem = hetsim.Problem.of(
        hetsim.load_model(dynamic_model, dims={"batch": 1}), hetsim.load_platform("laptop")
    )
    plan = hetsim.plan(problem, "single:cpu")
    for call in (
        lambda: hetsim.load_model("a\0"),
        lambda: hetsim.load_platform("a\0"),
        lambda: hetsim.load_workload("a\0"),
        lambda: plan.save("a\0"),
        lambda: hetsim.partition(problem).save_onnx("a\0"),
    ):
        with pytest.raises(hetsim.errors.InvalidInput, match="a path without a null byte"):
            call()
