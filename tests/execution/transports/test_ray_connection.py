"""Rays started and stopped in processes of their own: nothing is joined unasked or left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from builders import BOX
from hetsim.errors import ClusterError, UsageError
from hetsim.execution.transports.private_ray import temp_base
from hetsim.execution.transports.processes import (
    Process,
    descendants,
    end_all,
)
from hetsim.execution.transports.ray_connection import RayConnection
from hetsim.execution.transports.ray_health import check_address, split_address

# ONNX Runtime's telemetry keeps a file among the temporary ones.
QUIET = {"ORT_DISABLE_TELEMETRY": "1"}

TELL = """
import json, os, sys, time
def tell(**facts):
    print(json.dumps(facts), flush=True)
"""
PLAN = (
    f"BOX = {str(BOX)!r}"
    + """
import hetsim
model = hetsim.load_model("zoo:squeezenet")
problem = hetsim.Problem.of(model, hetsim.load_platform(BOX))
plan = hetsim.plan(problem, "hetero:npu,dsp,cpu")
assert len(plan.devices_used) > 1
"""
)


CAN_MOUNT = os.geteuid() == 0 and shutil.which("unshare") is not None
SMALL_BYTES = 64 * 2**20
SMALL = f'mount -t tmpfs -o size={SMALL_BYTES} tmpfs /dev/shm && exec "$@"'
WITH_SMALL_SHARED_MEMORY = ["unshare", "--mount", "sh", "-c", SMALL, "sh"] if CAN_MOUNT else []
"""What goes before a command, to run it with little shared memory; root alone may do that."""


class Child:
    """A Python process of its own session, whose Ray lies in a folder of its own.

    It ends with the folder at the latest, where a test that fails leaves it.
    """

    of_folder: ClassVar[dict[Path, list[Child]]] = {}

    def __init__(
        self,
        code: str,
        folder: Path,
        *,
        first: str = PLAN,
        before: Sequence[str] = (),
        **environment: str,
    ) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, "-W", "error", "-c", TELL + first + code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **QUIET, "TMPDIR": str(folder), **environment},
        )
        self.of_folder.setdefault(folder, []).append(self)

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, self.process.communicate()[1]
        told: dict[str, Any] = json.loads(text)
        return told

    def below(self) -> tuple[Process, ...]:
        return descendants(self.process.pid)

    def end(self) -> str:
        """Wait for the end; return stderr."""
        return self.process.communicate(timeout=120)[1]

    def ended(self) -> None:
        """End it and what it started, where it has not ended."""
        if self.process.poll() is None:
            below = self.below()
            self.process.kill()
            end_all(below, 1.0)
        self.process.communicate()


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder with a short path, which must be empty at the end."""
    path = Path(tempfile.mkdtemp(prefix="ht", dir="/tmp"))
    try:
        yield path
        left = sorted(entry.name for entry in path.iterdir())
    finally:
        for child in Child.of_folder.pop(path, ()):
            child.ended()
        shutil.rmtree(path, ignore_errors=True)
    assert left == []


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, empty at the end but for what a Ray left."""
    with short_folder() as path:
        yield path


def living(processes: tuple[Process, ...]) -> list[Process]:
    found = []
    for process in processes:
        try:
            text = Path(f"/proc/{process.pid}/stat").read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        if fields[0] != "Z" and int(fields[19]) == process.start_ticks:
            found.append(process)
    return found


def left_of(processes: tuple[Process, ...]) -> list[Process]:
    """Those that go on although what they belong to has ended."""
    deadline = time.monotonic() + 60
    while (left := living(processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


STORY = """
import threading
import numpy as np
from hetsim.execution.transports.processes import descendants
def changes():
    return dict(os.environ), sys.excepthook
def below():
    return len(descendants(os.getpid()))
def up():
    return "ray" in sys.modules and sys.modules["ray"].is_initialized()
def equal(outputs):
    return all(np.array_equal(outputs[name], wanted[name]) for name in wanted)
def where():
    import ray
    return ray.get_runtime_context().gcs_address
shared = os.statvfs("/dev/shm")
tell(shared_memory=shared.f_blocks * shared.f_frsize)
before = changes()
first, second = hetsim.Session(plan), hetsim.Session(plan)
import ray
address = where()
tell(address=address, nodes=len(ray.nodes()), started=below())
wanted = first.run()
first.close()
tell(same=up() and where() == address)
third = hetsim.Session(plan)
tell(equal=[equal(session.run()) for session in (second, third)])
try:
    hetsim.run(plan, address="127.0.0.1:1")
except hetsim.HetsimError as error:
    tell(error=type(error).__name__)
second.close()
tell(up=up())
last = threading.Thread(target=third.close)
last.start()
last.join()
tell(up=up(), left=below(), same=before == changes())
tell(stored=os.listdir("/dev/shm"))
"""


@pytest.fixture(scope="module")
def told(ray_connection: RayConnection) -> list[dict[str, Any]]:
    """What a process told in which sessions come and go."""
    import ray

    environment = {
        "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
        "RAY_AUTH_MODE": "disabled",
    }
    with short_folder() as folder:
        child = Child(STORY, folder, before=WITH_SMALL_SHARED_MEMORY, **environment)
        lines = [child.line() for _ in range(8)]
        assert child.end() == ""
        assert child.process.returncode == 0
    return lines


def test_a_private_ray_is_alone_and_gone_afterwards(told: list[dict[str, Any]]) -> None:
    import ray

    opened, after = told[1], told[6]
    assert opened["address"] != ray.get_runtime_context().gcs_address
    assert opened["nodes"] == 1
    assert opened["started"] > 3
    assert after == {"up": False, "left": 0, "same": True}


def test_sessions_on_one_ray_end_in_any_order(told: list[dict[str, Any]]) -> None:
    assert told[2:6] == [
        {"same": True},
        {"equal": [True, True]},
        {"error": "UsageError"},
        {"up": True},
    ]


@pytest.mark.skipif(not CAN_MOUNT, reason="needs root to mount a small one")
def test_a_small_shared_memory_does(told: list[dict[str, Any]]) -> None:
    assert told[0] == {"shared_memory": SMALL_BYTES}
    assert told[7] == {"stored": []}


@pytest.mark.group("own_ray")
@pytest.mark.sweep
@pytest.mark.parametrize("stage", ["starting", "running"])
def test_ctrl_c_leaves_nothing_behind(folder: Path, ctrl_c: None, stage: str) -> None:
    child = Child(
        """
from hetsim.execution.session import Session
tell(stage="starting")
submit = Session.run_async
def told(self, *arguments, **options):
    tell(stage="running")
    return submit(self, *arguments, **options)
Session.run_async = told
while True:
    hetsim.run(plan, verify=False)
""",
        folder,
    )
    assert child.line() == {"stage": "starting"}
    if stage == "running":
        assert child.line() == {"stage": "running"}
    else:
        deadline = time.monotonic() + 60
        while len(child.below()) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    below = child.below()
    assert len(below) >= 2
    # As a terminal does: to every process of the group.
    os.killpg(child.process.pid, signal.SIGINT)
    stderr = child.end()
    assert child.process.returncode in (-signal.SIGINT, 130)
    assert "KeyboardInterrupt" in stderr
    assert living(below) == []


WAITING = """
from hetsim.execution.transports.ray_connection import ray_connection
with ray_connection():
    tell(ready=True)
    time.sleep(600)
"""


def waiting(folder: Path) -> tuple[Child, tuple[Process, ...]]:
    """A child that has a private Ray and waits, and all that is below it."""
    child = Child(WAITING, folder, first="")
    assert child.line() == {"ready": True}
    return child, child.below()


@pytest.mark.group("own_ray")
@pytest.mark.sweep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_leave_nothing_behind(folder: Path, number: signal.Signals) -> None:
    child, below = waiting(folder)
    child.process.send_signal(number)
    child.end()
    assert len(below) > 3
    assert left_of(below) == []
    assert list(folder.glob("hetsim-*")) == []


@pytest.mark.sweep
@pytest.mark.group("own_ray")
@pytest.mark.parametrize("moment", ["connect", "shutdown"])
def test_sigterm_waits_where_ray_sets_a_handler_of_its_own(folder: Path, moment: str) -> None:
    code = f"""
import signal
import ray
import ray._private.worker as worker
from hetsim.cli.main import SignalExit, ended_by_signals
from hetsim.execution.transports.ray_connection import ray_connection
real = getattr(worker, {moment!r})
def told_to_end(*arguments, **options):
    given = real(*arguments, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)
    return given
worker.{moment} = told_to_end
if {moment!r} == "shutdown":
    ray.shutdown = told_to_end
try:
    with ended_by_signals(), ray_connection():
        pass
    tell(ended="by itself")
except SignalExit as ended:
    tell(ended=str(ended))
"""
    child = Child(code, folder, first="")
    assert child.line() == {"ended": "SIGTERM"}
    below = child.below()
    child.end()
    assert child.process.returncode == 0
    assert left_of(below) == []


@pytest.mark.sweep
@pytest.mark.group("own_ray")
def test_sigkill_ends_all_processes_and_the_next_clears_their_files(folder: Path) -> None:
    killed, below = waiting(folder)
    (left,) = folder.glob("hetsim-*")
    killed.process.kill()
    killed.end()
    assert left_of(below) == []
    assert left.exists()
    child, _ = waiting(folder)
    assert not left.exists()
    child.process.terminate()
    child.end()


SLOW = """
import time, types
import ray._private.node as node
import ray._private.services as services
# A node that is found by the fourth look alone, and 30 s that are over after the first, as where
# the machine is busy.
find, looks = services.get_node, []
def found(*of):
    looks.append(of)
    if len(looks) < 4:
        raise RuntimeError("no such node")
    return find(*of)
services.get_node = found
node.time = types.SimpleNamespace(**{**vars(time), "monotonic": lambda: 1e9 * time.monotonic()})
from hetsim.execution.transports.ray_connection import ray_connection
with ray_connection() as session:
    tell(private=session.private)
"""


@pytest.mark.sweep
@pytest.mark.group("own_ray")
def test_a_ray_that_starts_slowly_is_waited_for(folder: Path) -> None:
    child = Child(SLOW, folder, first="")
    assert child.line() == {"private": True}
    child.end()


FULL = """
import numpy as np
from hetsim.errors import OutOfRoom
from hetsim.execution.transports.ray_transport import stored
from hetsim.execution.transports.ray_connection import ray_connection
with ray_connection(store_bytes=80 * 2**20):
    kept = []
    try:
        for number in range(100):
            kept.append(stored(np.full(8 * 2**20, number, np.uint8)))
    except OutOfRoom as short:
        tell(stored=len(kept), short_of=short.short_of, needed=short.needed_bytes, what=str(short))
    import ray
    tell(first=int(ray.get(kept[0])[0]), last=int(ray.get(kept[-1])[0]) == len(kept) - 1)
"""


@pytest.mark.sweep
@pytest.mark.group("own_ray")
def test_a_store_that_is_full_is_told_with_what_to_do(folder: Path) -> None:
    # As where the disk is full to which Ray moves values.
    child = Child(FULL, folder, first="", RAY_local_fs_capacity_threshold="0")
    told = child.line()
    assert 8 <= told.pop("stored") < 100
    assert (told.pop("short_of"), told.pop("needed")) == ("disk", 8 * 2**20)
    assert told["what"].startswith("an input of 8388608 bytes cannot be stored: Ray's object store")
    assert "larger object store" in told["what"]
    assert child.line() == {"first": 0, "last": True}
    child.end()
    assert child.process.returncode == 0
    assert list(folder.glob("hetsim-*")) == []


def test_sockets_go_where_the_path_is_short_enough(tmp_path: Path) -> None:
    long = tmp_path / ("d" * 100)
    long.mkdir()
    assert temp_base((str(long), "/nowhere", "/tmp")) == "/tmp"
    with pytest.raises(ClusterError, match="at most 25 characters"):
        temp_base((str(long),))


def test_an_address_where_nothing_answers_is_an_error_at_once(monkeypatch: Any) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with pytest.raises(ClusterError, match=f"address 127.0.0.1:{port}: no Ray answers"):
            check_address(f"127.0.0.1:{port}")


def test_something_that_is_no_ray_is_an_error_within_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hetsim.execution.transports.ray_health._PROBE_S", 2.0)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ClusterError, match="is not Ray"):
            check_address(address)


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:99999", "host:x"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        split_address(address)


def test_an_address_of_ray_client_is_told_apart() -> None:
    with pytest.raises(UsageError, match="on a node of the cluster"):
        check_address("ray://head:10001")
