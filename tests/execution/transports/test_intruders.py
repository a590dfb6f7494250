"""Another user of the machine gets to nothing of a run: no port, socket, memory or process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx
import pytest

from execution.conftest import Cut
from hetsim.execution.session import Session
from hetsim.execution.transports.processes import descendants
from hetsim.execution.transports.ray_connection import RayConnection
from listening import listening, own_processes
from sweeps import sweep

TWO = [("cpu", [0, 1, 2]), ("gpu", [3, 4, 5])]
NOBODY = 65534

CALL = """
import sys, time, grpc
for port in sys.argv[1].split():
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    for call in sys.argv[2].split():
        # The first call on a channel may come before its connection holds.
        for again in range(3):
            try:
                channel.unary_unary(f"/ray.rpc.{call}")(b"", timeout=20)
                said = "ANSWERED"
            except grpc.RpcError as error:
                said = error.code().name
            if said != "UNAVAILABLE":
                break
            time.sleep(0.1)
        print(port, call, said)
"""
REFUSED = (
    "CoreWorkerService/PushTask", "NodeManagerService/RequestWorkerLease",
    "ObjectManagerService/Pull", "InternalKVGcsService/InternalKVPut",
    "ActorInfoGcsService/KillActorViaGcs",
)  # fmt: skip
OTHERS = """CoreWorkerService/KillActor CoreWorkerService/Exit NodeManagerService/ShutdownRaylet
NodeManagerService/GetNodeStats ObjectManagerService/Push ObjectManagerService/FreeObjects
InternalKVGcsService/InternalKVGet NodeInfoGcsService/GetAllNodeInfo
NodeInfoGcsService/UnregisterNode JobInfoGcsService/AddJob ActorInfoGcsService/GetAllActorInfo
InternalPubSubGcsService/GcsPublish"""
CALLS = (*REFUSED, *OTHERS.split())

pytestmark = pytest.mark.skipif(
    not Path("/proc/net/tcp").exists(), reason="reads the sockets of Linux"
)


def ports(pids: Iterable[int]) -> list[int]:
    """Where any of these processes listens."""
    return [port for _, port in listening(pids)]


def reached(pids: Sequence[int]) -> list[str]:
    """What another user sees of what processes have open, have in memory, and can be told."""
    script = """
for pid in $1; do
    kill -0 $pid 2> /dev/null && echo signal $pid
    for what in environ mem cwd exe; do
        (head -c 1 /proc/$pid/$what || readlink /proc/$pid/$what) 2> /dev/null | grep -q . &&
            echo $what $pid
    done
    for one in fd map_files; do ls /proc/$pid/$one 2> /dev/null | grep -q . && echo $one $pid; done
    for one in 0 1 2 3 4 5 6 7 8 9; do
        (: < /proc/$pid/fd/$one) 2> /dev/null && echo opened $pid
    done
done
exit 0
"""
    words = ["sh", "-c", script, "sh", " ".join(map(str, pids))]
    told = subprocess.run(
        words, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return told.stdout.splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be somebody else for a while")
def test_the_processes_of_a_private_ray_are_shut_to_other_users(
    ray_connection: RayConnection,
) -> None:
    below = descendants(os.getpid())
    assert len(below) > 3
    assert reached([process.pid for process in below]) == []


def strange_calls(there: Sequence[int], calls: Sequence[str]) -> str:
    """What services of Ray at these ports say to calls without its token, by line."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.run(
        [sys.executable, "-c", CALL, " ".join(map(str, there)), " ".join(calls)],
        env=plain, stdout=subprocess.PIPE, text=True, check=True, timeout=500,
    ).stdout  # fmt: skip


@pytest.mark.slow
@sweep("calls", quick=[REFUSED], full=[REFUSED, CALLS], ids=len)
def test_no_service_of_a_private_ray_answers_a_stranger(
    cut: Cut, diamond: onnx.ModelProto, ray_connection: RayConnection, calls: tuple[str, ...]
) -> None:
    # Workers without an actor end by themselves.
    with Session(cut(diamond, TWO), "ray") as session:
        session.run()
        there = ports(own_processes())
        assert len(there) > 3
        told = strange_calls(there, calls)
    answers = [line.split()[1:] for line in told.splitlines()]
    assert len(answers) == len(there) * len(calls)
    # One port alone, of Python, is no gRPC.
    assert {how for _, how in answers} <= {"UNAUTHENTICATED", "UNIMPLEMENTED", "UNAVAILABLE"}
    refused = {call for call, how in answers if how == "UNAUTHENTICATED"}
    assert set(REFUSED) <= refused
