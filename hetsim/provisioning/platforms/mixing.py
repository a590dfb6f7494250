"""Placements of several models on the devices of a vector: where they suit best, where they fit."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from scipy import optimize

from hetsim.provisioning.platforms.question import Place, Question

LEAST = 1e-6
"""Of what a model needs: less of it is not sent to a device."""


def needs_of(question: Question) -> list[float]:
    """By model: how much of it comes, a second where it is drawn, else in all."""
    need = [0.0] * len(question.models)
    for at, ask in enumerate(question.asks):
        rate = ask.rate_per_s
        if rate is None:
            arrivals = question.arrivals
            rate = 0.0 if arrivals is None else float((arrivals.ask == at).sum())
        need[question.classes[ask.of_class].model] += rate
    return need


def suited(
    question: Question, places: Sequence[Place], able: Sequence[Sequence[int]]
) -> list[list[int]]:
    """By model: the devices that it is sent to where all together carry most of what comes.

    The linear program deals requests out in any parts, each in the batch size that suits it best,
    so that no type of device is busy more than a part of the time that is as small as can be. A
    device serves what its type is sent. With few devices each model has those to which it is
    worth most, by comparison. O(one linear program of types times models).
    """
    types = tuple(sorted({place.of_type for place in places}))
    many = tuple(sum(place.of_type == one for place in places) for one in types)
    serves = tuple(
        tuple(any(places[at].of_type == one for at in mine) for one in types) for mine in able
    )
    sent = _sent(question, types, many, serves)
    return [
        [at for at in mine if sent[model][types.index(places[at].of_type)]]
        for model, mine in enumerate(able)
    ]


@functools.lru_cache(maxsize=256)
def _sent(
    question: Question,
    types: tuple[int, ...],
    many: tuple[int, ...],
    serves: tuple[tuple[bool, ...], ...],
) -> tuple[tuple[bool, ...], ...]:
    """By model and type: whether any of it is sent there; of what nobody serves, nothing."""
    need = np.maximum(needs_of(question), 1e-9)
    wanted = [model for model, row in enumerate(serves) if any(row)]
    pairs = [(m, p) for m in wanted for p in range(len(types)) if serves[m][p]]
    if not pairs:
        return serves
    load = np.zeros((len(types), len(pairs) + 1))
    deal = np.zeros((len(wanted), len(pairs) + 1))
    for column, (model, p) in enumerate(pairs):
        load[p, column] = float(need[model]) * _seconds(question, model, types[p])
        deal[wanted.index(model), column] = 1.0
    load /= float(load.max()) or 1.0
    load[:, -1] = [-count * question.types[p].streams for count, p in zip(many, types, strict=True)]
    solved = optimize.linprog(
        c=[*np.zeros(len(pairs)), 1.0],
        A_ub=load,
        b_ub=np.zeros(len(types)),
        A_eq=deal,
        b_eq=np.ones(len(wanted)),
        bounds=[(0, None)] * (len(pairs) + 1),
        method="highs",
    )
    if solved.status != 0:
        return serves
    found = [[False] * len(types) for _ in serves]
    for (model, p), part in zip(pairs, np.asarray(solved.x)[:-1].tolist(), strict=True):
        found[model][p] = part > LEAST
    return tuple(tuple(row) for row in found)


def _seconds(question: Question, model: int, of_type: int) -> float:
    """What a request of a model takes a device at least, of its classes in equal parts."""
    limit_s = question.limit_s(model)
    classes = question.classes_of(model)
    each = [
        min(way.seconds / way.batch for way in question.useful(of_type, of_class, limit_s))
        for of_class in classes
    ]
    return sum(each) / len(each)


def fitting(
    question: Question,
    places: Sequence[Place],
    able: Sequence[Sequence[int]],
    dealt: Sequence[Sequence[int]],
    most: int,
) -> list[list[int]]:
    """By model: the devices that it was dealt, and all others that hold it beside what they have.

    The model that has the smallest part of what it needs is added to the device that does most of
    it a second among those that have room; of equals the first. O(models^2 x devices^2).
    """
    need = needs_of(question)
    holds = [
        [bytes_of(question, model, place.of_type, most) if at in able[model] else 0
         for at, place in enumerate(places)]
        for model in range(len(able))
    ]  # fmt: skip
    room = [question.types[place.of_type].memory_bytes for place in places]
    found = [list(mine) for mine in dealt]
    speed = [[0.0] * len(places) for _ in able]
    for model, mine in enumerate(able):
        for at in mine:
            seconds = _seconds(question, model, places[at].of_type)
            speed[model][at] = 1 / seconds if seconds else 1e300
    does = [sum(speed[model][at] for at in mine) for model, mine in enumerate(found)]
    for model, mine in enumerate(found):
        for at in mine:
            room[at] -= holds[model][at]
    while True:
        open_ = [
            (does[model] / need[model] if need[model] else 1e300, model, -speed[model][at], at)
            for model in range(len(able))
            for at in able[model]
            if at not in found[model] and holds[model][at] <= room[at]
        ]
        if not open_:
            return [sorted(mine) for mine in found]
        _, model, _, at = min(open_)
        found[model].append(at)
        room[at] -= holds[model][at]
        does[model] += speed[model][at]


def bytes_of(question: Question, model: int, of_type: int, most: int) -> int:
    """What a model holds of a device, in batches of up to so many."""
    return max(
        way.whole_bytes
        for of_class in question.classes_of(model)
        for way in question.ways[of_type, of_class]
        if way.batch <= most
    )
