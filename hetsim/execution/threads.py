"""A program on threads of this process, one a device."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, InvalidStateError, wait
from contextlib import contextmanager, suppress
from typing import Any

from hetsim.errors import ExecutionError
from hetsim.execution.failures import stuck, unanswered
from hetsim.execution.program import Outcome, Program
from hetsim.execution.worker import DeviceWorker

_GRACE_S = 5.0
"""How long a cancelled thread may take to end before it is left to itself."""


def run_on_threads(program: Program, inputs: Mapping[str, Any], timeout_s: float) -> Outcome:
    """Run `program` on one thread a device.

    Kernels run outside Python's interpreter lock, so devices overlap for real.

    Parameters
    ----------
    program : Program
    inputs : mapping of str to value
        Every input of the model.
    timeout_s : float
        For compiling, and again for running.

    Raises
    ------
    ExecutionError
        Where a device fails or does not answer in time; it is named.
    """
    began = time.perf_counter()
    with _crew(program) as crew:
        loads = [
            thread.submit(
                thread.worker.load,
                program.code[device],
                {index: program.steps[index] for index in program.steps_of(device)},
                program.weights_dir,
            )
            for device, thread in crew.items()
        ]
        if not _settled(loads, timeout_s):
            silent = [device for device, load in zip(crew, loads, strict=True) if not load.done()]
            raise unanswered(silent, "compiling subgraphs", timeout_s)
        ready = time.perf_counter()
        values: dict[str, Future[Any]] = {}
        for name, value in inputs.items():
            values[name] = Future()
            values[name].set_result(value)
        for step in program.steps:
            values.update({name: Future() for name in step.sends})
        try:
            ends = [
                crew[step.device].submit(
                    _call,
                    crew[step.device].worker,
                    index,
                    [values[name] for name in step.receives],
                    [values[name] for name in step.sends],
                )
                for index, step in enumerate(program.steps)
            ]
            if not _settled(ends, timeout_s):
                late = stuck(program.steps, [end.done() for end in ends])
                raise unanswered(late, "running the plan", timeout_s)
        finally:
            # A thread that waits for a value which will not come has to hear of it.
            for value in values.values():
                _settle(value, ExecutionError("the run was given up"))
        outputs = {name: values[name].result() for name in program.outputs}
        return Outcome(outputs, ready - began, time.perf_counter() - ready)


class _Thread:
    """A device's worker on a thread that takes one task after the other.

    A daemon, so that a kernel which never ends does not keep the process alive.
    """

    def __init__(self, device: str) -> None:
        self.worker = DeviceWorker(device)
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._work, name=f"hetsim device {device}", daemon=True
        )
        self._thread.start()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Queue a call; its result or error ends the future."""
        future: Future[Any] = Future()

        def task() -> None:
            try:
                result = function(*arguments)
            except BaseException as error:  # handed to whoever waits
                future.set_exception(error)
            else:
                future.set_result(result)

        self._tasks.put(task)
        return future

    def stop(self) -> None:
        """Let the thread end once its queue is empty."""
        self._tasks.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


@contextmanager
def _crew(program: Program) -> Iterator[dict[str, _Thread]]:
    crew: dict[str, _Thread] = {}
    try:
        for device in program.code:
            crew[device] = _Thread(device)
        yield crew
    finally:
        for thread in crew.values():
            thread.worker.cancel()
            thread.stop()
        deadline = time.monotonic() + _GRACE_S
        for thread in crew.values():
            thread.join(max(0.0, deadline - time.monotonic()))


def _settled(futures: Sequence[Future[Any]], timeout_s: float) -> bool:
    """Wait until all are done. Raises the error of the first in order that failed by then."""
    finished, unfinished = wait(futures, timeout_s, FIRST_EXCEPTION)
    for future in futures:
        if future in finished:
            future.result()
    return not unfinished


def _call(
    worker: DeviceWorker, index: int, received: Sequence[Future[Any]], sent: Sequence[Future[Any]]
) -> None:
    try:
        results = worker.run(index, *(value.result() for value in received))[1:]
    except BaseException as error:
        for value in sent:
            _settle(value, error)
        raise
    for value, result in zip(sent, results, strict=True):
        with suppress(InvalidStateError):
            value.set_result(result)


def _settle(value: Future[Any], error: BaseException) -> None:
    with suppress(InvalidStateError):
        value.set_exception(error)
