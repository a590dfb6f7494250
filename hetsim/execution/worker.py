"""Worker of a device: compiled subgraphs and, by request, the values between calls."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hetsim.core.room import out_of_room
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.device.registry import make_device
from hetsim.errors import Cancelled, ExecutionError, HetsimError
from hetsim.execution.program import Code, Program, Step, Timing


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Version of a program, ready to run."""

    steps: Sequence[Step]
    code: Mapping[int, Code]
    compiled: Mapping[int, CompiledSubgraph]


class DeviceWorker:
    """Executor of one device's steps, for several requests at the same time."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._loaded: dict[int, _Loaded] = {}
        # Weak: a replaced version lives on only in its calls under way.
        self._opened: weakref.WeakSet[CompiledSubgraph] = weakref.WeakSet()
        self._values: dict[tuple[int, int], dict[str, Any]] = {}
        self._cancelled = False
        self._going = threading.Event()
        self._going.set()

    def load(self, version: int, program: Program) -> int:
        """Compile the device's subgraphs of a version of the program; return the process id.

        Versions before the program's ``since`` are dropped.
        """
        compiled: dict[int, CompiledSubgraph] = {}
        code, weights_dir = program.code[self.device], program.weights_dir
        for entry in code:
            if self._cancelled:
                raise Cancelled("cancelled", where=self._where(entry))
            try:
                compiled[entry.group] = self._open(entry, weights_dir)
            except ExecutionError as error:
                raise self._named(error, entry) from error
            except HetsimError as error:
                what, hint = error.what, error.hint
                raise ExecutionError(what, where=self._where(entry), hint=hint) from error
            self._opened.add(compiled[entry.group])
        fresh = _Loaded(program.steps, {entry.group: entry for entry in code}, compiled)
        kept = {k: old for k, old in self._loaded.items() if k >= program.since}
        self._loaded = {**kept, version: fresh}
        return os.getpid()

    def _open(self, entry: Code, weights_dir: str | None) -> CompiledSubgraph:
        if entry.spec is None:
            return CompiledSubgraph(entry.proto, weights_dir, entry.outputs, entry.settings)
        device = make_device(self.device, entry.spec)
        return device.open(entry.proto, weights_dir, entry.outputs, entry.settings)

    def run(self, version: int, request: int, index: int, *received: Any) -> tuple[Any, ...]:
        """Run step `index` for a request; return its ``Timing`` and then the values it sends."""
        loaded = self._loaded.get(version)
        if loaded is None:
            raise ExecutionError(
                f"it has no version {version} of the program", where=f"device '{self.device}'"
            )
        arrived_s = time.monotonic()
        spans: list[tuple[float, float]] = []
        step = loaded.steps[index]
        key = (version, request)
        values = self._values.setdefault(key, {})
        values.update(zip(step.receives, received, strict=True))
        for part, frees in zip(step.parts, step.frees, strict=True):
            began_s = time.monotonic()
            try:
                values.update(loaded.compiled[part].run(values))
            except ExecutionError as error:
                self._values.pop(key, None)
                raise self._named(error, loaded.code[part]) from error
            spans.append((began_s, time.monotonic()))
            for name in frees:
                del values[name]
        sent = [values[name] if name in step.keeps else values.pop(name) for name in step.sends]
        if not values:
            self._values.pop(key, None)
        if not self._going.is_set():
            self._going.wait()
        return (Timing(arrived_s, tuple(spans)), *sent)

    def forget(self, version: int, request: int) -> None:
        """Drop the values of a request that ended before its last step."""
        self._values.pop((version, request), None)

    def freeze(self) -> None:
        """Stop answering calls until ``cancel``, like a hanging device."""
        self._going.clear()

    def cancel(self) -> None:
        """Make running work in other threads end early, with an ExecutionError."""
        self._cancelled = True
        for compiled in tuple(self._opened):
            compiled.cancel()
        self._going.set()

    def _where(self, entry: Code) -> str:
        return f"device '{self.device}', {entry.about}"

    def _named(self, error: ExecutionError, entry: Code) -> ExecutionError:
        return replace(error, where=self._where(entry))


def error_of_device(error: BaseException, device: str) -> ExecutionError:
    """Return an error of a device as an ExecutionError; OutOfRoom keeps its type."""
    if isinstance(error, ExecutionError):
        return error
    where = f"device '{device}'"
    said = f"{type(error).__name__}: {error}"
    return out_of_room(error, where) or ExecutionError(said, where=where)
