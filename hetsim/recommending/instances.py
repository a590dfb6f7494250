"""What serves a model on a vector: one of its devices, or several together."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """One device of a vector: its kind, which of that kind, which device of it, and its type."""

    kind: int
    unit: int
    slot: int
    of_type: int


class Instance(NamedTuple):
    """What serves a model.

    Attributes
    ----------
    devices : tuple of int
        One, or those that a split takes, in its order.
    split : int
        Which of the question's; -1: one device serves the model whole.
    """

    devices: tuple[int, ...]
    split: int = -1
