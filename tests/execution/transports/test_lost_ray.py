"""A Ray whose own processes end while it is used: an error of ours, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from execution.transports.test_ray_connection import Child, folder, left_of
from hetsim.execution.transports import ray_health as losses
from hetsim.execution.transports.processes import Process, command_line
from hetsim.execution.transports.ray_health import RayLoss, watched

__all__ = ["folder"]

STORY = """
import threading
opened = []
# The processes that a thread started can end with it.
opening = threading.Thread(target=lambda: opened.append(hetsim.Session(plan, timeout_s=100)))
opening.start()
opening.join()
session, = opened
tell(outputs=len(session.run()))
sys.stdin.readline()
try:
    while True:
        session.run()
except hetsim.HetsimError as error:
    tell(kind=type(error).__name__, says=str(error))
try:
    session.run()
except hetsim.HetsimError as error:
    tell(again=type(error).__name__)
session.close()
with hetsim.Session(plan) as another:
    tell(outputs=len(another.run()))
"""


def without(folder: Path, name: str) -> tuple[Child, tuple[Process, ...]]:
    """A child whose Ray lost its process `name` after a request, and all that is below it."""
    child = Child(STORY, folder)
    assert child.line() == {"outputs": 1}
    below = child.below()
    (lost,) = (
        process for process in below if command_line(process).partition(" ")[0].endswith(f"/{name}")
    )
    os.kill(lost.pid, signal.SIGKILL)
    print(file=child.process.stdin, flush=True)
    return child, below


@pytest.mark.group("own_ray")
@pytest.mark.sweep
def test_sessions_end_in_an_error_where_the_control_service_is_killed(folder: Path) -> None:
    child, below = without(folder, "gcs_server")
    told = child.line()
    assert told["kind"] == "ClusterError"
    assert "its process 'gcs_server' ended; see whether" in told["says"]
    assert child.line() == {"again": "ClusterError"}
    # It can be had again.
    assert child.line() == {"outputs": 1}
    child.end()
    assert child.process.returncode == 0
    assert left_of(below) == []
    assert list(folder.glob("hetsim-*")) == []


def test_a_ray_that_was_joined_and_answers_no_more_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(losses, "PATIENCE_S", 0.05)
    monkeypatch.setattr(losses, "_LOOK_S", 0.01)
    loss, heard = RayLoss(), []
    listening = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    told = threading.Event()
    loss.tell(lambda error: (heard.append(str(error)), told.set()))
    with watched(address, loss):
        taken, _ = listening.accept()
        taken.close()
        assert loss.error is None
        listening.close()
        assert told.wait(60)
    assert heard == [
        f"Ray at {address}: the connection to Ray is lost: Connection refused; "
        "check whether its head is up, and run it again"
    ]
