"""ONNX models to disk: complete or not at all, their external weights beside them."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import onnx

from hetsim.core.files import open_regular, whole_file
from hetsim.core.room import out_of_room
from hetsim.errors import InvalidInput, ModelError
from hetsim.graph.reading.onnx_file import tensors_of

INLINE_LIMIT_BYTES = 2**31 - 2**26
"""Inline weights above this in all go to a file: protobuf ends at 2 GiB, the rest needs room."""

_MOVED_ABOVE_BYTES = 1024
_ALIGNMENT_BYTES = 4096
"""A weight at a page's start can be memory-mapped."""


def save(
    proto: onnx.ModelProto,
    path: str | os.PathLike[str],
    weights_dir: str | os.PathLike[str] | None,
    *,
    inline_limit_bytes: int = INLINE_LIMIT_BYTES,
) -> Path:
    """Write a model and the weights that it refers to, and return its path.

    Parameters
    ----------
    proto : onnx.ModelProto
        Left as it is.
    path : path
        Of the ``.onnx`` file; its folder is made where there is none. A file that is there
        is replaced.
    weights_dir : path or None
        Folder that the external data of `proto` is relative to now. Every file referred to
        is copied beside the model under the same relative name; one that is there already
        with the same size and time, or the same content, is used.
    inline_limit_bytes : int
        Where the inline weights of the graph are more in all, those above 1 KiB go to one
        file beside the model, named after it.

    Raises
    ------
    ModelError
        Where a weights file is missing, or the model is larger than 2 GiB without its
        weights.
    InvalidInput
        Where a weights file would replace another one, or the files cannot be written. What
        was written for this call is then gone again, and an older model is untouched.

    Complexity: linear in the model and the weights files that are not there yet.
    """
    target = Path(path)
    made: list[Path] = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        locations = _locations(proto)
        for location in locations:
            _bring(location, weights_dir, target, made)
        if target.is_dir():
            raise InvalidInput(
                "it is a folder", where=str(target), hint="give the name of a file in it"
            )
        if sum(len(t.raw_data) for t in proto.graph.initializer) <= inline_limit_bytes:
            with whole_file(target) as draft:
                draft.write(_serialised(proto, target))
            return target
        name = f"{target.name}.weights"
        while name in locations:
            name += "_"
        # The weights take their name first: a model never stands without them.
        with whole_file(target) as draft, whole_file(target.parent / name) as weights:
            moved = _moved_out(proto, weights, name)
            draft.write(_serialised(moved, target))
    except BaseException as error:
        for file in made:
            file.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise out_of_room(error, target) or InvalidInput(
                f"cannot write: {error.strerror or error}",
                where=str(target),
                hint="choose a folder that is writable and has room",
            ) from error
        raise
    return target


def copy_without(proto: onnx.ModelProto, *, graph: Collection[str]) -> onnx.ModelProto:
    """Return a copy in which the fields `graph` of the graph are empty, and were not copied."""
    copied = onnx.ModelProto()
    _copy_fields(proto, copied, ("graph",))
    copied.graph.SetInParent()
    _copy_fields(proto.graph, copied.graph, graph)
    return copied


def _copy_fields(source: Any, target: Any, left_out: Collection[str]) -> None:
    for field, value in source.ListFields():
        if field.name in left_out:
            continue
        if hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif field.type == field.TYPE_MESSAGE:
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)


def _locations(proto: onnx.ModelProto) -> tuple[str, ...]:
    """The files that the model's tensors are in, in order of first reference."""
    found: dict[str, None] = {}
    for tensor in _tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            found.update((e.value, None) for e in tensor.external_data if e.key == "location")
    return tuple(found)


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from tensors_of(proto.graph)
    for function in proto.functions:
        yield from tensors_of(onnx.GraphProto(node=function.node))


def _bring(
    location: str,
    weights_dir: str | os.PathLike[str] | None,
    target: Path,
    made: list[Path],
) -> None:
    """Have the weights file `location` beside `target`."""
    if weights_dir is None:
        raise ModelError(
            f"its weights are in {location!r}, and no weights folder was given",
            where=str(target),
            hint="give the folder that the model was read from",
        )
    if os.path.isabs(location) or ".." in Path(location).parts:
        raise ModelError(
            f"weights file {location!r} lies outside the model's folder",
            where=str(target),
            hint="keep the weights file beside the model",
        )
    source = (Path(weights_dir) / location).resolve()
    if not source.is_file():
        raise ModelError(
            f"weights file {str(source)!r} is missing",
            where=str(target),
            hint="put it back, or load the model anew",
        )
    wanted = target.parent / location
    if os.path.lexists(wanted) or wanted == target:
        # ONNX Runtime does not follow a symbolic link to weights.
        plain = wanted != target and wanted.is_file() and not wanted.is_symlink()
        if plain and (os.path.samefile(source, wanted) or filecmp.cmp(source, wanted)):
            return
        raise InvalidInput(
            f"another file is at {str(wanted)!r}, where the weights belong",
            where=str(target),
            hint="save into an empty folder",
        )
    wanted.parent.mkdir(parents=True, exist_ok=True)
    # No hard link: onnx refuses a weights file that has several, the original's too.
    with whole_file(wanted) as draft, open_regular(source) as content:
        shutil.copyfileobj(content, draft)
        draft.flush()
        # A later call compares size and time before it reads either of them.
        found = os.fstat(content.fileno())
        os.utime(draft.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))
    made.append(wanted)


def _moved_out(proto: onnx.ModelProto, weights: BinaryIO, name: str) -> onnx.ModelProto:
    """Write the inline weights to `weights`, and return a model that has them at `name`."""
    moved = copy_without(proto, graph=("initializer",))
    for tensor in proto.graph.initializer:
        entry = moved.graph.initializer.add()
        size = len(tensor.raw_data)
        if size <= _MOVED_ABOVE_BYTES:
            entry.CopyFrom(tensor)
            continue
        _copy_fields(tensor, entry, ("raw_data",))
        weights.seek(-weights.tell() % _ALIGNMENT_BYTES, os.SEEK_CUR)
        entry.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", name), ("offset", weights.tell()), ("length", size)):
            entry.external_data.add(key=key, value=str(value))
        weights.write(tensor.raw_data)
    return moved


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
