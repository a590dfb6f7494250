"""A device, a strategy and a cost model of another package: all that hetsim needs of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import hetsim
from hetsim.cost.model import Estimate, Kernel
from hetsim.cost.roofline import Roofline
from hetsim.device.device import Device, Support
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph, KernelSettings
from hetsim.graph.graph import Graph
from hetsim.hardware.spec import DeviceSpec


class ToyNpu(Device):
    """Takes what its description says, but no convolution with more than 512 channels."""

    def unavailable(self) -> tuple[str, str] | None:
        """The driver is there unless the environment says otherwise."""
        if os.environ.get("TOY_NPU_DRIVER") == "absent":
            return "the toy driver is not loaded", "unset TOY_NPU_DRIVER"
        return None

    def query_model(self, graph: Graph) -> Support:
        """Apply the rules of the description, then a limit that they cannot state."""
        support = super().query_model(graph)
        reasons = dict(support.reasons)
        for node in graph.nodes:
            shape = graph.tensors[node.writes[0]].shape if node.op_type == "Conv" else None
            if shape is not None and isinstance(shape[1], int) and shape[1] > 512:
                reasons.setdefault(node.id, f"{shape[1]} channels (it takes 512)")
        supported = tuple(node.id not in reasons for node in graph.nodes)
        return replace(support, supported=supported, reasons=reasons)

    def open(
        self,
        proto: bytes,
        weights_dir: str | None,
        outputs: Sequence[str],
        settings: KernelSettings | None = None,
    ) -> CompiledSubgraph:
        """Hand the subgraph to the kernels; a real device would compile it here."""
        return CompiledSubgraph(proto, weights_dir, outputs, settings or KernelSettings())


@dataclass(frozen=True)
class NpuFirst:
    """everything that the npu takes on the npu, the rest on the host

    Attributes
    ----------
    npu : str
        The device that is asked first.
    """

    needs: ClassVar[tuple[str, ...]] = ("a device that is named cpu",)

    npu: str = "npu"

    def solve(self, problem: hetsim.Problem) -> hetsim.Plan:
        """Ask the npu first."""
        groups = hetsim.partition(
            problem, affinity=hetsim.Affinity(priority=(self.npu, "cpu"))
        ).groups
        return hetsim.Plan(problem, "npu-first", groups, f"{self.npu} takes what it can")


class Twice:
    """A pessimist: every kernel takes twice as long as the roofline says."""

    def estimate(self, device: DeviceSpec, kernel: Kernel) -> Estimate:
        """Return the doubled estimate."""
        found = Roofline().estimate(device, kernel)
        return replace(found, seconds=2 * found.seconds, provenance=f"twice {found.provenance}")
