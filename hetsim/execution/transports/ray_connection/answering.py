"""Whether a Ray that was joined still answers: looked after while it is used."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

from hetsim.base.threads import begun
from hetsim.errors import ClusterError
from hetsim.execution.transports.ray_connection.address import split_address
from hetsim.execution.transports.ray_connection.losing import Losing

_LOOK_S = 1.0
PATIENCE_S = 20.0
"""A head that is started again has answered by then; Ray itself ends the process after 60 s."""


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
