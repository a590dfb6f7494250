"""Devices as processes: out of others' reach, ended with their owner, in memory used again."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import hetsim
from hetsim.errors import DeviceLost, UsageError
from hetsim.execution.session import Session
from hetsim.execution.transports.channels.frames import Channel, Frame
from hetsim.execution.transports.channels.messages import OTHER
from hetsim.execution.transports.processes import starting
from hetsim.execution.transports.processes.server import Server
from hetsim.execution.transports.ray_connection.processes import descendants
from onnx_builders import assert_bitwise_equal, make_model, op, value

Cut = Callable[[onnx.ModelProto, Sequence[tuple[str, Sequence[int]]]], hetsim.Plan]
TWO = [("cpu", [0, 1, 2]), ("gpu", [3, 4, 5])]


def gone(pids: Sequence[int]) -> None:
    """Wait for the end of all."""
    deadline = time.monotonic() + 60
    while living(pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert living(pids) == []


OWNER = """
import sys, time
from dataclasses import replace
import hetsim
model = hetsim.load_model(sys.argv[1], canonical="none", measure=False)
row = [(0, 1, 8), (1, 2, 8)]
problem = hetsim.Problem.from_arrays([[1, 1]] * 3, edges=row, devices=["cpu", "gpu"])
groups = (hetsim.Group("cpu", (0, 1)), hetsim.Group("gpu", (2,)))
session = hetsim.Session(hetsim.Plan(replace(problem, model=model), "", groups), "processes")
session.run_async()
print(*session.processes().values(), flush=True)
time.sleep(600)
"""


def living(pids: Sequence[int]) -> list[int]:
    """Those of `pids` that have not ended."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.append(pid)
    return found


def test_no_device_outlives_an_owner_that_is_killed(
    endless: onnx.ModelProto, tmp_path: Path
) -> None:
    """Not while a kernel runs for ever, either; and there is no name that could be left."""
    onnx.save(endless, tmp_path / "m.onnx")
    names = set(os.listdir("/dev/shm"))
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "m.onnx")], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        devices = [int(pid) for pid in owner.stdout.readline().split()]
        below = [process.pid for process in descendants(owner.pid)]
        assert set(devices) < set(below)
        assert living(below) == below
        owner.kill()
    gone(below)
    assert {name for name in os.listdir("/dev/shm") if "hetsim" in name} <= names


def test_sockets_and_memory_of_devices_have_no_name(
    cut: Cut, diamond: onnx.ModelProto, processes: None
) -> None:
    with Session(cut(diamond, TWO), "processes") as session:
        session.run()
        named = re.findall(r" (\d+) +\S+$", Path("/proc/net/unix").read_text(), re.M)
        for pid in session.processes().values():
            opened = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
            sockets = [re.findall(r"\d+", one)[0] for one in opened if one.startswith("socket:")]
            # Its own channel alone: not those of the others, nor its starter's.
            assert len(sockets) == 1
            assert not set(sockets) & set(named)
            memory = [one for one in opened if one.startswith("/memfd:")]
            assert len(opened) == 3 + len(sockets) + len(memory), opened


def test_the_thread_of_a_session_reads_what_devices_say(
    cut: Cut, diamond: onnx.ModelProto, processes: None
) -> None:
    """There is no other one for it, and none after the session; nor is a file left open."""
    plan = cut(diamond, TWO)
    with Session(plan, "processes") as session:
        # What starts devices is there from here on.
        session.run()
    before = set(threading.enumerate())
    opened = set(os.listdir("/proc/self/fd"))
    with Session(plan, "processes") as session:
        session.run()
        names = {one.name for one in threading.enumerate() if one not in before}
        assert names == {"hetsim session"}
    assert set(threading.enumerate()) <= before
    assert set(os.listdir("/proc/self/fd")) <= opened


def test_a_starter_that_is_killed_costs_time_and_no_result(
    cut: Cut, diamond: onnx.ModelProto, processes: None
) -> None:
    plan = cut(diamond, TWO)
    with Session(plan, "processes") as session:
        wanted = session.run(seed=1)
        before = session.processes()
        server = starting._shared._server
        assert server is not None
        assert server._process is not None
        os.kill(server._process.pid, signal.SIGKILL)
        gone(list(before.values()))
        assert_bitwise_equal(session.run(seed=1), wanted)
        assert {recovery.how for recovery in session.recoveries} == {"restarted"}
        assert set(session.processes().values()).isdisjoint(before.values())


def test_how_a_device_ended_is_told(cut: Cut, diamond: onnx.ModelProto, processes: None) -> None:
    with Session(cut(diamond, TWO), "processes") as session:
        loop = session._loop
        error = loop._transport._devices["gpu"]  # type: ignore[attr-defined]
        os.kill(session.processes()["gpu"], signal.SIGABRT)
        session.run()
        error.end.join(30)
        assert isinstance(error.fault.error, DeviceLost)
        assert str(error.fault.error) == "device 'gpu': its process died of SIGABRT"
        # What it had sent is held by this process.
        assert not error.fault.values_lost


def test_large_values_are_copied_to_the_same_memory_again(cut: Cut, processes: None) -> None:
    proto = make_model(
        [op("Neg", "x", "a"), op("Neg", "a", "b"), op("Neg", "b", "c")],
        [value("x", (300_000,))],
        [value("c", (300_000,))],
    )
    x = np.arange(300_000, dtype=np.float32)

    def mapped(session: Session) -> dict[str, int]:
        return {
            device: Path(f"/proc/{pid}/maps").read_text().count("/memfd:hetsim")
            for device, pid in session.processes().items()
        }

    with Session(cut(proto, [("cpu", [0]), ("gpu", [1]), ("cpu", [2])]), "processes") as session:
        session.run({"x": x})
        # The caller's, the other's and its own; the gpu reads nothing of the caller's.
        assert mapped(session) == {"cpu": 3, "gpu": 2}
        for _ in range(5):
            flights = [session.run_async({"x": x + number}) for number in range(8)]
            for number, flight in enumerate(flights):
                assert (flight.result()["c"] == -(x + number)).all()
        assert mapped(session) == {"cpu": 3, "gpu": 2}


def test_sessions_share_the_starter_and_the_last_ends_it(
    cut: Cut, diamond: onnx.ModelProto
) -> None:
    plan = cut(diamond, TWO)
    with starting.device_server() as server, Session(plan, "processes") as one:
        with Session(plan, "processes") as two:
            assert server._process is not None
            pid = server._process.pid
            pids = [*one.processes().values(), *two.processes().values()]
            assert len(set(pids)) == 4
            assert_bitwise_equal(one.run(seed=2), two.run(seed=2))
        assert living(pids) == sorted(one.processes().values())
    if starting._shared._users == 0:
        assert living([pid]) == []
    assert living(pids) == []
    assert not [one for one in threading.enumerate() if "hetsim" in one.name]


def test_other_systems_are_told_so(
    cut: Cut, diamond: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    plan = cut(diamond, TWO)
    with pytest.raises(UsageError, match="needs Linux; run with the executor 'threads'"):
        Session(plan, "processes")


def test_a_system_without_processes_is_told(
    cut: Cut, diamond: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(starting.socket, "socketpair", refused)
    plan = cut(diamond, TWO)
    with pytest.raises(hetsim.ExecutionError, match=r"its process cannot be started: .*threads"):
        Session(plan, "processes")


def test_a_process_that_the_system_refuses_is_told_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    here, there = (Channel(end) for end in socket.socketpair())
    reading, writing = os.pipe()
    monkeypatch.setattr(os, "fork", refused)
    server = Server(there)
    server._do(Frame(OTHER, b'["start", "gpu", 1, 1, {}]', memoryview(b""), [writing]))
    assert json.loads(here.receive().header) == ["refused", errno.EAGAIN]
    assert os.read(reading, 1) == b""
    os.close(reading)
    owner = starting.DeviceServer()
    monkeypatch.setattr(owner, "_ask", lambda *given: ["refused", errno.EAGAIN])
    says = "device 'gpu': its process cannot be started: .*temporarily unavailable"
    with pytest.raises(hetsim.ExecutionError, match=says):
        owner.start("gpu", 1, 1)
    for end in (here, there):
        end.release()
