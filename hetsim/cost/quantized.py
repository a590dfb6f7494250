"""Kernels of a quantized graph on a device, and their work."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from hetsim.cost.kernels.fusion import epilogues
from hetsim.cost.model import Kernel
from hetsim.device.support.quantized import (
    DEQUANTIZE,
    QUANTIZE,
    Quantized,
    contraction,
    integer_units,
)
from hetsim.device.support.rules import Support
from hetsim.graph.dag import Contraction
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.work import Work, graph_work, op_key
from hetsim.graph.work.layers import DEQUANTIZE as SHIFT_AND_SCALE
from hetsim.graph.work.products import REQUANTIZE
from hetsim.hardware.spec import FLOATS, DeviceSpec

_CONVERSIONS = DEQUANTIZE | QUANTIZE
_MOVES = frozenset({"data_movement", "gather_scatter"})


@dataclass(frozen=True, slots=True)
class KernelSet:
    """Nodes that form one kernel, ascending, with the type of its arithmetic if not theirs."""

    nodes: tuple[int, ...]
    dtype: str | None


def kernel_sets(found: Quantized, spec: DeviceSpec, support: Support) -> tuple[KernelSet, ...]:
    """Return the disjoint sets of nodes that a device with integer units runs as kernels.

    First the integer units, then fusions of ``epilogues`` with kernel figures, and the declared
    chains; then each remaining conversion joins its only reader or its only producer, as loads and
    stores convert. Composites are unchanged. A conversion with several neighbours stays a separate
    kernel. O((V + E) log V).
    """
    graph = found.graph
    state = contraction(graph)
    for match in support.composites:
        state.add(match.nodes)
    sets: list[list[int]] = []
    dtypes: list[str | None] = []
    home: dict[int, int] = {}

    def put(nodes: Iterable[int], dtype: str | None = None) -> None:
        home.update((v, len(sets)) for v in nodes)
        sets.append(list(nodes))
        dtypes.append(dtype)

    for unit in integer_units(found, spec, support.supported, state):
        put(unit.nodes, unit.dtype)
    free = [
        taken and not state.taken(v) and v not in found.conversions
        for v, taken in enumerate(support.supported)
    ]
    if spec.kernels:
        for members in epilogues(graph, graph_work(graph), free):
            put(members)
    for node in graph.nodes:
        if free[node.id] and node.id not in home:
            chain = found.chain(node, spec, support.supported)
            if len(chain) > 1 and not any(v in home or state.taken(v) for v in chain):
                put(chain)

    def join(node: int, other: int) -> bool:
        """Add `node` to the kernel of `other`, unless that is none of this device."""
        if other not in home:
            if not support.supported[other] or state.taken(other):
                return False
            put([other])
        home[node] = home[other]
        sets[home[other]].append(node)
        return True

    def place(node: int) -> int:
        """Return the set of a node, or a unique number."""
        return home.get(node, -1 - node)

    def is_open(node: int) -> bool:
        """Return whether a node may still join a kernel."""
        return node not in home and not state.taken(node) and support.supported[node]

    def joins_maker(node: int) -> bool:
        """Add `node` to the kernel that produces its input, if it is the only reader."""
        given = graph.nodes[node].inputs[0]
        maker = found.producers.get(given)
        return maker is not None and found.only_reader(given) == node and join(node, maker)

    def joins_readers(node: int) -> bool:
        """Add `node` to the one kernel that reads its output."""
        value = graph.nodes[node].outputs[0]
        readers = found.readers.get(value, ())
        one = len({place(reader) for reader in readers}) == 1
        return one and value not in found.outputs and join(node, readers[0])

    for v in sorted(found.quantize):
        if is_open(v) and not joins_maker(v):
            readers = found.readers.get(graph.nodes[v].outputs[0], ())
            loads = any(r in found.dequantize and r not in home for r in readers)
            if not loads:
                joins_readers(v)
    for v in sorted(found.dequantize):
        if graph.nodes[v].outputs[0] in graph.dequantized:
            continue
        if is_open(v) and not joins_readers(v):
            maker = found.producers.get(graph.nodes[v].inputs[0])
            leads = maker in found.quantize and maker not in home
            if not leads:
                joins_maker(v)
    for v in sorted(found.casts):
        if is_open(v) and not joins_maker(v):
            joins_readers(v)
    merged = contraction(graph)
    for match in support.composites:
        merged.add(match.nodes)
    return tuple(
        KernelSet(nodes, dtype)
        for own, dtype in zip(sets, dtypes, strict=True)
        if len(nodes := _with_first_loads(found, own, support, home, merged)) > 1
    )


def _with_first_loads(
    found: Quantized,
    nodes: Sequence[int],
    support: Support,
    home: dict[int, int],
    merged: Contraction,
) -> tuple[int, ...]:
    """Return a set with the quantization of graph inputs of which it is the first reader."""
    graph = found.graph
    wanted: dict[int, None] = {}
    for v in nodes:
        for name in graph.nodes[v].reads:
            source = found.source(name)
            first = found.producers.get(source) if source is not None else None
            load = found.producers.get(name)
            if first is None or load is None or first not in found.quantize or first in home:
                continue
            if graph.nodes[first].inputs[0] in found.producers or not support.supported[first]:
                continue
            wanted[first] = None
            if load not in home:
                wanted[load] = None
    larger = tuple(sorted({*nodes, *wanted}))
    if wanted and not any(merged.taken(v) for v in larger) and not merged.cycle(larger):
        merged.add(larger)
        home.update(dict.fromkeys(wanted, home[nodes[0]]))
        return larger
    own = tuple(sorted(nodes))
    merged.add(own)
    return own


def shared_loads(found: Quantized, sets: Sequence[KernelSet]) -> frozenset[int]:
    """Return DequantizeLinear nodes without a kernel, whose readers convert while loading."""
    within = {v for one in sets for v in one.nodes}
    return frozenset(
        v
        for v in found.dequantize - within
        if found.graph.nodes[v].outputs[0] not in found.outputs
        and found.readers.get(found.graph.nodes[v].outputs[0])
    )


def quantized_kernel(
    found: Quantized, works: Sequence[Work], nodes: Sequence[int], dtype: str | None
) -> Kernel:
    """Return the kernel of `nodes`, with its conversions."""
    graph, inside = found.graph, set(nodes)
    core = [graph.nodes[v] for v in nodes if v not in found.conversions]
    done: list[Work] = []
    for node in core:
        work = works[node.id]
        if dtype is not None:
            work = in_integers(graph, node, work, last=node is core[-1])
        done.append(
            replace(
                work,
                read_bytes=0,
                write_bytes=0,
                weight_bytes=0,
                integer_bytes=0,
                dtype=dtype if dtype is not None else work.dtype,
            )
        )
        done.extend(_moved(found, node, work, inside))
    for v in nodes:
        given = graph.nodes[v].inputs[0] if v in found.conversions else ""
        if given and core and found.producers.get(given) not in inside:
            written = _Bytes()
            for value in _written(found, graph.nodes[v].outputs[0], inside):
                written.add(graph.tensors[value])
            blank = replace(works[v], flops=0, read_bytes=0, weight_bytes=0, integer_bytes=0)
            done.extend(
                replace(blank, write_bytes=nbytes, dtype=kind)
                for kind, nbytes in written.kinds.items()
            )
    if not core:
        done.extend(works[v] for v in nodes)
    return Kernel(tuple(done))


def in_integers(graph: Graph, node: Node, work: Work, *, last: bool) -> Work:
    """Return the work of a float node, with the extra work of integers."""
    if not work.flops or work.op_class in _MOVES:
        return work
    out = sum(graph.tensors[name].elements for name in node.writes)
    more = REQUANTIZE * out if last else 0
    if work.op_class not in ("conv", "matmul"):
        more += SHIFT_AND_SCALE * out
    return replace(work, flops=work.flops + more)


def around_floats(
    graph: Graph, nodes: Sequence[Node], works: Sequence[Work], inner: Container[str] = ()
) -> tuple[Work, ...]:
    """Return the conversions of a float kernel with integer neighbours."""
    if not any(work.flops or work.read_bytes or work.write_bytes for work in works):
        return ()
    made = {name for node in nodes for name in node.writes}
    read = {name for node in nodes for name in node.reads} - made - graph.constants

    def floats(names: Iterable[str]) -> int:
        tensors = (graph.tensors[name] for name in names)
        return sum(tensor.elements for tensor in tensors if tensor.dtype in FLOATS)

    left = (name for name in made if name not in inner)
    flops = SHIFT_AND_SCALE * floats(read) + REQUANTIZE * floats(left)
    return (Work(flops, 0, 0, 0, "quantize", works[0].dtype, True),) if flops else ()


def _moved(found: Quantized, node: Node, work: Work, inside: set[int]) -> list[Work]:
    """Return the data movement of a node in a kernel: its constants, and bytes by element type."""
    graph = found.graph
    reads, stated = _Bytes(), 0
    for name in node.reads:
        if name in graph.constants or name in graph.dequantized:
            continue
        stated += graph.tensors[name].nbytes
        maker = found.producers.get(name)
        while maker in inside and maker in found.conversions:
            name = graph.nodes[maker].inputs[0]
            maker = found.producers.get(name)
        if maker not in inside:
            reads.add(graph.tensors[found.source(name) or name])
    reads.share(work.read_bytes, stated)
    writes, stated = _Bytes(), 0
    for name in node.writes:
        stated += graph.tensors[name].nbytes
        for value in _written(found, name, inside):
            writes.add(graph.tensors[value])
    writes.share(work.write_bytes, stated)
    blank = replace(
        work,
        flops=0,
        read_bytes=0,
        write_bytes=0,
        weight_bytes=0,
        integer_bytes=0,
        product=None,
        exp_elements=0,
    )
    return [
        replace(blank, weight_bytes=work.weight_bytes, integer_bytes=work.integer_bytes),
        *(replace(blank, read_bytes=n, dtype=kind) for kind, n in reads.kinds.items()),
        *(replace(blank, write_bytes=n, dtype=kind) for kind, n in writes.kinds.items()),
    ]


def _written(found: Quantized, name: str, inside: set[int]) -> list[str]:
    """Return the form in which a value leaves its kernel: itself, or its conversions."""
    readers = found.readers.get(name, ())
    leaving = [name] if name in found.outputs or not readers else []
    for reader in readers:
        if reader not in inside:
            leaving.append(name)
        elif reader in found.conversions:
            leaving += _written(found, found.graph.nodes[reader].outputs[0], inside)
    return list(dict.fromkeys(leaving))


class _Bytes:
    """Bytes by element type, as devices convert floats but not integers."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}

    def add(self, tensor: Tensor) -> None:
        kind = tensor.dtype if "float" in tensor.dtype else "int8"
        self.kinds[kind] = self.kinds.get(kind, 0) + tensor.nbytes

    def share(self, touched: int, stated: int) -> None:
        """Reduce to the accessed part of the stated bytes."""
        if stated:
            self.kinds = {kind: n * touched // stated for kind, n in self.kinds.items()}


def composite_dtype(found: Quantized, spec: DeviceSpec, nodes: Sequence[int]) -> str | None:
    """Return the arithmetic type of a composite, if it is a quantized unit."""
    for v in nodes:
        node = found.graph.nodes[v]
        if op_key(node) not in _CONVERSIONS:
            return found.arithmetic(node, spec.quantized)
    return None
