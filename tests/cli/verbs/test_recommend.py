"""``hetsim recommend``: its tables, its record, the file that it leaves, and how it ends."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from answers_on_disk import read_left
from certificate_parts import certified, left
from cli_calls import call, ok, record_of, refused
from hetsim.hardware.catalog import offers
from hetsim.reporting.pages.answers import island_of

WORKLOAD = """\
requests: {requests}
streams:
  first: {{model: {model}, arrivals: {{{arrivals}: {{rate_per_s: {rate}}}}}, slos: [p90={slo}]}}
  other: {{model: copy.onnx, arrivals: {{constant: {{rate_per_s: 300}}}}, slos: [p90=50ms]}}
"""


@pytest.fixture
def asked(dynamic_model: Path, platform: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model and its copy, which is where the call is made."""
    folder = dynamic_model.parent
    monkeypatch.chdir(folder)
    (folder / "copy.onnx").write_bytes(dynamic_model.read_bytes())
    return folder


def written(folder: Path, model: Path, **changes: object) -> str:
    given = {"requests": 600, "model": model.name, "rate": 500, "slo": "50ms"}
    given |= {"arrivals": "constant", **changes}
    (folder / "w.yaml").write_text(WORKLOAD.format(**given))
    return "w.yaml"


def test_tables_a_record_and_a_deployment(asked: Path, dynamic_model: Path, platform: Path) -> None:
    file = written(asked, dynamic_model)
    words = ("recommend", "--workload", file, "--platform", platform, "--placements", 2)
    (asked / "deep").mkdir()
    out = asked / "deep" / "d.yaml"
    shown = ok(*words, "--batching", "2", "--out", out)
    for said in (
        "unbatched", "batch size 2", "proven optimal", "placement", "p99 / limit", "planned by",
        "busy at peak", "for others", "Best: ", "meets every objective",
    ):  # fmt: skip
        assert said in shown.stdout
    assert "wrote the best placement to" in shown.stderr
    found: dict[str, Any] = record_of(*words)
    assert found["schema"] == "hetsim-placement/1"
    assert found["factor"] <= found["bound"]
    assert (found["gap"], found["impossible"]) == (pytest.approx(0, abs=1e-9), None)
    assert [row["stream"] for row in found["apart"]] == ["first", "other"]
    assert found["rows"][0]["answer"] == "meets"
    ok(*words, "--report", asked / "placed.html")
    left = read_left(asked / "placed.html")
    assert {**left.record, "service": None} == {**found, "service": None}
    assert found["verdict"]["say"] in island_of(left, ()).verdict.say
    # What it leaves is what is simulated, by whichever path it names the models.
    ok("simulate", "--workload", file, "--platform", platform, "--deployment", out, "--json")
    refused(call(*words, "--out", out), 2, "give --force to replace it")
    refused(call(*words, "--strategy", "hefd"), 2, "did you mean 'heft'")
    few = (*words[:-1], 1, "--strategy", "heft")
    assert call(*few, "--out", out, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"slo": "1ns"}, 4, "takes less than"),
        ({"rate": 1e9, "requests": 300}, 4, "no placement has time for more than"),
        ({"few": 20, "arrivals": "poisson"}, 6, "undecided"),
    ],
)
def test_how_it_ends(
    asked: Path, dynamic_model: Path, platform: Path, changes: dict[str, Any], code: int, says: str
) -> None:
    few = ("--requests", changes.pop("few")) if "few" in changes else ()
    words = ("--workload", written(asked, dynamic_model, **changes), "--platform", platform)
    result = call("recommend", *words, "--placements", 1, *few)
    assert result.exit_code == code, result.stderr
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout


def test_beside_a_platform_that_nobody_has(
    asked: Path, dynamic_model: Path, platform: Path
) -> None:
    words = ("recommend", "--workload", written(asked, dynamic_model), "--platform", platform)
    words = (*words, "--placements", 1, "--strategy", "heft")
    shown = ok(*words, "--without", "npu")
    assert "As it is: Best: " in shown.stdout


def test_faster_and_what_its_slider_names(asked: Path, dynamic_model: Path, platform: Path) -> None:
    """At twice the rate half the factor is left; a page holds the best, and both commands."""
    words = ("recommend", "--workload", written(asked, dynamic_model), "--platform", platform)
    words = (*words, "--placements", 1, "--strategy", "heft")
    found = record_of(*words)
    faster = call(*words, "--speedup", 2, "--json", "--out", "d.yaml", "--report", "p.html")
    record = json.loads(faster.stdout)
    assert record["rate_per_s"] == 2 * found["rate_per_s"]
    assert record["factor"] == pytest.approx(found["factor"] / 2)
    [row] = read_left(Path("p.html")).pictures["load"]
    assert row["rates"][row["start"]] == pytest.approx(record["rate_per_s"])
    command = shlex.split(row["stops"][row["start"]]["command"])
    assert command[-2:] == ["--speedup", "2.0"]
    played = call(*command[1:], "--json")
    assert json.loads(played.stdout)["streams"] == record["service"]["streams"]
    assert "--speedup" in row["leave"]


def test_a_certificate_is_checked(tmp_path: Path) -> None:
    certificate = certified(11)
    path = left(certificate, tmp_path)
    told = ok("recommend", "--verify", path)
    assert told.stdout.startswith("certificate holds: ")
    assert "\nverified  stream " in told.stdout
    assert "\non trust  seconds of devices and links, and memory: " in told.stdout
    record = record_of("recommend", "--verify", path)
    assert record["runs"] == sum(len(one["runs"]) for one in certificate["played"])
    refused(call("recommend", "--verify", path, "--events", "10"), 3, "--events")
    certificate["answer"]["cost"] += 1
    refused(
        call("recommend", "--verify", left(certificate, tmp_path)),
        5,
        "/answer: of what was played it is",
    )


def test_one_model_at_a_rate(asked: Path, dynamic_model: Path, platform: Path) -> None:
    """What is bought for a model meets its objective where it is simulated."""
    price = "{usd: 100, years: 3, of: 2024-06, source: an offer}"
    kind = f"{{platform: {platform}, link: eth1, price: {price}}}"
    (asked / "c.yaml").write_text(f"kinds: {{board: {kind}}}\n")
    rate = ("--rate", "600/min", "--slo", "p90=50ms")
    words = (dynamic_model.name, *rate, "--catalog", "c.yaml", "--samples", 0)
    record = record_of(*words, "--out", "chosen")
    assert record["answer"]["counts"] == {"board": 1}
    files = ("--platform", "chosen/platform.yaml", "--deployment", "chosen/deployment.yaml")
    played = ok("simulate", dynamic_model.name, *files, *rate)
    assert "meets" in played.stdout


@pytest.mark.sweep
def test_named_boards_have_listed_prices(asked: Path, dynamic_model: Path) -> None:
    words = ("recommend", "--workload", written(asked, dynamic_model), "--catalog", "rock-5b")
    found = ok(*words, "--max-devices", 1, "--samples", 0, "--json")
    usd = min(one.usd for one in offers("rock-5b") if one.usd is not None)
    again = call(
        *words, "--max-devices", 1, "--samples", 0, "--price", f"rock-5b={usd}/3y", "--json"
    )
    assert json.loads(again.stdout)["kinds"] == json.loads(found.stdout)["kinds"]
