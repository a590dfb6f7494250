"""Ray of a run: the caller's, one at an address, or a private one that ends with it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetsim.core.files import THREADS, need
from hetsim.core.process import after_fork, keep
from hetsim.errors import ClusterError, UsageError
from hetsim.execution.transports.private_ray import (
    QUIET,
    code_environment,
    job_apart,
    private_ray,
    restored,
)
from hetsim.execution.transports.processes import ending_waits, held_interrupts
from hetsim.execution.transports.ray_health import RayLoss, check_address, same_address, watched

STORE_BYTES = 256 * 2**20
"""Default size of a private object store."""


@dataclass(frozen=True, slots=True)
class RayConnection:
    """Ray that this process is connected to; a private one was started here, with its `files`."""

    private: bool
    files: Path | None = None
    loss: RayLoss = field(default_factory=RayLoss)


@dataclass(slots=True)
class _Shared:
    """Ray shared by all runs of this process, from the first that needs it to the last."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    users: set[object] = field(default_factory=set)
    connection: RayConnection | None = None
    ended_by: ExitStack = field(default_factory=ExitStack)
    lost: bool = False
    """Whether the parent of this forked process had one, of which this process only has a copy."""

    def enter(
        self, user: object, address: str | None, store_bytes: int, cpus: int
    ) -> RayConnection:
        if self.lost:
            raise UsageError(
                "this process was forked from one that is connected to a Ray, and cannot use it",
                hint="start it with multiprocessing's 'spawn' method, or use another executor",
            )
        with self.lock:
            if self.connection is None:
                chosen = _choose(address, store_bytes, cpus)
                self.connection = self.ended_by.enter_context(chosen)
            elif address is not None:
                _check_same(_connected(), address)
            self.users.add(user)
            return self.connection

    def leave(self, user: object) -> None:
        """Remove `user`, if registered; end the Ray after the last one."""
        with self.lock:
            self.users.discard(user)
            if not self.users:
                self.connection = None
                self.ended_by.close()


_shared = _Shared()


def _forget() -> None:
    """Leave the parent's Ray alone in a forked child, until its exit."""
    global _shared
    keep(_shared)
    lost = _shared.lost or _shared.connection is not None
    _shared = _Shared(lost=lost)
    if not lost:
        return
    ray: Any = sys.modules["ray"]
    atexit.unregister(ray.shutdown)
    worker = ray._private.worker
    # Their destructors join threads that the child lacks, also those that C++ calls at exit: a
    # normal exit of the child would crash.
    for held in (worker.global_worker, worker._global_node, ray._private.state.state):
        keep(held)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)


after_fork(_forget)


@contextlib.contextmanager
def ray_connection(
    address: str | None = None, *, store_bytes: int = STORE_BYTES, cpus: int = 1
) -> Iterator[RayConnection]:
    """Yield a connected Ray, shared by all runs for as long as any of them needs it.

    A Ray that the caller has initialised in this process is used unchanged. Otherwise, with an
    address (``host:port``, or ``auto`` for the Ray of this machine), that Ray is joined with the
    login of the caller's environment, gets this hetsim, and is left at the end. Without one a
    private Ray is started and stopped at the end, whatever ``RAY_ADDRESS`` says: it listens on
    loopback, requires a token known only to this process, and keeps its files in a folder that
    other users cannot open.

    A process has one Ray at a time: overlapping contexts share that of the first, and it ends with
    the last of them, on any thread. The first decides `store_bytes`, the size of a private Ray's
    object store, and `cpus`, its number of concurrent tasks; device actors need none.

    Raises
    ------
    ExecutionError
        If Ray does not start, or does not answer at the address.
    UsageError
        If this process is connected to a Ray at another address, or was forked from one that is
        connected.
    """
    user = object()
    try:
        yield _shared.enter(user, address, store_bytes, cpus)
    finally:
        with held_interrupts():
            _shared.leave(user)


def _choose(
    address: str | None, store_bytes: int, cpus: int
) -> AbstractContextManager[RayConnection]:
    need("fcntl", "Ray", THREADS)
    # Only an already loaded Ray can be connected.
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        if address is not None:
            _check_same(_connected(), address)
        return contextlib.nullcontext(RayConnection(private=False))
    if address is not None:
        check_address(address)
        return _joined(address)
    return _private(store_bytes, cpus)


def _connected() -> str:
    import ray

    address: str = ray.get_runtime_context().gcs_address
    return address


def _check_same(connected: str, address: str) -> None:
    if not same_address(connected, address):
        raise UsageError(
            f"this process is connected to the Ray at {connected}, not to the one at {address}",
            hint="give no address, or call ray.shutdown() first",
        )


@contextlib.contextmanager
def _joined(address: str) -> Iterator[RayConnection]:
    with restored(QUIET):
        import ray

        try:
            try:
                with code_environment() as code, job_apart() as job, ending_waits():
                    ray.init(
                        address=address,
                        namespace=_namespace(),
                        log_to_driver=False,
                        configure_logging=False,
                        runtime_env=code,
                        job_config=job,
                    )
            except Exception as error:
                # All lines: later ones name the versions that do not match.
                said = " ".join(str(error).split()) or type(error).__name__
                raise ClusterError(f"cannot connect: {said}", where=f"Ray at {address}") from error
            loss = RayLoss()
            with watched(_connected(), loss):
                yield RayConnection(private=False, loss=loss)
        finally:
            with held_interrupts(), ending_waits():
                ray.shutdown()


@contextlib.contextmanager
def _private(store_bytes: int, cpus: int) -> Iterator[RayConnection]:
    with private_ray(store_bytes, cpus, _namespace()) as (files, loss):
        yield RayConnection(private=True, files=files, loss=loss)


def _namespace() -> str:
    return f"hetsim-{uuid.uuid4().hex}"
