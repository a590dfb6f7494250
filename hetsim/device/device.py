"""Device interface: node support and compilation of subgraphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from hetsim.core.plugins import answered
from hetsim.device.kernels.precision import Rounding, check_rounding, rounded
from hetsim.device.support.rules import (
    Support,
    by_rules,
    mapped_back,
    traceable,
    without_lone_housekeeping,
)
from hetsim.errors import DeviceUnavailable, UsageError, nearest
from hetsim.graph.graph import Graph
from hetsim.graph.work.movement import housekeeping_nodes
from hetsim.hardware.spec import DeviceSpec
from hetsim.hardware.variants import PRECISIONS

if TYPE_CHECKING:
    import onnx

    from hetsim.device.kernels.onnx_runtime import CompiledSubgraph, KernelSettings
    from hetsim.graph.model import Model
    from hetsim.graph.reading.extension import Extension

__all__ = ["Device", "SimulatedDevice", "Support"]


GROUP = "hetsim.devices"


class Device:
    """Device of a platform; base class of those that other packages add.

    A device of its own overrides what differs: ``unavailable`` where it needs something on
    the machine, ``query_model`` where rules and patterns do not say what it takes,
    ``open`` where its kernels are not those of ONNX Runtime on the CPU.

    Parameters
    ----------
    name : str
        Name in the platform, e.g. ``gpu.1``.
    spec : DeviceSpec
        What it can do, in figures.

    Raises
    ------
    DeviceUnavailable
        Where what it needs is missing, unless `simulate` says that figures are enough.
    """

    simulate: ClassVar[bool] = False
    """Whether a device that is unavailable can still be planned for, and run elsewhere."""

    tolerance: ClassVar[float] = 0.0
    """How far its outputs may be from those of ONNX Runtime's CPU kernels on the same subgraph,
    over their largest magnitude; 0: equal to the last bit."""

    exports: ClassVar[bool] = True
    """Whether what ``open`` returns is made of the ONNX that it is given and nothing else, so
    that a compiled plan can hold it."""

    def __init__(self, name: str, spec: DeviceSpec) -> None:
        self.name = name
        self.spec = spec
        missing = answered(GROUP, spec.backend, "unavailable", self.unavailable, _of_unavailable)
        if missing is not None and not self.simulate:
            raise DeviceUnavailable(
                missing[0], where=f"device '{name}'", hint=missing[1], device=name
            )
        check_rounding(spec.rounding, f"device '{name}'")
        self._libraries: dict[str, None] = {}

    def unavailable(self) -> tuple[str, str] | None:
        """Return the missing requirement and the remedy, or None where the device can run."""
        return None

    def query_model(self, graph: Graph) -> Support:
        """List the nodes of `graph` that the device supports, with reasons for the others.

        By the rules and patterns of the description, asked of what ``transform_graph`` makes
        of the graph and told of the graph's own nodes: a node that is fused with one that is
        not taken is not taken. But for a CPU, nodes without compute are not taken where
        nothing that computes is joined to them.
        """
        library = bool(self._libraries)
        support = by_rules(self.name, self.spec, graph, library=library)
        if type(self).transform_graph is not Device.transform_graph:
            own = traceable(graph)
            changed = self.transform_graph(own)
            answer = by_rules(self.name, self.spec, changed, library=library)
            support = mapped_back(own, support, changed, answer)
        if self.spec.kind == "cpu":
            return support
        return without_lone_housekeeping(support, graph, housekeeping_nodes(graph))

    def add_extension(self, extension: Extension) -> None:
        """Register custom operators for later queries and compilations.

        Parameters
        ----------
        extension : Extension
            From ``hetsim.graph.reading.extension.load_extension``. The model must be loaded with
            it, too.

        Raises
        ------
        UsageError
            Where the device takes none of that sort.
        """
        sort = "function" if extension.shared_library is None else "library"
        if sort not in self.spec.custom_ops:
            taken = ", ".join(sorted(self.spec.custom_ops)) or "none"
            raise UsageError(
                f"it supports no custom operators from a {sort} ({extension.source})",
                where=f"device '{self.name}'",
                hint=f"'custom_ops' in its device file lists what it supports: {taken}",
            )
        if extension.shared_library is not None:
            self._libraries[extension.shared_library] = None

    def transform_graph(self, graph: Graph) -> Graph:
        """Return the graph as the device's compiler transforms it, or `graph` itself.

        The `origins` of a node that stands for others must be their names; `graph` must stay
        as it is.
        """
        return graph

    def transform(
        self, proto: onnx.ModelProto, dtypes: Mapping[str, str], precision: str
    ) -> onnx.ModelProto:
        """Return the model as the device computes it; `proto` is left unchanged.

        Values that it computes in another type are rounded wherever a node reads or writes
        them; see ``precision.rounded``.
        """
        rounding = self.rounding(precision)
        if not rounding:
            return proto
        return rounded(proto, [rounding] * len(proto.graph.node), dtypes)

    @property
    def precision(self) -> str:
        """Precision in which it computes float32."""
        return self.spec.rounding.get("float32", "float32")

    def rounding(self, precision: str) -> Rounding:
        """Return the rounded element types where float32 is computed in `precision`."""
        if precision == self.precision:
            return self.spec.rounding
        others = {k: v for k, v in self.spec.rounding.items() if k != "float32"}
        return others if precision == "float32" else {**others, "float32": precision}

    def compile(
        self, model: Model, nodes: Sequence[int], precision: str | None = None
    ) -> CompiledSubgraph:
        """Compile `nodes` of `model` as one subgraph.

        Parameters
        ----------
        model : Model
        nodes : sequence of int
        precision : "float32", "float16", "bfloat16" or "int8", optional
            In which float32 is computed; absent: the device's own.

        Raises
        ------
        UsageError
            For a precision that does not exist.
        ExecutionError
            Where the kernels refuse the subgraph.
        """
        from hetsim.graph.extract import runnable, runnable_dtypes

        if precision is not None and precision not in PRECISIONS:
            raise UsageError(
                f"there is no precision '{precision}'",
                where=f"device '{self.name}'",
                hint=nearest(precision, PRECISIONS),
            )
        part, dtypes = runnable(model, nodes).proto, runnable_dtypes(model)
        proto = self.transform(part, dtypes, precision or self.precision)
        folder = str(model.weights_dir) if model.weights_dir is not None else None
        outputs = [value.name for value in proto.graph.output]
        return self.open(proto.SerializeToString(), folder, outputs)

    @property
    def architecture(self) -> str:
        """Target of compiled subgraphs, e.g. ``npu:rockchip-rk3588-npu``."""
        return f"{self.spec.kind}:{self.spec.name}"

    def open(
        self,
        proto: bytes,
        weights_dir: str | None,
        outputs: Sequence[str],
        settings: KernelSettings | None = None,
    ) -> CompiledSubgraph:
        """Open a serialised subgraph on the kernels of the device; see ``CompiledSubgraph``.

        Without `settings`: on as many threads as the device has, with the libraries it was given.
        """
        from hetsim.device.kernels.onnx_runtime import CompiledSubgraph, KernelSettings

        if settings is None:
            settings = KernelSettings(self.spec.threads, tuple(self._libraries))
        return CompiledSubgraph(proto, weights_dir, outputs, settings)


def _of_unavailable(given: object) -> str | None:
    fits = given is None or (
        isinstance(given, tuple)
        and len(given) == 2
        and all(isinstance(text, str) for text in given)
    )
    return None if fits else "None or two texts"


class SimulatedDevice(Device):
    """Device known by its figures; ONNX Runtime's CPU kernels compute its results."""
