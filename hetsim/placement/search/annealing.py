"""Simulated annealing over drafts: in Python for few moves, as machine code for many."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from hetsim.base import deadline
from hetsim.base.code_folder import is_kept
from hetsim.base.going import say
from hetsim.partitioning.groups import Group
from hetsim.placement.listing.room import Room
from hetsim.placement.search import kernel
from hetsim.placement.search.evaluation import Draft, Estimator, draft_of, estimates_groups
from hetsim.placement.search.moves import Mover
from hetsim.placement.search.records import ANSWER, FRESH, NEXT_LOOK, NOW, SCALE, SPENT, TRIED
from hetsim.placement.search.tables import asked_of, drafted, search_of, seeded
from hetsim.problem.problem import Problem

HOT, COLD = 0.03, 0.003
"""Worsening that is accepted with probability 1/e at first and at last, over the best cost."""
JUDGED = 40
"""Drafts of a round that are judged at most."""
COMPILE_FROM = 250_000
"""Tasks evaluated from which on loading the machine code costs less CPU time than it saves; those
of subgraphs count GROUPED times."""
COMPILE_ANEW_FROM = 20_000_000
"""The same where no machine code is kept yet."""
GROUPED = 4
COMPILE_FROM_S, COMPILE_ANEW_FROM_S = 0.2, 12.0
"""Seconds of a time limit that are worth it."""

ROUND = 1_500
"""Moves a task of a round: what a budget has beyond goes to more rounds."""
MOST_ROUNDS = 200
TRIAL_PART = 0.02
"""Part of a time limit in which the speed is found."""
FINE = 0.3
"""Worsening accepted at first by tasks: where there are many, each counts for little."""
HOTTER = (1.0, 3.0, 10.0)
"""Rounds begin so many times as hot, in turns."""
TRIAL = 2_000
"""Moves by machine code before the first look at a budget of moves."""
LOOKS = 4
"""Drafts that are judged of each of several rounds."""
MANY_TASKS = 500
"""Tasks from which on each move in Python is followed by a look at the time."""
FIRST_WORK = 200_000
"""Tasks evaluated by machine code before the first look at the time."""
CHUNK_S = 0.01
"""Seconds between two looks at the time."""


class Judge(Protocol):
    """What keeps the best draft by the clock."""

    def __call__(self, groups: tuple[Group, ...], *, last: bool) -> None:
        """Judge `groups`; `last` ones of a round in any case."""


Holds = Callable[[tuple[Group, ...]], bool]
"""Whether the clock finds room for groups."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How long to anneal: so many moves, or from one second of CPU time to another."""

    moves: int | None
    began_s: float = 0.0
    until_s: float = 0.0

    def spent(self, tried: int) -> float:
        """Return which share of it is spent, after so many moves of one round."""
        if self.moves is not None:
            return tried / max(self.moves, 1) if deadline.left_s() > 0.0 else 1.0
        return (deadline.now_s() - self.began_s) / max(self.until_s - self.began_s, 1e-9)


@dataclass(frozen=True, slots=True)
class Heat:
    """What is accepted at first and at last, over the cost; and how many drafts are judged."""

    hot: float = HOT
    cold: float = COLD
    looks: int = JUDGED


class Walk(Protocol):
    """Anneals from one start, round after round; what it draws goes on from round to round."""

    def round(self, budget: Budget, heat: Heat, judge: Judge) -> int:
        """Anneal from the start; return the moves tried."""


class PythonWalk:
    """By ``Estimator`` and ``Mover``."""

    def __init__(
        self, problem: Problem, groups: tuple[Group, ...], seed: int, holds: Holds | None
    ) -> None:
        self._problem, self._groups, self._holds = problem, groups, holds
        self._estimator, self._rng = Estimator(problem), random.Random(seed)

    def round(self, budget: Budget, heat: Heat, judge: Judge) -> int:
        """Anneal from the start. O((V + E) moves)."""
        problem, estimator, rng, holds = self._problem, self._estimator, self._rng, self._holds
        draft = draft_of(problem, self._groups)
        room = Room(problem, draft.device) if holds is not None else None
        mover = Mover(problem, draft, rng, cuts=estimator.grouped, room=room)
        now = best = estimator.cost(draft)
        best_draft = draft.copy()
        fresh = True
        tried, spent = 0, budget.spent(0)
        next_look = spent
        # A look at the time takes less than a move, but not where there are few tasks.
        limited = deadline.is_set()
        every = 16 if budget.moves is not None or problem.n < MANY_TASKS else 1
        scale = best or 1.0
        temperature = heat.hot * scale
        while spent < 1.0:
            if tried % every == 0:
                spent = budget.spent(tried)
                say(spent)
                temperature = scale * heat.hot * (heat.cold / heat.hot) ** min(spent, 1.0)
                if fresh and spent >= next_look:
                    judge(estimator.groups(best_draft), last=False)
                    fresh, next_look = False, spent + 1.0 / heat.looks
            elif limited and deadline.left_s() <= 0.0:
                break
            tried += 1
            undo = mover.propose()
            if undo is None:
                continue
            cost = estimator.cost(draft)
            if cost < best and holds is not None and not holds(estimator.groups(draft)):
                undo()
            elif cost <= now or rng.random() < math.exp((now - cost) / temperature):
                now = cost
                if cost < best:
                    best, best_draft, fresh = cost, draft.copy(), True
            else:
                undo()
        judge(estimator.groups(best_draft), last=True)
        return tried


class CompiledWalk:
    """By ``kernel``: the same, bit for bit, where the budget is in moves."""

    def __init__(
        self, problem: Problem, groups: tuple[Group, ...], seed: int, holds: Holds | None
    ) -> None:
        self._problem, self._groups, self._holds = problem, groups, holds
        self._estimator, self._rng = Estimator(problem), random.Random(seed)
        binds = holds is not None
        self._asked = asked_of(problem, grouped=self._estimator.grouped, binds=binds)
        self._advance = kernel.compiled()

    def round(self, budget: Budget, heat: Heat, judge: Judge) -> int:
        """Anneal from the start. O((V + E) moves)."""
        problem, estimator = self._problem, self._estimator
        draft = draft_of(problem, self._groups)
        room = Room(problem, draft.device) if self._holds is not None else None
        search = search_of(self._asked, len(problem.link_names), draft, room)
        seeded(search, self._rng)
        counts, figures = search.counts, search.figures
        figures[NOW] = estimator.cost(draft)
        figures[SCALE] = figures[NOW] or 1.0
        figures[SPENT] = figures[NEXT_LOOK] = budget.spent(0)
        kernel.keep(search)
        moves = 0 if budget.moves is None else max(budget.moves, 1)
        chunk = TRIAL if budget.moves is not None else max(16, FIRST_WORK // problem.n // 16 * 16)
        while True:
            began_s = deadline.now_s()
            until = int(counts[TRIED]) + chunk
            why = self._advance(self._asked, search, heat.hot, heat.cold, moves, until)
            tried = int(counts[TRIED])
            if why == kernel.OVER or deadline.left_s() <= 0.0:
                break
            if why == kernel.JUDGE:
                judge(estimator.groups(drafted(search)), last=False)
                counts[FRESH] = 0
                figures[NEXT_LOOK] = figures[SPENT] + 1.0 / heat.looks
            elif why == kernel.HOLDS:
                assert self._holds is not None
                now = Draft(search.order.tolist(), search.device.tolist(), search.cut.tolist())
                counts[ANSWER] = self._holds(estimator.groups(now))
            else:
                # As many moves as take CHUNK_S, a whole number of sixteens.
                took_s = max(deadline.now_s() - began_s, 1e-6)
                chunk = max(16, min(4 * chunk, int(chunk * CHUNK_S / took_s) // 16 * 16))
            if budget.moves is None:
                figures[SPENT] = budget.spent(tried)
            say(float(figures[SPENT]))
        self._rng.setstate((3, tuple(search.twister.tolist()), None))
        judge(estimator.groups(drafted(search)), last=True)
        return tried


def walk(
    problem: Problem,
    groups: tuple[Group, ...],
    seed: int,
    holds: Holds | None,
    budget: Budget,
) -> Walk:
    """Return what anneals from `groups`: as machine code where that pays.

    Where the budget is in moves the answer is the same by either way.
    """
    loaded = kernel.compiled.cache_info().currsize > 0
    kept = loaded or is_kept(kernel.anneal, *kernel.PARTS, inline=True)
    if budget.moves is None:
        least_s = COMPILE_FROM_S if kept else COMPILE_ANEW_FROM_S
        pays = loaded or budget.until_s - deadline.now_s() >= least_s
    else:
        least = COMPILE_FROM if kept else COMPILE_ANEW_FROM
        work = budget.moves * problem.n * (GROUPED if estimates_groups(problem) else 1)
        pays = work >= least
    way: type[PythonWalk] | type[CompiledWalk] = CompiledWalk if pays else PythonWalk
    return way(problem, groups, seed, holds)


def rounds(walk: Walk, problem: Problem, budget: Budget, judge: Judge) -> int:
    """Anneal in rounds of ROUND moves a task, as many as the budget has; return the moves tried.

    The more tasks, the less heat. Where the budget is time, a round of TRIAL_PART of it tells how
    many rounds it has.
    """
    hot = min(HOT, FINE / max(problem.n, 1))
    most = ROUND * problem.n
    if budget.moves is not None:
        count = min(MOST_ROUNDS, max(1, budget.moves // max(most, 1)))
        parts = [budget.moves * (k + 1) // count - budget.moves * k // count for k in range(count)]
        return sum(
            walk.round(Budget(part), heat, judge)
            for part, heat in zip(parts, _heats(hot, count), strict=True)
        )
    # The first call loads machine code.
    trial = Heat(hot, hot / 10, LOOKS)
    tried = walk.round(Budget(1), trial, judge)
    began_s = deadline.now_s()
    part_s = (budget.until_s - began_s) * TRIAL_PART
    if part_s <= 0.0:
        return tried
    of_trial = walk.round(Budget(None, began_s, began_s + part_s), trial, judge)
    tried += of_trial
    left_s = budget.until_s - deadline.now_s()
    each_s = max(deadline.now_s() - began_s, 1e-6) / max(of_trial, 1)
    count = min(MOST_ROUNDS, max(1, int(left_s / each_s) // max(most, 1)))
    for k, heat in enumerate(_heats(hot, count)):
        now_s = deadline.now_s()
        if now_s >= budget.until_s:
            break
        until_s = now_s + (budget.until_s - now_s) / (count - k)
        tried += walk.round(Budget(None, now_s, until_s), heat, judge)
    return tried


def _heats(hot: float, count: int) -> Iterator[Heat]:
    if count == 1:
        yield Heat(hot, hot / 10)
        return
    for k in range(count):
        yield Heat(min(hot * HOTTER[k % len(HOTTER)], 1.0), hot / 10, LOOKS)
