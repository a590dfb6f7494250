"""Evaluation of points in chunks, in any process: one row each, also for failures."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hetsim.analysis.explanation import limits_of
from hetsim.core.room import out_of_room
from hetsim.core.text import plain
from hetsim.errors import HetsimError, OutOfRoom
from hetsim.graph.loading import load_model
from hetsim.graph.model import Model
from hetsim.hardware.spec import Platform
from hetsim.hardware.what_if import what_if
from hetsim.placement.bounds.lower_bound import stated_bound
from hetsim.placement.objective import kept_s
from hetsim.placement.planning import plan
from hetsim.problem.problem import Problem
from hetsim.simulation.service.resolution import ModelOptions, PlanCache
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import serve
from hetsim.simulation.simulate import simulate
from hetsim.sweeping.grid import Grid, Point
from hetsim.sweeping.rows import BROKEN, Row, blank, finite
from hetsim.workload.deployment import Deployment, Served

T = TypeVar("T")

KEPT = 8
"""Maximum number of objects of each kind that a process keeps: neighbours share them."""

PERCENTILES = ((50.0, "p50_s"), (90.0, "p90_s"), (99.0, "p99_s"))


@dataclass(frozen=True, slots=True, eq=False)
class SharedSettings:
    """Settings of all points, the same in every process.

    `platforms` are in the order of the grid; `name` distinguishes sweeps in a process that serves
    several.
    """

    grid: Grid
    platforms: tuple[Platform, ...]
    name: str


_models: OrderedDict[Any, Model] = OrderedDict()
_problems: OrderedDict[Any, Problem] = OrderedDict()
_bounds: OrderedDict[Any, float | None] = OrderedDict()
_made: OrderedDict[Any, PlanCache] = OrderedDict()
"""Latest results of this process, by what they were made from."""


def _kept(kept: OrderedDict[Any, T], key: object, make: Callable[[], T], most: int = KEPT) -> T:
    """Return the value under `key`, made if it is missing; the oldest one is dropped."""
    if key not in kept:
        kept[key] = make()
        while len(kept) > most:
            kept.popitem(last=False)
    return kept[key]


def answer(shared: SharedSettings, places: Sequence[int]) -> tuple[list[Row], float]:
    """Return a row for each of the points with these indices, and the seconds they took.

    Every failure of a point is reported in its row, in one line.
    """
    began = time.perf_counter()
    rows = [_row(shared, shared.grid.point(index)) for index in places]
    return rows, time.perf_counter() - began


def broken(shared: SharedSettings, index: int, why: str) -> Row:
    """Return the row of a point whose process died."""
    row = blank(shared.grid, shared.grid.point(index))
    _refuse(row, why, BROKEN)
    return row


def _refuse(row: Row, why: str, kind: str) -> None:
    row["error"], row["kind"] = plain(" ".join(why.split())), kind


def _row(shared: SharedSettings, point: Point) -> Row:
    grid = shared.grid
    row = blank(grid, point)
    try:
        if grid.loads[point.load] is None:
            _plan_figures(shared, point, row)
        else:
            _load_figures(shared, point, row)
    except HetsimError as error:
        # Points that this machine had no memory for are evaluated again.
        kind = BROKEN if isinstance(error, OutOfRoom) else type(error).__name__
        _refuse(row, str(error), kind)
    except Exception as error:  # An error of one point must not end the others.
        short = out_of_room(error)
        _refuse(
            row, str(short) if short else f"internal error: {type(error).__name__}: {error}", BROKEN
        )
    return row


def _plan_figures(shared: SharedSettings, point: Point, row: Row) -> None:
    grid = shared.grid
    problem = _problem(shared, point)

    def bound_s() -> float | None:
        return stated_bound(problem, grid.objective)

    if grid.bound:
        row["lower_bound_s"] = finite(_kept(_bounds, _asked_of(shared, point), bound_s))
    objective = None if grid.objective == "latency" else grid.objective
    made = plan(problem, grid.strategies[point.strategy], objective=objective)
    timeline = simulate(made)
    row["latency_s"] = timeline.latency_s
    row["request_s"] = kept_s(made)
    row["energy_j"] = timeline.energy_j if any(problem.busy_w) else None
    row["peak_memory_bytes"] = max(timeline.peak_memory_bytes.values(), default=None)
    row["moved_bytes"] = timeline.transferred_bytes
    row["subgraphs"] = len(made.groups)
    row["devices"] = ",".join(made.devices_used)
    row["limited_by"] = next(iter(limits_of(made, timeline, grid.objective)), None)


def _load_figures(shared: SharedSettings, point: Point, row: Row) -> None:
    grid = shared.grid
    load, batching = grid.loads[point.load], grid.batchings[point.batching]
    assert load is not None
    model = grid.models[point.model]
    sizes: Mapping[str, Any] = {}
    if batching is not None:
        sizes = {"batch_sizes": batching.powers, "dynamic_batching": batching}
    served = Served(
        model.source,
        strategy=grid.strategies[point.strategy],
        **sizes,
    )
    asked = ModelOptions(
        execute=grid.precisions[point.precision],
        objective=None if grid.objective == "latency" else grid.objective,
    )
    # Keep only one: it has a model for each batch size, and neighbours of the grid are adjacent.
    made = _kept(_made, _asked_of(shared, point), PlanCache, most=1)
    service = serve(
        Deployment((served,)), load.of(model), _platform(shared, point), asked=asked, made=made
    )
    _told(service, row)


def _told(service: Service, row: Row) -> None:
    (stream,) = service.streams
    known = {one.percentile: one.estimate_s for one in stream.percentiles}
    for percentile, column in PERCENTILES:
        row[column] = finite(known.get(percentile))
    row["requests"] = service.requests
    row["state"] = service.state
    row["mean_s"] = finite(stream.mean_s)
    row["throughput_per_s"] = finite(stream.throughput_per_s)
    if stream.objectives:
        row["on_time"] = min(one.on_time for one in stream.objectives)
        answers = {one.verdict.answer for one in stream.objectives}
        order = ("misses", "undecided", "meets")
        row["verdict"] = next(answer for answer in order if answer in answers)
    uses = (*service.devices.values(), *service.links.values())
    row["utilization"] = max(use.utilization for use in uses)
    row["bottleneck"] = service.bottleneck
    row["energy_per_1000_j"] = service.energy_per_1000_j
    made = service.resolved[0].plans[0][0][0]
    row["subgraphs"], row["devices"] = len(made.groups), ",".join(made.devices_used)
    row["latency_s"] = service.resolved[0].seconds[0][0][0]


def _platform(shared: SharedSettings, point: Point) -> Platform:
    supposed = shared.grid.what_ifs[point.what_if]
    return what_if(shared.platforms[point.platform], *supposed.changes, without=supposed.without)


def _asked_of(shared: SharedSettings, point: Point) -> tuple[object, ...]:
    """Key of points that share problems; the sweep and the model first."""
    return (shared.name, point.model, point.platform, point.what_if, point.precision)


def _problem(shared: SharedSettings, point: Point) -> Problem:
    """Problem of a point."""
    key = _asked_of(shared, point)
    axis = shared.grid.models[point.model]

    def make() -> Problem:
        return Problem.of(
            _kept(_models, key[:2], lambda: load_model(axis.source, dims=dict(axis.dims))),
            _platform(shared, point),
            execute=shared.grid.precisions[point.precision],
        )

    return _kept(_problems, key, make)


LEAST_S = 0.05
"""Minimum seconds of work in a chunk: sending one costs a millisecond."""

AIM_S = 0.4
"""Target seconds of work in a chunk: what a kill loses, and what the last core waits for."""

MOST = 256
"""Maximum number of points of a chunk."""

ENDING = 8
"""Minimum number of chunks per core for the remaining points, so that cores end together."""

Chunk = tuple[int, ...]
Answer = tuple[list[Row], float]


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Progress of a sweep: points, including earlier runs; failed rows of this run.

    `left_s` is the estimated time left at the rate so far; None before the first result.
    """

    done: int
    total: int
    failed: int
    left_s: float | None


@dataclass(slots=True)
class RemainingPoints:
    """Remaining points, as work to distribute.

    `keep` takes rows as they come, `tell` takes the progress; `known` points need no answer.
    """

    shared: SharedSettings
    keys: Sequence[str]
    places: deque[int]
    keep: Callable[[Sequence[Row]], None]
    tell: Callable[[SweepProgress], None]
    known: int
    failed: int = 0
    done: int = 0
    seconds_a_point: float = 0.0
    again: deque[Chunk] = field(default_factory=deque)
    began_s: float = field(default_factory=time.monotonic)

    def take(self, cores: int) -> Chunk | None:
        """Return the next chunk: one point until the time per point is known."""
        if self.again:
            return self.again.popleft()
        size = min(self.size(cores), len(self.places))
        return tuple(self.places.popleft() for _ in range(size)) or None

    def size(self, cores: int) -> int:
        """Return the size of the next chunk: AIM_S of work, less at the end, LEAST_S at least."""
        if not self.seconds_a_point:
            return 1
        fair = len(self.places) // (ENDING * cores)
        least = int(LEAST_S / self.seconds_a_point) + 1
        wanted = int(AIM_S / self.seconds_a_point) + 1
        return max(1, min(max(min(wanted, fair), least), MOST))

    def give(self, chunk: Chunk, result: Answer) -> None:
        """Store the rows of a chunk."""
        rows, took_s = result
        own = took_s / len(chunk)
        # Later points are better estimates: the first of a process read and compile for the others.
        self.seconds_a_point = (
            0.7 * self.seconds_a_point + 0.3 * own if self.seconds_a_point else own
        )
        self._keep(chunk, rows)

    def lost(self, chunk: Chunk, why: str) -> None:
        """Retry the points of a chunk whose worker died one by one; a single point has failed."""
        if len(chunk) > 1:
            self.again.extend((place,) for place in chunk)
            return
        self._keep(chunk, [broken(self.shared, chunk[0], f"its process died: {why}")])

    def _keep(self, chunk: Chunk, rows: Sequence[Row]) -> None:
        for place, row in zip(chunk, rows, strict=True):
            row["key"] = self.keys[place]
        self.keep(rows)
        self.done += len(rows)
        self.failed += sum(row["error"] is not None for row in rows)
        total = len(self.keys)
        done = self.known + self.done
        left_s = (time.monotonic() - self.began_s) / self.done * (total - done)
        self.tell(SweepProgress(done, total, self.failed, left_s))
