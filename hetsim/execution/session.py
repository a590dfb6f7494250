"""Session: a loaded plan with many requests in flight, on devices that may fail."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Literal

from numpy.typing import NDArray

from hetsim.core import checks
from hetsim.core.process import ended_by_this_process, refuse_child
from hetsim.errors import TooManyInFlight, UsageError
from hetsim.execution.dispatch.device_states import Recovery, RecoveryPolicy, Replan
from hetsim.execution.dispatch.loop import SessionLoop
from hetsim.execution.dispatch.requests import Request
from hetsim.execution.dispatch.run_log import RunLog
from hetsim.execution.dispatch.transport import Post, Transport
from hetsim.execution.program import (
    Program,
    assemble,
    check_how,
    check_wait,
    constants_among_outputs,
    given_inputs,
    model_of,
    roundings_of,
)
from hetsim.execution.weights import staged
from hetsim.graph.model import Model
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Event
from hetsim.workload.failure import Failure, check_failures


@contextmanager
def opened(
    program: Program,
    executor: str,
    address: str | None,
    room_bytes: int,
    streams: Mapping[str, int],
    policy: RecoveryPolicy,
    replan: Replan | None = None,
    log: RunLog | None = None,
) -> Iterator[SessionLoop]:
    """Yield a loop with ready devices; all of it ends with the context."""
    widths = {**dict.fromkeys(program.code, 1), **streams}
    with transports(executor, address, room_bytes, widths, policy.timeout_s) as connect:
        loop = SessionLoop(program, connect, widths, policy, replan, log)
        try:
            loop.start()
            yield loop
        finally:
            loop.close()


@contextmanager
def transports(
    executor: str,
    address: str | None,
    room_bytes: int,
    streams: Mapping[str, int],
    timeout_s: float,
) -> Iterator[Callable[[Post], Transport]]:
    """Yield a factory of transports from the function that takes their events; see ``opened``."""
    if executor == "threads":
        from hetsim.execution.transports.threads import ThreadTransport

        yield lambda post: ThreadTransport(post, streams)
        return
    from hetsim.execution.transports.ray_connection import STORE_BYTES, ray_connection

    with ray_connection(address, store_bytes=STORE_BYTES + room_bytes) as connection:
        from hetsim.execution.transports.ray_transport import RayTransport

        yield lambda post: RayTransport(post, connection, streams, timeout_s)


def execute(
    program: Program,
    inputs: Mapping[str, Any],
    executor: str,
    address: str | None,
    timeout_s: float,
    crossing_bytes: int,
) -> tuple[dict[str, Any], float, float]:
    """Run a program once; return outputs, and real seconds of compiling and running.

    Compiling and running may each take ``timeout_s``.
    """
    with opened(
        program, executor, address, 2 * crossing_bytes, {}, RecoveryPolicy(timeout_s)
    ) as loop:
        request = Request(0, loop.cancel, dict)
        loop.submit(request, inputs, timeout_s)
        outputs = request.result()
        return outputs, loop.start_s, request.wall_s or 0.0


class Session:
    """Compiled plan whose devices stay up until it is closed.

    Requests go to the plan's replicas by its deal, in order of arrival. A device runs the ready
    step of the earliest request first, as many at once as it has streams. A device that dies is
    restarted, and its lost work is repeated from the remaining values; if it stays away, the plan's
    strategy replans without it. Outputs are the same to the last bit. A request whose devices fail
    three times while running it is lost; see `max_losses`.

    Use as a context manager; ``close`` leaves no process, thread or file behind. A session belongs
    to the process that opened it: a forked child cannot use it, and does not end it.

    Parameters
    ----------
    plan : Plan
        Plan of a problem that was built from a model.
    executor : "ray" or "threads"
        Ray actors, processes of this machine, or threads of this process.
    address : str, optional
        As in ``hetsim.run``.
    timeout_s : float
        Timeout of compiling, and of each request from submission to outputs.
    hang_s : float, optional
        A device that takes longer for one call counts as dead. Absent: no limit until its request,
        or one that waits for it, times out.
    max_in_flight : int
        Maximum concurrent requests; ``run_async`` waits for room.
    max_restarts : int
        Number of restarts of a device before it is given up.
    max_losses : int
        Device failures during its calls that a request survives, with lost work repeated. At the
        next failure the request is lost, so that one that kills its devices ends.
    precision : "graph" or "device"
        As in ``hetsim.run``.
    trace : bool
        Whether to record ``events``, which takes memory for every request.

    Attributes
    ----------
    plan : Plan
    compile_s : float
        Real seconds until every device was ready.
    steps : int
        Calls to devices per request, the maximum over replicas.
    executor : "ray" or "threads"
    max_in_flight : int
    roundings : sequence of Rounding or None
        By node, with precision ``device``: types of its arithmetic.

    Raises
    ------
    UsageError
        If an option is unknown or invalid, or the plan has no model.
    PlanError
        If the plan is not valid.
    ClusterError
        If Ray does not start or cannot be joined.
    TimedOut, ExecutionError
        If a device does not start, or not in time.
    """

    @checks.takes(
        plan=checks.instance("hetsim.problem.plan:Plan"),
        executor=checks.text,
        address=checks.text,
        timeout_s=checks.real,
        hang_s=checks.real,
        max_in_flight=checks.whole(),
        max_restarts=checks.whole(),
        max_losses=checks.whole(),
        precision=checks.text,
        trace=checks.flag,
    )
    def __init__(
        self,
        plan: Plan,
        executor: Literal["ray", "threads"] = "ray",
        *,
        address: str | None = None,
        timeout_s: float = 600.0,
        hang_s: float | None = None,
        max_in_flight: int = 8,
        max_restarts: int = 3,
        max_losses: int = 2,
        precision: Literal["graph", "device"] = "graph",
        trace: bool = False,
    ) -> None:
        check_how(executor, address, timeout_s, precision)
        if hang_s is not None:
            check_wait("hang_s", hang_s)
        for name, number, least in (
            ("max_in_flight", max_in_flight, 1),
            ("max_restarts", max_restarts, 0),
            ("max_losses", max_losses, 0),
        ):
            if number < least:
                raise UsageError(f"{name} is {number}", hint=f"give {least} or more")
        model = model_of(plan)
        plan.validate()
        roundings = roundings_of(plan) if precision == "device" else None
        self.plan = plan
        self.executor: Literal["ray", "threads"] = executor
        self.max_in_flight = max_in_flight
        self.roundings = roundings
        self._timeout_s = timeout_s
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(max_in_flight)
        self._next = 0
        self._closed = False
        self._log = RunLog(trace)
        with ExitStack() as stack:
            self._model: Model = stack.enter_context(staged(model))

            def replanned(lost: tuple[str, ...]) -> Program:
                from hetsim.placement.planning import replan

                # Rounded as by the devices of the first plan, even after replanning.
                return assemble(replan(plan, lost), self._model, roundings)

            program = assemble(plan, self._model, roundings)
            self._constants = constants_among_outputs(self._model)
            self._loop = stack.enter_context(
                opened(
                    program,
                    executor,
                    address,
                    (1 + max_in_flight) * crossing_bytes(plan),
                    dict(zip(plan.problem.devices, plan.problem.streams, strict=True)),
                    RecoveryPolicy(timeout_s, hang_s, max_restarts, max_losses=max_losses),
                    replanned,
                    self._log,
                )
            )
            self.compile_s = self._loop.start_s
            self.steps = max(replica.count for replica in program.replicas)
            self._stack = ended_by_this_process(stack.pop_all())

    @property
    def model(self) -> Model:
        """Model that its parts were cut from, with large weights in files."""
        return self._model

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """Recovered failures, in order."""
        return self._loop.recoveries

    @property
    def events(self) -> tuple[Event, ...]:
        """Real events, in seconds since the first request; empty without `trace`."""
        return self._log.events(_about(self.plan))

    @property
    def busy_s(self) -> dict[str, float]:
        """Real seconds that each device has run subgraphs; available like ``events``."""
        return dict(self._log.busy_s)

    @property
    def calls(self) -> int:
        """Number of successful device calls so far."""
        return sum(self._log.calls.values())

    def processes(self) -> dict[str, int]:
        """Return the process id of each device that is up, on its machine."""
        return self._loop.processes()

    def run(
        self,
        inputs: Mapping[str, NDArray[Any]] | None = None,
        *,
        seed: int = 0,
        timeout_s: float | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Run one request and return its outputs by name; see ``run_async``."""
        return self.run_async(inputs, seed=seed, timeout_s=timeout_s).result()

    def run_async(
        self,
        inputs: Mapping[str, NDArray[Any]] | None = None,
        *,
        seed: int = 0,
        timeout_s: float | None = None,
        wait: bool = True,
    ) -> Request:
        """Submit a request and return it.

        Parameters
        ----------
        inputs : mapping of str to array, optional
            All inputs of the model, not to be modified before the request is done; absent: random
            ones of `seed`.
        seed : int
        timeout_s : float, optional
            Seconds from now to the outputs; absent: that of the session.
        wait : bool
            Whether to wait while the maximum number of requests is under way.

        Raises
        ------
        RequestError
            If the inputs do not fit the model; the message has the nearest name.
        TooManyInFlight
            If there is no room and `wait` is false.
        UsageError
            If the session is closed, or was opened by the parent of this forked process.
        """
        refuse_child(self._owner, "the session")
        checks.flag(wait, "wait")
        given = given_inputs(self._model, inputs, seed)
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        check_how("threads", None, limit_s)
        if not self._slots.acquire(blocking=wait):
            raise TooManyInFlight(
                f"{self.max_in_flight} requests are in flight",
                hint="wait for one of them, or allow more by max_in_flight",
                max_in_flight=self.max_in_flight,
            )
        with self._lock:
            if self._closed:
                self._slots.release()
                raise UsageError("the session is closed", hint="open another")

            def complete(found: dict[str, Any]) -> dict[str, Any]:
                known = {**given, **self._constants, **found}
                return {name: known[name] for name in self._model.graph.outputs}

            request = Request(self._next, self._loop.cancel, complete)
            self._next += 1
            request.when_done(self._slots.release)
            self._loop.submit(request, given, limit_s)
        return request

    def inject(self, failures: Sequence[Failure]) -> None:
        """Make devices fail for real, at times counted from now.

        Raises UsageError for an unknown device or an invalid time.
        """
        refuse_child(self._owner, "the session")
        checks.sequence(checks.instance("hetsim.workload.failure:Failure"))(failures, "failures")
        self._loop.inject(check_failures(failures, self.plan.problem.devices))

    def close(self) -> None:
        """End all devices; requests under way fail. Idempotent.

        Does nothing in a forked child, as devices belong to the parent.
        """
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._closed = True
        self._stack.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _about(plan: Plan) -> Callable[[int, str], tuple[int, int]]:
    """Return a function from request and value to its producing subgraph (-1: input) and bytes."""
    values = {value.name: value for value in plan.problem.values}
    makers = [
        {node: index for index, group in enumerate(replica.groups, first) for node in group.nodes}
        for first, replica in zip(plan.offsets, plan.replicas, strict=True)
    ]

    def about(request: int, name: str) -> tuple[int, int]:
        value = values.get(name)
        if value is None:
            return -1, 0
        return makers[plan.replica_of(request)].get(value.producer, -1), value.nbytes

    return about


def crossing_bytes(plan: Plan) -> int:
    """Return the bytes of values that cross devices or leave the model: the maximum of replicas."""
    totals = []
    for replica in plan.replicas:
        crossing = 0
        for value in plan.problem.values:
            ends = (value.producer, *value.consumers)
            devices = {replica.assignment[v] if v != GRAPH_INPUT else None for v in ends}
            if value.is_output or len(devices) > 1:
                crossing += value.nbytes
        totals.append(crossing)
    return max(totals)
