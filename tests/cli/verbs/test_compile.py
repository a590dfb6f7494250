"""``hetsim compile`` and ``hetsim run DIR``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_calls import Cli


@pytest.fixture
def folder(cli: Cli, model: Path, platform: Path, tmp_path: Path) -> Path:
    """The tiny model, compiled."""
    target = tmp_path / "compiled"
    done = cli("compile", model, "--platform", platform, "--strategy", "hetero", "-o", target)
    assert done.exit_code == 0, done.stderr
    return target


def test_compile_says_what_it_wrote(cli: Cli, model: Path, platform: Path, tmp_path: Path) -> None:
    words = ["compile", model, "--platform", platform, "--strategy", "hetero"]
    table = cli(*words, "-o", tmp_path / "one")
    assert table.exit_code == 0, table.stderr
    assert "g0_npu.onnx" in table.stdout
    assert "npu:intel-core-ultra-155h-npu" in table.stdout
    assert "hetsim run" in table.stderr
    quiet = cli(*words, "-o", tmp_path / "two", "--json", "-q")
    record: dict[str, Any] = json.loads(quiet.stdout)
    assert quiet.stderr == ""
    assert record["schema"] == "hetsim-compiled/3"
    files = [entry["file"] for entry in record["groups"]]
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == sorted(
        [*files, "manifest.json", "plan.json"]
    )


def test_a_saved_plan_compiles_to_the_same_files(cli: Cli, folder: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes((folder / "plan.json").read_bytes())
    done = cli("compile", plan, "-o", tmp_path / "again")
    assert done.exit_code == 0, done.stderr
    for file in folder.iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_a_folder_runs_and_is_compared_while_the_model_is_there(
    cli: Cli, folder: Path, model: Path, platform: Path
) -> None:
    whole = cli(
        "run", model, "--platform", platform, "--strategy", "hetero", "--executor", "threads",
        "--seed", "4", "--json",
    )  # fmt: skip
    words = ["run", folder, "--executor", "threads", "--seed", "4"]
    done = cli(*words, "--json")
    assert done.exit_code == 0, done.stderr
    record, wanted = json.loads(done.stdout), json.loads(whole.stdout)
    assert record["schema"] == "hetsim-compiled-run/1"
    assert record["outputs"] == wanted["outputs"]
    assert record["bitwise_equal"] is True
    assert "outputs bitwise equal to the whole model: yes" in cli(*words).stdout
    model.unlink()
    platform.unlink()
    alone = cli(*words, "--json")
    assert alone.exit_code == 0, alone.stderr
    without = json.loads(alone.stdout)
    assert without["outputs"] == wanted["outputs"]
    assert without["bitwise_equal"] is None
    assert "no whole model to compare with" in without["not_compared"]
    assert "not compared (no whole model" in " ".join(cli(*words).stdout.split())


def test_a_folder_takes_arrays(cli: Cli, folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 8), np.float32))
    words = ["run", folder, "--executor", "threads", "--json"]
    ones = cli(*words, "--input", f"x={tmp_path / 'x.npy'}")
    assert ones.exit_code == 0, ones.stderr
    assert json.loads(ones.stdout)["outputs"] != json.loads(cli(*words).stdout)["outputs"]
    np.save(tmp_path / "x.npy", np.ones((3, 8), np.float32))
    wrong = cli(*words, "--input", f"x={tmp_path / 'x.npy'}")
    assert wrong.exit_code == 3
    assert "(3, 8)" in wrong.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--platform", "laptop"], ["--strategy", "heft"], ["--precision", "graph"],
        ["--dim", "batch=1"], ["--canonical", "basic"], ["--trace", "t.json"], ["--out", "o"],
    ],
)  # fmt: skip
def test_what_a_folder_fixes_cannot_be_given(cli: Cli, folder: Path, words: list[str]) -> None:
    done = cli("run", folder, "--executor", "threads", *words)
    assert done.exit_code == 2
    assert f"{words[0]} belongs to 'hetsim run MODEL'" in done.stderr


def test_a_damaged_folder_is_one_line_and_exit_code_3(cli: Cli, folder: Path) -> None:
    file = folder / "g0_npu.onnx"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    done = cli("run", folder, "--executor", "threads")
    assert done.exit_code == 3
    assert done.stderr.count("\n") == 1
    assert "g0_npu.onnx: damaged" in done.stderr
    (folder / "manifest.json").unlink()
    (folder / "plan.json").rename(folder / "manifest.json")
    assert cli("run", folder, "--executor", "threads").exit_code == 3


def test_compile_refuses_a_folder_that_is_in_use(
    cli: Cli, folder: Path, model: Path, platform: Path, tmp_path: Path
) -> None:
    before = sorted(folder.iterdir())
    done = cli("compile", model, "--platform", platform, "-o", folder)
    assert done.exit_code == 2
    assert "not empty" in done.stderr
    assert sorted(folder.iterdir()) == before
    assert cli("compile", model, "--platform", platform).exit_code == 2
    assert cli("compile", tmp_path / "no.onnx", "--platform", platform, "-o", "d").exit_code == 2


def test_rounding_devices_compile_too(
    cli: Cli, model: Path, platform: Path, tmp_path: Path
) -> None:
    words = ["compile", model, "--platform", platform, "--strategy", "hetero"]
    done = cli(*words, "--precision", "device", "-o", tmp_path / "rounded", "--json")
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    rounding = {entry["name"]: entry["rounding"] for entry in record["devices"]}
    run = cli("run", tmp_path / "rounded", "--executor", "threads", "--json")
    assert run.exit_code == 0, run.stderr
    assert json.loads(run.stdout)["precision"] == "device"
    assert json.loads(run.stdout)["bitwise_equal"] is True
    assert rounding["npu"]
