"""Pins, exclusions and objectives go by one name in every verb, and mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.errors import InvalidInput, UsageError
from hetsim.partitioning.affinity.affinity import Affinity, Exclusion
from hetsim.problem.problem import Problem

PROBLEM = Problem.from_arrays(
    np.array([[4.0, 1.0, 2.0]] * 4),
    [(0, 1, 4), (0, 2, 4), (1, 3, 4), (2, 3, 4)],
    devices=("cpu", "gpu", "npu"),
    host=0,
)
PINS = {"n0": "npu"}
EXCLUDE = (Exclusion("gpu", nodes=("n1",)),)
WISHES = Affinity(PINS, EXCLUDE)
ASKED: dict[str, Any] = {"pins": PINS, "exclude": EXCLUDE}


def test_an_affinity_is_its_pins_and_exclusions_in_every_verb() -> None:
    parts = [hetsim.partition(PROBLEM, **asked) for asked in (ASKED, {"affinity": WISHES})]
    assert parts[0].groups == parts[1].groups
    for strategy in ("heft", "auto"):
        plans = [hetsim.plan(PROBLEM, strategy, **a) for a in (ASKED, {"affinity": WISHES})]
        assert plans[0].to_json() == plans[1].to_json()
        assert plans[0].assignment[0] == 2
        assert plans[0].assignment[1] != 1
    bounds = [hetsim.lower_bound(PROBLEM, **asked) for asked in (ASKED, {"affinity": WISHES})]
    assert bounds[0] == bounds[1]
    tables = [hetsim.compare(PROBLEM, ["heft"], **asked) for asked in (ASKED, {"affinity": WISHES})]
    assert tables[0].bound_s == tables[1].bound_s == bounds[0]
    texts = [[row.plan.to_json() for row in table.rows if row.plan] for table in tables]
    assert texts[0] == texts[1]


def test_a_default_is_what_exclusions_without_a_device_spare() -> None:
    spared = Affinity(exclude=(Exclusion(nodes=("n2",)),), default="npu")
    assert hetsim.plan(PROBLEM, "heft", affinity=spared).assignment[2] == 2
    assert hetsim.plan(PROBLEM, "heft", exclude=spared.exclude).assignment[2] == 0


def test_what_is_said_twice_is_refused() -> None:
    for verb in (
        hetsim.partition,
        hetsim.plan,
        hetsim.lower_bound,
        lambda problem, **asked: hetsim.compare(problem, ["heft"], **asked),
    ):
        for name in ASKED:
            with pytest.raises(UsageError, match=f"both 'affinity' and '{name}' say {name}"):
                verb(PROBLEM, affinity=WISHES, **{name: ASKED[name]})
        with pytest.raises(InvalidInput, match="no node 'none'"):
            verb(PROBLEM, affinity=Affinity({"none": "cpu"}))
    with pytest.raises(UsageError, match="pins cannot change an assignment"):
        hetsim.partition(PROBLEM, assignment=[0] * 4, pins=PINS)


def test_an_objective_is_what_a_strategy_plans_for() -> None:
    for strategy in ("auto", "chain-dp", "local-search"):
        made = hetsim.plan(PROBLEM, strategy, objective="throughput")
        assert made.options == {"objective": "throughput"}
    # These plan for one objective, or weigh none: nothing is to be chosen.
    for strategy, objective in (
        ("heft", "latency"),
        ("multi", "throughput"),
        ("hetero", "latency"),
    ):
        made = hetsim.plan(PROBLEM, strategy, objective=objective)  # type: ignore[arg-type]
        assert made.to_json() == hetsim.plan(PROBLEM, strategy).to_json()
    with pytest.raises(UsageError, match=r"'heft' plans for latency, not for throughput.*auto"):
        hetsim.plan(PROBLEM, "heft", objective="throughput")
    with pytest.raises(UsageError, match="'slice' plans for throughput, not for latency"):
        hetsim.plan(PROBLEM, "slice", objective="latency")
    with pytest.raises(UsageError, match="no objective 'speed'"):
        hetsim.plan(PROBLEM, "auto", objective="speed")  # type: ignore[arg-type]
