"""Rates that meet an objective where they are not all up to one, against a dense scan."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hetsim.provisioning.rates.exact_rate import RequestObjective, SamplePath, most_late, too_many
from hetsim.provisioning.rates.search import Span, spans
from hetsim.provisioning.rates.sustained_rate import _judged_spans
from hetsim.simulation.service.figures import latencies
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from hetsim.workload.workload import Slo
from oracles.random_layouts import Shape, layout_of
from sweeps import sweep

LOW, HIGH = 0.05, 20.0


def served(seed: int) -> tuple[Any, SamplePath, float]:
    """A batcher that waits, one that does not, or routing that looks; and a share on time."""
    rng = np.random.default_rng(seed)
    kind = seed % 3
    instances = 1 if kind == 0 else int(rng.integers(2, 4))
    largest = int(rng.choice([2, 4, 8])) if kind < 2 else 1
    each_s, more_s = rng.uniform(0.5, 1.5), rng.uniform(0.05, 0.5)
    slower = [1.0 if kind == 1 else float(rng.uniform(1, 3)) for _ in range(instances)]
    template = np.arange(instances * largest).reshape(1, instances, largest)
    model = ModelSetup(
        template,
        (1,) * instances,
        rng.choice(["shortest_queue", "least_finish"]),
        preferred=(largest // 2,) if largest > 2 and rng.random() < 0.5 else (),
        delay_s=float(rng.choice([0.0, 1.0, 2.0, 5.0], p=[0.1, 0.3, 0.3, 0.3]))
        if kind < 2
        else 0.0,
    )
    shapes = [Shape([k], [], [[]]) for k in range(instances) for _ in range(largest)]
    setup = SimpleNamespace(
        layout=layout_of(shapes, [1] * instances, 0),
        duration=np.array([by * (each_s + more_s * b) for by in slower for b in range(largest)]),
        models=(model,),
        sources=(RequestSource(0),),
        turns=None,
    )
    requests = int(rng.integers(40, 120))
    gaps = rng.exponential(1.0, requests) * rng.choice([0.1, 1.0, 3.0], requests)
    arrival_s = np.cumsum(gaps) / gaps.mean()
    none = np.zeros(requests, dtype=np.int64)
    return setup, SamplePath(arrival_s, none, none, ()), float(rng.choice([0.5, 0.8, 0.9, 0.95]))


def percentile_s(setup: Any, sample: SamplePath, share: float, factor: float) -> float:
    engine = Serving(setup.layout, setup.duration, setup.models, setup.sources)
    told = [engine.serve(sample.arrival_s / factor, sample.stream, sample.variant), engine.close()]
    at = len(sample) - most_late(Slo(share, 1.0), len(sample)) - 1
    return float(np.sort(latencies(Outcomes.joined(told)))[at])


def asked(seed: int) -> tuple[Any, SamplePath] | None:
    """A case with a limit that its percentile falls below again; None where it never falls."""
    setup, sample, share = served(seed)
    found = [percentile_s(setup, sample, share, at) for at in np.geomspace(LOW, HIGH, 24)]
    falls = [(a + b) / 2 for a, b in pairwise(found) if b < 0.98 * a]
    if not falls:
        return None
    slo = Slo(share, falls[seed % len(falls)])
    allowed = most_late(slo, len(sample))
    objective = RequestObjective(0, slo, np.arange(len(sample)), allowed)
    return setup, SamplePath(sample.arrival_s, sample.stream, sample.variant, (objective,))


@sweep("seed, dense", quick=[(12, 30)], full=[(12, 30), *((seed, 600) for seed in range(252))])
def test_the_set_found_is_that_of_a_dense_scan(seed: int, dense: int) -> None:
    # Of these 252, 111 meet it between two rates alone, or in several spans.
    given = asked(seed)
    if given is None:
        return
    setup, sample = given
    found = spans(partial(too_many, setup, sample, machine_code=True), LOW, HIGH, precision=1e-6)
    factors = np.geomspace(LOW, HIGH, dense)
    meets = np.array(
        [too_many(setup, sample, factor, machine_code=True) <= 0 for factor in factors]
    )
    inside = [any(one.low <= factor <= one.high for one in found) for factor in factors]
    assert (meets == inside).all()
    for one in found:
        assert too_many(setup, sample, one.low, machine_code=True) <= 0
        assert too_many(setup, sample, one.high, machine_code=True) <= 0
        assert one.below is None or one.below < one.low <= one.below * (1 + 1e-6)
        assert one.above is None or one.high < one.above <= one.high * (1 + 1e-6)


def test_a_change_of_sign_is_found_to_neighbouring_floats() -> None:
    limits = (0.3, 0.7, 2.5)

    def count(factor: float) -> int:
        return 1 if factor <= limits[0] or limits[1] < factor < limits[2] else 0

    assert spans(count, 0.1, 10.0, cells=8) == (
        Span(float(np.nextafter(0.3, 1)), 0.7, 0.3, float(np.nextafter(0.7, 1))),
        Span(2.5, 10.0, float(np.nextafter(2.5, 0)), None),
    )
    assert spans(lambda _: 1, 0.1, 10.0) == ()
    assert spans(lambda _: 0, 0.1, 10.0) == (Span(0.1, 10.0, None, None),)


@pytest.mark.parametrize("low", [0.5, 15.0])
def test_ends_of_spans_are_the_nearest_rates_that_miss(low: float) -> None:
    # A short sample saw a span where long runs tell nothing.
    seen: dict[float, Any] = {}

    def at(factor: float) -> Any:
        answer = "meets" if low < factor < 20 else "undecided" if 10 < factor < 29 else "misses"
        return seen.setdefault(factor, SimpleNamespace(answer=answer))

    judge: Any = SimpleNamespace(seen=seen, at=at)
    found = _judged_spans(judge, (Span(22.0, 24.0, 21.5, 26.0),), math.inf, 0.02, one=False)
    missing = sorted(factor for factor in seen if at(factor).answer == "misses")
    [span] = found
    assert low < span.low <= span.high < 20
    assert span.above == next(factor for factor in missing if factor > span.high)
    assert span.below == max((one for one in missing if one < span.low), default=None)
