"""A compiled plan's folder read back: every file checked before anything in it is opened."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

from hetsim.core.own_programs import started
from hetsim.core.room import out_of_room
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph, KernelSettings
from hetsim.device.registry import SIMULATED
from hetsim.errors import ExecutionError, HetsimError, InvalidInput, ModelError
from hetsim.execution.compiled.manifest import (
    PLAN,
    GroupRecord,
    Manifest,
    ValueSpec,
    copy_checked,
    describe,
    read_manifest,
)
from hetsim.execution.devices.folders import run_folder
from hetsim.execution.devices.program import Code, Program
from hetsim.execution.devices.weights import Extent, extents_of
from hetsim.graph.reading.onnx_file import read_onnx
from hetsim.hardware.catalog import load_platform
from hetsim.problem.plan import parse
from hetsim.problem.saved import named_libraries

if TYPE_CHECKING:
    import onnx

    from hetsim.hardware.spec import DeviceSpec

TIMEOUT_S = 120.0
"""Of the child that opens a folder's files first; a second more for each file."""

_MEMORY_BYTES = 4 * 2**30
_COPIES = 4
"""Of a graph while it is opened: as it came, parsed, and taken apart."""

_AGAIN = "compile the plan again, or copy the folder anew"


@dataclass(frozen=True)
class CompiledPlan:
    """A folder that ``compile_plan`` wrote, read back and checked."""

    folder: Path
    manifest: Manifest = field(repr=False)
    plan: Mapping[str, Any] = field(repr=False)
    program: Program = field(repr=False)
    constants: Mapping[str, Any] = field(repr=False)
    values: Mapping[str, ValueSpec] = field(repr=False)


def open_compiled(folder: Path) -> CompiledPlan:
    """Read what ``compile_plan`` wrote, and check all of it.

    Every file is copied to a folder of this process's own and held against its SHA-256 on the way;
    the copies are read as any ONNX model is, and opened in a child process first, so that one that
    breaks ONNX Runtime does not break this process.

    Raises
    ------
    InvalidInput
        Where a file is missing, damaged, not in the folder, or does not fit the others; or where
        other versions wrote it.
    ExecutionError
        Where the copies cannot be written.
    """
    folder = folder.resolve()
    manifest, steps, text = read_manifest(folder)
    plan = parse(text, str(folder / PLAN))
    for library in named_libraries(plan.get("model")):
        raise InvalidInput(
            f"its plan names the library '{library}', and a compiled folder has no code loaded",
            where=str(folder / PLAN),
            hint="give the plan itself, with --extension",
        )
    specs = _foreign_specs(manifest, plan, folder)
    settings = {device.name: KernelSettings(device.threads) for device in manifest.devices}
    known = {value.name: value.spec for value in manifest.inputs}
    with ExitStack() as opening:
        copies = opening.enter_context(run_folder())
        weights = [] if manifest.weights is None else [manifest.weights]
        for record in (*weights, *manifest.files):
            copy_checked(folder, record, copies / record.file)
        # Nothing is opened, not even in the child, before all files have been checked.
        protos = {group.file: _read(folder, copies, group, known) for group in manifest.files}
        _open_in_child(folder, copies, protos, manifest)
        code: dict[str, list[Code]] = {}
        extents: dict[str, set[Extent]] = {device.name: set() for device in manifest.devices}
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
            extents[device].update(extents_of(proto))
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
            extents={
                device: tuple(sorted(found, key=lambda r: (r.location, r.offset, r.nbytes)))
                for device, found in extents.items()
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
    """Descriptions of the devices whose kernels are another package's, which a run needs."""
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
            raise InvalidInput(f"platform '{source}' says otherwise")
    except KeyError as error:
        raise InvalidInput(f"the platform has no device {error}", where=where) from None
    except HetsimError as error:
        raise InvalidInput(
            f"device '{device.name}' runs on '{device.backend}', whose description is gone: "
            f"{error.what}",
            where=where,
            hint="put the platform back where it was, or compile the plan again",
        ) from error
    return specs


def _read(
    folder: Path, copies: Path, group: GroupRecord, known: dict[str, ValueSpec]
) -> onnx.ModelProto:
    """The subgraph in a copied file, which makes and reads what the manifest says."""
    where = str(folder / group.file)
    try:
        proto = read_onnx(copies / group.file).proto
        inputs, outputs = describe(proto.graph.input), describe(proto.graph.output)
    except ModelError as error:
        raise replace(error, where=where) from error
    except ValueError as error:
        raise InvalidInput(str(error), where=where, hint=_AGAIN) from error
    names = [value.name for value in inputs], [value.name for value in outputs]
    if names != (group.inputs, group.outputs) or any(
        known.setdefault(value.name, value) != value for value in (*inputs, *outputs)
    ):
        raise InvalidInput("not the file that the manifest describes", where=where, hint=_AGAIN)
    return proto


def _open_in_child(
    folder: Path, copies: Path, protos: Mapping[str, onnx.ModelProto], manifest: Manifest
) -> None:
    """Open the copies in a child process with limits of time and memory, which may die of it.

    Some models that pass every check end ONNX Runtime's process; a digest does not tell who wrote
    them.
    """
    mapped = 0 if manifest.weights is None else manifest.weights.nbytes
    largest = max((proto.ByteSize() for proto in protos.values()), default=0)
    wanted = [[group.file, group.outputs] for group in manifest.files]
    try:
        child = started(
            __name__,
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
            f"no process to open the files in can be started: {error.strerror or error}"
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


def open_all(memory_bytes: int) -> None:
    """Be the child: open the files that stdin names, and print for each what was wrong, or ""."""
    # Whatever else writes to stdout must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    if importlib.util.find_spec("resource") is not None:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = memory_bytes if most == resource.RLIM_INFINITY else min(memory_bytes, most)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    folder, wanted = json.loads(sys.stdin.read())
    for file, outputs in wanted:
        said = ""
        try:
            CompiledSubgraph(
                read_onnx(Path(folder, file)).proto.SerializeToString(), folder, outputs
            )
        except HetsimError as error:
            said = error.what
        print(json.dumps(said), file=answers, flush=True)
