"""States of what is up, asked one after another whether objectives hold, the likeliest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from hetsim.confidence.verdict import Answer
from hetsim.hardware.availability import DeviceAvailability
from hetsim.service.service import Service
from hetsim.service.serving import played
from hetsim.sizing.outages.answer import How
from hetsim.sizing.outages.chances import Counts, Odds, chance_of, counts_down
from hetsim.sizing.outages.left import Leaving, Left
from hetsim.sizing.outages.pooled import Pools, no_better, pools_of
from hetsim.sizing.outages.verdicts import answer_of, confidence_of_each
from hetsim.sizing.outages.ways import names_of
from hetsim.workloads.workload import Workload

LEFT = Fraction(1, 100)
"""Of the chance that objectives may fail to hold: what may be left unasked once all is decided."""


@dataclass(slots=True, eq=False)
class Group:
    """States that leave one shape."""

    left: Left
    states: list[int]
    chance: Fraction
    answer: Answer = "undecided"
    how: How = "not asked"
    service: Service | None = None
    pools: Pools | None = None


class Asking:
    """States, which of them leave the same, and what is known of each."""

    def __init__(
        self,
        leaving: Leaving,
        counts: tuple[Counts, ...],
        known: Mapping[str, DeviceAvailability],
    ) -> None:
        self.leaving, self.counts = leaving, counts
        one = Fraction(1)
        self.shares = tuple(
            tuple(known[name].share if name in known else one for name in names)
            for names in leaving.classes
        )
        down = [counts_down(one) for one in self.shares]
        by_shape: dict[object, Group] = {}
        for at, state in enumerate(counts):
            left = leaving.without(frozenset(names_of(leaving, state)))
            group = by_shape.setdefault(left.shape, Group(left, [], Fraction(0)))
            group.states.append(at)
            group.chance += chance_of(state, down)
            if left.refused is not None:
                group.answer, group.how = "misses", "refused"
        self.groups = sorted(by_shape.values(), key=lambda one: one.chance, reverse=True)

    def between(self) -> tuple[Fraction, Fraction]:
        """Between which chances the objectives hold, by what is known so far."""
        by_answer = dict.fromkeys(("meets", "misses", "undecided"), Fraction(0))
        for one in self.groups:
            by_answer[one.answer] += one.chance
        return by_answer["meets"], 1 - by_answer["misses"]

    def odds(self) -> Odds:
        """What is known of each state."""
        answers: list[Answer] = ["undecided"] * len(self.counts)
        for one in self.groups:
            for at in one.states:
                answers[at] = one.answer
        return Odds(self.shares, self.counts, tuple(answers))


def ask(
    odds: Asking,
    workload: Workload,
    target: Fraction,
    *,
    until_answered: bool,
    within: float | None,
) -> None:
    """Play the states, the likeliest first, until what is left no longer matters.

    All verdicts together are right in 95 of 100 cases. Parameters as those of ``serve``.
    """
    open_ = [one for one in odds.groups if one.how == "not asked"]
    confidence = confidence_of_each(len(open_))
    left = sum((one.chance for one in open_), Fraction(0))
    low, high = odds.between()
    told: list[Group] = []
    for one in open_:
        decided = low >= target or high < target
        if not one.chance or (decided and left <= LEFT * (1 - target)):
            break
        setup = one.left.set_up(workload)
        one.pools = pools_of(one.left.resolved, setup)
        for other in told:
            worse, better = no_better(one.pools, other.pools), no_better(other.pools, one.pools)
            if (other.answer == "misses" and worse) or (other.answer == "meets" and better):
                one.answer, one.how = other.answer, "follows"
        if one.how == "not asked":
            one.service = played(
                workload,
                one.left.resolved,
                setup,
                until_answered=until_answered,
                within=within,
                confidence=confidence,
            )
            one.answer, one.how = answer_of(one.service), "played"
        low += one.chance if one.answer == "meets" else 0
        high -= one.chance if one.answer == "misses" else 0
        told.append(one)
        left -= one.chance
