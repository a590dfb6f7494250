"""Platforms at other prices, for a page: what is known to meet or to miss, and what excludes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hetsim.base.text import Record
from hetsim.recommending.answer import Recommendation
from hetsim.recommending.binding import says
from hetsim.recommending.playing import worst
from hetsim.recommending.question import UNIT, Counts, Question
from hetsim.recommending.searching import BUDGET, Search, Tried
from hetsim.recommending.vectors import Test
from hetsim.reporting.pages.answers.commands import without

FACTORS = (0.5, 2.0, 0.25, 4.0)
"""On the price of each kind: what is the cheapest then is tried for the page as well."""

MOST_PLAYED = 12
"""Platforms that are played for that."""


def vectors_picture(
    found: Recommendation,
    command: Sequence[str],
    *,
    budget: int = BUDGET,
    tell: Callable[[str], None] | None = None,
) -> Record:
    """Return what a page knows of the platforms of a catalog, whatever they cost.

    What was tried, and what would be the cheapest if a kind cost half or twice as much. Whether a
    platform meets does not depend on prices: the order in which they are tried does.

    Complexity: that of playing up to MOST_PLAYED platforms.
    """
    question = found.found.question
    known = {one.counts: one for one in found.found.tried}
    for one in (found.found.answer, found.found.runner_up):
        if one is not None:
            known[one.counts] = one
    tests = list(found.found.tests)
    whys = [says(question, bound) for bound in found.found.bounds]
    if question.aim == "cost" and question.given:
        tests, whys = _explored(found, known, budget, tell)
    answer = found.found.answer
    rows = sorted(known.values(), key=lambda one: question.key(one.counts))
    return {
        "aim": question.aim,
        "unit": float(UNIT[question.aim]),
        "given": question.given,
        "max_devices": question.max_devices,
        "kinds": [
            {
                "name": kind.name,
                "cost": kind.cost,
                "most": kind.most,
                "slots": kind.slots,
                "in_slot": kind.in_slot,
                "counted": kind.counted,
            }
            for kind in question.kinds
        ],
        "tests": [
            {"capacity": test.capacity.tolist(), "edge": test.edge, "says": why}
            for test, why in zip(tests, whys, strict=True)
        ],
        "tried": [_row(question, one, answer) for one in rows],
        "command": without(command, "recommend"),
    }


def _row(question: Question, one: Tried, answer: Tried | None) -> Record:
    best = one.best(question)
    latency_s = limit_s = None
    if best is not None and best.played is not None:
        said = worst(best.played, question)
        latency_s = said.latency_s
        limit_s = question.streams[said.stream].slos[said.slo].latency_s
    return {
        "vector": list(one.counts),
        "counts": question.named(one.counts),
        "cost": question.amount(one.counts),
        "devices": question.key(one.counts)[1],
        "latency_s": latency_s,
        "limit_s": limit_s,
        "answer": one.answer,
        "chosen": answer is not None and one.counts == answer.counts,
    }


def _explored(
    found: Recommendation,
    known: dict[Counts, Tried],
    budget: int,
    tell: Callable[[str], None] | None,
) -> tuple[list[Test], list[str]]:
    """Play what would come first at other prices; return all tests, and what they say."""
    question = found.found.question
    search = Search(question, found.workload, budget=budget)
    left = MOST_PLAYED
    for other in _at_other_prices(question):
        for counts in search.left(other):
            if counts not in known:
                if not left:
                    break
                left -= 1
                if tell is not None:
                    tell(" + ".join(f"{n} {name}" for name, n in question.named(counts).items()))
                known[counts] = search.play(counts)
            if known[counts].answer == "meets":
                break
        if not left:
            break
    return list(search.tests), [says(question, bound) for bound in search.bounds]


def _at_other_prices(question: Question) -> Iterator[Question]:
    """The same question, one kind cheaper or dearer."""
    for factor in FACTORS:
        for at, kind in enumerate(question.kinds):
            kinds = list(question.kinds)
            kinds[at] = replace(kind, cost=round(kind.cost * factor))
            yield replace(question, kinds=tuple(kinds))
