"""Constraints that every strategy takes, and problems narrowed by them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hetsim.core import deadline
from hetsim.core.options import checked_fields, read_fields
from hetsim.errors import Infeasible, InvalidInput, OutOfMemory, UsageError, all_refused
from hetsim.partitioning.affinity import Affinity, Exclusion, refuse_twice
from hetsim.partitioning.deconflict import deconflict
from hetsim.partitioning.regions import annotate, unsupported
from hetsim.placement.feasibility import fitted
from hetsim.placement.objective import Objective, judge
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

T = TypeVar("T")
R = TypeVar("R")


def without_devices(
    problem: Problem, devices: Sequence[int], why: str = "the device is left out"
) -> Problem:
    """Return the problem without compute on `devices`; their links and memory stay.

    Raises UnsupportedNode if no other device can run a node.
    """
    open_to = np.ones((problem.n, len(problem.devices)), dtype=np.bool_)
    open_to[:, list(devices)] = False
    refused = dict.fromkeys(range(problem.n), why)
    known = problem.refusals or tuple({} for _ in problem.devices)
    left = replace(
        narrowed(problem, open_to),
        refusals=tuple(refused if p in devices else own for p, own in enumerate(known)),
    )
    orphans = np.flatnonzero(~left.runnable.any(axis=1)).tolist()
    if orphans:
        names = ", ".join(f"'{problem.devices[p]}'" for p in devices)
        what = f"no remaining device can run it without {names}"
        raise unsupported(problem, what, orphans, devices, hint="add a device that supports it")
    return left


def only_devices(problem: Problem, names: Sequence[str]) -> Problem:
    """Return the problem with compute only on the named devices, or on all if none is named."""
    if not names:
        return problem
    kept = {problem.device_index(name) for name in names}
    return without_devices(problem, tuple(sorted(set(range(len(problem.devices))) - kept)))


def with_less(problem: Problem, device: int, nbytes: int) -> Problem:
    """Return the problem with `nbytes` less memory on a device, which is closed if none remains."""
    assert problem.capacity_bytes is not None
    held = list(problem.capacity_bytes)
    held[device] = max(held[device] - nbytes, 0)
    left = replace(problem, capacity_bytes=tuple(held))
    return left if held[device] else without_devices(left, (device,))


ATTEMPTS = 8
"""Maximum number of further plans if activations do not fit."""


def with_less_until(
    problem: Problem, make: Callable[[Problem], T], judge: Callable[[T], R]
) -> tuple[T, R]:
    """Return a plan from `make` whose live activations fit, and the result of `judge` for it.

    If `judge` raises OutOfMemory, the next problem has less memory on that device, by the excess,
    then by twice as much, and so on. Raises the last OutOfMemory if no plan fits.
    """
    left, made = problem, make(problem)
    for attempt in range(ATTEMPTS + 1):
        try:
            return made, judge(made)
        except OutOfMemory as error:
            if error.device is None or attempt == ATTEMPTS:
                raise
            deadline.check()
            try:
                left = with_less(left, left.device_index(error.device), error.over_bytes << attempt)
                made = make(left)
            except Infeasible:
                raise error from None
    raise AssertionError("the last attempt neither returned nor raised")


def narrowed(problem: Problem, open_to: NDArray[np.bool_]) -> Problem:
    """Return the problem with only the allowed devices per node; kernels stay whole."""
    opens = open_to.T.tolist()
    return replace(
        problem,
        seconds=np.where(open_to, problem.seconds, np.inf),
        fused=tuple(k for k in problem.fused if all(map(opens[k.device].__getitem__, k.nodes))),
    )


def check_runnable(problem: Problem) -> None:
    """Raise UnsupportedNode with the devices' reasons if some node runs on no device."""
    if not problem.runnable.any(axis=1).all():
        deconflict(annotate(problem))


Solve = Callable[[Problem], Plan]

NAMES = ("pins", "exclude", "max_devices", "capacity_bytes")
"""Names of the constraint options."""


@dataclass(frozen=True, slots=True)
class Constrained:
    """Options that constrain plans.

    Attributes
    ----------
    pins : mapping of str to str
        Device by node; nodes go by their name in the graph or in the user's file.
    exclude : tuple of Exclusion
        Nodes that a device shall not have; one without a device spares the host alone, or
        the first device where there is no host.
    max_devices : int, optional
        How many devices may run something.
    capacity_bytes : mapping of str to int
        Memory by device, in place of the problem's.
    """

    pins: Mapping[str, str] = field(default_factory=dict)
    exclude: tuple[Exclusion, ...] = ()
    max_devices: int | None = None
    capacity_bytes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, made: Plan) -> Constrained:
        """Return the constraints among a plan's options. Raises UsageError for invalid ones."""
        texts = {key: text for key, text in made.options.items() if key in NAMES}
        if not texts:
            return Constrained()
        return Constrained(**read_fields(Constrained, texts))

    def given(self) -> dict[str, Any]:
        """Return the constraints that are set, by name."""
        return {name: value for name in NAMES if (value := getattr(self, name))}

    def solve(self, problem: Problem) -> Plan:
        """Return the plan under the constraints; see ``within`` for the errors."""
        return self.within(problem, self._solve)

    def check(self) -> None:
        """Raise UsageError if no plan can satisfy the options, e.g. a device limit below 1."""
        if self.max_devices is not None and self.max_devices < 1:
            raise UsageError(f"max_devices is {self.max_devices}", hint="use 1 or more")

    def within(self, problem: Problem, solve: Solve) -> Plan:
        """Return the plan of `solve` under the constraints, changed to fit memory.

        While the plan uses too many devices, the device whose removal costs least is closed; this
        takes at most P^2 / 2 plans.

        Raises UsageError for a device limit or bytes below 1, or an unknown device; InvalidInput
        for a pin or an exclusion without a match; UnsupportedNode if a node has no device left;
        OutOfMemory if no plan close to that of `solve` fits.
        """
        self.check()

        def fitting(narrowed: Problem) -> Plan:
            return fitted(solve(narrowed), self.open_to(narrowed))

        if not self.given():
            return fitting(problem)
        return replace(self._few(self.narrow(problem), fitting), problem=problem)

    def _solve(self, problem: Problem) -> Plan:
        """Return the strategy's plan for a problem, ignoring constraints and memory."""
        raise NotImplementedError

    def open_to(self, problem: Problem) -> Problem:
        """Return the problem whose assignments may replace a plan that does not fit."""
        return problem

    def narrow(self, problem: Problem) -> Problem:
        """Return the problem with the constraints applied; node ids stay the same. O(n P)."""
        problem = _with_capacity(problem, self.capacity_bytes)
        if not (self.pins or self.exclude):
            return problem
        asked = Affinity(self.pins, tuple(self.exclude)).on(problem)
        default = 0 if problem.host is None else problem.host
        allowed = asked.restrict(annotate(problem), default)
        open_to = np.ones((problem.n, len(problem.devices)), dtype=np.bool_)
        for node, device in allowed.withdrawn:
            open_to[node, device] = False
        for node, device in asked.pins.items():
            open_to[node] = False
            open_to[node, device] = True
        left = narrowed(problem, open_to)
        for node in np.flatnonzero(~left.runnable.any(axis=1)).tolist():
            reasons = "; ".join(
                f"{name}: pinned elsewhere"
                if node in asked.pins and asked.pins[node] != p
                else allowed.reason(node, p)
                for p, name in enumerate(problem.devices)
            )
            what = f"pins and exclusions leave it no device: {reasons}"
            raise unsupported(problem, what, (node,), range(len(problem.devices)))
        return left

    def _few(self, problem: Problem, solve: Solve) -> Plan:
        plan = solve(problem)
        most = self.max_devices
        closed: list[str] = []
        given = problem
        objective: Objective = getattr(self, "objective", "latency")
        while most is not None and len(plan.devices_used) > most:
            tried: list[tuple[float, int, Problem, Plan]] = []
            refused: list[Infeasible] = []
            for name in plan.devices_used:
                device = problem.devices.index(name)
                try:
                    fewer = without_devices(problem, (device,))
                    made = solve(fewer)
                    tried.append((judge(made, objective), device, fewer, made))
                except Infeasible as error:
                    refused.append(error)
            if not tried:
                return _of_a_set(given, solve, most, objective, refused)
            _, device, problem, plan = min(tried, key=lambda entry: entry[:2])
            closed.append(problem.devices[device])
        if closed:
            names = ", ".join(closed)
            # The strategy's claim about its plan holds for the remaining devices only.
            plan = replace(plan, reason=f"{plan.reason}, with {names} closed one after another")
        return plan


_SETS = 1000
"""Maximum number of device subsets to examine."""

_SOLVED = 8
"""Maximum number of those subsets for which the strategy is run."""


def _of_a_set(
    problem: Problem, solve: Solve, most: int, objective: Objective, refused: list[Infeasible]
) -> Plan:
    """Return the best plan among subsets of `most` devices that can run every node."""
    devices = len(problem.devices)
    sets = itertools.islice(itertools.combinations(range(devices), most), _SETS)
    least = problem.shared_seconds
    able = [(float(least[:, one].min(axis=1).sum()), one) for one in map(list, sets)]
    found: list[tuple[float, list[int], Plan]] = []
    for _, kept in sorted(entry for entry in able if np.isfinite(entry[0]))[:_SOLVED]:
        closed = tuple(p for p in range(devices) if p not in kept)
        try:
            plan = solve(without_devices(problem, closed))
        except Infeasible as error:
            refused.append(error)
        else:
            found.append((judge(plan, objective), kept, plan))
    if not found:
        raise all_refused(
            f"no plan found with at most {most} devices: {refused[0]}",
            refused,
            where=problem.name,
            hint="allow more devices",
        )
    _, kept, plan = min(found, key=lambda entry: entry[:2])
    names = ", ".join(problem.devices[p] for p in kept)
    return replace(plan, reason=f"{plan.reason}, with only {names} open")


def with_affinity(
    options: Mapping[str, Any], affinity: Affinity, problem: Problem
) -> dict[str, Any]:
    """Return `options` with the pins and exclusions of an Affinity."""
    wished = affinity.constraints(problem)
    refuse_twice(checked_fields(Constrained, options), wished)
    return {**options, **wished}


def _with_capacity(problem: Problem, capacity_bytes: Mapping[str, int]) -> Problem:
    if not capacity_bytes:
        return problem
    if problem.capacity_bytes is None:
        missing = [name for name in problem.devices if name not in capacity_bytes]
        if missing:
            raise UsageError(
                f"{problem.name} has no memory capacities, and {missing[0]} is given none",
                hint="give capacity_bytes of every device",
            )
    held = list(problem.capacity_bytes or (0,) * len(problem.devices))
    for name, nbytes in capacity_bytes.items():
        if isinstance(nbytes, bool) or not isinstance(nbytes, int) or nbytes < 0:
            raise InvalidInput(f"{nbytes!r} bytes of memory", where=f"device '{name}'")
        device = problem.device_index(name)
        held[device] = problem.room_bytes(device, nbytes)
    return replace(problem, capacity_bytes=tuple(held))
