"""A request under way, as its caller sees it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from hetsim.base import checks
from hetsim.base.forking import refuse_child
from hetsim.errors import HetsimError, TimedOut


class Request:
    """What ``run_async`` gives: the outputs to come.

    Attributes
    ----------
    request_id : int
        Ascending in the order of submission.
    wall_s : float or None
        Real seconds from submission to the outputs; None before, and where it failed.
    """

    def __init__(
        self,
        request_id: int,
        cancel: Callable[[int], None],
        finish: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        self.request_id = request_id
        self.wall_s: float | None = None
        self._owner = os.getpid()
        self._cancel = cancel
        self._finish = finish
        self._future: Future[dict[str, Any]] = Future()

    def result(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait for the outputs, by name in the model's order.

        Parameters
        ----------
        timeout_s : float, optional
            How long to wait; the request goes on after that.

        Raises
        ------
        InvalidInput
            Where `timeout_s` is no time.
        TimedOut
            Where it is not done in time; of devices that did not answer, it names them.
        Cancelled
            Where it was given up.
        DeviceLost
            Where it is lost: its devices failed more often while running it than
            ``Session(max_losses=)`` allows. A TimedOut where they hung.
        ExecutionError
            Where it failed.
        Infeasible
            Where no device is left that can do it.
        UsageError
            Where it is under way in the parent of this forked process.
        """
        if timeout_s is not None:
            checks.number(least=0, most=threading.TIMEOUT_MAX)(timeout_s, "timeout_s")
        if not self.done():
            refuse_child(self._owner, "the session of this request")
        try:
            return self._future.result(timeout_s)
        except TimeoutError:
            raise TimedOut(
                f"request {self.request_id} is not done after {timeout_s:g} s",
                hint="wait longer, or cancel it",
                timeout_s=timeout_s or 0.0,
            ) from None

    def done(self) -> bool:
        """Whether it has its outputs, or an error."""
        return self._future.done()

    def cancel(self) -> None:
        """Give it up, where it is not done; ``result`` then raises Cancelled."""
        if not self.done():
            refuse_child(self._owner, "the session of this request")
            self._cancel(self.request_id)

    def when_done(self, call: Callable[[], object]) -> None:
        """Have `call` called, on any thread, once it is done."""
        self._future.add_done_callback(lambda _: call())

    def succeed(self, outputs: Mapping[str, Any], wall_s: float) -> None:
        """Note its outputs."""
        self.wall_s = wall_s
        known = self._finish(dict(outputs))
        # It holds the inputs, which nobody needs any more.
        self._finish = dict
        self._future.set_result(known)

    def fail(self, error: HetsimError) -> None:
        """Note that there will be none."""
        self._future.set_exception(error)
