"""Health of a Ray at an address: before it is joined and while it is in use."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from hetsim.core.process import begun, own_environment
from hetsim.errors import ClusterError, UsageError
from hetsim.execution.transports.processes import Process, command_line, ending_waits

_VITAL = ("gcs_server", "raylet")
"""Processes that every Ray needs."""

_LOST_HINT = "check whether the machine ran out of memory, and run it again"
_LOOK_S = 1.0
PATIENCE_S = 20.0
"""Seconds by which a restarted head has answered; Ray itself ends the process after 60 s."""

Listener = Callable[[ClusterError], None]


_CONNECT_S = 3.0
_PROBE_S = 20.0
_HINT = "start it with 'ray start --head', or give no address for a private Ray"


def check_address(address: str) -> None:
    """Raise unless a Ray of this version answers at `address`: ``host:port``, or ``auto``.

    Ray's own attempt to join takes over a minute to fail, and cannot be interrupted; so this first
    opens a connection, and then runs Ray's health check in a separate process.
    """

    def refused(what: str, hint: str = _HINT) -> ClusterError:
        return ClusterError(what, where=f"address {address}", hint=hint)

    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "health-check"]
    if address != "auto":
        try:
            socket.create_connection(split_address(address), _CONNECT_S).close()
        except OSError as error:
            raise refused(f"no Ray answers: {error.strerror or error}") from error
        command += ["--address", address]
    try:
        probe = subprocess.run(
            command,
            env=own_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise refused(
            f"the server there is not Ray: it did not report its health within {_PROBE_S:g} s"
        ) from error
    if probe.returncode == 0:
        return
    if "InvalidAuthToken" in probe.stdout:
        raise refused(
            "it requires a token, and the given one is missing or wrong",
            "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH",
        )
    said = probe.stdout.split("\n")
    said = [line.strip() for line in said if line.strip()] or ["it is not healthy"]
    raise refused(f"not a Ray to connect to: {said[-1]}")


def same_address(one: str, other: str) -> bool:
    """Return whether two addresses name one Ray; a loopback host equals any name of this one."""
    if "auto" in (one, other) or one == other:
        return True
    (host, port), (other_host, other_port) = split_address(one), split_address(other)
    if port != other_port:
        return False
    try:
        ips = {socket.gethostbyname(host), socket.gethostbyname(other_host)}
    except OSError:
        return False
    return len(ips) == 1 or any(ip.startswith("127.") for ip in ips)


def split_address(address: str) -> tuple[str, int]:
    """Return host and port. Raises UsageError if `address` is not ``host:port``."""
    host, _, port = address.rpartition(":")
    if "://" in address:
        raise UsageError(
            f"'{address}' is not host:port",
            hint="run hetsim on a node of the cluster, with its host:port or 'auto'",
        )
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UsageError(f"'{address}' is not host:port", hint="for example 10.0.0.1:6379, or auto")
    return host, int(port)


class RayLoss:
    """Loss of a Ray (`error`: the reason), and the listeners to it."""

    def __init__(self) -> None:
        self.error: ClusterError | None = None
        self._lock = threading.Lock()
        self._listeners: dict[object, Listener] = {}

    def tell(self, listener: Listener) -> Callable[[], None]:
        """Register `listener` for one call on loss of the Ray; return its deregistration."""
        key = object()
        with self._lock:
            self._listeners[key] = listener
            error = self.error
        if error is not None:
            listener(error)

        def forget() -> None:
            with self._lock:
                self._listeners.pop(key, None)

        return forget

    def lose(self, error: ClusterError) -> None:
        """Notify all listeners, on this thread; nothing if it was lost before."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error
            listeners = tuple(self._listeners.values())
        for listener in listeners:
            listener(error)


@contextlib.contextmanager
def vital_processes_watched(processes: Iterable[Process], loss: RayLoss) -> Iterator[None]:
    """Report to `loss` if a process ends that the Ray needs."""
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
            loss.lose(ClusterError(said, hint=_LOST_HINT))

    thread = threading.Thread(target=watch, name="hetsim ray watch", daemon=True)
    try:
        # Otherwise it would take the signals that the main thread defers.
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
def watched(address: str, loss: RayLoss) -> Iterator[None]:
    """Report to `loss` if ``host:port`` has not answered for ``PATIENCE_S``."""
    ended = threading.Event()

    def look() -> None:
        answered = time.monotonic()
        while not ended.wait(_LOOK_S):
            try:
                socket.create_connection(split_address(address), _LOOK_S).close()
            except OSError as error:
                if time.monotonic() - answered >= PATIENCE_S:
                    said = error.strerror or error
                    loss.lose(
                        ClusterError(
                            f"the connection to Ray is lost: {said}",
                            where=f"Ray at {address}",
                            hint="check whether its head is up, and run it again",
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
