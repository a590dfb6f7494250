"""``hetsim inspect --nodes``: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import hetsim
from cli_calls import call, record_of, refused, told
from hetsim.analysis.nodes.record import nodes_schema


def test_it_tells_who_takes_what(model: Path, platform: Path) -> None:
    words = ["inspect", "--nodes", model, "--platform", platform]
    record = record_of(*words)
    assert (record["strategy"], record["wanted"]) == (None, None)
    refused = {n["name"]: n["devices"][1]["why_not"] for n in record["nodes"]}
    assert (refused["choose"], refused["first"]) == ("op Where", None)
    table = call(*words).stdout
    assert "npu: op Where" in table
    assert "supported cpu 6, npu 4" in " ".join(table.split())
    assert "4 more nodes; --wide lists all" in table
    assert "last" in call(*words, "--wide").stdout


def test_it_tells_what_falling_back_costs(model: Path, platform: Path) -> None:
    words = ["inspect", "--nodes", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    words += ["--device", "npu"]
    record = record_of(*words)
    fallen = {n["name"]: n for n in record["nodes"] if n["falls_back"]}
    assert set(fallen) == {"compare", "choose"}
    assert all(n["supposed"] and n["cost_s"] is not None for n in fallen.values())
    table = call(*words).stdout
    assert "preferred  npu, which runs 4 of 6" in table
    assert "elsewhere  2 nodes: " in table
    assert "op Where" in table
    problem = hetsim.Problem.of(hetsim.load_model(model), hetsim.load_platform(platform))
    made = hetsim.plan(problem, "hetero:npu,cpu")
    assert json.loads(hetsim.nodes(made, device="npu").to_json()) == record


def test_a_saved_plan_says_the_same(model: Path, platform: Path, tmp_path: Path) -> None:
    asked = [model, "--platform", platform, "--strategy", "heft"]
    assert call("simulate", *asked, "--out", tmp_path / "out").exit_code == 0
    saved = record_of("inspect", "--nodes", tmp_path / "out" / "plan.json")
    assert saved == record_of("inspect", "--nodes", *asked)


def test_it_writes_files_by_their_ends(model: Path, platform: Path, tmp_path: Path) -> None:
    words = ["inspect", "--nodes", model, "--platform", platform, "--strategy", "heft", "--json"]
    ends = ("json", "csv", "model-explorer.json", "cost.model-explorer.json")
    files = [tmp_path / f"n.{end}" for end in ends]
    outs = [word for file in files for word in ("-o", file)]
    record = told(call(*words, *outs))
    assert json.loads(files[0].read_text()) == record
    assert files[1].read_text().startswith("file_node,file_op,output,node,")
    assert {e["value"] for e in json.loads(files[2].read_text())["results"].values()} <= {
        "cpu", "npu", "constant",
    }  # fmt: skip
    again = call(*words, *outs)
    assert (again.exit_code, again.stdout) == (2, "")
    assert call(*words, *outs, "--force").exit_code == 0
    for name in ("n.txt", "n"):
        refused(call(*words, "-o", tmp_path / name), 2, "end it with one of")


def test_its_schema_is_printed() -> None:
    assert told(call("inspect", "--schema", "nodes")) == json.loads(json.dumps(nodes_schema()))


def test_files_of_each_kind_are_checked_by_one_command(
    model: Path, platform: Path, tmp_path: Path
) -> None:
    examples = Path(__file__).parents[3] / "examples"
    files = [platform, *(examples / f"{kind}.yaml" for kind in ("catalog", "grid", "deployment"))]
    lines = call("inspect", *files).stdout.splitlines()
    for line, kind in zip(lines, ("platform", "catalog", "grid", "deployment"), strict=True):
        assert f": valid {kind} " in line
    # Of one file the contents, too; as JSON they are the record of `devices show`.
    assert f"{platform}: valid platform" in call("inspect", platform).stdout
    assert record_of("inspect", platform) == record_of("devices", "show", platform)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("what: is this\n")
    result = call("inspect", wrong)
    assert result.exit_code == 3
    assert f"{wrong}:1: no key of this file says what it describes" in result.stdout
    assert result.stderr == "error: the file cannot be used\n"


def test_a_saved_plan_is_shown(model: Path, platform: Path, tmp_path: Path) -> None:
    asked = [model, "--platform", platform, "--strategy", "heft"]
    assert call("simulate", *asked, "--out", tmp_path / "out").exit_code == 0
    plan = tmp_path / "out" / "plan.json"
    shown = call("inspect", plan).stdout
    assert "strategy   heft" in shown
    assert "first node" in shown
    assert record_of("inspect", plan) == json.loads(plan.read_text())
