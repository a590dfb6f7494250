"""Platforms of a catalog that were tried, and the cheapest at other prices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hetsim.core.text import Record
from hetsim.provisioning.platforms.answer import Recommendation
from hetsim.provisioning.platforms.question import UNIT, Counts, Question
from hetsim.provisioning.platforms.search import BUDGET, Search, Tried

FACTORS = (0.25, 0.5, 2.0, 4.0)
"""Factors on the price of each kind: what is the cheapest then is tried for the page as well."""

MOST_PLAYED = 12
"""Platforms that are played for that."""


def vectors_picture(
    found: Recommendation,
    *,
    budget: int = BUDGET,
    tell: Callable[[str], None] | None = None,
) -> Record:
    """Platforms that were tried, as ``tried``, and the cheapest at other prices, as ``prices``.

    Whether a platform meets does not depend on prices: the order in which they are tried does.

    Complexity: that of playing up to MOST_PLAYED platforms.
    """
    question = found.found.question
    known = {one.counts: one for one in found.found.tried}
    for one in (found.found.answer, found.found.runner_up):
        if one is not None:
            known[one.counts] = one
    prices: list[Record] = []
    if question.aim == "cost" and question.given:
        prices = _at_other_prices(found, known, budget, tell)
    answer = found.found.answer
    rows = sorted(known.values(), key=lambda one: question.key(one.counts))
    return {"tried": [_row(question, one, answer) for one in rows], "prices": prices}


def _row(question: Question, one: Tried, answer: Tried | None) -> Record:
    best = one.best(question)
    latency_s = limit_s = None
    if best is not None and best.played is not None:
        said = best.played.worst(question)
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


def _at_other_prices(
    found: Recommendation,
    known: dict[Counts, Tried],
    budget: int,
    tell: Callable[[str], None] | None,
) -> list[Record]:
    """The cheapest platform with one kind cheaper or dearer; None of what was not played.

    What is played for it is added to `known`.
    """
    question = found.found.question
    search = Search(question, found.workload, budget=budget)
    left = MOST_PLAYED
    rows = []
    for at, kind in enumerate(question.kinds):
        for factor in FACTORS if kind.cost else ():
            kinds = list(question.kinds)
            kinds[at] = replace(kind, cost=round(kind.cost * factor))
            other = replace(question, kinds=tuple(kinds))
            best = None
            for counts in search.left(other):
                if counts not in known and left:
                    left -= 1
                    if tell is not None:
                        named = question.named(counts)
                        tell(" + ".join(f"{n} {name}" for name, n in named.items()))
                    known[counts] = search.play(counts)
                if counts not in known or known[counts].answer == "undecided":
                    break
                if known[counts].answer == "meets":
                    best = counts
                    break
            rows.append(
                {
                    "kind": kind.name,
                    "price": float(kinds[at].cost * UNIT[question.aim]),
                    "counts": None if best is None else question.named(best),
                    "cost": None if best is None else other.amount(best),
                }
            )
    return rows
