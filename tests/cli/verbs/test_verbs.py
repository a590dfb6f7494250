"""Each verb on a tiny model: what it prints and what it leaves on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hetsim
from cli_calls import call, record_of, refused, told
from hetsim.execution.run import Run
from hetsim.graph.zoo import models as zoo
from hetsim.problem.plan import Plan
from hetsim.simulation.simulate import simulate


def test_inspect_counts_what_the_model_has(model: Path, platform: Path) -> None:
    words = ["inspect", model, "--platform", platform]
    read = record_of(*words)
    ops = {op["op"]: op for op in read["ops"]}
    assert {name: op["nodes"] for name, op in ops.items()} == {
        "MatMul": 2, "Relu": 1, "Greater": 1, "Where": 1, "Softmax": 1,
    }  # fmt: skip
    assert ops["MatMul"]["flops"] == 2 * 2 * 8 * 16 + 2 * 2 * 16 * 4
    assert read["flops"] == sum(op["flops"] for op in read["ops"])
    assert read["parameters"] == 8 * 16 + 16 * 4 + 1
    assert read["weight_bytes"] == 4 * read["parameters"]
    assert read["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, 8]}]
    assert read["unpriced_ops"] == {}
    assert read["support"]["cpu"] == {"nodes": 6, "refused": {}}
    assert read["support"]["npu"]["nodes"] == 4
    assert read["support"]["npu"]["refused"]["Where"] == {"op Where": 1}
    table = call(*words).stdout
    assert "npu: op Where" in table
    assert "not priced  none" in table


def test_inspect_shows_what_there_is_to_bind(dynamic_model: Path) -> None:
    read = record_of("inspect", dynamic_model)
    assert read["unbound_dims"] == ["batch"]
    assert read["flops"] is None
    assert "--dim batch=N" in call("inspect", dynamic_model).stdout
    bound = record_of("inspect", dynamic_model, "--dim", "batch=2")
    assert bound["unbound_dims"] == []
    assert bound["flops"] > 0
    shaped = record_of("inspect", dynamic_model, "--shape", "x=2,8")
    assert shaped["flops"] == bound["flops"]


def test_partition_lists_groups(model: Path, platform: Path) -> None:
    for method in ("compact", "stage"):
        words = ["partition", model, "--platform", platform, "--method", method]
        read = record_of(*words)
        nodes = [name for group in read["groups"] for name in group["nodes"]]
        assert len(nodes) == len(set(nodes)) == 6
        devices = {name: g["device"] for g in read["groups"] for name in g["nodes"]}
        assert (devices["choose"], devices["second"]) == ("cpu", "npu")
        assert read["method"] == method
        assert "[/bold]" in "".join(g["nodes"][0] for g in read["groups"]) + str(nodes)
        table = call(*words).stdout
        assert f"method    {method}" in table
        assert "g0" in table
    only = record_of("partition", model, "--platform", platform, "--priority", "cpu")
    assert [group["device"] for group in only["groups"]] == ["cpu"]


def test_partition_explains_and_draws(model: Path, platform: Path, tmp_path: Path) -> None:
    words = ["partition", model, "--platform", platform]
    why = call(*words, "--explain", "choose", "second").stdout
    assert "'choose' and 'second' are on cpu and npu" in why
    read = record_of(*words, "--explain", "choose", "second")
    assert read["why"] == why.strip()
    refused(call(*words, "--explain", "chose", "second"), 2, "did you mean 'choose'")
    dot, mermaid = tmp_path / "g.dot", tmp_path / "g.mmd"
    assert call(*words, "--dot", dot, "--mermaid", mermaid).exit_code == 0
    assert dot.read_text().startswith("digraph")
    assert mermaid.read_text().startswith("flowchart")
    assert call(*words, "--dot", dot).exit_code == 2
    assert call(*words, "--dot", dot, "--force").exit_code == 0
    assert call(*words, "--method", "all", "--dot", tmp_path / "n.dot").exit_code == 2
    assert sorted(entry.name for entry in tmp_path.iterdir() if "n.dot" in entry.name) == []
    record = record_of(*words)
    assert record["boundary_bytes"] == sum(entry["nbytes"] for entry in record["boundary"])
    first = record["groups"][0]
    assert first["inputs"] == ["x"]
    assert first["outputs"]


def test_partition_writes_onnx(model: Path, platform: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    words = ["partition", model, "--platform", platform, "--onnx", folder, "--json"]
    groups = told(call(*words))["groups"]
    names = {entry.name for entry in folder.iterdir()}
    assert names == {
        "split.onnx",
        "annotated.onnx",
        *(f"g{group['id']}_{group['device']}.onnx" for group in groups),
    }
    split = onnx.load(folder / "split.onnx")
    onnx.checker.check_model(split, full_check=True)
    assert len(split.graph.node) == len(groups)
    refused(call(*words), 2, "exists and is not empty")
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_partition_takes_size_rules(model: Path, platform: Path) -> None:
    words = ["partition", model, "--platform", platform]
    read = record_of(*words, "--set", "min_nodes=4")
    assert {group["device"] for group in read["groups"]} == {"cpu"}
    assert "below min_nodes 4" in read["left"]["first"]
    assert "op Where" in record_of(*words)["left"]["choose"]


def test_partition_compares_all_methods(model: Path, platform: Path) -> None:
    words = ["partition", model, "--platform", platform, "--method", "all"]
    read = record_of(*words)
    names = [info.name for info in hetsim.methods()]
    assert [row["method"] for row in read["methods"]] == names
    problem = hetsim.Problem.of(hetsim.load_model(model), hetsim.load_platform(str(platform)))
    for row in read["methods"]:
        made = hetsim.partition(problem, row["method"])
        plan = hetsim.Plan(problem, row["method"], made.groups)
        assert row["groups"] == len(made.groups)
        assert row["largest_nodes"] == max(len(group.nodes) for group in made.groups)
        assert row["latency_s"] == simulate(plan).latency_s
        # Where groups follow each other on both devices, each group's outputs are cut.
        assert 0 < row["cut_tensors"] <= 5
    table = call(*words).stdout
    assert all(name in table for name in names)


def test_simulate_agrees_with_the_face(model: Path, platform: Path) -> None:
    problem = hetsim.Problem.of(hetsim.load_model(model), hetsim.load_platform(str(platform)))
    timeline = simulate(hetsim.plan(problem, "hetero"))
    words = ["simulate", model, "--platform", platform, "--strategy", "hetero"]
    read = record_of(*words)
    assert read["timeline"]["latency_s"] == timeline.latency_s
    assert read["timeline"]["transfers"] == timeline.transfers
    assert read["timeline"]["energy_j"] == timeline.energy_j
    assert "(simulated)" in call(*words).stdout


def test_simulate_many_requests(model: Path, platform: Path) -> None:
    words = ["simulate", model, "--platform", platform, "--strategy", "single:cpu"]
    alone = record_of(*words)["timeline"]["latency_s"]
    together = record_of(*words, "--requests", 3)["timeline"]
    assert together["latency_max_s"] == pytest.approx(3 * alone)
    apart = record_of(*words, "--requests", 3, "--interval", "1s")["timeline"]
    assert apart["latency_max_s"] == pytest.approx(alone)
    assert apart["makespan_s"] == pytest.approx(2 + alone)


def test_many_requests_give_the_same_figures_with_a_trace(
    model: Path, platform: Path, tmp_path: Path
) -> None:
    words = ["simulate", model, "--platform", platform, "--requests", 1100, "--json"]
    plain = call(*words)
    traced = call(*words, "--trace", tmp_path / "t.json")
    assert told(plain) == told(traced)
    slices = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert max(e["args"]["request"] for e in slices if e["ph"] == "X") == 1099


def test_contention_is_passed_on(model: Path, platform: Path) -> None:
    words = ["simulate", model, "--platform", platform, "--contention", "none", "--json"]
    assert told(call(*words))["problem"]["contention"] == "none"


def test_a_saved_plan_is_played_again(model: Path, platform: Path, tmp_path: Path) -> None:
    first = record_of("simulate", model, "--platform", platform, "--out", tmp_path / "out")
    again = record_of("simulate", tmp_path / "out" / "plan.json")
    assert again == first


def test_out_leaves_the_four_files(model: Path, platform: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["compare", model, "--platform", platform, "--out", out, "--json"]
    result = call(*words)
    read = told(result)
    four = ["manifest.json", "plan.json", "result.json", "trace.json"]
    assert sorted(path.name for path in out.iterdir()) == four
    assert (out / "result.json").read_text() == result.stdout
    saved = hetsim.load_plan(out / "plan.json")
    assert saved.strategy == read["rows"][0]["strategy"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["model"]["sha256"] == read["problem"]["model"]["sha256"]
    assert manifest["platform"]["sha256"] == read["problem"]["platform"]["sha256"]
    assert manifest["command"] == ["hetsim", *map(str, words)]
    assert json.loads((out / "trace.json").read_text())["traceEvents"]
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    refused(call(*words), 2, "--force")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert call(*words, "--force").exit_code == 0


def test_compare_shows_every_strategy_best_first(model: Path, platform: Path) -> None:
    read = record_of("compare", model, "--platform", platform)
    rows = read["rows"]
    assert {row["strategy"] for row in rows} == {
        "single:cpu",
        "single:npu",
        "hetero",
        "heft",
        "auto",
    }
    latencies = [row["latency_s"] for row in rows if row["feasible"]]
    assert latencies == sorted(latencies)
    assert rows[-1]["strategy"] == "single:npu"
    assert rows[-1]["reason"] == "'npu' does not support: Greater (1), Where (1)"
    assert read["lower_bound_s"] <= latencies[0]
    table = call("compare", model, "--platform", platform).stdout
    assert "single:npu: infeasible: 'npu' does not support: Greater (1), Where (1)" in table
    assert max(map(len, table.splitlines())) <= 120


def test_compare_without_a_feasible_plan_ends_with_4(model: Path, platform: Path) -> None:
    words = ["compare", model, "--platform", platform, "--strategy", "hetero:npu"]
    result = call(*words)
    assert result.exit_code == 4
    assert "No strategy found a feasible plan." in result.stdout
    assert result.stderr.count("\n") == 1
    assert "hetero:npu" in result.stderr
    as_json = call(*words, "--json")
    assert as_json.exit_code == 4
    assert json.loads(as_json.stdout)["rows"][0]["feasible"] is False


def test_run_compares_with_the_whole_model(model: Path, platform: Path) -> None:
    words = ["run", model, "--platform", platform, "--strategy", "hetero"]
    words += ["--executor", "threads"]
    text = call(*words).stdout
    assert text.endswith("outputs bitwise equal to the whole model: yes\n")
    assert "wall clock" in text
    first, second = call(*words, "--json"), call(*words, "--json")
    read = told(first)
    assert read["bitwise_equal"] is True
    assert read["outputs"]["y"]["shape"] == [2, 4]
    assert first.stdout == second.stdout
    assert "wall clock" in first.stderr
    other = record_of(*words, "--seed", 1)
    assert other["outputs"]["y"]["sha256"] != read["outputs"]["y"]["sha256"]


def test_run_takes_arrays(model: Path, platform: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 8), np.float32))
    words = ["run", model, "--platform", platform, "--executor", "threads", "--json"]
    read = told(call(*words, "--input", f"x={tmp_path / 'x.npy'}"))
    even = np.full((2, 4), 0.25, np.float32)
    assert read["outputs"]["y"]["sha256"] == hetsim_digest(even)


def hetsim_digest(array: np.ndarray[Any, Any]) -> str:
    from hashlib import sha256

    return sha256(array.tobytes()).hexdigest()


def test_run_leaves_its_wall_clock_in_the_manifest(
    model: Path, platform: Path, tmp_path: Path
) -> None:
    words = ["run", model, "--platform", platform, "--executor", "threads"]
    assert call(*words, "--out", tmp_path / "out", "--seed", 3).exit_code == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["measured"]["wall_s"] > 0
    assert manifest["seed"] == 3


def unequal(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(plan: Plan, inputs: Mapping[str, Any] | None = None, **_: Any) -> Run:
        return Run(
            outputs={"y": np.zeros(1)},
            timeline=simulate(plan),
            wall_s=0.1,
            reference={"y": np.ones(1)},
            bitwise_equal=False,
            mismatches=("y",),
            executor="threads",
        )

    monkeypatch.setattr("hetsim.execution.run.run", run)


@pytest.mark.parametrize("verb", ["run", "compare"])
def test_outputs_that_differ_end_with_1_and_are_named(
    model: Path, platform: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    unequal(monkeypatch)
    words = [verb, model, "--platform", platform, *(["--run"] if verb == "compare" else [])]
    result = call(*words)
    assert result.exit_code == 1
    assert "outputs bitwise equal to the whole model: no (1 output differ" in result.stdout
    assert result.stderr.splitlines()[-1].endswith(
        "outputs differ from those of the whole model: y"
    )
    assert call(*words, "--json").exit_code == 1


def test_compare_runs_the_best_split_plan_and_those_named(model: Path, platform: Path) -> None:
    words = ["compare", model, "--platform", platform, "--run", "--executor", "threads"]
    read = record_of(*words)
    split = [r for r in read["rows"] if r["feasible"] and len(r["plan"]["devices_used"]) > 1]
    assert [run["strategy"] for run in read["runs"]] == [split[0]["strategy"]]
    assert read["runs"][0]["bitwise_equal"] is True
    named = record_of(*words, "--strategy", "single:cpu", "--strategy", "hetero")
    assert {run["strategy"] for run in named["runs"]} == {"single:cpu", "hetero"}
    alone = record_of(*words, "--strategy", "single")
    assert [run["strategy"] for run in alone["runs"]] == ["single:cpu"]
    assert call(*words).stdout.endswith("outputs bitwise equal to the whole model: yes\n")


def test_strategies_lists_strategies_and_methods() -> None:
    read = record_of("compare", "--strategies")
    table = call("compare", "--strategies").stdout
    assert {"single", "hetero", "heft"} <= {entry["name"] for entry in read["strategies"]}
    assert {"compact", "stage"} <= {entry["name"] for entry in read["methods"]}
    for entry in (*read["strategies"], *read["methods"]):
        assert entry["usage"] in table
        assert record_of("compare", "--strategies", entry["name"]) == {
            "schema": "hetsim-strategy/1",
            **entry,
        }


def test_zoo_lists_every_model() -> None:
    read = record_of("zoo", "list")
    assert [entry["name"] for entry in read["models"]] == list(zoo.names())
    table = call("zoo", "list").stdout
    for entry in read["models"]:
        assert f"zoo:{entry['name']}" in table
