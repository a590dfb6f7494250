"""How sure an answer is, on the command line: draws, seeds, and the bad end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import hetsim
from cli_calls import call, ok, record_of

ASKED = ("compare", "zoo:squeezenet", "--platform", "laptop", "--strategy", "single")


def test_every_row_has_its_interval_and_the_order_its_share() -> None:
    shown = ok(*ASKED)
    assert "80 % interval" in shown.stdout
    assert re.search(r"\(200 samples\), (cpu|gpu|npu) alone is\s+fastest in", shown.stdout)
    record = record_of(*ASKED)
    assert (record["draws"], record["draw_seed"]) == (200, 0)
    assert all(row["sure"]["cost_s"]["p10"] < row["cost_s"] for row in record["rows"])
    assert sum(row["sure"]["best"] for row in record["rows"]) == pytest.approx(1.0)


def test_draws_and_seed_are_the_users() -> None:
    once, again, other, none = (
        call(*ASKED, "--json", "--samples", draws, "--seed", seed).stdout
        for draws, seed in ((20, 1), (20, 1), (20, 2), (0, 0))
    )
    assert once == again
    assert json.loads(once)["rows"] != json.loads(other)["rows"]
    assert all(row["sure"] is None for row in json.loads(none)["rows"])
    assert "How sure" not in call(*ASKED, "--samples", 0).stdout


def test_the_bad_end_is_that_of_the_problem(tmp_path: Path) -> None:
    problem = hetsim.Problem.of(
        hetsim.load_model("zoo:squeezenet"), hetsim.load_platform("laptop"), pessimistic=True
    )
    expected = hetsim.compare(problem, ["single"]).rows[0]
    record = record_of(*ASKED, "--pessimistic")
    assert record["problem"]["pessimistic"] is True
    assert record["rows"][0]["cost_s"] == expected.cost_s
    assert "pessimistic  all times are at the upper end" in call(*ASKED, "--pessimistic").stdout


def test_a_saved_plan_keeps_the_end_that_it_was_judged_at(tmp_path: Path) -> None:
    words = ("simulate", "zoo:squeezenet", "--platform", "laptop", "--json")
    calm = json.loads(call(*words, "--out", tmp_path / "calm").stdout)
    bad = json.loads(call(*words, "--pessimistic", "--out", tmp_path / "bad").stdout)
    assert calm["sure"]["latency_mean_s"]["p10"] < calm["timeline"]["latency_s"]
    assert bad["sure"] is None
    assert bad["timeline"]["latency_s"] > calm["timeline"]["latency_s"]
    again = record_of("simulate", tmp_path / "bad" / "plan.json")
    assert again["timeline"] == bad["timeline"]
    judged = record_of("simulate", tmp_path / "calm" / "plan.json", "--pessimistic")
    assert judged["problem"]["pessimistic"] is True
    assert judged["timeline"]["latency_s"] > calm["timeline"]["latency_s"]


def test_requests_and_contention_are_drawn_as_they_are_played() -> None:
    words = ("simulate", "zoo:squeezenet", "--platform", "laptop", "--json", "--strategy", "heft")
    for more in (("--requests", "9"), ("--contention", "none"), ("--interval", "1ms")):
        record = json.loads(call(*words, *more).stdout)
        found = record["sure"]["makespan_s"]
        assert found["p10"] < record["timeline"]["makespan_s"] < found["p90"]
    failing = json.loads(call(*words, "--inject", "slow gpu by 2 at 0ms").stdout or "{}")
    assert failing.get("sure") is None


def test_partitions_are_judged_at_the_bad_end_too() -> None:
    words = ("partition", "zoo:squeezenet", "--platform", "laptop", "--method", "all", "--json")
    calm, bad = (json.loads(call(*words, *more).stdout) for more in ((), ("--pessimistic",)))
    assert bad["problem"]["pessimistic"] is True
    assert all(
        worse["latency_s"] > row["latency_s"]
        for row, worse in zip(calm["methods"], bad["methods"], strict=True)
    )


def test_an_interval_that_would_take_too_long_is_left_out_and_said() -> None:
    words = ("simulate", "zoo:squeezenet", "--platform", "laptop", "--strategy", "single:gpu")
    few = call(*words, "--requests", "2000", "--samples", "20")
    assert "interval " in few.stdout
    many = call(*words, "--requests", "2000", "--samples", "100000")
    assert "interval " not in many.stdout
    assert "too many tasks for an interval" in many.stderr
