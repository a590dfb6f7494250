"""When models did not work, as a run goes on."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spell:
    """A time; infinite where it has not ended."""

    begin_s: float
    end_s: float = math.inf


class Spells:
    """Times in which something of a model did not work.

    Attributes
    ----------
    whole : list of bool
        By model: whether all that serves it works.
    broken : list of list of Spell
        By model: when something that serves it did not work, from when it stopped until it had
        loaded again, was planned for anew, or its work was left to others.
    out : list of list of Spell
        When none of its instances worked.
    """

    def __init__(self, models: int) -> None:
        self.whole = [True] * models
        self.broken: list[list[Spell]] = [[] for _ in range(models)]
        self.out: list[list[Spell]] = [[] for _ in range(models)]

    def tell(self, model: int, now: float, *, whole: bool, serves: bool) -> None:
        """Say how a model is from now on."""
        self.whole[model] = whole
        _tell(self.broken[model], now, whole)
        _tell(self.out[model], now, serves)


def _tell(spells: list[Spell], now: float, works: bool) -> None:
    under_way = bool(spells) and math.isinf(spells[-1].end_s)
    if works and under_way:
        spells[-1] = Spell(spells[-1].begin_s, now)
    elif not works and not under_way:
        spells.append(Spell(now))
