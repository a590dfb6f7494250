"""Queues whose answers are known, played with arrivals, queues, batches and closed loops."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from hetsim.confidence.batches import late_share
from hetsim.confidence.percentile import percentile_of
from hetsim.errors import UsageError
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.outcomes import Outcomes
from hetsim.simulation.serving.setup import Clients, Model, Source
from hetsim.simulation.serving.tables import FULL, SERVED
from oracles.random_layouts import Shape, layout_of
from queues import beyond, latency_at
from sweeps import sweep

Floats = NDArray[np.float64]
SURE = 0.9999


def engine(
    seconds: Floats, model: dict[str, Any] | None = None, **more: Any
) -> tuple[Serving, list[Model]]:
    """Servers of one device each; `seconds` of a batch by [variant, server, size - 1]."""
    shape = seconds.shape
    layout = layout_of(
        [
            Shape([server], [], [[]])
            for _ in range(shape[0])
            for server in range(shape[1])
            for _ in range(shape[2])
        ],
        [1] * shape[1],
        0,
    )
    table = np.arange(seconds.size).reshape(shape)
    models = [Model(table, (1,) * shape[1], **(model or {}))]
    sources = more.pop("sources", [Source(0)])
    return Serving(layout, seconds.reshape(-1), models, sources, **more), models


def played(
    seconds: Floats,
    arrival: Floats,
    model: dict[str, Any] | None = None,
    *,
    stream: NDArray[np.int64] | None = None,
    variant: NDArray[np.int64] | None = None,
    **more: Any,
) -> Outcomes:
    """Requests that come at these times, in two blocks."""
    serving, _ = engine(seconds, model, **more)
    none = np.zeros(len(arrival), dtype=np.int64)
    stream = none if stream is None else stream
    variant = none if variant is None else variant
    half = len(arrival) // 2
    told = [
        serving.serve(arrival[part], stream[part], variant[part])
        for part in (slice(half), slice(half, None))
    ]
    return Outcomes.joined([*told, serving.close()])


def poisson(rate: float, requests: int, seed: int) -> Floats:
    """Arrivals at a rate."""
    gaps = np.random.default_rng([seed, 1]).standard_exponential(requests)
    return np.cumsum(gaps / rate)


def exponential(servers: int, requests: int, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """Services of mean 1, a variant for each request, alike on every server."""
    drawn = np.random.default_rng([seed, 2]).standard_exponential(requests)
    return np.repeat(drawn, servers).reshape(requests, servers, 1), np.arange(requests)


def holds(values: Floats, expected: float, batches: int = 30) -> None:
    """The mean of `values` in order is `expected`, as sure as batch means are."""
    means = np.array([part.mean() for part in np.array_split(values, batches)])
    error = means.std(ddof=1) / math.sqrt(batches)
    reach = stats.t.ppf((1 + SURE) / 2, batches - 1) * error
    assert abs(values.mean() - expected) <= reach
    assert reach < 0.3 * expected


def shared(late: NDArray[np.bool_], fresh: NDArray[np.bool_], expected: float) -> None:
    """The share of `late` is `expected`, as sure as ``late_share`` is."""
    found = late_share(late, fresh)
    reach = stats.t.ppf((1 + SURE) / 2, found.freedom) * found.error
    assert abs(found.share - expected) <= reach
    assert reach < 0.3 * expected


def kiefer_wolfowitz(arrival: Floats, service: Floats, servers: int) -> Floats:
    """Waits by the workloads of the servers, ascending."""
    left = np.zeros(servers)
    waits = np.empty(len(arrival))
    before = 0.0
    for at, (came, takes) in enumerate(zip(arrival, service, strict=True)):
        left = np.maximum(left - (came - before), 0.0)
        waits[at] = left[0]
        left[0] += takes
        left.sort()
        before = came
    return waits


@pytest.mark.parametrize("servers", [1, 2, 5])
@pytest.mark.parametrize("kind", ["D", "M"])
def test_waits_are_those_of_the_same_path(servers: int, kind: str) -> None:
    requests = 3_000
    arrival = poisson(0.9 * servers, requests, servers)
    seconds, variant = exponential(servers, requests, servers)
    if kind == "D":
        seconds, variant = np.ones((1, servers, 1)), np.zeros(requests, dtype=np.int64)
    found = played(seconds, arrival, variant=variant)
    service = seconds[variant, 0, 0]
    expected = kiefer_wolfowitz(arrival, service, servers)
    np.testing.assert_allclose(found.queue_s, expected, rtol=0, atol=1e-9)
    assert (found.device_s == 0).all()
    assert (found.fresh == (expected < 1e-9)).mean() > 0.999


@pytest.mark.parametrize("load", [0.5, 0.8, 0.9])
def test_one_server_of_constant_times(load: float) -> None:
    found = played(np.ones((1, 1, 1)), poisson(load, 300_000, 7))
    holds(found.queue_s, load / (2 * (1 - load)))
    p99 = percentile_of(found.latency_s, found.fresh, 99.0, confidence=SURE)
    assert p99.low_s <= latency_at("M/D/1", load, 99.0) <= p99.high_s
    shared(found.latency_s > 3.0, found.fresh, beyond("M/D/1", load, 3.0))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_server_of_exponential_times(load: float) -> None:
    seconds, variant = exponential(1, 40_000, 19)
    found = played(seconds, poisson(load, 40_000, 19), variant=variant)
    holds(found.latency_s, 1 / (1 - load))
    shared(found.latency_s > 2.0, found.fresh, beyond("M/M/1", load, 2.0))


def erlang_b(offered: float, servers: int) -> float:
    """The share that finds all servers busy, where nobody waits."""
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
    return blocked


@pytest.mark.parametrize("offered", [1.0, 2.5, 5.0])
def test_erlang_b_where_nobody_waits(offered: float) -> None:
    servers = 4
    arrival = poisson(offered, 100_000, 9)
    found = played(np.ones((1, servers, 1)), arrival, {"max_queue_size": 0})
    holds((found.why == FULL).astype(float), erlang_b(offered, servers))
    assert (found.queue_s[found.why == SERVED] == 0).all()


@pytest.mark.parametrize("load", [0.5, 0.7, 0.85])
def test_erlang_c(load: float) -> None:
    servers, requests = 3, 30_000
    offered = load * servers
    blocked = erlang_b(offered, servers)
    waits = blocked / (1 - load * (1 - blocked))
    seconds, variant = exponential(servers, requests, 10)
    found = played(seconds, poisson(offered, requests, 10), variant=variant)
    holds((found.queue_s > 0).astype(float), waits)
    holds(found.queue_s, waits / (servers * (1 - load)))


@pytest.mark.parametrize("shares", [(0.2, 0.3), (0.4, 0.4), (0.1, 0.8)])
def test_priorities_by_cobham(shares: tuple[float, float]) -> None:
    """Cobham (1954): waits of a server that ends what it began."""
    requests = 300_000
    load = sum(shares)
    arrival = poisson(load, requests, 11)
    stream = np.random.default_rng(12).choice(2, requests, p=np.array(shares) / load)
    found = played(
        np.ones((1, 1, 1)),
        arrival,
        {"ranks": (0, 1)},
        stream=stream,
        sources=[Source(0, 0), Source(0, 1)],
    )
    left = load / 2
    holds(found.queue_s[stream == 0], left / (1 - shares[0]))
    holds(found.queue_s[stream == 1], left / ((1 - shares[0]) * (1 - load)))


def stationary(moves: Floats) -> Floats:
    """The distribution that a chain keeps."""
    states = len(moves)
    system = np.vstack([moves.T - np.eye(states), np.ones(states)])
    found: Floats = np.linalg.lstsq(system, np.append(np.zeros(states), 1.0), rcond=None)[0]
    return found


@pytest.mark.parametrize("rate", [0.5, 1.0, 1.6])
def test_batches_by_the_embedded_chain(rate: float) -> None:
    """What waits when a batch ends is a chain: arrivals during a batch are Poisson."""
    largest, states = 4, 160
    takes = 1.0 + 0.25 * np.arange(1, largest + 1)
    moves = np.zeros((states, states))
    for waiting in range(states):
        size = min(max(waiting, 1), largest)
        came = stats.poisson.pmf(np.arange(states), rate * takes[size - 1])
        left = max(waiting - size, 0)
        moves[waiting, left:] = came[: states - left]
        moves[waiting, -1] += 1 - moves[waiting].sum()
    sizes = np.zeros(largest + 1)
    for waiting, share in enumerate(stationary(moves)):
        sizes[min(max(waiting, 1), largest)] += share
    found = played(takes.reshape(1, 1, largest), poisson(rate, 200_000, 13))
    first = np.append(True, np.diff(found.sent_s) > 0)
    for size in range(1, largest + 1):
        holds((found.size[first] == size).astype(float), sizes[size])


def test_a_batch_server_saturates() -> None:
    takes = np.array([1.0, 1.5, 2.0, 2.5])
    found = played(takes.reshape(1, 1, 4), np.zeros(400))
    assert found.finish_s[-1] == 100 * 2.5
    assert (found.size == 4).all()


def repaired(machines: int, think_s: float, service_s: float) -> float:
    """Answers a second of one server of constant times to clients of exponential ones."""
    moves = np.zeros((machines, machines))
    joins = -math.expm1(-service_s / think_s)
    for waiting in range(machines):
        inside = max(waiting, 1)
        outside = machines - inside
        for came in range(outside + 1):
            moves[waiting, inside - 1 + came] += stats.binom.pmf(came, outside, joins)
    idle = stationary(moves)[0]
    return 1 / (service_s + idle * think_s / machines)


@pytest.mark.parametrize("machines", [1, 4, 12])
@pytest.mark.parametrize("machine_code", [True, False])
def test_machine_repair(machines: int, machine_code: bool) -> None:
    think_s, requests = 6.0, 60_000 if machine_code else 3_000

    def think(block: int) -> Floats:
        return np.random.default_rng([14, block]).exponential(think_s, (8, machines))

    serving, _ = engine(
        np.ones((1, 1, 1)),
        clients=[Clients(0, machines, think)],
        requests=requests,
        machine_code=machine_code,
    )
    found = serving.close()
    assert found.requests == requests
    gaps = np.diff(np.sort(found.finish_s))
    holds(gaps, 1 / repaired(machines, think_s, 1.0))
    assert (np.cumsum(np.ones(requests)) - np.searchsorted(np.sort(found.finish_s), found.arrival_s)
            <= machines).all()  # fmt: skip


def test_clients_stop_and_are_told_where_they_cannot() -> None:
    def think(block: int) -> Floats:
        return np.full((4, 2), 1.0)

    clients = [Clients(0, 2, think)]
    serving, _ = engine(np.ones((1, 1, 1)), clients=clients, until_s=10.0, machine_code=False)
    found = serving.close()
    assert found.arrival_s.max() < 10.0 <= found.finish_s.max() + 1.0
    with pytest.raises(UsageError, match="never end"):
        engine(np.ones((1, 1, 1)), clients=clients)
    eager = [Clients(0, 3, lambda block: np.zeros((4, 3)))]
    serving, _ = engine(
        np.ones((1, 1, 1)), {"max_queue_size": 1}, clients=eager, requests=9, machine_code=False
    )
    with pytest.raises(UsageError, match="comes again at once"):
        serving.close()


@sweep("seed", quick=range(3), full=range(40))
@pytest.mark.parametrize("machine_code", [True, False])
def test_little_on_every_window(seed: int, machine_code: bool) -> None:
    """Seconds inside a window, summed over requests, are those that the windows have."""
    rng = np.random.default_rng([seed, 16])
    arrival = poisson(2.0, 2_000, seed)
    seconds = rng.exponential(1.0, (1, 2, 3))
    serving, _ = engine(seconds, {"delay_s": 0.5, "timeout_s": 4.0}, machine_code=machine_code)
    told = serving.serve(arrival, np.zeros(len(arrival), dtype=np.int64))
    found = Outcomes.joined([told, serving.close()])
    kept = found.why == SERVED
    lengths = serving.lengths
    edges = lengths.begin_s + lengths.window_s * np.arange(len(lengths.inside_s) + 1)
    for begins, ends, counted in (
        (found.arrival_s[kept], found.sent_s[kept], lengths.waiting_s[:, 0]),
        (found.arrival_s[kept], found.finish_s[kept], lengths.inside_s[:, 0]),
    ):
        spent = [
            np.clip(np.minimum(ends, after) - np.maximum(begins, before), 0, None).sum()
            for before, after in pairwise(edges)
        ]
        if kept.all():
            np.testing.assert_allclose(counted, spent, rtol=1e-9, atol=1e-9)
        else:
            # Those that are rejected wait, too, until a batcher finds them.
            assert (counted >= np.array(spent) - 1e-9).all()
    total = lengths.at_length_s.sum()
    assert total == pytest.approx(serving.now_s - lengths.begin_s)
    assert (np.arange(1024) * lengths.at_length_s[0]).sum() == pytest.approx(
        lengths.waiting_s.sum()
    )


def test_time_scales_to_equal_bits() -> None:
    arrival = poisson(1.0, 2_000, 17)
    seconds = np.random.default_rng(18).exponential(1.0, (1, 2, 3))
    said = {"delay_s": 0.375, "timeout_s": 3.5, "preferred": (2,)}
    found = played(seconds, arrival, said, machine_code=False)
    said = {"delay_s": 1.5, "timeout_s": 14.0, "preferred": (2,)}
    scaled = played(4 * seconds, 4 * arrival, said, machine_code=False)
    assert (4 * found.latency_s).tobytes() == scaled.latency_s.tobytes()
    assert found.size.tolist() == scaled.size.tolist()
