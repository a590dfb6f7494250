"""All placements of whole models on the devices of a vector, by plain enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from hetsim.provisioning.platforms.policies import PlacedInstances, Policy, places_of, serves
from hetsim.provisioning.platforms.question import Counts, Instance, Question


def enumerated(question: Question, counts: Counts, policy: Policy) -> Iterator[PlacedInstances]:
    """All placements: each model on some of the devices that serve it, as far as memory goes."""
    places = places_of(question, counts)
    each = []
    for model in range(len(question.models)):
        able = [
            at
            for at, place in enumerate(places)
            if serves(question, place.of_type, model, policy.max_batch)
        ]
        each.append([on for n in range(1, len(able) + 1) for on in combinations(able, n)])
    for chosen in product(*each):
        if all(
            sum(
                holds(question, model, place.of_type, policy)
                for model, mine in enumerate(chosen)
                if at in mine
            )
            <= question.types[place.of_type].memory_bytes
            for at, place in enumerate(places)
        ):
            yield PlacedInstances(
                places, tuple(tuple(Instance((at,)) for at in mine) for mine in chosen)
            )


def holds(question: Question, model: int, of_type: int, policy: Policy) -> int:
    """Bytes that a model takes of a device."""
    most = max(
        way.whole_bytes
        for of_class in question.classes_of[model]
        for way in question.ways[of_type, of_class]
        if way.batch <= policy.max_batch
    )
    return most * (question.types[of_type].streams if policy.line else 1)
