"""Runs along an order: the least serial time of all, by machine code as by plain loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.placement.throughput import slices as chain_runs
from hetsim.placement.throughput.slices import Run, fastest_runs
from hetsim.problem.problem import Problem
from sweeps import examples

pytestmark = pytest.mark.group("machine_code")


def drawn(seed: int) -> Problem:
    """Times are multiples of 1/8: sums are exact, and often equal."""
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    seconds = rng.integers(0, 16, (n, count)) / 8
    seconds[:, 1:][rng.random((n, count - 1)) < 0.2] = np.inf
    tensors: list[Any] = []
    for u in range(-1, n):
        readers = [v for v in range(u + 1, n) if rng.random() < 0.4]
        if u >= 0 or readers:
            tensors.append((u, int(rng.integers(0, 17)), readers))
    return Problem.from_arrays(
        seconds,
        tensors=tensors,
        latency_s=rng.integers(0, 4, (count, count)) / 8,
        bytes_per_s=2.0 ** rng.integers(0, 4, (count, count)),
        dispatch_s=[float(d) for d in rng.integers(0, 4, count) / 8],
        host=int(rng.integers(count)) if rng.random() < 0.6 else None,
    )


def serial_s(problem: Problem, device: tuple[int, ...]) -> float:
    """From the definition: a value moves once a change of device between its maker and readers."""
    total = problem.dispatch_s[device[0]]
    for at in range(1, problem.n):
        if device[at] != device[at - 1]:
            total += problem.dispatch_s[device[at]]
    for v, p in enumerate(device):
        total += float(problem.seconds[v, p])
    for value in problem.values:
        made, host = value.producer, problem.host
        if made < 0:
            if host is not None and device[value.consumers[0]] != host:
                total += problem.routes[host][device[value.consumers[0]]].seconds(value.nbytes)
            continue
        for at in range(made + 1, max(value.consumers, default=made) + 1):
            if device[at] != device[at - 1]:
                total += problem.routes[device[at - 1]][device[at]].seconds(value.nbytes)
        if value.is_output and host is not None and device[made] != host:
            total += problem.routes[device[made]][host].seconds(value.nbytes)
    return total


@examples(quick=30, full=300)
@given(st.integers(0, 10**6))
def test_no_devices_take_less_along_the_order(seed: int) -> None:
    problem = drawn(seed)
    found: list[list[Run] | None] = []
    for machine_code in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chain_runs, "pays", lambda _, way=machine_code: way)
            found.append(fastest_runs(problem, range(problem.n)))
    runs = found[0]
    assert runs is not None
    assert found[1] == runs
    device = tuple(p for first, end, p in runs for _ in range(first, end))
    every = itertools.product(range(len(problem.devices)), repeat=problem.n)
    assert serial_s(problem, device) == min(serial_s(problem, one) for one in every)
