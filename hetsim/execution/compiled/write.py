"""A plan compiled to a folder: one file a subgraph, and all that a run needs without the model."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hetsim.base.files import create, draft_folder
from hetsim.base.room import out_of_room
from hetsim.device.artifact.file import Exported, export
from hetsim.device.artifact.header import (
    Identity,
    onnxruntime_version,
    precision_name,
)
from hetsim.device.artifact.onnx_part import SharedWeights
from hetsim.device.artifact.values import describe
from hetsim.device.registry import make_device, tolerance
from hetsim.errors import ArtifactError, InvalidInput, UsageError
from hetsim.execution.compiled.manifest import (
    MANIFEST,
    PLAN,
    WEIGHTS,
    DeviceRecord,
    FileRecord,
    GroupRecord,
    Manifest,
    ValueRecord,
    step_records,
)
from hetsim.execution.devices.program import Program, assemble, roundings_of
from hetsim.execution.devices.weights import staged
from hetsim.partitioning.export.as_onnx import identifier
from hetsim.partitioning.export.onnx_folder import check_folder
from hetsim.version import __version__

if TYPE_CHECKING:
    import onnx

    from hetsim.graph.model import Model
    from hetsim.hardware.spec import DeviceSpec
    from hetsim.plans.plan import Plan

SUFFIX = ".hsub"


def compile_plan(
    plan: Plan, folder: Path, *, precision: Literal["graph", "device"] = "graph"
) -> Manifest:
    """Write `plan` to a new folder, all files or none.

    One ``g3_npu.hsub`` a subgraph, ``constants.hsub`` where outputs of the model are stored
    values, ``weights.bin`` with the large weights of all of them, each once, ``plan.json``,
    and ``manifest.json``, which names the rest.

    Parameters
    ----------
    plan : Plan
        Of a problem that was built from a model and a platform.
    folder : Path
        New or empty.
    precision : "graph" or "device"
        As in ``hetsim.run``.

    Raises
    ------
    UsageError
        Where the folder exists and is not empty, or there is no model or platform.
    PlanError
        Where the plan is not valid.
    InvalidInput
        Where a subgraph cannot be exported, or the disk refuses.

    Complexity: linear in the graph and the weights; one weight is in memory at a time.
    """
    check_folder(folder)
    model, platform = plan.problem.model, plan.problem.platform
    if model is not None and model.libraries:
        raise UsageError(
            "a compiled plan cannot hold operators of a custom-op library",
            where=model.libraries[0],
            hint="run the plan itself, with --extension",
        )
    if model is None or platform is None:
        raise UsageError(
            f"the plan '{plan.strategy}' is for a problem without a model or platform",
            hint="build the problem with Problem.of(model, platform)",
        )
    plan.validate()
    if plan.sizes:
        raise UsageError(
            f"the plan '{plan.strategy}' deals requests out to {len(plan.sizes)} replicas, and a "
            "compiled folder holds one",
            hint="compile each to a folder of its own: save a plan of plan.replicas, or name "
            "the strategy of one, e.g. --strategy single:DEVICE",
        )
    roundings = roundings_of(plan) if precision == "device" else None
    devices = [
        _device_record(name, platform.devices[name], precision)
        for name in _named_devices(plan, model)
    ]
    target = folder.resolve()
    try:
        with draft_folder(target) as draft, staged(model) as staged_model:
            program = assemble(plan, staged_model, roundings)
            with create(draft / WEIGHTS) as stream:
                shared = SharedWeights(stream)
                groups, constants = _write_groups(
                    plan, staged_model, program, devices, draft, shared
                )
            weights = FileRecord(file=WEIGHTS, nbytes=shared.nbytes, sha256=shared.sha256)
            if not shared.nbytes:
                (draft / WEIGHTS).unlink()
            text = plan.to_json().encode("utf-8")
            digest = hashlib.sha256(text).hexdigest()
            with create(draft / PLAN) as stream:
                stream.write(text)
            manifest = Manifest(
                schema="hetsim-compiled/2",
                hetsim=__version__,
                onnxruntime=onnxruntime_version(),
                precision=precision,
                plan=FileRecord(file=PLAN, nbytes=len(text), sha256=digest),
                weights=weights if shared.nbytes else None,
                devices=devices,
                inputs=_inputs(model),
                outputs=list(model.graph.outputs),
                groups=groups,
                constants=constants,
                steps=step_records(program.steps),
            )
            with create(draft / MANIFEST) as stream:
                stream.write(manifest.to_text().encode("utf-8"))
            draft.replace(target)
    except OSError as error:
        raise out_of_room(error, folder) or InvalidInput(
            f"cannot write: {error.strerror or error}",
            where=str(folder),
            hint="choose a folder that is writable and has room",
        ) from error
    return manifest


def _named_devices(plan: Plan, model: Model) -> tuple[str, ...]:
    """Devices that get a file; the host has the constants among the outputs."""
    problem = plan.problem
    used = set(plan.devices_used)
    if problem.platform is not None and _constant_outputs(model):
        used.add(problem.platform.host)
    return tuple(device for device in problem.devices if device in used)


def _constant_outputs(model: Model) -> list[str]:
    return [name for name in model.graph.outputs if name in model.graph.constants]


def _device_record(name: str, spec: DeviceSpec, precision: str) -> DeviceRecord:
    rounding = dict(spec.rounding) if precision == "device" else {}
    device = make_device(name, spec)
    if not device.exports:
        raise UsageError(
            f"backend '{spec.backend}' exports no compiled subgraphs",
            where=f"device '{name}'",
            hint="run the plan itself, or plan without that device",
        )
    return DeviceRecord(
        name=name,
        architecture=str(device.get_property("DEVICE_ARCHITECTURE")),
        backend=spec.backend,
        precision=precision_name(rounding),
        rounding=rounding,
        threads=spec.threads,
        tolerance=tolerance(spec),
    )


def _write_groups(
    plan: Plan,
    model: Model,
    program: Program,
    devices: list[DeviceRecord],
    draft: Path,
    shared: SharedWeights,
) -> tuple[list[GroupRecord], GroupRecord | None]:
    import onnx

    from hetsim.graph.extract import stored_alone

    identities = {d.name: Identity(d.name, d.architecture, d.precision) for d in devices}
    records: list[tuple[int, GroupRecord]] = []
    for device, entries in program.code.items():
        for entry in entries:
            name = f"g{entry.group}_{identifier(device)}{SUFFIX}"
            proto = onnx.ModelProto.FromString(entry.proto)
            try:
                written = _write(
                    draft / name, proto, model, identities[device], f"g{entry.group}", shared
                )
            except ArtifactError as error:
                raise replace(error, where=f"{model.source}: {entry.about}") from error
            records.append((entry.group, _record(name, device, entry.about, written)))
    records.sort(key=lambda pair: pair[0])
    constants = None
    names = _constant_outputs(model)
    if names and plan.problem.platform is not None:
        host = plan.problem.platform.host
        proto = stored_alone(model, names)
        name = f"constants{SUFFIX}"
        written = _write(draft / name, proto, model, identities[host], "constants", shared)
        constants = _record(name, host, "stored outputs", written)
    return [record for _, record in records], constants


def _write(
    path: Path,
    proto: onnx.ModelProto,
    model: Model,
    identity: Identity,
    name: str,
    shared: SharedWeights,
) -> Exported:
    folder = model.weights_dir
    with create(path) as stream:
        return export(
            stream, proto, weights_dir=folder, identity=identity, name=name, shared=shared
        )


def _record(file: str, device: str, about: str, written: Exported) -> GroupRecord:
    return GroupRecord(
        file=file,
        nbytes=written.nbytes,
        sha256=written.sha256,
        device=device,
        about=about,
        inputs=[value.name for value in written.header.inputs],
        outputs=[value.name for value in written.header.outputs],
    )


def _inputs(model: Model) -> list[ValueRecord]:
    from hetsim.graph.inputs.samples import compared_with, index_bound, readers_of

    readers = readers_of(model.graph)
    stated = {value.name: value for value in describe(model.proto.graph.input)}
    return [
        ValueRecord(
            name=name,
            type=stated[name].type,
            # The file of a model may leave open what its plan is made for.
            shape=None if (shape := model.graph.tensors[name].shape) is None else list(shape),
            below=index_bound(model.graph, readers, name),
            asked=next(iter(compared_with(model.graph, readers, name)), None),
        )
        for name in model.graph.inputs
    ]
