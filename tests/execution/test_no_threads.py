"""A system that has no thread, or no memory, to give: told as what is short, by every executor."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Literal

import onnx
import pytest

import hetsim
from hetsim.errors import OutOfRoom
from hetsim.execution.devices.worker import DeviceWorker
from hetsim.execution.dispatch import loop
from hetsim.execution.session import Session
from hetsim.execution.transports.channels.device_end import DeviceEnd
from hetsim.execution.transports.channels.frames import Channel
from hetsim.execution.transports.processes.starting import NO_ROOM
from hetsim.execution.transports.processes.transport import _loss

Cut = Callable[[onnx.ModelProto, Sequence[tuple[str, Sequence[int]]]], hetsim.Plan]
TWO = [("cpu", [0, 1, 2]), ("gpu", [3, 4, 5])]
STREAMS = "device 'cpu': a thread for each of its 1 streams cannot be had: .*fewer streams"
NONE = "no thread to give: .*ulimit"


def refusing(monkeypatch: pytest.MonkeyPatch, name: str, error: type[Exception]) -> None:
    start = threading.Thread.start

    def refused(self: threading.Thread) -> None:
        if self.name == name:
            raise error("can't start new thread" if error is RuntimeError else "")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refused)


@pytest.mark.parametrize(
    ("executor", "name", "error", "says"),
    [
        ("threads", "hetsim session", RuntimeError, NONE),
        ("threads", "hetsim session", MemoryError, "the memory is used up"),
        ("threads", "hetsim device cpu 0", RuntimeError, STREAMS),
        ("threads", "hetsim device gpu compiling", RuntimeError, f"device 'gpu': .*{NONE}"),
        ("processes", "hetsim load gpu", RuntimeError, f"device 'gpu': .*{NONE}"),
    ],
)
def test_threads_that_cannot_be_had_are_told(
    executor: Literal["threads", "processes"],
    name: str,
    error: type[Exception],
    says: str,
    cut: Cut,
    diamond: onnx.ModelProto,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusing(monkeypatch, name, error)
    with pytest.raises(OutOfRoom, match=says), Session(cut(diamond, TWO), executor):
        pass
    assert not [thread for thread in threading.enumerate() if "hetsim" in thread.name]


def test_a_session_that_has_no_memory_to_say_how_it_ended_ends(
    cut: Cut, diamond: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(loop, "out_of_room", short)
    monkeypatch.setattr(loop.SessionLoop, "_handle", short)
    with pytest.raises(OutOfRoom, match="the memory is used up"), Session(cut(diamond, TWO)):
        pass


def test_a_device_that_is_lost_without_a_thread_to_ask_why_is_started_again(
    cut: Cut, diamond: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, "hetsim channel", RuntimeError)
    with Session(cut(diamond, TWO), "processes") as session:
        before = session.processes()["cpu"]
        os.kill(before, signal.SIGKILL)
        session.run_async().result(60)
        assert session.processes()["cpu"] != before


FORKED = """
import json, socket
from hetsim.base.room import out_of_room
from hetsim.execution.transports.channels.frames import Channel, Frame
from hetsim.execution.transports.channels.messages import OTHER
from hetsim.execution.transports.processes import server
def refused(*given):
    raise out_of_room(RuntimeError("can't start new thread"))
server.begun = refused
server.DeviceEnd.__init__.__globals__["begun"] = refused
owner, there = map(Channel, socket.socketpair())
device, end = socket.socketpair()
serving = server.Server(there)
how = {"path": [], "environment": {}, "folder": "/"}
header = json.dumps(["start", "gpu", 2, 1, how]).encode()
serving._do(Frame(OTHER, header, memoryview(b""), [end.detach()]))
pid = json.loads(owner.receive().header)[1]
serving._do(Frame(OTHER, json.dumps(["end", pid]).encode(), memoryview(b""), []))
print(json.loads(owner.receive().header)[1])
"""


def test_a_device_without_a_thread_in_its_process_is_told() -> None:
    words = [sys.executable, "-c", FORKED]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=100)
    assert told.stdout == f"{NO_ROOM}\n"
    assert "no memory, threads or files left; see whether the machine" in str(_loss("gpu", NO_ROOM))


def test_what_breaks_a_channel_from_this_side_is_kept() -> None:
    here, there = map(Channel, socket.socketpair())
    device = DeviceEnd("gpu", there, DeviceWorker("gpu"), 1, 1)
    here.send(1234, b"")
    device.serve()
    assert isinstance(device.error, KeyError)
    here.release()
    there.release()
