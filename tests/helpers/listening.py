"""Where processes listen, as Linux tells it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hetsim.execution.transports.processes import descendants


def own_processes() -> list[int]:
    """This process, and all that are below it."""
    return [os.getpid(), *(process.pid for process in descendants(os.getpid()))]


def listening(pids: Iterable[int]) -> list[tuple[str, int]]:
    """Addresses, in the kernel's hexadecimal, and ports on which any of these processes listens."""
    sockets = set()
    for pid in pids:
        try:
            links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        sockets |= {link[8:-1] for link in links if link.startswith("socket:[")}
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                address, _, port = fields[1].partition(":")
                found.append((address, int(port, 16)))
    return found
