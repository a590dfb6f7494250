"""Each exact solution by a second method that shares nothing with it, so that it can be trusted."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import special

from known_queues import STEP, TAKES
from oracles.queueing import closed_loop, one_server, priorities, several_servers
from oracles.queueing.batches import BatchServer, mean_wait_of_constant
from oracles.queueing.one_server import CONSTANT, TWO, Memoryless

pytestmark = pytest.mark.sweep  # They hold what other tests are held against, not hetsim.

LOADS = pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
LOADS_AND_SERVERS = pytest.mark.parametrize(
    ("load", "servers"), [*product([0.5, 0.8, 0.95], [1, 2, 3, 5])]
)


@LOADS
def test_m_g_1_by_renewal_by_transform_and_by_its_mean(load: float) -> None:
    times, late = one_server.late_by_renewal(load, TWO, 1 / 16, 30 / (1 - load))
    wait = one_server.waits(load, TWO)
    p99 = one_server.percentile(times, late, 99)
    by_transform = one_server.time_at(
        lambda t: one_server.late_by_transform(lambda s: wait(s) * TWO.transform(s), t),
        99,
        2 * p99,
    )
    assert p99 == pytest.approx(by_transform, rel=1e-3 if load < 0.6 else 1e-6)
    # Latencies jump at the two services, on the grid: each cell has the mean of its ends inside.
    inside = late[:-1] + late[1:]
    jumps = sum(share * (1 - load) / 2 for share in TWO.shares)
    assert times[1] * (inside.sum() / 2 + jumps) == pytest.approx(
        1 + one_server.mean_wait(load, TWO), rel=1e-3
    )


@LOADS
def test_m_d_1_by_renewal_by_erlangs_sum_and_by_franxs(load: float) -> None:
    times, late = one_server.late_by_renewal(load, CONSTANT, 1 / 64, 10 / (1 - load))
    inside = several_servers.constant_inside(load, 1)
    for at in (64, 100, 200, 640):
        exact = one_server.beyond_constant(load, float(times[at]))
        franx = 1 - several_servers.constant_waits(load, 1, float(times[at]) - 1, inside)
        assert late[at] == pytest.approx(exact, rel=1e-6)
        assert franx == pytest.approx(exact, rel=1e-6, abs=1e-12)


@LOADS
def test_exponential_services_in_cells_are_as_good_as_exponential(load: float) -> None:
    cells = one_server.exponential(STEP)
    assert cells.moment(1) == pytest.approx(1, rel=1e-9)
    assert cells.moment(2) == pytest.approx(2 - STEP**2 / 12, rel=1e-5)
    wait = one_server.waits(load, cells)
    p99 = math.log(100) / (1 - load)
    late = one_server.late_by_transform(lambda s: wait(s) * cells.transform(s), p99, 60)
    # What this is off by moves the percentile by this part of its time constant.
    assert abs(math.log(late / 0.01)) < 5e-4 * math.log(100)


@LOADS_AND_SERVERS
def test_erlang_by_recursion_by_balance_and_by_phases(load: float, servers: int) -> None:
    offered = load * servers
    powers = offered ** np.arange(servers + 1) / special.factorial(np.arange(servers + 1))
    blocked = powers[-1] / powers.sum()
    assert several_servers.erlang_b(offered, servers) == pytest.approx(blocked, rel=1e-12)
    deaths = np.minimum(np.arange(1, 601), servers).astype(float)
    inside = several_servers.births_and_deaths(np.full(600, offered), deaths)
    waits = several_servers.erlang_c(offered, servers)
    assert waits == pytest.approx(inside[servers:].sum(), rel=1e-9)
    for time in (0.5, 3.0):
        watched = several_servers.late_by_phases(offered, servers, time, 300)
        assert several_servers.late(offered, servers, time) == pytest.approx(watched, rel=1e-5)


@LOADS_AND_SERVERS
def test_m_d_c_by_its_chain_and_by_spitzers_sums(load: float, servers: int) -> None:
    offered = load * servers
    inside = several_servers.constant_inside(offered, servers)
    none = several_servers.constant_waits(offered, servers, 0.0, inside)
    assert none == pytest.approx(
        several_servers.constant_no_wait_by_sums(offered, servers), rel=1e-6
    )
    mean = several_servers.constant_mean_wait_by_sums(offered, servers)
    assert several_servers.constant_mean_wait(offered, servers) == pytest.approx(mean, rel=1e-6)
    if servers == 1:
        assert mean == pytest.approx(one_server.mean_wait(load, CONSTANT), rel=1e-9)
    step = mean / 25
    times = step * (np.arange(1_000) + 0.5)
    late = [1 - several_servers.constant_waits(offered, servers, time, inside) for time in times]
    assert step * sum(late) == pytest.approx(mean, rel=2e-3)


@pytest.mark.parametrize("clients", [1, 4, 12])
@pytest.mark.parametrize("think", [2.0, 6.0, 20.0])
def test_closed_loops_by_mean_values_and_by_balance(clients: int, think: float) -> None:
    rate, latency = closed_loop.mean_values(clients, think)
    assert (rate, latency) == pytest.approx(closed_loop.balanced(clients, think), rel=1e-9)
    step = 0.05
    late = step * sum(closed_loop.late(clients, think, step * (k + 0.5)) for k in range(1_000))
    assert late == pytest.approx(latency, rel=2e-3)
    if clients == 1:
        assert closed_loop.constant_rate(1, think) == pytest.approx(1 / (1 + think))


@LOADS
@pytest.mark.parametrize("level", [0, 1])
def test_cobham_by_the_slope_of_the_transform_and_where_one_level_is_all(
    load: float, level: int
) -> None:
    both = (Memoryless(), Memoryless())
    rates = (0.4 * load, 0.6 * load)
    step = 1e-6
    slope = ((1 - priorities.waits(rates, both, level)(step)) / step).real
    assert priorities.mean_waits(rates, both)[level] == pytest.approx(slope, rel=1e-3)
    alone = (load, 1e-12) if level == 0 else (1e-12, load)
    wait = priorities.waits(alone, both, level)
    p99 = math.log(100) / (1 - load)
    late = one_server.late_by_transform(lambda s: wait(s) / (1 + s), p99, 60)
    assert late == pytest.approx(0.01, rel=1e-6)


@LOADS
def test_batches_by_elimination_by_zeros_and_by_the_tail(load: float) -> None:
    rate = 4 * load
    constant = BatchServer(rate, (1.0,) * 4)
    by_zeros = mean_wait_of_constant(rate, 1.0, 4)
    assert constant.mean_wait() == pytest.approx(by_zeros, rel=1e-6)
    single = BatchServer(load, (1.0,))
    assert single.mean_wait() == pytest.approx(one_server.mean_wait(load, CONSTANT), rel=1e-6)
    assert single.late(2.3) == pytest.approx(one_server.beyond_constant(load, 2.3), rel=1e-6)
    assert single.utilization() == pytest.approx(load, rel=1e-6)
    if load == 0.5:
        truly = BatchServer(load * 4 / TAKES[-1], TAKES, 60)
        times = (np.arange(300) + 0.5) * 0.04
        late = sum(truly.late(t, 8) for t in times) * 0.04
        assert late == pytest.approx(truly.mean_latency(), rel=1e-3)
