"""What a device is: it says which nodes it takes, compiles them, and has properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hetsim.errors import UsageError, nearest
from hetsim.graph.graph import Graph
from hetsim.graph.work import op_key
from hetsim.hardware.spec import DeviceSpec

if TYPE_CHECKING:
    from hetsim.device.kernels import CompiledSubgraph
    from hetsim.graph.model import Model


@dataclass(frozen=True, slots=True)
class Support:
    """A device's answer to ``query_model``.

    Attributes
    ----------
    device : str
    supported : tuple of bool
        By node id.
    reasons : mapping of int to str
        Why a node is refused; one entry for each that is.
    """

    device: str
    supported: tuple[bool, ...]
    reasons: Mapping[int, str]


class Device(Protocol):
    """One device of a platform."""

    @property
    def name(self) -> str:
        """Name in the platform, e.g. ``gpu.1``."""
        ...

    @property
    def spec(self) -> DeviceSpec:
        """What it can do, in figures."""
        ...

    def query_model(self, graph: Graph) -> Support:
        """Say which nodes of `graph` it can run, and why not the others."""
        ...

    def compile(self, model: Model, nodes: Sequence[int]) -> CompiledSubgraph:
        """Make `nodes` of `model` ready to run, as one subgraph."""
        ...

    def get_property(self, key: str) -> object:
        """Return a property. Raises UsageError with the nearest key."""
        ...


@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    """A device known by its figures; its kernels are those of ONNX Runtime on the CPU.

    Attributes
    ----------
    name : str
    spec : DeviceSpec
    """

    name: str
    spec: DeviceSpec

    def query_model(self, graph: Graph) -> Support:
        """Apply the spec's support rule to every node. O(V + tensors)."""
        reasons: dict[int, str] = {}
        for node in graph.nodes:
            reason = refusal(self.spec, graph, node.id)
            if reason is not None:
                reasons[node.id] = reason
        return Support(self.name, tuple(node.id not in reasons for node in graph.nodes), reasons)

    def compile(self, model: Model, nodes: Sequence[int]) -> CompiledSubgraph:
        """Open an ONNX Runtime session on the nodes, weights memory-mapped where external."""
        from hetsim.device.kernels import CompiledSubgraph
        from hetsim.graph.extract import extract

        part = extract(model, nodes)
        folder = str(model.weights_dir) if model.weights_dir is not None else None
        return CompiledSubgraph(part.proto.SerializeToString(), folder, part.outputs)

    def get_property(self, key: str) -> object:
        """Return FULL_DEVICE_NAME, DEVICE_ARCHITECTURE, OPTIMIZATION_CAPABILITIES and others."""
        properties: dict[str, object] = {
            "FULL_DEVICE_NAME": self.spec.full_name,
            "DEVICE_ARCHITECTURE": f"{self.spec.kind}:{self.spec.name}",
            "OPTIMIZATION_CAPABILITIES": tuple(sorted(self.spec.flops_per_s)),
            "DEVICE_TOTAL_MEM_SIZE": self.spec.memory_bytes,
            "NUM_STREAMS": self.spec.streams,
        }
        if key == "SUPPORTED_PROPERTIES":
            return ("SUPPORTED_PROPERTIES", *sorted(properties))
        if key not in properties:
            raise UsageError(
                f"no property '{key}'", where=f"device '{self.name}'", hint=nearest(key, properties)
            )
        return properties[key]


def refusal(spec: DeviceSpec, graph: Graph, node_id: int) -> str | None:
    """Return why a device of `spec` refuses the node, or None where it takes it."""
    rule = spec.support
    node = graph.nodes[node_id]
    op = op_key(node)
    if op in rule.except_ops or (rule.ops is not None and op not in rule.ops):
        return f"op {op}"
    if rule.dtypes is None and not rule.static_shapes_only:
        return None
    for name in (*node.reads, *node.writes):
        tensor = graph.tensors[name]
        if rule.dtypes is not None and tensor.dtype not in rule.dtypes:
            return f"{tensor.dtype} tensor '{name}'"
        if rule.static_shapes_only and (
            tensor.shape is None or not all(isinstance(dim, int) for dim in tensor.shape)
        ):
            return f"dynamic shape of tensor '{name}'"
    return None
