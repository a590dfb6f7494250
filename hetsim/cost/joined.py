"""Several nodes of floats as one kernel: their work, but for what goes from one to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hetsim.cost.model import Kernel
from hetsim.graph.graph import Graph
from hetsim.graph.work import Work, graph_work

_KEPT = "uses"


@dataclass(frozen=True, slots=True)
class Uses:
    """A graph and who reads its values.

    Attributes
    ----------
    graph : Graph
    readers : mapping of str to tuple of int
        As ``Graph.consumers`` gives it.
    outputs : frozenset of str
    """

    graph: Graph
    readers: Mapping[str, tuple[int, ...]]
    outputs: frozenset[str]
    _joined: dict[tuple[int, ...], Kernel] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(graph: Graph) -> Uses:
        """Return the uses of the values of `graph`; kept with it. O(V + E) at first."""
        known: Any = graph.kept.get(_KEPT)
        if known is None:
            known = Uses(graph, graph.consumers(), frozenset(graph.outputs))
            graph.kept[_KEPT] = known
        uses: Uses = known
        return uses

    def inner(self, members: Sequence[int]) -> frozenset[str]:
        """Return the values that `members` make and that none else reads. O(operands)."""
        inside = set(members)
        return frozenset(
            name
            for v in members
            for name in self.graph.nodes[v].writes
            if name not in self.outputs
            and (readers := self.readers.get(name))
            and inside.issuperset(readers)
        )


def joined_kernel(uses: Uses, members: Sequence[int]) -> Kernel:
    """Return the kernel that does the work of `members`, ascending, at once. O(operands).

    What one of them makes is in registers for the others: it is not read again, nor written
    where none else reads it. What several of them read from outside is read once. It is known
    from then on: devices mostly join the same nodes.
    """
    key = tuple(members)
    known = uses._joined.get(key)
    if known is None:
        known = uses._joined[key] = _made(uses, key)
    return known


def _made(uses: Uses, members: tuple[int, ...]) -> Kernel:
    graph, inner = uses.graph, uses.inner(members)
    works = graph_work(graph)
    seen: set[str] = set()
    done: list[Work] = []
    for v in members:
        node, work = graph.nodes[v], works[v]
        again = [name for name in node.reads if name in seen and name not in graph.constants]
        unread = sum(graph.tensors[name].nbytes for name in again)
        unwritten = sum(graph.tensors[name].nbytes for name in node.writes if name in inner)
        if unread or unwritten:
            # Of what is only touched in part, less is read than there is.
            work = replace(
                work,
                read_bytes=max(0, work.read_bytes - unread),
                write_bytes=max(0, work.write_bytes - unwritten),
            )
        done.append(work)
        seen.update(node.reads, node.writes)
    return Kernel(tuple(done))
