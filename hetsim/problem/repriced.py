"""Variants of a problem: on another platform, or with devices that share one memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hetsim.device.support.quantized import fitted_in_int8, integer_node
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.work import graph_work
from hetsim.hardware.measurement import Measurement
from hetsim.hardware.spec import FLOATS, DeviceSpec, Platform
from hetsim.hardware.variants import INT8, at_bandwidth
from hetsim.problem.of_model import price
from hetsim.problem.problem import Problem


def repriced(
    problem: Problem, platform: Platform, execute: Mapping[str, str] | None = None
) -> Problem:
    """Return the problem of the same model on `platform`.

    Assumed precisions (except for those in `execute`), profiles, cost model, contention and the
    pessimistic setting are kept; profiles are read again. `platform` is one as it was read, or with
    hypothetical changes.

    Raises as ``Problem.of``.
    """
    assert problem.model is not None
    given = {device: share.profile.source for device, share in problem.profiles.items()}
    return Problem.of(
        problem.model,
        platform,
        cost=problem.cost,
        contention=problem.contention,
        profiles={name: path for name, path in given.items() if name in platform.devices},
        execute={
            **{name: how for name, how in problem.executed.items() if name in platform.devices},
            **(execute or {}),
        },
        pessimistic=problem.pessimistic,
        measured={
            n: each for n, each in caller_measurements(problem).items() if n in platform.devices
        },
    )


def caller_measurements(problem: Problem) -> dict[str, tuple[Measurement, ...]]:
    """Return the measurements by device that the caller passed, without those of device files."""
    found = {
        name: tuple(one for one in here.measurements if not one.in_device_file)
        for name, here in problem.measured.items()
    }
    return {name: each for name, each in found.items() if each}


SLOWEST = 20.0
"""Maximum slowdown of a memory, so that no device starves."""

_TIMES = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, SLOWEST)
"""Slowdowns of memory at which a problem is priced."""


@dataclass(frozen=True, slots=True)
class RepricedModel:
    """Model on a platform, repriced for devices with a share of their memory bandwidth.

    - `problem`: problem of a model on a platform.
    - `devices`: devices whose bandwidth is reduced.
    """

    problem: Problem
    devices: tuple[str, ...]
    _known: dict[float, Problem] = field(default_factory=dict, repr=False)

    def slower(
        self, device: int, groups: Sequence[tuple[Sequence[int], int]], times: float
    ) -> float:
        """Return the slowdown of a device for a given slowdown of its memory.

        `groups` are the nodes of its subgraphs, and how often each runs. Interpolates linearly
        between the priced slowdowns: kernel seconds are a norm of their parts, so convex, and never
        above the line. Uses the cost model only, as a profile does not separate memory time.
        O(nodes) once a point is priced, O((V + E) P) before.
        """
        times = min(max(times, 1.0), SLOWEST)
        high = bisect_left(_TIMES, times)
        alone_s = self._seconds(device, groups, 1.0)
        if alone_s <= 0.0 or high == 0:
            return 1.0
        low_x, high_x = _TIMES[high - 1], _TIMES[high]
        low_s, high_s = (self._seconds(device, groups, x) for x in (low_x, high_x))
        share = (times - low_x) / (high_x - low_x)
        return max(1.0, (low_s + (high_s - low_s) * share) / alone_s)

    def _seconds(
        self, device: int, groups: Sequence[tuple[Sequence[int], int]], times: float
    ) -> float:
        found = self._at(times)
        return sum(count * found.group_seconds(device, nodes) for nodes, count in groups)

    def _at(self, times: float) -> Problem:
        if times not in self._known:
            problem = self.problem
            assert problem.model is not None
            assert problem.platform is not None
            slow = at_bandwidth(problem.platform, self.devices, 1.0 / times)
            given = price(problem.model, slow, cost=problem.cost, contention=problem.contention)
            self._known[times] = Problem(**vars(given))
        return self._known[times]


def moved_bytes(problem: Problem, device: int, nodes: Sequence[int]) -> float:
    """Return the bytes that a device moves for a subgraph of `nodes`, kernel by kernel.

    Counts the inputs from and outputs to other kernels, and constants, in the types in which the
    device stores them; of constants only the accessed part, e.g. in a Gather, and no views. Caches
    are ignored, so this exceeds the memory traffic. O(values of the nodes).
    """
    assert problem.model is not None
    assert problem.platform is not None
    graph, spec = problem.model.graph, problem.platform.devices[problem.devices[device]]
    works = graph_work(graph)
    moved = 0.0
    for members, seconds in problem.kernels(device, nodes):
        if seconds == 0.0:
            continue
        inside = set(members)
        whole = fitted_in_int8(spec) or all(
            integer_node(spec, graph, graph.nodes[v]) for v in members
        )
        for index in sorted({index for v in members for index in problem.values_of[v]}):
            value = problem.values[index]
            leaves = value.is_output or not inside.issuperset(value.consumers)
            if value.producer not in inside or leaves:
                kind = graph.tensors[value.name].dtype
                moved += value.nbytes * _held(spec, kind, in_integers=whole)
        for v in members:
            work = works[v]
            floats = work.weight_bytes - work.integer_bytes
            moved += work.integer_bytes + floats * _held(spec, work.dtype, in_integers=whole)
    return moved


def _held(spec: DeviceSpec, kind: str, *, in_integers: bool) -> float:
    """Return the device's bytes per byte of an element type in the graph."""
    if kind not in FLOATS:
        return 1.0
    held = INT8 if in_integers else spec.execution_dtype.get(kind, kind)
    return ITEM_BITS[held] / ITEM_BITS[kind]
