"""Weights of a model in files mapped by all processes of a run, and their transfer to nodes."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.core.files import ROOM, lasting_folder, private_folder, temporary_place
from hetsim.core.room import out_of_room
from hetsim.errors import ExecutionError
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.model import Model
from hetsim.graph.reading.external_data import externalise, reference_of
from hetsim.graph.reading.onnx_file import external_tensors
from hetsim.graph.reading.onnx_types import bytes_of, dtype_name


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
    stored = model.proto.graph.initializer
    large = {position for position, tensor in enumerate(stored) if _is_large(tensor)}
    if not large:
        yield model
        return
    with run_folder() as folder:
        file = folder / "weights.bin"
        try:
            with file.open("wb") as stream:
                proto, _ = externalise(model.proto, large, stream, str(file))
        except OSError as error:
            needed = sum(bytes_of(stored[position]) for position in large)
            short = out_of_room(error, file, needed_bytes=needed, hint=ROOM)
            raise short or ExecutionError(
                f"cannot write the weights: {error.strerror or error}",
                where=str(file),
                hint=ROOM,
            ) from error
        # One folder serves all external data, and links out of it are rejected.
        earlier = model.weights_dir or folder
        root = Path(os.path.commonpath((folder, earlier)))
        for tensor in external_tensors(proto):
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = (earlier / entry.value).relative_to(root).as_posix()
        yield replace(model, stored=proto, file=None, digest=model.sha256, weights_dir=root)


def extents_of(proto: onnx.ModelProto) -> set[Extent]:
    """Return the pieces of weights files that `proto` refers to."""
    return {extent_of(tensor) for tensor in external_tensors(proto)}


def extent_of(tensor: onnx.TensorProto) -> Extent:
    """Return the piece of a file that holds a tensor."""
    return Extent(*reference_of(tensor), bytes_of(tensor))


def _is_large(tensor: onnx.TensorProto) -> bool:
    bits = ITEM_BITS.get(dtype_name(tensor.data_type), 0)
    if bits < 8 or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    size: int = math.prod(tensor.dims) * bits
    return size >= 8 * INLINE_BELOW_BYTES


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
