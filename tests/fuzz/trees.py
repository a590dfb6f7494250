"""Mappings, lists and scalars, as JSON and YAML have them, changed at a few places."""

from __future__ import annotations

import copy
from collections.abc import Callable, MutableMapping, MutableSequence
from random import Random
from typing import Any

from fuzz import odd

Place = tuple[Any, Any]
"""A mapping or list, and the key or number in it."""

_DEEP = (3, 30, 99, 150, 250)


def mutated(rng: Random, tree: Any, *, donors: tuple[Any, ...] = (), most: int = 3) -> Any:
    """`tree` with up to `most` changes; parts come from elsewhere in it, or from `donors`."""
    holder = [copy.deepcopy(tree)]
    for _ in range(rng.randint(1, most)):
        places = list(_places(holder))
        # A place is drawn by its depth first: most places are leaves of long lists.
        depth = rng.randint(0, max(depth for depth, _ in places))
        held, key = rng.choice([place for at, place in places if at == depth])
        if held is holder and rng.random() < 0.9:
            continue
        others = places
        if donors and rng.random() < 0.3:
            others = list(_places([rng.choice(donors)]))
        _change(rng, held, key, [place for _, place in others])
    return holder[0]


def _places(tree: Any) -> Any:
    """Yield the depth of each place, and the place."""
    level: list[Any] = [tree]
    depth = 0
    while level:
        below: list[Any] = []
        for held in level:
            keys = held if isinstance(held, dict) else range(len(held))
            for key in keys:
                yield depth, (held, key)
                if isinstance(held[key], dict | list) and held[key]:
                    below.append(held[key])
        level, depth = below, depth + 1


def _change(rng: Random, held: Any, key: Any, others: list[Place]) -> None:
    was = held[key]
    how = rng.randrange(14)
    if how < 5 and not isinstance(was, dict | list):
        held[key] = scalar(rng, was)
    elif how < 7:
        held[key] = odd.any_value(rng)
    elif how == 7:
        other, at = rng.choice(others)
        held[key] = copy.deepcopy(other[at])
    elif how == 8:
        for _ in range(depth := rng.choice(_DEEP)):
            was = [was] if depth % 2 else {"a": was}
        held[key] = was
    elif how == 9 and isinstance(was, list) and was:
        was *= rng.choice((0, 2, 3, 50))
    elif how == 10 and isinstance(was, list):
        rng.shuffle(was)
    elif isinstance(held, dict):
        _KEYS[rng.randrange(len(_KEYS))](rng, held, key, others)
    elif len(held) > 1:
        _ITEMS[rng.randrange(len(_ITEMS))](rng, held, key)


def scalar(rng: Random, was: Any) -> Any:
    """Another scalar: mostly of the same type."""
    if rng.random() < 0.15:
        return odd.any_value(rng)
    if isinstance(was, bool):
        return not was
    if isinstance(was, int | float):
        changed = odd.number(rng, was)
        return str(changed) if rng.random() < 0.1 and abs(changed) < 1e300 else changed
    if isinstance(was, str):
        return odd.text(rng, was)
    return odd.any_value(rng)


def _drop(rng: Random, held: MutableMapping[Any, Any], key: Any, others: list[Place]) -> None:
    del held[key]


def _rename(rng: Random, held: MutableMapping[Any, Any], key: Any, others: list[Place]) -> None:
    held[odd.text(rng, str(key))] = held.pop(key)


def _add(rng: Random, held: MutableMapping[Any, Any], key: Any, others: list[Place]) -> None:
    held[odd.text(rng, str(key))] = odd.any_value(rng)


def _from_another(
    rng: Random, held: MutableMapping[Any, Any], key: Any, others: list[Place]
) -> None:
    keyed = [(other, at) for other, at in others if isinstance(other, dict)]
    other, at = rng.choice(keyed) if keyed else (held, key)
    held[at] = copy.deepcopy(other[at])


def _swap(rng: Random, held: MutableMapping[Any, Any], key: Any, others: list[Place]) -> None:
    other = rng.choice(list(held))
    held[key], held[other] = held[other], held[key]


def _remove(rng: Random, held: MutableSequence[Any], key: int) -> None:
    del held[key]


def _twice(rng: Random, held: MutableSequence[Any], key: int) -> None:
    held.insert(rng.randint(0, len(held)), copy.deepcopy(held[key]))


def _insert(rng: Random, held: MutableSequence[Any], key: int) -> None:
    held.insert(key, odd.any_value(rng))


_KEYS: tuple[Callable[..., None], ...] = (_drop, _drop, _rename, _add, _from_another, _swap)
_ITEMS: tuple[Callable[..., None], ...] = (_remove, _twice, _insert)
