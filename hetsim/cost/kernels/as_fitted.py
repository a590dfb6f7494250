"""Kernels of a device priced by fitted figures, and the choice of figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hetsim.cost.joined import Uses, joined_kernel
from hetsim.cost.kernels.as_floats import Floats, floats_of, is_integer_op
from hetsim.cost.kernels.epilogues import epilogues
from hetsim.cost.kernels.features import PRODUCTS
from hetsim.cost.model import Kernel
from hetsim.cost.roofline import instead
from hetsim.device.support.quantized import DEQUANTIZE, Quantized, is_quantized
from hetsim.device.support.rules import Support
from hetsim.graph.graph import ITEM_BITS, Graph, Node
from hetsim.graph.work import Work, graph_work, op_key
from hetsim.hardware.executing import INT8
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.spec import DeviceSpec

_KEPT = "as fitted"


@dataclass(frozen=True, slots=True)
class FittedPart:
    """A kernel of the float graph, or what of one a device takes apart from the rest.

    Attributes
    ----------
    composite : int or None
        Index of the composite that it is in; None: outside of all.
    core : tuple of int
        Nodes of the float graph, ascending.
    before : tuple of int
        Those of the same kernel that come before it, in another part: what it takes is what the
        kernel takes longer for it.
    """

    composite: int | None
    core: tuple[int, ...]
    before: tuple[int, ...] = ()


class AsFitted:
    """The kernels of a quantized graph on a device with figures for int8.

    Attributes
    ----------
    floats : Floats
        The float graph, and which node of the quantized graph each of its nodes is.
    kinds : tuple of str or None
        By node of the float graph: the type that it is computed in, None for its own.
    """

    def __init__(self, graph: Graph, spec: DeviceSpec) -> None:
        self.graph = graph
        self.floats = floats_of(graph)
        self.found = Quantized(graph, spec)
        self.works = graph_work(self.floats.graph)
        self.uses = Uses.of(self.floats.graph)
        self.kinds = _kinds(self.found, self.floats, self.works, spec)
        self.float_of = {old: new for new, old in enumerate(self.floats.sources)}

    @staticmethod
    def of(graph: Graph, spec: DeviceSpec) -> AsFitted | None:
        """Return them; None where nothing of the graph is priced by figures for int8.

        Kept with the graph. O(V + E) at first.
        """
        if spec.executes is not None or INT8 not in spec.kernels or not spec.quantized:
            return None
        if not is_quantized(graph):
            return None
        made = AsFitted._kept(graph, spec)
        return made if INT8 in made.kinds else None

    @staticmethod
    def _kept(graph: Graph, spec: DeviceSpec) -> AsFitted:
        """Those of `graph`: of a device, only the ops that it computes in integers matter."""
        known: Any = graph.kept.setdefault(_KEPT, {})
        if spec.quantized not in known:
            known[spec.quantized] = AsFitted(graph, spec)
        found: AsFitted = known[spec.quantized]
        return found

    def kernel(self, core: Sequence[int]) -> Kernel:
        """Return what a kernel of these nodes of the float graph does. O(operands)."""
        if len(core) == 1:
            return Kernel((self.works[core[0]],))
        return joined_kernel(self.uses, tuple(core))

    def parts(self, support: Support) -> tuple[FittedPart, ...]:
        """Return the kernels of what the device takes; one across composites in parts. O(V + E)."""
        sources = self.floats.sources
        inside = {v: at for at, match in enumerate(support.composites) for v in match.nodes}
        free = [support.supported[v] or v in inside for v in sources]
        cores = list(epilogues(self.floats.graph, self.works, free, self.kinds))
        within = {v for core in cores for v in core}
        cores += [(v,) for v, is_free in enumerate(free) if is_free and v not in within]
        found: list[FittedPart] = []
        for core in cores:
            places = [inside.get(sources[v], -1 - v) for v in core]
            if max(places) < 0:
                found.append(FittedPart(None, core))
                continue
            before: tuple[int, ...] = ()
            for place in dict.fromkeys(places):
                own = tuple(v for v, at in zip(core, places, strict=True) if at == place)
                found.append(FittedPart(place if place >= 0 else None, own, before))
                before = tuple(sorted((*before, *own)))
        return tuple(found)

    def with_conversions(
        self, parts: Sequence[FittedPart], support: Support
    ) -> tuple[tuple[int, ...], ...]:
        """Return the nodes of each part, ascending: its own, and the conversions that go with it.

        A store joins what makes its operand, a load what alone reads it, so that contracting a
        set closes no cycle. What is in a composite stays there. O(V + E).
        """
        sources = self.floats.sources
        inside = {v for match in support.composites for v in match.nodes}
        members = [[sources[v] for v in part.core] for part in parts]
        home = {v: at for at, own in enumerate(members) for v in own}
        left = [
            node
            for node in self.graph.nodes
            if node.id not in self.float_of and support.supported[node.id] and node.id not in inside
        ]

        def place(node: Node, at: int | None) -> None:
            if at is not None and node.id not in home and parts[at].composite is None:
                home[node.id] = at
                members[at].append(node.id)

        for node in left:
            if op_key(node) not in DEQUANTIZE:
                place(node, self._maker(node, home))
        for node in reversed(left):
            place(node, self._reader(node, home))
        for node in left:
            if self.found.outputs.intersection(node.writes):
                place(node, self._maker(node, home))
        return tuple(tuple(sorted(own)) for own in members)

    def _maker(self, node: Node, home: dict[int, int]) -> int | None:
        """The set of all that `node` reads of what nodes make."""
        makers = {self.found.producers.get(name) for name in node.reads} - {None}
        homes = {None if maker is None else home.get(maker) for maker in makers}
        return homes.pop() if len(homes) == 1 else None

    def _reader(self, node: Node, home: dict[int, int]) -> int | None:
        """The set of all that reads what `node` makes, where that is no output."""
        if self.found.outputs.intersection(node.writes):
            return None
        homes = {home.get(reader) for reader in self.found.readers_of(node.id)}
        return homes.pop() if len(homes) == 1 else None


def mostly_integers(graph: Graph, spec: DeviceSpec) -> bool:
    """Whether a device computes most of the products of a quantized graph in integers.

    By FLOP; where there are no products, by nodes. O(V + E) at first.
    """
    if not spec.quantized or not is_quantized(graph):
        return False
    made = AsFitted._kept(graph, spec)
    each = [work.flops if work.form in PRODUCTS else 0 for work in made.works]
    if not any(each):
        each = [1] * len(each)
    inside = sum(n for n, kind in zip(each, made.kinds, strict=True) if kind is not None)
    return bool(each) and 2 * inside >= sum(each)


def _kinds(
    found: Quantized, floats: Floats, works: Sequence[Work], spec: DeviceSpec
) -> tuple[str | None, ...]:
    """Return the type that each node of the float graph is computed in; None: its own.

    Products say it themselves, what else says it by its operands too; the rest follows what makes
    its first operand, and at the start of a graph what reads its result: runtimes that compute
    a network in int8 were measured with those ops in it.
    """
    graph, old = floats.graph, found.graph.nodes
    makers, readers = graph.producers(), graph.consumers()
    kinds: list[str | None] = []
    known: list[bool] = []
    for node, work, source in zip(graph.nodes, works, floats.sources, strict=True):
        kind = INT8 if is_integer_op(old[source]) else found.arithmetic(old[source], spec.quantized)
        told = kind is not None or work.form in PRODUCTS
        if not told:
            before = [makers[name] for name in node.reads if name in makers]
            first = next((v for v in before if known[v]), None)
            if first is not None:
                kind, told = kinds[first], True
        kinds.append(kind)
        known.append(told)
    for node in reversed(graph.nodes):
        if not known[node.id]:
            after = [v for name in node.writes for v in readers.get(name, ()) if known[v]]
            if after:
                kinds[node.id], known[node.id] = kinds[after[0]], True
    return tuple(kinds)


def figures_for(device: DeviceSpec, dtype: str) -> tuple[KernelFigures, str]:
    """Return the figures that price arithmetic in `dtype`, and what had to be assumed.

    Those of the type; where the device has no peak for it those of the type in which it is
    computed instead; else those of the nearest type, with the rate by the ratio of the peaks: of
    floats for floats and of integers for integers where there are some, then by size, then the
    wider. On a device that executes in another precision, integers are priced by the figures of
    that precision. The device has figures of one precision at least. O(precisions).
    """
    known = device.kernels
    if dtype in known:
        return known[dtype], ""
    asked = device.executes
    if asked is not None and asked in known and "float" not in dtype:
        # Fitted to whole networks in that precision, whose indices and masks are in them.
        return known[asked], ""
    used = dtype if dtype in device.flops_per_s else instead(device, dtype)
    if used in known:
        return known[used], f"no {dtype} peak, taken as {used}"
    bits = ITEM_BITS.get(used, 32)
    nearest = min(
        known,
        key=lambda name: (
            ("float" in name) != ("float" in used),
            abs(math.log2(ITEM_BITS[name] / bits)),
            -ITEM_BITS[name],
            name,
        ),
    )
    peak = device.flops_per_s.get(nearest)
    if peak is None:
        return known[nearest], f"no {dtype} figures, taken as {nearest}"
    how = f"rate of {nearest} by the ratio of the datasheet's peaks"
    return with_rate(known[nearest], device.flops_per_s[used] / peak, how), (
        f"no {dtype} figures, those of {nearest} with the rate by the datasheet's peaks"
    )


def with_rate(figures: KernelFigures, ratio: float, how: str) -> KernelFigures:
    """Return the figures with the rate times `ratio`, which `how` says where from."""
    return replace(
        figures.times(ratio, "rate_tflops"),
        provenance={**figures.provenance, "rate_tflops": ("derived", how)},
    )


def executed_dtype(device: DeviceSpec, works: Sequence[Work]) -> str:
    """Return the type in which a device does most of the arithmetic of `works`, by FLOP.

    Where there is none, that of the first. Of equals the first. O(members).
    """
    flops: dict[str, int] = {}
    for work in works:
        flops[work.dtype] = flops.get(work.dtype, 0) + work.flops
    dtype = max(flops, key=flops.__getitem__, default="float32")
    return device.execution_dtype.get(dtype, dtype)


def model_figures(device: DeviceSpec, graph: Graph, works: Sequence[Work]) -> KernelFigures | None:
    """Return the figures by which a device does most of a graph; None where it has none at all.

    Those of int8 where it executes so, or computes quantized ops and most of the graph's products
    are in integers. O(V + E).
    """
    if not device.kernels:
        return None
    integers = device.executes == INT8 or mostly_integers(graph, device)
    return figures_for(device, INT8 if integers else executed_dtype(device, works))[0]
