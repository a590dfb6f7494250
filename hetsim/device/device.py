"""Device interface: node support, compilation, properties."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, ClassVar

from hetsim.core.plugins import checked_answer
from hetsim.device.kernels.precision import Rounding, check_rounding, rounded
from hetsim.device.properties import (
    PRECISION,
    PROFILE,
    THREADS,
    Properties,
    PropertyValue,
    default_precision,
    metrics,
    settings,
)
from hetsim.device.support.rules import (
    Support,
    by_rules,
    mapped_back,
    traceable,
    without_lone_housekeeping,
)
from hetsim.errors import DeviceUnavailable, UsageError
from hetsim.graph.graph import Graph
from hetsim.graph.work.movement import housekeeping_nodes
from hetsim.hardware.spec import DeviceSpec

if TYPE_CHECKING:
    import onnx

    from hetsim.device.artifact import Identity
    from hetsim.device.kernels.onnx_runtime import CompiledSubgraph, KernelSettings
    from hetsim.graph.model import Model
    from hetsim.graph.reading.extension import Extension

__all__ = ["Device", "SimulatedDevice", "Support"]


GROUP = "hetsim.devices"


class Device:
    """Device of a platform; base class for devices of other packages.

    Subclasses override what differs: ``unavailable`` if it requires something on the machine,
    ``query_model`` if rules and patterns do not determine what it supports, ``open`` if its kernels
    are not those of ONNX Runtime on the CPU.

    Parameters
    ----------
    name : str
        Name in the platform, e.g. ``gpu.1``.
    spec : DeviceSpec
        Its capabilities as figures.
    ids : sequence of str
        All ids of the devices of its kind, e.g. ``("0", "1")``.

    Raises
    ------
    DeviceUnavailable
        If a requirement is missing, unless `simulate` allows planning by figures alone.
    """

    simulate: ClassVar[bool] = False
    """Whether an unavailable device can still be planned for, and run elsewhere."""

    tolerance: ClassVar[float] = 0.0
    """Maximum deviation of its outputs from ONNX Runtime's CPU kernels on the same subgraph,
    relative to their largest magnitude; 0: equal to the last bit."""

    exports: ClassVar[bool] = True
    """Whether the result of ``open`` depends only on the given ONNX model, so that a file of it can
    be opened in another process."""

    def __init__(self, name: str, spec: DeviceSpec, ids: Sequence[str] = ("0",)) -> None:
        self.name = name
        self.spec = spec
        missing = checked_answer(
            GROUP, spec.backend, "unavailable", self.unavailable, _of_unavailable
        )
        if missing is not None and not self.simulate:
            raise DeviceUnavailable(
                missing[0], where=f"device '{name}'", hint=missing[1], device=name
            )
        where = f"device '{name}'"
        check_rounding(spec.rounding, where)
        self._held = _HeldWeights()
        self._libraries: dict[str, None] = {}
        own = metrics(spec, ids, exports=self.exports)
        self._properties = Properties(where, own, settings(name, spec, ids))

    def unavailable(self) -> tuple[str, str] | None:
        """Return the missing requirement and the remedy, or None if the device can run."""
        return None

    def query_model(self, graph: Graph) -> Support:
        """Return the nodes of `graph` that the device supports, with reasons for the others.

        Applies the rules and patterns of the description to the result of ``transform_graph``, and
        maps the answers to the graph's own nodes: a node fused with an unsupported one is
        unsupported. Except on a CPU, nodes without compute are unsupported if no computing node is
        joined to them.
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
            From ``hetsim.graph.reading.extension.load_extension``. The model must also be loaded
            with it.

        Raises
        ------
        UsageError
            If the device supports none of that kind.
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

        The `origins` of a node that replaces others must be their names; `graph` must not be
        modified.
        """
        return graph

    def transform(
        self, proto: onnx.ModelProto, dtypes: Mapping[str, str], precision: str
    ) -> onnx.ModelProto:
        """Return the model as the device computes it; `proto` is left unchanged.

        Values computed in another type are rounded wherever a node reads or writes them; see
        ``precision.rounded``.
        """
        rounding = self.rounding(precision)
        if not rounding:
            return proto
        return rounded(proto, [rounding] * len(proto.graph.node), dtypes)

    def rounding(self, precision: str) -> Rounding:
        """Return the rounded element types for float32 computed in `precision`."""
        if precision == default_precision(self.spec):
            return self.spec.rounding
        others = {k: v for k, v in self.spec.rounding.items() if k != "float32"}
        return others if precision == "float32" else {**others, "float32": precision}

    def compile(
        self, model: Model, nodes: Sequence[int], config: Mapping[str, object] | None = None
    ) -> CompiledSubgraph:
        """Compile `nodes` of `model` as one subgraph.

        Parameters
        ----------
        model : Model
        nodes : sequence of int
        config : mapping of str to value, optional
            Properties for this subgraph only, which override those of the device.

        Raises
        ------
        UsageError
            For an unknown or read-only property, or an invalid value.
        ExecutionError
            If the kernels reject the subgraph.
        """
        chosen_config = self._properties.merged(config or {})
        precision = str(chosen_config[PRECISION])
        proto = self._computed(model, nodes, precision)
        folder = str(model.weights_dir) if model.weights_dir is not None else None
        outputs = [value.name for value in proto.graph.output]
        settings = self._settings_of(chosen_config)
        compiled = self.open(proto.SerializeToString(), folder, outputs, settings)
        chosen = tuple(nodes)

        def write(stream: BinaryIO) -> None:
            from hetsim.device.artifact import export

            # Extracted again, so that the compiled model need not be held twice.
            again = self._computed(model, chosen, precision)
            name = f"{model.name}:{model.graph.nodes[min(chosen)].name}"
            identity = self.identity(precision)
            export(stream, again, weights_dir=model.weights_dir, identity=identity, name=name)

        if self.exports:
            compiled.exporter = write
        tensors = model.graph.tensors
        read = {name for v in chosen for name in model.graph.nodes[v].reads}
        nbytes = sum(tensors[name].nbytes for name in read & model.graph.constants)
        nbytes += sum(tensor.nbytes for v in chosen for tensor in model.graph.nodes[v].held)
        self._held.nbytes += nbytes
        weakref.finalize(compiled, self._held.release, nbytes)
        return compiled

    def import_compiled(
        self, stream: BinaryIO, config: Mapping[str, object] | None = None
    ) -> CompiledSubgraph:
        """Return a subgraph written by ``CompiledSubgraph.export``, also in another process.

        Nothing in the file is executed except the operators of its subgraph, and those only after
        the file is found to be intact and as described in its header.

        Raises
        ------
        UsageError
            If the device cannot import, or for an invalid property.
        InvalidInput
            If it is damaged, or for another device, architecture or precision, or by another
            version of hetsim or ONNX Runtime; differences are named.
        """
        from hetsim.device.artifact import import_compiled

        if not self.exports:
            raise UsageError("it cannot import compiled subgraphs", where=f"device '{self.name}'")
        chosen = self._properties.merged(config or {})
        identity = self.identity(str(chosen[PRECISION]))
        opener = partial(self.open, settings=self._settings_of(chosen))
        return import_compiled(stream, identity=identity, opener=opener)

    def identity(self, precision: str) -> Identity:
        """Return the device and versions of compiled subgraphs, at an INFERENCE_PRECISION_HINT."""
        from hetsim.device.artifact import Identity, precision_name

        architecture = str(self.get_property("DEVICE_ARCHITECTURE"))
        return Identity(self.name, architecture, precision_name(self.rounding(precision)))

    def _computed(self, model: Model, nodes: Sequence[int], precision: str) -> onnx.ModelProto:
        from hetsim.graph.extract import runnable, runnable_dtypes

        return self.transform(runnable(model, nodes).proto, runnable_dtypes(model), precision)

    def open(
        self,
        proto: bytes,
        weights_dir: str | None,
        outputs: Sequence[str],
        settings: KernelSettings | None = None,
    ) -> CompiledSubgraph:
        """Open a serialised subgraph on the kernels of the device; see ``CompiledSubgraph``.

        `settings` None: as set by the properties.
        """
        from hetsim.device.kernels.onnx_runtime import CompiledSubgraph

        if settings is None:
            settings = self._settings_of(self._properties.merged({}))
        return CompiledSubgraph(proto, weights_dir, outputs, settings)

    def _settings_of(self, config: Mapping[str, PropertyValue]) -> KernelSettings:
        from hetsim.device.kernels.onnx_runtime import KernelSettings

        threads, profile = config[THREADS], config[PROFILE]
        assert isinstance(threads, int)
        return KernelSettings(threads, profile is True, tuple(self._libraries))

    def get_property(self, key: str) -> PropertyValue:
        """Return a property. Raises UsageError with the nearest key.

        Readable: SUPPORTED_PROPERTIES (names with their mutability), AVAILABLE_DEVICES,
        FULL_DEVICE_NAME, DEVICE_ARCHITECTURE, OPTIMIZATION_CAPABILITIES,
        RANGE_FOR_ASYNC_INFER_REQUESTS (minimum, maximum, step), IMPORT_EXPORT_SUPPORT,
        DEVICE_TOTAL_MEM_SIZE and DEVICE_FREE_MEM_SIZE (bytes; minus the weights of live subgraphs
        compiled by this object). Readable and settable: DEVICE_ID, NUM_STREAMS, PERFORMANCE_HINT,
        INFERENCE_PRECISION_HINT, INFERENCE_NUM_THREADS and PERF_COUNT (whether compiled subgraphs
        record the time of every kernel, for ``CompiledSubgraph.profile``).
        """
        if key == "SUPPORTED_PROPERTIES":
            return self._properties.names
        if key == "DEVICE_FREE_MEM_SIZE":
            return max(0, self.spec.memory_bytes - self._held.nbytes)
        return self._properties.get(key)

    def set_property(self, key: str, value: object) -> None:
        """Set a property. Raises UsageError if it is unknown or read-only, or the value invalid."""
        self._properties.set(key, value)


def _of_unavailable(given: object) -> str | None:
    fits = given is None or (
        isinstance(given, tuple)
        and len(given) == 2
        and all(isinstance(text, str) for text in given)
    )
    return None if fits else "None or two texts"


class _HeldWeights:
    """Weight bytes held by compiled subgraphs."""

    def __init__(self) -> None:
        self.nbytes = 0

    def release(self, nbytes: int) -> None:
        self.nbytes -= nbytes


class SimulatedDevice(Device):
    """Device known by its figures, whose results ONNX Runtime's CPU kernels compute."""
