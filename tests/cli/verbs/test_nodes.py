"""``hetsim nodes``: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hetsim
from cli_calls import Cli, told
from hetsim.analysis.nodes.record import nodes_schema


def test_it_tells_who_takes_what(cli: Cli, model: Path, platform: Path) -> None:
    words = ["nodes", model, "--platform", platform]
    record = told(cli(*words, "--json"))
    assert (record["strategy"], record["wanted"]) == (None, None)
    refused = {n["name"]: n["devices"][1]["why_not"] for n in record["nodes"]}
    assert (refused["choose"], refused["first"]) == ("op Where", None)
    table = cli(*words).stdout
    assert "npu: op Where" in table
    assert "supported cpu 6, npu 4" in " ".join(table.split())
    assert "and 4 more nodes: --wide lists all" in table
    assert "last" in cli(*words, "--wide").stdout


def test_it_tells_what_falling_back_costs(cli: Cli, model: Path, platform: Path) -> None:
    words = ["nodes", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    words += ["--device", "npu"]
    record = told(cli(*words, "--json"))
    fallen = {n["name"]: n for n in record["nodes"] if n["falls_back"]}
    assert set(fallen) == {"compare", "choose"}
    assert all(n["supposed"] and n["cost_s"] is not None for n in fallen.values())
    table = cli(*words).stdout
    assert "preferred  npu, which runs 4 of 6" in table
    assert "elsewhere  2 nodes: " in table
    assert "op Where" in table
    problem = hetsim.Problem.of(hetsim.load_model(model), hetsim.load_platform(platform))
    made = hetsim.plan(problem, "hetero:npu,cpu")
    assert json.loads(hetsim.nodes(made, device="npu").to_json()) == record


def test_a_saved_plan_says_the_same(cli: Cli, model: Path, platform: Path, tmp_path: Path) -> None:
    asked = [model, "--platform", platform, "--strategy", "heft"]
    assert cli("simulate", *asked, "--out", tmp_path / "out").exit_code == 0
    saved = told(cli("nodes", tmp_path / "out" / "plan.json", "--json"))
    assert saved == told(cli("nodes", *asked, "--json"))


def test_it_writes_files_by_their_ends(
    cli: Cli, model: Path, platform: Path, tmp_path: Path
) -> None:
    words = ["nodes", model, "--platform", platform, "--strategy", "heft", "--json"]
    ends = ("json", "csv", "model-explorer.json", "cost.model-explorer.json")
    files = [tmp_path / f"n.{end}" for end in ends]
    outs = [word for file in files for word in ("-o", file)]
    record = told(cli(*words, *outs))
    assert json.loads(files[0].read_text()) == record
    assert files[1].read_text().startswith("file_node,file_op,output,node,")
    assert {e["value"] for e in json.loads(files[2].read_text())["results"].values()} <= {
        "cpu", "npu", "constant",
    }  # fmt: skip
    again = cli(*words, *outs)
    assert (again.exit_code, again.stdout) == (2, "")
    assert cli(*words, *outs, "--force").exit_code == 0
    for name in ("n.txt", "n"):
        wrong = cli(*words, "-o", tmp_path / name)
        assert (wrong.exit_code, wrong.stdout) == (2, "")
        assert "end it with one of" in wrong.stderr


def test_its_schema_is_printed(cli: Cli) -> None:
    assert told(cli("nodes", "--schema")) == json.loads(json.dumps(nodes_schema()))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give MODEL or PLAN.json"),
        (["MODEL", "--device", "nps"], "did you mean 'npu'"),
        (["MODEL", "--set", "max_devices=1"], "name a --strategy"),
        (["MODEL", "--objective", "latency"], "name a --strategy"),
    ],
)
def test_what_it_refuses(
    cli: Cli, model: Path, platform: Path, words: list[str], said: str
) -> None:
    given = [str(model) if word == "MODEL" else word for word in words]
    result = cli("nodes", *given, *(["--platform", platform] if words else []))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
