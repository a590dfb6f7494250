"""Why no plan at all meets an objective, where that is proved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hetsim.core.units import format_seconds
from hetsim.errors import UnsupportedNode
from hetsim.placement.bounds.lower_bound import stated_bound
from hetsim.placement.planning import without
from hetsim.problem.problem import Problem
from hetsim.simulation.service.resolving import Made
from hetsim.workload.workload import Stream, Workload


def impossible_as(workload: Workload, made: Made, lost: Sequence[str] = ()) -> str | None:
    """Return why no plan without some devices meets an objective, at any rate.

    In any of the batch sizes and bindings that problems were made for. None where neither ops nor
    a bound prove it. Complexity: a bound for each problem.
    """
    for stream in workload.streams:
        if not stream.slos:
            continue
        able: list[Problem] = []
        unable: list[UnsupportedNode] = []
        for (model, _, _), problem in made.problems.items():
            if model != stream.model:
                continue
            try:
                able.append(without(problem, lost) if lost else problem)
            except UnsupportedNode as error:
                unable.append(error)
        if unable and not able:
            return f"{unable[0].where}: {unable[0].what}"
        why = too_slow(stream, able) if able else None
        if why is not None:
            return why
    return None


def too_slow(stream: Stream, problems: Iterable[Problem]) -> str | None:
    """Return why no plan meets an objective of a stream, by the bounds of its model's problems."""
    least_s = min(stated_bound(problem) or 0.0 for problem in problems)
    for slo in stream.slos:
        if least_s > slo.latency_s:
            least = format_seconds(least_s)
            return f"no plan of {stream.model} takes less than {least}, and {slo} is asked"
    return None
