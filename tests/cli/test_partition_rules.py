"""``hetsim partition`` with affinities, priorities and rules: what it does, how it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from cli_calls import call, record_of, refused
from onnx_builders import make_model, save, value


def device_by_node(record: Any) -> dict[str, str]:
    return {name: group["device"] for group in record["groups"] for name in group["origins"]}


def test_an_affinity_file_places_nodes(model: Path, platform: Path, tmp_path: Path) -> None:
    path = tmp_path / "affinity.yaml"
    path.write_text("pins: {first: cpu}\nexclude: [{ops: [Softmax]}]\n")
    words = ["partition", model, "--platform", platform, "--affinity", path]
    record = record_of(*words)
    found = device_by_node(record)
    assert found["first"] == found["last"] == "cpu"
    assert found["second"] == "npu"
    assert record["left"]["first"] == "pinned to it"
    assert "op Softmax is excluded" in record["left"]["last"]
    every = record_of(*words, "--method", "all")
    assert len(every["methods"]) == 6


def test_the_model_s_own_notes_place_nodes(model: Path, platform: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    words = ["partition", model, "--platform", platform]
    wanted = device_by_node(record_of(*words, "--set", "max_groups=1", "--onnx", folder))
    annotated = ["partition", folder / "annotated.onnx", "--platform", platform]
    assert device_by_node(record_of(*annotated, "--affinity", "model")) == wanted
    refused(call(*words, "--affinity", "model"), 3, "no node has a device in its metadata")


def test_priority_in_both_spellings_and_by_memory(model: Path, platform: Path) -> None:
    words = ["partition", model, "--platform", platform, "--priority"]
    one, other = record_of(*words, "npu >> cpu"), record_of(*words, "npu,cpu")
    assert one == other
    assert len(record_of(*words, "cpu")["groups"]) == 1
    assert record_of(*words, "by-memory")["groups"]


def test_housekeeping_goes_along_or_stays(platform: Path, tmp_path: Path) -> None:
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
    assert set(device_by_node(record_of(*words)).values()) == {"npu"}
    words += ["--set", "housekeeping_ops=Transpose", "--set"]
    found = device_by_node(record_of(*words, "housekeeping=default"))
    assert found == {"lead": "cpu", "r1": "npu", "inner": "npu", "r2": "npu", "trail": "cpu"}
    assert set(device_by_node(record_of(*words, "housekeeping=follow")).values()) == {"npu"}


def test_an_empty_model_is_refused(platform: Path, tmp_path: Path) -> None:
    proto = make_model([], [value("x")], [value("x")])
    path = save(proto, tmp_path, "empty.onnx")
    refused(call("partition", path, "--platform", platform), 3, "empty.onnx")
