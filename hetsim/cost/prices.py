"""Seconds of every node of a model on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hetsim.cost.kernels.float_equivalent import AsFitted, FittedPart, model_figures
from hetsim.cost.kernels.fusion import Uses, epilogues, joined_kernel
from hetsim.cost.kernels.layouts import copies_of, copy_work
from hetsim.cost.model import CostModel, Kernel
from hetsim.cost.quantized import (
    around_floats,
    composite_dtype,
    in_integers,
    kernel_sets,
    quantized_kernel,
    shared_loads,
)
from hetsim.device.support.quantized import (
    PRODUCTS,
    Quantized,
    as_int8,
    fitted_in_int8,
    fusing_key,
    integer_node,
    taken_off,
)
from hetsim.device.support.rules import Support, by_rules, casts_nothing
from hetsim.errors import HetsimError
from hetsim.graph.graph import ITEM_BITS, Graph, Node
from hetsim.graph.work import Work, graph_work, node_work, op_key
from hetsim.graph.work.control import ways
from hetsim.graph.work.layers import DEQUANTIZE as SHIFT_AND_SCALE
from hetsim.graph.work.products import REQUANTIZE
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.spec import FLOATS, DeviceSpec
from hetsim.hardware.variants import INT8

_USUAL = (tuple(sorted(PRODUCTS)), ("Clip", "Relu"))
"""Chain that forms one integer kernel if completely quantized, on any device: the quantized range
of the result implements the activation."""


def fused_chains(
    graph: Graph, spec: DeviceSpec, supported: Sequence[bool]
) -> tuple[tuple[int, ...], ...]:
    """Return matches of the device's fusion chains, with the default one for assumed int8.

    A chain v1, v2, ... matches if each node has an op type allowed at its position, is supported,
    and its value is read by the next node only and is no output of the graph. Nodes are tried in
    graph order, longer chains first; a node belongs to at most one match. O(V * chains).
    """
    consumers, outputs = graph.consumers(), set(graph.outputs)
    usual = (_USUAL,) if spec.executes == INT8 else ()
    chains = sorted((*spec.fusions, *usual), key=len, reverse=True)
    taken: set[int] = set()
    found: list[tuple[int, ...]] = []

    def matched(chain: Sequence[Sequence[str]], first: int) -> tuple[int, ...] | None:
        members: list[int] = []
        following: tuple[int, ...] = (first,)
        for allowed in chain:
            if len(following) != 1:
                return None
            node = graph.nodes[following[0]]
            free = node.id not in taken and supported[node.id]
            if not free or fusing_key(node, spec) not in allowed:
                return None
            members.append(node.id)
            hands_on = len(node.writes) == 1 and node.writes[0] not in outputs
            following = consumers.get(node.writes[0], ()) if hands_on else ()
        return tuple(members)

    for node in graph.nodes:
        match = next((it for chain in chains if (it := matched(chain, node.id))), None)
        if match is not None:
            taken.update(match)
            found.append(match)
    return tuple(found)


_CONVERTED = 1 << 20
"""Elements of the tensor used for the conversion cost per byte."""


@dataclass(frozen=True, slots=True)
class Fused:
    """Nodes that run as one kernel, and its seconds; `pattern` as in ``FusedKernel``."""

    nodes: tuple[int, ...]
    seconds: float
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of one device and a cost model; graphs inside nodes are cached."""

    spec: DeviceSpec
    cost: CostModel
    _known: dict[int, tuple[Graph, tuple[float, float] | None]] = field(default_factory=dict)
    _seconds: dict[tuple[bool, Kernel], float] = field(default_factory=dict)

    def node(self, graph: Graph, node: Node) -> tuple[float, float]:
        """Return the maximum and minimum seconds of `node` alone.

        They differ if its work depends on data. A node with graphs inside has the kernels of those
        that it runs, times their counts, fused if the device fuses; it has no launch of its own. If
        shapes inside are open, it is priced by moving its own values. O(nodes inside).
        """
        inside = ways(graph, node)
        if inside is not None:
            runs, others = self._each(inside.runs), self._each(inside.instead)
            if runs:
                most = max(most for most, _ in runs)
                return most, min(most, *(least for _, least in (*runs, *others)))
        if casts_nothing(self.spec, graph, node) or node.id in taken_off(self.spec, graph):
            return 0.0, 0.0
        work = node_work(graph, node)
        most = self._alone(graph, node, work)
        if work.least is None:
            return most, most
        return most, min(most, self._alone(graph, node, work.least))

    def borders(self, graph: Graph) -> tuple[float, float]:
        """Return seconds per byte of converting floats to int8, and back, for assumed int8.

        At the rate of a large tensor of the narrowest float type of the graph; a load or store
        converts without a launch. (0, 0) without assumed int8. O(V).
        """
        kinds = {tensor.dtype for tensor in graph.tensors.values()} & {*FLOATS}
        if self.spec.executes != INT8 or not kinds:
            return 0.0, 0.0
        kind = min(kinds, key=lambda name: (ITEM_BITS[name], name))
        wide = _CONVERTED * ITEM_BITS[kind] // 8
        enter = Work(REQUANTIZE * _CONVERTED, 0, 0, 0, "quantize", kind, True)
        leave = replace(enter, flops=SHIFT_AND_SCALE * _CONVERTED)
        # Values cross in the graph's own type, whatever type the device computes in.
        moved = Work(0, wide, _CONVERTED, 0, "quantize", INT8, True)
        estimates = (
            self.cost.estimate(self.spec, Kernel((work, moved))) for work in (enter, leave)
        )
        to_int8, back = ((found.seconds - found.launch_s) / wide for found in estimates)
        return to_int8, back

    def fused(
        self,
        graph: Graph,
        support: Support,
        seconds: Sequence[float],
        copies: Mapping[int, float],
    ) -> tuple[Fused, ...]:
        """Return the kernels that the device fuses: its patterns, and fusions that save time.

        Fusions are the declared chains and, with kernel figures, the result of ``epilogues``; if
        the figures state what joins, even those that do not pay off. `seconds` are those of the
        nodes alone, including `copies`.
        """
        fitted = AsFitted.of(graph, self.spec)
        if fitted is not None:
            return self._by_fitted(fitted, support)
        quantized = Quantized(graph, self.spec)
        if quantized:
            return self._quantized(quantized, support)
        works = graph_work(graph)
        uses = Uses.of(graph)
        figures = model_figures(self.spec, graph, works)
        said = figures is not None and figures.joins is not None

        def whole(members: tuple[int, ...]) -> float:
            copied = sum(copies.get(member, 0.0) for member in members)
            return self._together(uses, members) + copied

        found = [
            Fused(match.nodes, whole(match.nodes), match.pattern) for match in support.composites
        ]
        free = list(support.supported)
        for match in support.composites:
            for member in match.nodes:
                free[member] = False
        for members in self._sets(graph, works, free, figures):
            together = whole(members)
            if said or together < float(sum(seconds[member] for member in members)):
                found.append(Fused(members, together))
        return tuple(found)

    def copies(self, graph: Graph, support: Support) -> dict[int, float]:
        """Return the extra seconds of nodes for layout conversions.

        For a graph that the device runs whole: cuts are assumed not to add copies. Empty if the
        device's figures state no blocks; see ``hetsim.cost.kernels.layouts``. O(V + E).
        """
        figures = model_figures(self.spec, graph, graph_work(graph))
        if figures is None or figures.channel_block is None:
            return {}
        if self.spec.executes == INT8 or Quantized(graph, self.spec):
            return {}
        found: dict[int, float] = {}
        for copy in copies_of(graph, figures.channel_block):
            if support.supported[copy.node]:
                work = copy_work(copy.elements, figures.channel_block)
                took_s = self.cost.estimate(self.spec, Kernel((work,))).seconds
                found[copy.node] = found.get(copy.node, 0.0) + took_s
        return found

    def _sets(
        self,
        graph: Graph,
        works: Sequence[Work],
        free: Sequence[bool],
        figures: KernelFigures | None,
    ) -> tuple[tuple[int, ...], ...]:
        if figures is None:
            return fused_chains(graph, self.spec, free)
        kinds = None
        if self.spec.executes == INT8 and not fitted_in_int8(self.spec):
            kinds = [integer_node(self.spec, graph, node) for node in graph.nodes]
        return epilogues(graph, works, free, kinds, figures.joins)

    def loads(self, graph: Graph, support: Support) -> dict[int, float]:
        """Return the seconds of nodes that share a DequantizeLinear, which itself takes none.

        Each of them reads the integers and converts while loading. With int8 figures, those of all
        nodes priced by them.
        """
        fitted = AsFitted.of(graph, self.spec)
        if fitted is not None:
            return self._alone_as_fitted(fitted, support)
        quantized = Quantized(graph, self.spec)
        if not quantized:
            return {}
        shared = shared_loads(quantized, kernel_sets(quantized, self.spec, support))
        found = {v: 0.0 for v in sorted(shared) if support.supported[v]}
        for v in sorted({reader for load in found for reader in quantized.readers_of(load)}):
            if support.supported[v] and v not in shared and ways(graph, graph.nodes[v]) is None:
                found[v] = self._converting(quantized, (v,), None)
        return found

    def _quantized(self, quantized: Quantized, support: Support) -> tuple[Fused, ...]:
        """Return the kernels of a graph with integers; see ``kernel_sets``."""
        works = graph_work(quantized.graph)
        wanted = [
            (match.nodes, composite_dtype(quantized, self.spec, match.nodes), match.pattern)
            for match in support.composites
        ]
        sets = kernel_sets(quantized, self.spec, support)
        wanted += [(one.nodes, one.dtype, "") for one in sets]
        found: list[Fused] = []
        for nodes, dtype, pattern in wanted:
            spec, graph = self.spec, quantized.graph
            integers = self._integers(graph, nodes)
            if integers:
                spec, dtype = as_int8(spec), INT8
            kernel = quantized_kernel(quantized, works, nodes, dtype)
            if spec.executes == INT8 and not integers:
                members, own = [graph.nodes[v] for v in nodes], [works[v] for v in nodes]
                inner = Uses.of(graph).inner(nodes)
                converted = around_floats(graph, members, own, inner)
                kernel = replace(kernel, works=(*kernel.works, *converted))
            found.append(Fused(nodes, self.cost.estimate(spec, kernel).seconds, pattern))
        return tuple(found)

    def _converting(self, found: Quantized, nodes: Sequence[int], dtype: str | None) -> float:
        """Return the seconds of one kernel of nodes with conversions within it."""
        kernel = quantized_kernel(found, graph_work(found.graph), nodes, dtype)
        return self.cost.estimate(self.spec, kernel).seconds

    def _part(self, fitted: AsFitted, part: FittedPart) -> float:
        """Return the seconds that a part adds to an integer kernel."""
        spec = as_int8(self.spec)
        whole = self._of(spec, fitted.kernel(sorted((*part.before, *part.core))))
        return (
            max(0.0, whole - self._of(spec, fitted.kernel(part.before))) if part.before else whole
        )

    def _by_fitted(self, fitted: AsFitted, support: Support) -> tuple[Fused, ...]:
        """Return the kernels of a quantized graph by int8 figures, as in `AsFitted`."""
        found, parts = fitted.found, fitted.parts(support)
        of_composite: dict[int, list[FittedPart]] = {}
        for part in parts:
            if part.composite is not None:
                of_composite.setdefault(part.composite, []).append(part)
        made: list[Fused] = []
        for at, match in enumerate(support.composites):
            own = of_composite.get(at, ())
            if own and all(fitted.kinds[v] == INT8 for part in own for v in part.core):
                seconds = sum(self._part(fitted, part) for part in own)
            else:
                dtype = composite_dtype(found, self.spec, match.nodes)
                seconds = self._converting(found, match.nodes, dtype)
            made.append(Fused(match.nodes, seconds, match.pattern))
        for part, nodes in zip(parts, fitted.with_conversions(parts, support), strict=True):
            if part.composite is not None or len(nodes) < 2:
                continue
            kind = fitted.kinds[part.core[0]]
            in_int8 = kind == INT8
            seconds = self._part(fitted, part) if in_int8 else self._converting(found, nodes, kind)
            made.append(Fused(nodes, seconds))
        return tuple(made)

    def _alone_as_fitted(self, fitted: AsFitted, support: Support) -> dict[int, float]:
        """Return seconds of nodes alone by int8 figures; 0 for conversions of several kernels."""
        graph, sources = fitted.graph, fitted.floats.sources
        parts = fitted.parts(support)
        within = {v for nodes in fitted.with_conversions(parts, support) for v in nodes}
        found = {
            node.id: 0.0
            for node in graph.nodes
            if node.id not in within
            and node.id not in fitted.float_of
            and support.supported[node.id]
        }
        for part in parts:
            for v in part.core:
                node = graph.nodes[sources[v]]
                if not support.supported[node.id] or ways(graph, node) is not None:
                    continue
                if fitted.kinds[v] == INT8:
                    alone = part if len(part.core) == 1 else FittedPart(None, (v,))
                    found[node.id] = self._part(fitted, alone)
                elif found.keys() & {fitted.found.producers.get(name) for name in node.reads}:
                    found[node.id] = self._converting(fitted.found, (node.id,), None)
        return found

    def _integers(self, graph: Graph, nodes: Sequence[int]) -> bool:
        """Return whether a kernel has assumed integers: decided by its first node except casts."""
        if fitted_in_int8(self.spec):
            return True
        kinds = (graph.nodes[v] for v in nodes if op_key(graph.nodes[v]) != "Cast")
        first = next(kinds, None)
        return first is not None and integer_node(self.spec, graph, first)

    def _each(self, runs: Sequence[tuple[Graph, float]]) -> list[tuple[float, float]]:
        """Return the maximum and minimum seconds of graphs that are run, without unpriced ones."""
        found = ((self._graph(graph), turns) for graph, turns in runs)
        return [(turns * it[0], turns * it[1]) for it, turns in found if it is not None]

    def _graph(self, graph: Graph) -> tuple[float, float] | None:
        """Return the maximum and minimum seconds of a graph inside a node, or None if open."""
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
        copies = self.copies(graph, support)
        for v, took_s in copies.items():
            prices[v] = prices[v][0] + took_s, prices[v][1] + took_s
        alone = [most for most, _ in prices]
        most, least = sum(alone), sum(few for _, few in prices)
        for kernel in self.fused(graph, support, alone, copies):
            apart = sum(alone[member] for member in kernel.nodes)
            taken = all(support.supported[v] for v in kernel.nodes)
            if kernel.seconds < apart or not kernel.pattern or not taken:
                most -= apart - kernel.seconds
                # Data dependence of its members is not separated, but never gives less than 0.
                least -= min(apart - kernel.seconds, sum(prices[v][1] for v in kernel.nodes))
        return max(0.0, most), max(0.0, least)

    def _together(self, uses: Uses, members: tuple[int, ...]) -> float:
        graph, spec = uses.graph, self.spec
        kernel = joined_kernel(uses, members)
        done = kernel.works
        if self._integers(graph, members):
            spec = as_int8(spec)
            done = tuple(
                in_integers(graph, graph.nodes[v], work, last=v == members[-1])
                for v, work in zip(members, done, strict=True)
            )
        elif spec.executes == INT8:
            nodes = [graph.nodes[v] for v in members]
            done += around_floats(graph, nodes, done, uses.inner(members))
        return self._of(spec, Kernel(done))

    def _alone(self, graph: Graph, node: Node, work: Work) -> float:
        spec, kernel = self.spec, Kernel((work,))
        if self._integers(graph, (node.id,)):
            spec, kernel = as_int8(spec), Kernel((in_integers(graph, node, work, last=True),))
        elif spec.executes == INT8:
            kernel = Kernel((work, *around_floats(graph, (node,), (work,))))
        return self._of(spec, kernel)

    def _of(self, spec: DeviceSpec, kernel: Kernel) -> float:
        """Return the seconds of a kernel, on the device as it is or in integers."""
        key = spec is self.spec, kernel
        if key not in self._seconds:
            self._seconds[key] = self.cost.estimate(spec, kernel).seconds
        return self._seconds[key]
