"""Folder of a compiled plan: ONNX files, their external data, and a manifest with their SHA-256."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Literal

import onnx

from hetsim.core.files import create, draft_folder, open_regular
from hetsim.core.room import out_of_room
from hetsim.device.artifact import onnxruntime_version, precision_name
from hetsim.device.registry import make_device, tolerance
from hetsim.errors import ArtifactError, InvalidInput, UsageError
from hetsim.execution.compiled.manifest import (
    MANIFEST,
    PLAN,
    SCHEMA,
    WEIGHTS,
    DeviceRecord,
    FileRecord,
    GroupRecord,
    Manifest,
    ValueRecord,
    describe,
)
from hetsim.execution.program import Program, assemble, roundings_of
from hetsim.execution.weights import extent_of, staged
from hetsim.graph.extract import stored_alone
from hetsim.graph.inputs.samples import compared_with, index_bound, readers_of
from hetsim.graph.model import Model
from hetsim.graph.reading.external_data import refer
from hetsim.graph.reading.onnx_file import external_tensors
from hetsim.hardware.spec import DeviceSpec
from hetsim.partitioning.onnx_export import check_folder, identifier
from hetsim.problem.plan import Plan
from hetsim.version import __version__

_ALIGNMENT = 64
_CHUNK_BYTES = 2**22


def compile_plan(
    plan: Plan, folder: Path, *, precision: Literal["graph", "device"] = "graph"
) -> Manifest:
    """Write `plan` to a new folder, all files or none.

    Writes one file like ``g3_npu.onnx`` per subgraph, ``constants.onnx`` if model outputs are
    stored values, ``weights.bin`` with the large weights of all of them, each once, as external
    data, ``plan.json``, and ``manifest.json``, which lists the others with their SHA-256. Raises
    UsageError if the folder is not empty, or without a model or platform, PlanError if the plan is
    not valid, InvalidInput if a subgraph cannot be exported, or on disk errors. O(graph + weights).
    """
    check_folder(folder)
    model, platform = plan.problem.model, plan.problem.platform
    if model is not None and model.libraries:
        raise UsageError(
            "a compiled plan cannot contain operators of a custom-op library",
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
            f"the plan '{plan.strategy}' distributes requests over {len(plan.sizes)} replicas, "
            "but a compiled folder holds one",
            hint="compile each to a separate folder: save a plan of plan.replicas, or use a "
            "strategy without replicas, e.g. --strategy single:DEVICE",
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
                shared = _Weights(stream)
                groups, constants = _write_groups(plan, staged_model, program, draft, shared)
            weights = FileRecord(file=WEIGHTS, nbytes=shared.nbytes, sha256=shared.sha256)
            if not shared.nbytes:
                (draft / WEIGHTS).unlink()
            text = plan.to_json().encode("utf-8")
            digest = hashlib.sha256(text).hexdigest()
            with create(draft / PLAN) as stream:
                stream.write(text)
            manifest = Manifest(
                schema=SCHEMA,
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
            )
            with create(draft / MANIFEST) as stream:
                stream.write(manifest.to_text().encode("utf-8"))
            draft.replace(target)
    except OSError as error:
        raise out_of_room(error, folder) or InvalidInput(
            f"cannot write: {error.strerror or error}",
            where=str(folder),
            hint="choose a writable folder with free space",
        ) from error
    return manifest


def _named_devices(plan: Plan, model: Model) -> tuple[str, ...]:
    """Return the devices that get a file; the host has the constants among the outputs."""
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
            f"backend '{spec.backend}' cannot export compiled subgraphs",
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


class _Weights:
    """File of the large weights of all subgraphs, each stored once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self._offsets: dict[tuple[Path, int, int], int] = {}
        self.nbytes = 0

    @property
    def sha256(self) -> str:
        """Digest of the content written so far."""
        return self._digest.hexdigest()

    def take_in(self, proto: onnx.ModelProto, weights_dir: Path) -> None:
        """Copy the external data of `proto`, and make it refer to the copy."""
        for tensor in external_tensors(proto):
            extent = extent_of(tensor)
            place = weights_dir / extent.location, extent.offset, extent.nbytes
            if place not in self._offsets:
                self._write(bytes(-self.nbytes % _ALIGNMENT))
                self._offsets[place] = self.nbytes
                self._copy(*place)
            refer(tensor, WEIGHTS, self._offsets[place], extent.nbytes)

    def _copy(self, path: Path, offset: int, nbytes: int) -> None:
        left = nbytes
        try:
            with open_regular(path) as stream:
                stream.seek(offset)
                while left and (chunk := stream.read(min(left, _CHUNK_BYTES))):
                    left -= len(chunk)
                    self._write(chunk)
        except OSError as error:
            raise out_of_room(error) or ArtifactError(
                f"the weights cannot be read: {error.strerror or error}", where=str(path)
            ) from error
        if left:
            raise ArtifactError(
                f"a weight of {nbytes} bytes has only {nbytes - left} in its file",
                where=str(path),
                hint="load the model again: its weights file changed",
            )

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._digest.update(data)
        self.nbytes += len(data)


def _write_groups(
    plan: Plan, model: Model, program: Program, draft: Path, weights: _Weights
) -> tuple[list[GroupRecord], GroupRecord | None]:
    def write(name: str, proto: onnx.ModelProto, device: str, about: str) -> GroupRecord:
        try:
            if model.weights_dir is not None:
                weights.take_in(proto, model.weights_dir)
            inputs, outputs = describe(proto.graph.input), describe(proto.graph.output)
            content = proto.SerializeToString(deterministic=True)
        except ValueError as error:
            raise ArtifactError(
                f"cannot be exported: {error}", where=f"{model.source}: {about}"
            ) from error
        except ArtifactError as error:
            raise replace(error, where=f"{model.source}: {about}") from error
        with create(draft / name) as stream:
            stream.write(content)
        return GroupRecord(
            file=name,
            nbytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            device=device,
            about=about,
            inputs=[value.name for value in inputs],
            outputs=[value.name for value in outputs],
        )

    entries = sorted(
        ((entry, device) for device, code in program.code.items() for entry in code),
        key=lambda pair: pair[0].group,
    )
    records = [
        write(
            f"g{entry.group}_{identifier(device)}.onnx",
            onnx.ModelProto.FromString(entry.proto),
            device,
            entry.about,
        )
        for entry, device in entries
    ]
    constants = None
    names = _constant_outputs(model)
    if names and plan.problem.platform is not None:
        host = plan.problem.platform.host
        constants = write("constants.onnx", stored_alone(model, names), host, "stored outputs")
    return records, constants


def _inputs(model: Model) -> list[ValueRecord]:
    readers = readers_of(model.graph)
    stated = {value.name: value for value in describe(model.proto.graph.input)}
    return [
        ValueRecord(
            name=name,
            type=stated[name].type,
            # The model's file may leave open shapes that its plan fixes.
            shape=None if (shape := model.graph.tensors[name].shape) is None else list(shape),
            below=index_bound(model.graph, readers, name),
            asked=next(iter(compared_with(model.graph, readers, name)), None),
        )
        for name in model.graph.inputs
    ]
