"""A device at work: it holds its compiled subgraphs and the values between its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetsim.device.kernels import CompiledSubgraph
from hetsim.errors import ExecutionError
from hetsim.execution.program import Code
from hetsim.execution.steps import Step


class DeviceWorker:
    """Runs the steps of one device; lives in a Ray actor or a thread.

    Parameters
    ----------
    device : str
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._code: dict[int, Code] = {}
        self._compiled: dict[int, CompiledSubgraph] = {}
        self._steps: Mapping[int, Step] = {}
        self._values: dict[str, Any] = {}
        self._failure: ExecutionError | None = None
        self._cancelled = False

    def load(self, code: Sequence[Code], steps: Mapping[int, Step], weights_dir: str | None) -> int:
        """Compile the subgraphs; return their number. Raises ExecutionError, naming one."""
        self._steps = steps
        for entry in code:
            if self._cancelled:
                raise ExecutionError("cancelled", where=self._where(entry))
            try:
                compiled = self._open(entry, weights_dir)
            except ExecutionError as error:
                raise self._named(error, entry) from error
            self._code[entry.group] = entry
            self._compiled[entry.group] = compiled
        return len(self._compiled)

    def _open(self, entry: Code, weights_dir: str | None) -> CompiledSubgraph:
        if entry.spec is None:
            return CompiledSubgraph(entry.proto, weights_dir, entry.outputs, entry.settings)
        from hetsim.device.registry import make_device

        device = make_device(self._device, entry.spec)
        return device.open(entry.proto, weights_dir, entry.outputs, entry.settings)

    def run(self, index: int, *received: Any) -> tuple[Any, ...]:
        """Run step `index`; return the index and then what the step sends.

        Parameters
        ----------
        index : int
        received : values
            What the step receives, in its order.

        Raises
        ------
        ExecutionError
            Where a kernel fails; every later step raises the same.
        """
        if self._failure is not None:
            raise self._failure
        step = self._steps[index]
        values = self._values
        values.update(zip(step.receives, received, strict=True))
        for part, frees in zip(step.parts, step.frees, strict=True):
            try:
                values.update(self._compiled[part].run(values))
            except ExecutionError as error:
                self._failure = self._named(error, self._code[part])
                values.clear()
                raise self._failure from error
            for name in frees:
                del values[name]
        sent = tuple(values[name] for name in step.sends)
        for name in step.sends:
            if name not in step.keeps:
                del values[name]
        return (index, *sent)

    def cancel(self) -> None:
        """Make what is under way in another thread end early, in an ExecutionError."""
        self._cancelled = True
        for compiled in tuple(self._compiled.values()):
            compiled.cancel()

    def _where(self, entry: Code) -> str:
        return f"device '{self._device}', {entry.about}"

    def _named(self, error: ExecutionError, entry: Code) -> ExecutionError:
        return ExecutionError(error.what, where=self._where(entry), hint=error.hint)
