"""A partition as ONNX: one model of functions, a model a group, or notes on the nodes.

What is made here passes onnx's full check wherever the model does. That check has no way to
accept inputs or outputs of unknown rank, which a value between two groups becomes in
``to_models``, nor sparse constants as operands; ONNX Runtime runs them all the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import onnx

from hetsim.errors import UsageError
from hetsim.graph.extract import extract
from hetsim.graph.model import LAYER_KEY, Model
from hetsim.graph.reading.structure import bodies
from hetsim.partitioning.export.onnx_saving import copy_without, save
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check

__all__ = ["CONFIGURATION", "LAYER_KEY", "save", "to_annotated", "to_functions", "to_models"]

CONFIGURATION = "hetsim"
"""Name of the device configuration that ``to_annotated`` adds."""

_GENERATED = re.compile(r"_token_\d+$")
_FIRST_IR_WITH_TYPED_FUNCTIONS = 10
_FIRST_IR_WITH_DEVICES = 11


def to_functions(problem: Problem, groups: Sequence[Group]) -> onnx.ModelProto:
    """Return the model with every group as a model-local function, called once.

    Parameters
    ----------
    problem : Problem
        Made from a model.
    groups : sequence of Group
        A valid partition, in execution order.

    Returns
    -------
    A model whose graph is one call a group. Function ``g3_npu`` of domain ``hetsim.npu`` is
    the fourth group, on device ``npu``: its nodes under their names and in their order,
    with the types of its inner values. What a group reads, constants and values captured by
    the bodies of control flow included, comes in as inputs of the function, for a function
    holds no constants; they stay initializers of the graph, external ones as references
    into the model's weights folder. The functions of the model itself are kept. Constants
    whose names ONNX Runtime's optimiser made have other names in the graph, not within the
    functions: it would make those names again, and stop at them. The IR
    version is at least 10, the operator sets are the model's. The metadata of a function
    name its device and group in full (``hetsim.device``, ``hetsim.group``).

    Raises
    ------
    UsageError
        Where the problem has no model.
    PlanError
        Where the groups are no valid partition.

    Complexity: O(V + E + weights that are inline).
    """
    model = _checked(problem, groups)
    source = model.proto
    proto = copy_without(source, graph=("node", "value_info"))
    proto.ir_version = max(proto.ir_version, _FIRST_IR_WITH_TYPED_FUNCTIONS)
    renamed = _rename_generated(proto.graph, model)
    versions = {entry.domain: entry.version for entry in source.opset_import}
    taken = {(function.domain, function.name) for function in source.functions}
    types = {value.name: value for value in source.graph.value_info}
    for value in source.graph.output:
        types.setdefault(value.name, value)
    put_out = set(model.graph.outputs)
    consumers = model.graph.consumers()
    for index, group in enumerate(groups):
        domain = f"hetsim.{identifier(group.device)}"
        name = f"g{index}_{identifier(group.device)}"
        while (domain, name) in taken:
            name += "_"
        if domain not in versions:
            versions[domain] = 1
            proto.opset_import.add(domain=domain, version=1)
        written = [value for v in group.nodes for value in model.graph.nodes[v].writes]
        reads, outputs = model.graph.exchanged(group.nodes, consumers, put_out)
        function = proto.functions.add(
            name=name,
            domain=domain,
            input=reads,
            output=outputs,
            node=(source.graph.node[v] for v in group.nodes),
            value_info=(types[value] for value in written if value in types),
            doc_string=f"Group {index}, on device {group.device}.",
        )
        function.metadata_props.add(key="hetsim.device", value=group.device)
        function.metadata_props.add(key="hetsim.group", value=str(index))
        for used in sorted(set(_domains(function.node))):
            function.opset_import.add(domain=used, version=versions[used])
        proto.graph.node.add(
            op_type=name,
            domain=domain,
            name=name,
            input=(renamed.get(value, value) for value in reads),
            output=outputs,
        )
        proto.graph.value_info.extend(
            types[value] for value in outputs if value in types and value not in put_out
        )
    return proto


def to_models(problem: Problem, groups: Sequence[Group]) -> tuple[onnx.ModelProto, ...]:
    """Return every group as a model of its own, in execution order.

    The values that cross between groups keep their names: an output of one model is the
    input of the same name of the later ones. Constants are copied, external ones as
    references into the model's weights folder.

    Raises
    ------
    UsageError
        Where the problem has no model.
    PlanError
        Where the groups are no valid partition.

    Complexity: O(V + E + weights that are inline).
    """
    model = _checked(problem, groups)
    return tuple(extract(model, group.nodes).proto for group in groups)


def to_annotated(problem: Problem, groups: Sequence[Group]) -> onnx.ModelProto:
    """Return the model with its graph unchanged and the device of every node noted twice.

    For ONNX: the model has a device configuration ``hetsim`` with the devices of the
    platform, and every node a ``NodeDeviceConfigurationProto`` with its group as
    `pipeline_stage` and, for each of its inputs and outputs, the one device it is on. For
    ONNX Runtime: the metadata entry ``layer_ann`` of a node is the name of its device. Other
    configurations of the model are kept. The IR version is at least 11.

    Raises
    ------
    UsageError
        Where the problem has no model.
    PlanError
        Where the groups are no valid partition.

    Complexity: O(V + E + weights that are inline).
    """
    model = _checked(problem, groups)
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    proto.ir_version = max(proto.ir_version, _FIRST_IR_WITH_DEVICES)
    _remove(proto.configuration, [c for c in proto.configuration if c.name == CONFIGURATION])
    proto.configuration.add(
        name=CONFIGURATION, num_devices=len(problem.devices), device=problem.devices
    )
    for stage, group in enumerate(groups):
        device = problem.device_index(group.device)
        for v in group.nodes:
            node = proto.graph.node[v]
            _remove(
                node.device_configurations,
                [c for c in node.device_configurations if c.configuration_id == CONFIGURATION],
            )
            noted = node.device_configurations.add(
                configuration_id=CONFIGURATION, pipeline_stage=stage
            )
            for name in dict.fromkeys((*node.input, *node.output)):
                if name:
                    noted.sharding_spec.add(tensor_name=name, device=[device])
            _remove(node.metadata_props, [e for e in node.metadata_props if e.key == LAYER_KEY])
            node.metadata_props.add(key=LAYER_KEY, value=group.device)
    return proto


def _checked(problem: Problem, groups: Sequence[Group]) -> Model:
    if problem.model is None:
        raise UsageError(
            "it was made from arrays, and only a model can be written as ONNX",
            where=f"problem '{problem.name}'",
            hint="make the problem with Problem.of(model, platform)",
        )
    check(problem, groups, where=f"model '{problem.model.name}'")
    return problem.model


def _rename_generated(graph: onnx.GraphProto, model: Model) -> dict[str, str]:
    """Give constants that the optimiser named new names in place; return them by old name."""
    taken = set(model.graph.tensors)
    kept = {*model.graph.outputs, *(note.tensor_name for note in graph.quantization_annotation)}
    renamed: dict[str, str] = {}
    for tensor in graph.initializer:
        if _GENERATED.search(tensor.name) and tensor.name not in kept:
            name = f"{tensor.name}_"
            while name in taken:
                name += "_"
            taken.add(name)
            renamed[tensor.name] = name
            tensor.name = name
    return renamed


def identifier(device: str) -> str:
    """`device` in the characters that names of functions and domains may have everywhere."""
    return re.sub(r"[^0-9A-Za-z_]", "_", device)


def _domains(nodes: Collection[onnx.NodeProto]) -> Iterator[str]:
    for node in nodes:
        yield node.domain
        for body in bodies(node):
            yield from _domains(body.node)


def _remove(field: Any, entries: Sequence[Any]) -> None:
    for entry in entries:
        field.remove(entry)
