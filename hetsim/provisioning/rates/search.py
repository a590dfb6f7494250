"""Search for rates that meet an objective: by counts over a grid, by verdicts of long runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hetsim.core.progress import say
from hetsim.simulation.service.figures import judged
from hetsim.simulation.service.layout import EngineArguments
from hetsim.simulation.service.resolution import Resolved
from hetsim.simulation.service.run import ServiceRun, engine_of
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import service_of
from hetsim.simulation.serving.tables import SERVED
from hetsim.statistics.verdict import Answer, End, Verdict, confidence_of_look
from hetsim.workload.workload import Workload

CELLS = 192
"""Number of cells of the first grid, with equal ratios."""

FINEST = 2.0**-10
"""Ratio of the ends of a cell, minus 1, below which it is not refined."""


CHANGES = 2.0**-4
"""Such ratio for cells in which the count changes."""

MOST_FACTORS = 2**12
"""Maximum number of rates to examine before changes of sign are bisected. With few requests every
count is near the other sign, so all cells would be halved down to `finest`: 12,000 looks."""


@dataclass(frozen=True, slots=True)
class Span:
    """Factors from `low` to `high` that meet an objective, as far as examined.

    `below` and `above` are the nearest seen to miss it; None: none.
    """

    low: float
    high: float
    below: float | None
    above: float | None


def spans(
    too_many: Callable[[float], int],
    low: float,
    high: float,
    *,
    cells: int = CELLS,
    finest: float = FINEST,
    precision: float = 0.0,
) -> tuple[Span, ...]:
    """Return the spans of factors from `low` to `high` without too many late requests.

    `too_many` returns the excess of late requests at a factor. A grid of `cells` is examined first.
    Cells with a change of sign between their ends are halved down to `precision`, a ratio minus 1,
    0 being neighbouring floats. Cells without, whose count comes as near to the other sign as it
    varies between nearby cells, are halved down to `finest`, and further where the count changes,
    over at most MOST_FACTORS rates: narrower spans may be missed.

    Complexity: MOST_FACTORS calls, and some 50 for each change of sign, or log2 of 1 / `precision`.
    """
    seen: dict[float, int] = {}

    def look(factor: float) -> int:
        if factor not in seen:
            seen[factor] = too_many(factor)
        return seen[factor]

    ratio = math.log(high / low)
    for cell in range(cells):
        look(low * math.exp(ratio * cell / cells))
    look(high)
    _refine(seen, look, finest)
    while True:
        ends = sorted(seen)
        split = [
            (a, b)
            for a, b in pairwise(ends)
            if (seen[a] > 0) != (seen[b] > 0) and b - a > precision * a and a < _middle(a, b) < b
        ]
        if not split:
            return _told(seen)
        for a, b in split:
            look(_middle(a, b))


def _refine(seen: dict[float, int], look: Callable[[float], int], finest: float) -> None:
    """Halve the cells of one sign that may hide the other."""
    done: set[tuple[float, float]] = set()
    while True:
        ends = sorted(seen)
        counts = [seen[factor] for factor in ends]
        steps = [abs(b - a) for a, b in pairwise(counts)]
        open_ = []
        for at, (a, b) in enumerate(pairwise(ends)):
            # Where the count changes, several requests change at almost the same rate, and in
            # between there may be fewer.
            least = finest * CHANGES if steps[at] else finest
            if (a, b) in done or b - a <= least * a:
                continue
            done.add((a, b))
            moves = max(steps[max(at - 1, 0) : at + 2])
            nearest = min(abs(counts[at]), abs(counts[at + 1]))
            if (counts[at] > 0) != (counts[at + 1] > 0) or nearest <= moves + 1:
                open_.append((a, b))
        if not open_ or len(seen) + len(open_) > MOST_FACTORS:
            return
        for a, b in open_:
            look(_middle(a, b))


def _middle(a: float, b: float) -> float:
    middle = math.sqrt(a) * math.sqrt(b)
    return middle if a < middle < b else a + (b - a) / 2


def _told(seen: dict[float, int]) -> tuple[Span, ...]:
    found: list[Span] = []
    begun: float | None = None
    missed: float | None = None
    last = 0.0
    for factor in sorted(seen):
        if seen[factor] > 0:
            if begun is not None:
                found.append(Span(begun, last, missed, factor))
                begun = None
            missed = factor
        elif begun is None:
            begun = factor
        last = factor
    if begun is not None:
        found.append(Span(begun, last, missed, None))
    return tuple(found)


FIRST_STEP = 0.06
"""Distance of the first rates from the guess: a ratio minus 1, doubled if undecided."""

MOST_LOOKS = 14
"""Maximum number of rates to examine for one end."""

MOST_UNDECIDED = 5
"""Maximum number of undecided looks, after which the end stays open: each costs a full run."""

LEAST = 2.0**-10
"""Ratio to the guess below which no rate is examined."""


Edge = tuple[float | None, float | None]
"""Nearest factors on both sides of an end of a span shown to meet, and to miss; None: none. Those
in between are undecided."""


def upper_end(answer: Callable[[float], Answer], guess: float, missed: float, gap: float) -> Edge:
    """Return the end of the factors near `guess` that meet, towards higher ones.

    Examines both sides of the guess, further away while undecided; then bisects the widest
    remaining gap, also between two undecided looks, as runs near overload decide less than those
    further below. Ends when the factors that meet and miss are within a ratio of 1 + `gap`.
    `missed` is the least factor known to miss, or infinite.
    """
    looks = 0
    meets: float | None = None
    undecided: list[float] = []

    def halvings() -> float:
        """Return the approximate number of remaining looks."""
        known = meets is not None and math.isfinite(missed)
        ratio = missed / meets if known and meets else (1 + FIRST_STEP) ** 2
        return max(math.log2(max(math.log(ratio), 1e-9) / math.log1p(gap)), 1.0)

    def look(factor: float) -> Answer:
        nonlocal looks, meets, missed
        say(looks / (looks + halvings()))
        looks += 1
        said = answer(factor)
        if said == "meets":
            meets = factor if meets is None else max(meets, factor)
        elif said == "misses":
            missed = min(missed, factor)
        else:
            undecided.append(factor)
        return said

    guess = min(guess, missed / (1 + gap))
    step = FIRST_STEP
    factor = guess / (1 + step)
    while meets is None and factor > guess * LEAST and looks < MOST_LOOKS:
        look(factor)
        step *= 2
        factor /= 1 + step
    if meets is None:
        return None, missed if math.isfinite(missed) else None
    step, factor = FIRST_STEP, guess * (1 + FIRST_STEP)
    while looks < MOST_LOOKS and factor < missed:
        if look(factor) == "misses":
            break
        step *= 2
        factor *= 1 + step
    while looks < MOST_LOOKS and len(undecided) < MOST_UNDECIDED:
        within = sorted(one for one in undecided if meets < one < missed)
        pairs = pairwise([meets, *within, missed])
        ratio, low, high = max((high / low, low, high) for low, high in pairs)
        if not math.isfinite(ratio) or ratio <= 1 + gap:
            break
        look(math.sqrt(low * high))
    return meets, missed if math.isfinite(missed) else None


def lower_end(answer: Callable[[float], Answer], guess: float, missed: float, gap: float) -> Edge:
    """Return the end of factors near `guess` that meet, towards lower ones; as ``upper_end``."""
    inverse = math.inf if missed == 0.0 else 1 / missed
    found = upper_end(lambda one: answer(1 / one), 1 / guess, inverse, gap)
    meets, misses = (None if one is None else 1 / one for one in found)
    return meets, misses


CONFIDENCE = 0.95
"""Probability that no simultaneous verdict is wrong, over rates, looks and losses."""


@dataclass(frozen=True, slots=True, eq=False)
class RateVerdict:
    """Verdict of a run at one factor on the rate of the workload, for all objectives."""

    factor: float
    answer: Answer
    run: ServiceRun
    end: End


class RateJudge:
    """Deployment, ready for verdicts at one rate after another.

    All verdicts together are right at `confidence`: each new rate gets a smaller share of the
    error. Every rate uses the same requests, by the seed, compressed or stretched, up to `budget`.
    """

    def __init__(
        self,
        resolved: Sequence[Resolved],
        setup: EngineArguments,
        workload: Workload,
        *,
        budget: int,
        confidence: float = CONFIDENCE,
    ) -> None:
        self._resolved, self._setup = resolved, setup
        self._confidence = confidence
        self._workload = replace(workload, duration_s=None, requests=budget)
        self.seen: dict[float, RateVerdict] = {}

    def at(self, factor: float) -> RateVerdict:
        """Return the verdict of a run that is long enough, or has spent its budget."""
        if factor not in self.seen:
            workload = self._workload.faster(factor)
            engine = engine_of(workload, self._setup, early=True)
            run = ServiceRun(workload, self._setup, engine)
            confidence = confidence_of_look(len(self.seen) + 1, self._confidence)
            end = run.play(until_answered=True, confidence=confidence)
            verdicts = self._verdicts(run)
            answers = {one.answer for one in verdicts}
            # A stream without requests is undecided.
            asked = sum(len(stream.slos) for stream in workload.streams)
            all_met = answers == {"meets"} and len(verdicts) == asked
            answer: Answer = "meets" if all_met else "undecided"
            if "misses" in answers:
                answer = "misses"
            self.seen[factor] = RateVerdict(factor, answer, run, end)
        return self.seen[factor]

    def service(self, factor: float) -> Service:
        """Return the full results of the run at a factor."""
        one = self.at(factor)
        return service_of(one.run, self._resolved, one.end)

    def _verdicts(self, run: ServiceRun) -> list[Verdict]:
        """Return the verdicts of the run, but without intervals if a model is overloaded."""
        if all(one.answer != "undecided" for one in run.verdicts.values()):
            return list(run.verdicts.values())
        found = []
        for (at, place), verdict in run.verdicts.items():
            _, kept_up = run.of_model(self._setup.sources[at].model)
            rejects = bool((run.counted(at).why != SERVED).any())
            slo = run.workload.streams[at].slos[place]
            found.append(judged(slo, verdict, kept_up, rejects=rejects))
        return found
