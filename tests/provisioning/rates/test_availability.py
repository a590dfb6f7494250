"""How often objectives hold: against every subset of devices, closed forms, and the verb."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import hetsim
from deployments import replayed
from fleets import KINDS, fleet, random_served
from hetsim.provisioning.rates import losses as room
from hetsim.provisioning.rates.redundancy import availability, counts_down, probability_of_state
from hetsim.simulation.service.serving import serve
from hetsim.statistics.verdict import Answer
from hetsim.workload.deployment import Instances, Served
from oracles.all_subsets import Down, chance, subsets
from sweeps import sweep

ANSWERS: tuple[Answer, ...] = ("meets", "misses", "undecided")


Shares = tuple[tuple[Fraction, ...], ...]


def random_answers(seed: int) -> tuple[Shares, dict[tuple[int, ...], Answer]]:
    """Up to ten devices of up to four kinds, and any answer for each count of what is down."""
    rng = np.random.default_rng([seed, 5])
    sizes = rng.integers(1, 5, rng.integers(1, 5))
    while sizes.sum() > 10:
        sizes = sizes[:-1]
    shares = []
    for size in sizes.tolist():
        each = [Fraction(int(rng.integers(1, 1001)), 1000) for _ in range(size)]
        shares.append(tuple(each[:1] * size if rng.random() < 0.6 else each))
    table: dict[tuple[int, ...], Answer] = {}
    worth = rng.integers(1, 4, len(sizes))
    need = rng.integers(0, int(worth @ sizes) + 1)
    monotone = rng.random() < 0.5
    for counts in product(*(range(size + 1) for size in sizes.tolist())):
        enough = worth @ (sizes - np.array(counts)) >= need
        table[counts] = ("misses", "meets")[int(enough)] if monotone else ANSWERS[rng.integers(3)]
    return tuple(shares), table


@sweep("chunk", quick=[0], full=range(125))
def test_counts_are_all_subsets(chunk: int) -> None:
    for seed in range(8 * chunk, 8 * chunk + 8):
        check_counts(seed)


def check_counts(seed: int) -> None:
    shares, table = random_answers(seed)
    of_class = [k for k, each in enumerate(shares) for _ in each]
    flat = [share for each in shares for share in each]
    down = [counts_down(each) for each in shares]

    def answer(gone: Down) -> Answer:
        counts = [0] * len(shares)
        for k, one in zip(of_class, gone, strict=True):
            counts[k] += one
        return table[tuple(counts)]

    for wanted in ANSWERS:
        found = sum(
            probability_of_state(state, down) for state, one in table.items() if one == wanted
        )
        assert found == chance(flat, lambda gone, wanted=wanted: answer(gone) == wanted)  # type: ignore[misc]


def test_k_of_n_is_the_closed_form() -> None:
    for n, k, up in ((8, 6, Fraction(99, 100)), (200, 190, Fraction(97, 100))):
        down = counts_down((up,) * n)
        exact = sum(math.comb(n, i) * up**i * (1 - up) ** (n - i) for i in range(k, n + 1))
        assert sum(down[: n - k + 1]) == exact
    assert sum(counts_down([Fraction(k, 17) for k in range(1, 17)])) == 1


def traced(folder: Path, model: str, rate: float, slo: hetsim.Slo, seed: int) -> hetsim.Workload:
    times = np.cumsum(np.random.default_rng([seed, 6]).exponential(1 / rate, 80))
    return replayed(folder, model, times, slo, name=f"trace_{seed}")


@sweep("seed", quick=[1], full=range(30))
def test_of_real_deployments_it_is_all_subsets(seed: int, model: str, folder: Path) -> None:
    rng = np.random.default_rng([seed, 7])
    kinds = rng.permutation(list(KINDS))[: rng.integers(1, 4)]
    counts = {str(kind): int(rng.integers(1, 3)) for kind in kinds}
    platform = fleet(folder, counts)
    names = list(platform.devices)[1:]
    [served] = [random_served(rng, model, names)]
    deployment = hetsim.Deployment((replace(served, instances=tuple(
        replace(one, devices=one.devices[:1], strategy=None) for one in served.instances
    )),))  # fmt: skip
    [served] = deployment.models
    slo = hetsim.Slo(float(rng.choice([0.5, 0.9])), float(rng.choice([1e-3, 3e-4])))
    workload = traced(folder, model, float(rng.choice([2e3, 8e3])), slo, seed)
    given = {name: float(rng.choice([0.5, 0.9, 0.975])) for name in names}
    found = availability(deployment, workload, platform=platform, target=1.0, available=given)
    shares = [Fraction(repr(given[name])) for name in names]
    meets = Fraction(0)
    for down, of in subsets(shares):
        lost = {name for name, gone in zip(names, down, strict=True) if gone}
        entries = tuple(one for one in served.instances if not set(one.devices) & lost)
        if not entries:
            continue
        left = hetsim.Deployment((replace(served, instances=entries),))
        [objective] = serve(left, workload, platform).streams[0].objectives
        assert objective.verdict.answer != "undecided"
        meets += of * (objective.verdict.answer == "meets")
    assert (found.low, found.high) == (meets, meets)
    assert sum(one.chance for one in found.states) == 1
    assert {one.device for one in found.devices} <= set(names)


def test_what_is_planned_again_runs_where_something_is_up(model: str, folder: Path) -> None:
    platform = fleet(folder, {"t4": 1, "npu": 1})
    deployment = hetsim.Deployment((Served(model, "single"),))
    problem = hetsim.Problem.of(hetsim.load_model(model, dims={"batch": 1}), platform)
    alone = {
        name: hetsim.simulate(hetsim.plan(problem, f"single:{name}")).latency_s
        for name in platform.devices
    }
    given = {"cpu": 0.75, "t4.0": 0.5, "npu.0": 0.9}
    shares = [Fraction(repr(given[name])) for name in platform.devices]
    for limit_s in sorted(alone.values()):
        workload = traced(folder, model, 1.0, hetsim.Slo(0.5, limit_s * 1.0001), 99)
        found = availability(deployment, workload, platform=platform, target=1.0, available=given)
        quick = [name for name, took_s in alone.items() if took_s <= limit_s * 1.0001]
        # The quickest that is up runs it.
        truth = chance(
            shares,
            lambda down, quick=quick: any(  # type: ignore[misc]
                not gone and name in quick
                for name, gone in zip(platform.devices, down, strict=True)
            ),
        )
        assert found.low == truth


def test_what_is_not_known_is_asked_for(model: str, folder: Path, tmp_path: Path) -> None:
    platform = fleet(folder, {"t4": 2})
    entries = tuple(Instances(1, (name,)) for name in ("t4.0", "t4.1"))
    deployment = hetsim.Deployment((Served(model, "single", instances=entries),))
    workload = traced(folder, model, 10.0, hetsim.Slo(0.9, 1.0), 1)
    with pytest.raises(hetsim.errors.UsageError, match=r"given for t4\.0, t4\.1"):
        availability(deployment, workload, platform=platform, target=0.9)
    with pytest.raises(hetsim.errors.UsageError, match="'gpu', which the platform does not have"):
        availability(deployment, workload, platform=platform, target=0.9, available={"gpu": 0.5})
    with pytest.raises(hetsim.errors.UsageError):
        availability(deployment, workload, platform=platform, target=1.5, available={"t4": 0.5})
    failing = replace(workload, failures=hetsim.Failing(mtbf_s=9.0, mttr_s=1.0))
    found = availability(deployment, failing, platform=platform, target=0.99)
    assert (found.low, found.high, found.answer) == (Fraction(99, 100),) * 2 + ("meets",)
    assert {one.source for one in found.devices} == {"of its mean times to failure and repair"}
    assert found.require() is found
    # A device's own goes before its kind's, and what is asked before all.
    both = availability(
        deployment, failing, platform=platform, target=0.99, available={"t4": 0.5, "t4.1": 0.75}
    )
    assert both.low == 1 - Fraction(1, 2) * Fraction(1, 4)
    assert both.minutes_a_month == (43830 / 8, 43830 / 8)
    with pytest.raises(hetsim.errors.ObjectiveMissed):
        both.require()


def test_too_many_states_are_refused(
    model: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MOST", 8)
    platform = fleet(folder, {"t4": 2, "l4": 2})
    workload = traced(folder, model, 10.0, hetsim.Slo(0.9, 1.0), 1)
    entries = tuple(Instances(1, (name,)) for name in list(platform.devices)[1:])
    with pytest.raises(hetsim.errors.UsageError, match="more than 8 states"):
        availability(
            hetsim.Deployment((Served(model, "single", instances=entries),)),
            workload,
            platform=platform,
            target=0.9,
            available={"*": 0.9},
        )
