"""``--set`` and ``--affinity``: options of strategies on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_calls import call, ok, record_of, refused, told


def devices_of(record: Any) -> set[str]:
    return {group["device"] for group in record["groups"]}


@pytest.fixture
def affinity(tmp_path: Path) -> Path:
    path = tmp_path / "affinity.yaml"
    path.write_text("pins: {first: cpu}\nexclude: [{device: npu, ops: [Softmax]}]\n")
    return path


def test_simulate_takes_options(
    model: Path, platform: Path, affinity: Path, tmp_path: Path
) -> None:
    words = ["simulate", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    call(*words, "--out", tmp_path / "free")
    free = json.loads((tmp_path / "free" / "plan.json").read_text())
    assert devices_of(free) == {"npu", "cpu"}
    ok(*words, "--set", "max_devices=1", "--out", tmp_path / "one")
    one = json.loads((tmp_path / "one" / "plan.json").read_text())
    assert devices_of(one) == {"cpu"}
    assert one["options"] == {"max_devices": "1"}
    assert "with npu closed" in one["reason"]
    ok(*words, "--affinity", affinity, "--out", tmp_path / "pinned")
    pinned = json.loads((tmp_path / "pinned" / "plan.json").read_text())
    assert "first" in [n for g in pinned["groups"] if g["device"] == "cpu" for n in g["nodes"]]
    assert json.loads(pinned["options"]["pins"]) == {"first": "cpu"}
    # A plan that was saved with options can be read and simulated.
    assert call("simulate", tmp_path / "pinned" / "plan.json").exit_code == 0


def test_compare_holds_every_row_to_them(model: Path, platform: Path, affinity: Path) -> None:
    words = ["compare", model, "--platform", platform, "--json", "--affinity", affinity]
    record = told(call(*words, "--set", "seed=3", "--strategy", "auto", "--strategy", "hetero"))
    rows = {row["strategy"]: row for row in record["rows"]}
    assert set(rows) == {"auto", "hetero"}
    assert all(row["feasible"] for row in rows.values())
    alone = told(call(*words, "--strategy", "single"))["rows"]
    refused = next(row for row in alone if row["strategy"] == "single:npu")
    assert "under the pins, exclusions" in refused["reason"]
    explained = told(call(*words, "--explain", "--strategy", "heft"))
    assert all("first" not in change["what"] for change in explained["explanation"]["changes"])


def test_run_and_compile_take_them(
    model: Path, platform: Path, affinity: Path, tmp_path: Path
) -> None:
    words = [model, "--platform", platform, "--strategy", "hetero:npu,cpu", "--affinity", affinity]
    done = record_of("run", *words, "--executor", "threads")
    assert done["bitwise_equal"]
    assert json.loads(done["plan"]["options"]["pins"]) == {"first": "cpu"}
    assert call("compile", *words, "-o", tmp_path / "folder").exit_code == 0
    for option in (["--affinity", affinity], ["--set", "max_devices=1"]):
        refused(
            call("run", tmp_path / "folder", "--executor", "threads", *option),
            2,
            f"{option[0]} belongs to 'hetsim run MODEL'",
        )


def test_an_objective_is_asked_for_alike_by_every_verb(
    model: Path, platform: Path, tmp_path: Path
) -> None:
    words = ["--platform", platform, "--objective", "throughput"]
    made = []
    for verb in ("simulate", "compare"):
        out = tmp_path / verb
        ok(verb, model, *words, "--strategy", "chain-dp", "--out", out)
        made.append((out / "plan.json").read_text())
    assert made[0] == made[1]
    assert json.loads(made[0])["options"] == {"objective": "throughput"}
    refused(call("simulate", model, *words), 2, "'heft' plans for latency, not for throughput")


@pytest.mark.parametrize(("default", "allowed"), [("npu", "npu"), ("cpu", "cpu"), (None, "cpu")])
def test_a_file_for_partition_serves_a_strategy_too(
    model: Path, platform: Path, tmp_path: Path, default: str | None, allowed: str
) -> None:
    path = tmp_path / "both.yaml"
    path.write_text(
        "exclude: [{ops: [MatMul]}]\npriority: [npu, cpu]\n"
        + (f"default: {default}\n" if default else "")
    )
    words = ["simulate", model, "--platform", platform, "--out", tmp_path / "out"]
    result = ok(*words, "--affinity", path)
    # What has no effect is told; an exclusion without a device spares the default, as there.
    assert "both.yaml:2: 'priority' orders the devices for `hetsim partition`" in result.stderr
    assert ("both.yaml:3: 'default' orders" in result.stderr) == (default is not None)
    record = json.loads((tmp_path / "out" / "plan.json").read_text())
    device_of = {name: group["device"] for group in record["groups"] for name in group["nodes"]}
    assert {device_of["first"], device_of["second"]} == {allowed}


def test_a_saved_plan_is_an_affinity_of_every_verb(
    model: Path, platform: Path, tmp_path: Path
) -> None:
    words = [model, "--platform", platform]
    call("simulate", *words, "--strategy", "hetero:npu,cpu", "--out", tmp_path / "out")
    saved = tmp_path / "out" / "plan.json"
    plan = json.loads(saved.read_text())
    placed = {name: group["device"] for group in plan["groups"] for name in group["nodes"]}
    assert len(set(placed.values())) == 2
    call("simulate", *words, "--affinity", saved, "--out", tmp_path / "again")
    made = [
        json.loads((tmp_path / "again" / "plan.json").read_text()),
        record_of("partition", *words, "--affinity", saved),
    ]
    for record in made:
        groups = record["groups"]
        assert placed == {name: group["device"] for group in groups for name in group["nodes"]}


def test_a_strategy_tells_its_options() -> None:
    table = call("compare", "--strategies", "local-search").stdout
    assert "latency or throughput, latency unless given" in " ".join(table.split())
    record = record_of("compare", "--strategies", "local-search")
    assert {
        "name": "seed",
        "type": "whole number",
        "default": "0",
        "meaning": "Of the moves.",
    } in record["options"]
    assert record["promises"] == ["latency", "throughput"]
    assert "Of the moves." in " ".join(table.split())
    rules = call("compare", "--strategies", "compact").stdout
    assert "min_nodes" in rules
    assert "each group is weakly connected" in rules
    refused(call("compare", "--strategies", "local-serch"), 2, "did you mean 'local-search'")
