"""Several models on one vector: where they suit best is what a linear program carries most with."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from hetsim.provisioning.platforms.mixing import fitting, needs_of, suited
from hetsim.provisioning.platforms.policies import apart, places_of, serves
from hetsim.provisioning.platforms.question import Place, Question
from random_questions import every_vector, random_question
from sweeps import sweep


def busiest(question: Question, places: tuple[Place, ...], where: list[list[int]]) -> float:
    """The least part of their time that devices are busy, by requests in any parts on each."""
    pairs = [(model, at) for model, mine in enumerate(where) for at in mine]
    need = needs_of(question)
    load = np.zeros((len(places), len(pairs) + 1))
    deal = np.zeros((len(where), len(pairs) + 1))
    for column, (model, at) in enumerate(pairs):
        of_type, limit_s = places[at].of_type, question.limit_s(model)
        each = [
            min(way.seconds / way.batch for way in question.useful(of_type, k, limit_s))
            for k in question.classes_of(model)
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
    ways = (question.ways[place.of_type, k] for k in question.classes_of(model))
    return max(each[0].whole_bytes for each in ways)
