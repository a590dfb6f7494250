"""``hetsim compile`` and ``hetsim run DIR``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_calls import call, ok, record_of, refused


@pytest.fixture
def folder(model: Path, platform: Path, tmp_path: Path) -> Path:
    """The tiny model, compiled."""
    target = tmp_path / "compiled"
    ok("compile", model, "--platform", platform, "--strategy", "hetero", "-o", target)
    return target


def test_compile_says_what_it_wrote(model: Path, platform: Path, tmp_path: Path) -> None:
    words = ["compile", model, "--platform", platform, "--strategy", "hetero"]
    table = ok(*words, "-o", tmp_path / "one")
    assert "g0_npu.onnx" in table.stdout
    assert "npu:intel-core-ultra-155h-npu" in table.stdout
    assert "hetsim run" in table.stderr
    quiet = call(*words, "-o", tmp_path / "two", "--json", "-q")
    record: dict[str, Any] = json.loads(quiet.stdout)
    assert quiet.stderr == ""
    assert record["schema"] == "hetsim-compiled/3"
    files = [entry["file"] for entry in record["groups"]]
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == sorted(
        [*files, "manifest.json", "plan.json"]
    )


def test_a_saved_plan_compiles_to_the_same_files(folder: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes((folder / "plan.json").read_bytes())
    ok("compile", plan, "-o", tmp_path / "again")
    for file in folder.iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_a_folder_runs_and_is_compared_while_the_model_is_there(
    folder: Path, model: Path, platform: Path
) -> None:
    whole = call(
        "run", model, "--platform", platform, "--strategy", "hetero", "--executor", "threads",
        "--seed", "4", "--json",
    )  # fmt: skip
    words = ["run", folder, "--executor", "threads", "--seed", "4"]
    done = ok(*words, "--json")
    record, wanted = json.loads(done.stdout), json.loads(whole.stdout)
    assert record["schema"] == "hetsim-compiled-run/1"
    assert record["outputs"] == wanted["outputs"]
    assert record["bitwise_equal"] is True
    assert "outputs bitwise equal to the whole model: yes" in call(*words).stdout
    model.unlink()
    platform.unlink()
    without = record_of(*words)
    assert without["outputs"] == wanted["outputs"]
    assert without["bitwise_equal"] is None
    assert "no whole model to compare with" in without["not_compared"]
    assert "not compared (no whole model" in " ".join(call(*words).stdout.split())


def test_a_folder_takes_arrays(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 8), np.float32))
    words = ["run", folder, "--executor", "threads", "--json"]
    ones = ok(*words, "--input", f"x={tmp_path / 'x.npy'}")
    assert json.loads(ones.stdout)["outputs"] != json.loads(call(*words).stdout)["outputs"]
    np.save(tmp_path / "x.npy", np.ones((3, 8), np.float32))
    refused(call(*words, "--input", f"x={tmp_path / 'x.npy'}"), 3, "(3, 8)")


@pytest.mark.parametrize(
    "words",
    [
        ["--platform", "laptop"], ["--strategy", "heft"], ["--precision", "graph"],
        ["--dim", "batch=1"], ["--canonical", "basic"], ["--trace", "t.json"], ["--out", "o"],
    ],
)  # fmt: skip
def test_what_a_folder_fixes_cannot_be_given(folder: Path, words: list[str]) -> None:
    refused(
        call("run", folder, "--executor", "threads", *words),
        2,
        f"{words[0]} belongs to 'hetsim run MODEL'",
    )


def test_a_damaged_folder_is_one_line_and_exit_code_3(folder: Path) -> None:
    file = folder / "g0_npu.onnx"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    refused(call("run", folder, "--executor", "threads"), 3, "g0_npu.onnx: damaged")
    (folder / "manifest.json").unlink()
    (folder / "plan.json").rename(folder / "manifest.json")
    assert call("run", folder, "--executor", "threads").exit_code == 3


def test_compile_refuses_a_folder_that_is_in_use(
    folder: Path, model: Path, platform: Path, tmp_path: Path
) -> None:
    before = sorted(folder.iterdir())
    refused(call("compile", model, "--platform", platform, "-o", folder), 2, "not empty")
    assert sorted(folder.iterdir()) == before


def test_rounding_devices_compile_too(model: Path, platform: Path, tmp_path: Path) -> None:
    words = ["compile", model, "--platform", platform, "--strategy", "hetero"]
    record = record_of(*words, "--precision", "device", "-o", tmp_path / "rounded")
    rounding = {entry["name"]: entry["rounding"] for entry in record["devices"]}
    run = ok("run", tmp_path / "rounded", "--executor", "threads", "--json")
    assert json.loads(run.stdout)["precision"] == "device"
    assert json.loads(run.stdout)["bitwise_equal"] is True
    assert rounding["npu"]
