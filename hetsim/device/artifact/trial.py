"""Opening a subgraph in a process of its own first, which may die of it.

ONNX Runtime is not made for hostile models: some that pass every check end the process that
opens them. A file's digest does not tell who wrote it, so the first to open it is a child.
"""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO

from hetsim.base.own_programs import started
from hetsim.base.room import out_of_room
from hetsim.base.systems import need
from hetsim.errors import ArtifactError, ExecutionError

TIMEOUT_S = 120.0
MEMORY_BYTES = 4 * 2**30
"""What the child may take to open a subgraph, its weights and its own size apart."""

_COPIES = 4
"""Of the graph while it is opened: as it came, parsed, and taken apart."""

_SIZES = struct.Struct("<QQ")
_REPLY = struct.Struct("<Q")


class Trial:
    """A child process that opens subgraphs; started when first needed, and again if it died.

    Use it in a ``with`` statement, so that the child ends. Threads take turns.

    Parameters
    ----------
    timeout_s : float
        How long it may take to open one.
    """

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._child: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    def check(
        self,
        content: bytes,
        folder: str | None,
        outputs: Sequence[str],
        mapped_bytes: int,
        where: str,
    ) -> None:
        """Open a subgraph in the child.

        Parameters
        ----------
        content : bytes
            A serialised ``onnx.ModelProto``.
        folder : str or None
            Folder that its external weights are relative to.
        outputs : sequence of str
        mapped_bytes : int
            Size of its external weights.
        where : str
            The file, for messages.

        Raises
        ------
        ArtifactError
            Where ONNX Runtime refuses it, dies of it, or takes too long.
        ExecutionError
            Where no child can be started.
        UsageError
            Where the system has no limits on the memory of a process.
        """
        memory_bytes = MEMORY_BYTES + mapped_bytes + _COPIES * len(content)
        record = {"folder": folder, "outputs": list(outputs), "memory_bytes": memory_bytes}
        about = json.dumps(record).encode()
        with self._turn:
            child = self._started()
            assert child.stdin is not None
            try:
                child.stdin.write(_SIZES.pack(len(about), len(content)) + about)
                child.stdin.write(content)
                child.stdin.flush()
                reply = self._reply(child)
            except BaseException as error:
                self._end()
                if isinstance(error, (BrokenPipeError, EOFError, TimeoutError)):
                    late = isinstance(error, TimeoutError)
                    raise ArtifactError(
                        f"ONNX Runtime {'takes too long' if late else 'breaks'} when it opens it",
                        where=where,
                        hint="compile the plan again, and do not trust this file",
                    ) from error
                raise
        if reply:
            raise ArtifactError(reply, where=where, hint="compile the plan again")

    def close(self) -> None:
        """End the child. May be called twice."""
        with self._turn:
            self._end()

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self._end()
        need("resource", "opening a compiled plan")
        try:
            self._child = started(
                __name__,
                "serve",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise out_of_room(error) or ExecutionError(
                f"no process to open the file in can be started: {error.strerror or error}"
            ) from error
        return self._child

    def _reply(self, child: subprocess.Popen[bytes]) -> str:
        assert child.stdout is not None
        ready, _, _ = select.select([child.stdout], [], [], self._timeout_s)
        if not ready:
            raise TimeoutError
        (count,) = _REPLY.unpack(_exactly(child.stdout, _REPLY.size))
        return _exactly(child.stdout, count).decode("utf-8", "replace")

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for stream in (child.stdin, child.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()
        child.wait()


def serve() -> None:
    """Be the child: open what comes on stdin, and say on stdout how it went, until stdin ends."""
    import resource

    requests = sys.stdin.buffer
    # Whatever else writes to stdout must not come between the replies.
    replies = os.fdopen(os.dup(1), "wb")
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.close(silent)
    from hetsim.device.kernels.onnx_runtime import CompiledSubgraph

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    while True:
        try:
            sizes = _SIZES.unpack(_exactly(requests, _SIZES.size))
        except EOFError:
            return
        wanted = json.loads(_exactly(requests, sizes[0]))
        limit = wanted["memory_bytes"]
        if most != resource.RLIM_INFINITY:
            limit = min(limit, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
        content = _exactly(requests, sizes[1])
        reply = b""
        try:
            CompiledSubgraph(content, wanted["folder"], wanted["outputs"])
        except ExecutionError as error:
            reply = str(error).encode("utf-8", "replace")
        replies.write(_REPLY.pack(len(reply)) + reply)
        replies.flush()


def _exactly(stream: IO[bytes], count: int) -> bytes:
    """Read `count` bytes. Raises EOFError where the stream ends before."""
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
