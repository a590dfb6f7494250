"""From stages, or any assignment, to an executable plan."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.partitioning.flow import partition
from hetsim.placement.coarsening.tasks import Coarse
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


def plan_of_stages(
    problem: Problem, name: str, stages: Sequence[tuple[Sequence[int], int]], reason: str
) -> Plan:
    """Return the plan with one subgraph a stage. O(V + E).

    Parameters
    ----------
    problem : Problem
    name : str
        Of the strategy.
    stages : sequence of (nodes, device)
        Cover every node once, and feed each other in no circle.
    reason : str
    """
    labels = [-1] * problem.n
    assignment = [-1] * problem.n
    rank = [0.0] * problem.n
    for index, (nodes, device) in enumerate(stages):
        for node in nodes:
            labels[node], assignment[node], rank[node] = index, device, float(index)
    parts = order_groups(problem.dag, labels, rank)
    if parts is None:
        raise AssertionError(f"stages of '{name}' feed each other in a circle")
    return Plan(problem, name, as_groups(parts, assignment, problem.devices), reason)


def refined(coarse: Coarse, plan: Plan) -> Plan:
    """Return a plan of the tasks as a plan of the nodes that they stand for."""
    return Plan(coarse.fine, plan.strategy, coarse.spread(plan.groups), plan.reason)


def plan_of_assignment(problem: Problem, name: str, assignment: Sequence[int], reason: str) -> Plan:
    """Return the plan with as few subgraphs as ``compact`` finds."""
    return Plan(problem, name, partition(problem, "compact", assignment=assignment).groups, reason)
