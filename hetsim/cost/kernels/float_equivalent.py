"""Float equivalent of a quantized network, priced by fitted figures.

Kernels are distinguished by their computation, and a network by its kernels: a network quantized in
any of ONNX's forms is equivalent to its original. Conversions are removed, stored integers become
floats again, and integer ops become their float ops."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hetsim.cost.kernels.formula import PRODUCTS
from hetsim.cost.kernels.fusion import Uses, epilogues, joined_kernel
from hetsim.cost.model import Kernel
from hetsim.cost.roofline import substitute_type
from hetsim.device.support.quantized import DEQUANTIZE, QUANTIZE, Quantized, is_quantized
from hetsim.device.support.rules import Support
from hetsim.graph.graph import ITEM_BITS, Graph, Node, Tensor
from hetsim.graph.work import Work, graph_work, op_key
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.spec import FLOATS, DeviceSpec
from hetsim.hardware.variants import INT8

_MS = "com.microsoft"
_OPERANDS: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "ConvInteger": ("Conv", (0, 1)),
    "MatMulInteger": ("MatMul", (0, 1)),
    "MatMulIntegerToFloat": ("MatMul", (0, 1)),
    "DynamicQuantizeMatMul": ("MatMul", (0, 1)),
    "QLinearConv": ("Conv", (0, 3, 8)),
    "QLinearConvTranspose": ("ConvTranspose", (0, 3, 8)),
    "QLinearMatMul": ("MatMul", (0, 3)),
    "QGemm": ("Gemm", (0, 3, 6)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearWhere": ("Where", (0, 1, 4)),
    "QLinearLeakyRelu": ("LeakyRelu", (0,)),
    "QLinearSigmoid": ("Sigmoid", (0,)),
    "QLinearSoftmax": ("Softmax", (0,)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "QLinearReduceMean": ("ReduceMean", (0,)),
}
"""Float op of each integer op, and positions of its operands among scales and zero points. Concat
has a variable number."""
_WHOLE = frozenset({"DynamicQuantizeLSTM", "QAttention", "QEmbedLayerNormalization"})
_DYNAMIC = "DynamicQuantizeLinear"
_NARROW = ("int8", "uint8", "int16", "uint16", "int4", "uint4")


@dataclass(frozen=True, slots=True)
class Floats:
    """Float equivalent of a graph, and the float node of each of its nodes."""

    graph: Graph
    sources: tuple[int, ...]


def floats_of(graph: Graph) -> Floats:
    """Return the float equivalent of `graph`: itself if nothing is quantized."""
    known: Any = graph.kept.get("as floats")
    if known is None:
        if is_quantized(graph):
            known = _Floats(graph).made()
        else:
            known = Floats(graph, tuple(range(len(graph.nodes))))
        graph.kept["as floats"] = known
    found: Floats = known
    return found


def as_floats(graph: Graph) -> Graph:
    """Return the graph of ``floats_of``."""
    return floats_of(graph).graph


def is_integer_op(node: Node) -> bool:
    """Return whether an op computes in integers without surrounding conversions."""
    name = op_key(node).rpartition(":")[2]
    return name in _OPERANDS or name.startswith("QLinear") or name in _WHOLE


class _Floats:
    """Graph during conversion to floats.

    `same` maps the result of a conversion to its source, `floats` has former integers, `scales` has
    values that are only scales.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = dict(graph.tensors)
        self.constants = set(graph.constants)
        self.same: dict[str, str] = {}
        self.scales: set[str] = set()
        self.floats: set[str] = set()

    def made(self) -> Floats:
        """Return the float graph."""
        graph = self.graph
        nodes = [made for node in graph.nodes for made in self._nodes(node)]
        floats = replace(
            graph,
            nodes=tuple(replace(node, id=at) for at, node in enumerate(nodes)),
            tensors=self.tensors,
            constants=frozenset(self.constants),
            outputs=tuple(self._of(name) for name in graph.outputs),
        )
        return Floats(floats, tuple(node.id for node in nodes))

    def _nodes(self, node: Node) -> Iterator[Node]:
        """Yield the float nodes of `node`: none if it only converts."""
        key, name = op_key(node), op_key(node).rpartition(":")[2]
        if node.writes and self.graph.dequantized.keys() >= set(node.writes):
            for value in node.writes:
                self._becomes_float(value)
            self.constants.update(node.writes)
        elif key in DEQUANTIZE | QUANTIZE:
            self._stands_for(node.outputs[0], node.inputs[0])
        elif name == _DYNAMIC:
            self._stands_for(node.outputs[0], node.inputs[0])
            self.scales.update(node.writes[1:])
        elif name in _OPERANDS or name == "QLinearConcat":
            yield self._product(node, name)
        elif not self._only_scales(node, name):
            yield self._plain(node)

    def _stands_for(self, value: str, source: str) -> None:
        """Replace a value by its source, as float if that was an integer."""
        found = self._of(source)
        self.same[value] = found
        self._becomes_float(found)

    def _product(self, node: Node, name: str) -> Node:
        """Return the float op of an integer op."""
        if name == "QLinearConcat":
            op_type, places = "Concat", tuple(range(2, len(node.inputs), 3))
        else:
            op_type, places = _OPERANDS[name]
        operands = [self._of(node.inputs[at]) for at in places if at < len(node.inputs)]
        for value in (*operands, *node.writes):
            if value and self.tensors[value].dtype != "bool":
                self._becomes_float(value)
        domain = "" if node.domain in ("", "ai.onnx", _MS) else node.domain
        return replace(node, op_type=op_type, domain=domain, inputs=tuple(operands))

    def _only_scales(self, node: Node, name: str) -> bool:
        """Return whether it computes scales, or converts integer sums of a product to floats."""
        inputs = [self._of(value) for value in node.inputs if value]
        unlike = [value for value in inputs if value not in self.scales]
        if name == "Cast" and inputs[0] in self.floats:
            was, becomes = (self.graph.tensors[value].dtype for value in (inputs[0], *node.writes))
            if was not in FLOATS and becomes in FLOATS:
                self.same[node.outputs[0]] = inputs[0]
                return True
        if name != "Mul" or len(unlike) == len(inputs):
            return False
        if len(unlike) == 1 and unlike[0] in self.floats:
            self.same[node.outputs[0]] = unlike[0]
            return True
        if self.constants.issuperset(unlike):
            self.scales.update(node.writes)
            return True
        return False

    def _plain(self, node: Node) -> Node:
        """Return an unchanged op; results of former integers become floats too."""
        inputs = tuple(self._of(value) if value else "" for value in node.inputs)
        if self._looks_up(node):
            self._becomes_float(inputs[0])
        if any(value in self.floats for value in inputs):
            for value in node.writes:
                if self.graph.tensors[value].dtype in _NARROW:
                    self._becomes_float(value)
        return replace(node, inputs=inputs)

    def _looks_up(self, node: Node) -> bool:
        """Return whether it gathers rows of a stored table of small integers."""
        if node.op_type != "Gather" or node.inputs[0] not in self.graph.constants:
            return False
        return self.graph.tensors[node.inputs[0]].dtype in _NARROW

    def _of(self, value: str) -> str:
        return self.same.get(value, value)

    def _becomes_float(self, value: str) -> None:
        """Mark a value as float."""
        self.floats.add(value)
        tensor = self.tensors[value]
        if tensor.dtype not in FLOATS:
            self.tensors[value] = Tensor(value, "float32", tensor.shape, tensor.measured)


@dataclass(frozen=True, slots=True)
class FittedPart:
    """Kernel of the float graph, or the part of it that a device runs separately.

    `core` are nodes of the float graph, ascending, in the `composite` of that index, if any.
    `before` are earlier nodes of the same kernel in another part: the part's time is the additional
    time of the kernel.
    """

    composite: int | None
    core: tuple[int, ...]
    before: tuple[int, ...] = ()


class AsFitted:
    """Kernels of a quantized graph on a device with int8 figures.

    - `floats`: the float graph, with the quantized node of each of its nodes.
    - `kinds`: by node of the float graph: type of its arithmetic, None for its own.
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
        """Return the kernels; None if no part of the graph uses int8 figures."""
        if spec.executes is not None or INT8 not in spec.kernels or not spec.quantized:
            return None
        if not is_quantized(graph):
            return None
        made = AsFitted._kept(graph, spec)
        return made if INT8 in made.kinds else None

    @staticmethod
    def _kept(graph: Graph, spec: DeviceSpec) -> AsFitted:
        """Return the cached kernels of `graph`, by the ops that the device computes in integers."""
        known: Any = graph.kept.setdefault("as fitted", {})
        if spec.quantized not in known:
            known[spec.quantized] = AsFitted(graph, spec)
        found: AsFitted = known[spec.quantized]
        return found

    def kernel(self, core: Sequence[int]) -> Kernel:
        """Return the kernel of these nodes of the float graph. O(operands)."""
        if len(core) == 1:
            return Kernel((self.works[core[0]],))
        return joined_kernel(self.uses, tuple(core))

    def parts(self, support: Support) -> tuple[FittedPart, ...]:
        """Return the kernels that the device runs; those across composites in parts. O(V + E)."""
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
        """Return the nodes of each part, ascending, with their conversions."""
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
        """Return the set that produces all inputs of `node`, or None."""
        makers = {self.found.producers.get(name) for name in node.reads} - {None}
        homes = {None if maker is None else home.get(maker) for maker in makers}
        return homes.pop() if len(homes) == 1 else None

    def _reader(self, node: Node, home: dict[int, int]) -> int | None:
        """Return the set that reads all outputs of `node`, if none is a graph output; or None."""
        if self.found.outputs.intersection(node.writes):
            return None
        homes = {home.get(reader) for reader in self.found.readers_of(node.id)}
        return homes.pop() if len(homes) == 1 else None


def mostly_integers(graph: Graph, spec: DeviceSpec) -> bool:
    """Return whether a device computes most products of a quantized graph in integers."""
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
    """Return the type of arithmetic of each node of the float graph; None: its own."""
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
    """Return the figures for arithmetic in `dtype`, and the assumptions behind them.

    Those of the type; for a device without a peak for it those of the type of its computation; else
    those of the nearest type, with the rate scaled by the ratio of peaks: floats for floats and
    integers for integers if available, then by size, then the wider. On a device with an assumed
    precision, integers are priced by the figures of that precision. The device must have figures of
    at least one precision. O(precisions).
    """
    known = device.kernels
    if dtype in known:
        return known[dtype], ""
    asked = device.executes
    if asked is not None and asked in known and "float" not in dtype:
        # Fitted to whole networks in that precision, including their indices and masks.
        return known[asked], ""
    used = dtype if dtype in device.flops_per_s else substitute_type(device, dtype)
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
    how = f"rate of {nearest} scaled by the ratio of the datasheet's peaks"
    return with_rate(known[nearest], device.flops_per_s[used] / peak, how), (
        f"no {dtype} figures, those of {nearest} with the rate by the datasheet's peaks"
    )


def with_rate(figures: KernelFigures, ratio: float, how: str) -> KernelFigures:
    """Return the figures with the rate times `ratio`, with the origin `how`."""
    return replace(
        figures.times(ratio, "rate_tflops"),
        provenance={**figures.provenance, "rate_tflops": ("derived", how)},
    )


def executed_dtype(device: DeviceSpec, works: Sequence[Work]) -> str:
    """Return the type in which a device does most of the arithmetic of `works`, by FLOP.

    Without any FLOP, that of the first. Ties go to the first. O(members).
    """
    flops: dict[str, int] = {}
    for work in works:
        flops[work.dtype] = flops.get(work.dtype, 0) + work.flops
    dtype = max(flops, key=flops.__getitem__, default="float32")
    return device.execution_dtype.get(dtype, dtype)


def model_dtype(device: DeviceSpec, graph: Graph, works: Sequence[Work]) -> str:
    """Return the type in which a device does most of the arithmetic of a graph.

    int8 if it is the assumed precision, or if it computes quantized ops and most of the graph's
    products are integer; otherwise that of `works`, see ``executed_dtype``. O(V + E).
    """
    if device.executes == INT8 or mostly_integers(graph, device):
        return INT8
    return executed_dtype(device, works)


def model_figures(device: DeviceSpec, graph: Graph, works: Sequence[Work]) -> KernelFigures | None:
    """Return the figures for most of a graph; None if the device has none. O(V + E)."""
    if not device.kernels:
        return None
    return figures_for(device, model_dtype(device, graph, works))[0]
