"""A compiled plan's folder read back: every file checked before anything in it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

from hetsim.device.artifact.file import read_artifact
from hetsim.device.artifact.header import Expected, Identity
from hetsim.device.artifact.onnx_part import relocated
from hetsim.device.artifact.trial import Trial
from hetsim.device.artifact.values import ValueSpec
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph, KernelSettings
from hetsim.device.registry import SIMULATED
from hetsim.errors import HetsimError, InvalidInput
from hetsim.execution.compiled.manifest import (
    PLAN,
    WEIGHTS,
    GroupRecord,
    Manifest,
    copy_weights,
    opened,
    read_manifest,
)
from hetsim.execution.devices.folders import run_folder
from hetsim.execution.devices.program import Code, Program
from hetsim.execution.devices.weights import Extent, extents_of
from hetsim.hardware.catalog import load_platform
from hetsim.plans.plan import parse
from hetsim.plans.saved import named_libraries

if TYPE_CHECKING:
    import onnx

    from hetsim.hardware.spec import DeviceSpec


@dataclass(frozen=True)
class CompiledPlan:
    """A folder that ``compile_plan`` wrote, read back and checked.

    Attributes
    ----------
    folder : Path
        Absolute.
    manifest : Manifest
    plan : mapping
        The record of the plan; see ``plans.plan.parse``.
    program : Program
        Ready for an executor; its weights are mapped from a copy of this process's own, which is
        there as long as this object.
    constants : mapping of str to value
        Outputs of the model that are stored values.
    values : mapping of str to ValueSpec
        What goes into, out of and between the subgraphs.
    """

    folder: Path
    manifest: Manifest = field(repr=False)
    plan: Mapping[str, Any] = field(repr=False)
    program: Program = field(repr=False)
    constants: Mapping[str, Any] = field(repr=False)
    values: Mapping[str, ValueSpec] = field(repr=False)


def open_compiled(folder: Path) -> CompiledPlan:
    """Read what ``compile_plan`` wrote, and check all of it; see ``read_artifact``.

    Every subgraph is opened once in a child process, so that one that breaks ONNX Runtime
    does not break this process.

    Raises
    ------
    InvalidInput
        Where a file is missing, damaged, not in the folder, for other devices or versions,
        or does not fit the others.
    ExecutionError
        Where the copy of the weights cannot be written.
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
    code: dict[str, list[Code]] = {device.name: [] for device in manifest.devices}
    extents: dict[str, set[Extent]] = {device.name: set() for device in manifest.devices}
    settings = {device.name: KernelSettings(device.threads) for device in manifest.devices}
    known = {value.name: value.spec for value in manifest.inputs}
    constants: dict[str, Any] = {}
    trials: list[tuple[GroupRecord, bytes, int]] = []
    for index, group in enumerate(manifest.groups):
        proto, content, mapped = _read(folder, manifest, group, known)
        trials.append((group, content, mapped))
        code[group.device].append(
            Code(
                index,
                group.about,
                content,
                tuple(group.outputs),
                specs.get(group.device),
                settings[group.device],
            )
        )
        extents[group.device].update(extents_of(proto))
    stored = manifest.constants
    if stored is not None:
        _, stored_content, mapped = _read(folder, manifest, stored, known)
        trials.append((stored, stored_content, mapped))
    with ExitStack() as opening:
        weights_dir = str(folder)
        if manifest.weights is not None:
            copies = opening.enter_context(run_folder())
            weights_dir = str(copies)
            copy_weights(folder, manifest.weights, copies / manifest.weights.file)
        # Nothing is opened, not even in the child, before all files have been checked.
        with Trial() as trial:
            for group, content, mapped in trials:
                trial.check(content, weights_dir, group.outputs, mapped, str(folder / group.file))
        if stored is not None:
            constants = CompiledSubgraph(stored_content, weights_dir, stored.outputs).run({})
        made = {name for group in manifest.groups for name in group.outputs}
        program = Program(
            steps=steps,
            code={device: tuple(entries) for device, entries in code.items() if entries},
            extents={
                device: tuple(sorted(found, key=lambda r: (r.location, r.offset, r.nbytes)))
                for device, found in extents.items()
            },
            weights_dir=weights_dir,
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
    folder: Path,
    manifest: Manifest,
    group: GroupRecord,
    known: dict[str, ValueSpec],
) -> tuple[onnx.ModelProto, bytes, int]:
    """Read a file, hold it against the manifest, and note the types of its values in `known`.

    Returns the subgraph, whose weights lie in the folder; the same as bytes; the bytes of its
    weights.
    """
    weights = manifest.weights
    where = str(folder / group.file)
    device = next(entry for entry in manifest.devices if entry.name == group.device)
    identity = Identity(device.name, device.architecture, device.precision)
    with opened(folder, group.file) as stream:
        artifact = read_artifact(
            stream,
            expected=Expected(identity),
            where=where,
            shared_bytes=0 if weights is None else weights.nbytes,
        )
    artifact.close()
    header = artifact.header
    names = [value.name for value in header.inputs], [value.name for value in header.outputs]
    fits = not artifact.layout.weights and (artifact.sha256, artifact.layout.total, *names) == (
        group.sha256,
        group.nbytes,
        group.inputs,
        group.outputs,
    )
    values = (*header.inputs, *header.outputs)
    if not fits or any(known.setdefault(value.name, value) != value for value in values):
        raise InvalidInput(
            "not the file that the manifest describes",
            where=where,
            hint="compile the plan again, or copy the folder anew",
        )
    proto = relocated(artifact.proto, WEIGHTS if weights is None else weights.file, 0)
    mapped = sum(extent.nbytes for extent in extents_of(proto))
    return proto, proto.SerializeToString(), mapped
