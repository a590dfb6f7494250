"""Platforms side by side: each row is the answer for its platform, samples are common to all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hetsim
from hetsim.analysis.confidence import draw, draw_together
from hetsim.analysis.platforms import PlatformRow
from hetsim.errors import Infeasible, ObjectiveMissed, UsageError
from hetsim.graph.model import Model
from hetsim.hardware.catalog import (
    device_names,
    load_catalog_platforms,
    load_platform,
    platform_names,
)
from hetsim.placement.objective import Objective
from hetsim.problem.problem import Problem
from hetsim.reporting.tables.platforms import platforms_record, platforms_verdict

BOARDS = ("rock-5b", "jetson-orin-nano", "raspberry-pi-4")


@pytest.fixture(scope="module")
def model() -> Model:
    return hetsim.load_model("zoo:squeezenet")


def named(found: hetsim.PlatformComparison) -> dict[str, PlatformRow]:
    return {row.name: row for row in found.rows}


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_the_row_of_one_platform_is_what_compare_says_of_it(model: Model, objective: str) -> None:
    strategies = ("single", "heft") if objective == "latency" else ("single", "multi", "heft")
    found = hetsim.compare_platforms(
        model, ["rock-5b"], strategies, objective=objective, samples=40, seed=3
    )  # type: ignore[arg-type]
    known = hetsim.compare(
        Problem.of(model, load_platform("rock-5b")), strategies, objective=objective, samples=40,
        draw_seed=3,
    )  # type: ignore[arg-type]  # fmt: skip
    [row] = found.rows
    same = next(one for one in known.rows if row.taken and one.strategy == row.taken.strategy)
    assert same.plan is not None
    assert same.sure is not None
    assert (row.cost_s, row.devices) == (same.cost_s, same.plan.devices_used)
    assert row.interval == same.sure.cost_s
    assert row.speedup == same.speedup_over_best_single
    assert row.comparison.best_single == known.best_single


def test_what_two_platforms_share_is_off_by_the_same(model: Model) -> None:
    one, two = (Problem.of(model, load_platform(name)) for name in ("workstation", "dual-gpu"))
    first, second = draw_together([one, two], 30, 5)
    gpu, cpu = one.devices.index("gpu"), one.devices.index("cpu")
    assert (first.devices[:, gpu] == second.devices[:, two.devices.index("gpu.0")]).all()
    assert (first.devices[:, gpu] == second.devices[:, two.devices.index("gpu.1")]).all()
    assert (first.devices[:, gpu] != first.devices[:, cpu]).all()
    alone, [together] = draw(one.uncertainty, 30, 5), draw_together([one], 30, 5)
    for name in ("devices", "routes", "parts"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(together, name))


def test_rows_are_best_first_and_one_is_the_fastest_in_each_sample(model: Model) -> None:
    found = hetsim.compare_platforms(model, BOARDS, samples=100)
    costs = [row.cost_s or 0.0 for row in found.rows]
    assert costs == sorted(costs)
    assert sum(row.fastest or 0.0 for row in found.rows) == pytest.approx(1.0)
    for row in found.rows:
        assert row.interval is not None
        assert row.interval.low <= (row.cost_s or 0.0) <= row.interval.high
        assert set(row.precisions) == set(row.devices)
    assert found.require() is found.rows[0]
    with pytest.raises(ObjectiveMissed, match=r"platform '.*misses the target of 1\.00 us"):
        found.require(1e-6)
    assert platforms_verdict(found).startswith(f"Of 3 boards and machines, {found.rows[0].name} is")


def test_the_catalog_is_all_platforms_and_each_other_device_once() -> None:
    platforms = load_catalog_platforms()
    names = [platform.name for platform in platforms]
    used = {spec.name for one in platforms for spec in one.devices.values()}
    assert set(platform_names()) <= set(names)
    assert len(names) == len(set(names))
    assert used == set(device_names())
    alone = {one.name for one in platforms if one.name not in platform_names()}
    together = {
        spec.name for one in platforms if one.name not in alone for spec in one.devices.values()
    }
    assert not alone & together


def test_a_precision_is_for_the_devices_that_have_it(model: Model) -> None:
    asked = ["edge-tpu", "hailo-8", "nvidia-t4"]
    given = named(hetsim.compare_platforms(model, asked, samples=0))
    assert given["hailo-8"].taken is None
    assert "does not support" in (given["hailo-8"].reason or "")
    assert given["edge-tpu"].integer_only == ("tpu",)
    assert given["nvidia-t4"].integer_only == ()
    found = named(hetsim.compare_platforms(model, asked, execute={"*": "int8"}, samples=0))
    assert [row.precisions for row in found.values() if row.alone] == [
        {"gpu": "int8"},
        {"npu": "int8"},
    ]
    half = named(hetsim.compare_platforms(model, asked, execute={"gpu": "float16"}, samples=0))
    assert half["nvidia-t4"].precisions == {"gpu": "float16"}
    assert half["edge-tpu"].cost_s == given["edge-tpu"].cost_s
    for execute, says in (
        ({"npx": "int8"}, "no device 'npx' on any of 3 platforms"),
        ({"gpu": "int4"}, "no device 'gpu' of 3 platforms can execute in 'int4'"),
    ):
        with pytest.raises(UsageError, match=says):
            hetsim.compare_platforms(model, asked, execute=execute)


def test_where_no_platform_runs_the_model_each_says_why(model: Model) -> None:
    found = hetsim.compare_platforms(model, ["hailo-8", "hailo-10h"])
    record = platforms_record(found)
    assert [row["feasible"] for row in record["rows"]] == [False, False]
    assert all("Conv" in row["reason"] for row in record["rows"])
    assert record["verdict"]["say"] == "None of 2 platforms runs the model."
    with pytest.raises(Infeasible, match="none of 2 platforms runs"):
        found.require()


def test_the_cheapest_is_of_those_near_the_fastest_or_of_all(model: Model, tmp_path: Path) -> None:
    paths = []
    for name, price in (("dear", 900), ("cheap", 30), ("unpriced", None)):
        stated = "" if price is None else f"price: {{usd: {price}, of: 2026-01, source: s}}\n"
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"host: cpu\ndevices:\n  cpu: raspberry-pi-5-cpu\nlinks: []\n{stated}")
        paths.append(path)
    found = hetsim.compare_platforms(model, [*paths, "jetson-orin-nano"], samples=0)
    orin, cheap = named(found)["jetson-orin-nano"], named(found)["cheap"]
    assert found.best is orin
    assert found.cheapest(rented=False, within=0.1) is orin
    offers = [row.offer(rented=False) for row in (orin, cheap)]
    assert [offer and offer.usd for offer in offers] == [249, 30]
    some = hetsim.compare_platforms(model, paths, samples=0)
    assert some.cheapest(rented=False) is named(some)["cheap"]
    assert some.cheapest(rented=True) is None
    # What states no price of its own costs what its devices cost together.
    assert named(some)["unpriced"].offers[0].usd == 80


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_simple_plans_are_compared_beside_the_strategies_named(
    model: Model, objective: Objective
) -> None:
    found = hetsim.compare_platforms(model, BOARDS, ["pipeline"], objective=objective, samples=0)
    simple = ("single",) if objective == "latency" else ("single", "multi")
    assert found.strategies == (*simple, "pipeline")
    whole = hetsim.compare_platforms(model, BOARDS, simple, objective=objective, samples=0)
    assert [row.cost_s for row in found.rows] == [row.cost_s for row in whole.rows]
    assert None not in [row.cost_s for row in found.rows]


def test_what_names_devices_of_one_platform_is_refused(model: Model) -> None:
    with pytest.raises(UsageError, match="strategy 'single:npu' names devices of one platform"):
        hetsim.compare_platforms(model, BOARDS, ["single:npu"])
    with pytest.raises(UsageError, match="no platform to compare"):
        hetsim.compare_platforms(model, [])
