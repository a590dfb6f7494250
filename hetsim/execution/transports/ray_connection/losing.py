"""What a private Ray's guard is told, and what it says: that one of Ray's own processes ended."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from hetsim.base.own_programs import see_off, started
from hetsim.base.threads import begun
from hetsim.errors import ClusterError
from hetsim.execution.transports.ray_connection.guard import LOST_HINT, lost
from hetsim.execution.transports.ray_connection.interrupts import ending_waits
from hetsim.execution.transports.ray_connection.processes import Process, command_line

_END_S = 5.0
_VITAL = ("gcs_server", "raylet")
"""Without which no Ray goes on."""

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


class Guard:
    """The guard of the Ray whose files are in `folder`; see ``guard``.

    Parameters
    ----------
    folder : Path
    losing : Losing
        Is told where a process that is watched ends.
    """

    def __init__(self, folder: Path, losing: Losing) -> None:
        self._process: subprocess.Popen[str] | None = None
        if sys.platform != "linux":
            # Nothing there says at once that a process ended, nor which are below which.
            return
        self._process = started(
            f"{__package__}.guard",
            "main",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            # What a terminal sends to all of its processes is not for this one.
            start_new_session=True,
        )
        self._say(f"folder {folder}")
        assert self._process.stdout is not None
        listening = threading.Thread(
            target=_listen, args=(self._process.stdout, losing), name="ray guard", daemon=True
        )
        # Else it would be interrupted in the place of the main thread, while that lets them wait.
        with ending_waits():
            begun(listening)

    def watch(self, processes: Iterable[Process]) -> None:
        """Watch those of a Ray's processes without which it does not go on."""
        for process in processes:
            program = command_line(process).partition(" ")[0].rpartition("/")[2]
            if program in _VITAL:
                self._say(f"watch {program} {process.pid}")

    def watch_no_more(self) -> None:
        """Say that the processes which end from now on are to."""
        self._say("enough")

    def done(self) -> None:
        """Say that all is cleared away; it ends."""
        if self._process is None:
            return
        self._say("done")
        see_off(self._process, _END_S)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _say(self, line: str) -> None:
        assert self._process is None or self._process.stdin is not None
        # A guard that is gone guards nothing; the next Ray clears away in its place.
        with contextlib.suppress(OSError):
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(f"{line}\n")
                self._process.stdin.flush()


def _listen(told: IO[str], losing: Losing) -> None:
    with told:
        for line in told:
            losing.lose(ClusterError(lost(line.strip()), hint=LOST_HINT))
