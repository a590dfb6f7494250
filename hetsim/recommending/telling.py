"""How far a search is, told as it goes: which vector of which level, and how long that takes still.

Where the answer lies nobody knows before it is found; how many vectors of a level are undecided is
known. So what is told to be left is until all vectors up to a cost are decided.
"""

from __future__ import annotations

from hetsim.base.going import Pace, say
from hetsim.recommending.deploying import told
from hetsim.recommending.question import UNIT, UNITS, Counts, Question
from hetsim.recommending.vectors import Level


class Telling:
    """Tells of one search.

    Parameters
    ----------
    question : Question
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._level: Level | None = None
        self._pace = Pace()

    def __call__(self, counts: Counts, level: Level, share: float) -> None:
        """Say which vector of a level is played, of which `share` is decided, in [0, 1)."""
        if level is not self._level:
            self._level, self._pace = level, Pace()
        question = self._question
        most = f"{float(level.cap * UNIT[question.aim]):.4g} {UNITS[question.aim]}"
        left_s = self._pace.left_s(share)
        say(0.0, f"{told(question, counts)} of those up to {most}", left_s, of="of these")
