"""Records and their JSON: complete, finite, the same bytes each time."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given

from builders import problems
from hetsim.analysis.comparison import compare
from hetsim.core.text import to_json
from hetsim.execution.run import Deviation
from hetsim.partitioning.flow import partition
from hetsim.placement.planning import plan
from hetsim.problem.problem import Problem
from hetsim.reporting.output import manifest_json
from hetsim.reporting.tables.comparison import comparison_record
from hetsim.reporting.tables.plan import array_record, run_record, simulation_record
from hetsim.simulation.simulate import simulate
from sweeps import examples


def no_constant(text: str) -> float:
    raise AssertionError(f"{text} is not JSON")


def parsed(record: dict[str, Any]) -> Any:
    return json.loads(to_json(record), parse_constant=no_constant)


def two_devices() -> Problem:
    return Problem.from_arrays(
        [[1.0, 4.0], [4.0, 1.0], [1.0, np.inf]],
        edges=[(0, 1, 8), (1, 2, 8)],
        devices=("cpu", "gpu"),
        bytes_per_s=16.0,
        weight_bytes=[3, 5, 7],
        capacity_bytes=[100, 100],
        host=0,
    )


@given(problems())
@examples(quick=6, full=40)
def test_any_comparison_is_json_and_says_the_same_twice(problem: Problem) -> None:
    strategies = ("single", "hetero", "heft", "etf")
    record = comparison_record(compare(problem, strategies))
    assert to_json(record) == to_json(comparison_record(compare(problem, strategies)))
    read = parsed(record)
    assert [row["strategy"] for row in read["rows"]] == [r["strategy"] for r in record["rows"]]
    for row in read["rows"]:
        assert row["feasible"] == (row["reason"] is None) == (row["timeline"] is not None)


def test_comparison_of_a_known_instance() -> None:
    read = parsed(comparison_record(compare(two_devices(), ["single", "heft"])))
    assert [row["strategy"] for row in read["rows"]] == ["heft", "single:cpu", "single:gpu"]
    best, cpu, gpu = read["rows"]
    # 1 on the cpu, 8 bytes over, 1 on the gpu, 8 bytes back, 1 on the cpu.
    assert best["latency_s"] == 4.0
    assert best["speedup_over"] == {"cpu": 1.5}
    assert best["speedup_over_best_single"] == 1.5
    assert best["timeline"]["critical_path"] == {
        "compute_s": 3.0, "transfer_s": 1.0, "transfer_share": 0.25,
        "shares_s": {"cpu": 2.0, "gpu": 1.0, "cpu>gpu": 0.5, "gpu>cpu": 0.5},
    }  # fmt: skip
    assert best["timeline"]["transferred_bytes"] == 16
    assert best["timeline"]["devices"]["gpu"]["weight_bytes"] == 5
    assert (cpu["latency_s"], cpu["gap"]) == (6.0, 6.0 / read["lower_bound_s"] - 1)
    assert gpu["feasible"] is False
    assert gpu["reason"] == "'gpu' does not support: Task (1)"
    assert gpu["timeline"] is gpu["latency_s"] is gpu["plan"] is None
    assert read["speedup_ceiling"] == 6.0 / read["lower_bound_s"]
    assert read["best_single"] == "cpu"


def test_what_is_infinite_is_null() -> None:
    problem = Problem.from_arrays([[np.inf]])
    read = parsed(comparison_record(compare(problem)))
    assert read["lower_bound_s"] is None
    assert read["speedup_ceiling"] is None
    assert to_json({"a": (float("nan"), [float("-inf")])}) == to_json({"a": [None, [None]]})


def test_floats_keep_every_digit() -> None:
    value = 0.1 + 0.2
    assert json.loads(to_json({"x": value}))["x"] == value


def test_partition_names_every_node_once() -> None:
    problem = two_devices()
    read = json.loads(partition(problem, priority=("gpu", "cpu")).to_json())
    assert [(group["device"], group["nodes"]) for group in read["groups"]] == [
        ("gpu", ["n0", "n1"]), ("cpu", ["n2"]),
    ]  # fmt: skip
    assert [group["seconds"] for group in read["groups"]] == [5.0, 1.0]
    assert [group["receives_bytes"] for group in read["groups"]] == [0, 8]


def test_many_requests_have_a_spread_and_no_critical_path() -> None:
    problem = two_devices()
    made = plan(problem, "single:cpu")
    figures = parsed(simulation_record(made, simulate(made, 4)))["timeline"]
    assert figures["requests"] == 4
    assert (figures["latency_s"], figures["latency_max_s"]) == (6.0, 24.0)
    assert figures["latency_mean_s"] == 15.0
    assert figures["requests_per_s"] == pytest.approx(1 / 6)
    assert figures["critical_path"] is None


def test_a_run_is_recorded_without_its_wall_clock() -> None:
    problem = two_devices()
    made = plan(problem, "heft")
    run = SimpleNamespace(
        executor="ray",
        bitwise_equal=False,
        mismatches=("y",),
        tolerance=0.0,
        outputs={"y": np.arange(3, dtype=np.float32)},
        timeline=simulate(made),
        wall_s=1.23,
        precision="device",
        deviations=(Deviation("y", 0.5, 0.25, 0),),
        plain=None,
    )
    read = parsed(run_record(made, cast(Any, run)))
    assert read["bitwise_equal"] is False
    assert read["mismatches"] == ["y"]
    assert read["precision"] == "device"
    assert read["deviations"] == [{"output": "y", "max_abs": 0.5, "max_rel": 0.25, "lost": 0}]
    assert read["outputs"]["y"]["shape"] == [3]
    assert read["outputs"]["y"]["dtype"] == "float32"
    assert "1.23" not in to_json(run_record(made, cast(Any, run)))


def test_outputs_that_are_no_plain_arrays_have_records_too() -> None:
    words = np.array(["a", "b"], dtype=object)
    assert array_record(words) == array_record(words.astype(str))
    assert array_record(words) != array_record(words[::-1])
    assert array_record(None) is None
    pair = [np.zeros(2, np.int64), np.ones((1, 1), np.float16)]
    assert array_record(pair) == [array_record(item) for item in pair]
    assert array_record(np.zeros((2, 3))[:, ::2]) == array_record(np.zeros((2, 2)))


def test_manifest_names_versions_and_command() -> None:
    read = json.loads(manifest_json(two_devices(), ("hetsim", "run", "x.onnx"), 7, {"wall_s": 1.5}))
    assert read["command"] == ["hetsim", "run", "x.onnx"]
    assert read["seed"] == 7
    assert read["measured"] == {"wall_s": 1.5}
    assert set(read["versions"]) == {"python", "hetsim", "onnx", "onnxruntime", "numpy", "ray"}
    assert read["versions"]["numpy"] == np.__version__
    assert read["created_utc"].endswith("+00:00")
