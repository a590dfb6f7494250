"""By how much given requests must be pulled apart for enough of them to be on time, exactly.

Requests that come at ``stretch * arrival`` are latest where the stretch is 0, and never later where
it is larger, if the system is monotone (see ``monotone``). Between, each latency is linear in
pieces: what a chain of tasks takes, less the time that passed since the request came that the chain
begins with. So the least stretch that is enough is where one of these lines meets the limit, and
it is found without tolerance: all times are whole numbers of one unit, as floats are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

Play = Callable[[Sequence[int], int], list[int]]
"""Takes when requests come, ascending, and a factor on durations; returns when each ends.

It adds durations to times and takes the larger or the smaller of times, nothing else."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of some of the requests.

    Attributes
    ----------
    which : sequence of int
        The requests, ascending.
    limit : int
        The latency above which one is late, in units.
    most_late : int
        How many may be.
    """

    which: Sequence[int]
    limit: int
    most_late: int


def unit_of(seconds: Iterable[float]) -> int:
    """Return the exponent of the unit, 2 ** -exponent seconds, of which all are whole numbers."""
    return max((one.as_integer_ratio()[1].bit_length() - 1 for one in seconds), default=0)


def units(seconds: Iterable[float], exponent: int) -> list[int]:
    """Return `seconds` in units of 2 ** -`exponent` seconds."""
    found = []
    for one in seconds:
        top, bottom = one.as_integer_ratio()
        found.append(top << (exponent - bottom.bit_length() + 1))
    return found


def least_stretch(play: Play, arrival: Sequence[int], wanted: Sequence[Wanted]) -> Fraction | None:
    """Return the least factor on times of arrival at which every objective is met.

    0 where they are met though all requests come at one moment; None where they are not met
    however far requests are from each other.

    Parameters
    ----------
    play : Play
        Of a monotone system.
    arrival : sequence of int
        Ascending, in units.
    wanted : sequence of Wanted

    Newton's method on the pieces (W. Dinkelbach, On nonlinear fractional programming, Management
    Science 13 (1967), https://doi.org/10.1287/mnsc.13.7.492), by halves where that leads nowhere,
    as it may where a request goes to the first of several that are free. It ends at a stretch
    that is enough while any smaller one is not. Both are looked at: beside its time each end
    carries which request it goes back to.

    Complexity: some ten times that of `play`, on numbers of some 200 bits.
    """
    begin = arrival[0] if arrival else 0
    looks = _Looks(play, [time - begin for time in arrival], wanted)
    low = looks.at(Fraction(0))
    if low.enough:
        return Fraction(0)
    # A request that comes a unit after another then finds nothing of it, nor of any before.
    high = looks.at(Fraction(max(low.makespan, 1)))
    if not high.enough:
        return None
    found = low
    while True:
        following = found.crossing
        if following is None or not low.stretch < following < high.stretch:
            following = (low.stretch + high.stretch) / 2
        found = looks.at(following)
        if found.enough and not found.enough_below:
            return found.stretch
        if found.enough:
            high = found
        else:
            low = found


@dataclass(frozen=True, slots=True)
class _Look:
    """What happens at one stretch, and just below it.

    `crossing`: where so many are late as may be, were every latency the line that it is here.
    """

    stretch: Fraction
    makespan: int
    enough: bool
    enough_below: bool
    crossing: Fraction | None


class _Looks:
    """Requests as they are played at one stretch after another."""

    def __init__(self, play: Play, arrival: list[int], wanted: Sequence[Wanted]) -> None:
        self._play, self._arrival, self._wanted = play, arrival, wanted
        self._last = arrival[-1] if arrival else 0
        self._bits = self._last.bit_length() + 1

    def at(self, stretch: Fraction) -> _Look:
        """Play at a stretch.

        A time is followed, in its lower bits, by how long before the last request the one came
        that it goes back to: just below the stretch that makes the larger time.
        """
        top, bottom = stretch.as_integer_ratio()
        bits, last, arrival = self._bits, self._last, self._arrival
        ends = self._play([(time * top << bits) + last - time for time in arrival], bottom << bits)
        mask = (1 << bits) - 1
        enough = below = True
        crossing: Fraction | None = Fraction(0)
        for one in self._wanted:
            limit = one.limit * bottom
            late = late_below = 0
            # Late whatever the stretch; and lines: seconds beyond the limit, gap between arrivals.
            never = 0
            lines = []
            for request in one.which:
                end, came = ends[request], arrival[request]
                over = (end >> bits) - came * top - limit
                gap = came - last + (end & mask)
                if over > 0 or (over == 0 and gap):
                    late_below += 1
                    late += over > 0
                if gap:
                    beyond = (over + gap * top) // bottom
                    if beyond > 0:
                        lines.append((beyond, gap))
                elif over > 0:
                    never += 1
            enough &= late <= one.most_late
            below &= late_below <= one.most_late
            if crossing is not None:
                here = _place(lines, one.most_late - never, 2 * bits + 1)
                crossing = None if here is None else max(crossing, here)
        return _Look(stretch, (max(ends, default=0) >> bits) // bottom, enough, below, crossing)


def _place(lines: list[tuple[int, int]], at: int, bits: int) -> Fraction | None:
    """Return the ratio with `at` larger ones, counted with multiplicity; None where `at` < 0."""
    if at < 0:
        return None
    if at >= len(lines):
        return Fraction(0)
    # Unlike ratios of denominators of half as many bits differ by more than a unit of these.
    keyed = heapq.nlargest(at + 1, ((top << bits) // gap for top, gap in lines))[-1]
    for top, gap in lines:
        if (top << bits) // gap == keyed:
            return Fraction(top, gap)
    raise AssertionError
