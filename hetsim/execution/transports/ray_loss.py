"""The loss of a Ray that is in use: of a process of a private one, or of the address of another."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from hetsim.base.threads import begun
from hetsim.errors import ClusterError
from hetsim.execution.transports.interrupts import ending_waits
from hetsim.execution.transports.processes import Process, command_line
from hetsim.execution.transports.ray_address import split_address

_VITAL = ("gcs_server", "raylet")
"""Processes without which no Ray goes on."""

_HINT = "see whether the machine has run out of memory, and run it again"
_LOOK_S = 1.0
PATIENCE_S = 20.0
"""A head that is started again has answered by then; Ray itself ends the process after 60 s."""

Listener = Callable[[ClusterError], None]


class Losing:
    """Whether a Ray is lost, and those who want to know.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[object, Listener] = {}
        self._error: ClusterError | None = None

    @property
    def error(self) -> ClusterError | None:
        """What happened; None while all is well."""
        return self._error

    def tell(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` called where the Ray is lost, at once if it is; return how to stop that.

        It is called on another thread, and once.
        """
        key = object()
        with self._lock:
            self._listeners[key] = listener
            error = self._error
        if error is not None:
            listener(error)
        return lambda: self._forget(key)

    def lose(self, error: ClusterError) -> None:
        """Tell all; nothing where it was lost before."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            listeners = tuple(self._listeners.values())
        for listener in listeners:
            listener(error)

    def _forget(self, key: object) -> None:
        with self._lock:
            self._listeners.pop(key, None)


@contextlib.contextmanager
def vital_processes_watched(processes: Iterable[Process], losing: Losing) -> Iterator[None]:
    """Tell `losing` where a process ends without which their Ray does not go on.

    On Linux: no other system says so at once.
    """
    names: dict[int, str] = {}
    for process in processes if sys.platform == "linux" else ():
        program = command_line(process).partition(" ")[0].rpartition("/")[2]
        if program in _VITAL:
            with contextlib.suppress(OSError):
                names[os.pidfd_open(process.pid)] = program
    stopping, stop = os.pipe()
    poll = select.poll()
    for descriptor in (stopping, *names):
        poll.register(descriptor, select.POLLIN)

    def watch() -> None:
        ended = {descriptor for descriptor, _ in poll.poll()}
        if stopping not in ended:
            said = f"the Ray of this run is lost: its process '{names[min(ended)]}' ended"
            losing.lose(ClusterError(said, hint=_HINT))

    thread = threading.Thread(target=watch, name="hetsim ray watch", daemon=True)
    try:
        # Else it would take the signals of the main thread, while that lets them wait.
        with ending_waits():
            begun(thread)
        yield
    finally:
        os.close(stop)
        if thread.ident is not None:
            thread.join()
        for descriptor in (stopping, *names):
            os.close(descriptor)


@contextlib.contextmanager
def watched(address: str, losing: Losing) -> Iterator[None]:
    """Tell `losing` where nothing has answered at ``host:port`` for ``PATIENCE_S``."""
    ended = threading.Event()

    def look() -> None:
        answered = time.monotonic()
        while not ended.wait(_LOOK_S):
            try:
                socket.create_connection(split_address(address), _LOOK_S).close()
            except OSError as error:
                if time.monotonic() - answered >= PATIENCE_S:
                    said = error.strerror or error
                    losing.lose(
                        ClusterError(
                            f"the Ray that was joined is lost: {said}",
                            where=f"Ray at {address}",
                            hint="see whether its head is up, and run it again",
                        )
                    )
                    return
            else:
                answered = time.monotonic()

    begun(threading.Thread(target=look, name="hetsim ray answers", daemon=True))
    try:
        yield
    finally:
        ended.set()
