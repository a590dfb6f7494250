"""Who may use a Ray: a private one is for its process alone, others keep the caller's login."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray

from execution.transports.test_ray_connection import QUIET, Child, folder
from hetsim.execution.transports.private_ray import ENVIRONMENT, private_environment
from hetsim.execution.transports.processes import command_line, descendants
from hetsim.execution.transports.ray_connection import RayConnection
from listening import listening, own_processes

__all__ = ["folder"]

ONCE = {"RAY_NUM_REDIS_GET_RETRIES": "1"}
"""Not to ask twenty times, a second apart, where the answer is no."""

LOOK = """
import sys
from ray._raylet import GcsClient
try:
    print(len(GcsClient(address=sys.argv[1]).get_all_node_info(timeout=20)))
except Exception as error:
    print(type(error).__name__)
"""


def test_every_private_ray_has_a_token_of_its_own() -> None:
    one, other = private_environment(), private_environment()
    assert one["RAY_AUTH_MODE"] == other["RAY_AUTH_MODE"] == "token"
    assert one["RAY_AUTH_TOKEN"] != other["RAY_AUTH_TOKEN"]
    assert re.fullmatch("[0-9a-f]{64}", one["RAY_AUTH_TOKEN"])
    assert "RAY_AUTH_TOKEN" not in ENVIRONMENT


def test_a_process_without_the_token_is_refused(ray_connection: RayConnection) -> None:
    assert ray_connection.private
    address = ray.get_runtime_context().gcs_address
    token = os.environ["RAY_AUTH_TOKEN"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}

    def look(**login: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", LOOK, address],
            env={**plain, **login}, capture_output=True, text=True, timeout=100, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    assert look(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0" * 64) == "AuthenticationError"
    assert look(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token) == "1"


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the sockets of Linux")
def test_a_private_ray_listens_on_the_loopback_device_alone(ray_connection: RayConnection) -> None:
    there = [address for address, _ in listening(own_processes())]
    assert len(there) > 3
    loopback = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
    assert set(there) <= set(loopback)


def test_the_token_is_in_no_file_and_no_command_line(ray_connection: RayConnection) -> None:
    token = os.environ["RAY_AUTH_TOKEN"]
    node: Any = ray._private.worker.global_worker.node
    temp = Path(node.get_temp_dir_path())
    assert temp.parent.stat().st_mode & 0o777 == 0o700
    assert temp.parent.name.startswith("hetsim-")
    assert not any(token in command_line(process) for process in descendants(os.getpid()))
    files = [path for path in temp.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not any(token.encode() in path.read_bytes() for path in files)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be somebody else for a while")
def test_another_user_reads_no_files(ray_connection: RayConnection) -> None:
    def as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
        nobody = 65534
        return subprocess.run(
            words, user=nobody, group=nobody, extra_groups=[], cwd="/",
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert as_nobody("id", "-u").stdout == "65534\n"
    files = ray_connection.files
    assert files is not None
    (store,) = files.rglob("plasma_store")
    for what in (files, files / "owner", files / "r", store):
        told = as_nobody("ls", str(what))
        assert told.returncode != 0
        assert "Permission denied" in told.stderr


@pytest.mark.group("own_ray")
@pytest.mark.slow
@pytest.mark.sweep
def test_a_ray_of_the_caller_is_used_and_left_with_its_login_as_it_is(
    folder: Path, tmp_path: Path
) -> None:
    held = tmp_path / "token"
    held.write_text("5" * 64)
    login = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(held), **QUIET}
    absent = ("RAY_AUTH_TOKEN", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_ADDRESS")
    clean = f"[os.environ.pop(name, None) for name in {absent!r}]\n"
    cluster = Child(
        clean
        + """
import ray
ray.init(address="local", num_cpus=1, include_dashboard=False, configure_logging=False,
         log_to_driver=False, object_store_memory=100 * 2**20, _plasma_directory="/tmp")
here = ray.get_runtime_context().gcs_address
tell(address=here)
run = hetsim.run(plan)
tell(equal=run.bitwise_equal, same=ray.get_runtime_context().gcs_address == here)
try:
    hetsim.run(plan, address="127.0.0.1:1")
except hetsim.HetsimError as error:
    tell(error=type(error).__name__)
sys.stdin.readline()
tell(up=ray.get(ray.put(1)) == 1)
ray.shutdown()
import shutil
shutil.rmtree(os.path.join(os.environ["TMPDIR"], "ray"))
""",
        folder,
        **login,
    )
    address = cluster.line()["address"]
    assert cluster.line() == {"equal": True, "same": True}
    assert cluster.line() == {"error": "UsageError"}
    private = """
before = dict(os.environ)
tell(private=hetsim.run(plan, verify=False).bitwise_equal, same=before == dict(os.environ))
"""
    join = f"""
before = dict(os.environ)
try:
    tell(joined=hetsim.run(plan, address={address!r}).bitwise_equal,
         same=before == dict(os.environ))
    import ray
    tell(connected=ray.is_initialized())
except hetsim.HetsimError as error:
    tell(error=str(error))
"""
    joining = Child(clean + private + join, folder, **login)
    assert joining.line() == {"private": None, "same": True}
    assert joining.line() == {"joined": True, "same": True}
    assert joining.line() == {"connected": False}
    joining.end()
    stranger = Child(clean + join, folder, RAY_AUTH_MODE="disabled", **QUIET, **ONCE)
    assert "it requires a token" in stranger.line()["error"]
    stranger.end()
    # Those who joined have left the cluster as it was; a line ends it.
    print(file=cluster.process.stdin, flush=True)
    assert cluster.line() == {"up": True}
    cluster.end()
