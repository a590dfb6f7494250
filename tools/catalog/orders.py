"""Whether predictions put what was measured in the order in which it was measured."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

APART = 1.3
"""Times that two must be apart for their order to count."""


@dataclass(frozen=True, slots=True)
class Run:
    """One of those that can be chosen among.

    Attributes
    ----------
    case : hashable
        What they have in common: a network at a batch, and the chip where units of one are told.
    name : str
        Of the device or unit: choosing another run of the same one is no mistake.
    setting : str
        What else tells it from other runs, for ties.
    measured_s, predicted_s : float
    """

    case: Hashable
    name: str
    setting: str
    measured_s: float
    predicted_s: float


@dataclass(frozen=True, slots=True)
class Pairs:
    """How many pairs were measured apart, and how many of them are predicted in that order."""

    count: int
    right: int


@dataclass(frozen=True, slots=True)
class Best:
    """Of choices: how many, how many took the best, and what they cost beyond it.

    Attributes
    ----------
    count, right : int
    regrets : tuple of float
        Of each choice: measured time of what was taken over that of the best, less 1; sorted.
    """

    count: int
    right: int
    regrets: tuple[float, ...]

    @property
    def mean_regret(self) -> float:
        """Mean of `regrets`; 0 without choices."""
        return sum(self.regrets) / max(self.count, 1)


def pairs(runs: Iterable[Run]) -> Pairs:
    """Count pairs of unlike names of a case that were measured more than `APART` times apart."""
    count = right = 0
    for found in _cases(runs):
        for index, one in enumerate(found):
            for other in found[:index]:
                apart = math.log(one.measured_s / other.measured_s)
                if one.name != other.name and abs(apart) > math.log(APART):
                    count += 1
                    right += (one.predicted_s - other.predicted_s) * apart > 0
    return Pairs(count, right)


def best(runs: Iterable[Run]) -> Best:
    """Take of each case the run that is predicted fastest.

    It is right where the run that was measured fastest is of the same name. Cases of one name
    alone are no choice.
    """
    right, regrets = 0, []
    for found in _cases(runs):
        if len({run.name for run in found}) < 2:
            continue
        fastest = min(found, key=lambda run: (run.measured_s, run.name, run.setting))
        taken = min(found, key=lambda run: (run.predicted_s, run.name, run.setting))
        right += taken.name == fastest.name
        regrets.append(taken.measured_s / fastest.measured_s - 1)
    return Best(len(regrets), right, tuple(sorted(regrets)))


def _cases(runs: Iterable[Run]) -> list[list[Run]]:
    cases: defaultdict[Hashable, list[Run]] = defaultdict(list)
    for run in runs:
        cases[run.case].append(run)
    return list(cases.values())
