"""Devices that are lost: what is left, which are alike in that, and the verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

import hetsim
from deployments import model_at, replayed
from fleets import KINDS, fleet, random_served
from hetsim.placement.planning import replan
from hetsim.provisioning.rates.losses import LossModel
from hetsim.provisioning.rates.redundancy import survive
from hetsim.simulation.service.layout import set_up
from hetsim.simulation.service.resolution import resolve
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import played, serve
from hetsim.workload.arrivals import Closed, Poisson
from hetsim.workload.autoscaling import Autoscaling
from hetsim.workload.deployment import Instances, Served
from hetsim.workload.failure import Failure
from sweeps import sweep

LIMIT_S = 0.002


def coming(
    model: str, rate: float, requests: int = 400, limit_s: float = LIMIT_S
) -> hetsim.Workload:
    slo = hetsim.Slo(0.9, limit_s)
    stream = hetsim.Stream("all", model, Poisson(rate), slos=(slo,))
    return hetsim.Workload((stream,), requests=requests, seed=3)


def on(model: str, *devices: str, **changes: object) -> hetsim.Deployment:
    entries = tuple(Instances(1, (name,)) for name in devices)
    return hetsim.Deployment((Served(model, "single", instances=entries, **changes),))  # type: ignore[arg-type]


def told(service: Service) -> object:
    """All that is said of latencies, which two that are one have alike to the last bit."""
    return [
        (one.requests, one.answered, one.mean_s, one.percentiles, one.objectives, one.batch)
        for one in service.streams
    ]


@sweep("seed", quick=[3], full=range(60))
def test_any_so_many_devices_of_a_class_leave_the_same(seed: int, model: str, folder: Path) -> None:
    rng = np.random.default_rng([seed, 1])
    kinds = rng.permutation(list(KINDS))[: rng.integers(1, 3)]
    counts = {str(kind): int(rng.integers(1, 4)) for kind in kinds}
    platform = fleet(folder, counts, bus=bool(rng.random() < 0.3))
    names = list(platform.devices)[1:]
    deployment = hetsim.Deployment((random_served(rng, model, names),))
    workload = coming(model, 3000.0, 60)
    resolved = resolve(deployment, workload, platform)
    loss_model = LossModel(resolved, platform)
    assert [name for one in loss_model.classes for name in sorted(one)] == sorted(
        (name for one in loss_model.classes for name in one),
        key=lambda name: next(at for at, one in enumerate(loss_model.classes) if name in one),
    )
    known: dict[object, object] = {}
    for downs in product(*(range(len(one) + 1) for one in loss_model.classes)):
        chosen = product(
            *(
                combinations(one, count)
                for one, count in zip(loss_model.classes, downs, strict=True)
            )
        )
        shapes = set()
        for choice in chosen:
            lost = frozenset(name for part in choice for name in part)
            left = loss_model.without(lost)
            if left.anew:
                continue
            shapes.add(left.shape)
            said = told(
                played(workload, left.resolved, set_up(left.resolved, workload, left.memory))
            )  # type: ignore[arg-type]
            if left.shape not in known:
                # What is left is what would have been deployed without those that are lost.
                entries = tuple(
                    entry
                    for entry, rows in zip(
                        resolved[0].served.instances, resolved[0].plans, strict=True
                    )
                    if not lost & {at for row in rows for one in row for at in one.devices_used}
                )
                [served] = deployment.models
                without = hetsim.Deployment((replace(served, instances=entries),))
                known[left.shape] = told(serve(without, workload, platform))
            assert known[left.shape] == said
        assert len(shapes) <= 1


def test_of_a_fleet_each_kind_is_a_class(model: str, folder: Path) -> None:
    platform = fleet(folder, {"t4": 3, "l4": 2})
    workload = coming(model, 100.0)

    def classes(*devices: str) -> tuple[tuple[str, ...], ...]:
        return LossModel(resolve(on(model, *devices), workload, platform), platform).classes

    t4, l4 = ("t4.0", "t4.1", "t4.2"), ("l4.0", "l4.1")
    assert classes(*t4, *l4) == (("cpu",), t4, l4)
    # One without an instance is another than those with; so is one that stands between others.
    assert classes("t4.0", "t4.1", *l4) == (("cpu",), ("t4.0", "t4.1"), ("t4.2",), l4)
    assert classes("t4.0", "l4.0", "t4.1", "t4.2", "l4.1") == (
        ("cpu",), ("t4.0",), ("t4.1", "t4.2"), ("l4.0",), ("l4.1",),
    )  # fmt: skip
    assert classes("t4.1", "t4.1", "t4.0", "t4.2") == (
        ("cpu",), ("t4.0", "t4.2"), ("t4.1",), l4,
    )  # fmt: skip


def test_a_model_without_an_instance_is_planned_again(model: str, folder: Path) -> None:
    platform = fleet(folder, {"t4": 1, "npu": 1})
    workload = coming(model, 50.0)
    deployment = hetsim.Deployment((Served(model, "single"),))
    resolved = resolve(deployment, workload, platform)
    loss_model = LossModel(resolved, platform)
    [first] = resolved[0].plans[0][0][0].devices_used
    left = loss_model.without(frozenset({first}))
    assert left.anew == (model,)
    assert not left.used & {first}
    plan = resolved[0].plans[0][0][0]
    assert left.resolved[0].plans[0][0][0].groups == replan(plan, [first]).groups
    # One that runs there is planned once more; what nothing runs on changes nothing.
    [second] = left.used
    assert loss_model.without(frozenset({first, second})).used == set(platform.devices) - {
        first, second,
    }  # fmt: skip
    [third] = set(platform.devices) - {first, second}
    assert loss_model.without(frozenset({first, third})) is left
    assert loss_model.without(frozenset({second, third})) is loss_model.without(frozenset())
    gone = loss_model.without(frozenset(platform.devices))
    assert gone.refused is not None
    assert gone.resolved == ()


def test_what_is_left_is_what_failures_leave(model: str, folder: Path) -> None:
    platform = fleet(folder, {"t4": 2, "l4": 1})
    workload = coming(model, 2000.0)
    for deployment, dead in (
        (on(model, "t4.0", "t4.1", "l4.0", routing="least_finish"), "t4.1"),
        (hetsim.Deployment((Served(model, "single:l4.0", instances=(Instances(2),)),)), "l4.0"),
    ):
        found = survive(deployment, workload, platform=platform)
        [loss] = [one for one in found.losses if any(dead in of for _, of in one.sets[0])]
        failed = hetsim.simulate(
            deployment, workload, platform=platform, failures=(Failure(dead, 0.0),)
        )
        assert loss.service is not None
        assert loss.service.streams[0].percentiles[0].estimate_s == (
            failed.streams[0].percentiles[0].estimate_s
        )
        assert loss.service.streams[0].mean_s == failed.streams[0].mean_s


def test_the_worst_loss_is_named(model: str, folder: Path) -> None:
    platform = fleet(folder, {"t4": 2, "l4": 1})
    devices = ("t4.0", "t4.1", "l4.0")
    workload = coming(model, 5000.0, 2000)
    found = survive(on(model, *devices), workload, platform=platform, losses=2)
    assert found.unused == ("cpu",)
    assert [(one.lost, one.choices) for one in sorted(found.losses, key=lambda one: one.lost)] == [
        (("l4.0",), 1), (("t4.0",), 2), (("t4.0", "l4.0"), 2), (("t4.0", "t4.1"), 1),
    ]  # fmt: skip
    assert found.intact.lost == ()
    order = {"meets": 0, "undecided": 1, "misses": 2}
    late = [
        (order[one.answer], one.service.streams[0].percentiles[1].estimate_s)
        for one in found.losses
        if one.service is not None
    ]
    assert [one.percentiles[1].percentile for one in found.losses[0].service.streams] == [90.0]  # type: ignore[union-attr]
    assert late == sorted(late, reverse=True)
    assert found.worst is found.losses[0]
    rows = {one.lost: one.answer for one in (found.intact, *found.losses)}
    assert found.answer == (
        "misses"
        if "misses" in rows.values()
        else "undecided"
        if "undecided" in rows.values()
        else "meets"
    )
    # What all of them meet is survived; what none can is infeasible.
    assert survive(on(model, *devices), coming(model, 10.0, 4000, 1.0), platform=platform).require()


def test_of_several_models_each_has_what_is_left(model: str, folder: Path, tmp_path: Path) -> None:
    platform = fleet(folder, {"t4": 1, "l4": 1})
    other = model_at(tmp_path, "batch", 128)
    slo = hetsim.Slo(0.9, 1.0)
    streams = (
        hetsim.Stream("a", model, Poisson(2000.0), slos=(slo,)),
        hetsim.Stream("b", other, Closed(2, 1e-4)),
    )
    workload = hetsim.Workload(streams, requests=600)
    one = Served(model, "single", instances=(Instances(1, ("t4.0",)), Instances(1, ("l4.0",))))
    two = Served(other, "single:l4.0")
    found = survive(hetsim.Deployment((one, two)), workload, platform=platform)
    rows = {loss.lost: loss for loss in found.losses}
    assert set(rows) == {("t4.0",), ("l4.0",)}
    assert rows["t4.0",].anew == ()
    assert rows["l4.0",].anew == (other,)
    assert [loss.service is None for loss in found.losses] == [False, False]
    # The one that has an instance elsewhere is served there alone, the other by a plan made anew.
    [left] = [loss.service for loss in found.losses if loss.lost == ("l4.0",)]
    assert left is not None
    assert [entry.devices for entry in left.resolved[0].served.instances] == [("t4.0",)]
    assert left.devices["l4.0"].busy_s == 0


def test_models_by_turns_and_autoscaled_ones(model: str, folder: Path) -> None:
    platform = fleet(folder, {"t4": 2})
    entries = tuple(Instances(1, (name,)) for name in ("t4.0", "t4.1"))
    turns = Served(model, "single", instances=entries, loading="on_demand")
    found = survive(hetsim.Deployment((turns,)), coming(model, 2000.0, 200, 1.0), platform=platform)
    assert [one.choices for one in found.losses] == [2]
    scaled = Served(model, "single", instances=entries, autoscaling=Autoscaling(1, 2))
    with pytest.raises(hetsim.errors.UsageError, match="autoscaled replicas"):
        survive(hetsim.Deployment((scaled,)), coming(model, 10.0), platform=platform)


def test_exit_codes_and_refusals(model: str, folder: Path) -> None:
    platform = fleet(folder, {"t4": 2})
    # Nothing may run elsewhere: missed, though another deployment would do.
    alone = survive(on(model, "t4.0"), coming(model, 10.0, 4000, 1.0), platform=platform)
    assert (alone.answer, alone.impossible) == ("misses", None)
    with pytest.raises(hetsim.errors.ObjectiveMissed) as missed:
        alone.require()
    assert "without t4.0" in str(missed.value)
    # All devices: the bound proves that no plan is so quick.
    tight = survive(on(model, "t4.0", "t4.1"), coming(model, 10.0, 400, 1e-7), platform=platform)
    assert tight.impossible is not None
    with pytest.raises(hetsim.Infeasible):
        tight.require()
    few = survive(on(model, "t4.0", "t4.1"), coming(model, 10.0, 40, 1.0), platform=platform)
    if few.answer == "undecided":
        with pytest.raises(hetsim.errors.Undecided):
            few.require()
    with pytest.raises(hetsim.errors.UsageError):
        survive(
            on(model, "t4.0"),
            replace(coming(model, 10.0), failures=hetsim.Failing(mtbf_s=1, mttr_s=1)),
            platform=platform,
        )
    plain = replace(coming(model, 10.0), streams=(hetsim.Stream("all", model, Poisson(3.0)),))
    with pytest.raises(hetsim.errors.UsageError):
        survive(on(model, "t4.0"), plain, platform=platform)


@pytest.fixture
def carries(model: str, folder: Path) -> Callable[..., hetsim.Capacity]:
    platform = fleet(folder, {"t4": 2, "l4": 1})
    times = np.cumsum(np.random.default_rng(8).exponential(1e-3, 40))
    workload = replayed(folder, model, times, hetsim.Slo(0.75, 5e-4))

    def call(*devices: str, losses: int = 0, limit: int | None = 1) -> hetsim.Capacity:
        entries = tuple(Instances(1, (name,), max_in_flight=limit) for name in devices)
        served = hetsim.Deployment((Served(model, "single", instances=entries),))
        return hetsim.capacity(served, workload, platform=platform, losses=losses)

    return call


def test_what_servers_alike_carry_without_any_is_exact(
    carries: Callable[..., hetsim.Capacity],
) -> None:
    pair = carries("t4.0", "t4.1", losses=1).best
    assert (pair.how, pair.one_span) == ("exact", None)
    assert pair.factor is not None
    assert pair.factor == carries("t4.1").best.factor
    assert [one.lost for one in pair.losses] == [("t4.0",), ()]
    assert pair.losses[1].sustained.factor == carries("t4.0", "t4.1").best.factor
    assert pair.ends.endswith("without t4.0")
    gone = carries("t4.0", losses=1)
    assert (gone.best.answer, gone.best.proved, gone.best.rates) == ("misses", True, ())
    with pytest.raises(hetsim.errors.ObjectiveMissed):
        gone.require()


@pytest.mark.sweep
def test_what_unlike_devices_carry_without_any_is_the_least(
    carries: Callable[..., hetsim.Capacity],
) -> None:
    three = carries("t4.0", "t4.1", "l4.0", losses=1, limit=None).best
    assert three.how == "scan"
    apart = [
        carries(*names, limit=None).best
        for names in (("t4.1", "l4.0"), ("t4.0", "t4.1"), ("t4.0", "t4.1", "l4.0"))
    ]
    assert three.highest_per_s == min(one.highest_per_s for one in apart)
    assert three.ceiling_per_s == min(one.ceiling_per_s for one in apart)
    assert three.rates[0].low_per_s >= max(one.rates[0].low_per_s for one in apart)
