"""No plan is below the bounds, with constraints or without, and the bounds are not far below."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

import hetsim
from full_problems import every_plan, full_problems
from hetsim.errors import Infeasible, UnsupportedNode, UsageError
from hetsim.partitioning.affinity import Exclusion
from hetsim.placement.bounds.area import balanced, balanced_weights, crowded, prices, within_memory
from hetsim.placement.bounds.lower_bound import (
    area_bound,
    bound_of,
    critical_path_bound,
    lower_bound,
    path_bound_of,
    quick_bound_of,
)
from hetsim.placement.bounds.paths import BoundInputs, heads, tails
from hetsim.placement.constraints import Constrained, without_devices
from hetsim.placement.footprint import Footprint
from hetsim.placement.objective import measure
from hetsim.problem.parts import GRAPH_INPUT, StoredConstant
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.every_join import earliest
from oracles.every_plan import every_plan as every_order
from oracles.every_plan import tight_problem
from placement_instances import RANDOM20, case
from sweeps import examples, sweep


@examples(quick=15, full=120)
@given(full_problems())
def test_no_plan_there_is_goes_below_the_bounds(problem: Problem) -> None:
    latency, throughput = lower_bound(problem), lower_bound(problem, "throughput")
    assert max(critical_path_bound(problem), area_bound(problem)) * (1 - 1e-9) <= latency
    for plan in every_plan(problem):
        try:
            timeline = hetsim.simulate(plan)
        except Infeasible:
            continue
        assert latency <= timeline.latency_s
        assert throughput <= measure(plan, "throughput")


@examples(quick=10, full=60)
@given(full_problems(max_nodes=12, max_devices=3), st.randoms(use_true_random=False))
def test_random_plans_of_larger_problems_stay_above(problem: Problem, random: object) -> None:
    latency, throughput = lower_bound(problem), lower_bound(problem, "throughput")
    for _ in range(5):
        assignment = [
            random.choice(np.flatnonzero(row).tolist())  # type: ignore[attr-defined]
            for row in problem.supported
            if row.any()
        ]
        if len(assignment) < problem.n:
            return
        plan = Plan(problem, "any", hetsim.partition(problem, assignment=assignment).groups)
        assert latency <= hetsim.simulate(plan).latency_s
        assert throughput <= measure(plan, "throughput")


def test_proven_optima() -> None:
    instances = [case(name) for name in RANDOM20]
    bounds = [lower_bound(problem) for problem, _ in instances]
    assert all(bound <= optimum for bound, (_, optimum) in zip(bounds, instances, strict=True))
    ratios = [bound / optimum for bound, (_, optimum) in zip(bounds, instances, strict=True)]
    assert len(ratios) == 27
    assert np.mean(ratios) >= 0.97
    assert min(ratios) >= 0.85


def test_windows_see_what_neither_path_nor_area_sees() -> None:
    # Ten tasks of 1 s between a first and a last of 10 s that only one device runs fast.
    seconds = [[10.0, 100.0]] + [[1.0, 1.0]] * 10 + [[10.0, 100.0]]
    edges = [(0, v, 0) for v in range(1, 11)] + [(v, 11, 0) for v in range(1, 11)]
    problem = Problem.from_arrays(seconds, edges=edges)
    assert area_bound(problem) == pytest.approx(20.0, rel=0.3)
    assert critical_path_bound(problem) <= 22.0
    assert 24.9 <= lower_bound(problem) <= 25.0


def test_edges_of_the_definition() -> None:
    assert lower_bound(Problem.from_arrays(np.zeros((0, 2)))) == 0.0
    assert lower_bound(Problem.from_arrays(np.zeros((3, 2)))) == 0.0
    assert lower_bound(Problem.from_arrays([[np.inf, np.inf]])) == np.inf
    with pytest.raises(UsageError, match="did you mean 'latency'"):
        lower_bound(Problem.from_arrays([[1.0]]), "latencies")  # type: ignore[arg-type]


@st.composite
def constraints(draw: st.DrawFn, problem: Problem) -> Constrained:
    nodes, devices = st.sampled_from(problem.node_names), st.sampled_from(problem.devices)
    pins: dict[str, str] = {}
    exclude: list[Exclusion] = []
    if problem.n:
        for node in draw(st.lists(nodes, max_size=2, unique=True)):
            pins[node] = draw(devices)
        spared = draw(st.lists(nodes, max_size=2, unique=True))
        exclude += [Exclusion(draw(devices), nodes=(node,)) for node in spared]
    most = draw(st.none() | st.integers(1, 3))
    return Constrained(pins, tuple(exclude), most)


def obeys(plan: Plan, limits: Constrained) -> bool:
    problem = plan.problem
    on = {problem.node_names[v]: problem.devices[p] for v, p in enumerate(plan.assignment)}
    few = limits.max_devices is None or len(plan.devices_used) <= limits.max_devices
    return (
        few
        and all(on[node] == device for node, device in limits.pins.items())
        and not any(
            on[node] == wish.device and limits.pins.get(node) != wish.device
            for wish in limits.exclude
            for node in wish.nodes
        )
    )


@examples(quick=9, full=150)
@given(full_problems(max_devices=3, max_nodes=5))
def test_a_plan_that_is_known_changes_no_bound(problem: Problem) -> None:
    known = []
    for plan in every_plan(problem):
        with suppress(Infeasible):
            known.append(measure(plan, "latency"))
    bound_s = bound_of(problem)
    if known:
        assert bound_of(problem, met_s=min(known)) == pytest.approx(bound_s)
        assert bound_of(problem, met_s=max(known)) == pytest.approx(bound_s)
    assert path_bound_of(problem) <= bound_s


@examples(quick=10, full=50)
@given(st.data())
def test_no_plan_that_obeys_goes_below(data: st.DataObject) -> None:
    problem = data.draw(full_problems(max_devices=3, max_nodes=4))
    limits = data.draw(constraints(problem))
    for objective in ("latency", "throughput"):
        try:
            bound = lower_bound(problem, objective, **limits.given())
        except UnsupportedNode:
            bound = np.inf
        assert bound >= lower_bound(problem, objective)
        for plan in every_plan(problem):
            if not obeys(plan, limits):
                continue
            try:
                assert bound <= measure(plan, objective)
            except Infeasible:
                continue


@sweep("seed", quick=range(0, 40, 10), full=range(40))
def test_no_plan_that_fits_goes_below_the_bounds_with_memory(seed: int) -> None:
    problem = tight_problem(seed, most_nodes=4)
    latency, throughput = lower_bound(problem), lower_bound(problem, "throughput")
    ample = replace(problem, capacity_bytes=None)
    given = dict(zip(problem.devices, problem.capacity_bytes or (), strict=True))
    assert lower_bound(ample, capacity_bytes=given) == latency >= lower_bound(ample)
    assert throughput >= lower_bound(ample, "throughput")
    assert quick_bound_of(problem, "latency") <= latency
    for groups in every_order(problem):
        plan = Plan(problem, "any", groups)
        try:
            cost_s = measure(plan, "latency")
        except Infeasible:
            continue
        assert latency <= cost_s
        assert throughput <= measure(plan, "throughput")


def sharing(**more: object) -> Problem:
    """Four nodes side by side that take 1 s on the quick device and 4 s on the other."""
    return Problem.from_arrays(
        np.array([[4.0, 1.0]] * 4), devices=("cpu", "gpu"), weight_bytes=[10] * 4, **more
    )


def test_memory_divides_the_work() -> None:
    roomy = sharing(capacity_bytes=[100, 100])
    assert 16 / 5 <= lower_bound(roomy) <= 4.0
    # Two of the four fit the gpu: the cpu has the others, one after another.
    tight = sharing(capacity_bytes=[100, 20])
    assert lower_bound(tight) == pytest.approx(8.0)
    assert lower_bound(roomy, capacity_bytes={"gpu": 20}) == pytest.approx(8.0)
    assert lower_bound(tight, capacity_bytes={"gpu": 100}) == lower_bound(roomy)
    assert lower_bound(tight, "throughput") == pytest.approx(8.0)
    # Nothing fits the gpu, and then nothing fits anywhere.
    assert lower_bound(roomy, capacity_bytes={"gpu": 9}) == pytest.approx(16.0)
    assert lower_bound(roomy, capacity_bytes={"gpu": 9, "cpu": 39}) == np.inf
    assert lower_bound(roomy, capacity_bytes={"gpu": 9, "cpu": 9}) == np.inf


def test_pins_exclusions_and_numbers_of_devices_are_felt() -> None:
    problem = sharing()
    names = problem.node_names
    assert lower_bound(problem, pins={names[0]: "cpu", names[1]: "cpu"}) == pytest.approx(8.0)
    assert lower_bound(problem, exclude=[Exclusion("gpu", nodes=names)]) == pytest.approx(16.0)
    assert lower_bound(problem, max_devices=1) == pytest.approx(4.0)
    assert lower_bound(problem, max_devices=2) == lower_bound(problem)
    both = lower_bound(problem, max_devices=1, pins={names[0]: "cpu"})
    assert both == pytest.approx(16.0)
    apart = {names[0]: "cpu", names[1]: "gpu"}
    assert lower_bound(problem, max_devices=1, pins=apart) == np.inf


def test_alike_devices_are_weighed_once() -> None:
    count = 5
    rng = np.random.default_rng(0)
    own = rng.integers(1, 9, size=(6, 1)).astype(float)
    seconds = np.hstack([own * 3, np.repeat(own, count - 1, axis=1)])
    edges = [(0, 3, 4), (1, 3, 4), (2, 4, 4), (3, 5, 4)]
    problem = Problem.from_arrays(seconds, edges, latency_s=0.5, bytes_per_s=8.0, host=0)
    for most in (1, 2, 3):
        # Of all choices the least: without a look at which of them are the same.
        least = min(
            bound_of(without_devices(problem, tuple(set(range(count)) - set(chosen))))
            for chosen in combinations(range(count), most)
        )
        assert lower_bound(problem, max_devices=most) == max(least, lower_bound(problem))


def test_compare_and_explain_state_the_bound_of_what_is_asked() -> None:
    problem = Problem.from_arrays(
        np.array([[4.0, 1.0, 2.0]] * 6), devices=("cpu", "gpu", "npu"), host=0
    )
    asked = {"max_devices": 1, "pins": {"n0": "npu"}}
    found = hetsim.compare(problem, ["heft"], **asked)
    assert found.bound_s == lower_bound(problem, **asked) > lower_bound(problem)
    assert all(row.gap is None or row.gap >= 0 for row in found.rows)
    plan = found.rows[0].plan
    assert plan is not None
    assert hetsim.explain(plan).bound_s == found.bound_s


INF = float("inf")
seeds = st.integers(0, 2**32 - 1)


def travel(problem: Problem, source: int, target: int, nbytes: int) -> float:
    """Seconds between two devices that are not the same, staging included."""
    seconds = problem.routes[source][target].seconds(nbytes)
    if problem.staging is not None:
        seconds += problem.staging.store_s_per_byte[source] * nbytes
        seconds += problem.staging.fetch_s_per_byte[target] * nbytes
    return seconds


def from_or_to_the_host(problem: Problem, v: int, p: int, *, inward: bool) -> float:
    """Until the model's inputs of a node are on a device, or its outputs on the host."""
    host, longest = problem.host, 0.0
    if host is None:
        return 0.0
    for value in problem.values:
        if inward:
            ours = value.producer == GRAPH_INPUT and v in value.consumers
        else:
            ours = value.producer == v and value.is_output
        if not ours:
            continue
        route = problem.routes[host][p] if inward else problem.routes[p][host]
        seconds = 0.0 if p == host else route.seconds(value.nbytes)
        if problem.staging is not None and problem.staging.ends:
            rates = problem.staging
            rate = rates.fetch_s_per_byte[p] if inward else rates.store_s_per_byte[p]
            seconds += rate * value.nbytes
        longest = max(longest, seconds)
    return longest


def every_choice(problem: Problem, *, forward: bool) -> NDArray[np.float64]:
    """Heads, or tails, by every set of neighbours that may be on the device itself."""
    n, count = problem.n, len(problem.devices)
    near: list[dict[int, int]] = [{} for _ in range(n)]
    for value in problem.values:
        for reader in value.consumers if value.producer != GRAPH_INPUT else ():
            v, u = (reader, value.producer) if forward else (value.producer, reader)
            near[v][u] = max(near[v].get(u, 0), value.nbytes)
    least = np.array(
        [
            [
                from_or_to_the_host(problem, v, p, inward=forward)
                + (problem.dispatch_s[p] if forward else 0.0)
                for p in range(count)
            ]
            for v in range(n)
        ]
    )

    def enter(q: int, p: int, nbytes: int) -> float:
        if forward:
            return travel(problem, q, p, nbytes) + problem.dispatch_s[p]
        return travel(problem, p, q, nbytes) + problem.dispatch_s[q]

    order = range(n) if forward else range(n - 1, -1, -1)
    share = np.where(problem.runnable, problem.least_seconds, INF)
    return earliest(order, near, share, least, enter, problem.streams)


@examples(quick=25, full=300)
@given(full_problems(max_nodes=6, max_devices=3), st.lists(st.integers(0, 5), max_size=3))
def test_heads_and_tails_are_the_least_over_all_sets_on_the_device(
    problem: Problem, easier: list[int]
) -> None:
    problem = replace(
        problem,
        least_s={v: (0.125,) * len(problem.devices) for v in easier if v < problem.n},
    )
    setting = BoundInputs.of(problem)
    assert heads(setting, setting.shares) == pytest.approx(every_choice(problem, forward=True))
    assert tails(setting, setting.shares) == pytest.approx(every_choice(problem, forward=False))


def least_of_fractions(
    shares: NDArray[np.float64], rows: list[tuple[NDArray[np.float64], float, float]]
) -> float:
    """The least t for which fractional assignments keep each row: work at most room + slope t."""
    pairs = np.argwhere(np.isfinite(shares))
    work = np.array([[*(table[v, p] for v, p in pairs), -slope] for table, slope, _ in rows])
    once = np.zeros((len(shares), len(pairs) + 1))
    once[pairs[:, 0], np.arange(len(pairs))] = 1.0
    found = linprog(
        [*[0.0] * len(pairs), 1.0], A_ub=work, b_ub=[room for *_, room in rows], A_eq=once,
        b_eq=np.ones(len(shares)), bounds=[(0.0, None)] * len(pairs) + [(None, None)],
    )  # fmt: skip
    return float(found.fun) if found.status == 0 else INF


def column(table: NDArray[np.float64], device: int) -> NDArray[np.float64]:
    """The table with nothing of other devices than this one."""
    return np.where(np.arange(table.shape[1]) == device, table, 0.0)


def times(draw: np.random.Generator, n: int, count: int) -> NDArray[np.float64]:
    shares = draw.integers(0, 16, (n, count)) / 4
    shares[:, 1:][draw.random((n, count - 1)) < 0.2] = INF
    return shares


@examples(quick=20, full=300)
@given(seeds)
def test_a_limit_is_refuted_where_no_assignment_keeps_all_windows(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n, count = int(draw.integers(1, 8)), int(draw.integers(1, 4))
    shares = times(draw, n, count)
    streams = tuple(draw.integers(1, 3, count).tolist())
    head, tail = draw.integers(0, 8, (2, n, count)) / 4
    limit_s = float(np.where(np.isfinite(shares), head + shares + tail, 0.0).max() or 1.0)
    setting = replace(BoundInputs.of(Problem.from_arrays(np.ones((n, count)))), streams=streams)
    rows = [
        (
            np.where(((head[:, p] >= a) & (tail[:, p] >= b))[:, None], column(shares, p), 0.0),
            1.0,
            streams[p] * (limit_s - a - b),
        )
        for p in range(count)
        for a in {0.0, *head[:, p].tolist()}
        for b in {0.0, *tail[:, p].tolist()}
        if a + b < limit_s
    ]
    excess = least_of_fractions(shares, rows) / limit_s
    if abs(excess) > 1e-6:
        assert crowded(setting, head, tail, shares, limit_s)[0] == (excess > 0)


@examples(quick=15, full=200)
@given(seeds)
def test_the_area_bound_is_the_least_makespan_of_fractions(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n, count = int(draw.integers(1, 9)), int(draw.integers(1, 4))
    shares = times(draw, n, count)
    streams = tuple(draw.integers(1, 3, count).tolist())
    rows = [(column(shares, p), float(width), 0.0) for p, width in enumerate(streams)]
    assert balanced(shares, streams) == pytest.approx(least_of_fractions(shares, rows), rel=1e-6)
    price = prices(shares, streams)
    assert (price >= 0).all()
    if price.any():
        assert float(price @ np.array(streams)) == pytest.approx(1.0)
    shares[int(draw.integers(n))] = INF
    assert balanced(shares, streams) == INF
    assert not prices(shares, streams).any()


def weighed(seed: int) -> Problem:
    """Nodes whose weights, some of them shared, nearly fill the devices."""
    draw = np.random.default_rng(seed)
    n, count = int(draw.integers(1, 8)), int(draw.integers(1, 4))
    constants = []
    for k in range(int(draw.integers(1, 6))):
        readers = draw.choice(n, int(draw.integers(1, min(n, 3) + 1)), replace=False)
        constants.append(
            StoredConstant(f"w{k}", int(draw.integers(0, 9)), tuple(sorted(readers.tolist())))
        )
    total = sum(constant.nbytes for constant in constants)
    made = Problem.from_arrays(
        times(draw, n, count),
        [(u, u + 1, int(draw.integers(0, 3))) for u in range(n - 1)],
        streams=draw.integers(1, 3, count).tolist(),
        dispatch_s=0.5,
        host=0 if draw.random() < 0.5 else None,
    )
    capacity = [total + 8, *draw.integers(0, total + 4, count - 1).tolist()]
    return replace(made, constants=tuple(constants), capacity_bytes=tuple(capacity))


@examples(quick=15, full=200)
@given(seeds)
def test_weights_divide_the_work_as_fractions_do(seed: int) -> None:
    problem = weighed(seed)
    footprint, n, setting = Footprint.of(problem), problem.n, BoundInputs.of(problem)
    shares = setting.shares
    weight = np.zeros(n)
    for constant in problem.constants:
        weight[list(constant.consumers)] += constant.nbytes / len(constant.consumers)
    held = np.repeat(weight[:, None], len(problem.devices), axis=1)
    rows = [(column(shares, p), float(width), 0.0) for p, width in enumerate(problem.streams)]
    rows += [(column(held, p), 0.0, float(room)) for p, room in enumerate(footprint.capacity)]
    # The nodes are a chain: along it, the shares of all of them pass.
    chain = (shares, 1.0, 0.0)
    everything = sum(constant.nbytes for constant in problem.constants)
    everything += sum(value.nbytes for value in problem.values)
    if weight.any() and everything > min(footprint.capacity):
        for along, given in ((False, rows), (True, [*rows, chain])):
            least = least_of_fractions(shares, given)
            assert least < INF
            near = pytest.approx(least, rel=1e-6, abs=1e-9)
            assert balanced_weights(problem, setting, along=along) == near
    else:
        assert balanced_weights(problem, setting, along=True) == 0.0


@sweep("seed", quick=range(0, 60, 6), full=range(60))
def test_memory_closes_the_devices_that_cannot_hold_a_node(seed: int) -> None:
    problem = tight_problem(seed)
    footprint = Footprint.of(problem)
    capacity = footprint.capacity
    held = [sum(problem.constants[c].nbytes for c in own) for own in problem.constants_of]
    open_to = np.array(
        [
            [
                bool(problem.runnable[v, p]) and held[v] + footprint.beside[v][p] <= capacity[p]
                for p in range(len(problem.devices))
            ]
            for v in range(problem.n)
        ]
    )
    weights = sum(constant.nbytes for constant in problem.constants)
    there = sum(left for left, used in zip(capacity, open_to.any(axis=0), strict=True) if used)
    found = within_memory(problem)
    if weights > there:
        assert found is None
    else:
        assert found is not None
        assert found.runnable.tolist() == open_to.tolist()
    assert within_memory(replace(problem, capacity_bytes=None)) is not None
