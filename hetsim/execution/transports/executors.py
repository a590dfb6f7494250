"""The devices of a program opened on an executor: Ray or threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hetsim.execution.devices.program import Outcome, Program
from hetsim.execution.dispatch.device_states import Policy, Replan
from hetsim.execution.dispatch.loop import SessionLoop
from hetsim.execution.dispatch.requests import Request
from hetsim.execution.dispatch.run_log import RunLog
from hetsim.execution.dispatch.transport import Post, Transport


@contextmanager
def opened(
    program: Program,
    executor: str,
    address: str | None,
    room_bytes: int,
    streams: Mapping[str, int],
    policy: Policy,
    replan: Replan | None = None,
    log: RunLog | None = None,
) -> Iterator[SessionLoop]:
    """Give a loop whose devices are ready; all of it ends with the context."""
    widths = {**dict.fromkeys(program.code, 1), **streams}
    with transports(executor, address, room_bytes, widths, policy.timeout_s) as connect:
        loop = SessionLoop(program, connect, widths, policy, replan, log)
        try:
            loop.start()
            yield loop
        finally:
            loop.close()


@contextmanager
def transports(
    executor: str,
    address: str | None,
    room_bytes: int,
    streams: Mapping[str, int],
    timeout_s: float,
) -> Iterator[Callable[[Post], Transport]]:
    """Give what makes a transport of the function that takes its events; see ``opened``."""
    if executor == "threads":
        from hetsim.execution.transports.threads import ThreadTransport

        yield lambda post: ThreadTransport(post, streams)
        return
    from hetsim.execution.transports.ray_connection import STORE_BYTES, ray_connection

    with ray_connection(address, store_bytes=STORE_BYTES + room_bytes) as connection:
        from hetsim.execution.transports.ray_transport import RayTransport

        yield lambda post: RayTransport(post, connection, streams, timeout_s)


def execute(
    program: Program,
    inputs: Mapping[str, Any],
    executor: str,
    address: str | None,
    timeout_s: float,
    crossing_bytes: int,
) -> Outcome:
    """Run a program once; ``timeout_s`` is for compiling, and again for running."""
    with opened(program, executor, address, 2 * crossing_bytes, {}, Policy(timeout_s)) as loop:
        request = Request(0, loop.cancel, dict)
        loop.submit(request, inputs, timeout_s)
        outputs = request.result()
        return Outcome(outputs, loop.start_s, request.wall_s or 0.0)
