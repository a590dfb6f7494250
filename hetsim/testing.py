"""Conformance of devices: rules for every device, for authors of device packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hetsim.device.device import Device
from hetsim.device.properties import PRECISION
from hetsim.errors import InvalidInput, NonconformingDevice, UsageError
from hetsim.graph.model import Model

if TYPE_CHECKING:
    from hetsim.device.support.rules import Support
    from hetsim.hardware.spec import DeviceSpec

MODELS = ("zoo:squeezenet", "zoo:bert_small")
"""Models that a device is tested on by default."""

DESCRIPTION = "rockchip-rk3588-cpu"
"""Catalog name of the default description of a device class."""

HALF_LARGEST = 65504.0
"""Largest finite float16."""

LARGEST_DEVIATION = 0.05
"""Tolerance of an output in the device's own precision, over its largest magnitude."""


def check_device(
    device: type[Device] | Callable[[], Device],
    models: Iterable[Model | str] = MODELS,
    *,
    spec: DeviceSpec | None = None,
    run: bool = True,
) -> None:
    """Check a device against every rule of the interface.

    Parameters
    ----------
    device : class or callable
        A subclass of ``Device``, or a function that returns a new device at each call, e.g.
        ``lambda: MyDevice("npu", spec)``.
    models : iterable of Model or str
        Models that it is tested on; names are loaded.
    spec : DeviceSpec, optional
        Description for constructing a class; by default that of a CPU of the catalog.
    run : bool
        Whether subgraphs are also compiled, run, and compared to ONNX Runtime.

    Raises
    ------
    NonconformingDevice
        With the broken rule, and the model or property that breaks it.
    """
    from hetsim.graph.loading import load_model
    from hetsim.hardware.catalog import load_device

    make: Callable[[], Device] = device
    if isinstance(device, type):
        make = partial(device, "device", spec or load_device(DESCRIPTION))
    made = make()
    _require(isinstance(made, Device), f"{made!r} is not a hetsim.device.device.Device", "device")
    _check_properties(made, make)
    for given in models:
        model = given if isinstance(given, Model) else load_model(given)
        support = _check_query(made, make, model)
        if run:
            _check_compile(made, model, support)


def _require(holds: bool, what: str, where: str) -> None:
    if not holds:
        raise NonconformingDevice(what, where=where)


def _check_properties(device: Device, make: Callable[[], Device]) -> None:
    where = f"device '{device.name}', properties"
    names = device.get_property("SUPPORTED_PROPERTIES")
    _require(isinstance(names, tuple) and len(names) > 0, "there are none", where)
    assert isinstance(names, tuple)
    _require("SUPPORTED_PROPERTIES" in names, "SUPPORTED_PROPERTIES does not list itself", where)
    for name in names:
        mutable = getattr(name, "mutable", None)
        _require(isinstance(mutable, bool), f"{name} does not say whether it is mutable", where)
        value = device.get_property(str(name))
        if mutable:
            fresh = make()
            fresh.set_property(str(name), value)
            _require(
                fresh.get_property(str(name)) == value, f"{name} is not what it was set to", where
            )
            _refuses(
                partial(fresh.set_property, str(name), object()), f"{name} takes anything", where
            )
        else:
            _refuses(partial(device.set_property, str(name), value), f"{name} can be set", where)
    _refuses(lambda: device.get_property("NO_SUCH_PROPERTY"), "an unknown one has a value", where)
    _refuses(lambda: device.set_property("NO_SUCH_PROPERTY", 1), "an unknown one can be set", where)


def _refuses(call: Callable[[], Any], what: str, where: str) -> None:
    try:
        call()
    except UsageError:
        return
    raise NonconformingDevice(what, where=where, hint="raise hetsim.errors.UsageError")


def _check_query(device: Device, make: Callable[[], Device], model: Model) -> Support:
    where = f"device '{device.name}', query of {model.name}"
    graph = model.graph
    before = (graph.nodes, dict(graph.tensors), graph.inputs, graph.outputs, graph.constants)
    support = device.query_model(graph)
    after = (graph.nodes, dict(graph.tensors), graph.inputs, graph.outputs, graph.constants)
    _require(before == after, "the graph was changed", where)
    _require(
        support.device == device.name, f"the answer is that of device '{support.device}'", where
    )
    n = len(graph.nodes)
    _require(len(support.supported) == n, f"{len(support.supported)} answers for {n} nodes", where)
    refused = {node for node, taken in enumerate(support.supported) if not taken}
    _require(
        refused == set(support.reasons), "reasons are not given for the refused nodes alone", where
    )
    _require(all(support.reasons.values()), "a reason is empty", where)
    members = [node for match in support.composites for node in match.nodes]
    _require(len(members) == len(set(members)), "composites overlap", where)
    _require(all(0 <= node < n for node in members), "a composite has unknown nodes", where)
    _require(make().query_model(graph) == support, "a second device answers otherwise", where)
    return support


def _check_compile(device: Device, model: Model, support: Support) -> None:
    """Compile and run the supported subgraphs, and compare them to the model node by node."""
    from hetsim.device.kernels.onnx_runtime import CompiledSubgraph, KernelSettings
    from hetsim.graph.inputs.samples import random_inputs

    where = f"device '{device.name}', {model.name}"
    groups = _groups(model, support)
    if not groups:
        return
    folder = str(model.weights_dir) if model.weights_dir is not None else None
    wanted = {name for nodes in groups for name in _crossing(model, nodes)}
    values = dict(random_inputs(model))
    values.update(
        CompiledSubgraph(
            _open_all(model, wanted - values.keys()),
            folder,
            sorted(wanted),
            KernelSettings(libraries=model.libraries),
        ).run(values)
    )
    _refuses(
        lambda: device.compile(model, groups[0], {"NO_SUCH_PROPERTY": 1}),
        "compile takes an unknown property",
        where,
    )
    for nodes in groups:
        exact = device.compile(model, nodes, {PRECISION: "float32"}).run(values)
        own = device.compile(model, nodes).run(values)
        for name, found in exact.items():
            _require(
                _deviation(found, values[name]) < max(1e-4, device.tolerance),
                f"'{name}' is wrong in float32",
                where,
            )
            _require(
                _deviation(own[name], values[name]) < max(LARGEST_DEVIATION, device.tolerance),
                f"'{name}' is wrong in the device's own precision",
                where,
            )
    _check_files(device, model, groups[0], values)


def _check_files(
    device: Device, model: Model, nodes: Sequence[int], values: Mapping[str, Any]
) -> None:
    """Export a subgraph, import it again, and check that damage is refused."""
    import io

    where = f"device '{device.name}', {model.name}, export and import"
    if not device.get_property("IMPORT_EXPORT_SUPPORT"):
        return
    compiled = device.compile(model, nodes)
    stream = io.BytesIO()
    compiled.export(stream)
    content = stream.getvalue()
    again = device.import_compiled(io.BytesIO(content)).run(values)
    for name, found in compiled.run(values).items():
        _require(_deviation(again[name], found) == 0, f"'{name}' is another after both", where)
    middle = len(content) // 2
    for damaged in (
        content[:-1],
        content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
    ):
        try:
            device.import_compiled(io.BytesIO(damaged))
        except InvalidInput:
            continue
        raise NonconformingDevice("a damaged file is imported", where=where)


def _groups(model: Model, support: Support) -> list[tuple[int, ...]]:
    """Connected groups of supported nodes, without cycles between them."""
    from hetsim.graph.dag import Dag
    from hetsim.partitioning.methods.compact import merge
    from hetsim.problem.groups import order_groups

    dag = Dag.from_edges(len(model.graph.nodes), model.graph.edges())
    taken = support.taken
    parts = order_groups(dag, merge(dag, [0 if t else 1 for t in taken])) or []
    return [nodes for nodes in parts if taken[nodes[0]]]


def _crossing(model: Model, nodes: Sequence[int]) -> set[str]:
    """Values that enter or leave a group, except inputs and constants of the model."""
    from hetsim.graph.extract import runnable

    part = runnable(model, nodes)
    return {*part.inputs, *part.outputs} - set(model.graph.inputs)


def _open_all(model: Model, names: set[str]) -> bytes:
    """Whole model with these inner values as further outputs."""
    import onnx

    from hetsim.graph.extract import runnable_whole

    proto = onnx.ModelProto()
    proto.CopyFrom(runnable_whole(model)[0])
    given = {value.name for value in proto.graph.output}
    types = {value.name: value.type for value in model.proto.graph.value_info}
    if model.lowering is not None:
        types = dict(model.lowering.types)
    for name in sorted(names - given):
        proto.graph.output.add(name=name).type.CopyFrom(types[name])
    return bytes(proto.SerializeToString())


def _deviation(found: Any, wanted: Any) -> float:
    import numpy as np

    if not isinstance(wanted, np.ndarray) or wanted.dtype.kind != "f":
        return 0.0 if np.array_equal(found, wanted) else float("inf")
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    have, right = found.astype(np.float64), wanted.astype(np.float64)
    # Beyond float16 a device may overflow (masks are as low as float32 goes), sign kept.
    beyond = np.abs(right) > HALF_LARGEST
    if not np.array_equal(np.sign(have[beyond]), np.sign(right[beyond])):
        return float("inf")
    have, right = have[~beyond], right[~beyond]
    scale = float(np.abs(right).max(initial=0.0)) or 1.0
    difference = float(np.abs(have - right).max(initial=0.0))
    return difference / scale if np.isfinite(difference) else float("inf")
