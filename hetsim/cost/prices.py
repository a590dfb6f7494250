"""What the nodes of a graph take on one device: as kernels, fused ones, and graphs inside nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hetsim.cost.fusion import fused_chains
from hetsim.cost.model import CostModel, Kernel
from hetsim.cost.quantized import (
    composite_dtype,
    kernel_sets,
    quantized_kernel,
    shared_loads,
)
from hetsim.device.support.quantized import Quantized
from hetsim.device.support.rules import Support, by_rules, casts_nothing
from hetsim.errors import HetsimError
from hetsim.graph.graph import Graph, Node
from hetsim.graph.work import Work, graph_work, node_work
from hetsim.graph.work.control import ways
from hetsim.hardware.spec import DeviceSpec


@dataclass(frozen=True, slots=True)
class Fused:
    """Nodes that run as one kernel, and how long it takes; `pattern` as ``FusedKernel`` has it."""

    nodes: tuple[int, ...]
    seconds: float
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Prices:
    """One device and a cost model; it remembers what the graphs inside nodes cost.

    Attributes
    ----------
    spec : DeviceSpec
    cost : CostModel
    """

    spec: DeviceSpec
    cost: CostModel
    _known: dict[int, tuple[Graph, tuple[float, float] | None]] = field(default_factory=dict)

    def node(self, graph: Graph, node: Node) -> tuple[float, float]:
        """Return the most and the least seconds of `node` alone.

        They differ where data decide what it does. A node with graphs inside is the kernels of
        the one that it runs, as many times as it runs it, fused where the device fuses; it
        launches none of its own. One inside of which shapes are open is not priced: it takes
        what its own values take to move. O(nodes inside).
        """
        inside = ways(graph, node)
        if inside is not None:
            runs, others = self._each(inside.runs), self._each(inside.instead)
            if runs:
                most = max(most for most, _ in runs)
                return most, min(most, *(least for _, least in (*runs, *others)))
        if casts_nothing(self.spec, graph, node):
            return 0.0, 0.0
        work = node_work(graph, node)
        most = self._seconds((work,))
        return most, most if work.least is None else min(most, self._seconds((work.least,)))

    def fused(self, graph: Graph, support: Support, seconds: Sequence[float]) -> tuple[Fused, ...]:
        """Return what the device runs as one kernel: its patterns, and chains where they pay.

        `seconds` are those of the nodes alone.
        """
        quantized = Quantized(graph, self.spec)
        if quantized:
            return self._quantized(quantized, support)
        works = graph_work(graph)
        uses = _Uses(graph, graph.consumers(), frozenset(graph.outputs))
        found = [
            Fused(match.nodes, self._together(uses, works, match.nodes), match.pattern)
            for match in support.composites
        ]
        free = list(support.supported)
        for match in support.composites:
            for member in match.nodes:
                free[member] = False
        for members in fused_chains(graph, self.spec, free):
            together = self._together(uses, works, members)
            if together < float(sum(seconds[member] for member in members)):
                found.append(Fused(members, together))
        return tuple(found)

    def loads(self, graph: Graph, support: Support) -> dict[int, float]:
        """Return the seconds of nodes alone that share a DequantizeLinear, and of that: none.

        Each of them reads the integers, and converts as it loads.
        """
        quantized = Quantized(graph, self.spec)
        if not quantized:
            return {}
        shared = shared_loads(quantized, kernel_sets(quantized, self.spec, support))
        works = graph_work(graph)
        found = {v: 0.0 for v in sorted(shared) if support.supported[v]}
        for v in sorted({reader for load in found for reader in quantized.readers_of(load)}):
            if support.supported[v] and v not in shared and ways(graph, graph.nodes[v]) is None:
                kernel = quantized_kernel(quantized, works, (v,), None)
                found[v] = self.cost.estimate(self.spec, kernel).seconds
        return found

    def _quantized(self, quantized: Quantized, support: Support) -> tuple[Fused, ...]:
        """The kernels of a graph with integers in it; see ``kernel_sets``."""
        works = graph_work(quantized.graph)
        wanted = [
            (match.nodes, composite_dtype(quantized, self.spec, match.nodes), match.pattern)
            for match in support.composites
        ]
        sets = kernel_sets(quantized, self.spec, support)
        wanted += [(one.nodes, one.dtype, "") for one in sets]
        found: list[Fused] = []
        for nodes, dtype, pattern in wanted:
            kernel = quantized_kernel(quantized, works, nodes, dtype)
            found.append(Fused(nodes, self.cost.estimate(self.spec, kernel).seconds, pattern))
        return tuple(found)

    def _each(self, runs: Sequence[tuple[Graph, float]]) -> list[tuple[float, float]]:
        """The most and the least seconds of graphs that are run; without those not priced."""
        found = ((self._graph(graph), turns) for graph, turns in runs)
        return [(turns * it[0], turns * it[1]) for it, turns in found if it is not None]

    def _graph(self, graph: Graph) -> tuple[float, float] | None:
        """The most and the least seconds of a graph inside a node; None where shapes are open."""
        if id(graph) not in self._known:
            seconds: tuple[float, float] | None = None
            with suppress(HetsimError):
                seconds = self._summed(graph)
            self._known[id(graph)] = (graph, seconds)
        return self._known[id(graph)][1]

    def _summed(self, graph: Graph) -> tuple[float, float]:
        prices = [self.node(graph, node) for node in graph.nodes]
        support = Support(self.spec.name, (True,) * len(prices), {})
        if self.spec.patterns:
            support = by_rules(self.spec.name, self.spec, graph, library=True)
        for v, took_s in self.loads(graph, support).items():
            prices[v] = took_s, took_s
        alone = [most for most, _ in prices]
        most, least = sum(alone), sum(few for _, few in prices)
        for kernel in self.fused(graph, support, alone):
            apart = sum(alone[member] for member in kernel.nodes)
            if kernel.seconds < apart or not all(support.supported[v] for v in kernel.nodes):
                most -= apart - kernel.seconds
                # What data decide of its members is not told apart: none is below nothing.
                least -= min(apart - kernel.seconds, sum(prices[v][1] for v in kernel.nodes))
        return max(0.0, most), max(0.0, least)

    def _together(self, uses: _Uses, works: tuple[Work, ...], members: tuple[int, ...]) -> float:
        # A value made and read inside never moves: nor is it written, if none else reads it.
        inside = set(members)
        hidden = 0
        for node in members:
            for name in uses.graph.nodes[node].writes:
                readers = uses.readers.get(name, ())
                own = sum(reader in inside for reader in readers)
                unwritten = 0 < own == len(readers) and name not in uses.outputs
                hidden += (own + unwritten) * uses.graph.tensors[name].nbytes
        return self._seconds(tuple(works[node] for node in members), hidden)

    def _seconds(self, works: tuple[Work, ...], hidden: int = 0) -> float:
        return self.cost.estimate(self.spec, Kernel(works, hidden)).seconds


@dataclass(frozen=True, slots=True)
class _Uses:
    """A graph and who reads its values."""

    graph: Graph
    readers: Mapping[str, tuple[int, ...]]
    outputs: frozenset[str]
