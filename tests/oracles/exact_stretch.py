"""The least stretch of arrivals that is enough, by fractions and definitions; shares no code.

A request is late where some chain of tasks that leads to its end, begun when an earlier request or
itself came, takes too long: longer than the limit and the time between the two arrivals together.
Chains are found one by one source: the longest way through the graph whose nodes are tasks of
requests, where a task comes after those of its request that it waits for, and after the last
task that held what it holds. Several servers are played, by Kiefer and Wolfowitz, at every stretch
at which anything can change.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def longest_from(
    source: int,
    durations: Sequence[Sequence[Fraction]],
    waits: Sequence[Sequence[Sequence[int]]],
    held: Sequence[Sequence[Sequence[int]]],
) -> list[Fraction | None]:
    """What the longest chain from request `source` to each one's end takes; None: there is none."""
    last_of: dict[int, tuple[int, int]] = {}
    length: dict[tuple[int, int], Fraction] = {}
    found: list[Fraction | None] = []
    for request, own in enumerate(durations):
        best: Fraction | None = None
        for task, took in enumerate(own):
            before = [(request, other) for other in waits[request][task]]
            before += [last_of[one] for one in held[request][task] if one in last_of]
            ways = [length[node] for node in before if node in length]
            if request == source and not waits[request][task]:
                ways.append(Fraction(0))
            if ways:
                length[request, task] = max(ways) + took
                best = max(length[request, task], best or Fraction(0))
            for one in held[request][task]:
                last_of[one] = (request, task)
        found.append(best)
    return found


def least_stretch_of_chains(
    arrival: Sequence[Fraction],
    durations: Sequence[Sequence[Fraction]],
    waits: Sequence[Sequence[Sequence[int]]],
    held: Sequence[Sequence[Sequence[int]]],
    limit: Fraction,
    most_late: int,
) -> Fraction | None:
    """By request, task: durations, what of the same request it waits for, what it holds."""
    needed: list[Fraction | None] = [Fraction(0)] * len(arrival)
    for source in range(len(arrival)):
        for request, took in enumerate(longest_from(source, durations, waits, held)):
            least = needed[request]
            if took is None or took <= limit or least is None:
                continue
            gap = arrival[request] - arrival[source]
            needed[request] = max(least, (took - limit) / gap) if gap else None
    never = sum(one is None for one in needed)
    if never > most_late:
        return None
    finite = sorted((one for one in needed if one is not None), reverse=True)
    at = most_late - never
    return finite[at] if at < len(finite) else Fraction(0)


def least_stretch_of_pool(
    arrival: Sequence[Fraction],
    seconds: Fraction,
    servers: int,
    limit: Fraction,
    most_late: int,
) -> Fraction | None:
    """Of requests that each take `seconds` of the first of so many servers that is free."""

    def late(stretch: Fraction) -> int:
        free = [Fraction(-1)] * servers
        count = 0
        for came in arrival:
            free.sort()
            free[0] = max(came * stretch, free[0]) + seconds
            count += free[0] - came * stretch > limit
        return count

    # A wait ends with the service of one before: so many services after another one came.
    gaps = {b - a for a in arrival for b in arrival if b > a}
    tried = {Fraction(0)} | {
        (times * seconds - limit) / gap for times in range(1, len(arrival) + 1) for gap in gaps
    }
    if gaps:
        tried.add(len(arrival) * seconds / min(gaps))
    enough = [one for one in tried if one >= 0 and late(one) <= most_late]
    return min(enough, default=None)
