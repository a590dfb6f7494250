"""Links that a plan waits for."""

from __future__ import annotations

from collections.abc import Iterator

from hetsim.analysis.linting.change import Change
from hetsim.analysis.linting.seen import Seen, Suspect
from hetsim.problem.problem import Problem

KIND = "link"


def links(seen: Seen) -> Iterator[Suspect]:
    """Yield a suspect for each pair of devices that tensors move between in the plan.

    The changes double the bandwidth of the links of the route.
    """
    problem = seen.problem
    moved: dict[tuple[int, int], float] = {}
    for template, share in zip(seen.templates, seen.shares, strict=True):
        for one in template.transfers:
            ends = (min(one.source, one.target), max(one.source, one.target))
            moved[ends] = moved.get(ends, 0.0) + share * one.seconds
    for (p, q), seconds in sorted(moved.items(), key=lambda item: (-item[1], item[0])):
        changes = wider(problem, p, q)
        if seconds > 0 and changes:
            a, b = problem.devices[p], problem.devices[q]
            yield Suspect(
                KIND, f"{a} and {b}", f"tensors between {a} and {b}", (), seconds, changes
            )


def wider(problem: Problem, p: int, q: int) -> tuple[Change, ...]:
    """Return the change that doubles the bandwidth of the links between two devices, both ways."""
    names = _between(problem, p, q)
    if not names:
        return ()
    say = f"{', '.join(names)} twice as wide"
    if problem.platform is None:
        return (Change(say, wider=names),)
    return (Change(say, what_if=tuple(f"link {name}.bandwidth x2" for name in names)),)


def _between(problem: Problem, p: int, q: int) -> tuple[str, ...]:
    """The links of the routes between two devices, or without a platform what these hold."""
    ways = (problem.routes[p][q], problem.routes[q][p])
    if problem.platform is not None:
        return tuple(dict.fromkeys(name for way in ways for name in way.links))
    held = {at for way in ways for at in way.resources}
    return tuple(problem.link_names[at] for at in sorted(held))
