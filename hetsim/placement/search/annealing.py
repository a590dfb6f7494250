"""Simulated annealing over drafts: interpreted for few moves, compiled for many.

One implementation, without allocation; with a budget in moves, both give the same answer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hetsim.core import compile_threshold, deadline
from hetsim.core.machine_code import machine_code
from hetsim.core.progress import part, say
from hetsim.placement.listing.list_schedule import Room, add, needs, remove
from hetsim.placement.search.drafts import (
    ANSWER,
    ASKING,
    BEST,
    CHANGED,
    COST,
    DRAWN,
    ENDED,
    FRESH,
    LIMIT,
    LOOKED,
    NEXT_LOOK,
    NOW,
    SCALE,
    SHIFTED,
    SOURCE,
    SPARE,
    SPENT,
    STALE,
    TEMPERATURE,
    TRIED,
    Array,
    SearchProblem,
    SearchState,
    asked_of,
    assign,
    draft_of,
    draw_below,
    draw_share,
    estimates_groups,
    follow,
    hurry,
    listed,
    nearby,
    other,
    overtake,
    propose,
    put,
    refill,
    search_of,
    shift,
    undo,
    weigh,
)
from hetsim.placement.search.estimates import (
    add_up,
    begin,
    cost,
    cost_of_groups,
    cost_of_nodes,
    finish,
    first_changed,
    gather,
    groups_of,
    least_of_move,
    look_ahead,
    mark,
    ready,
    remains,
    resume,
    send,
    settle,
)
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem

HOT, COLD = 0.03, 0.003
"""Relative increase that is accepted with probability 1/e, at the start and at the end."""
JUDGED = 40
"""Maximum number of drafts to simulate per round."""
LEAST, KEPT_FROM, COMPILE_FROM = 20_000, 1_500_000, 3_500_000
"""Number of tasks evaluated by one search, and by all of a process with and without a cached build,
from which machine code is used; tasks in subgraphs count GROUPED times."""
GROUPED = 4
COMPILE_FROM_S, COMPILE_ANEW_FROM_S = 0.2, 60.0
"""Seconds of a time limit from which machine code pays off, with and without a cached build."""

ROUND = 1_500
"""Moves per task of a round; a larger budget is spent on more rounds."""
MOST_ROUNDS = 200
TRIAL_PART = 0.02
"""Share of a time limit used to measure the speed."""
FINE = 0.3
"""Initial temperature by number of tasks: with many, each counts for little."""
HOTTER = (1.0, 3.0, 10.0)
"""Factors on the initial temperature, used by rounds in turn."""
LOOKS = 4
"""Number of drafts simulated per round, if there are several rounds."""
FIRST_WORK = 200_000
"""Number of tasks evaluated in machine code before the first time check; interpreted, one move."""
CHUNK_S = 0.01
"""Seconds between two time checks."""


class DraftJudge(Protocol):
    """Callback that keeps the best simulated draft."""

    def __call__(self, groups: tuple[Group, ...], *, last: bool) -> None:
        """Simulate `groups`; the `last` ones of a round in any case."""


Lacks = Callable[[tuple[Group, ...]], Sequence[int] | None]
"""Function from groups to the bytes that each device lacks; None if the groups cannot run."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Annealing budget: a number of moves, or a start and an end in CPU seconds."""

    moves: int | None
    began_s: float = 0.0
    until_s: float = 0.0

    def spent(self, tried: int) -> float:
        """Return the share of the budget spent after a number of moves of a round."""
        if self.moves is not None:
            return tried / max(self.moves, 1) if deadline.left_s() > 0.0 else 1.0
        return (deadline.now_s() - self.began_s) / max(self.until_s - self.began_s, 1e-9)


@dataclass(frozen=True, slots=True)
class Heat:
    """Start and end temperature relative to the cost, and the number of drafts simulated."""

    hot: float = HOT
    cold: float = COLD
    looks: int = JUDGED


OVER, JUDGE, HOLDS, PAUSE, DRAW = 0, 1, 2, 3, 4
"""Reasons why ``anneal`` returns: budget spent; best draft to be simulated; memory of a draft to be
checked; requested moves done; random words needed."""

PLAYED = 60_000
"""Number of tasks simulated for memory checks before drafts that lack memory close devices."""

SLACK = 1e-9
"""Relative margin above floating-point rounding."""


def keep(search: SearchState) -> None:
    """Record the draft as the best one."""
    for k in range(len(search.order)):
        search.best_order[k] = search.order[k]
        search.best_device[k] = search.device[k]
        search.best_cut[k] = search.cut[k]
    search.figures[BEST] = search.figures[NOW]
    search.counts[FRESH] = 1


def next_share(search: SearchState) -> float:
    """Return the next result of ``draw_share`` without consuming it."""
    share = draw_share(search)
    search.counts[DRAWN] -= 2
    return share


def dropped_from(temperature: float, now: float, share: float) -> float:
    """Return the cost from which a draft is rejected at this random number."""
    if share <= 0.0:
        return math.inf
    return (now + temperature * (SLACK - math.log(share))) * (1.0 + SLACK)


def note(asked: SearchProblem, search: SearchState) -> None:
    """Estimate the whole draft and record its marks."""
    limit = search.figures[LIMIT]
    search.figures[LIMIT] = math.inf
    for p in range(asked.devices):
        search.load[p] = 0.0
    search.counts[CHANGED] = 0
    # As if the first position had changed.
    search.counts[SHIFTED] = search.counts[SOURCE] = 0
    cost_of_nodes(asked, search)
    settle(asked, search)
    search.counts[SHIFTED] = -1
    search.figures[LIMIT] = limit


def anneal(
    asked: SearchProblem, search: SearchState, hot: float, cold: float, moves: int, until: int
) -> int:
    """Anneal until the moves are used or a draft is to be simulated; return the reason."""
    counts, figures = search.counts, search.figures
    if counts[TRIED] == 0 and not asked.grouped:
        note(asked, search)
    while True:
        if counts[ASKING]:
            counts[ASKING] = 0
            if counts[ANSWER]:
                figures[NOW] = figures[COST]
                settle(asked, search)
                keep(search)
            else:
                resume(search, asked.nodes)
                undo(asked, search)
        tried = counts[TRIED]
        # If it was just simulated, its move is still to be tried.
        if figures[SPENT] >= 1.0 and counts[LOOKED] != tried:
            return OVER
        if tried >= until:
            return PAUSE
        if counts[DRAWN] + SPARE > len(search.words):
            return DRAW
        if tried % 16 == 0 and counts[LOOKED] != tried:
            counts[LOOKED] = tried
            if moves > 0:
                figures[SPENT] = tried / moves
            spent = figures[SPENT]
            figures[TEMPERATURE] = figures[SCALE] * hot * (cold / hot) ** min(spent, 1.0)
            if counts[FRESH] and spent >= figures[NEXT_LOOK]:
                return JUDGE
        counts[TRIED] = tried + 1
        if counts[STALE]:
            look_ahead(asked, search)
        if not propose(asked, search):
            continue
        now = figures[NOW]
        figures[LIMIT] = dropped_from(figures[TEMPERATURE], now, next_share(search))
        counts[ENDED] = 0
        found = least_of_move(asked, search)
        if found <= figures[LIMIT]:
            found = cost(asked, search)
        if found < figures[BEST] and asked.binds:
            figures[COST] = found
            counts[ASKING] = 1
            return HOLDS
        if found <= now or draw_share(search) < math.exp((now - found) / figures[TEMPERATURE]):
            figures[NOW] = found
            settle(asked, search)
            if found < figures[BEST]:
                keep(search)
        else:
            if counts[ENDED]:
                resume(search, asked.nodes)
            undo(asked, search)


PARTS = (
    needs, add, remove, draw_share, draw_below, next_share, put, weigh, undo, assign, other, follow,
    shift, overtake, nearby, hurry, propose, send, finish, first_changed, add_up, begin, mark,
    settle, resume, ready, remains, look_ahead, least_of_move, cost_of_nodes, gather,
    cost_of_groups, cost, keep, dropped_from, note,
)  # fmt: skip


_compiled = machine_code(anneal, *PARTS, inline=True, forced=False)


class Walk:
    """Annealing from `groups` over several rounds with one random stream."""

    def __init__(
        self,
        problem: Problem,
        groups: tuple[Group, ...],
        seed: int,
        lacks: Lacks | None,
        *,
        compiled: bool,
    ) -> None:
        self._problem, self._groups, self._lacks = problem, groups, lacks
        self._rng, self.compiled = random.Random(seed), compiled
        grouped = estimates_groups(problem)
        self._asked = asked_of(problem, grouped=grouped, binds=lacks is not None, arrays=compiled)
        self._plain = listed(self._asked)
        self._drawn: SearchState | None = None
        self._played = 0

    def round(self, budget: Budget, heat: Heat, judge: DraftJudge) -> int:
        """Run one round from the start; return the number of moves tried. O((V + E) moves)."""
        problem, links = self._problem, len(self._problem.link_names)
        draft = draft_of(problem, self._groups)
        room = Room(problem, draft.device) if self._lacks is not None else None
        search = search_of(self._asked, links, draft, room, arrays=self.compiled)
        told = search_of(self._plain, links, draft, None, marks=False)
        counts, figures = search.counts, search.figures
        if self._drawn is not None:
            search.words[:], counts[DRAWN] = self._drawn.words, self._drawn.counts[DRAWN]
        self._drawn = search
        figures[NOW] = cost(self._plain, told)
        figures[SCALE] = figures[NOW] or 1.0
        figures[SPENT] = figures[NEXT_LOOK] = budget.spent(0)
        keep(search)
        advance = _compiled if self.compiled else anneal
        moves = 0 if budget.moves is None else max(budget.moves, 1)
        least = 16 if self.compiled else 1
        chunk = max(least, FIRST_WORK // max(problem.n, 1)) if self.compiled else least

        def groups(order: Array, device: Array, cut: Array) -> tuple[Group, ...]:
            drawn = told._replace(order=list(order), device=list(device), cut=list(cut))
            return groups_of(problem, self._plain, drawn)

        best = search.best_order, search.best_device, search.best_cut
        withheld = [0] * len(problem.devices)
        while True:
            began_s = deadline.now_s()
            until = int(counts[TRIED]) + chunk
            why = advance(self._asked, search, heat.hot, heat.cold, moves, until)
            tried = int(counts[TRIED])
            if why == OVER or deadline.left_s() <= 0.0:
                break
            if why == DRAW:
                refill(search, self._rng)
            elif why == JUDGE:
                judge(groups(*best), last=False)
                counts[FRESH] = 0
                figures[NEXT_LOOK] = figures[SPENT] + 1.0 / heat.looks
            elif why == HOLDS:
                assert self._lacks is not None
                lacks = self._lacks(groups(search.order, search.device, search.cut))
                counts[ANSWER] = int(lacks is not None and not any(lacks))
                self._played += problem.n
                # Activations take room besides the weights: until another draft fits, a node enters
                # such a device only after one leaves.
                for p, nbytes in enumerate(lacks or () if self._played > PLAYED else ()):
                    less = min(nbytes, max(search.left[p], 0)) if nbytes else -withheld[p]
                    search.left[p] -= less
                    withheld[p] += less
            else:
                # As many moves as take CHUNK_S.
                took_s = max(deadline.now_s() - began_s, 1e-6)
                chunk = max(least, min(4 * chunk, int(chunk * CHUNK_S / took_s)))
            if budget.moves is None:
                figures[SPENT] = budget.spent(tried)
            say(float(figures[SPENT]))
        judge(groups(*best), last=True)
        return tried


def walk(
    problem: Problem,
    groups: tuple[Group, ...],
    seed: int,
    lacks: Lacks | None,
    budget: Budget,
) -> Walk:
    """Return the annealing state of `groups`, in machine code if that pays off."""
    if budget.moves is None:
        kept = _compiled.loaded or (_compiled.kept and deadline.may_load("numba"))
        least_s = COMPILE_FROM_S if kept else COMPILE_ANEW_FROM_S
        pays = budget.until_s - deadline.now_s() >= least_s
    else:
        work = budget.moves * problem.n * (GROUPED if estimates_groups(problem) else 1)
        kept = work >= LEAST and (_compiled.loaded or _compiled.kept)
        compile_from = KEPT_FROM if kept else COMPILE_FROM
        pays = compile_threshold.pays(_compiled, work, LEAST, compile_from)
    return Walk(problem, groups, seed, lacks, compiled=pays)


def rounds(walk: Walk, problem: Problem, budget: Budget, judge: DraftJudge) -> int:
    """Run rounds of ROUND moves per task within the budget; return the number of moves tried."""
    hot = min(HOT, FINE / max(problem.n, 1))
    most = ROUND * problem.n
    if budget.moves is not None:
        count = min(MOST_ROUNDS, max(1, budget.moves // max(most, 1)))
        parts = [budget.moves * (k + 1) // count - budget.moves * k // count for k in range(count)]
        tried = 0
        for k, heat in enumerate(_heats(hot, count)):
            with part(k / count, (k + 1) / count):
                tried += walk.round(Budget(parts[k]), heat, judge)
        return tried
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
