"""Every placement of few models is looked at: none meets that the search does not find."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from every_placement import enumerated
from hetsim.errors import CertificateRefuted
from hetsim.provisioning.platforms import placements
from hetsim.provisioning.platforms.bounds.prices import PolicyBounds
from hetsim.provisioning.platforms.certificate import certificate
from hetsim.provisioning.platforms.policies import PlacedInstances, Policy
from hetsim.provisioning.platforms.question import Question
from hetsim.provisioning.platforms.search import Search, SearchResult
from hetsim.provisioning.platforms.simulation import play_given
from hetsim.provisioning.platforms.verification import verify
from random_questions import every_vector, random_question, with_losses
from sweeps import sweep

MANY = 1 << 20
"""Runs to come, so that machine code plays."""


def few(seed: int) -> Question:
    """A question of two models or three, of at most 400 placements on each of its vectors."""
    while True:
        question = random_question(seed, vectors=24, requests=60)
        models = len(question.models)
        for most in (3, 2) if models > 1 else ():
            fewer = replace(question, max_devices=min(question.max_devices, most))
            devices = [
                sum(n * len(kind.devices) for n, kind in zip(counts, fewer.kinds, strict=True))
                for counts in every_vector(fewer)
            ]
            if (2 ** max(devices) - 1) ** models <= 400:
                return fewer
        seed += 1000


def one_by_one(found: SearchResult) -> list[Policy]:
    return [policy for policy in found.policies if policy.placement == "each"]


def without_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placements, "REQUESTS", 1 << 40)
    monkeypatch.setattr(placements, "MOST_PLAYED", 1 << 20)
    monkeypatch.setattr(placements, "MOST_LISTED", 1 << 20)


def written(found: SearchResult, path: Path) -> object:
    """Its certificate, as a file."""
    given = json.loads(certificate(found))
    for kind in given["question"]["kinds"]:
        kind["parts"] = {"usd_per_hour": f"{kind['cost']}e-9"}
    path.write_text(json.dumps(given))
    return given


@sweep("seed", quick=[19], full=range(300))
def test_no_placement_meets_that_is_not_found(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_limits(monkeypatch)
    question = few(seed)
    found = Search(question).found()
    first = []
    for counts in every_vector(question):
        meets = any(
            play_given(question, where, policy, MANY).answer == "meets"
            for policy in one_by_one(found)
            for where in enumerated(question, counts, policy)
        )
        # Another routing may meet where least finish does not.
        others = [one for one in (found.answer, found.runner_up) if one and one.counts == counts]
        if meets or others:
            assert others, counts
            first.append(counts)
        if len(first) == 2:
            break
    assert first == [one.counts for one in (found.answer, found.runner_up) if one is not None]
    written(found, path := tmp_path / "certificate.json")
    assert verify(path).undecided == 0


def test_models_that_are_in_each_other_s_way_are_kept_apart() -> None:
    found = Search(random_question(19, requests=60)).found()
    assert found.answer is not None
    assert found.answer.counts == (0, 2)
    best = found.answer.best(found.question)
    assert best is not None
    assert isinstance(best.placed, PlacedInstances)
    assert found.policies[best.policies[0]].placement == "each"
    on = [{device for one in mine for device in one.devices} for mine in best.placed.instances]
    assert on[0] == on[1]
    assert not on[0] & on[2]


def test_where_placements_are_many_none_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placements, "LEAST_PLAYED", 0)
    monkeypatch.setattr(placements, "REQUESTS", 0)
    found = Search(random_question(19, requests=60)).found()
    assert found.answer is not None
    assert found.answer.counts == (0, 3)
    said = [
        run.placed
        for one in found.tried
        for run in one.runs
        if found.policies[run.policies[0]].placement == "each"
    ]
    assert "more placements than are played one by one" in said
    written(found, path := tmp_path / "certificate.json")
    verify(path)


@sweep("seed", quick=[5], full=range(60))
def test_no_placement_may_be_left_out(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_limits(monkeypatch)
    question = few(seed)
    found = Search(question).found()
    given = json.loads(json.dumps(written(found, path := tmp_path / "certificate.json")))
    under = PolicyBounds(question, found.bounds)
    for one in found.tried:
        place = [row["counts"] for row in given["played"]].index(list(one.counts))
        for at, run in enumerate(one.runs):
            by = found.policies[run.policies[0]]
            if by.placement != "each" or under.excludes(run.placed, by) is not None:
                continue
            changed = json.loads(json.dumps(given))
            del changed["played"][place]["runs"][at]
            path.write_text(json.dumps(changed))
            with pytest.raises(CertificateRefuted, match="when it is played again"):
                verify(path)
            break


@sweep("seed", quick=[3], full=range(60))
def test_placements_that_lose_devices_are_certified(seed: int, tmp_path: Path) -> None:
    question = with_losses(seed)
    found = Search(question).found()
    written(found, path := tmp_path / "certificate.json")
    verify(path)


# Where models suit and fit
