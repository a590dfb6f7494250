"""What a run on a private Ray sends: nothing to any address that is not the loopback device's."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builders import BOX

SENDING = "connect,sendto,sendmsg,sendmmsg"
_ADDRESS = re.compile(r'(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)"')


def can_trace() -> bool:
    """Whether strace is there and may trace."""
    found = shutil.which("strace")
    return (
        found is not None
        and subprocess.run([found, "-qq", "-o", os.devnull, "true"]).returncode == 0
    )


def addresses(trace: str) -> set[str]:
    """The Internet addresses that the calls of a trace name, netlink's answers apart."""
    named = (line for line in trace.splitlines() if "AF_NETLINK" not in line)
    return {address for line in named for address in _ADDRESS.findall(line)}


def is_loopback(address: str) -> bool:
    told = ipaddress.ip_address(address)
    return (getattr(told, "ipv4_mapped", None) or told).is_loopback


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.group("own_ray")
@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or may not trace here")
def test_a_run_on_a_private_ray_sends_nothing_off_the_machine(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = [sys.executable, "-m", "hetsim", "run", "zoo:squeezenet", "--platform", str(BOX),
               "--strategy", "hetero:npu,dsp,cpu"]  # fmt: skip
    done = subprocess.run(
        ["strace", "-f", "-qq", "-e", f"trace={SENDING}", "-o", str(told), *command],
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "1"},
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    named = addresses(told.read_text())
    assert "127.0.0.1" in named
    assert {address for address in named if not is_loopback(address)} == set()
