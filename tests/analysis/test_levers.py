"""Which figures are moved to see what would help, and how what they give is told."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

import hetsim
from hetsim.analysis import sensitivity
from hetsim.analysis.sensitivity import EACH, Sensitivity, levers, sensitivities
from hetsim.errors import OutOfMemory, UsageError
from hetsim.hardware.spec import Link, Platform
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem

READ = hetsim.load_platform("rock-5b")
CPU = READ.devices["cpu"]
LINK = READ.links[0]
NAN = math.nan


def platform(devices: list[str], links: list[Link]) -> Platform:
    return replace(READ, devices=dict.fromkeys(devices, CPU), links=tuple(links))


def link(name: str, latency_s: float = 0.0, of: str = "") -> Link:
    return replace(LINK, name=name, latency_s=latency_s, of=of)


def test_each_device_and_link_has_its_levers_up_to_six() -> None:
    few = platform(["a", "b.0", "b.1"], [link("l"), link("m", 1e-6)])
    assert levers(few) == (
        "device a.speed +10%", "device b.0.speed +10%", "device b.1.speed +10%",
        "link l.bandwidth +10%", "link m.bandwidth +10%", "link m.latency -10%",
    )  # fmt: skip
    assert levers(few, ["a", "b.1"])[0] == "device b.0.speed +10%"
    assert not any("device" in change for change in levers(few, ["a", "b.0", "b.1"]))
    for count in (EACH, EACH + 1):
        names = [f"g.{k}" for k in range(count)]
        found = levers(platform(names, []))
        expected = names if count == EACH else ["g"]
        assert found == tuple(f"device {name}.speed +10%" for name in expected)
        links = [link(f"l.{k}", of="kind") for k in range(count)]
        wide = [change for change in levers(platform(["a"], links)) if "bandwidth" in change]
        expected = [one.name for one in links] if count == EACH else ["kind"]
        assert wide == [f"link {name}.bandwidth +10%" for name in expected]


def test_of_many_those_alike_are_one_lever_and_the_measured_ones_none() -> None:
    names = ["cpu", *(f"g.{k}" for k in range(EACH))]
    assert levers(platform(names, [])) == ("device cpu.speed +10%", "device g.speed +10%")
    assert levers(platform(names, []), ["g.2"]) == ("device cpu.speed +10%",)
    links = [link(f"l.{k}", 1e-6 if k == 3 else 0.0, "l") for k in range(EACH)]
    links += [link("own"), link("far", 1e-6)]
    # Of a kind one has a latency; a link of no kind goes by its name.
    assert levers(platform(["a"], links))[1:] == (
        "link l.bandwidth +10%", "link l.latency -10%", "link own.bandwidth +10%",
        "link far.bandwidth +10%", "link far.latency -10%",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "anew", "most"),
    [(-0.1, -0.2, -0.2), (-0.3, -0.2, -0.3), (NAN, 0.1, 0.1), (-0.1, NAN, -0.1), (0.0, 0.5, 0.0)],
)
def test_the_most_is_the_better_of_both(kept: float, anew: float, most: float) -> None:
    assert Sensitivity("c", kept, anew).most == most
    assert math.isnan(Sensitivity("c", NAN, NAN).most)


def test_what_is_told_goes_by_what_it_saves_and_all_is_told_of() -> None:
    model = hetsim.load_model("zoo:squeezenet")
    plan = hetsim.plan(Problem.of(model, READ), "hetero:npu,cpu")
    said: list[str] = []
    found = sensitivities(plan, tell=said.append)
    assert said == list(levers(READ))
    assert (found.figure, found.value_s) == ("latency", hetsim.simulate(plan).latency_s)
    places = [said.index(one.change) for one in found.changes]
    for (one, at), (other, then) in pairwise(zip(found.changes, places, strict=True)):
        gap = other.most - one.most
        assert gap > -1e-9
        if abs(gap) < 1e-12:
            assert at < then
    assert sensitivities(plan, objective="throughput").figure == "seconds a request"


def test_what_fits_no_longer_is_told_last_without_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(plan: Plan, problem: Problem) -> Plan:
        raise OutOfMemory("full")

    monkeypatch.setattr(sensitivity, "again", full)
    plan = hetsim.plan(Problem.of(hetsim.load_model("zoo:squeezenet"), READ), "single:cpu")
    found = sensitivities(plan)
    assert all(math.isnan(one.anew) and not math.isnan(one.kept) for one in found.changes)
    assert all(one.most == one.kept for one in found.changes)
    with pytest.raises(UsageError, match="did you mean 'latency'"):
        sensitivities(plan, objective="latncy")  # type: ignore[arg-type]
