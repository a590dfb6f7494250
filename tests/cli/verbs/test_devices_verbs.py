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
import pytest
import yaml

import hetsim
from cli_calls import call, record_of, refused, told
from figure_builders import ERROR, VALUES, kernels_block
from hetsim.cli.verbs.inspect import SCHEMAS
from hetsim.device.device import SimulatedDevice
from hetsim.device.support.rules import Support, without_values
from hetsim.graph.patterns.matching import Match
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
from onnx_builders import make_model, op, save, value
from sweeps import sweep

BROKEN = Path(__file__).parents[2] / "hardware" / "broken"


def test_query_tells_reasons_by_number_of_nodes(model: Path, tmp_path: Path) -> None:
    device = tmp_path / "own.yaml"
    description = yaml.safe_load((catalog_folder() / "google-edge-tpu.yaml").read_text())
    description["support"] = {"dtypes": ["int8"], "except": ["Softmax"]}
    del description["patterns"]
    device.write_text(yaml.safe_dump(description), encoding="utf-8")
    read = record_of("devices", "query", device, model, "--canonical", "none")
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


@pytest.fixture(scope="module")
def integers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """x -> Q -> [DQ, Conv, Relu, Q] -> QLinearConv -> MaxPool -> Reshape -> DQ -> y."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.02), "z": np.uint8(128), "ws": np.float32(0.01), "wz": np.int8(0),
        "w1": rng.integers(-100, 100, (8, 3, 3, 3), dtype=np.int8),
        "w2": rng.integers(-100, 100, (8, 8, 1, 1), dtype=np.int8),
        "shape": np.array([1, 512]),
    }  # fmt: skip
    nodes = [
        op("QuantizeLinear", "x s z", "q"), op("DequantizeLinear", "q s z", "dq"),
        op("DequantizeLinear", "w1 ws wz", "dw"), op("Conv", "dq dw", "c", pads=[1, 1, 1, 1]),
        op("Relu", "c", "r"), op("QuantizeLinear", "r s z", "q2"),
        op("QLinearConv", "q2 s z w2 ws wz s z", "q3"),
        op("MaxPool", "q3", "p", kernel_shape=[2, 2], strides=[2, 2]),
        op("Reshape", "p shape", "f"), op("DequantizeLinear", "f s z", "y"),
    ]  # fmt: skip
    proto = make_model(
        nodes, [value("x", (1, 3, 16, 16))], [value("y", (1, 512))], constants, opset=17, ir=8
    )
    return str(save(proto, tmp_path_factory.mktemp("integers")))


@sweep(
    "device, name",
    quick=[("rockchip-rk3588-npu", "zoo:bert_small"), ("google-edge-tpu", "")],
    full=product(
        ["rockchip-rk3588-npu", "google-edge-tpu", "nvidia-l4"],
        ["zoo:resnet18", "zoo:bert_small", ""],
    ),
)
def test_query_says_what_the_device_says(device: str, name: str, integers: str) -> None:
    words = ("devices", "query", device, name or integers)
    read, table = record_of(*words), call(*words).stdout
    graph = hetsim.load_model(name or integers).graph
    support = SimulatedDevice("d", load_device(device)).query_model(graph)
    assert read["nodes"] == len(graph.nodes)
    assert read["alone"] == sum(support.supported)
    assert read["refused"] == len(graph.nodes) - sum(support.taken)
    assert (read["in_pattern"] > 0) == (not name and device == "google-edge-tpu")
    for column in ("nodes", "alone", "in_pattern", "refused"):
        total = sum(row[column] for row in read["ops"])
        assert total == read[column]
    assert {row["op"]: row["nodes"] for row in read["ops"]} == Counter(
        node.op_type for node in graph.nodes
    )
    found = Counter(match.pattern for match in support.composites)
    assert {one["pattern"]: one["matches"] for one in read["patterns"] if one["matches"]} == found
    assert sum(entry["nodes"] for entry in read["reasons"]) == read["refused"]
    counts = [entry["nodes"] for entry in read["reasons"]]
    assert counts == sorted(counts, reverse=True)
    for node in read["refused_nodes"]:
        assert support.reasons[node["id"]] == node["reason"]
    for row in read["ops"]:
        assert sum(row["reasons"].values()) == row["refused"]
    assert f"{sum(support.taken)} of {read['nodes']} nodes: {read['alone']} alone" in table
    assert all(part in table for part in (device, *found))


def test_a_device_of_8_bit_integers_takes_nothing_of_a_float_model() -> None:
    read = record_of("devices", "query", "google-edge-tpu", "zoo:resnet18")
    assert (read["alone"], read["in_pattern"], read["refused"]) == (0, 0, read["nodes"])
    compared = record_of("compare", "zoo:resnet18", "--platform", "edge-tpu")
    rows = {row["strategy"]: row for row in compared["rows"]}
    assert not rows["single:tpu"]["feasible"]
    assert "Conv" in rows["single:tpu"]["reason"]
    for strategy in ("single:cpu", "hetero", "heft"):
        assert rows[strategy]["feasible"]


def test_a_quantized_model_is_taken_whole_by_the_device_of_8_bit_integers(integers: str) -> None:
    """Its first QuantizeLinear and last DequantizeLinear are left to the host."""
    words = ["compare", integers, "--platform", "edge-tpu", "--canonical", "none", "--json"]
    rows = {row["strategy"]: row for row in told(call(*words))["rows"]}
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


def test_query_binds_dimensions(dynamic_model: Path, tmp_path: Path) -> None:
    words = ["devices", "query", "intel-core-ultra-155h-npu", dynamic_model, "--json"]
    unbound = told(call(*words))
    bound = told(call(*words, "--dim", "batch=2"))
    assert any("dynamic shape" in entry["reason"] for entry in unbound["reasons"])
    assert not any("dynamic shape" in entry["reason"] for entry in bound["reasons"])


def test_validate_lists_every_complaint_and_goes_on() -> None:
    bad, good = BROKEN / "device_several_errors.yaml", catalog_folder() / "nvidia-l4.yaml"
    result = call("inspect", bad, good)
    assert result.exit_code == 3
    assert result.stderr == "error: 1 of 2 files cannot be used\n"
    lines = result.stdout.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        *(f"{bad}:{number}" for number in (2, 2, 9)),
        str(good),
    ]
    assert lines[1] == f"{bad}:2: unknown kind 'tpu'; did you mean 'npu'?"


def test_validate_as_json() -> None:
    bad, good = BROKEN / "link_zero_bandwidth.yaml", catalog_folder() / "links" / "eth1.yaml"
    result = call("inspect", bad, good, "--json")
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
def test_schema_is_one_of_the_dialect_it_names(kind: str) -> None:
    schema = told(call("inspect", "--schema", kind))
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
def test_all_of_the_catalog_is_listed_and_shown(platform: Path, step: int) -> None:
    read = record_of("devices", "list")
    known = {"devices": device_names(), "platforms": platform_names(), "links": link_names()}
    assert {sort: [entry["name"] for entry in read[sort]] for sort in known} == {
        sort: list(names) for sort, names in known.items()
    }
    entries = [
        entry | {"schema": f"hetsim-{sort[:-1]}/1"} for sort in known for entry in read[sort]
    ]
    assert all(entry["name"] in catalog_table() for entry in entries)
    for entry in entries[::step]:
        shown = call("devices", "show", entry["name"]).stdout
        assert entry["name"] in shown
        assert record_of("devices", "show", entry["name"]) == entry
        if entry["schema"] == "hetsim-link/1":
            for figure, source in entry["provenance"].items():
                assert figure in shown
                assert source["status"] in shown
    for link in read["links"]:
        assert link["bytes_per_s"] == link["peak_bytes_per_s"] * link["efficiency"]


def test_list_stays_short_where_every_pair_has_a_link() -> None:
    assert "gpu.0-7, each to each" in catalog_table("--wide")
    assert "gpu.0-7, each to each" in call("devices", "show", "gpu-server-8").stdout
    assert "gpu.6-gpu.7" in call("devices", "show", "gpu-server-8", "--wide").stdout


def test_list_and_show_have_prices_with_month_and_source() -> None:
    row = next(r for r in catalog_table().splitlines() if r.startswith("rock-5b "))
    assert "$149 " in row
    shown = call("devices", "show", "rock-5b").stdout
    (first, *_) = record_of("devices", "show", "rock-5b")["offers"]
    assert (first["usd"], first["month"], first["month"] in shown) == (149, "2022-01", True)
    rent = next(r for r in catalog_table("--wide").splitlines() if "nvidia-t4" in r)
    assert "$0.526/h" in rent


def test_show_takes_files_of_each_sort(platform: Path) -> None:
    folder = catalog_folder()
    for file, key in (
        (folder / "nvidia-l4.yaml", "flops_per_s"),
        (folder / "links" / "eth1.yaml", "latency_s"),
        (platform, "host"),
    ):
        assert key in record_of("devices", "show", file)


def test_no_name_is_of_two_sorts() -> None:
    names = (*device_names(), *link_names(), *platform_names())
    assert len(set(names)) == len(names)


def test_show_gives_figures_and_errors_and_wide_every_parameter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fitted").mkdir()
    (tmp_path / "card.yaml").write_bytes((catalog_folder() / "nvidia-t4.yaml").read_bytes())
    fitted = tmp_path / "fitted" / "card.yaml"
    fitted.write_text(yaml.safe_dump({"kernels": {"int8": kernels_block()}}), encoding="utf-8")
    monkeypatch.setattr(catalog_files, "_INSTALLED", tmp_path)
    brief, wide = (
        call("devices", "show", "card").stdout,
        call("devices", "show", "card", "--wide").stdout,
    )
    record = record_of("devices", "show", "card")["kernels"]["int8"]
    assert record["parameters"]["rate_tflops"]["value"] == VALUES["rate_tflops"]
    assert record["errors"] == [{**ERROR, "unseen_median": None, "unseen_p90": None}]
    for part in ("test-kin", "2.00 TFLOP/s", "a runtime of tests", "120", "11 / 31 %", "3.0 %"):
        assert part in brief
    for parameter in PARAMETERS:
        assert parameter.name in wide
    assert "fill_outputs" not in brief
    row = next(
        line for line in call("devices", "list", "--wide").stdout.splitlines() if "T4" in line
    )
    assert " int8 " in row
    refused(call("devices", "show", fitted), 2, "describes no device, link or platform")
    checked = call("inspect", fitted)
    assert checked.stdout.endswith("card.yaml: valid fitted parameters 'card' (int8)\n")


def test_the_families_that_a_device_file_can_name_are_listed() -> None:
    found = record_of("devices", "list", "--families")
    assert [one["name"] for one in found["families"]] == list(catalog_files.names("kin"))
    printed = call("devices", "list", "--families").stdout
    for name in (*(one["name"] for one in found["families"]), *found["cores"], *found["makes"]):
        assert name in printed
    (of,) = (one for one in found["families"] if one["name"] == "rknn-int8")
    by_datasheet = load_kin("rknn-int8").by_datasheet
    assert by_datasheet is not None
    assert by_datasheet.basis is not None
    sd = np.hypot(of["errors"][0]["sd"], by_datasheet.basis.elsewhere)
    (line,) = (line for line in printed.splitlines() if "rknn-int8" in line)
    assert f"{np.exp(1.2816 * sd):.3g}x" in line
