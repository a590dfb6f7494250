"""Regions of nodes that each device supports, stored separately from the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from hetsim.core import checks
from hetsim.errors import UnsupportedNode
from hetsim.graph.dag import Dag
from hetsim.problem.groups import order_groups
from hetsim.problem.parts import FusedKernel
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes that a device runs as a whole or not at all.

    Attributes
    ----------
    device : str
    nodes : tuple of int
        Ascending.
    pattern : str
        Pattern that matched them; ``""`` for a single node.
    """

    device: str
    nodes: tuple[int, ...]
    pattern: str = ""


@dataclass(frozen=True, eq=False)
class Regions:
    """Supported regions of every device; regions of different devices may overlap.

    Attributes
    ----------
    problem : Problem
    alone : bool array [n, P]
        Whether node v is a region of its own of device p.
    composites : tuple of FusedKernel
        Regions of several nodes, disjoint within a device.
    withdrawn : mapping of (node, device) to str
        Reason why a supported region is not offered.
    """

    problem: Problem
    alone: NDArray[np.bool_]
    composites: tuple[FusedKernel, ...]
    withdrawn: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def of_device(self, device: str) -> Iterator[Region]:
        """Yield the regions of one device: composites first, then single nodes in graph order."""
        column = self.problem.device_index(device)
        for kernel in self.composites:
            if kernel.device == column:
                yield Region(device, kernel.nodes, kernel.pattern)
        for node in np.flatnonzero(self.alone[:, column]).tolist():
            yield Region(device, (node,))

    def holding(self, node: int) -> Iterator[Region]:
        """Yield the regions that contain a node, by device."""
        names = self.problem.devices
        for device, name in enumerate(names):
            kernel = self.composite_at(node, device)
            if kernel is not None:
                yield Region(name, kernel.nodes, kernel.pattern)
            if self.alone[node, device]:
                yield Region(name, (node,))

    def composite_at(self, node: int, device: int) -> FusedKernel | None:
        """Return the composite of `device` that contains `node`, or None."""
        return self._composite_of.get((node, device))

    @cached_property
    def _composite_of(self) -> dict[tuple[int, int], FusedKernel]:
        return {(v, kernel.device): kernel for kernel in self.composites for v in kernel.nodes}

    def without(self, withdrawals: Iterable[tuple[int, Sequence[int], str]]) -> Regions:
        """Return the regions without the given nodes of devices.

        Parameters
        ----------
        withdrawals : iterable of (device, nodes, why)

        A composite that loses a node is dropped. O(n P + composites).
        """
        alone = self.alone.copy()
        gone: dict[tuple[int, int], str] = {}
        for device, nodes, why in withdrawals:
            alone[list(nodes), device] = False
            gone.update(((node, device), why) for node in nodes)
        return replace(
            self,
            alone=alone,
            composites=tuple(
                kernel
                for kernel in self.composites
                if all((node, kernel.device) not in gone for node in kernel.nodes)
            ),
            withdrawn={**self.withdrawn, **gone},
        )

    def without_composites(self, dropped: Sequence[FusedKernel]) -> Regions:
        """Return the regions without these composites; their members stay single-node regions."""
        gone = set(dropped)
        return replace(self, composites=tuple(k for k in self.composites if k not in gone))

    def reason(self, node: int, device: int) -> str:
        """Return the reason why `device` does not get `node` alone, as ``DEVICE: reason``."""
        return self.reasons([node], device)[0]

    def reasons(self, nodes: Sequence[int], device: int) -> list[str]:
        """Return the reasons for `nodes`; see ``reason``."""
        name = self.problem.devices[device]
        refused = self.problem.refusals[device] if self.problem.refusals else {}
        if not refused and not self.withdrawn:
            return [f"{name}: not supported"] * len(nodes)
        found = [f"{name}: {why}" for why in map(refused.get, nodes, repeat("not supported"))]
        if self.withdrawn:
            for place, node in enumerate(nodes):
                why = self.withdrawn.get((node, device))
                if why:
                    found[place] = f"{name}: {why}"
        return found


@checks.takes(problem=checks.instance("hetsim.problem.problem:Problem"))
def annotate(problem: Problem) -> Regions:
    """Return the regions that each device supports, without assigning them.

    Source: TVM RFC, An extended graph partitioning flow, step 1; as its review asked, the regions
    are separate records instead of marks in the graph.
    """
    return Regions(problem, problem.supported, problem.composites)


def unsupported(
    problem: Problem,
    what: str,
    nodes: Sequence[int],
    devices: Iterable[int],
    hint: str | None = None,
) -> UnsupportedNode:
    """Return the error about nodes that devices do not support; it names the first node."""
    first = nodes[0]
    return UnsupportedNode(
        what,
        where=f"node '{problem.node_names[first]}' ({problem.op_types[first]})",
        hint=hint,
        nodes=tuple(problem.node_names[v] for v in nodes),
        ops=tuple(dict.fromkeys(problem.op_types[v] for v in nodes)),
        devices=tuple(problem.devices[p] for p in devices),
    )


@dataclass(frozen=True, eq=False)
class Quotient:
    """DAG with some sets of nodes contracted.

    Attributes
    ----------
    dag : Dag
        Node ids are a topological order, as everywhere.
    place : sequence of int
        Contracted node of each original node.
    """

    dag: Dag
    place: Sequence[int]

    @cached_property
    def members(self) -> Sequence[tuple[int, ...]]:
        """Original nodes of each contracted node, ascending. O(V)."""
        found: list[list[int]] = [[] for _ in range(self.dag.n)]
        for node, index in enumerate(self.place):
            found[index].append(node)
        return [tuple(nodes) for nodes in found]

    @classmethod
    def of(cls, dag: Dag, atoms: Sequence[tuple[int, ...]]) -> Quotient:
        """Return the DAG with disjoint sets contracted, which close no cycle. O(V log V + E)."""
        if not atoms:
            return cls(dag, range(dag.n))
        labels = list(range(dag.n))
        for atom in atoms:
            for node in atom:
                labels[node] = atom[0]
        parts = order_groups(dag, labels)
        if parts is None:
            raise AssertionError("regions to be kept whole form a cycle")
        place = [0] * dag.n
        for index, part in enumerate(parts):
            for node in part:
                place[node] = index
        edges = {(place[u], place[v]) for u, v in dag.edges() if place[u] != place[v]}
        return cls(Dag.from_edges(len(parts), edges), tuple(place))

    def devices(self, device_of: Sequence[int]) -> Sequence[int]:
        """Return the device of each contracted node from `device_of`, by original node.

        All nodes of a set are on one device.
        """
        if self.dag.n == len(self.place):
            return device_of
        return [device_of[nodes[0]] for nodes in self.members]

    def spread(self, labels: list[int]) -> list[int]:
        """Return the label of each original node's contracted node."""
        if self.dag.n == len(self.place):
            return labels
        return [labels[index] for index in self.place]
