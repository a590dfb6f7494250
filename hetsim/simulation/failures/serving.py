"""Plans under load where devices fail.

A batch is one request of the clock, so a lost device affects it like a request of one plan
(``hetsim.simulation.failures.clock``): what it ran and held there is lost, and it continues from
values elsewhere. But a batch that needs a device that is down is taken back if another instance
accepts batches: its requests return to the head of their queues in order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import WorkloadError
from hetsim.problem.parts import Contention
from hetsim.simulation.clock.rules import SHIFT
from hetsim.simulation.clock.templates import PlanTasks, TemplateLayout, laid_out
from hetsim.simulation.clock.virtual_time import empty_log
from hetsim.simulation.failures.clock import FailingDriver, Running
from hetsim.simulation.failures.recovery import (
    HAS_ENDED,
    IS_RUNNING,
    Continuation,
    InFlight,
    InstanceStates,
    Ints,
    RecoveryTask,
    Replan,
    Rest,
    Rests,
    alike,
    continuations,
    runs_again,
)
from hetsim.simulation.failures.recovery import TaskLayout as PlanLayout
from hetsim.simulation.serving.batcher import account
from hetsim.simulation.serving.driver import restrict
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.routing import leave, mark
from hetsim.simulation.serving.setup import Clients, EngineOptions, ModelSetup, RequestSource
from hetsim.simulation.serving.tables import (
    FOREIGN,
    LEAST_FINISH,
    LOOSE,
    TOLD,
    Batches,
    Flow,
    RequestRecords,
    Setup,
    loads,
    requests_of,
    seconds_alone,
)
from hetsim.workload.failure import Failure, Moment, moments


def templates_of(models: Sequence[ModelSetup]) -> list[list[list[int]]]:
    """Return the templates that each instance of each model runs."""
    return [
        [np.unique(model.template[:, at]).tolist() for at in range(model.template.shape[1])]
        for model in models
    ]


@dataclass(frozen=True, slots=True)
class Outage:
    """Interval of time; `end_s` is infinite while it lasts."""

    begin_s: float
    end_s: float = math.inf


class Outages:
    """Intervals in which part of a model did not work, by model.

    `whole`: whether everything that serves it works now. `broken`: outages of any part that serves
    it, from its stop until it was reloaded, replanned, or its work was left to others. `out`:
    outages of all its instances.
    """

    def __init__(self, models: int) -> None:
        self.whole = [True] * models
        self.broken: list[list[Outage]] = [[] for _ in range(models)]
        self.out: list[list[Outage]] = [[] for _ in range(models)]

    def tell(self, model: int, now: float, *, whole: bool, serves: bool) -> None:
        """Record the state of a model from now on."""
        self.whole[model] = whole
        _tell(self.broken[model], now, whole)
        _tell(self.out[model], now, serves)


def _tell(outages: list[Outage], now: float, works: bool) -> None:
    under_way = bool(outages) and math.isinf(outages[-1].end_s)
    if works and under_way:
        outages[-1] = Outage(outages[-1].begin_s, now)
    elif not works and not under_way:
        outages.append(Outage(now))


Floats = NDArray[np.float64]


class BusyTime:
    """Busy seconds: whole templates as they begin, minus those parts that never ran."""

    def __init__(self, rests: Rests, devices: int, links: int) -> None:
        self._rests = rests
        self._devices = devices
        self._more: Floats = np.zeros(devices + links)
        self._whole: dict[int, Floats] = {}
        self._began: dict[int, int] = {}

    def begin(self, ran: Any) -> None:
        """Count the started templates, by number among those laid out."""
        self._began = self.begun(ran)

    def add(self, task: RecoveryTask, seconds: float) -> None:
        """Add seconds of a task; negative seconds for time that it did not run."""
        self._more += self._of(task, seconds)

    def leave(self, numbers: NDArray[np.int64], progress: NDArray[np.int8]) -> None:
        """Subtract the tasks of requests' rests that have not begun.

        `progress` as in ``InFlight``. Equal rows are processed together.
        """
        first, kind = alike((numbers,), progress)
        for row, times in zip(first.tolist(), np.bincount(kind).tolist(), strict=True):
            begun = np.flatnonzero(progress[row]).tolist()
            self._more -= times * self._of_rest(int(numbers[row]), begun)

    def enter(self, numbers: NDArray[np.int64]) -> None:
        """Add the rests of requests, except for running tasks, which were counted before."""
        kinds, kind = np.unique(numbers, return_inverse=True)
        if not len(kinds):
            return
        seconds = [self._of_rest(one, self._rests.known[one].under_way) for one in kinds.tolist()]
        # Accumulated one by one, as the rounding depends on the order.
        self._more = np.add.accumulate(np.vstack((self._more, np.array(seconds)[kind])))[-1]

    def begun(self, ran: Any) -> dict[int, int]:
        """Return how often each rest was begun; `ran` as in ``begin``, since that was called."""
        found = dict(self._began)
        for number, times in zip(self._rests.used.tolist(), list(ran), strict=True):
            if times:
                found[number] = found.get(number, 0) + int(times)
        return found

    def busy(self, ran: Any) -> tuple[list[float], list[float]]:
        """Return busy seconds by device, summed over streams, and by link.

        `ran` as in ``begin``: templates started since its last call.
        """
        total = self._more.copy()
        for number, times in self.begun(ran).items():
            total += times * self._of_rest(number, ())
        seconds = np.maximum(total, 0.0).tolist()
        return seconds[: self._devices], seconds[self._devices :]

    def _of_rest(self, number: int, without: Sequence[int]) -> Floats:
        """Return the seconds by device and link of a rest, without some of its tasks."""
        tasks = self._rests.known[number].tasks
        if number not in self._whole:
            self._whole[number] = sum(
                (self._of(task, task.seconds) for task in tasks), np.zeros(len(self._more))
            )
        if not without:
            return self._whole[number]
        left = self._whole[number].copy()
        for place in without:
            left -= self._of(tasks[place], tasks[place].seconds)
        return left

    def _of(self, task: RecoveryTask, seconds: float) -> Floats:
        found = np.zeros(len(self._more))
        if task.device >= 0:
            found[task.device] = seconds
        for link in task.resources:
            found[self._devices + link] = seconds
        return found


def take_back(
    flow: Flow, batches: Batches, records: RequestRecords, slot: int, now: float
) -> list[int]:
    """Remove a batch from its instance as if it had not been sent; return its requests.

    The caller accounts for its model's lengths before, and requeues the requests afterwards.
    """
    model, instance = batches.model[slot], batches.instance[slot]
    flow.in_flight[instance] -= 1
    if flow.in_flight[instance] == 0:
        flow.idle[model] += 1
        flow.free_s[instance] = now
    found = requests_of(flow, batches, records, slot)
    for request in found:
        at = request - flow.counts[TOLD]
        records.sent[at] = math.nan
        records.instance[at] = -1
        records.size[at] = 0
    batches.model[slot] = -1
    return found


def put_first(setup: Setup, flow: Flow, records: RequestRecords, requests: Collection[int]) -> None:
    """Put requests at the head of their queues in order of arrival."""
    told = flow.counts[TOLD]
    for request in sorted(requests, reverse=True):
        stream = records.stream[request - told]
        model, queue = setup.model_of[stream], setup.queue_of[stream]
        head = flow.head[2 * queue]
        records.following[request - told] = head
        flow.head[2 * queue] = request
        if head < 0:
            flow.tail[2 * queue] = request
        flow.queued[queue] += 1
        flow.waiting[model] += 1
        mark(flow, model)


MOST_VAIN = 10_000
"""Losses and returns of devices in a row without an answer that is waited for: none will come."""

NOT_WHOLE = 1 << 30
"""Offset on a model's count of idle instances while one of its devices does not work: an arrival
then does not find the initial state."""


@dataclass(frozen=True, slots=True)
class WeightLoad:
    """Weights that a returned device loads before it starts a task: seconds, and links held."""

    seconds: float
    resources: tuple[int, ...] = ()


class FailingServing(Serving, FailingDriver):
    """Models on one platform whose devices fail.

    `plan_tasks` are all templates, made for `contention`; `replan` returns a plan that avoids the
    given devices. `failures` are by time, of existing devices that are not down, and may be
    infinite. `loads` are by device, empty for none: without a host there is no source to load from.
    Other arguments as in ``Serving``.

    `happened` are the failures until the end of the last request; `outages` the partial and
    complete ones of models; `retried` counts how often each request, by number in order of arrival,
    was taken back; requests of `lost` lost work, as a task was cut off or had to run again; `cut_s`
    are the device seconds spent on tasks that were cut off.

    Playing raises Infeasible if no device remains that can do the work of lost ones.
    """

    _shortens = False

    def __init__(
        self,
        plan_tasks: PlanTasks,
        contention: Contention,
        replan: Replan,
        models: Sequence[ModelSetup],
        sources: Sequence[RequestSource],
        clients: Sequence[Clients] = (),
        *,
        failures: Iterable[Failure],
        loads: Sequence[WeightLoad | None] = (),
        **options: Unpack[EngineOptions],
    ) -> None:
        plans = [template.plan for template in plan_tasks.templates]
        problem = plans[0].problem
        self._names, self._host = problem.devices, problem.host
        self._models = models
        self._loads = {
            at: load for at, load in enumerate(loads) if load is not None and self._host is not None
        }
        self._loading: dict[int, int] = {}
        self._states = InstanceStates(plans, templates_of(models), contention, replan)
        self._rests = Rests(problem.streams)
        self._busy = BusyTime(self._rests, len(problem.devices), len(plan_tasks.links))
        self._template_of: dict[int, int] = {}
        self._fresh = [self._fresh_number(template) for template in range(len(plans))]
        structure, duration = self._rests.lay_out(self._expected())
        super().__init__(
            TemplateLayout(plan_tasks.plan, len(plan_tasks.links), structure),
            duration,
            models,
            sources,
            clients,
            **options,
        )
        self._log: Any = empty_log(0, self._arrays)
        # By template as numbered in `models`.
        self._table = np.asarray(self._setup.table, dtype=np.int64)
        self._alone = np.array(self._setup.alone[: len(plans)], dtype=np.float64)
        self._load = np.array(self._setup.load[: len(plans)], dtype=np.float64)
        self.retried: Counter[int] = Counter()
        self.lost: set[int] = set()
        self.cut_s = 0.0
        self._moments: Iterator[Moment] = moments(failures)
        self._next = next(self._moments, None)
        self._until_s = math.inf if self._next is None else self._next[0]
        self._vain = 0
        self.happened = []
        self.outages = Outages(len(models))

    @property
    def ran(self) -> Ints:
        """Number of batches sent, by template."""
        began = self._busy.begun(self._flow.ran)
        found = np.zeros(len(self._fresh), dtype=np.int64)
        for number, template in self._template_of.items():
            found[template] += began.get(number, 0)
        return found

    def busy_seconds(self) -> tuple[list[float], list[float]]:
        """Return busy seconds by device, summed over streams, and by link, lost work included."""
        return self._busy.busy(self._flow.ran)

    def _expected(self) -> Ints:
        """Return the rests that may be needed at any time."""
        loads = [self._load_number(device) for device in self._loads]
        return np.array([*self._fresh, *loads], dtype=np.int64)

    def _fresh_number(self, template: int) -> int:
        """Return the rest of a batch that has not been sent."""
        layout = self._states.versions[template].layouts[0]
        number = self._rests.number(("fresh", template, layout), layout.fresh)
        self._template_of[number] = template
        return number

    def _again(self, requests: Ints, templates: Ints, ranks: Ints, kept: Ints) -> None:
        super()._again(requests, templates, ranks, kept)
        begun = self._batches.begun
        for code in list(self._log.code[: self._log.size[0]]):
            slot = self._slot(int(code) >> SHIFT)
            if begun[slot] == math.inf:
                begun[slot] = float(self._now[0])
        self._log.size[0] = 0

    def _deal(self) -> None:
        """Route batches to the instances that accept them."""
        for model, instances in enumerate(self._states.instances):
            restrict(self._setup, self._flow, model, instances, self._states.taking(model))

    def _left_out(self, batches: Ints) -> NDArray[np.bool_]:
        """Return which batches are at an excluded instance; False for entries that are no batch."""
        slot = self._slot(batches)
        is_one = np.asarray(self._batches.model)[slot] >= 0
        # For an entry that is no batch, the field has another meaning.
        instance = np.where(is_one, np.asarray(self._batches.instance)[slot], 0)
        found: NDArray[np.bool_] = is_one & (np.asarray(self._flow.most)[instance] == 0)
        return found

    def _stuck(self, number: int, progress: NDArray[np.int8] | None) -> bool:
        """Return whether a batch makes no progress while devices are down.

        `progress` of its rest; None: all tasks that do not run are waiting.
        """
        rest = self._rests.known[number]
        return any(
            task.device >= 0 and self._states.down[task.device]
            for at, task in enumerate(rest.tasks)
            if (at not in rest.under_way if progress is None else progress[at] != HAS_ENDED)
        )

    def _unstick(self) -> None:
        """Take back batches that no longer need to wait where they are."""
        if not any(self._states.down):
            return
        flight = self.in_flight()
        flight = flight.some(self._left_out(flight.request))
        numbers = self._rests.used[flight.template]
        first, _ = alike((numbers,), flight.progress)
        if any(self._stuck(int(numbers[row]), flight.progress[row]) for row in first.tolist()):
            self._go_on(len(self._names))

    def _go_on(self, device: int) -> None:
        """Remove from batches what they had on a device; continue them, or take them back.

        A device number beyond all devices means no loss. O(tasks in flight), plus V + E of a plan
        for each distinct continuation.
        """
        now = float(self._now[0])
        flight, running = self._under_way()
        before = self._rests.used[flight.template]
        ways, way = self._continuations(flight, device)
        self._busy.leave(before, flight.progress)
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
        ways.append(Continuation(-1, False, {}))
        places = [ways[k].places for k in way[running.row].tolist()]
        ends = np.array(
            [at not in there for at, there in zip(running.place.tolist(), places, strict=True)],
            dtype=np.bool_,
        )
        self._cut(flight, running.some(ends))
        self._busy.begin(self._flow.ran)
        self._continue(flight, running, ways, way, self._expected())
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

    def _continuations(self, flight: InFlight, device: int) -> tuple[list[Continuation], Ints]:
        """Return the continuations of all batches in flight."""
        is_batch = np.array(
            [bool(self._rests.known[number].groups) for number in self._rests.used.tolist()],
            dtype=np.bool_,
        )
        mine = is_batch[flight.template]
        others = {row: self._onward(flight, row) for row in np.flatnonzero(~mine).tolist()}
        batches = flight.some(mine)

        def layout_for(rest: Rest, template: int) -> PlanLayout:
            return self._states.versions[template].layout_of(rest.groups, 0)

        ways, theirs = continuations(
            batches, self._rests, layout_for, self._template(batches.request), device
        )
        way = np.zeros(len(mine), dtype=np.int64)
        way[mine] = theirs
        for row, onward in others.items():
            way[row] = len(ways)
            ways.append(onward)
        return ways, way

    def _template(self, batches: Ints) -> Ints:
        """Return the templates of batches, as numbered in `models`; 0 for answered ones."""
        slot = self._slot(batches)
        model = np.asarray(self._batches.model)[slot]
        at = np.asarray(self._batches.first)[slot] - int(self._flow.counts[TOLD])
        found = np.zeros(len(batches), dtype=np.int64)
        for one, named in enumerate(self._models):
            rows = np.flatnonzero(model == one)
            variant, instance, size = (
                np.asarray(column)[at[rows]]
                for column in (self._records.variant, self._records.instance, self._records.size)
            )
            found[rows] = named.template[variant, instance, size - 1]
        return found

    def _cut(self, flight: InFlight, gone: Running) -> None:
        now = float(self._now[0])
        end_of = {code: end for end, code in self.ends}
        numbers = self._rests.used[flight.template]
        for row, at, code in zip(*(part.tolist() for part in gone), strict=True):
            # Tasks without an end were cut off before.
            if code in end_of:
                task = self._rests.known[int(numbers[row])].tasks[at]
                self._busy.add(task, now - end_of[code])
                if task.device >= 0:
                    self.cut_s += task.seconds - (end_of[code] - now)
            self.lost.update(self._requests_of(code >> SHIFT))

    def _enter(self, flight: InFlight, ways: Sequence[Continuation], way: Ints) -> None:
        """Count the tasks that begin, and record the batches with tasks that nothing waits for."""
        rest = np.array([found.rest for found in ways], dtype=np.int64)
        counts = [self._rests.known[number].counts if number >= 0 else () for number in rest]
        partly = np.array([not all(counted) for counted in counts], dtype=np.bool_)
        needed = np.array([sum(counted) for counted in counts], dtype=np.int64)
        slot = self._slot(flight.request)
        loose = partly[way] & (np.asarray(self._batches.model)[slot] >= 0)
        for at, many in zip(slot.tolist(), np.where(loose, needed[way], 0).tolist(), strict=True):
            self._batches.needed[at] = many
        numbers = rest[way]
        self._busy.enter(numbers[numbers >= 0])
        self._flow.counts[LOOSE] = int(loose.any())

    def _account(self, slot: int, now: float) -> None:
        account(self._flow, self._spans, self._batches.model[slot], now)

    def _answer(self, batch: int, now: float) -> None:
        """Process the completion of a batch."""
        slot = self._slot(batch)
        mine = self._requests_of(batch)
        if not mine:
            return
        self._vain = 0
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
        """Update the tables to the current template numbers."""
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
        """Update the seconds of a replacement plan for routing."""
        if LEAST_FINISH in self._setup.routing:
            tasks = self._states.versions[template].plan_tasks
            duration = tasks.templates[0].duration
            layout = laid_out(tasks)
            self._alone[template] = seconds_alone(layout, duration)[0]
            self._load[template] = loads(layout, duration)[0]

    @property
    def now_s(self) -> float:
        """Time of the last arrival or completion."""
        return float(max(self._spans.since))

    def _open(self) -> bool:
        # Failures at the end of the last request are still processed.
        return super()._open() or float(self._now[0]) <= self.now_s

    def _happen(self) -> None:
        now = float(self._now[0])
        self._flow.counts[FOREIGN] = 0
        for device, batch in list(self._loading.items()):
            if self._is_over(batch):
                del self._loading[device]
                self._come_back(device)
                self._tell_outages()
        while self._next is not None and self._next[0] == now:
            _, _, what, failure = self._next
            device = self._names.index(failure.device)
            if what == "stop":
                # Its loading is lost with it.
                self._loading.pop(device, None)
            if what == "back" and device in self._loads:
                self._begin_load(device)
            else:
                self._change(device, what, failure)
            self._tell_outages()
            self._next = next(self._moments, None)
            self._vain = self._vain + 1 if any(self._flow.inside) else 0
            if self._vain > MOST_VAIN:
                raise WorkloadError(
                    f"devices failed or came back {MOST_VAIN} times while requests waited and none "
                    "was answered",
                    hint="give a longer time between failures",
                )
        self._until_s = math.inf if self._next is None else self._next[0]

    def _tell_outages(self) -> None:
        states, outages, now = self._states, self.outages, float(self._now[0])
        for model in range(len(states.instances)):
            whole = states.whole(model)
            if whole != outages.whole[model]:
                self._flow.idle[model] += NOT_WHOLE if whole else -NOT_WHOLE
            outages.tell(model, now, whole=whole, serves=states.serves(model))

    def _lose(self, device: int, failure: Failure) -> None:
        if math.isinf(failure.back_s):
            for template in self._states.lose(device):
                self._fresh[template] = self._fresh_number(template)
                self._price(template)
        self._deal()
        self._go_on(device)

    def _come_back(self, device: int) -> None:
        super()._come_back(device)
        self._deal()
        self._unstick()

    def _begin_load(self, device: int) -> None:
        """Reload a device's weights as a batch without requests."""
        batch = self._next_batch()
        slot = self._slot(batch)
        self._loading[device] = batch
        self._batches.model[slot] = -1
        self._batches.needed[slot] = 0
        number = self._load_number(device)
        self._busy.enter(np.array([number]))
        none, rank = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._again(np.array([batch]), np.searchsorted(self._rests.used, [number]), rank, none)

    def _load_number(self, device: int, *, runs: bool = False) -> int:
        load = self._loads[device]
        # Its route starts and ends with the caller, so it is not withheld.
        caller = self._host
        assert caller is not None
        task = RecoveryTask(0, device, load.seconds, -1, -1, -1, caller, caller, load.resources)

        def make() -> Rest:
            return Rest((), {}, frozenset(), (task,), ((),), (0,) if runs else (), (True,))

        return self._rests.number(("load", device, runs), make)

    def _onward(self, flight: InFlight, row: int) -> Continuation:
        rest = self._rests.known[int(self._rests.used[flight.template[row]])]
        batch = int(flight.request[row])
        if batch not in self._loading.values():
            return Continuation(-1, False, {})
        runs = bool(flight.progress[row, 0] == IS_RUNNING)
        number = self._load_number(rest.tasks[0].index, runs=runs)
        return Continuation(number, False, {0: 0} if runs else {})
