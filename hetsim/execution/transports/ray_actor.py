"""The Ray actor of a device: a worker that can also say where it is and what it sees."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hetsim.execution.cluster_versions import Versions, own_versions
from hetsim.execution.devices.plan_steps import Step
from hetsim.execution.devices.program import Code
from hetsim.execution.devices.worker import DeviceWorker
from hetsim.execution.transports.channel import Memory, come
from hetsim.execution.transports.channel_ends import DeviceEnd

FileFacts = tuple[int, int]
"""Size in bytes and time of the last change in nanoseconds: what tells files apart."""


def file_facts(folder: str, locations: Sequence[str]) -> dict[str, FileFacts | None]:
    """Return the facts of each file below `folder`; None for one that is not there."""
    found: dict[str, FileFacts | None] = {}
    for location in locations:
        try:
            status = os.stat(Path(folder) / location)
        except OSError:
            found[location] = None
        else:
            found[location] = (status.st_size, status.st_mtime_ns)
    return found


class DeviceActor:
    """A DeviceWorker on whatever machine Ray put it.

    Parameters
    ----------
    device : str
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._worker = DeviceWorker(device)

    def hello(self) -> tuple[str, Versions]:
        """Return the id of its node, and what is installed there."""
        import ray

        return ray.get_runtime_context().get_node_id(), own_versions()

    def sees(self, folder: str, facts: Mapping[str, FileFacts | None]) -> bool:
        """Whether the files below `folder` on this machine are those that `facts` describes."""
        return file_facts(folder, tuple(facts)) == facts

    def load(
        self,
        version: int,
        code: Sequence[Code],
        steps: Mapping[int, Step],
        weights_dir: str | None,
        beside: bool = False,
    ) -> int:
        """Compile the subgraphs; return the process id."""
        self._worker.load(version, code, steps, weights_dir, beside)
        return os.getpid()

    def join(self, name: str, streams: int) -> bool:
        """Take calls over a channel too, if the caller waits at `name` on this machine."""
        memory = Memory()
        channel = come(name, memory) if sys.platform == "linux" else None
        if channel is not None:
            DeviceEnd(self._device, channel, memory, self._worker, streams).start()
        return channel is not None

    def run(self, version: int, request: int, index: int, *received: Any) -> Any:
        """Run step `index`; return when it ran and then what the step sends."""
        results = self._worker.run(version, request, index, *received)
        return results if len(results) > 1 else results[0]

    def forget(self, version: int, request: int) -> None:
        """Drop what is held for a request."""
        self._worker.forget(version, request)

    def freeze(self) -> None:
        """Answer no call any more."""
        self._worker.freeze()
