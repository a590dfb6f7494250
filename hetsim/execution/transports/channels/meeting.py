"""How two processes of one user on one machine get a channel, where neither started the other."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hetsim.errors import ExecutionError
from hetsim.execution.devices.folders import run_folder
from hetsim.execution.transports.channels.frames import Channel

_NAME = "meeting"
_TOKEN_BYTES = 32
_CREDENTIALS = struct.Struct("=iII")
_ACCEPT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Meeting:
    """A socket that waits for one other process, in a folder that no other user can open.

    Attributes
    ----------
    folder : str
    token : bytes
        What the other one says first. To be told to it alone.
    """

    folder: str
    token: bytes = field(repr=False)
    _listening: socket.socket = field(repr=False)

    def accept(self) -> Channel | None:
        """Return the channel to who came; None where nobody did that knows the token."""
        waiting = select.poll()
        waiting.register(self._listening, select.POLLIN)
        while waiting.poll(_ACCEPT_MS):
            end, _ = self._listening.accept()
            end.settimeout(_ACCEPT_MS / 1000)
            with contextlib.suppress(OSError):
                said = end.recv(_TOKEN_BYTES, socket.MSG_WAITALL)
                if _own(end) and hmac.compare_digest(said, self.token):
                    end.settimeout(None)
                    return Channel(end)
            end.close()
        return None


@contextlib.contextmanager
def meeting() -> Iterator[Meeting]:
    """Give a place to meet at, which is gone with the context; what met there goes on.

    Raises ExecutionError where there is no folder for it.
    """
    with run_folder() as folder, socket.socket(socket.AF_UNIX) as listening:
        try:
            with _short(folder) as short:
                listening.bind(f"{short}/{_NAME}")
            listening.listen()
        except OSError as error:
            raise ExecutionError(
                f"processes cannot meet there: {error.strerror or error}", where=str(folder)
            ) from error
        yield Meeting(str(folder), secrets.token_bytes(_TOKEN_BYTES), listening)


def come(folder: str, token: bytes) -> Channel | None:
    """Return the channel to who waits in `folder`; None where nobody of this user does.

    So it is on another machine, which may see the folder but not who waits there.
    """
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(_ACCEPT_MS / 1000)
    try:
        with _short(Path(folder)) as short:
            end.connect(f"{short}/{_NAME}")
        if not _own(end):
            raise PermissionError
        end.sendall(token)
        end.settimeout(None)
    except OSError:
        end.close()
        return None
    return Channel(end)


def _own(end: socket.socket) -> bool:
    """Whether the process at the other end is this user's, as the system says."""
    told = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(told)
    return bool(user == os.geteuid())


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Give another path of a folder: that of a socket has at most 107 bytes."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
