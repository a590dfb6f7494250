"""``hetsim devices``: query, validate, schema, and links among the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

import hetsim
from cli_calls import Cli, call, told
from figure_builders import ERROR, VALUES, kernels_block
from hetsim.cli.verbs.inspect import SCHEMAS
from hetsim.device.device import SimulatedDevice
from hetsim.device.support.rules import Support, without_values
from hetsim.graph.patterns.matching import Match
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import (
    device_names,
    link_names,
    load_device,
    load_kin,
    platform_names,
)
from hetsim.hardware.files import catalog_files
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.files.json_schema import DIALECT
from hetsim.hardware.kernel_figures import PARAMETERS
from hetsim.reporting.tables.devices import answer_of
from sweeps import sweep

BROKEN = Path(__file__).parents[2] / "hardware" / "broken"


def quantized_model() -> onnx.ModelProto:
    """x -> Q -> [DQ, Conv, Relu, Q] -> QLinearConv -> MaxPool -> Reshape -> DQ -> y."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return rng.integers(-100, 100, shape, dtype=np.int8)

    constants = {
        "s": np.float32(0.02),
        "z": np.uint8(128),
        "ws": np.float32(0.01),
        "wz": np.int8(0),
        "w1": weight(8, 3, 3, 3),
        "w2": weight(8, 8, 1, 1),
        "shape": np.array([1, 512], dtype=np.int64),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="enter"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["dq"], name="dq"),
        helper.make_node("DequantizeLinear", ["w1", "ws", "wz"], ["dw"], name="dw"),
        helper.make_node("Conv", ["dq", "dw"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q2"], name="requantize"),
        helper.make_node(
            "QLinearConv", ["q2", "s", "z", "w2", "ws", "wz", "s", "z"], ["q3"], name="qconv"
        ),
        helper.make_node(
            "MaxPool", ["q3"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]
        ),
        helper.make_node("Reshape", ["p", "shape"], ["f"], name="flat"),
        helper.make_node("DequantizeLinear", ["f", "s", "z"], ["y"], name="leave"),
    ]
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 512])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.fixture
def quantized(tmp_path: Path) -> Path:
    path = tmp_path / "quantized.onnx"
    onnx.save(quantized_model(), path)
    return path


def test_query_counts_alone_and_within_patterns(cli: Cli, quantized: Path) -> None:
    words = ["devices", "query", "google-edge-tpu", quantized, "--canonical", "none"]
    read = told(cli(*words, "--json"))
    assert (read["nodes"], read["alone"], read["in_pattern"], read["refused"]) == (10, 4, 6, 0)
    by_op = {
        op["op"]: (op["nodes"], op["alone"], op["in_pattern"], op["refused"]) for op in read["ops"]
    }
    assert by_op == {
        "DequantizeLinear": (3, 2, 1, 0),
        "QuantizeLinear": (2, 1, 1, 0),
        "Conv": (1, 0, 1, 0),
        "MaxPool": (1, 0, 1, 0),
        "QLinearConv": (1, 1, 0, 0),
        "Relu": (1, 0, 1, 0),
        "Reshape": (1, 0, 1, 0),
    }
    matched = {p["pattern"]: (p["matches"], p["nodes"]) for p in read["patterns"] if p["matches"]}
    assert matched == {"qdq_conv": (1, 5), "int8_layout": (2, 2)}
    assert read["refused_nodes"] == []
    table = cli(*words).stdout
    assert "10 of 10 nodes: 4 alone, 6 only within a pattern; 0 unsupported" in table
    for part in ("qdq_conv", "google-edge-tpu", "QLinearConv"):
        assert part in table


def test_query_tells_reasons_by_number_of_nodes(cli: Cli, model: Path, tmp_path: Path) -> None:
    device = tmp_path / "own.yaml"
    description = yaml.safe_load((catalog_folder() / "google-edge-tpu.yaml").read_text())
    description["support"] = {"dtypes": ["int8"], "except": ["Softmax"]}
    del description["patterns"]
    device.write_text(yaml.safe_dump(description), encoding="utf-8")
    read = told(cli("devices", "query", device, model, "--json", "--canonical", "none"))
    assert read["refused"] == 6
    assert read["reasons"] == [
        {
            "reason": "float32 tensor",
            "nodes": 4,
            "ops": {"MatMul": 2, "Greater": 1, "Relu": 1},
        },
        {"reason": "bool tensor", "nodes": 1, "ops": {"Where": 1}},
        {"reason": "op Softmax", "nodes": 1, "ops": {"Softmax": 1}},
    ]
    exact = {node["name"]: node["reason"] for node in read["refused_nodes"]}
    assert exact["first"] == "float32 tensor 'x'"
    assert exact["last"] == "op Softmax"


@sweep(
    "device, name",
    quick=[("rockchip-rk3588-npu", "bert_small")],
    full=product(
        ["rockchip-rk3588-npu", "google-edge-tpu", "nvidia-l4"], ["resnet18", "bert_small"]
    ),
)
def test_query_says_what_the_device_says(cli: Cli, device: str, name: str) -> None:
    assert name in zoo.names()
    read = told(cli("devices", "query", device, f"zoo:{name}", "--json"))
    graph = hetsim.load_model(f"zoo:{name}").graph
    support = SimulatedDevice("d", load_device(device)).query_model(graph)
    assert read["nodes"] == len(graph.nodes)
    assert read["alone"] == sum(support.supported)
    assert read["refused"] == len(graph.nodes) - sum(support.taken)
    for column in ("nodes", "alone", "in_pattern", "refused"):
        total = sum(op[column] for op in read["ops"])
        assert total == read[column]
    assert {op["op"]: op["nodes"] for op in read["ops"]} == Counter(
        node.op_type for node in graph.nodes
    )
    assert sum(entry["nodes"] for entry in read["reasons"]) == read["refused"]
    counts = [entry["nodes"] for entry in read["reasons"]]
    assert counts == sorted(counts, reverse=True)
    for node in read["refused_nodes"]:
        assert support.reasons[node["id"]] == node["reason"]
    for op in read["ops"]:
        assert sum(op["reasons"].values()) == op["refused"]


def test_a_device_of_8_bit_integers_takes_nothing_of_a_float_model(cli: Cli) -> None:
    read = told(cli("devices", "query", "google-edge-tpu", "zoo:resnet18", "--json"))
    assert (read["alone"], read["in_pattern"], read["refused"]) == (0, 0, read["nodes"])
    compared = told(cli("compare", "zoo:resnet18", "--platform", "edge-tpu", "--json"))
    rows = {row["strategy"]: row for row in compared["rows"]}
    assert not rows["single:tpu"]["feasible"]
    assert "Conv" in rows["single:tpu"]["reason"]
    for strategy in ("single:cpu", "hetero", "heft"):
        assert rows[strategy]["feasible"]


def test_a_quantized_model_is_taken_whole_by_the_device_of_8_bit_integers(
    cli: Cli, quantized: Path
) -> None:
    """Its first QuantizeLinear and last DequantizeLinear are left to the host."""
    words = ["compare", quantized, "--platform", "edge-tpu", "--canonical", "none", "--json"]
    rows = {row["strategy"]: row for row in told(cli(*words))["rows"]}
    assert rows["hetero"]["plan"]["devices_used"] == ["tpu"]


def test_names_of_tensors_alone_are_left_out_of_reasons() -> None:
    graph = hetsim.load_model("zoo:resnet18").graph
    name = graph.nodes[0].writes[0]
    assert without_values(graph.tensors, f"float64 tensor '{name}'") == "float64 tensor"
    assert (
        without_values(graph.tensors, f"rank 5 of tensor '{name}' (it takes 4)")
        == "rank 5 of tensor (it takes 4)"
    )
    for kept in ("float64 tensor 'no such'", "op Conv", f"no match of '{name}': tensor"):
        assert without_values(graph.tensors, kept) == kept


def test_nodes_taken_both_alone_and_in_a_pattern_count_as_alone() -> None:
    graph = hetsim.load_model("zoo:resnet18").graph
    spec = load_device("nvidia-l4")
    support = SimulatedDevice("gpu", spec).query_model(graph)
    both = type(support)(
        support.device, support.supported, support.reasons, (Match("mine", (0, 1)),)
    )
    answer = answer_of(graph, spec, both)
    assert sum(op.alone for op in answer.ops) == sum(support.supported)
    assert sum(op.in_pattern for op in answer.ops) == 0
    assert answer.patterns["mine"] == (1, 2)


def test_a_large_answer_is_summed_up_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = hetsim.load_model("zoo:squeezenet").graph
    spec = load_device("google-edge-tpu")
    support = SimulatedDevice("tpu", spec).query_model(graph)
    asked: list[str] = []

    def taken(of: Support) -> tuple[bool, ...]:
        asked.append(of.device)
        return of.supported

    monkeypatch.setattr(Support, "taken", property(taken))
    assert len(answer_of(graph, spec, support).refused) == support.supported.count(False) == 65
    assert asked == ["tpu"]


def test_the_catalog_is_shown_without_what_fits_devices() -> None:
    code = "import sys, hetsim.reporting.tables.devices; print('scipy.optimize' in sys.modules)"
    words = [sys.executable, "-c", code]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("rock-5b", 2, "'rock-5b' is a platform, and a query needs one device"),
        ("pcie4-x16", 2, "'pcie4-x16' is a link"),
        ("nvidia-l44", 2, "did you mean 'nvidia-l4'?"),
        ("./no-such.yaml", 2, "no-such.yaml: no such file"),
        (BROKEN / "device_zero_bandwidth.yaml", 3, "must be above 0, not 0"),
    ],
)
def test_query_of_what_is_no_device_is_refused(
    cli: Cli, model: Path, name: object, code: int, message: str
) -> None:
    result = cli("devices", "query", name, model)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_query_of_a_model_that_is_not_there_is_refused(cli: Cli) -> None:
    result = cli("devices", "query", "nvidia-l4", "no-such.onnx")
    assert result.exit_code == 2
    assert "no-such.onnx" in result.stderr


def test_query_binds_dimensions(cli: Cli, dynamic_model: Path, tmp_path: Path) -> None:
    words = ["devices", "query", "intel-core-ultra-155h-npu", dynamic_model, "--json"]
    unbound = told(cli(*words))
    bound = told(cli(*words, "--dim", "batch=2"))
    assert any("dynamic shape" in entry["reason"] for entry in unbound["reasons"])
    assert not any("dynamic shape" in entry["reason"] for entry in bound["reasons"])


def test_validate_lists_every_complaint_and_goes_on(cli: Cli) -> None:
    bad, good = BROKEN / "device_several_errors.yaml", catalog_folder() / "nvidia-l4.yaml"
    result = cli("inspect", bad, good)
    assert result.exit_code == 3
    assert result.stderr == "error: 1 of 2 files cannot be used\n"
    lines = result.stdout.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        *(f"{bad}:{number}" for number in (2, 2, 9)),
        str(good),
    ]
    assert lines[1] == f"{bad}:2: unknown kind 'tpu'; did you mean 'npu'?"


def test_validate_as_json(cli: Cli) -> None:
    bad, good = BROKEN / "link_zero_bandwidth.yaml", catalog_folder() / "links" / "eth1.yaml"
    result = cli("inspect", bad, good, "--json")
    assert result.exit_code == 3
    read = json.loads(result.stdout)
    assert read["schema"] == "hetsim-validation/1"
    assert read["files"] == [
        {
            "file": str(bad),
            "valid": False,
            "sort": "link",
            "name": None,
            "errors": [
                {
                    "where": f"{bad}:4",
                    "what": "'bandwidth_gbytes_s' must be above 0, not 0",
                    "hint": None,
                }
            ],
        },
        {"file": str(good), "valid": True, "sort": "link", "name": "eth1", "errors": []},
    ]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_schema_is_one_of_the_dialect_it_names(cli: Cli, kind: str) -> None:
    schema = told(cli("inspect", "--schema", kind))
    assert schema["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "hetsim" in schema["title"]
    text, parts = json.dumps(schema), schema.get("$defs", {})
    assert all(f'"#/$defs/{name}"' in text for name in parts)
    if kind in ("workload", "deployment", "grid", "prices"):
        for definition in parts.values():
            for part in (definition, *definition.get("anyOf", ())):
                assert all("description" in each for each in part.get("properties", {}).values())


@cache
def catalog_table(*words: str) -> str:
    """What ``devices list`` prints of the catalog, whose files are read once."""
    return call("devices", "list", *words).stdout


@sweep("step", quick=[60], full=[60, 1])
def test_all_of_the_catalog_is_listed_and_shown(cli: Cli, platform: Path, step: int) -> None:
    read = told(cli("devices", "list", "--json"))
    known = {"devices": device_names(), "platforms": platform_names(), "links": link_names()}
    assert {sort: [entry["name"] for entry in read[sort]] for sort in known} == {
        sort: list(names) for sort, names in known.items()
    }
    entries = [
        entry | {"schema": f"hetsim-{sort[:-1]}/1"} for sort in known for entry in read[sort]
    ]
    assert all(entry["name"] in catalog_table() for entry in entries)
    for entry in entries[::step]:
        shown = cli("devices", "show", entry["name"]).stdout
        assert entry["name"] in shown
        assert told(cli("devices", "show", entry["name"], "--json")) == entry
        if entry["schema"] == "hetsim-link/1":
            for figure, source in entry["provenance"].items():
                assert figure in shown
                assert source["status"] in shown
    for link in read["links"]:
        assert link["bytes_per_s"] == link["peak_bytes_per_s"] * link["efficiency"]


def test_list_stays_short_where_every_pair_has_a_link(cli: Cli) -> None:
    assert "gpu.0-7, each to each" in catalog_table("--wide")
    assert "gpu.0-7, each to each" in cli("devices", "show", "gpu-server-8").stdout
    assert "gpu.6-gpu.7" in cli("devices", "show", "gpu-server-8", "--wide").stdout


def test_list_and_show_have_prices_with_month_and_source(cli: Cli) -> None:
    row = next(r for r in catalog_table().splitlines() if r.startswith("rock-5b "))
    assert "$149 " in row
    shown = cli("devices", "show", "rock-5b").stdout
    (first, *_) = told(cli("devices", "show", "rock-5b", "--json"))["offers"]
    assert (first["usd"], first["month"], first["month"] in shown) == (149, "2022-01", True)
    rent = next(r for r in catalog_table("--wide").splitlines() if "nvidia-t4" in r)
    assert "$0.526/h" in rent


def test_show_takes_files_of_each_sort(cli: Cli, platform: Path) -> None:
    folder = catalog_folder()
    for file, key in (
        (folder / "nvidia-l4.yaml", "flops_per_s"),
        (folder / "links" / "eth1.yaml", "latency_s"),
        (platform, "host"),
    ):
        assert key in told(cli("devices", "show", file, "--json"))


def test_no_name_is_of_two_sorts() -> None:
    names = (*device_names(), *link_names(), *platform_names())
    assert len(set(names)) == len(names)


def test_show_gives_figures_and_errors_and_wide_every_parameter(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fitted").mkdir()
    (tmp_path / "card.yaml").write_bytes((catalog_folder() / "nvidia-t4.yaml").read_bytes())
    fitted = tmp_path / "fitted" / "card.yaml"
    fitted.write_text(yaml.safe_dump({"kernels": {"int8": kernels_block()}}), encoding="utf-8")
    monkeypatch.setattr(catalog_files, "_INSTALLED", tmp_path)
    brief, wide = (
        cli("devices", "show", "card").stdout,
        cli("devices", "show", "card", "--wide").stdout,
    )
    record = told(cli("devices", "show", "card", "--json"))["kernels"]["int8"]
    assert record["parameters"]["rate_tflops"]["value"] == VALUES["rate_tflops"]
    assert record["errors"] == [{**ERROR, "unseen_median": None, "unseen_p90": None}]
    for part in ("test-kin", "2.00 TFLOP/s", "a runtime of tests", "120", "11 / 31 %", "3.0 %"):
        assert part in brief
    for parameter in PARAMETERS:
        assert parameter.name in wide
    assert "fill_outputs" not in brief
    row = next(
        line for line in cli("devices", "list", "--wide").stdout.splitlines() if "T4" in line
    )
    assert " int8 " in row
    result = cli("devices", "show", fitted)
    assert result.exit_code == 2
    assert "describes no device, link or platform" in result.stderr
    checked = cli("inspect", fitted)
    assert checked.stdout.endswith("card.yaml: valid fitted parameters 'card' (int8)\n")


def test_the_families_that_a_device_file_can_name_are_listed(cli: Cli) -> None:
    found = told(cli("devices", "list", "--families", "--json"))
    assert [one["name"] for one in found["families"]] == list(catalog_files.names("kin"))
    printed = cli("devices", "list", "--families").stdout
    for name in (*(one["name"] for one in found["families"]), *found["cores"], *found["makes"]):
        assert name in printed
    (of,) = (one for one in found["families"] if one["name"] == "rknn-int8")
    by_datasheet = load_kin("rknn-int8").by_datasheet
    assert by_datasheet is not None
    assert by_datasheet.basis is not None
    sd = np.hypot(of["errors"][0]["sd"], by_datasheet.basis.elsewhere)
    (line,) = (line for line in printed.splitlines() if "rknn-int8" in line)
    assert f"{np.exp(1.2816 * sd):.3g}x" in line
