"""``--set`` and ``--affinity``: options of strategies on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_calls import Cli, told


def devices_of(record: Any) -> set[str]:
    return {group["device"] for group in record["groups"]}


@pytest.fixture
def affinity(tmp_path: Path) -> Path:
    path = tmp_path / "affinity.yaml"
    path.write_text("pins: {first: cpu}\nexclude: [{device: npu, ops: [Softmax]}]\n")
    return path


def test_simulate_takes_options(
    cli: Cli, model: Path, platform: Path, affinity: Path, tmp_path: Path
) -> None:
    words = ["simulate", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    cli(*words, "--out", tmp_path / "free")
    free = json.loads((tmp_path / "free" / "plan.json").read_text())
    assert devices_of(free) == {"npu", "cpu"}
    result = cli(*words, "--set", "max_devices=1", "--out", tmp_path / "one")
    assert result.exit_code == 0, result.stderr
    one = json.loads((tmp_path / "one" / "plan.json").read_text())
    assert devices_of(one) == {"cpu"}
    assert one["options"] == {"max_devices": "1"}
    assert "with npu closed" in one["reason"]
    result = cli(*words, "--affinity", affinity, "--out", tmp_path / "pinned")
    assert result.exit_code == 0, result.stderr
    pinned = json.loads((tmp_path / "pinned" / "plan.json").read_text())
    assert "first" in [n for g in pinned["groups"] if g["device"] == "cpu" for n in g["nodes"]]
    assert json.loads(pinned["options"]["pins"]) == {"first": "cpu"}
    # A plan that was saved with options can be read and simulated.
    assert cli("simulate", tmp_path / "pinned" / "plan.json").exit_code == 0


def test_compare_holds_every_row_to_them(
    cli: Cli, model: Path, platform: Path, affinity: Path
) -> None:
    words = ["compare", model, "--platform", platform, "--json", "--affinity", affinity]
    record = told(cli(*words, "--set", "seed=3", "--strategy", "auto", "--strategy", "hetero"))
    rows = {row["strategy"]: row for row in record["rows"]}
    assert set(rows) == {"auto", "hetero"}
    assert all(row["feasible"] for row in rows.values())
    alone = told(cli(*words, "--strategy", "single"))["rows"]
    refused = next(row for row in alone if row["strategy"] == "single:npu")
    assert "under the pins, exclusions" in refused["reason"]
    explained = told(cli(*words, "--explain", "--strategy", "heft"))
    assert all("first" not in change["what"] for change in explained["explanation"]["changes"])


def test_run_and_compile_take_them(
    cli: Cli, model: Path, platform: Path, affinity: Path, tmp_path: Path
) -> None:
    words = [model, "--platform", platform, "--strategy", "hetero:npu,cpu", "--affinity", affinity]
    done = told(cli("run", *words, "--executor", "threads", "--json"))
    assert done["bitwise_equal"]
    assert json.loads(done["plan"]["options"]["pins"]) == {"first": "cpu"}
    assert cli("compile", *words, "-o", tmp_path / "folder").exit_code == 0
    for option in (["--affinity", affinity], ["--set", "max_devices=1"]):
        again = cli("run", tmp_path / "folder", "--executor", "threads", *option)
        assert again.exit_code == 2
        assert f"{option[0]} belongs to 'hetsim run MODEL'" in again.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "max_devices=none"], "--set max_devices: 'none'"),
        (["--strategy", "single", "--set", "max_devices=1"], "'single' has no option"),
        (["--strategy", "single:cpu", "--affinity", "{tmp}/first.yaml"], "cannot go with"),
        (["--affinity", "missing.yaml"], "missing.yaml"),
        (["--affinity", "{tmp}/fist.yaml"], "fist.yaml:2"),
    ],
)
def test_bad_options(
    cli: Cli, model: Path, platform: Path, tmp_path: Path, words: list[str], says: str
) -> None:
    (tmp_path / "fist.yaml").write_text("pins:\n  fist: npu\n")
    (tmp_path / "first.yaml").write_text("pins:\n  first: npu\n")
    given = [word.format(tmp=tmp_path) for word in words]
    result = cli("simulate", model, "--platform", platform, *given)
    assert result.exit_code in (2, 3)
    assert says in result.stderr


def test_options_that_do_not_go_together(
    cli: Cli, model: Path, platform: Path, affinity: Path
) -> None:
    words = ["simulate", model, "--platform", platform]
    both = cli(*words, "--affinity", affinity, "--set", 'pins={"first": "npu"}')
    assert both.exit_code == 2
    assert "both set pins" in both.stderr
    for verb in ("compare", "simulate", "run"):
        question = [verb, model, "--platform", platform, "--strategy", "auto"]
        objective = cli(*question, "--set", "objective=throughput")
        assert objective.exit_code == 2
        assert "use --objective" in objective.stderr


def test_an_objective_is_asked_for_alike_by_every_verb(
    cli: Cli, model: Path, platform: Path, tmp_path: Path
) -> None:
    words = ["--platform", platform, "--objective", "throughput"]
    made = []
    for verb in ("simulate", "compare"):
        out = tmp_path / verb
        done = cli(verb, model, *words, "--strategy", "chain-dp", "--out", out)
        assert done.exit_code == 0, done.stderr
        made.append((out / "plan.json").read_text())
    assert made[0] == made[1]
    assert json.loads(made[0])["options"] == {"objective": "throughput"}
    refused = cli("simulate", model, *words)
    assert refused.exit_code == 2
    assert "'heft' plans for latency, not for throughput" in refused.stderr


@pytest.mark.parametrize(("default", "allowed"), [("npu", "npu"), ("cpu", "cpu"), (None, "cpu")])
def test_a_file_for_partition_serves_a_strategy_too(
    cli: Cli, model: Path, platform: Path, tmp_path: Path, default: str | None, allowed: str
) -> None:
    path = tmp_path / "both.yaml"
    path.write_text(
        "exclude: [{ops: [MatMul]}]\npriority: [npu, cpu]\n"
        + (f"default: {default}\n" if default else "")
    )
    words = ["simulate", model, "--platform", platform, "--out", tmp_path / "out"]
    result = cli(*words, "--affinity", path)
    assert result.exit_code == 0, result.stderr
    # What has no effect is told; an exclusion without a device spares the default, as there.
    assert "both.yaml:2: 'priority' orders the devices for `hetsim partition`" in result.stderr
    assert ("both.yaml:3: 'default' orders" in result.stderr) == (default is not None)
    record = json.loads((tmp_path / "out" / "plan.json").read_text())
    device_of = {name: group["device"] for group in record["groups"] for name in group["nodes"]}
    assert {device_of["first"], device_of["second"]} == {allowed}


def test_a_saved_plan_is_an_affinity_of_every_verb(
    cli: Cli, model: Path, platform: Path, tmp_path: Path
) -> None:
    words = [model, "--platform", platform]
    cli("simulate", *words, "--strategy", "hetero:npu,cpu", "--out", tmp_path / "out")
    saved = tmp_path / "out" / "plan.json"
    plan = json.loads(saved.read_text())
    placed = {name: group["device"] for group in plan["groups"] for name in group["nodes"]}
    assert len(set(placed.values())) == 2
    cli("simulate", *words, "--affinity", saved, "--out", tmp_path / "again")
    made = [
        json.loads((tmp_path / "again" / "plan.json").read_text()),
        told(cli("partition", *words, "--affinity", saved, "--json")),
    ]
    for record in made:
        groups = record["groups"]
        assert placed == {name: group["device"] for group in groups for name in group["nodes"]}


def test_a_strategy_tells_its_options(cli: Cli) -> None:
    table = cli("compare", "--strategies", "local-search").stdout
    assert "latency or throughput, latency unless given" in " ".join(table.split())
    record = told(cli("compare", "--strategies", "local-search", "--json"))
    assert {
        "name": "seed",
        "type": "whole number",
        "default": "0",
        "meaning": "Of the moves.",
    } in record["options"]
    assert record["promises"] == ["latency", "throughput"]
    assert "Of the moves." in " ".join(table.split())
    rules = cli("compare", "--strategies", "compact").stdout
    assert "min_nodes" in rules
    assert "each group is weakly connected" in rules
    unknown = cli("compare", "--strategies", "local-serch")
    assert unknown.exit_code == 2
    assert "did you mean 'local-search'" in unknown.stderr
