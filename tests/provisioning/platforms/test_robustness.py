"""How sure a recommendation is: shares and regrets by their definitions, each draw played anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hetsim
from hetsim.analysis.confidence import normals
from hetsim.provisioning.platforms.policies import PlacedInstances, placed
from hetsim.provisioning.platforms.question import UNIT, Counts, Question, TimeUncertainty
from hetsim.provisioning.platforms.robustness import (
    SAMPLES,
    demand_of_text,
    drawn,
    probability_of_meeting,
    robustness_of,
)
from hetsim.provisioning.platforms.search import Search, SearchResult
from hetsim.provisioning.platforms.simulation import play_given
from hetsim.workload.arrivals import Constant
from random_questions import random_question
from sweeps import sweep

WORKLOAD = hetsim.Workload((hetsim.Stream("all", "model", Constant(1.0)),), requests=1)


def doubtful(seed: int) -> Question:
    question = random_question(seed, requests=40)
    off = {
        (of_type, model): TimeUncertainty({"kin": 0.1, f"device {of_type}": 0.2}, {"link": 0.3})
        for of_type in range(len(question.types))
        for model in range(len(question.models))
    }
    return replace(question, off=off)


def meets(found: SearchResult, question: Question, counts: Counts) -> bool:
    """Whether a stated policy meets, or what was found best of the vector without a draw."""
    ways = [
        (policy, placed(question, counts, policy))
        for policy in found.policies
        if policy.placement != "each"
    ]
    for one in (*found.tried, found.answer, found.runner_up):
        best = one.best(found.question) if one is not None and one.counts == counts else None
        if best is not None and not best.lost:
            ways.append((found.policies[best.policies[0]], best.placed))
    for policy, where in ways:
        if (
            isinstance(where, PlacedInstances)
            and play_given(question, where, policy).answer == "meets"
        ):
            return True
    return False


@sweep("seed", quick=[5], full=[2, 5, 7, 19, 20, 27, 28, 36])
def test_shares_and_regrets_are_those_of_their_definition(seed: int) -> None:
    question = doubtful(seed)
    found = Search(question).found()
    assert found.answer is not None
    demand = demand_of_text("0.8,1,1.3")
    robustness = robustness_of(found, WORKLOAD, draws=4, demand=demand, budget=1)
    assert robustness is not None
    names = [kind.name for kind in question.kinds]
    vectors = [tuple(one.counts.get(name, 0) for name in names) for one in robustness.candidates]
    assert vectors == sorted(vectors, key=question.key)
    assert vectors[robustness.answer] == found.answer.counts
    sources = sorted({"kin", "link", *(f"device {p}" for p in range(len(question.types)))})
    share = np.zeros(len(vectors))
    best = np.zeros(len(vectors))
    regret = np.zeros(len(vectors))
    none = 0.0
    cost = [float(question.cost(counts) * UNIT["cost"]) for counts in vectors]
    for row in normals(4, len(sources), 0).tolist():
        for factor, weight in demand:
            other = drawn(question, dict(zip(sources, row, strict=True)), factor)
            good = [meets(found, other, counts) for counts in vectors]
            share += np.array(good) * weight / 4
            if not any(good):
                none += weight / 4
                continue
            first = good.index(True)
            best[first] += weight / 4
            for at, one in enumerate(good):
                regret[at] += weight / 4 * (cost[at] - cost[first] if one else cost[first])
    assert [one.meets for one in robustness.candidates] == pytest.approx(share)
    assert [one.cheapest for one in robustness.candidates] == pytest.approx(best)
    assert [one.regret for one in robustness.candidates] == pytest.approx(regret)
    assert robustness.none == pytest.approx(none)
    assert robustness.right == pytest.approx(best[robustness.answer])
    assert robustness.least_regret.regret == min(one.regret for one in robustness.candidates)


@sweep("seed", quick=[5], full=[2, 5, 7, 19, 20])
def test_the_answer_alone_is_played_with_its_own_deployment(seed: int) -> None:
    question = doubtful(seed)
    found = Search(question).found()
    assert found.answer is not None
    best = found.answer.best(question)
    assert best is not None
    assert isinstance(best.placed, PlacedInstances)
    robustness = probability_of_meeting(found, WORKLOAD)
    assert robustness is not None
    assert (robustness.draws, robustness.near, len(robustness.candidates)) == (SAMPLES, False, 1)
    sources = sorted({name for off in question.off.values() for part in off for name in part})
    met = 0
    for row in normals(SAMPLES, len(sources), 0):
        other = drawn(question, dict(zip(sources, row.tolist(), strict=True)), 1.0)
        played = play_given(other, best.placed, found.policies[best.policies[0]])
        met += played.answer == "meets"
    assert robustness.meets == pytest.approx(met / SAMPLES)
    exact = Search(replace(question, off={})).found()
    assert probability_of_meeting(exact, WORKLOAD) is None


def test_what_demand_may_be() -> None:
    assert demand_of_text("0.8,1,1.3") == ((0.8, 0.3), (1.0, 0.4), (1.3, 0.3))
    assert demand_of_text("1,2") == ((1.0, 0.5), (2.0, 0.5))
    assert demand_of_text("1:3,2:1") == ((1.0, 0.75), (2.0, 0.25))
    for wrong in ("", "0,1", "1:0,2:1", "1:1,2", "a", "inf", "1:nan,2:nan,3:inf"):
        with pytest.raises(hetsim.errors.UsageError, match="is not a demand"):
            demand_of_text(wrong)
