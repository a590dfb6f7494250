"""Weights on the nodes of a Ray cluster that do not see the files: sent once a node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core.room import out_of_room
from hetsim.errors import ExecutionError
from hetsim.execution.devices.folders import run_folder
from hetsim.execution.devices.weights import Extent

CHUNK_BYTES = 64 * 2**20
"""Sent at once, so that an object store need not hold the whole model."""

_GRACE_S = 5.0

WaitFor = Callable[[Any, str], Any]
"""Waits for a reference, for what it stands for; raises ExecutionError when told to give up."""


class WeightsStore:
    """The Ray actor that keeps weights files on a node, for all device actors there."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._folder = self._open.enter_context(run_folder())

    def folder(self) -> str:
        """Return the folder that the files lie in."""
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
            hint = "set HETSIM_CACHE_DIR on that node to a folder that has room"
            short = out_of_room(error, file, needed_bytes=data.nbytes, hint=hint)
            raise short or ExecutionError(
                f"the weights cannot be written: {error.strerror or error}",
                where=str(file),
                hint=hint,
            ) from error

    def close(self) -> None:
        """Remove the folder; what device actors have mapped stays mapped."""
        self._open.close()


@dataclass(slots=True)
class _Held:
    """What a node has: its store, the folder there, and the pieces in it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    store: Any = None
    folder: str = ""
    pieces: set[Extent] = field(default_factory=set)


class Shipments:
    """Which pieces of the weights the nodes of a session have."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str], _Held] = {}

    def place(
        self, node_id: str, weights_dir: str, extents: Sequence[Extent], wait_for: WaitFor
    ) -> str:
        """Send `extents` of the files below `weights_dir` to a node; return the folder there."""
        with self._lock:
            held = self._held.setdefault((node_id, weights_dir), _Held())
        with held.lock:
            try:
                if held.store is not None and not _lives(held.store):
                    _forget(held)
                if held.store is None:
                    held.store = _store_on(node_id)
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


def _store_on(node_id: str) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where = NodeAffinitySchedulingStrategy(node_id, soft=False)
    kind = ray.remote(WeightsStore).options(
        num_cpus=0, max_restarts=0, scheduling_strategy=where, enable_task_events=False
    )
    return kind.remote()


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


def _forget(held: _Held) -> None:
    import ray
    from ray.exceptions import RayError

    store, held.store, held.folder = held.store, None, ""
    held.pieces.clear()
    if store is not None:
        with suppress(RayError):
            ray.kill(store, no_restart=True)
