"""``--sustained``: devices that are busy at once, within what they share."""

from __future__ import annotations

from pathlib import Path

import pytest

import hetsim
from cli_calls import call, ok, record_of
from hetsim.analysis.sustained_speed import SustainedSpeed

ASKED = ("zoo:resnet18", "--platform", "laptop", "--strategy", "multi:cpu,gpu", "--samples", 20)


def problem() -> hetsim.Problem:
    return hetsim.Problem.of(hetsim.load_model("zoo:resnet18"), hetsim.load_platform("laptop"))


def test_simulate_plays_the_slower_plan_and_keeps_the_one_that_was_asked(tmp_path: Path) -> None:
    words = ("simulate", *ASKED, "--requests", 30)
    calm = record_of(*words)
    long = record_of(*words, "--sustained", "--out", tmp_path / "kept")
    assert (calm["sustained"], calm["slower"]) == (False, None)
    assert long["sustained"] is True
    plan = hetsim.plan(problem(), "multi:cpu,gpu")
    slow = SustainedSpeed(plan.problem).of_requests(plan, [0.0] * 30)
    assert slow.problem.slower is not None
    assert long["slower"]["power"] == slow.problem.slower.power
    assert tuple(long["slower"]["memory"].values()) == slow.problem.slower.memory
    assert long["timeline"]["makespan_s"] == hetsim.simulate(slow, 30).makespan_s
    assert long["timeline"]["makespan_s"] > calm["timeline"]["makespan_s"]
    assert long["sure"]["makespan_s"]["p90"] > calm["sure"]["makespan_s"]["p90"]
    # The plan is of the question, not of what playing it made of the devices.
    assert long["problem"] == calm["problem"]
    assert hetsim.load_plan(tmp_path / "kept" / "plan.json").groups == plan.groups
    shown = call(*words, "--sustained").stdout
    words_of = " ".join(shown.split())
    assert (
        "devices that are busy at the same time share 28 W (secondary) and 119.5 GB/s" in words_of
    )
    assert "of memory (cpu, gpu, npu; derived)" in words_of
    assert "slowdown       1." in shown


@pytest.mark.sweep
def test_compare_says_within_what_and_how_much_slower() -> None:
    words = ("compare", *ASKED, "--objective", "throughput")
    record = record_of(*words, "--sustained")
    assert record["sustained"] is True
    (row,) = (row for row in record["rows"] if row["strategy"] == "multi:cpu,gpu")
    expected = hetsim.compare(
        problem(), ["multi:cpu,gpu"], objective="throughput", sustained=True, samples=0
    ).rows[0]
    assert row["cost_s"] == expected.cost_s
    assert row["slower"]["power"] > 1
    assert "multi:cpu,gpu: devices slow each other down, " in call(*words, "--sustained").stdout
    calm = record_of(*words)
    assert calm["sustained"] is False
    assert calm["lower_bound_s"] == record["lower_bound_s"]
    assert all(row["slower"] is None for row in calm["rows"])


@pytest.mark.parametrize("verb", ["compare", "simulate"])
def test_a_platform_that_states_nothing_says_so(verb: str) -> None:
    asked = (verb, "zoo:squeezenet", "--platform", "workstation", "--strategy", "heft")
    shown = ok(*asked, "--sustained", "--samples", 0)
    assert "no slowdown: the platform states no shared power or memory limit" in shown.stdout


def test_a_platform_shows_what_its_devices_share() -> None:
    shown = " ".join(call("devices", "show", "laptop").stdout.split())
    assert "shared 28 W (secondary) and 119.5 GB/s of memory (cpu, gpu, npu; derived)" in shown
    record = record_of("devices", "show", "laptop")
    assert (record["power_w"]["value"], record["power_w"]["status"]) == (28, "secondary")
    (memory,) = record["memories"]
    assert (memory["devices"], memory["bytes_per_s"]) == (["cpu", "gpu", "npu"], 119.5e9)
    assert memory["source"]
    plain = call("devices", "show", "workstation")
    assert "shared" not in plain.stdout
