"""Requests whose rate changes at random: busy times and quiet times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from hetsim.errors import InvalidInput
from hetsim.workload.arrivals.contract import Seconds
from hetsim.workload.arrivals.renewal import running_sums
from hetsim.workload.checks import check_rate, factor, positive, several
from hetsim.workload.numbers import Numbers

MAX_CHANGES = 10.0
"""Changes of state for each request; what changes more often is a Poisson process to look at."""


@dataclass(frozen=True, slots=True)
class Mmpp:
    """A Markov-modulated Poisson process; with two states the MMPP(2) of the literature.

    The states follow each other in a ring, each for an exponential time. It begins as it is
    after a long time: in a state by the part of the time that this lasts.

    Attributes
    ----------
    rates_per_s : tuple of float
        Requests a second, by state.
    sojourns_s : tuple of float
        Mean time in each state.

    Source: W. Fischer and K. Meier-Hellstern, The Markov-modulated Poisson process (MMPP)
    cookbook, Performance Evaluation 18 (1993), https://doi.org/10.1016/0166-5316(93)90035-S.
    """

    kind: ClassVar[str] = "mmpp"

    rates_per_s: tuple[float, ...]
    sojourns_s: tuple[float, ...]

    def __post_init__(self) -> None:
        several(self.rates_per_s, "rates_per_s", 2)
        several(self.sojourns_s, "sojourns_s", 2)
        for at, rate in enumerate(self.rates_per_s):
            check_rate(rate, f"rates_per_s[{at}]")
        for at, sojourn in enumerate(self.sojourns_s):
            positive(sojourn, f"sojourns_s[{at}]")
        if len(self.rates_per_s) != len(self.sojourns_s):
            raise InvalidInput(
                f"{len(self.rates_per_s)} rates, and {len(self.sojourns_s)} sojourns",
                hint="write one of each for every state",
            )
        object.__setattr__(self, "rates_per_s", tuple(map(float, self.rates_per_s)))
        object.__setattr__(self, "sojourns_s", tuple(map(float, self.sojourns_s)))
        rate = self.rate_per_s
        if rate and len(self.sojourns_s) / sum(self.sojourns_s) > MAX_CHANGES * rate:
            raise InvalidInput(
                f"its state changes over {MAX_CHANGES:g} times for each request",
                hint=f"that is as good as poisson of rate_per_s {rate:g}",
            )

    @property
    def rate_per_s(self) -> float:
        """Requests a second, on average over a long time."""
        pairs = zip(self.rates_per_s, self.sojourns_s, strict=True)
        return sum(rate * sojourn for rate, sojourn in pairs) / sum(self.sojourns_s)

    def faster(self, by: float) -> Mmpp:
        """Return the same arrivals in 1/`by` of the time: its changes of state, too."""
        by = factor(by)
        return replace(
            self,
            rates_per_s=tuple(rate * by for rate in self.rates_per_s),
            sojourns_s=tuple(sojourn / by for sojourn in self.sojourns_s),
        )

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the times of arrival in seconds.

        A Poisson process of rate 1 on the axis of how many requests are expected until then;
        what of it a state lasts for is put on the axis of time.
        """
        if not self.rate_per_s:
            return
        states = _States(self, numbers)
        generator = numbers.generator("gaps")
        for expected in running_sums(generator.standard_exponential):
            yield states.times_of(expected)


@dataclass(slots=True)
class _States:
    """The states as far as they were drawn: when each begins, by the clock and by requests."""

    process: Mmpp
    numbers: Numbers
    generator: np.random.Generator = field(init=False)
    first: int = field(init=False)
    drawn: int = 0
    begins_s: Seconds = field(init=False)
    begins_at: Seconds = field(init=False)
    rates: Seconds = field(init=False)

    def __post_init__(self) -> None:
        self.generator = self.numbers.generator("states")
        sojourns = np.asarray(self.process.sojourns_s)
        part = np.cumsum(sojourns) / sojourns.sum()
        drawn = int(np.searchsorted(part, self.generator.random(), side="right"))
        self.first = min(drawn, len(sojourns) - 1)
        self.begins_s = self.begins_at = np.zeros(1)
        self.rates = np.zeros(0)

    def times_of(self, expected: Seconds) -> Seconds:
        """Return when so many requests are expected to have come, `expected` ascending."""
        # States that are over before the first of these are not needed again.
        past = int(np.searchsorted(self.begins_at, expected[0], side="right")) - 1
        past = min(max(past, 0), len(self.rates))
        self.begins_s, self.begins_at = self.begins_s[past:], self.begins_at[past:]
        self.rates = self.rates[past:]
        while self.begins_at[-1] <= expected[-1]:
            self._draw()
        # A state without requests begins and ends at one place: the last that begins there.
        state = np.searchsorted(self.begins_at, expected, side="right") - 1
        times: Seconds = (
            self.begins_s[state] + (expected - self.begins_at[state]) / (self.rates[state])
        )
        # What is rounded must not let a request come before the one before it.
        return np.maximum.accumulate(times)

    def _draw(self) -> None:
        """Draw as many again as there are: what is copied then is linear in what is drawn."""
        states = len(self.process.rates_per_s)
        count = max(64, len(self.rates))
        state = (self.first + self.drawn + np.arange(count)) % states
        lasts_s = self.generator.standard_exponential(count)
        lasts_s *= np.asarray(self.process.sojourns_s)[state]
        rates = np.asarray(self.process.rates_per_s)[state]
        self.drawn += count
        self.begins_s = _continued(self.begins_s, lasts_s)
        self.begins_at = _continued(self.begins_at, lasts_s * rates)
        self.rates = np.concatenate([self.rates, rates])


def _continued(sums: Seconds, terms: Seconds) -> Seconds:
    return np.concatenate([sums[:-1], np.cumsum(np.concatenate([sums[-1:], terms]))])
