"""Export of a partition as ONNX: a model of functions, a model per group, or annotated nodes.

Exports pass onnx's full check if the model does. That check cannot accept inputs or outputs of
unknown rank, which a value between two groups may have in ``to_models``, nor sparse constants as
operands; ONNX Runtime runs them all the same.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from hetsim.core.files import draft_folder, open_regular, whole_file
from hetsim.core.room import out_of_room
from hetsim.errors import InvalidInput, ModelError, OutOfRoom, UsageError
from hetsim.graph.extract import extract
from hetsim.graph.model import LAYER_KEY, Model
from hetsim.graph.reading.external_data import copy_without, externalise, reference_of
from hetsim.graph.reading.onnx_file import external_tensors
from hetsim.graph.reading.structure import bodies
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check

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
        Problem of a model.
    groups : sequence of Group
        Valid partition in execution order.

    Returns
    -------
    A model whose graph is one call per group. Function ``g3_npu`` of domain ``hetsim.npu`` is
    the fourth group, on device ``npu``: its nodes under their names and in their order,
    with the types of its inner values. All its inputs, including constants and values captured by
    control flow bodies, are inputs of the function, as functions hold no constants; constants stay
    initializers of the graph, external ones as references into the model's weights folder. The
    functions of the model itself are kept. Constants named by ONNX Runtime's optimiser are renamed
    in the graph, but not within functions, as it would generate the same names again and fail. The
    IR version is at least 10, the operator sets are the model's. The metadata of a function name
    its device and group in full (``hetsim.device``, ``hetsim.group``).

    Raises
    ------
    UsageError
        If the problem has no model.
    PlanError
        If the groups are not a valid partition.

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

    Values that cross between groups keep their names: an output of one model is the input of the
    same name of later ones. Constants are copied, external ones as references into the model's
    weights folder.

    Raises as ``to_functions``. O(V + E + weights that are inline).
    """
    model = _checked(problem, groups)
    return tuple(extract(model, group.nodes).proto for group in groups)


def to_annotated(problem: Problem, groups: Sequence[Group]) -> onnx.ModelProto:
    """Return the model with its graph unchanged and the device of every node annotated twice.

    For ONNX: the model has a device configuration ``hetsim`` with the devices of the
    platform, and every node a ``NodeDeviceConfigurationProto`` with its group as
    `pipeline_stage` and, for each of its inputs and outputs, the one device it is on. For
    ONNX Runtime: the metadata entry ``layer_ann`` of a node is the name of its device. Other
    configurations of the model are kept. The IR version is at least 11.

    Raises as ``to_functions``. O(V + E + weights that are inline).
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
            "it was made from arrays; only a model can be written as ONNX",
            where=f"problem '{problem.name}'",
            hint="make the problem with Problem.of(model, platform)",
        )
    check(problem, groups, where=f"model '{problem.model.name}'")
    return problem.model


def _rename_generated(graph: onnx.GraphProto, model: Model) -> dict[str, str]:
    """Rename constants named by the optimiser, in place; return the new names by old name."""
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
    """Return `device` with only characters that are valid in names of functions and domains."""
    return re.sub(r"[^0-9A-Za-z_]", "_", device)


def _domains(nodes: Collection[onnx.NodeProto]) -> Iterator[str]:
    for node in nodes:
        yield node.domain
        for body in bodies(node):
            yield from _domains(body.node)


def _remove(field: Any, entries: Sequence[Any]) -> None:
    for entry in entries:
        field.remove(entry)


def check_folder(folder: Path) -> None:
    """Raise UsageError if `folder` exists and is not empty, or is a broken link."""
    if folder.is_symlink() and not folder.exists():
        raise UsageError("it is a broken link", where=str(folder), hint="name a new folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError("it exists and is not empty", where=str(folder), hint="name a new folder")


def save_all(problem: Problem, groups: Sequence[Group], folder: Path) -> tuple[str, ...]:
    """Write a partition as ONNX to a new folder, all files or none; return their names.

    ``split.onnx`` holds every group as a function, ``annotated.onnx`` the graph with each node's
    device, and files like ``g3_npu.onnx`` one group each. Weights are stored next to them.

    Raises
    ------
    UsageError
        If the folder exists and is not empty, or the problem has no model.
    InvalidInput, OutOfRoom
        If the disk refuses or is full.
    """
    check_folder(folder)
    model = problem.model
    if model is None:
        raise UsageError("the problem has no model", hint="build it with Problem.of")
    parts = to_models(problem, groups)
    protos = {"split": to_functions(problem, groups), "annotated": to_annotated(problem, groups)}
    for index, (group, part) in enumerate(zip(groups, parts, strict=True)):
        protos[f"g{index}_{identifier(group.device)}"] = part
    target = folder.resolve()
    try:
        with draft_folder(target) as draft:
            for name, proto in protos.items():
                save(proto, draft / f"{name}.onnx", model.weights_dir)
            draft.replace(target)
    except OutOfRoom as error:
        # Errors name the requested folder instead of the temporary one.
        raise replace(error, where=str(folder)) from error
    except OSError as error:
        raise out_of_room(error, folder) or InvalidInput(
            f"cannot write: {error.strerror or error}", where=str(folder)
        ) from error
    return tuple(f"{name}.onnx" for name in protos)


INLINE_LIMIT_BYTES = 2**31 - 2**26
"""Total of inline weights above which they go to a file: protobuf is limited to 2 GiB."""

_MOVED_ABOVE_BYTES = 1024
"""Size of a weight above which it goes to that file."""


def save(
    proto: onnx.ModelProto,
    path: str | os.PathLike[str],
    weights_dir: str | os.PathLike[str] | None,
    *,
    inline_limit_bytes: int = INLINE_LIMIT_BYTES,
) -> Path:
    """Write a model and its weights; return its path.

    Parameters
    ----------
    proto : onnx.ModelProto
        The model, which is not modified.
    path : path
        Path of the ``.onnx`` file; its folder is created if needed. An existing file is replaced.
    weights_dir : path or None
        Folder that the external data of `proto` is currently relative to. Every such file is copied
        next to the model under the same relative name; an existing one with the same size and time,
        or the same content, is used.
    inline_limit_bytes : int
        If the inline weights of the graph exceed this in total, those above 1 KiB go to one file
        next to the model, named after it.

    Raises
    ------
    ModelError
        If a weights file is missing, or the model is larger than 2 GiB without its weights.
    InvalidInput
        If a weights file would replace another one, or the files cannot be written. Files of this
        call are then removed, and an older model is untouched.

    Complexity: linear in the model and the weights files to copy.
    """
    target = Path(path)
    made: list[Path] = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Each once, in order of first reference.
        locations = dict.fromkeys(reference_of(one)[0] for one in external_tensors(proto))
        for location in locations:
            _bring(location, weights_dir, target, made)
        if target.is_dir():
            raise InvalidInput(
                "it is a folder", where=str(target), hint="give the name of a file in it"
            )
        sizes = [len(tensor.raw_data) for tensor in proto.graph.initializer]
        if sum(sizes) <= inline_limit_bytes:
            with whole_file(target) as draft:
                draft.write(_serialised(proto, target))
            return target
        name = f"{target.name}.weights"
        while name in locations:
            name += "_"
        # Weights are renamed first: a model never exists without them.
        with whole_file(target) as draft, whole_file(target.parent / name) as weights:
            large = {at for at, size in enumerate(sizes) if size > _MOVED_ABOVE_BYTES}
            moved, _ = externalise(proto, large, weights, name)
            draft.write(_serialised(moved, target))
    except BaseException as error:
        for file in made:
            file.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise out_of_room(error, target) or InvalidInput(
                f"cannot write: {error.strerror or error}",
                where=str(target),
                hint="choose a writable folder with free space",
            ) from error
        raise
    return target


def _bring(
    location: str,
    weights_dir: str | os.PathLike[str] | None,
    target: Path,
    made: list[Path],
) -> None:
    """Ensure that the weights file `location` is next to `target`."""
    if weights_dir is None:
        raise ModelError(
            f"its weights are in {location!r}, and no weights folder was given",
            where=str(target),
            hint="give the folder that the model was read from",
        )
    if os.path.isabs(location) or ".." in Path(location).parts:
        raise ModelError(
            f"weights file {location!r} is outside the model's folder",
            where=str(target),
            hint="keep the weights file beside the model",
        )
    source = (Path(weights_dir) / location).resolve()
    if not source.is_file():
        raise ModelError(
            f"weights file {str(source)!r} is missing",
            where=str(target),
            hint="put it back, or load the model again",
        )
    wanted = target.parent / location
    if os.path.lexists(wanted) or wanted == target:
        # ONNX Runtime does not follow a symbolic link to weights.
        plain = wanted != target and wanted.is_file() and not wanted.is_symlink()
        if plain and (os.path.samefile(source, wanted) or filecmp.cmp(source, wanted)):
            return
        raise InvalidInput(
            f"another file exists at {str(wanted)!r}, the path of the weights",
            where=str(target),
            hint="save into an empty folder",
        )
    wanted.parent.mkdir(parents=True, exist_ok=True)
    # No hard link: onnx refuses a weights file with several links, including the original.
    with whole_file(wanted) as draft, open_regular(source) as content:
        shutil.copyfileobj(content, draft)
        draft.flush()
        # A later call compares size and time before it reads either of them.
        found = os.fstat(content.fileno())
        os.utime(draft.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))
    made.append(wanted)


def _serialised(proto: onnx.ModelProto, target: Path) -> bytes:
    serialise: Callable[[], bytes] = proto.SerializeToString
    try:
        return serialise()
    except Exception as error:  # protobuf's own type depends on its backend
        raise ModelError(
            f"larger than 2 GiB without its weights: {' '.join(str(error).split())}",
            where=str(target),
            hint="store the tensors in its attributes as initializers",
        ) from error
