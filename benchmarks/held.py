"""What a process holds with all below it, and what of Ray is left behind: for the long runs."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetsim.execution.transports.processes import TEMP_PREFIX, descendants


@dataclass(frozen=True, slots=True)
class Held:
    """What is held at a moment by this process and those below it.

    Attributes
    ----------
    processes, threads, descriptors : int
    memory_bytes, own_bytes : int
        Memory of all, and of this process alone; a page that several share counts once. Without
        pages of files, whose share depends on who else has them open.
    store_bytes, store_objects : int
        In the object store of the Ray that this process is connected to; 0 without one.
    """

    processes: int
    threads: int
    descriptors: int
    memory_bytes: int
    own_bytes: int
    store_bytes: int
    store_objects: int

    def line(self) -> dict[str, int | float]:
        """Return it for a JSON line, memory in MiB."""
        return {
            "processes": self.processes,
            "threads": self.threads,
            "descriptors": self.descriptors,
            "memory_mib": round(self.memory_bytes / 2**20, 2),
            "own_mib": round(self.own_bytes / 2**20, 2),
            "store_bytes": self.store_bytes,
            "store_objects": self.store_objects,
        }


def held() -> Held:
    """Return what is held now. O(processes of the system + pages that are mapped)."""
    homes = [Path("/proc/self"), *(Path(f"/proc/{one.pid}") for one in descendants(os.getpid()))]
    counted = [_of(home) for home in homes]
    threads, descriptors, memory = (sum(part) for part in zip(*counted, strict=True))
    store_bytes, store_objects = _store()
    return Held(
        processes=len(homes),
        threads=threads,
        descriptors=descriptors,
        memory_bytes=memory,
        own_bytes=counted[0][2],
        store_bytes=store_bytes,
        store_objects=store_objects,
    )


def growth(figures: Sequence[float]) -> float:
    """Return by how much the last tenth of samples is above the second one, by medians.

    0.1 is 10 %. The first tenth does not count: pools are filled in it.
    """
    tenth = max(len(figures) // 10, 1)
    first = sorted(figures[tenth : 2 * tenth] or figures[:1])
    last = sorted(figures[-tenth:])
    before, after = first[len(first) // 2], last[len(last) // 2]
    return (after - before) / before if before else float(after > 0)


def of_ray() -> set[str]:
    """Return folders of private Rays, and what is in shared memory."""
    found = {str(path) for path in Path(tempfile.gettempdir()).glob(f"{TEMP_PREFIX}*")}
    with contextlib.suppress(OSError):
        found |= {f"/dev/shm/{name}" for name in os.listdir("/dev/shm")}
    return found


def _of(home: Path) -> tuple[int, int, int]:
    """Threads, descriptors and bytes of a process; nothing where it has ended."""
    try:
        threads, descriptors = len(os.listdir(home / "task")), len(os.listdir(home / "fd"))
        lines = (home / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0, 0
    ours = [line.split()[1] for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))]
    return threads, descriptors, sum(map(int, ours)) * 1024


def _store() -> tuple[int, int]:
    """Bytes and objects in the object store that this process is connected to."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return 0, 0
    from ray._private.state import state

    api: Any = importlib.import_module("ray._private.internal_api")
    store = api.get_memory_info_reply(state).store_stats
    return int(store.object_store_bytes_used), int(store.num_local_objects)
