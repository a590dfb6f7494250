"""Real workload on an open session with its unchanged plan.

The session distributes requests and runs them; this module sends them when due, and waits.
"""

from __future__ import annotations

import heapq
import math
import queue
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hetsim.errors import ExecutionError, UsageError, WorkloadError
from hetsim.execution.dispatch.requests import Request, next_of
from hetsim.execution.program import model_of
from hetsim.execution.serving.load_test import (
    LATE_SHARE,
    Batch,
    Host,
    KeptBatches,
    LoadTest,
    Runs,
    compared,
    late,
    sets_of,
)
from hetsim.execution.serving.player import TIMES
from hetsim.execution.session import Session
from hetsim.simulation.service.layout import EngineArguments, check_together, set_up
from hetsim.simulation.service.resolution import Resolved
from hetsim.simulation.service.run import RecordedRequests, ServiceRun, blocks_of, until_s
from hetsim.simulation.service.serving import played, service_of
from hetsim.simulation.serving.setup import Outcomes
from hetsim.simulation.serving.tables import SERVED
from hetsim.workload.arrivals import TURNS
from hetsim.workload.deployment import Deployment, Instances, Served
from hetsim.workload.workload import Workload

OPEN = -1
"""Marker of open-loop requests, instead of a client."""


@dataclass(frozen=True, slots=True, order=True)
class _Due:
    """Request due at `at_s` of the run: number `turn` of client `client` of `of`."""

    at_s: float
    stream: int
    of: int = OPEN
    client: int = 0
    turn: int = 0


def serve_on(
    session: Session,
    workload: Workload,
    *,
    inputs: Mapping[str, Any] | None,
    verify: bool,
    seed: int,
    late_share: float = LATE_SHARE,
) -> LoadTest:
    """Serve a workload on an open session; see ``serve`` and ``load_test``."""
    if workload.failures is not None:
        raise UsageError(
            "failures of a workload are only simulated",
            hint="remove failures: from the workload, or let devices fail by session.inject",
        )
    resolved = _resolved(session, workload)
    platform = resolved.problem.platform
    assert platform is not None
    setup = set_up((resolved,), workload, check_together((resolved,), platform))
    if session.plan.deal:
        setup = replace(setup, models=(replace(setup.models[0], cycle=session.plan.deal),))
    simulated = played(workload, (resolved,), setup)
    model = model_of(session.plan)
    runs = Runs(resolved.served.model, model, sets_of(model, inputs, seed))
    alone_s = _alone(session, runs)
    before_s, calls = session.busy_s, session.calls
    player = _Player(session, workload, setup, runs)
    began_s, began_cpu_s = time.monotonic(), time.thread_time()
    seen = RecordedRequests(player.play(), len(alone_s))
    wall_s, cpu_s = time.monotonic() - began_s, time.thread_time() - began_cpu_s
    busy_s = [session.busy_s.get(name, 0.0) - before_s.get(name, 0.0) for name in platform.devices]
    host = Host(
        sent=late(np.array(player.late_s)),
        answered=late(np.zeros(0)),
        calls=session.calls - calls,
        overran=0,
        overrun_s=0.0,
        longest_overrun_s=0.0,
        modelled_s=0.0,
        dispatcher=cpu_s / wall_s if wall_s > 0 else 0.0,
        wall_s=wall_s,
    )
    setup = replace(setup, alone_s=(np.array(alone_s).reshape(setup.alone_s[0].shape),))
    run = ServiceRun(workload, setup, seen)
    run.keep(seen.outcomes)
    run.look()
    links = [0.0] * len(setup.plan_tasks.links)
    measured = service_of(run, (resolved,), "ended", (busy_s, links))
    behind = host.behind(float(seen.outcomes.latency_s.mean()), late_share)
    if behind is not None:
        raise ExecutionError(
            f"this machine is too slow: {behind}",
            hint="use a lower rate, or close other programs",
        )
    outputs = None
    if verify:
        parts = [(replica, session.model) for replica in session.plan.replicas]
        of = [runs] * len(parts)
        answered = seen.outcomes.requests
        outputs = compared(player.kept.batches, of, parts, answered, session.roundings)
    executor, start_s = session.executor, session.compile_s
    return LoadTest(measured, simulated, False, 1.0, host, outputs, executor, start_s)


def _resolved(session: Session, workload: Workload) -> Resolved:
    """Return the session's plan as the served form of the workload's single model."""
    plan, source = session.plan, session.model.source
    if plan.problem.platform is None:
        raise UsageError(
            "the plan's problem has no platform", hint="build it with Problem.of(model, platform)"
        )
    for stream in workload.streams:
        if Path(stream.model) != Path(source) and Path(stream.model).resolve() != Path(source):
            raise WorkloadError(
                f"stream '{stream.name}' needs '{stream.model}', but the session has a plan of "
                f"'{source}'",
                hint="open a session of that model, or serve a deployment of both",
            )
        shapes = [dims for dims in stream.variants if dims not in ({}, session.model.dims)]
        if shapes:
            raise WorkloadError(
                f"stream '{stream.name}' has requests with dimensions {dict(shapes[0])}, but the "
                f"session has a plan of {dict(session.model.dims)}",
                hint="serve a deployment, which plans for every shape",
            )
    replicas = plan.replicas
    # The session has one limit for all replicas, which does not apply to a single one.
    limit = session.max_in_flight if len(replicas) == 1 else None
    served = Served(
        workload.streams[0].model,
        strategy=plan.strategy,
        instances=(Instances(max_in_flight=limit),) * len(replicas),
        routing="round_robin",
    )
    Deployment((served,)).check(workload)
    return Resolved(
        served,
        ({},),
        {at: (0,) * len(stream.variants) for at, stream in enumerate(workload.streams)},
        tuple(((one,),) for one in replicas),
    )


def _alone(session: Session, runs: Runs) -> list[float]:
    """Return by replica the real seconds of a request without other work."""
    took: list[list[float]] = [[] for _ in session.plan.replicas]
    for at in range(TIMES * len(session.plan.period)):
        request = session.run_async(runs.joined([at]))
        request.result()
        assert request.wall_s is not None
        took[session.plan.replica_of(request.request_id)].append(request.wall_s)
    return [min(one[1:]) for one in took]


class _Player:
    """Player that sends requests when due, and waits for their results."""

    def __init__(
        self, session: Session, workload: Workload, setup: EngineArguments, runs: Runs
    ) -> None:
        self._session, self._runs = session, runs
        self._clients = setup.clients
        self._most = math.inf if workload.requests is None else workload.requests
        self._until_s = until_s(workload)
        self._coming = (
            _Due(float(at_s), int(stream))
            for block in blocks_of(workload, setup)
            for at_s, stream in zip(block.arrival_s, block.stream, strict=True)
        )
        self._due: list[_Due] = []
        # Answer times, by the monotonic clock.
        self._events: queue.SimpleQueue[tuple[float, int]] = queue.SimpleQueue()
        self._came: list[_Due] = []
        self._sent_s: list[float] = []
        self._finish_s: list[float] = []
        self._replica: list[int] = []
        self._under_way: dict[int, Request] = {}
        self._zero_s = self._free_s = 0.0
        self.kept = KeptBatches()
        self.late_s: list[float] = []

    def play(self) -> Outcomes:
        """Play to the end. Raises the error of the first request that fails."""
        self._next()
        for of, clients in enumerate(self._clients):
            for client in range(clients.concurrency):
                self._think(_Due(0.0, clients.stream, of, client, -1), 0.0)
        self._zero_s = time.monotonic()
        while len(self._came) < self._most and (self._due or self._thinking()):
            due_s = self._due[0].at_s if self._due else math.inf
            if due_s <= self._now_s():
                self._send(heapq.heappop(self._due))
            else:
                self._wait(due_s)
        while self._under_way:
            self._wait(math.inf)
        return self._outcomes()

    def _now_s(self) -> float:
        return time.monotonic() - self._zero_s

    def _next(self) -> None:
        """Schedule the next open-loop request."""
        coming = next(self._coming, None)
        if coming is not None:
            heapq.heappush(self._due, coming)

    def _think(self, before: _Due, answered_s: float) -> None:
        """Let a client think after its answer, and schedule its next request."""
        block, row = divmod(before.turn + 1, TURNS)
        seconds = self._clients[before.of].think(block)[row, before.client]
        due = replace(before, at_s=answered_s + float(seconds), turn=before.turn + 1)
        if due.at_s < self._until_s:
            heapq.heappush(self._due, due)

    def _thinking(self) -> bool:
        """Return whether an answer is pending after which a client sends again."""
        return any(self._came[at].of != OPEN for at in self._under_way)

    def _send(self, due: _Due) -> None:
        if due.of == OPEN:
            self._next()
        number = len(self._came)
        self.late_s.append(self._now_s() - max(due.at_s, self._free_s))
        # Without room in the session this waits, like the request in the queue.
        request = self._session.run_async(self._runs.joined([number]))
        self._free_s = self._now_s()
        self._came.append(due)
        self._sent_s.append(self._free_s)
        self._finish_s.append(math.nan)
        self._replica.append(self._session.plan.replica_of(request.request_id))
        self._under_way[number] = request
        request.when_done(lambda: self._events.put((time.monotonic(), number)))

    def _wait(self, until_s: float) -> None:
        """Wait for an answer, or until `until_s`."""
        try:
            at_s, number = next_of(self._events, until_s - self._now_s())
        except queue.Empty:
            return
        outputs = self._under_way.pop(number).result()
        self._finish_s[number] = at_s - self._zero_s
        self.kept.offer(Batch(number, self._replica[number], (number,), outputs))
        if self._came[number].of != OPEN:
            self._think(self._came[number], self._finish_s[number])

    def _outcomes(self) -> Outcomes:
        count = len(self._came)
        sent_s = np.array(self._sent_s)
        return Outcomes(
            arrival_s=np.array([one.at_s for one in self._came]),
            sent_s=sent_s,
            begun_s=sent_s,
            finish_s=np.array(self._finish_s),
            stream=np.array([one.stream for one in self._came], dtype=np.int32),
            variant=np.zeros(count, dtype=np.int32),
            instance=np.array(self._replica, dtype=np.int32),
            size=np.ones(count, dtype=np.int32),
            why=np.full(count, SERVED, dtype=np.int8),
            fresh=np.zeros(count, dtype=np.bool_),
            load_s=np.zeros(count),
        )
