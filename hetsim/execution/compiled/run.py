"""Runs of compiled plans: the folder is read, every file checked, then run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from weakref import finalize

import onnx
from numpy.typing import NDArray

from hetsim.core.process import started
from hetsim.core.room import out_of_room
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph, KernelSettings
from hetsim.device.registry import SIMULATED
from hetsim.errors import ExecutionError, HetsimError, InvalidInput, ModelError
from hetsim.execution.compiled.manifest import (
    PLAN,
    GroupRecord,
    Manifest,
    ValueRecord,
    copy_checked,
    describe,
    read_manifest,
)
from hetsim.execution.program import Code, Program, check_how, given_inputs
from hetsim.execution.run import all_judged, run_whole
from hetsim.execution.session import execute
from hetsim.execution.weights import run_folder, staged
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.inputs.arrays import Inputs
from hetsim.graph.model import Model
from hetsim.graph.reading.onnx_file import read_onnx
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.spec import DeviceSpec
from hetsim.problem.plan import parse
from hetsim.problem.saved import named_libraries, stated_model

TIMEOUT_S = 120.0
"""Time limit of the child that opens a folder's files; plus one second per file."""

_MEMORY_BYTES = 4 * 2**30
_COPIES = 4
"""Copies of a graph in memory while it is opened: raw, parsed, and taken apart."""

_AGAIN = "compile the plan again, or copy the folder again"


@dataclass(frozen=True)
class CompiledPlan:
    """Folder of ``compile_plan``, read and checked."""

    folder: Path
    manifest: Manifest = field(repr=False)
    plan: Mapping[str, Any] = field(repr=False)
    program: Program = field(repr=False)
    constants: Mapping[str, Any] = field(repr=False)
    values: Mapping[str, ValueRecord] = field(repr=False)


def open_compiled(folder: Path) -> CompiledPlan:
    """Return a folder of ``compile_plan``, completely checked.

    Every file is copied to a private folder and compared with its SHA-256; the copies are read like
    any ONNX model, and opened in a child process first. Raises InvalidInput if a file is missing,
    damaged, or inconsistent, or was written by other versions.
    """
    folder = folder.resolve()
    manifest, steps, text = read_manifest(folder)
    plan = parse(text, str(folder / PLAN))
    for library in named_libraries(plan.get("model")):
        raise InvalidInput(
            f"its plan names the library '{library}', but a compiled folder never loads code",
            where=str(folder / PLAN),
            hint="run the plan itself, with --extension",
        )
    specs = _foreign_specs(manifest, plan, folder)
    settings = {device.name: KernelSettings(device.threads) for device in manifest.devices}
    bare = {"below": None, "asked": None}
    known = {value.name: value.model_copy(update=bare) for value in manifest.inputs}
    with ExitStack() as opening:
        copies = opening.enter_context(run_folder())
        weights = [] if manifest.weights is None else [manifest.weights]
        for record in (*weights, *manifest.files):
            copy_checked(folder, record, copies / record.file)
        # Nothing is opened, even in the child, before all files have been checked.
        protos = {group.file: _read(folder, copies, group, known) for group in manifest.files}
        _open_in_child(folder, copies, protos, manifest)
        code: dict[str, list[Code]] = {}
        for index, group in enumerate(manifest.groups):
            proto, device = protos[group.file], group.device
            code.setdefault(device, []).append(
                Code(
                    index,
                    group.about,
                    proto.SerializeToString(),
                    tuple(group.outputs),
                    specs.get(device),
                    settings[device],
                )
            )
        constants: dict[str, Any] = {}
        if (stored := manifest.constants) is not None:
            content = protos[stored.file].SerializeToString()
            constants = CompiledSubgraph(content, str(copies), stored.outputs).run({})
        made = {name for group in manifest.groups for name in group.outputs}
        program = Program(
            steps=steps,
            code={
                device.name: tuple(code[device.name])
                for device in manifest.devices
                if device.name in code
            },
            weights_dir=str(copies),
            outputs=tuple(name for name in manifest.outputs if name in made),
        )
        compiled = CompiledPlan(folder, manifest, plan, program, constants, known)
        finalize(compiled, opening.pop_all().close)
        return compiled


def _foreign_specs(
    manifest: Manifest, plan: Mapping[str, Any], folder: Path
) -> dict[str, DeviceSpec]:
    """Return specs of the devices with kernels of other packages, which a run needs."""
    foreign = [device for device in manifest.devices if device.backend != SIMULATED]
    if not foreign:
        return {}
    where, device = str(folder), foreign[0]
    stated = plan.get("platform")
    source = stated.get("source") if isinstance(stated, dict) else None
    try:
        if not isinstance(stated, dict) or not isinstance(source, str):
            raise InvalidInput("the plan names no platform")
        platform = load_platform(source)
        if platform.sha256 != stated.get("sha256"):
            raise InvalidInput(f"platform '{source}' changed since")
        specs = {entry.name: platform.devices[entry.name] for entry in foreign}
        if any(specs[entry.name].backend != entry.backend for entry in foreign):
            raise InvalidInput(f"platform '{source}' differs")
    except KeyError as error:
        raise InvalidInput(f"the platform has no device {error}", where=where) from None
    except HetsimError as error:
        raise InvalidInput(
            f"the description of device '{device.name}' with backend '{device.backend}' is "
            f"missing: {error.what}",
            where=where,
            hint="restore the platform, or compile the plan again",
        ) from error
    return specs


def _read(
    folder: Path, copies: Path, group: GroupRecord, known: dict[str, ValueRecord]
) -> onnx.ModelProto:
    """Return the subgraph in a copied file, with inputs and outputs as in the manifest."""
    where = str(folder / group.file)
    try:
        proto = read_onnx(copies / group.file).proto
        inputs, outputs = describe(proto.graph.input), describe(proto.graph.output)
    except ModelError as error:
        raise replace(error, where=where) from error
    except ValueError as error:
        raise InvalidInput(str(error), where=where, hint=_AGAIN) from error
    names = [value.name for value in inputs], [value.name for value in outputs]
    if names != (group.inputs, group.outputs) or not all(
        _is(value, known.setdefault(value.name, value)) for value in (*inputs, *outputs)
    ):
        raise InvalidInput("it differs from the file in the manifest", where=where, hint=_AGAIN)
    return proto


def _is(value: ValueRecord, known: ValueRecord) -> bool:
    """Return whether a value matches; the file may leave open shapes that the plan fixes."""
    stated, held = known.shape, value.shape
    if stated is not None and held is not None and len(stated) == len(held):
        held = [a if isinstance(a, int) else b for a, b in zip(held, stated, strict=True)]
    return value.model_copy(update={"shape": stated if held is None else held}) == known


def _open_in_child(
    folder: Path, copies: Path, protos: Mapping[str, onnx.ModelProto], manifest: Manifest
) -> None:
    """Open the copies in a child process with limits of time and memory, which may crash.

    Some models that pass every check crash ONNX Runtime; a digest does not identify the author.
    """
    mapped = 0 if manifest.weights is None else manifest.weights.nbytes
    largest = max((proto.ByteSize() for proto in protos.values()), default=0)
    wanted = [[group.file, group.outputs] for group in manifest.files]
    try:
        child = started(
            "hetsim.execution.compiled.opening",
            "open_all",
            _MEMORY_BYTES + mapped + _COPIES * largest,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
    except OSError as error:
        raise out_of_room(error) or ExecutionError(
            f"cannot start a process to open the files: {error.strerror or error}"
        ) from error
    with child:
        try:
            asked = json.dumps([str(copies), wanted])
            told, _ = child.communicate(asked, timeout=TIMEOUT_S + len(wanted))
            how = "breaks"
        except subprocess.TimeoutExpired:
            child.kill()
            told, _ = child.communicate()
            how = "takes too long"
        finally:
            child.kill()
    answers = [json.loads(line) for line in told.splitlines()]
    for answer, group in zip(answers, manifest.files, strict=False):
        if answer:
            raise InvalidInput(answer, where=str(folder / group.file), hint=_AGAIN)
    if len(answers) < len(manifest.files):
        raise InvalidInput(
            f"ONNX Runtime {how} when it opens it",
            where=str(folder / manifest.files[len(answers)].file),
            hint="compile the plan again, and do not trust this folder",
        )


@dataclass(frozen=True)
class CompiledRun:
    """Result of a compiled plan; see ``hetsim.Run``.

    `not_compared` is the reason why there is no reference.
    """

    outputs: dict[str, NDArray[Any]] = field(repr=False)
    bitwise_equal: bool | None
    mismatches: tuple[str, ...]
    tolerance: float
    not_compared: str | None
    executor: str
    wall_s: float
    compile_s: float
    steps: int


def run_compiled(
    compiled: CompiledPlan,
    inputs: Inputs | None = None,
    *,
    executor: Literal["ray", "threads"] = "ray",
    address: str | None = None,
    timeout_s: float = 600.0,
    verify: bool = True,
    seed: int = 0,
) -> CompiledRun:
    """Run a compiled plan, without its model file.

    Parameters and errors are those of ``hetsim.run``; the random inputs of a seed are the same too.
    With `verify`, outputs are compared with the whole model's if its file still exists at the path
    in the plan with the recorded digest.
    """
    check_how(executor, address, timeout_s)
    given = given_inputs(_stand_in(compiled), inputs, seed)
    names = {*given, *(name for step in compiled.program.steps for name in step.sends)}
    crossing = sum(compiled.values[name].nbytes for name in sorted(names))
    made, compile_s, wall_s = execute(
        compiled.program, given, executor, address, timeout_s, crossing
    )
    known = {**given, **compiled.constants, **made}
    outputs = {name: known[name] for name in compiled.manifest.outputs}
    reference: dict[str, Any] | None = None
    not_compared: str | None = "not asked for"
    if verify:
        reference, not_compared = _reference(compiled, given)
    tolerance = compiled.manifest.tolerance
    bitwise_equal, mismatches = all_judged([outputs], reference, tolerance)
    return CompiledRun(
        outputs=outputs,
        bitwise_equal=bitwise_equal,
        mismatches=mismatches,
        tolerance=tolerance,
        not_compared=not_compared,
        executor=executor,
        wall_s=wall_s,
        compile_s=compile_s,
        steps=len(compiled.program.steps),
    )


def _stand_in(compiled: CompiledPlan) -> Model:
    """Return a model with only the inputs, and the value ranges that these accept."""
    tensors: dict[str, Tensor] = {}
    nodes: list[Node] = []
    asked: dict[str, tuple[int, ...]] = {}
    for value in compiled.manifest.inputs:
        kind = value.type.partition("(")[0]
        shape = None if value.shape is None else tuple(value.shape)
        tensors[value.name] = Tensor(value.name, kind, shape)
    for value in compiled.manifest.inputs:
        if value.below is not None:
            table, row = f"table {len(tensors)}", f"row {len(tensors)}"
            tensors[table] = Tensor(table, "float32", (value.below,))
            place = len(nodes)
            nodes.append(Node(place, row, "Gather", "", (table, value.name), (row,)))
        elif value.asked is not None:
            constant, same = f"asked {len(tensors)}", f"same {len(tensors)}"
            asked[constant] = (value.asked,)
            tensors[constant] = Tensor(constant, "int64", ())
            nodes.append(Node(len(nodes), same, "Equal", "", (value.name, constant), (same,)))
    graph = Graph(
        name="inputs",
        nodes=tuple(nodes),
        tensors=tensors,
        inputs=tuple(value.name for value in compiled.manifest.inputs),
        outputs=(),
        constants=frozenset(),
        opsets={},
        constant_values=asked,
    )
    return Model(
        name="inputs", source=str(compiled.folder), graph=graph, stored=onnx.ModelProto(),
        weights_dir=None, digest="", canonical="none", dims={}, shapes={}, file_nodes=(),
        folded=(),
    )  # fmt: skip


def _reference(
    compiled: CompiledPlan, inputs: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, str | None]:
    """Return outputs of the whole model in one session; or the reason why it is unavailable."""
    try:
        model = stated_model(compiled.plan.get("model"), str(compiled.folder / PLAN))
        roundings = _roundings(compiled, model)
    except HetsimError as error:
        place = f"{error.where}: " if error.where else ""
        return None, f"no whole model to compare with: {place}{error.what}"
    with staged(model) as staged_model:
        return run_whole(staged_model, inputs, roundings), None


def _roundings(compiled: CompiledPlan, model: Model) -> list[Mapping[str, str]] | None:
    """Return the rounding of element types at each node of the whole model, or None."""
    if compiled.manifest.precision == "graph":
        return None
    by_device = {device.name: device.rounding for device in compiled.manifest.devices}
    by_node: dict[str, Mapping[str, str]] = {}
    for group in compiled.plan["groups"]:
        by_node.update(dict.fromkeys(group["nodes"], by_device.get(group["device"], {})))
    unknown = [node.name for node in model.graph.nodes if node.name not in by_node]
    if unknown:
        raise InvalidInput(f"the plan has no node '{unknown[0]}' of it")
    return [by_node[node.name] for node in model.graph.nodes]
