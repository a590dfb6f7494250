"""Plans under load whose templates, and devices, may be others from a moment on.

A batch is one request of the clock, so what a lost device does to it is what it does to a request
of one plan (``hetsim.simulation.failures.clock``): what it ran and held there is lost, and it goes
on from what is held elsewhere. But one that needs a device that is down is taken back where another
instance gets batches: its requests go to the head of their queues, as they came.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.parts import Contention
from hetsim.simulation.clock.playing import Layout, laid_out
from hetsim.simulation.clock.rules import SHIFT
from hetsim.simulation.clock.templates import PlanTasks
from hetsim.simulation.clock.virtual_time import empty_log
from hetsim.simulation.failures.alike import alike
from hetsim.simulation.failures.changing import HAS_ENDED, Changing, InFlight, Ints
from hetsim.simulation.failures.front import put_first, take_back
from hetsim.simulation.failures.going_on import Running, go_on, running_of
from hetsim.simulation.failures.remaining import Layout as PlanLayout
from hetsim.simulation.failures.rests import Rest, Rests, runs_again
from hetsim.simulation.failures.spent import Spent
from hetsim.simulation.failures.standing import Replan, Standing
from hetsim.simulation.failures.ways_on import Onward, ways_on
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.flattening import loads, seconds_alone
from hetsim.simulation.serving.lengths import account
from hetsim.simulation.serving.routing import leave
from hetsim.simulation.serving.setup import Clients, Model, Options, Source
from hetsim.simulation.serving.tables import LEAST_FINISH, LOOSE, TOLD, put, requests_of, taken
from hetsim.simulation.serving.taking import place


class ChangingServing(Serving, Changing):
    """Models on one platform that go on without some of its devices.

    Parameters
    ----------
    plan_tasks : PlanTasks
        All templates.
    contention : "fifo" or "none"
        By which they were made.
    replan : callable
        Gives a plan without the devices that it is told.
    models, sources, clients, options
        As ``Serving`` takes them.

    Attributes
    ----------
    retried : Counter of int
        How often each request was taken back, by its number in the order of arrival.
    lost : set of int
        Requests that lost work: something that they ran was cut off, or had to run again.
    cut_s : float
        How long devices had run what was cut off.
    """

    def __init__(
        self,
        plan_tasks: PlanTasks,
        contention: Contention,
        replan: Replan,
        models: Sequence[Model],
        sources: Sequence[Source],
        clients: Sequence[Clients] = (),
        **options: Unpack[Options],
    ) -> None:
        plans = [template.plan for template in plan_tasks.templates]
        problem = plans[0].problem
        self._names, self._host = problem.devices, problem.host
        self._models = models
        self._standing = Standing(plans, models, contention, replan)
        self._rests = Rests(problem.streams)
        self._spent = Spent(self._rests, len(problem.devices), len(plan_tasks.links))
        self._template_of: dict[int, int] = {}
        self._fresh = [self._fresh_number(template) for template in range(len(plans))]
        structure, duration = self._rests.lay_out(self._expected())
        super().__init__(
            Layout(plan_tasks.plan, len(plan_tasks.links), structure),
            duration,
            models,
            sources,
            clients,
            **options,
        )
        self._log: Any = empty_log(0, self._arrays)
        # By template as `models` names them.
        self._table = np.asarray(self._setup.table, dtype=np.int64)
        self._alone = np.array(self._setup.alone[: len(plans)], dtype=np.float64)
        self._load = np.array(self._setup.load[: len(plans)], dtype=np.float64)
        self.retried: Counter[int] = Counter()
        self.lost: set[int] = set()
        self.cut_s = 0.0

    @property
    def ran(self) -> Ints:
        """Batches that were sent, by template."""
        began = self._spent.begun(self._flow.ran)
        found = np.zeros(len(self._fresh), dtype=np.int64)
        for number, template in self._template_of.items():
            found[template] += began.get(number, 0)
        return found

    def busy_seconds(self) -> tuple[list[float], list[float]]:
        """Return busy seconds by device, summed over streams, and by link; of lost work, too."""
        return self._spent.busy(self._flow.ran)

    def _expected(self) -> Ints:
        """Rests that may come, whatever does."""
        return np.array(self._fresh, dtype=np.int64)

    def _fresh_number(self, template: int) -> int:
        """The rest of a batch that is to be sent."""
        layout = self._standing.versions[template].layouts[0]
        number = self._rests.number(("fresh", template, layout), layout.fresh)
        self._template_of[number] = template
        return number

    @abstractmethod
    def _onward(self, flight: InFlight, row: int) -> Onward:
        """How something in flight that is no batch goes on: of a rest without groups."""

    def _again(self, requests: Ints, templates: Ints, ranks: Ints, kept: Ints) -> None:
        super()._again(requests, templates, ranks, kept)
        begun = self._batches.begun
        for code in list(self._log.code[: self._log.size[0]]):
            slot = self._slot(int(code) >> SHIFT)
            if begun[slot] == math.inf:
                begun[slot] = float(self._now[0])
        self._log.size[0] = 0

    def _deal(self) -> None:
        """Let batches go to the instances that get some."""
        for model, instances in enumerate(self._standing.instances):
            place(self._setup, self._flow, model, instances, self._standing.taking(model))

    def _left_out(self, batches: Ints) -> NDArray[np.bool_]:
        """Which batches are with an instance that is left out; what is no batch is not."""
        slot = self._slot(batches)
        is_one = taken(self._batches.model, slot) >= 0
        # What is no batch names something else there.
        instance = np.where(is_one, taken(self._batches.instance, slot), 0)
        found: NDArray[np.bool_] = is_one & (taken(self._flow.most, instance) == 0)
        return found

    def _stuck(self, number: int, progress: NDArray[np.int8] | None) -> bool:
        """Whether a batch gets no further while devices are down.

        `progress` of its rest; None: what is not under way waits.
        """
        rest = self._rests.known[number]
        return any(
            task.device >= 0 and self._standing.down[task.device]
            for at, task in enumerate(rest.tasks)
            if (at not in rest.under_way if progress is None else progress[at] != HAS_ENDED)
        )

    def _unstick(self) -> None:
        """Take batches back that wait where they need not any more."""
        if not any(self._standing.down):
            return
        flight = self.in_flight()
        flight = flight.some(self._left_out(flight.request))
        numbers = self._rests.used[flight.template]
        first, _ = alike((numbers,), flight.progress)
        if any(self._stuck(int(numbers[row]), flight.progress[row]) for row in first.tolist()):
            self._go_on(len(self._names))

    def _go_on(self, device: int) -> None:
        """Take from batches what they had on a device; let them go on, or take them back.

        A device beyond all that there are: nothing is lost. O(tasks in flight), and V + E of a
        plan for each way in which batches differ.
        """
        now = float(self._now[0])
        flight = self.in_flight()
        running = running_of(flight, self._rests)
        before = self._rests.used[flight.template]
        ways, way = self._ways_on(flight, device)
        self._spent.leave(before, flight.progress)
        left_out = self._left_out(flight.request)
        over, stuck, again = np.zeros((3, len(ways)), dtype=np.bool_)
        for at, row in zip(*np.unique(way, return_index=True), strict=True):
            found = ways[at]
            over[at] = found.over
            if not found.over and found.rest >= 0:
                known = self._rests.known
                stuck[at] = self._stuck(found.rest, None)
                again[at] = runs_again(known[before[row]], flight.progress[row], known[found.rest])
        for batch in flight.request[over[way]].tolist():
            self._answer(batch, now)
        is_back = stuck[way] & left_out
        for batch in flight.request[again[way] & ~is_back].tolist():
            self.lost.update(self._requests_of(batch))
        back = np.flatnonzero(is_back).tolist()
        way[back] = len(ways)
        ways.append(Onward(-1, False, {}))
        places = [ways[k].places for k in way[running.row].tolist()]
        ends = np.array(
            [at not in there for at, there in zip(running.place.tolist(), places, strict=True)],
            dtype=np.bool_,
        )
        self._cut(flight, running.some(ends))
        self._spent.begin(self._flow.ran)
        go_on(
            self,
            self._rests,
            flight,
            running,
            ways,
            way,
            self._expected(),
            stopped=self._standing.stopped,
            shut=[down and at != self._host for at, down in enumerate(self._standing.down)],
        )
        self._enter(flight, ways, way)
        self._retable()
        requests: list[int] = []
        for row in back:
            slot = self._slot(int(flight.request[row]))
            begun = self._batches.begun[slot] < math.inf
            self._account(slot, now)
            mine = take_back(self._flow, self._batches, self._records, slot, now)
            requests += mine
            if begun:
                self.lost.update(mine)
        put_first(self._setup, self._flow, self._records, requests)
        self.retried.update(requests)
        self._deal()

    def _ways_on(self, flight: InFlight, device: int) -> tuple[list[Onward], Ints]:
        """How all that is in flight goes on."""
        is_batch = np.array(
            [bool(self._rests.known[number].groups) for number in self._rests.used.tolist()],
            dtype=np.bool_,
        )
        mine = is_batch[flight.template]
        others = {row: self._onward(flight, row) for row in np.flatnonzero(~mine).tolist()}
        batches = flight.some(mine)

        def layout_for(rest: Rest, template: int) -> PlanLayout:
            return self._standing.versions[template].layout_of(rest.groups, 0)

        ways, theirs = ways_on(
            batches, self._rests, layout_for, self._template(batches.request), device
        )
        way = np.zeros(len(mine), dtype=np.int64)
        way[mine] = theirs
        for row, onward in others.items():
            way[row] = len(ways)
            ways.append(onward)
        return ways, way

    def _template(self, batches: Ints) -> Ints:
        """What batches run, as `models` names it; 0 where they were answered."""
        slot = self._slot(batches)
        model = taken(self._batches.model, slot)
        at = taken(self._batches.first, slot) - int(self._flow.counts[TOLD])
        found = np.zeros(len(batches), dtype=np.int64)
        for one, named in enumerate(self._models):
            rows = np.flatnonzero(model == one)
            variant, instance, size = (
                taken(column, at[rows])
                for column in (self._records.variant, self._records.instance, self._records.size)
            )
            found[rows] = named.template[variant, instance, size - 1]
        return found

    def _cut(self, flight: InFlight, running: Running) -> None:
        """Count what is cut off of what runs."""
        now = float(self._now[0])
        end_of = {code: end for end, code in self.ends}
        numbers = self._rests.used[flight.template]
        for row, at, code in zip(*(part.tolist() for part in running), strict=True):
            # What had no end any more was cut off before.
            if code in end_of:
                task = self._rests.known[int(numbers[row])].tasks[at]
                self._spent.add(task, now - end_of[code])
                if task.device >= 0:
                    self.cut_s += task.seconds - (end_of[code] - now)
            self.lost.update(self._requests_of(code >> SHIFT))

    def _enter(self, flight: InFlight, ways: Sequence[Onward], way: Ints) -> None:
        """Count what begins, and say of which batches some is waited for by nobody."""
        rest = np.array([found.rest for found in ways], dtype=np.int64)
        counts = [self._rests.known[number].counts if number >= 0 else () for number in rest]
        partly = np.array([not all(counted) for counted in counts], dtype=np.bool_)
        needed = np.array([sum(counted) for counted in counts], dtype=np.int64)
        slot = self._slot(flight.request)
        loose = partly[way] & (taken(self._batches.model, slot) >= 0)
        put(self._batches.needed, slot, np.where(loose, needed[way], 0))
        numbers = rest[way]
        self._spent.enter(numbers[numbers >= 0])
        self._flow.counts[LOOSE] = int(loose.any())

    def _account(self, slot: int, now: float) -> None:
        account(self._flow, self._spans, self._batches.model[slot], now)

    def _answer(self, batch: int, now: float) -> None:
        """A batch is over."""
        slot = self._slot(batch)
        mine = self._requests_of(batch)
        if not mine:
            return
        self._account(slot, now)
        leave(self._state, self._setup, self._flow, self._batches, self._records, batch, now)
        for request in mine:
            client = int(self._records.client[request - self._flow.counts[TOLD]])
            if client >= 0:
                turn = self._flow.thought[client]
                self._put(now + self._flow.think[client * self._setup.turns + turn], client)
        self._batches.model[slot] = -1

    def _requests_of(self, batch: int) -> list[int]:
        return requests_of(self._flow, self._batches, self._records, self._slot(batch))

    def _retable(self) -> None:
        """Let the tables name templates as they are laid out now."""
        used = self._rests.used
        at = np.searchsorted(used, self._fresh)
        alone, load = np.zeros((2, len(used)))
        alone[at], load[at] = self._alone, self._load
        ran = np.zeros(len(used), dtype=np.int64)
        if self._arrays:
            self._setup = self._setup._replace(table=at[self._table], alone=alone, load=load)
            self._flow = self._flow._replace(ran=ran)
            return
        self._setup.table = at[self._table].tolist()
        self._setup.alone, self._setup.load = alone.tolist(), load.tolist()
        self._flow.ran = ran.tolist()

    def _price(self, template: int) -> None:
        """Say what a plan in the place of another takes, to those who route by that."""
        if LEAST_FINISH in self._setup.routing:
            tasks = self._standing.versions[template].plan_tasks
            duration = tasks.templates[0].duration
            layout = laid_out(tasks)
            self._alone[template] = seconds_alone(layout, duration)[0]
            self._load[template] = loads(layout, duration)[0]
