"""The search finds what plain enumeration finds, and its bounds exclude nothing that meets."""

from __future__ import annotations

from itertools import combinations

from every_placement import enumerated
from hetsim.provisioning.platforms.policies import PlacedInstances, Policy, placed, policies_of
from hetsim.provisioning.platforms.question import Counts, Question
from hetsim.provisioning.platforms.search import Search, SearchResult
from hetsim.provisioning.platforms.simulation import play_given
from hetsim.provisioning.platforms.vectors import all_vectors, excludes, survey
from random_questions import every_vector, random_question, with_losses, with_splits
from sweeps import sweep

MANY = 1 << 20
"""Runs to come, so that machine code plays."""


def meets(question: Question, counts: Counts, *, one_by_one: bool) -> bool:
    """Whether any policy does, by playing each; with placements one by one where asked."""
    for policy in policies_of(question):
        if policy.placement != "each":
            where = placed(question, counts, policy)
            if isinstance(where, PlacedInstances) and holds(question, where, policy):
                return True
        elif one_by_one:
            for each in enumerated(question, counts, policy):
                if holds(question, each, policy):
                    return True
    return False


def tried_one_by_one(found: SearchResult) -> set[Counts]:
    """Vectors that were played on which placements are not too many."""
    played = [one for one in (*found.tried, found.answer, found.runner_up) if one is not None]
    return {
        one.counts
        for one in played
        if not any(
            isinstance(run.placed, str) and run.placed.startswith("more placements")
            for run in one.runs
        )
    }


def holds(question: Question, where: PlacedInstances, policy: Policy) -> bool:
    """Whether a deployment meets, and does without any devices that may be lost."""
    devices = range(len(where.places))
    for count in range(question.losses + 1):
        for lost in combinations(devices, count):
            left = PlacedInstances(
                where.places,
                tuple(
                    tuple(one for one in mine if not set(lost) & set(one.devices))
                    for mine in where.instances
                ),
            )
            if not all(left.instances):
                return False
            if play_given(question, left, policy, MANY).answer != "meets":
                return False
    return True


@sweep("seed", quick=range(0, 6, 2), full=range(200))
def test_the_answer_is_that_of_brute_force(seed: int) -> None:
    check(random_question(seed, requests=60 if seed < 6 else 120))


@sweep("seed", quick=[8], full=range(200))
def test_it_is_with_plans_over_several_devices(seed: int) -> None:
    check(with_splits(random_question(seed, vectors=300, requests=60), seed))


@sweep("seed", quick=[2], full=range(200))
def test_it_is_without_any_device(seed: int) -> None:
    check(with_losses(seed))


def check(question: Question) -> None:
    """The search's answer and runner-up are those of enumeration, and nothing excludes them."""
    vectors = every_vector(question)
    assert all_vectors(question) == len(vectors)
    found = Search(question).found()
    few = tried_one_by_one(found)
    first: list[Counts] = []
    for counts in vectors:
        # What costs less than the runner-up is looked at; beyond it nothing is claimed.
        if len(first) == 2 or not any(counts):
            continue
        if meets(question, counts, one_by_one=counts in few):
            assert not excludes(found.tests, counts), counts
            first.append(counts)
    answer = None if found.answer is None else found.answer.counts
    second = None if found.runner_up is None else found.runner_up.counts
    assert [one for one in (answer, second) if one is not None] == first
    tried = {one.counts for one in found.tried}
    sooner = [c for c in vectors if not first or question.key(c) < question.key(first[-1])]
    for counts in sooner:
        if len(first) < 2 and answer is not None and counts == answer:
            continue
        assert counts in tried or counts == answer or excludes(found.tests, counts), counts
    for one in found.tried:
        for run in one.runs:
            if run.bound is not None:
                # What a bound excludes of a policy is not played; it would miss.
                assert isinstance(run.placed, PlacedInstances)
                policy = found.policies[run.policies[0]]
                assert play_given(question, run.placed, policy).answer == "misses"
    looked = survey(question, found.tests, question.cost(vectors[-1]))
    assert looked.dearer == 0
    assert sum(looked.excluded) == sum(excludes(found.tests, counts) for counts in vectors)
