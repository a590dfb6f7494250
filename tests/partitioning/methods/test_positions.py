"""Positions among which nodes are moved: a list that keeps its order, and numbers that tell it."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hetsim.partitioning.condensed import WIDTH, move, standing


def listed(following: list[int]) -> list[int]:
    """The nodes from the first to the last."""
    n = len(following) - 1
    found: list[int] = []
    node = following[n]
    while node != n:
        found.append(node)
        node = following[node]
    return found


def moved_about(n: int, moves: list[tuple[int, list[int]]]) -> None:
    """Move nodes behind the place-th of the rest, and hold every step to a plain list."""
    plain = list(range(n))
    position, following, leading = (each.tolist() for each in standing(np.array(plain)))
    for place, chosen in moves:
        nodes = [node for node in plain if node in set(chosen)]
        rest = [node for node in plain if node not in nodes]
        before = rest[place - 1] if place % (len(rest) + 1) and place <= len(rest) else n
        at = rest.index(before) + 1 if before != n else 0
        plain = rest[:at] + nodes + rest[at:]
        if nodes:
            move(position, following, leading, before, [-1, *nodes, -1], 1, 1 + len(nodes))
        assert listed(following) == plain
        assert listed(leading) == plain[::-1]
        numbers = [position[node] for node in plain]
        assert all(one < other for one, other in pairwise([-1, *numbers, WIDTH]))


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 12), st.lists(st.integers(0, 11), max_size=5)), max_size=30),
)
def test_any_moves(n: int, moves: list[tuple[int, list[int]]]) -> None:
    moved_about(n, moves)


def test_room_is_made_where_all_go_to_one_place() -> None:
    """Halved a thousand times, no room of 62 bits is left."""
    for place in (0, 1, 7, 19):
        rng = random.Random(place)
        moved_about(
            40, [(place, rng.sample(range(40), rng.choice((1, 1, 3)))) for _ in range(1000)]
        )
