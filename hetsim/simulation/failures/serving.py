"""Plans under load where devices fail: at which moments, and what they load when they are back.

What becomes of batches is in ``hetsim.simulation.failures.changing_serving``, which instances get
batches in ``hetsim.simulation.failures.standing``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from hetsim.problem.parts import Contention
from hetsim.simulation.clock.templates import PlanTasks
from hetsim.simulation.failures.changing import IS_RUNNING, InFlight, Ints
from hetsim.simulation.failures.changing_serving import ChangingServing
from hetsim.simulation.failures.going_on import running_of
from hetsim.simulation.failures.rests import Rest, Task
from hetsim.simulation.failures.spells import Spells
from hetsim.simulation.failures.standing import Replan
from hetsim.simulation.failures.ways_on import Onward
from hetsim.simulation.serving.setup import Clients, Model, Options, Source
from hetsim.simulation.serving.tables import FOREIGN
from hetsim.workloads.failure import Failure, Moment, moments

NOT_WHOLE = 1 << 30
"""Taken from the idle instances of a model while some device of it does not work: nobody who comes
then finds everything as it begins anew."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a device that is back loads before it starts anything.

    Attributes
    ----------
    seconds : float
        Over idle links.
    resources : tuple of int
        Links that it holds.
    """

    seconds: float
    resources: tuple[int, ...] = ()


class FailingServing(ChangingServing):
    """Models on one platform whose devices fail.

    Parameters
    ----------
    plan_tasks, contention, replan, models, sources, clients, options
        As ``ChangingServing`` takes them.
    failures : iterable of Failure
        By time, of devices that there are, none of one that is down; without end where they are.
    loads : sequence of Load or None
        By device; empty: none. Where no device is the caller's, there is nowhere to load from.

    Attributes
    ----------
    happened : list of Failure
        Those that came until the last request was over.
    spells : Spells
        When models did not work, wholly or at all.

    Playing raises Infeasible where no device is left that can do the work of lost ones.
    """

    def __init__(
        self,
        plan_tasks: PlanTasks,
        contention: Contention,
        replan: Replan,
        models: Sequence[Model],
        sources: Sequence[Source],
        clients: Sequence[Clients] = (),
        *,
        failures: Iterable[Failure],
        loads: Sequence[Load | None] = (),
        **options: Unpack[Options],
    ) -> None:
        host = plan_tasks.plan.problem.host
        self._loads = {
            at: load for at, load in enumerate(loads) if load is not None and host is not None
        }
        self._loading: dict[int, int] = {}
        super().__init__(plan_tasks, contention, replan, models, sources, clients, **options)
        self._moments: Iterator[Moment] = moments(failures)
        self._next = next(self._moments, None)
        self._until_s = math.inf if self._next is None else self._next[0]
        self.happened: list[Failure] = []
        self.spells = Spells(len(models))

    @property
    def now_s(self) -> float:
        """When a request last came or was over."""
        return float(max(self._spans.since))

    def _open(self) -> bool:
        # Failures at the moment at which the last request ends happen still.
        return super()._open() or float(self._now[0]) <= self.now_s

    def _expected(self) -> Ints:
        loads = [self._load_number(device) for device in self._loads]
        return np.concatenate((super()._expected(), np.array(loads, dtype=np.int64)))

    def _happen(self) -> None:
        now = float(self._now[0])
        self._flow.counts[FOREIGN] = 0
        for device, batch in list(self._loading.items()):
            if self._is_over(batch):
                del self._loading[device]
                self._come_back(device)
                self._tell_spells()
        while self._next is not None and self._next[0] == now:
            _, _, what, failure = self._next
            device = self._names.index(failure.device)
            if what == "stop":
                self._stop_device(device, failure)
            elif what == "known":
                self._lose(device, failure)
            elif device in self._loads:
                self._begin_load(device)
            else:
                self._come_back(device)
            self._tell_spells()
            self._next = next(self._moments, None)
        self._until_s = math.inf if self._next is None else self._next[0]

    def _tell_spells(self) -> None:
        standing, spells, now = self._standing, self.spells, float(self._now[0])
        for model in range(len(standing.instances)):
            whole = standing.whole(model)
            if whole != spells.whole[model]:
                self._flow.idle[model] += NOT_WHOLE if whole else -NOT_WHOLE
            spells.tell(model, now, whole=whole, serves=standing.serves(model))

    def _stop_device(self, device: int, failure: Failure) -> None:
        """A device runs nothing any more; what else it had is lost when that is known."""
        self.happened.append(failure)
        self._standing.stopped[device] = True
        # What it was loading goes with it.
        self._loading.pop(device, None)
        self.stop(device)
        flight = self.in_flight()
        running = running_of(flight, self._rests)
        there = self.devices_of(running.code) == device
        self._cut(flight, running.some(there))
        self.end_never(running.code[there])

    def _lose(self, device: int, failure: Failure) -> None:
        """It is known that a device stopped."""
        self._standing.down[device] = True
        if math.isinf(failure.back_s):
            for template in self._standing.lose(device):
                self._fresh[template] = self._fresh_number(template)
                self._price(template)
        self._deal()
        self._go_on(device)

    def _come_back(self, device: int) -> None:
        """A device serves again."""
        self._standing.stopped[device] = self._standing.down[device] = False
        self.start(device)
        self._deal()
        self._unstick()

    def _begin_load(self, device: int) -> None:
        """Let what a device had held come to it; it is over as a batch of nobody."""
        batch = self._next_batch()
        slot = self._slot(batch)
        self._loading[device] = batch
        self._batches.model[slot] = -1
        self._batches.needed[slot] = 0
        number = self._load_number(device)
        self._spent.enter(np.array([number]))
        none, rank = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._again(np.array([batch]), np.searchsorted(self._rests.used, [number]), rank, none)

    def _load_number(self, device: int, *, runs: bool = False) -> int:
        load = self._loads[device]
        # Its way begins and ends with the caller: nothing keeps it back.
        caller = self._host
        assert caller is not None
        task = Task(0, device, load.seconds, -1, -1, -1, caller, caller, load.resources)

        def make() -> Rest:
            return Rest((), {}, frozenset(), (task,), ((),), (0,) if runs else (), (True,))

        return self._rests.number(("load", device, runs), make)

    def _onward(self, flight: InFlight, row: int) -> Onward:
        rest = self._rests.known[int(self._rests.used[flight.template[row]])]
        batch = int(flight.request[row])
        if batch not in self._loading.values():
            return Onward(-1, False, {})
        runs = bool(flight.progress[row, 0] == IS_RUNNING)
        number = self._load_number(rest.tasks[0].index, runs=runs)
        return Onward(number, False, {0: 0} if runs else {})
