"""Manifest of a compiled plan's folder: its files with their SHA-256, devices, and dataflow."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import onnx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hetsim.core.files import ROOM, TEXT_LIMIT_BYTES, open_regular, read_most
from hetsim.core.room import out_of_room
from hetsim.device.artifact import onnxruntime_version
from hetsim.errors import ExecutionError, InvalidInput
from hetsim.execution.program import ProgramSubgraph, Step, steps_of
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.onnx_types import dtype_name, to_tensor
from hetsim.version import __version__

SCHEMA: Final = "hetsim-compiled/3"
MANIFEST, PLAN = "manifest.json", "plan.json"
WEIGHTS = "weights.bin"

_CHUNK_BYTES = 2**22

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_AGAIN = "compile the plan again, or copy the folder again"

Count = Annotated[int, Field(ge=0, lt=2**62)]
GraphBytes = Annotated[int, Field(ge=0, lt=2**31)]
Dim = Annotated[int, Field(ge=0, lt=2**63)]
Text = Annotated[str, Field(min_length=1)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class FileRecord(_Record):
    """File of the folder: its name, size, and SHA-256."""

    file: str
    nbytes: Count
    sha256: str


class DeviceRecord(_Record):
    """Device with subgraphs, and the target of its files."""

    name: Text
    architecture: str
    backend: str
    precision: str
    rounding: dict[str, str]
    threads: Annotated[int, Field(ge=1, lt=2**20)] = 1
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


class ValueRecord(_Record):
    """Input or output: its element type, e.g. within ``sequence(...)``, and shape.

    For model inputs, integers index `below` entries, or are compared with `asked`.
    """

    name: Text
    type: str
    shape: list[Dim | str | None] | None
    below: Count | None = None
    asked: int | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes; 0 if the shape is unknown, or values are not numbers."""
        numbers = [dim for dim in self.shape or () if isinstance(dim, int)]
        if self.shape is None or len(numbers) < len(self.shape):
            return 0
        return (math.prod(numbers) * ITEM_BITS.get(self.type, 0) + 7) // 8


class GroupRecord(FileRecord):
    """Subgraph: its file, device, inputs and outputs."""

    nbytes: GraphBytes
    device: Text
    about: str
    inputs: list[Text]
    outputs: list[Text]


class Manifest(_Record):
    """Description of a folder, without the plan."""

    schema_: Literal["hetsim-compiled/3"] = Field(alias="schema")
    hetsim: str
    onnxruntime: str
    precision: Literal["graph", "device"]
    plan: FileRecord
    weights: FileRecord | None
    devices: list[DeviceRecord]
    inputs: list[ValueRecord]
    outputs: list[Text]
    groups: list[GroupRecord]
    constants: GroupRecord | None

    @property
    def tolerance(self) -> float:
        """Tolerance of the plan's outputs, relative to their largest magnitude."""
        return max((device.tolerance for device in self.devices), default=0.0)

    def to_text(self) -> str:
        """Return the manifest as in its file: JSON with its own digest at the end."""
        record = self.model_dump(by_alias=True, mode="json")
        record["sha256"] = _digest(record)
        return json.dumps(record, indent=1) + "\n"

    @property
    def files(self) -> tuple[GroupRecord, ...]:
        """Files of all subgraphs and constants."""
        return (*self.groups, *([] if self.constants is None else [self.constants]))

    def parts(self) -> list[ProgramSubgraph]:
        """Return the parts of the plan, by group."""
        return [ProgramSubgraph(g.device, tuple(g.inputs), tuple(g.outputs)) for g in self.groups]


def is_compiled(path: Path) -> bool:
    """Whether `path` looks like a folder of ``compile_plan``."""
    return path.is_dir() and os.path.lexists(path / MANIFEST)


def describe(values: Iterable[onnx.ValueInfoProto]) -> tuple[ValueRecord, ...]:
    """Return inputs or outputs of an ONNX graph as records."""
    return tuple(_described(value) for value in values)


def read_manifest(folder: Path) -> tuple[Manifest, tuple[Step, ...], str]:
    """Return the manifest of `folder`, its steps, and the text of its plan."""
    where = str(folder / MANIFEST)
    try:
        text = _read(folder, MANIFEST, where).decode("utf-8")
        record = json.loads(text)
        if not isinstance(record, dict):
            raise ValueError("the record is missing")
        schema = record.get("schema")
        if schema != SCHEMA:
            raise InvalidInput(
                f"of schema {str(schema)!r}, but this hetsim reads '{SCHEMA}'",
                where=where,
                hint="compile the plan again with this version",
            )
        digest = record.pop("sha256", None)
        manifest = Manifest.model_validate(record)
        if digest != _digest(record) or manifest.to_text() != text:
            raise InvalidInput(
                "damaged: its content does not match its sha256",
                where=where,
                hint=_AGAIN,
            )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(key) for key in first["loc"])
        raise InvalidInput(f"{place}: {first['msg']}", where=where, hint=_AGAIN) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"cannot be read: {error}", where=where, hint=_AGAIN) from None
    for what, written, here in (
        ("hetsim", manifest.hetsim, __version__),
        ("onnxruntime", manifest.onnxruntime, onnxruntime_version()),
    ):
        if written != here:
            raise InvalidInput(
                f"compiled by {what} '{written}', but this is '{here}'",
                where=where,
                hint="compile the plan again, or install that version",
            )
    _check_names(manifest, where)
    steps = _steps(manifest, where)
    data = _read(folder, manifest.plan.file, where)
    if hashlib.sha256(data).hexdigest() != manifest.plan.sha256:
        raise InvalidInput(
            "damaged: it differs from the compiled file",
            where=str(folder / manifest.plan.file),
            hint=_AGAIN,
        )
    try:
        return manifest, steps, data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("not a text file", where=str(folder / manifest.plan.file)) from None


def copy_checked(folder: Path, record: FileRecord, target: Path) -> None:
    """Copy a file of the folder; raise InvalidInput unless the copy matches the manifest's digest.

    The run maps the copy, as the original could be changed after the check.
    """
    digest = hashlib.sha256()
    with _opened(folder, record.file) as stream:
        # A file of another size is not read at all.
        whole = os.fstat(stream.fileno()).st_size == record.nbytes
        try:
            with target.open("xb") as copy:
                while whole and (chunk := stream.read(_CHUNK_BYTES)):
                    digest.update(chunk)
                    copy.write(chunk)
        except OSError as error:
            short = out_of_room(error, target, needed_bytes=record.nbytes, hint=ROOM)
            raise short or ExecutionError(
                f"'{record.file}' cannot be copied: {error.strerror or error}",
                where=str(target),
                hint=ROOM,
            ) from error
    if not whole or digest.hexdigest() != record.sha256:
        raise InvalidInput(
            "damaged: it differs from the compiled file",
            where=str(folder / record.file),
            hint=_AGAIN,
        )


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[BufferedReader]:
    """Open a regular file in the folder for reading, but no link."""
    where = str(folder / name)
    if _NAME.fullmatch(name) is None:
        raise InvalidInput(
            f"file name {name!r} leaves the folder, or is not one that hetsim writes",
            where=str(folder / MANIFEST),
            hint=_AGAIN,
        )
    try:
        stream = open_regular(folder / name, follow=False)
    except OSError as error:
        what = "it is a link" if (folder / name).is_symlink() else error.strerror
        raise InvalidInput(f"cannot be read: {what}", where=where, hint=_AGAIN) from error
    with stream:
        yield stream


def _read(folder: Path, name: str, where: str) -> bytes:
    with _opened(folder, name) as stream:
        data = read_most(stream, TEXT_LIMIT_BYTES + 1)
    if len(data) > TEXT_LIMIT_BYTES:
        raise InvalidInput(f"larger than {TEXT_LIMIT_BYTES} bytes", where=where)
    return data


def _digest(record: dict[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _check_names(manifest: Manifest, where: str) -> None:
    weights = [] if manifest.weights is None else [manifest.weights.file]
    names = [MANIFEST, manifest.plan.file, *weights, *(entry.file for entry in manifest.files)]
    if len(set(names)) != len(names):
        raise InvalidInput("two of its files have the same name", where=where, hint=_AGAIN)
    known = [device.name for device in manifest.devices]
    if len(set(known)) != len(known) or {g.device for g in manifest.files} - set(known):
        raise InvalidInput("its devices do not fit its subgraphs", where=where, hint=_AGAIN)


def _steps(manifest: Manifest, where: str) -> tuple[Step, ...]:
    """Return the steps that follow from the dependencies of groups."""
    there = {value.name for value in manifest.inputs}
    for group in (*manifest.files,):
        missing = [name for name in group.inputs if name not in there]
        twice = [name for name in group.outputs if name in there]
        if missing or twice or len(set(group.outputs)) != len(group.outputs):
            what = (
                (f"reads '{missing[0]}' before it is computed")
                if missing
                else ("computes a value twice")
            )
            raise InvalidInput(f"'{group.file}' {what}", where=where, hint=_AGAIN)
        there.update(group.outputs)
    absent = [name for name in manifest.outputs if name not in there]
    if absent:
        raise InvalidInput(f"no subgraph computes output '{absent[0]}'", where=where, hint=_AGAIN)
    return steps_of(manifest.parts(), manifest.outputs)


def _described(value: onnx.ValueInfoProto) -> ValueRecord:
    kind = value.type
    around: list[str] = []
    while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        around.append(str(which).removesuffix("_type"))
        kind = getattr(kind, str(which)).elem_type
    if which == "map_type":
        around.append(f"map({dtype_name(kind.map_type.key_type)},")
        kind = kind.map_type.value_type
        which = kind.WhichOneof("value")
    if which not in ("tensor_type", "sparse_tensor_type"):
        raise ValueError(f"value {value.name!r} has no type that can be stored")
    tensor = getattr(kind, which)
    text = dtype_name(tensor.elem_type)
    if text == "undefined":
        raise ValueError(f"value {value.name!r} has no element type")
    if which == "sparse_tensor_type":
        text = f"sparse({text})"
    plain = which == "tensor_type" and not around
    for outer in reversed(around):
        text = f"{outer}{text})" if outer.startswith("map(") else f"{outer}({text})"
    shape = to_tensor(value.name, kind).shape if plain else None
    if not value.name or any(isinstance(dim, int) and dim < 0 for dim in shape or ()):
        raise ValueError(f"value {value.name!r} has no name, or a negative dimension")
    dims = None if shape is None else list(shape)
    return ValueRecord(name=value.name, type=text, shape=dims)
