"""Every placement of few models is looked at: none meets that the search does not find."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

from every_placement import enumerated
from hetsim.errors import CertificateRefuted
from hetsim.provisioning.platforms import placements
from hetsim.provisioning.platforms.bounds.prices import Under
from hetsim.provisioning.platforms.certificate import certificate
from hetsim.provisioning.platforms.placements import Placements, shape_of
from hetsim.provisioning.platforms.policies import (
    Placed,
    Policy,
    apart,
    fitting,
    needs_of,
    places_of,
    serves,
    suited,
)
from hetsim.provisioning.platforms.question import Place, Question
from hetsim.provisioning.platforms.search import Found, Search, bounds_of
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


def one_by_one(found: Found) -> list[Policy]:
    return [policy for policy in found.policies if policy.placement == "each"]


def without_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placements, "REQUESTS", 1 << 40)
    monkeypatch.setattr(placements, "MOST_PLAYED", 1 << 20)
    monkeypatch.setattr(placements, "MOST_LISTED", 1 << 20)


def written(found: Found, path: Path) -> object:
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
    assert isinstance(best.placed, Placed)
    assert found.policies[best.policies[0]].placement == "each"
    on = [{device for one in mine for device in one.devices} for mine in best.placed.instances]
    assert on[0] == on[1]
    assert not on[0] & on[2]


@sweep("seed", quick=[1, 4], full=range(150))
def test_each_placement_is_left_or_a_bound_excludes_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_limits(monkeypatch)
    question = few(seed)
    under = Under(question, bounds_of(question))
    for policy in one_by_one(Search(question).found()):
        every = Placements(question, under)
        before: set[object] = set()
        for counts in sorted(every_vector(question), key=sum):
            if not any(counts):
                continue
            listed = every.left(counts, policy, 1 << 20)
            assert listed is not None
            left = {shape_of(where) for where in listed}
            before |= left
            for where in enumerated(question, counts, policy):
                known = shape_of(where) in before
                assert known != (under.excludes(where, policy) is not None)
                # What leaves a copy idle is known of fewer.
                assert shape_of(where) in left or not known or idle(question, where)


def idle(question: Question, where: Placed) -> bool:
    """Whether all devices of one of a kind serve nothing."""
    used = {
        (where.places[at].kind, where.places[at].unit)
        for mine in where.instances
        for one in mine
        for at in one.devices
    }
    return used != {(place.kind, place.unit) for place in where.places}


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
    under = Under(question, found.bounds)
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


def busiest(question: Question, places: tuple[Place, ...], where: list[list[int]]) -> float:
    """The least part of their time that devices are busy, by requests in any parts on each."""
    pairs = [(model, at) for model, mine in enumerate(where) for at in mine]
    need = needs_of(question)
    load = np.zeros((len(places), len(pairs) + 1))
    deal = np.zeros((len(where), len(pairs) + 1))
    for column, (model, at) in enumerate(pairs):
        of_type, limit_s = places[at].of_type, question.limit_s[model]
        each = [
            min(way.seconds / way.batch for way in question.useful(of_type, k, limit_s))
            for k in question.classes_of[model]
        ]
        load[at, column] = need[model] * np.mean(each) / question.types[of_type].streams
        deal[model, column] = 1
    load[:, -1] = -1
    solved = optimize.linprog(
        [0.0] * len(pairs) + [1.0], load, np.zeros(len(places)), deal, np.ones(len(where))
    )
    assert solved.x is not None
    return float(solved.x[-1])


@sweep("seed", quick=[3, 17], full=range(150))
def test_where_models_suit_and_fit(seed: int) -> None:
    question = random_question(seed)
    if len(question.models) == 1:
        return
    for counts in every_vector(question)[:: max(len(every_vector(question)) // 12, 1)]:
        places = places_of(question, counts)
        able = [
            [at for at, place in enumerate(places) if serves(question, place.of_type, model)]
            for model in range(len(question.models))
        ]
        if not all(able):
            continue
        where = suited(question, places, able)
        assert all(set(mine) <= set(all_) for mine, all_ in zip(where, able, strict=True))
        if min(needs_of(question)) > 0:
            best = busiest(question, places, able)
            assert busiest(question, places, where) <= best * (1 + 1e-5)
        dealt = apart(question, places, able)
        found = fitting(question, places, able, dealt, 1)
        room = [question.types[place.of_type].memory_bytes for place in places]
        for model, mine in enumerate(found):
            assert set(dealt[model]) <= set(mine) <= set(able[model])
            for at in mine:
                room[at] -= holds(question, model, places[at])
        for model, mine in enumerate(found):
            for at in set(able[model]) - set(mine):
                assert holds(question, model, places[at]) > room[at]


def holds(question: Question, model: int, place: Place) -> int:
    """What a model takes of a device, unbatched."""
    ways = (question.ways[place.of_type, k] for k in question.classes_of[model])
    return max(each[0].whole_bytes for each in ways)
