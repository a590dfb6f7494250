"""The Ray actor of a device: a worker that can also be given the weights."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import ExecutionError
from hetsim.execution.program import Code
from hetsim.execution.steps import Step
from hetsim.execution.worker import DeviceWorker

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
        self._folder: str | None = None

    def sees(self, folder: str, facts: Mapping[str, FileFacts | None]) -> bool:
        """Whether the files below `folder` on this machine are those that `facts` describes."""
        return file_facts(folder, tuple(facts)) == facts

    def take_weights(self, location: str, offset: int, data: NDArray[np.uint8]) -> int:
        """Write a piece of a weights file that this machine does not see; return its size.

        The pieces lie where they lay in the original, with holes between them, so that the
        references to them stay as they are.
        """
        try:
            if self._folder is None:
                self._folder = tempfile.mkdtemp(prefix="hetsim-weights-")
            file = Path(self._folder) / location
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            with file.open("r+b") as stream:
                stream.seek(offset)
                return stream.write(data.data)
        except OSError as error:
            self._remove_folder()
            raise ExecutionError(
                f"the weights cannot be written: {error.strerror or error}",
                where=f"device '{self._device}'",
                hint="set TMPDIR on its machine to a folder that has room",
            ) from error

    def load(
        self, version: int, code: Sequence[Code], steps: Mapping[int, Step], weights_dir: str | None
    ) -> int:
        """Compile the subgraphs, with the weights it was given if any; return the process id."""
        try:
            self._worker.load(version, code, steps, self._folder or weights_dir)
            return os.getpid()
        finally:
            # What is mapped stays mapped; so nothing is left even if this process is killed.
            self._remove_folder()

    def run(self, version: int, request: int, index: int, *received: Any) -> Any:
        """Run step `index`; return the index and then what the step sends."""
        results = self._worker.run(version, request, index, *received)
        return results if len(results) > 1 else results[0]

    def forget(self, version: int, request: int) -> None:
        """Drop what is held for a request."""
        self._worker.forget(version, request)

    def freeze(self) -> None:
        """Answer no call any more."""
        self._worker.freeze()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
