"""The virtual clock with failures: the rules' own, and requests that get templates of what is left.

What happens at one instant is in the order of ``hetsim.simulation.clock.rules``; devices fail, and
come back, after the ends and arrivals of that instant and before anything starts on a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.plans.plan import Plan
from hetsim.problem.parts import Contention
from hetsim.simulation.clock import driver
from hetsim.simulation.clock.virtual_time import pays
from hetsim.simulation.failures.changing import InFlight
from hetsim.simulation.failures.changing_time import ChangingTime
from hetsim.simulation.failures.going_on import Running, go_on, running_of
from hetsim.simulation.failures.ledger import Ledger
from hetsim.simulation.failures.remaining import Layout, Version
from hetsim.simulation.failures.rests import Rest, Rests
from hetsim.simulation.failures.ways_on import ways_on
from hetsim.workloads.failure import Failure, Moment, moments


class FailingClock:
    """Plays a plan while devices fail.

    Parameters
    ----------
    plan : Plan
    arrival : sequence of float
        Ascending.
    failures : sequence of Failure
        By time, of devices that there are.
    contention : "fifo" or "none"
    replan : callable
        Gives a plan without the devices that it is told.
    machine_code : bool, optional
        Whether numba compiles the clock; absent: where the work is large. The answer is the
        same, bit for bit.

    Attributes
    ----------
    finish : list of float
        By request.
    started : Started
        All that ran.
    versions : list of Version
        The plan, and those that took its place.
    happened : list of Failure
        Those that came before the last request ended.
    """

    def __init__(
        self,
        plan: Plan,
        arrival: Sequence[float],
        failures: Sequence[Failure],
        contention: Contention,
        replan: Callable[[Plan, tuple[str, ...]], Plan],
        *,
        machine_code: bool | None = None,
    ) -> None:
        self._plan = plan
        self._contention: Contention = contention
        self._replan = replan
        self._arrival = np.array(arrival, dtype=np.float64)
        devices = len(plan.problem.devices)
        self._stopped = [False] * devices
        self._down = [False] * devices
        self._lost_devices: list[str] = []
        self._moments = moments(failures)
        self.happened: list[Failure] = []
        self.versions = [Version(plan, 0, contention)]
        self.finish: list[float] = []
        self._over_s: dict[int, float] = {}
        self._rests = Rests(plan.problem.streams)
        self._ledger = Ledger(self._rests)
        fresh = self._fresh()
        structure, duration = self._rests.lay_out(np.unique(fresh))
        expected = self.versions[0].plan_tasks.widest * len(arrival)
        if machine_code is None:
            machine_code = pays(expected * (1 + len(failures)), driver.again)
        self._clock = ChangingTime(
            structure,
            len(self.versions[0].plan_tasks.links),
            duration,
            self._arrival,
            self._expected(0, fresh),
            lines=expected,
            arrays=machine_code,
        )

    def play(self) -> None:
        """Run until all requests have ended.

        Raises
        ------
        Infeasible
            Where no device is left that can do the rest.
        PlanError
            Where some subgraph never starts.
        """
        count = len(self._arrival)
        for moment in self._moments:
            self._clock.run(moment[0])
            # Failures at the moment at which the last request ends happen still.
            if self._clock.over == count and moment[0] > self._latest():
                break
            self._happen(moment)
        self._clock.run_out(self._plan.strategy)
        self._ledger.write(self._clock.take_log(), np.zeros(0, dtype=np.int64))
        self.started = started = self._ledger.closed()
        finish = self._arrival.copy()
        last = started.counts & ~started.lost
        np.maximum.at(finish, started.request[last], started.end[last])
        for request, at_s in self._over_s.items():
            finish[request] = max(finish[request], at_s)
        self.finish = finish.tolist()

    def _latest(self) -> float:
        """When the last request ended, what it had no more use for included."""
        ended = np.array([*self._clock.finish, *self._over_s.values()])
        return float(np.fmax.reduce(ended))

    def _happen(self, moment: Moment) -> None:
        now, _, what, failure = moment
        device = self._plan.problem.devices.index(failure.device)
        if what == "back":
            self._stopped[device] = self._down[device] = False
            self._clock.start(device)
            return
        flight = self._clock.in_flight()
        running = running_of(flight, self._rests)
        self._ledger.write(self._clock.take_log(), running.code)
        if what == "stop":
            # What it runs has no end any more; that it is lost shows when the failure is known.
            self.happened.append(failure)
            self._stopped[device] = True
            self._clock.stop(device)
            gone = running.code[self._clock.devices_of(running.code) == device]
            self._ledger.lose(gone.tolist(), now)
            self._clock.end_never(gone)
            return
        self._down[device] = True
        if math.isinf(failure.back_s):
            self._lost_devices.append(failure.device)
            if self.versions[-1].uses(device):
                plan = self._replan(self._plan, tuple(self._lost_devices))
                self.versions.append(Version(plan, len(self.versions), self._contention))
        self._go_on(flight, running, device, now)

    def _fresh(self) -> NDArray[np.int64]:
        """The rests of requests that have not come, by replica."""
        version = self.versions[-1]
        return np.array(
            [
                self._rests.number(("fresh", version.plan_tasks, replica), layout.fresh)
                for replica, layout in enumerate(version.layouts)
            ],
            dtype=np.int64,
        )

    def _dealt(self, requests: NDArray[np.int64]) -> NDArray[np.int64]:
        period = np.array(self.versions[-1].plan.period, dtype=np.int64)
        return period[requests % len(period)]

    def _expected(self, since: int, fresh: NDArray[np.int64]) -> NDArray[np.int64]:
        """The templates of requests that have not come."""
        dealt = self._dealt(np.arange(since, len(self._arrival)))
        return np.searchsorted(self._rests.used, fresh[dealt])

    def _go_on(self, flight: InFlight, running: Running, device: int, now: float) -> None:
        """Take from requests what they had on a device, and lay out what each still has to do."""
        rests, clock = self._rests, self._clock
        version = self.versions[-1]

        def layout_for(rest: Rest, replica: int) -> Layout:
            return version.layout_of(rest.groups, replica)

        ways, way = ways_on(flight, rests, layout_for, self._dealt(flight.request), device)
        over = np.array([found.over for found in ways], dtype=np.bool_)[way]
        self._over_s.update(dict.fromkeys(flight.request[over].tolist(), now))
        fresh = self._fresh()
        moved = go_on(
            clock,
            rests,
            flight,
            running,
            ways,
            way,
            fresh,
            stopped=self._stopped,
            shut=[
                down and place != self._plan.problem.host for place, down in enumerate(self._down)
            ],
        )
        self._ledger.lose(moved.lost, now)
        self._ledger.move(moved.moves)
        clock.expect(self._expected(clock.admitted, fresh))
