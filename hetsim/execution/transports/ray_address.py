"""Whether a Ray answers at an address, found out within seconds."""

from __future__ import annotations

import socket
import subprocess
import sys

from hetsim.base.own_programs import own_environment
from hetsim.errors import ClusterError, UsageError

_CONNECT_S = 3.0
_PROBE_S = 20.0
_HINT = "start it with 'ray start --head', or give no address for a private Ray"


def check_address(address: str) -> None:
    """Raise unless a Ray of this version answers at `address`.

    Ray's own attempt to join takes over a minute to fail, and cannot be interrupted; so a
    connection is tried first, and then Ray's health check in a process of its own.

    Parameters
    ----------
    address : str
        ``host:port``, or ``auto`` for the Ray that was started on this machine.

    Raises
    ------
    UsageError
        Where it is no such address.
    ClusterError
        Where nothing answers, or something that is no Ray of this version, or wants another
        token than the environment has.
    """
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "health-check"]
    if address != "auto":
        host, port = split_address(address)
        try:
            socket.create_connection((host, port), _CONNECT_S).close()
        except OSError as error:
            raise ClusterError(
                f"no Ray answers: {error.strerror or error}",
                where=f"address {address}",
                hint=_HINT,
            ) from error
        command += ["--address", address]
    try:
        probe = subprocess.run(
            command,
            env=own_environment(),
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"what answers there is no Ray: no sign of health within {_PROBE_S:g} s",
            where=f"address {address}",
            hint=_HINT,
        ) from error
    if probe.returncode != 0:
        if "InvalidAuthToken" in probe.stderr + probe.stdout:
            raise ClusterError(
                "it asks for a token, and has not been given the right one",
                where=f"address {address}",
                hint="set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH",
            )
        said = [line.strip() for line in (probe.stderr + probe.stdout).splitlines() if line.strip()]
        raise ClusterError(
            f"no Ray that can be joined: {said[-1] if said else 'it is not healthy'}",
            where=f"address {address}",
            hint=_HINT,
        )


def same_address(one: str, other: str) -> bool:
    """Whether two addresses name one Ray; a loopback host stands for any name of this one."""
    if "auto" in (one, other) or one == other:
        return True
    (host, port), (other_host, other_port) = split_address(one), split_address(other)
    if port != other_port:
        return False
    try:
        ips = {socket.gethostbyname(host), socket.gethostbyname(other_host)}
    except OSError:
        return False
    return len(ips) == 1 or any(ip.startswith("127.") for ip in ips)


def split_address(address: str) -> tuple[str, int]:
    """Return host and port. Raises UsageError where `address` is not ``host:port``."""
    host, _, port = address.rpartition(":")
    if "://" in address:
        raise UsageError(
            f"'{address}' is not host:port",
            hint="run hetsim on a node of the cluster, with its host:port or 'auto'",
        )
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UsageError(f"'{address}' is not host:port", hint="for example 10.0.0.1:6379, or auto")
    return host, int(port)
