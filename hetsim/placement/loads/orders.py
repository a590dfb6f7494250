"""Topological orders to be cut into stages: three by rule, then changes of the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from hetsim.graph.contraction import Contraction
from hetsim.graph.dag import Dag, topological_order
from hetsim.placement.loads.costs import Costs
from hetsim.problem.groups import order_groups


class Orders:
    """Orders of the nodes of `costs` in which the members of a kernel stand together.

    Without that a cut could hardly avoid them: kernels are contracted, the largest first, as
    long as that closes no cycle, and the orders are of what is left.
    """

    def __init__(self, costs: Costs) -> None:
        labels = list(range(costs.n))
        state = Contraction(costs.dag)
        nodes = sorted({kernel.nodes for kernel in costs.kernels}, key=lambda v: (-len(v), v))
        for members in nodes:
            if not any(state.taken(v) for v in members) and not state.cycle(members):
                state.add(members)
                for v in members:
                    labels[v] = members[0]
        parts = order_groups(costs.dag, labels)
        assert parts is not None
        place = [0] * costs.n
        for index, part in enumerate(parts):
            for v in part:
                place[v] = index
        self._parts = parts
        self.dag = Dag.from_edges(
            len(parts), ((place[u], place[v]) for u, v in costs.dag.edges() if place[u] != place[v])
        )

    def spread(self, order: Sequence[int]) -> list[int]:
        """Return an order of the parts as one of the nodes."""
        return [v for part in order for v in self._parts[part]]

    def by_rule(self) -> Iterator[list[int]]:
        """Give the orders of parts to begin with: by id, and depth first from either end."""
        yield list(range(self.dag.n))
        yield depth_first(self.dag.preds, self.dag.succs)
        yield depth_first(self.dag.succs, self.dag.preds)[::-1]

    def by_keys(self, keys: Sequence[float]) -> list[int]:
        """Return the order of parts that follows `keys` as far as the edges allow."""
        order = topological_order(self.dag.succs, keys)
        assert order is not None
        return order


def depth_first(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """Return a topological order that follows a path as far as it goes. O(V + E)."""
    waits = [len(found) for found in before]
    stack = [v for v in range(len(before) - 1, -1, -1) if waits[v] == 0]
    order: list[int] = []
    while stack:
        node = stack.pop()
        order.append(node)
        for v in reversed(after[node]):
            waits[v] -= 1
            if waits[v] == 0:
                stack.append(v)
    return order


def changed(keys: Sequence[float], random: Random) -> list[float]:
    """Give a few parts, where there are any, another key: near the old one or anywhere."""
    made = list(keys)
    for _ in range(1 + random.randrange(min(8, len(made))) if made else 0):
        part = random.randrange(len(made))
        near = random.random() < 0.5
        made[part] = made[part] + random.gauss(0.0, 0.1) if near else random.random()
    return made
