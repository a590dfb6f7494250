"""Strategy ``mincut``: the least total of compute and transfer times, by minimum cuts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hetsim.errors import UsageError
from hetsim.placement.constraints import Constrained
from hetsim.placement.grouping import best_grouping, merge_where_it_pays
from hetsim.placement.search.cuts import least_serial
from hetsim.placement.starts import prepared
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Mincut(Constrained):
    """The least total serial latency: nodes one after another, and transfers one at a time.

    The total is the sum of every node's time on its device and of every transfer's time, once
    a destination device, to the host and back included; staging counts, dispatch does not. On
    two devices the assignment is the best there is, up to how finely capacities are scaled
    (``cuts.expand``). On more, alpha-expansion: device by device, the best set of
    nodes to move there at once, until none helps. What a move would save on transfers from it to
    a third device is left out of its choice, so that the total never rises; else it is exact.
    Grouping is by the clock, which runs devices side by side: the latency is at most the total
    and what dispatch adds. Memory is not weighed; a plan that misses it is changed until it fits.

    Attributes
    ----------
    rounds : int
        Most times that every device is tried as the target, with more than two devices.

    Sources: H. S. Stone, Multiprocessor scheduling with the aid of network flow algorithms,
    IEEE TSE 3(1), 1977; Y. Boykov, O. Veksler, R. Zabih, Fast approximate energy minimization
    via graph cuts, IEEE TPAMI 23(11), 2001. Beyond Stone: a tensor is paid once a destination,
    by a node of the network for each tensor and direction.
    """

    rounds: int = 10

    name: ClassVar[str] = "mincut"

    def solve(self, problem: Problem) -> Plan:
        """Return the plan: one maximum flow on two devices, else rounds x P of them."""
        if self.rounds < 1:
            raise UsageError(f"{self.rounds} rounds", hint="allow 1 or more")
        return self.within(problem, self._solve)

    def _solve(self, problem: Problem) -> Plan:
        coarse = prepared(problem)
        assignment = least_serial(coarse.problem, self.rounds)
        groups, how = best_grouping(
            coarse.problem, assignment, range(coarse.problem.n), may_miss=True
        )
        groups = merge_where_it_pays(coarse.problem, groups)
        reason = f"least total of compute and transfers, grouped by {how}"
        return Plan(problem, self.name, coarse.spread(groups), reason)
