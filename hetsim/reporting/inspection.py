"""What a model is made of, and which device takes which of its ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hetsim.base.text import tally
from hetsim.errors import UnboundDimension
from hetsim.graph.graph import Graph, Node
from hetsim.graph.shapes.unbound import open_dims, open_ranks, unbound
from hetsim.graph.work import node_work, op_key
from hetsim.hardware.executing import executed

if TYPE_CHECKING:
    from hetsim.device.device import Support
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import Platform, Supposed


@dataclass(frozen=True, slots=True)
class OpFacts:
    """All nodes of one op type.

    Attributes
    ----------
    op : str
        Op type, with its domain outside the ONNX standard.
    op_class : str
    count : int
    flops, read_bytes, write_bytes, weight_bytes : int or None
        Sums over the nodes; None where a dimension that they need is not bound. A weight
        that several nodes read counts at each; `read_bytes` leaves weights out.
    costed : bool
        Whether all that its nodes compute is known; what is not is costed by its bytes.
    why : str
        Why it is not; ``""`` where it is.
    """

    op: str
    op_class: str
    count: int
    flops: int | None
    read_bytes: int | None
    write_bytes: int | None
    weight_bytes: int | None
    costed: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class DeviceSupport:
    """What one device says of the model.

    Attributes
    ----------
    device : str
    supported : int
        Number of nodes it takes.
    refused : mapping of str to mapping of str to int
        By op type: the reasons, and how many nodes are refused for each.
    """

    device: str
    supported: int
    refused: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Facts of a model.

    Attributes
    ----------
    model : Model
    parameters, weight_bytes : int
        Elements and bytes of the constants of floating-point or quantized type that nodes
        read, or carry: in the branches of control flow, bodies of functions, trees.
    flops : int or None
        None where a dimension is not bound.
    unbound : tuple of str
        Dimensions of inputs that are not bound, by name or place, sorted; then inputs of
        unknown rank, as ``x[...]``.
    needs : str or None
        What is open of the shapes that costs need, and what binds it.
    ops : tuple of OpFacts
        Most FLOPs first, then most bytes, then by name.
    support : tuple of DeviceSupport
        By device of the platform; empty without one.
    executed : mapping of str to str
        The precision, by device, that the model is executed in as if.
    supposed : Supposed or None
        What is supposed of the platform.
    """

    model: Model
    parameters: int
    weight_bytes: int
    flops: int | None
    unbound: tuple[str, ...]
    needs: str | None
    ops: tuple[OpFacts, ...]
    support: tuple[DeviceSupport, ...]
    executed: Mapping[str, str] = field(default_factory=dict)
    supposed: Supposed | None = None


def inspect_model(model: Model, platform: Platform | None = None) -> Inspection:
    """Return the facts of `model`, and what the devices of `platform` say of it.

    A dimension that is not bound is a finding here, not an error: this is where a user
    learns what there is to bind. O(V P).
    """
    graph = model.graph
    ops, needs = _ops(graph)
    parameters, weight_bytes = _weights(graph)
    known = [op.flops for op in ops if op.flops is not None]
    return Inspection(
        model=model,
        parameters=parameters,
        weight_bytes=weight_bytes,
        flops=sum(known) if len(known) == len(ops) else None,
        unbound=_unbound(graph),
        needs=None if needs is None else str(unbound(graph, model.source, model.unmeasured)),
        ops=ops,
        support=() if platform is None else _support(graph, platform),
        executed={} if platform is None else executed(platform),
        supposed=None if platform is None else platform.supposed,
    )


def _ops(graph: Graph) -> tuple[tuple[OpFacts, ...], str | None]:
    members: dict[str, list[Node]] = {}
    for node in graph.nodes:
        members.setdefault(op_key(node), []).append(node)
    needs: str | None = None
    facts: list[OpFacts] = []
    for op, nodes in members.items():
        flops = read_bytes = write_bytes = weight_bytes = 0
        op_class, why = "?", ""
        bound = costed = True
        for node in nodes:
            try:
                work = node_work(graph, node)
            except UnboundDimension as error:
                bound, needs = False, needs or str(error)
                continue
            op_class = work.op_class
            costed, why = costed and work.rule, why or work.why
            flops += work.flops
            read_bytes += work.read_bytes
            write_bytes += work.write_bytes
            weight_bytes += work.weight_bytes
        facts.append(
            OpFacts(
                op,
                op_class,
                len(nodes),
                flops if bound else None,
                read_bytes if bound else None,
                write_bytes if bound else None,
                weight_bytes if bound else None,
                costed,
                why,
            )
        )
    facts.sort(
        key=lambda fact: (
            -(fact.flops or 0),
            -((fact.read_bytes or 0) + (fact.write_bytes or 0)),
            fact.op,
        )
    )
    return tuple(facts), needs


def _weights(graph: Graph) -> tuple[int, int]:
    read = {name for node in graph.nodes for name in node.reads}
    parameters = weight_bytes = 0
    held = [tensor for node in graph.nodes for tensor in node.held]
    for tensor in (*(graph.tensors[name] for name in sorted(graph.constants & read)), *held):
        # Shapes, axes and indices are stored as constants too, but nobody trained them.
        if tensor.dtype in ("int64", "int32", "bool", "string"):
            continue
        parameters += tensor.elements
        weight_bytes += tensor.nbytes
    return parameters, weight_bytes


def _unbound(graph: Graph) -> tuple[str, ...]:
    return (*sorted(open_dims(graph)), *(f"{name}[...]" for name in open_ranks(graph)))


def _support(graph: Graph, platform: Platform) -> tuple[DeviceSupport, ...]:
    from hetsim.device.registry import platform_devices

    return tuple(
        _device_support(graph, device.query_model(graph))
        for device in platform_devices(platform).values()
    )


def _device_support(graph: Graph, support: Support) -> DeviceSupport:
    reasons: dict[str, list[str]] = {}
    taken = support.taken
    for node, reason in support.reasons.items():
        if taken[node]:
            continue
        reasons.setdefault(op_key(graph.nodes[node]), []).append(reason)
    return DeviceSupport(
        support.device,
        sum(taken),
        {op: tally(found) for op, found in sorted(reasons.items())},
    )


def refused_count(support: DeviceSupport, op: str) -> int:
    """Return how many nodes of type `op` the device refuses."""
    return sum(support.refused.get(op, {}).values())


def shape_text(shape: Sequence[int | str | None] | None) -> str:
    """Return a shape such as ``[1, 3, N, ?]``."""
    if shape is None:
        return "[...]"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"
