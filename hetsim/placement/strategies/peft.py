"""Strategy ``peft``: earliest finish time with an optimistic look at the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import topological_order
from hetsim.placement.listing.columns import columns_of
from hetsim.placement.listing.list_schedule import Schedule, scheduled
from hetsim.placement.listing.optimism import compiled, look_ahead, pays
from hetsim.placement.listing.ranks import mean_route, rounded
from hetsim.placement.starting.constructive import Constructive
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Peft(Constructive):
    """Each node goes where its finish and the best that can follow are earliest.

    Objective: makespan. The optimistic cost of a node on a device is the longest way from
    there to an exit when every later node chooses freely, mean transfers where it changes
    device. Ready nodes go by their mean optimistic cost. Beyond the paper: an output's way
    back to the host counts as the end of the way, and what ``list_schedule.Listing`` says.

    Complexity: O(E P^2 + n P log n), and the grouping.

    Source: H. Arabnejad, J. G. Barbosa, List scheduling algorithm for heterogeneous systems
    by an optimistic cost table, IEEE TPDS 25(3), 2014.
    """

    name: ClassVar[str] = "peft"
    how: ClassVar[str] = "earliest finish with an optimistic cost table"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        table = optimistic_costs(problem)
        able = problem.supported
        sums = np.where(able, table, 0.0).sum(axis=1) / able.sum(axis=1).clip(min=1)
        keys = [-rank for rank in rounded(sums.tolist())]
        order = topological_order(problem.dag.succs, keys)
        assert order is not None
        return scheduled(problem, homes, order, ahead=table)


def optimistic_costs(problem: Problem) -> NDArray[np.float64]:
    """Return the optimistic cost table [n, P] in seconds; inf where nothing can follow."""
    count = len(problem.devices)
    latency_s, per_byte_s = mean_route(problem)
    columns = columns_of(problem)
    given = (
        columns.seconds, columns.made_at, columns.made_bytes, columns.leaves, columns.reader_at,
        columns.readers, columns.latency, columns.bandwidth,
        np.zeros(problem.n * count), np.empty(problem.n * count),
    )  # fmt: skip
    host = -1 if problem.host is None else problem.host
    if pays(len(columns.readers) * count):
        compiled()(count, host, latency_s, per_byte_s, *given)
        return given[-2].reshape(problem.n, count)
    rows = [column.tolist() for column in given]
    look_ahead(count, host, latency_s, per_byte_s, *rows)
    return np.array(rows[-2], dtype=np.float64).reshape(problem.n, count)
