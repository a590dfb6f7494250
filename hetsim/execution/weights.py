"""Weights of a model in files mapped by all processes of a run, and their transfer to nodes."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.core.files import ROOM, lasting_folder, private_folder, temporary_place
from hetsim.core.room import out_of_room
from hetsim.errors import ExecutionError
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.onnx_file import tensors_of
from hetsim.graph.reading.onnx_types import bytes_of, dtype_name

if TYPE_CHECKING:
    from hetsim.graph.model import Model


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Yield an empty folder below hetsim's cache, removed when the context ends."""
    with contextlib.ExitStack() as lasting:
        yield _entered(lasting)


def _entered(lasting: contextlib.ExitStack) -> Path:
    places = [temporary_place("run")]
    own = private_folder("runs")
    if own is not None:
        places.insert(0, (own, ""))
    for base, prefix in places:
        try:
            return lasting.enter_context(lasting_folder(base, prefix))
        except OSError as error:
            failure = error
    raise out_of_room(failure, base, hint=ROOM) or ExecutionError(
        f"cannot create a folder for the weights: {failure.strerror or failure}",
        where=str(base),
        hint="set HETSIM_CACHE_DIR to a writable folder",
    ) from failure


INLINE_BELOW_BYTES = 1024
"""Weights smaller than this stay in the subgraph: ONNX Runtime may need them to infer shapes."""

_ALIGNMENT = 4096


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """Piece of a weights file: path below the weights folder, offset and size."""

    location: str
    offset: int
    nbytes: int


@contextlib.contextmanager
def staged(model: Model) -> Iterator[Model]:
    """Yield `model` with its weights of 1 KiB and more in files, removed at the end.

    Existing external files are used in place. Raises ExecutionError if the weights cannot be
    written. O(graph + inline weights).
    """
    large = [tensor for tensor in model.proto.graph.initializer if _is_large(tensor)]
    if not large:
        yield model
        return
    with run_folder() as folder:
        file = folder / "weights.bin"
        try:
            extents = _spill(large, file)
        except OSError as error:
            needed = sum(map(bytes_of, large))
            short = out_of_room(error, file, needed_bytes=needed, hint=ROOM)
            raise short or ExecutionError(
                f"cannot write the weights: {error.strerror or error}",
                where=str(file),
                hint=ROOM,
            ) from error
        # One folder serves all external data, and links out of it are rejected.
        root = folder
        if model.weights_dir is not None:
            root = Path(os.path.commonpath((folder, model.weights_dir)))
        proto = _referring(model.proto, model.weights_dir, extents, file, root)
        yield replace(model, stored=proto, file=None, digest=model.sha256, weights_dir=root)


def extents_of(proto: onnx.ModelProto) -> set[Extent]:
    """Return the pieces of weights files that `proto` refers to."""
    return {extent_of(tensor) for tensor in external_tensors(proto)}


def extent_of(tensor: onnx.TensorProto) -> Extent:
    """Return the piece of a file that holds a tensor."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    return Extent(fields["location"], int(fields.get("offset") or 0), bytes_of(tensor))


def refer(tensor: onnx.TensorProto, extent: Extent) -> None:
    """Make a tensor refer to a file."""
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    fields = {"location": extent.location, "offset": extent.offset, "length": extent.nbytes}
    for key, value in fields.items():
        tensor.external_data.add(key=key, value=str(value))


def _is_large(tensor: onnx.TensorProto) -> bool:
    bits = ITEM_BITS.get(dtype_name(tensor.data_type), 0)
    if bits < 8 or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    size: int = math.prod(tensor.dims) * bits
    return size >= 8 * INLINE_BELOW_BYTES


def _spill(tensors: Sequence[onnx.TensorProto], file: Path) -> dict[str, tuple[int, int]]:
    """Write the tensors, page-aligned; return (offset, bytes) by name."""
    extents: dict[str, tuple[int, int]] = {}
    with file.open("wb") as stream:
        for tensor in tensors:
            data = tensor.raw_data or onnx.numpy_helper.to_array(tensor).tobytes()
            offset = -(-stream.tell() // _ALIGNMENT) * _ALIGNMENT
            stream.seek(offset)
            stream.write(data)
            extents[tensor.name] = (offset, len(data))
    return extents


def _referring(
    proto: onnx.ModelProto,
    weights_dir: Path | None,
    extents: Mapping[str, tuple[int, int]],
    file: Path,
    root: Path,
) -> onnx.ModelProto:
    """Return a copy of `proto` with spilled weights and all references below `root`."""
    copy = onnx.ModelProto()
    _copy_but(proto, copy, "graph")
    _copy_but(proto.graph, copy.graph, "initializer")
    for tensor in proto.graph.initializer:
        if tensor.name not in extents:
            copy.graph.initializer.append(tensor)
    if weights_dir is not None:
        for tensor in external_tensors(copy):
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = (weights_dir / entry.value).relative_to(root).as_posix()
    location = file.relative_to(root).as_posix()
    for tensor in proto.graph.initializer:
        if tensor.name in extents:
            reference = copy.graph.initializer.add(
                name=tensor.name, data_type=tensor.data_type, dims=tensor.dims
            )
            refer(reference, Extent(location, *extents[tensor.name]))
    return copy


def _copy_but(
    source: onnx.ModelProto | onnx.GraphProto,
    target: onnx.ModelProto | onnx.GraphProto,
    excluded: str,
) -> None:
    for descriptor, value in source.ListFields():
        if descriptor.name == excluded:
            continue
        if not isinstance(value, str | bytes) and hasattr(value, "extend"):
            getattr(target, descriptor.name).extend(value)
        else:
            setattr(target, descriptor.name, value)


def external_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors of `proto`, including bodies and functions, that are in files."""
    for tensor in _tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield tensor


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from tensors_of(proto.graph)
    for function in proto.functions:
        for attribute in (a for node in function.node for a in node.attribute):
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for body in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
                yield from tensors_of(body)


CHUNK_BYTES = 64 * 2**20
"""Bytes sent at once, so that an object store need not hold the whole model."""

_GRACE_S = 5.0

WaitFor = Callable[[Any, str], Any]
"""Function that waits for a reference's value; raises ExecutionError when told to give up."""


class WeightsStore:
    """Ray actor that keeps weights files on a node, for all device actors there."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._folder = self._open.enter_context(run_folder())

    def folder(self) -> str:
        """Return the folder of the files."""
        return str(self._folder)

    def take(self, location: str, offset: int, data: NDArray[np.uint8]) -> int:
        """Write a piece of a weights file; return its size."""
        file = self._folder / location
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            with file.open("r+b") as stream:
                stream.seek(offset)
                return stream.write(data.data)
        except OSError as error:
            hint = "set HETSIM_CACHE_DIR on that node to a folder with free space"
            short = out_of_room(error, file, needed_bytes=data.nbytes, hint=hint)
            raise short or ExecutionError(
                f"cannot write the weights: {error.strerror or error}",
                where=str(file),
                hint=hint,
            ) from error

    def close(self) -> None:
        """Remove the folder; mappings of device actors stay valid."""
        self._open.close()


@dataclass(slots=True)
class _NodeWeights:
    """Weights on a node: its store, the folder there, and the pieces in it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    store: Any = None
    folder: str = ""
    pieces: set[Extent] = field(default_factory=set)


class Shipments:
    """Pieces of the weights on the nodes of a session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str], _NodeWeights] = {}

    def place(
        self, node_id: str, weights_dir: str, extents: Sequence[Extent], wait_for: WaitFor
    ) -> str:
        """Send `extents` of the files below `weights_dir` to a node; return the folder there."""
        from hetsim.execution.cluster import on_node

        with self._lock:
            held = self._held.setdefault((node_id, weights_dir), _NodeWeights())
        with held.lock:
            try:
                if held.store is not None and not _lives(held.store):
                    _forget(held)
                if held.store is None:
                    options = {"max_restarts": 0, "enable_task_events": False}
                    held.store = on_node(WeightsStore, node_id, **options).remote()
                    held.folder = wait_for(held.store.folder.remote(), "making room for weights")
                for extent in extents:
                    if extent not in held.pieces:
                        _send(held.store, Path(weights_dir), extent, wait_for)
                        held.pieces.add(extent)
            except Exception:
                _forget(held)
                raise
            return held.folder

    def close(self) -> None:
        """Remove the folders on all nodes."""
        import ray
        from ray.exceptions import RayError

        with self._lock:
            stores = [held.store for held in self._held.values() if held.store is not None]
            self._held.clear()
        with suppress(RayError):
            if stores:
                removed = [store.close.remote() for store in stores]
                ray.wait(removed, num_returns=len(removed), timeout=_GRACE_S)
        for store in stores:
            with suppress(RayError):
                ray.kill(store, no_restart=True)


def _send(store: Any, weights_dir: Path, extent: Extent, wait_for: WaitFor) -> None:
    for start in range(0, extent.nbytes, CHUNK_BYTES):
        offset = extent.offset + start
        count = min(CHUNK_BYTES, extent.nbytes - start)
        data = np.fromfile(weights_dir / extent.location, np.uint8, count, offset=offset)
        wait_for(store.take.remote(extent.location, offset, data), "receiving weights")


def _lives(store: Any) -> bool:
    import ray
    from ray.exceptions import GetTimeoutError, RayError

    try:
        ray.get(store.folder.remote(), timeout=_GRACE_S)
    except GetTimeoutError:
        return True
    except RayError:
        return False
    return True


def _forget(held: _NodeWeights) -> None:
    import ray
    from ray.exceptions import RayError

    store, held.store, held.folder = held.store, None, ""
    held.pieces.clear()
    if store is not None:
        with suppress(RayError):
            ray.kill(store, no_restart=True)
