"""What is written of nodes: JSON by its schema, CSV by its columns, node data for a page."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest

import hetsim
from builders import BOX
from hetsim.analysis.nodes.files import COLUMNS, WHATS, What, form_of
from hetsim.analysis.nodes.nodes import Nodes, nodes
from hetsim.analysis.nodes.record import nodes_schema
from hetsim.errors import UsageError
from hetsim.problem.problem import Problem
from onnx_builders import load, make_model, op, value
from sweeps import swept

VALID = jsonschema.Draft202012Validator(nodes_schema())
STYLES = {"value", "bgColor", "textColor"}


@pytest.fixture(scope="module", params=swept(quick=["small"], full=["small", "zoo:squeezenet"]))
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    """A plan in which the npu refuses a part, and a node of the file is folded into another."""
    if request.param == "small":
        proto = make_model(
            [
                op("Relu", "x", "a", "first"), op("Identity", "a", "b", "same"),
                op("Relu", "b", "c", "again"), op("LRN", "c", "d", "norm", size=3),
                op("Relu", "d", "y", "last"),
            ],
            [value("x", (1, 8, 64, 64))], [value("y", (1, 8, 64, 64))],
        )  # fmt: skip
        model = load(proto, tmp_path_factory.mktemp("small"))
    else:
        model = hetsim.load_model(request.param)
    problem = Problem.of(model, hetsim.load_platform("rock-5b"))
    return nodes(hetsim.plan(problem, "hetero:npu,cpu"), device="npu")


def asked(told: Nodes) -> list[Nodes]:
    """With a plan, without, of arrays, and with replicas."""
    arrays = Problem.from_arrays([[1.0, math.inf], [2.0, 1.0]], edges=[(0, 1, 3)])
    copies = Problem.from_arrays([[1.0, 1.0]], devices=("gpu.0", "gpu.1"))
    return [
        told, nodes(told.problem), nodes(arrays, device="d1"),
        nodes(hetsim.plan(copies, "multi:gpu.0,gpu.1")),
    ]  # fmt: skip


def test_json_is_by_its_schema(told: Nodes) -> None:
    for one in asked(told):
        VALID.validate(json.loads(one.to_json()))
    record = json.loads(told.to_json())
    assert record["schema"] == "hetsim-nodes/1"
    for broken in ({"nodes": [{}]}, {"strategy": 3}, {"file_nodes": None}, {"more": 1}):
        assert not VALID.is_valid(record | broken)
    named = {node["name"] for node in record["nodes"]}
    assert {name for node in record["file_nodes"] for name in node["nodes"]} == named
    by_name = {node["name"]: node for node in record["nodes"]}
    for node in record["file_nodes"]:
        assert all(node["name"] in by_name[name]["file_nodes"] for name in node["nodes"])
    seconds = math.fsum(node["seconds"] for node in record["nodes"])
    assert seconds == pytest.approx(math.fsum(one["seconds"] for one in record["kernels"]))


def test_csv_has_its_columns_and_its_sums(told: Nodes) -> None:
    for one in asked(told):
        rows = [*csv.reader(io.StringIO(one.to_csv(), newline=""))]
        devices = one.problem.devices
        assert rows[0] == [
            *COLUMNS, *(f"{w}:{d}" for d in devices for w in ("takes", "seconds", "why_not"))
        ]  # fmt: skip
        assert {len(row) for row in rows} == {len(rows[0])}
        lines = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
        assert {line["file_node"] for line in lines} == {node.name for node in one.file_nodes}
        pairs = {(line["file_node"], line["node"], line["replica"]) for line in lines}
        assert len(pairs) == len(lines)
        taken = [float(line["seconds"]) for line in lines if line["seconds"]]
        assert math.fsum(taken) == pytest.approx(math.fsum(k.seconds for k in one.kernels))
        own = {(line["node"], line["replica"]): float(line["node_seconds"] or 0) for line in lines}
        assert math.fsum(own.values()) == pytest.approx(math.fsum(taken))
        for line in lines:
            for name in devices:
                takes = line[f"takes:{name}"]
                assert (takes == "") == (line["node"] == "")
                assert (takes in ("alone", "within")) == (line[f"seconds:{name}"] != "")
                assert (takes in ("", "alone")) == (line[f"why_not:{name}"] == "")


@pytest.mark.parametrize("what", WHATS)
def test_node_data_is_of_the_page_s_form(told: Nodes, what: What) -> None:
    record = json.loads(told.to_model_explorer(what))
    known = {
        "name", "results", "gradient", "thresholds", "showExpandedSummaryOnGroupNode",
        "showLabelCountColumnsInChildrenStatsTable", "hideInAggregatedStatsTable",
    }  # fmt: skip
    assert record.keys() <= known
    assert isinstance(record["name"], str)
    # The page takes a file with such a key for one of several graphs.
    assert "results" not in record["results"]
    for entry in record["results"].values():
        assert {"value"} <= entry.keys() <= STYLES
        assert isinstance(entry["value"], str if what in ("device", "why") else float)
    for stop in record.get("gradient", ()):
        assert 0 <= stop["stop"] <= 1
        assert stop["bgColor"].startswith("#")


def shown(record: dict[str, Any], graph: list[onnx.NodeProto], *, tensors: bool) -> dict[str, Any]:
    """What Model Explorer shows at each node: keys are tensors of its outputs, where the graph's
    adapter names them, else the ids of nodes, which the adapter for ONNX takes from their names."""
    node_of = {name: node.name for node in graph for name in node.output} if tensors else {}
    ids = {node.name for node in graph}
    found: dict[str, list[Any]] = {}
    for key, entry in record["results"].items():
        node = node_of.get(key, key)
        if node in ids:
            found.setdefault(node, []).append(entry["value"])
    return {
        node: values[0] if len({*map(str, values)}) == 1 else values
        for node, values in found.items()
    }


def odd_names(folder: Path) -> Nodes:
    """Nodes called like tensors of others, one without a name, and a constant branch."""
    proto = make_model(
        [
            op("Relu", "x", "a", "b"), op("Neg", "a", "b", "c"), op("Exp", "b", "results", ""),
            op("Constant", "", "k", "k", value=onnx.helper.make_tensor("v", 1, [1], [2.0])),
            op("Sqrt", "k", "s", "folds"), op("Mul", "results s", "y", "a"),
        ],
        [value("x")], [value("y")],
    )  # fmt: skip
    problem = Problem.of(load(proto, folder), hetsim.load_platform(str(BOX)))
    return nodes(hetsim.plan(problem, "single:cpu"))


def test_nodes_are_found_by_tensor_and_by_name(told: Nodes, tmp_path: Path) -> None:
    for one in (told, odd_names(tmp_path)):
        assert one.problem.model is not None
        original = [onnx.NodeProto(name=node.name, output=node.outputs) for node in one.file_nodes]
        renamed = [
            onnx.NodeProto(name=f"other/{at}", output=node.output)
            for at, node in enumerate(original)
        ]
        record = json.loads(one.to_model_explorer())
        wanted = {
            node.name: ", ".join(dict.fromkeys(str(n.device) for n in one.standing_for[node.name]))
            or "constant"
            for node in one.file_nodes
        }
        lost = {node.name for node in one.file_nodes if "results" in (node.name, *node.outputs)}
        tensors = {name for node in one.file_nodes for name in node.outputs}
        hidden = lost if one is told else lost | {n for n in wanted if n in tensors}
        by_name = shown(record, original, tensors=False)
        assert {n: v for n, v in by_name.items() if n not in hidden} == {
            n: v for n, v in wanted.items() if n not in hidden
        }
        by_tensor = shown(record, original, tensors=True)
        assert {n: v for n, v in by_tensor.items() if n not in lost} == {
            n: v for n, v in wanted.items() if n not in lost
        }
        names = {node.name: new.name for node, new in zip(original, renamed, strict=True)}
        assert shown(record, renamed, tensors=True) == {
            names[n]: v for n, v in wanted.items() if n not in lost
        }


def test_the_end_of_a_name_says_what_to_write(told: Nodes) -> None:
    assert form_of("a/b.json") == "json"
    assert form_of("B.CSV") == "csv"
    assert form_of("n.model-explorer.json") == "device"
    for what in WHATS:
        assert form_of(f"n.{what}.model-explorer.json") == what
        assert told.to_file(f"n.{what}.model-explorer.json") == told.to_model_explorer(what)
    assert told.to_file("n.json") == told.to_json()
    assert told.to_file(Path("n.csv")) == told.to_csv()
    for name in ("n", "n.txt", "model-explorer", ".csv/x"):
        with pytest.raises(UsageError, match=r"\.json, \.csv, \.model-explorer\.json"):
            form_of(name)
