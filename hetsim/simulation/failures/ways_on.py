"""In which ways requests go on when a device is lost: what each has, and what it has to do yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from hetsim.simulation.failures.alike import alike
from hetsim.simulation.failures.changing import HAS_ENDED, IS_RUNNING, InFlight
from hetsim.simulation.failures.remaining import Layout
from hetsim.simulation.failures.rests import Rest, Rests, leftovers

LayoutFor = Callable[[Rest, int], Layout]


class Onward(NamedTuple):
    """How a request goes on.

    Attributes
    ----------
    rest : int
        What it has to do; -1: nothing.
    over : bool
        Whether that makes it over.
    places : dict of int to int
        Where in the rest a task stands that goes on, by its place before.
    """

    rest: int
    over: bool
    places: dict[int, int]


def ways_on(
    flight: InFlight,
    rests: Rests,
    layout_for: LayoutFor,
    dealt: NDArray[np.int64],
    device: int,
) -> tuple[list[Onward], NDArray[np.int64]]:
    """Return in which ways requests go on without what they had on a device, and each one's.

    Parameters
    ----------
    flight : InFlight
        By the templates that `rests` has laid out.
    rests : Rests
        Takes up what is new.
    layout_for : function
        Of a rest and a number of `dealt`: the plan by which it goes on.
    dealt : int array [requests]
        For each the number of what it runs, where that is left to choose.
    device : int
        One beyond all that there are: nothing is lost.

    Complexity: O(tasks in flight), and V + E of the plan a way.
    """
    ways: list[Onward] = []
    way = np.zeros(len(flight.request), dtype=np.int64)
    rest = rests.used[flight.template]
    begun = flight.progress.any(axis=1)
    # Those that nothing has happened to are alike by rest and replica.
    waiting = np.flatnonzero(~begun)
    kinds = rest[waiting] * (dealt.max(initial=0) + 1) + dealt[waiting]
    for kind in np.unique(kinds):
        same = waiting[kinds == kind]
        row = same[0]
        way[same] = len(ways)
        ways.append(
            _way_on(
                rests, layout_for, int(rest[row]), int(dealt[row]), flight.progress[row], device
            )
        )
    rows = np.flatnonzero(begun)
    first, kind = alike((rest[rows], dealt[rows]), flight.progress[rows])
    way[rows] = len(ways) + kind
    ways += [
        _way_on(rests, layout_for, int(rest[row]), int(dealt[row]), flight.progress[row], device)
        for row in rows[first].tolist()
    ]
    return ways, way


def _way_on(
    rests: Rests,
    layout_for: LayoutFor,
    number: int,
    dealt: int,
    progress: NDArray[np.int8],
    device: int,
) -> Onward:
    """How a request goes on without what it had on a device."""
    rest = rests.known[number]
    state = progress[: len(rest.tasks)].tolist()
    running = [
        place
        for place, task in enumerate(rest.tasks)
        if state[place] == IS_RUNNING and not task.needs(device)
    ]
    tasks = tuple(rest.tasks[place] for place in running)
    over = False
    found: Rest | None = None
    if any(counted and done != HAS_ENDED for counted, done in zip(rest.counts, state, strict=True)):
        layout = layout_for(rest, dealt)
        held, computed = _progress(layout.plan.problem, rest, state, device)
        key = (layout, frozenset(held.items()), computed, tasks)
        number = rests.number(key, lambda: layout.rest(held, computed, tasks))
        found = rests.known[number]
        over = not any(found.counts)
    if found is None or over:
        if not tasks:
            return Onward(-1, over, {})
        number = rests.number(("left", tasks), lambda: leftovers(rest, tasks))
        found = rests.known[number]
    return Onward(number, over, dict(zip(running, found.under_way, strict=True)))


def _progress(
    problem: Problem, rest: Rest, state: Sequence[int], device: int
) -> tuple[dict[int, frozenset[int]], frozenset[int]]:
    """What is held where, without a lost device, and which nodes nobody reads from have run."""
    held = {value: set(places) for value, places in rest.held.items()}
    computed = set(rest.computed)
    for task, done in zip(rest.tasks, state, strict=True):
        if done == HAS_ENDED:
            computed.update(task.ends)
            for value, place in task.gives:
                held.setdefault(value, set()).add(place)
    for value, places in held.items():
        # Inputs, and outputs that have arrived, are with the caller.
        caller = device == problem.host and (
            problem.values[value].producer == GRAPH_INPUT or problem.values[value].is_output
        )
        if not caller:
            places.discard(device)
    kept = {value: frozenset(places) for value, places in held.items() if places}
    return kept, frozenset(computed)
