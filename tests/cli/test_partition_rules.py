"""``hetsim partition`` with affinities, priorities and rules: what it does, how it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from cli_calls import Cli
from onnx_builders import make_model, save, value


def parsed(cli: Cli, *words: object) -> Any:
    result = cli(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def device_by_node(record: Any) -> dict[str, str]:
    return {name: group["device"] for group in record["groups"] for name in group["origins"]}


def test_an_affinity_file_places_nodes(
    cli: Cli, model: Path, platform: Path, tmp_path: Path
) -> None:
    path = tmp_path / "affinity.yaml"
    path.write_text("pins: {first: cpu}\nexclude: [{ops: [Softmax]}]\n")
    words = ["partition", model, "--platform", platform, "--affinity", path]
    record = parsed(cli, *words)
    found = device_by_node(record)
    assert found["first"] == found["last"] == "cpu"
    assert found["second"] == "npu"
    assert record["left"]["first"] == "pinned to it"
    assert "op Softmax is excluded" in record["left"]["last"]
    every = parsed(cli, *words, "--method", "all")
    assert len(every["methods"]) == 6


def test_the_model_s_own_notes_place_nodes(
    cli: Cli, model: Path, platform: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    words = ["partition", model, "--platform", platform]
    wanted = device_by_node(parsed(cli, *words, "--set", "max_groups=1", "--onnx", folder))
    annotated = ["partition", folder / "annotated.onnx", "--platform", platform]
    assert device_by_node(parsed(cli, *annotated, "--affinity", "model")) == wanted
    plain = cli(*words, "--affinity", "model")
    assert (plain.exit_code, plain.stdout) == (3, "")
    assert "no node has a device in its metadata" in plain.stderr


def test_priority_in_both_spellings_and_by_memory(cli: Cli, model: Path, platform: Path) -> None:
    words = ["partition", model, "--platform", platform, "--priority"]
    one, other = parsed(cli, *words, "npu >> cpu"), parsed(cli, *words, "npu,cpu")
    assert one == other
    assert len(parsed(cli, *words, "cpu")["groups"]) == 1
    assert parsed(cli, *words, "by-memory")["groups"]


def test_housekeeping_goes_along_or_stays(cli: Cli, platform: Path, tmp_path: Path) -> None:
    make = onnx.helper.make_node
    nodes = [
        make("Transpose", ["x"], ["a"], name="lead", perm=[1, 0]),
        make("Relu", ["a"], ["b"], name="r1"),
        make("Transpose", ["b"], ["c"], name="inner", perm=[1, 0]),
        make("Relu", ["c"], ["d"], name="r2"),
        make("Transpose", ["d"], ["y"], name="trail", perm=[1, 0]),
    ]
    path = tmp_path / "m.onnx"
    onnx.save(make_model(nodes, [value("x")], [value("y", (3, 2))]), path)
    words = ["partition", path, "--platform", platform, "--canonical", "none"]
    assert set(device_by_node(parsed(cli, *words)).values()) == {"npu"}
    words += ["--set", "housekeeping_ops=Transpose", "--set"]
    found = device_by_node(parsed(cli, *words, "housekeeping=default"))
    assert found == {"lead": "cpu", "r1": "npu", "inner": "npu", "r2": "npu", "trail": "cpu"}
    assert set(device_by_node(parsed(cli, *words, "housekeeping=follow")).values()) == {"npu"}


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--affinity", "{here}/none.json"], 2, "none.json: no such file"),
        (["--affinity", "{here}/bad.json"], 3, "bad.json:2: no node 'frist' in"),
        (["--affinity", "{here}/half.json"], 3, "half.json:1: not YAML"),
        (["--affinity", "{here}/lacks.json"], 4, "'choose' (Where): it is pinned to 'npu'"),
        (["--priority", "npu"], 4, "no device of npu supports it"),
        (["--priority", "npu,npu"], 2, "not a list of different devices"),
        (["--priority", "tpu"], 2, "no device 'tpu'"),
        (["--method", "byco"], 2, "did you mean 'byoc'"),
        (["--method", "byoc", "--priority", "cpu,npu"], 4, "needs a default device"),
        (["--set", "housekeeping=folow"], 2, "did you mean 'follow'"),
        (["--set", "housekeeping_ops=Relu"], 2, "without a way to treat them"),
        (
            ["--set", "housekeeping=default", "--set", "housekeeping_ops=Rleu"],
            3,
            "no op type 'Rleu'",
        ),
        (["--set", "housekeeping=default", "--set", "housekeeping_ops="], 2, "empty op type"),
    ],
)
def test_what_cannot_be_done_is_named_and_nothing_is_written(
    cli: Cli,
    model: Path,
    platform: Path,
    tmp_path: Path,
    words: list[str],
    code: int,
    complaint: str,
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "bad.json").write_text('{"pins":\n{"frist": "npu"}}')
    (here / "half.json").write_text('{"pins": {"first": "npu"')
    (here / "lacks.json").write_text('{"choose": "npu"}')
    before = sorted(tmp_path.rglob("*"))
    outputs = ["--onnx", tmp_path / "parts", "--dot", tmp_path / "p.dot"]
    given = [word.replace("{here}", str(here)) for word in words]
    result = cli("partition", model, "--platform", platform, *outputs, *given)
    assert (result.exit_code, result.stdout) == (code, "")
    assert complaint in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_model_is_refused(cli: Cli, platform: Path, tmp_path: Path) -> None:
    proto = make_model([], [value("x")], [value("x")])
    path = save(proto, tmp_path, "empty.onnx")
    result = cli("partition", path, "--platform", platform)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "empty.onnx" in result.stderr
