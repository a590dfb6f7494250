"""Lower bounds on latency and on seconds per request, over all plans that obey the constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from hetsim.core import checks, deadline
from hetsim.core.options import checked_fields
from hetsim.partitioning.affinity import Affinity, Exclusion
from hetsim.placement.bounds.area import balanced, balanced_weights, crowded, within_memory
from hetsim.placement.bounds.cases import CLOSE, by_cases, highest
from hetsim.placement.bounds.chain import lifted, units_of
from hetsim.placement.bounds.paths import BoundInputs, Floats, heads, tails
from hetsim.placement.constraints import Constrained, narrowed, with_affinity
from hetsim.placement.objective import Objective, check_objective, memory_binds
from hetsim.problem.coarse import contracted
from hetsim.problem.columns import cached, made_by, transfer_costs
from hetsim.problem.groups import order_groups
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem, kinds_of

LARGE, CLOSE_OF_LARGE = 300, 0.01
"""Number of nodes above which limits are tried in coarser steps, and that relative step."""

CASES, FEWEST = 6_000, 30
"""Budget of cases x edges for each limit, and the fewest cases that are worth trying."""


SURE = 1e-9
"""Relative margin by which a sum must be smaller to be so despite rounding."""


def bound_of(
    problem: Problem, objective: Objective = "latency", met_s: float = float("inf")
) -> float:
    """Return a lower bound in seconds over all plans of `problem`; inf where none is feasible.

    0, which claims nothing, if ``problem.unpriced`` names nodes. The latency bound is the larger of
    the area bound and the critical path with the join rule (``paths.heads``, ``chain.lifted``),
    raised while limits are refuted: by a node without a device that ends it in time, by
    ``area.crowded``, or, for few edges, by ``cases.by_cases``. The throughput bound is the area
    bound alone, valid for replicas too. No limit at or above `met_s`, the latency of a known plan,
    is tried. If a deadline passes, the bound proven so far is returned.

    Complexity: O(log(1 / CLOSE) (E P^2 + P n log n)), about ten programs of ``area.relaxed`` per
    limit, and CASES of ``cases.by_cases``.
    """
    known, asked = _known(problem), (objective, met_s)
    if asked not in known:
        found = _of_feasible(problem, lambda fitting: _closely(fitting, objective, met_s))
        if deadline.is_set():
            return found
        known[asked] = found
    return known[asked]


@cached
def _known(_: Problem) -> dict[tuple[Objective, float], float]:
    """Cache of the bounds of a problem, by objective and `met_s`."""
    return {}


def quick_bound_of(problem: Problem, objective: Objective) -> float:
    """Return a bound of at most ``bound_of`` from one linear program, without bisection."""
    if objective == "latency":
        return _of_feasible(problem, lambda fit: max(area_bound(fit), critical_path_bound(fit)))
    return _of_feasible(problem, area_bound)


def _of_feasible(problem: Problem, bound: Callable[[Problem], float]) -> float:
    """Return `bound` of the problem restricted to what fits memory; inf if a node runs nowhere."""
    fitting = within_memory(problem) if problem.runnable.any(axis=1).all() else None
    if fitting is None or not fitting.runnable.any(axis=1).all():
        return float("inf")
    if problem.n == 0 or problem.unpriced:
        return 0.0
    left = fitting if memory_binds(problem) else with_free_fusions(fitting)
    return bound(left) * (1.0 - _rounding(problem))


def with_free_fusions(problem: Problem) -> Problem:
    """Return a problem of the same least latency and load, with pairs that fuse at no cost merged.

    A pair is a node and its only reader that every device which runs the first fuses, in no more
    time than the first takes alone, and whose output tensors are no larger than the one between. In
    a plan that separates them the reader can move to the first node's device: no device has more
    work, and consumers get their tensors no later, as no route through another device is shorter.
    Memory is ignored. O(V + E + P^3).
    """
    latency_s, per_byte_s = transfer_costs(problem)
    over_s = latency_s[:, :, None] + (latency_s + np.array(problem.dispatch_s)[:, None])
    over_per_byte_s = per_byte_s[:, :, None] + per_byte_s
    if (latency_s[:, None] > over_s).any() or (per_byte_s[:, None] > over_per_byte_s).any():
        return problem
    made = made_by(problem)
    given = {
        v for value in problem.values if value.producer == GRAPH_INPUT for v in value.consumers
    }
    kernels = Counter(v for kernel in problem.fused for v in kernel.nodes)
    free = Counter(
        kernel.nodes
        for kernel in problem.fused
        if len(kernel.nodes) == 2
        and kernel.seconds <= problem.seconds[kernel.nodes[0], kernel.device]
        and problem.runnable[list(kernel.nodes), kernel.device].all()
    )
    labels = list(range(problem.n))
    for (u, v), devices in free.items():
        if (
            kernels[u] == kernels[v] == devices == problem.runnable[u].sum()
            and problem.dag.preds[v] == (u,)
            and v not in given
            and problem.least_s.keys().isdisjoint((u, v))
            and [value.consumers for value in made[u]] == [(v,)]
            and not any(value.is_output for value in (*made[u], *made[v]))
            and all(value.nbytes <= made[u][0].nbytes for value in made[v])
        ):
            labels[v] = u
    # Coarse problems do not support composites that span several tasks.
    composites = any(len({labels[v] for v in kernel.nodes}) > 1 for kernel in problem.composites)
    parts = None if composites else order_groups(problem.dag, labels)
    if parts is None or len(parts) == problem.n:
        return problem
    return contracted(problem, tuple(parts)).problem


def _rounding(problem: Problem) -> float:
    terms = 4 * (problem.n + len(problem.values) + len(problem.devices))
    return terms * float(np.finfo(np.float64).eps)


def critical_path_bound(problem: Problem) -> float:
    """Return the length of the longest path in seconds, each node on its fastest device."""
    setting = BoundInputs.of(problem)
    through = heads(setting, setting.shares) + setting.shares + tails(setting, setting.shares)
    return float(through.min(axis=1).max(initial=0.0))


def area_bound(problem: Problem, *, along: bool = False) -> float:
    """Return the least seconds for the work on all streams; `along` as in ``balanced_weights``."""
    setting = BoundInputs.of(problem)
    weighed = balanced_weights(problem, setting, along=along)
    return max(balanced(setting.shares, setting.streams), weighed)


def path_bound_of(problem: Problem) -> float:
    """Return a lower bound in seconds along the longest path over all plans of `problem`."""
    if problem.n == 0 or problem.unpriced or not problem.runnable.any(axis=1).all():
        return 0.0
    _, _, _, found = _along(problem, closely=False)
    return found * (1.0 - _rounding(problem))


def _along(
    problem: Problem, met_s: float = float("inf"), *, closely: bool = True
) -> tuple[BoundInputs, Floats, Floats, float]:
    """Return the setting, its heads and tails, and the length of the longest path in seconds."""
    setting, found = lifted(BoundInputs.of(problem), units_of(problem), met_s, closely=closely)
    head, tail = heads(setting, setting.shares), tails(setting, setting.shares)
    through = head + setting.shares + tail
    return setting, head, tail, max(found, float(through.min(axis=1).max()))


def _closely(problem: Problem, objective: Objective, met_s: float) -> float:
    low = 0.0
    with suppress(deadline.OutOfTime):
        if objective == "throughput":
            return area_bound(problem)
        deadline.check()
        setting, head, tail, low = _along(problem, met_s)
        if memory_binds(problem) or not _fits(problem, low):
            low = max(low, area_bound(problem, along=True))
        most = CASES // max(len(setting.before.node), 1)
        if most >= FEWEST:
            low = highest(low, met_s, lambda limit_s: by_cases(setting, limit_s, most))
        close = CLOSE if problem.n <= LARGE else CLOSE_OF_LARGE
        low = highest(low, met_s, lambda limit: refuted(setting, head, tail, limit, most), close)
    return low


def _fits(problem: Problem, limit_s: float) -> bool:
    """Return whether every node on its fastest device takes less than `limit_s`, with a margin."""
    setting = BoundInputs.of(problem)
    work = np.zeros(len(setting.streams))
    np.add.at(work, setting.shares.argmin(axis=1), setting.shares.min(axis=1))
    return bool((work < limit_s * (1.0 - SURE) * np.array(setting.streams)).all())


def refuted(
    setting: BoundInputs, head: Floats, tail: Floats, limit_s: float, most: int = 0
) -> bool:
    """Return whether at most `most` cases prove that no plan takes at most `limit_s`."""
    shares = setting.shares
    slack = limit_s * (1.0 + 1e-12)
    while True:
        deadline.check()
        late = head + shares + tail > slack
        kept: Floats = np.where(late, np.inf, shares)
        if not np.isfinite(kept).any(axis=1).all():
            return True
        if np.array_equal(np.isfinite(kept), np.isfinite(shares)):
            break
        shares = kept
        head, tail = heads(setting, shares), tails(setting, shares)
    proven, prices = crowded(setting, head, tail, shares, slack)
    if proven or prices is None or most < FEWEST:
        return proven
    return by_cases(replace(setting, shares=shares), slack, most, prices)


MOST_CHOICES = 64
"""Maximum number of device subsets to bound for ``max_devices``; identical devices count once."""


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    objective=checks.text,
    affinity=checks.instance("hetsim.partitioning.affinity:Affinity"),
)
def lower_bound(
    problem: Problem,
    objective: Objective = "latency",
    *,
    affinity: Affinity | None = None,
    pins: Mapping[str, str] | None = None,
    exclude: Sequence[Exclusion] = (),
    max_devices: int | None = None,
    capacity_bytes: Mapping[str, int] | None = None,
) -> float:
    """Lower bound in seconds over all plans; inf where it is proven that none is feasible.

    0, which claims nothing, where ``problem.unpriced`` names nodes.

    For ``latency``: the end-to-end latency of every plan. For ``throughput``: the seconds per
    request at the most loaded device, whose inverse is the maximum rate. Both hold without
    contention, and so with it. ``lower_bound.bound_of`` describes the method.

    Parameters
    ----------
    problem : Problem
    objective : "latency" or "throughput"
    affinity, pins, exclude, max_devices, capacity_bytes
        Constraints as in ``plan``, see ``Constrained``: the bound then covers the plans that obey
        them. It is never below that of the same memory without the others.

    Raises
    ------
    UsageError
        For an unknown objective or device, or an option of the wrong kind.
    InvalidInput
        For a pin or an exclusion that names nothing.
    UnsupportedNode
        If the constraints leave a node without a device.

    Complexity: that of ``bound_of``, twice with pins or exclusions. With `max_devices` once more
    for each subset of that size that a quick bound does not rule out; with more than MOST_CHOICES
    subsets, `max_devices` is ignored.
    """
    given: dict[str, Any] = {
        "pins": {} if pins is None else pins,
        "exclude": exclude,
        "max_devices": max_devices,
        "capacity_bytes": {} if capacity_bytes is None else capacity_bytes,
    }
    if affinity is not None:
        given = with_affinity(given, affinity, problem)
    return bound_under(Constrained(**checked_fields(Constrained, given)), problem, objective)


def bound_under(
    limits: Constrained, problem: Problem, objective: Objective, met_s: float = float("inf")
) -> float:
    """Return ``lower_bound`` under the constraints of a record; `met_s` as in ``bound_of``."""
    check_objective(objective)
    limits.check()
    wide = Constrained(capacity_bytes=limits.capacity_bytes).narrow(problem)
    found = bound_of(wide, objective, met_s)
    left = wide
    if limits.pins or limits.exclude:
        left = limits.narrow(problem)
        found = max(found, bound_of(left, objective, met_s))
    if limits.max_devices is not None:
        found = max(found, _of_few(left, limits.max_devices, objective))
    return found


def stated_bound(
    problem: Problem,
    objective: Objective = "latency",
    limits: Constrained | None = None,
    met_s: float = float("inf"),
) -> float | None:
    """Return ``lower_bound``, or None where an unpriced node makes it undefined."""
    found = bound_under(limits or Constrained(), problem, objective, met_s)
    return None if problem.unpriced and np.isfinite(found) else found


def _of_few(problem: Problem, most: int, objective: Objective) -> float:
    """Return the least bound over all subsets of `most` devices; 0 if there are too many."""
    usable = np.flatnonzero(problem.runnable.any(axis=0)).tolist()
    if most >= len(usable) or not problem.runnable.any(axis=1).all():
        return 0.0
    choices = list(islice(_choices(kinds_of(problem, usable), most), MOST_CHOICES + 1))
    if len(choices) > MOST_CHOICES:
        return 0.0
    quick: list[tuple[float, int, Problem]] = []
    for index, devices in enumerate(choices):
        open_to = np.zeros((problem.n, len(problem.devices)), dtype=np.bool_)
        open_to[:, list(devices)] = True
        left = narrowed(problem, open_to)
        quick.append((quick_bound_of(left, objective), index, left))
    least = float("inf")
    for at_least_s, _, left in sorted(quick, key=lambda entry: entry[:2]):
        if at_least_s >= least:
            break
        least = min(least, max(at_least_s, bound_of(left, objective)))
    return least


def _choices(kinds: Sequence[Sequence[int]], most: int) -> Iterator[tuple[int, ...]]:
    """Yield every choice of `most` devices, taking the first ones of each kind."""
    if not kinds:
        if most == 0:
            yield ()
        return
    first, rest = kinds[0], kinds[1:]
    for count in range(min(most, len(first)), -1, -1):
        for others in _choices(rest, most - count):
            yield (*first[:count], *others)
