"""What ``annealing.PythonWalk`` does, in the subset of Python that numba compiles.

The same draws, the same additions and comparisons in the same order: what comes out is the same,
bit for bit. It makes no arrays; ``tables`` has those that it takes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from hetsim.base.machine_code import machine_code
from hetsim.placement.search.draws import draw_32, draw_below, draw_share, next_share
from hetsim.placement.search.estimates_kernel import (
    add_up,
    begin,
    cost,
    cost_of_groups,
    cost_of_nodes,
    finish,
    first_changed,
    gather,
    mark,
    resume,
    send,
    settle,
)
from hetsim.placement.search.moves_kernel import (
    assign,
    follow,
    other,
    propose,
    put,
    shift,
    undo,
    weigh,
)
from hetsim.placement.search.records import (
    ANSWER,
    ASKING,
    BEST,
    CHANGED,
    COST,
    ENDED,
    FRESH,
    LIMIT,
    LOOKED,
    NEXT_LOOK,
    NOW,
    SCALE,
    SHIFTED,
    SOURCE,
    SPENT,
    TEMPERATURE,
    TRIED,
    Asked,
    Search,
)

OVER, JUDGE, HOLDS, PAUSE = 0, 1, 2, 3
"""Why ``anneal`` returns: the budget is spent; the best draft is to be judged; whether the draft
fits the memory is to be told; as many moves as wished were tried."""


SLACK = 1e-9


def keep(search: Search) -> None:
    """Take the draft as the best one."""
    for k in range(len(search.order)):
        search.best_order[k] = search.order[k]
        search.best_device[k] = search.device[k]
        search.best_cut[k] = search.cut[k]
    search.figures[BEST] = search.figures[NOW]
    search.counts[FRESH] = 1


def dropped_from(temperature: float, now: float, share: float) -> float:
    """Return a cost from which on, whatever it is, a draft is not accepted with this draw.

    It is above the least such by more than what floats round off, of exponentials and of sums.
    """
    if share <= 0.0:
        return math.inf
    return (now + temperature * (SLACK - math.log(share))) * (1.0 + SLACK)


def note(asked: Asked, search: Search) -> None:
    """Estimate the draft as it stands to its end, and note the marks."""
    limit = search.figures[LIMIT]
    search.figures[LIMIT] = math.inf
    for p in range(asked.devices):
        search.load[p] = 0.0
    search.counts[CHANGED] = 0
    # As if the first place were changed.
    search.counts[SHIFTED] = search.counts[SOURCE] = 0
    cost_of_nodes(asked, search)
    settle(asked, search)
    search.counts[SHIFTED] = -1
    search.figures[LIMIT] = limit


def anneal(asked: Asked, search: Search, hot: float, cold: float, moves: int, until: int) -> int:
    """Anneal on until the moves are tried, or until there is something to ask; return which.

    Parameters
    ----------
    asked : Asked
    search : Search
        With ``figures[NOW]`` and ``figures[BEST]`` the cost of the draft at first, and
        ``counts[LOOKED]`` -1.
    hot, cold : float
        As shares of ``figures[SCALE]``.
    moves : int
        The budget; 0: the caller sets ``figures[SPENT]`` where it is called again.
    until : int
        Return before this many moves were tried.
    """
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
                resume(asked, search, asked.nodes)
                undo(asked, search)
        tried = counts[TRIED]
        # Where it was just looked at, its move is still to be tried.
        if figures[SPENT] >= 1.0 and counts[LOOKED] != tried:
            return OVER
        if tried >= until:
            return PAUSE
        if tried % 16 == 0 and counts[LOOKED] != tried:
            counts[LOOKED] = tried
            if moves > 0:
                figures[SPENT] = tried / moves
            spent = figures[SPENT]
            figures[TEMPERATURE] = figures[SCALE] * hot * (cold / hot) ** min(spent, 1.0)
            if counts[FRESH] and spent >= figures[NEXT_LOOK]:
                return JUDGE
        counts[TRIED] = tried + 1
        if not propose(asked, search):
            continue
        now = figures[NOW]
        figures[LIMIT] = dropped_from(figures[TEMPERATURE], now, next_share(search.twister))
        found = cost(asked, search)
        if found < figures[BEST] and asked.binds:
            figures[COST] = found
            counts[ASKING] = 1
            return HOLDS
        if found <= now or draw_share(search.twister) < math.exp(
            (now - found) / figures[TEMPERATURE]
        ):
            figures[NOW] = found
            settle(asked, search)
            if found < figures[BEST]:
                keep(search)
        else:
            if counts[ENDED]:
                resume(asked, search, asked.nodes)
            undo(asked, search)


PARTS = (
    draw_32,
    draw_share,
    next_share,
    draw_below,
    put,
    weigh,
    undo,
    assign,
    other,
    follow,
    shift,
    propose,
    send,
    finish,
    first_changed,
    add_up,
    begin,
    mark,
    settle,
    resume,
    cost_of_nodes,
    gather,
    cost_of_groups,
    cost,
    keep,
    dropped_from,
    note,
)


@functools.cache
def compiled() -> Callable[..., Any]:
    """Return ``anneal`` as machine code. The first call in a process loads numba."""
    return machine_code(anneal, *PARTS, inline=True)
