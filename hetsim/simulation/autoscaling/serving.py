"""Plans under load whose instances start and stop as Ray Serve's controller decides.

An instance is the place of a replica. It gets batches while a replica runs in it, which routing
chooses from; what waits for one waits in the model's queue.

A replica starts in the first place that is free, as they are written; where none is, as soon as one
is. It is up after its process has started, and its weights are loaded. One that is to go gets no
more requests, and looks now and then whether it has ended all that it had; then it is gone, and
its place is free. Of those to go the newest go first, those that have not started before all
others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.autoscaling.controller import Controller
from hetsim.simulation.clock import heaps, virtual_time
from hetsim.simulation.clock.rules import ADMITTED, MASK, OLDEST, SHIFT, STARTING, admit
from hetsim.simulation.clock.templates import Layout
from hetsim.simulation.serving.driver import restrict
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Clients, Model, Options, Source
from hetsim.simulation.serving.tables import FOREIGN, TAKEN, TOLD
from hetsim.workload.autoscaling import Autoscaling


@dataclass(slots=True)
class Replica:
    """One replica, from its start on.

    Attributes
    ----------
    place : int
        Of the instance, among those of the model.
    start_s, up_s, leave_s, gone_s : float
        When it was started, ran, was to go, and was gone; infinite of what has not come yet.
    """

    place: int
    start_s: float
    up_s: float = math.inf
    leave_s: float = math.inf
    gone_s: float = math.inf

    @property
    def runs(self) -> bool:
        """Whether it gets requests."""
        return self.up_s < math.inf and self.leave_s == math.inf


class Replicas:
    """All replicas of a model so far.

    Parameters
    ----------
    config : Autoscaling
    places : int
        Instances.
    load : function
        Lets the weights of the replica in a place be loaded; returns whether that takes time. It is
        told by ``loaded`` when they are.
    busy : function
        Whether the instance in a place has batches under way.

    Attributes
    ----------
    ever : list of Replica
        In the order of their starts.
    alive : list of int
        Those that still exist, numbered as in `ever`.
    """

    def __init__(
        self,
        config: Autoscaling,
        places: int,
        load: Callable[[int], bool],
        busy: Callable[[int], bool],
    ) -> None:
        self._config, self._load, self._busy = config, load, busy
        self._free = list(range(places))
        self.alive: list[int] = []
        self._due_s: dict[int, float] = {}
        self.ever: list[Replica] = []
        for place in self._free[: config.initial]:
            self.alive.append(len(self.ever))
            self.ever.append(Replica(place, 0.0, 0.0))
        del self._free[: config.initial]

    @property
    def running(self) -> tuple[int, ...]:
        """Replicas that get requests, numbered as in `ever`."""
        return tuple(k for k in self.alive if self.ever[k].runs)

    @property
    def next_s(self) -> float:
        """When one of them has started, or looks whether it can go."""
        return min(self._due_s.values(), default=math.inf)

    def loaded(self, place: int, now_s: float) -> None:
        """The weights of the replica in a place are there."""
        number = next(k for k in self.alive if self.ever[k].place == place)
        if self.ever[number].leave_s < math.inf:
            self._gone(number, now_s)
        else:
            self.ever[number].up_s = now_s

    def pass_to(self, now_s: float) -> None:
        """Let happen what does now."""
        for number in [k for k, due_s in self._due_s.items() if due_s <= now_s]:
            one = self.ever[number]
            del self._due_s[number]
            if one.leave_s == math.inf:
                self._load_or_run(number, now_s)
            elif self._busy(one.place):
                self._due_s[number] = self._look_s(now_s)
            else:
                self._gone(number, now_s)

    def scale(self, target: int, now_s: float) -> None:
        """Start or let go as many as it takes."""
        staying = [k for k in self.alive if self.ever[k].leave_s == math.inf]
        while len(staying) < target and self._free:
            number = len(self.ever)
            staying.append(number)
            self.alive.append(number)
            self.ever.append(Replica(self._free.pop(0), now_s))
            if self._config.startup_s > 0:
                self._due_s[number] = _after(now_s, self._config.startup_s)
            else:
                self._load_or_run(number, now_s)
        # Those that start last, and among these the newest.
        staying.sort(key=lambda k: (self.ever[k].up_s < math.inf, -k))
        for number in staying[: max(len(staying) - target, 0)]:
            self._leave(number, now_s)

    def _load_or_run(self, number: int, now_s: float) -> None:
        if not self._load(self.ever[number].place):
            self.ever[number].up_s = now_s

    def _leave(self, number: int, now_s: float) -> None:
        one = self.ever[number]
        one.leave_s = now_s
        if one.up_s < math.inf:
            self._due_s[number] = self._look_s(now_s)
        elif self._due_s.pop(number, None) is not None:
            # Its process has not started yet: no weights are on their way.
            self._gone(number, now_s)

    def _look_s(self, now_s: float) -> float:
        return _after(now_s, self._config.graceful_shutdown_wait_loop_s)

    def _gone(self, number: int, now_s: float) -> None:
        one = self.ever[number]
        one.gone_s = now_s
        self.alive.remove(number)
        self._free.append(one.place)
        self._free.sort()


def _after(now_s: float, seconds: float) -> float:
    """So many seconds above 0 later, later than now however late that is."""
    return max(now_s + seconds, math.nextafter(now_s, math.inf))


NOT_AT_REST = 1 << 30
"""Taken from the idle instances of a model while it has more than the fewest replicas, or some
start or go: nobody who comes then finds everything as it begins anew."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Scaling of one model.

    Attributes
    ----------
    config : Autoscaling
    loads : tuple of tuple of int, [instances]
        Templates that load the weights of a replica in the place of each instance.
    """

    config: Autoscaling
    loads: tuple[tuple[int, ...], ...]


class ScalingServing(Serving):
    """Models on one platform, some of whose instances start and stop.

    Parameters
    ----------
    layout, duration, models, sources, clients, options
        As ``Serving`` takes them.
    scalings : sequence of Scaling or None
        By model; None: all its instances are there all along.

    Complexity: that of ``Serving``, and for each model O(replicas) whenever it is counted how many
    requests they have; no more often than requests come where nothing is counted for long.
    """

    _shortens = False

    def __init__(
        self,
        layout: Layout,
        duration: NDArray[np.float64],
        models: Sequence[Model],
        sources: Sequence[Source],
        clients: Sequence[Clients] = (),
        *,
        scalings: Sequence[Scaling | None],
        **options: Unpack[Options],
    ) -> None:
        super().__init__(layout, duration, models, sources, clients, **options)
        self._controllers: dict[int, Controller] = {}
        self.replicas: dict[int, Replicas] = {}
        self._loading: dict[int, tuple[int, int]] = {}
        self._dealt: dict[int, object] = {}
        self._coming: Any = None
        for model, scaling in enumerate(scalings):
            if scaling is None:
                continue
            self._controllers[model] = Controller(scaling.config)
            self.replicas[model] = self._replicas_of(model, scaling)
            self._deal(model)
        self._until_s = self._next_s()

    def _replicas_of(self, model: int, scaling: Scaling) -> Replicas:
        first = int(self._setup.instance_at[model])

        def busy(at: int) -> bool:
            return bool(self._flow.in_flight[first + at])

        def load(at: int) -> bool:
            return self._load(model, at, scaling.loads[at])

        return Replicas(scaling.config, len(scaling.loads), load, busy)

    @property
    def now_s(self) -> float:
        """When a request last came or was over."""
        return float(max(self._spans.since))

    def _happen(self) -> None:
        now = float(self._now[0])
        self._flow.counts[FOREIGN] = 0
        for batch in list(self._loading):
            if self._is_over(batch):
                self._loaded(batch, now)
        for model, controller in self._controllers.items():
            replicas = self.replicas[model]
            controller.decide_before(now)
            replicas.pass_to(now)
            replicas.scale(controller.target, now)
            controller.see(replicas.running)
            if controller.record_s == now:
                controller.record(int(self._flow.waiting[model]), self._under_way(model))
            if controller.tell_s == now:
                controller.tell(self._under_way(model))
            controller.decide_at(now)
            replicas.scale(controller.target, now)
            controller.see(replicas.running)
            self._deal(model)
        self._rest()
        self._until_s = self._next_s()

    def _go(self, coming: Any) -> int:
        self._coming = coming
        return super()._go(coming)

    def _rest(self) -> None:
        """Pass over what is counted of models that nothing is asked of, until a request comes."""
        taken, coming = self._flow.counts[TAKEN], self._coming
        if taken == len(coming.arrival):
            return
        earliest: Any = heaps.earliest if self._arrays else virtual_time.earliest
        comes_s = min(float(coming.arrival[taken]), float(earliest(self._returning)))
        for model, controller in self._controllers.items():
            replicas = self.replicas[model]
            steady = len(replicas.running) == len(replicas.alive) == controller.target
            if not steady or self._flow.inside[model]:
                continue
            under_way = self._under_way(model)
            if controller.rests(under_way):
                controller.rest_until(comes_s, under_way)

    def _next_s(self) -> float:
        """When something of a model happens next that requests do not make happen."""
        due = [one.next_s() for one in self._controllers.values()]
        due += [one.next_s for one in self.replicas.values()]
        return min(due, default=math.inf)

    def _under_way(self, model: int) -> dict[int, int]:
        """The requests of each replica that runs and ever had one, or that goes and has some."""
        replicas, flow = self.replicas[model], self._flow
        first = int(self._setup.instance_at[model])
        requests = self._requests(model)
        found = {}
        for number in replicas.alive:
            one = replicas.ever[number]
            many = requests.get(first + one.place, 0)
            had = flow.free_s[first + one.place] >= one.up_s
            if many or (one.runs and had):
                found[number] = many
        return found

    def _requests(self, model: int) -> dict[int, int]:
        """How many requests each instance of a model has under way."""
        found: dict[int, int] = {}
        counts, batches = self._state.counts, self._batches
        for batch in range(int(counts[OLDEST]), int(counts[ADMITTED])):
            slot = self._slot(batch)
            if self._state.left[slot] and batches.model[slot] == model:
                at = int(batches.instance[slot])
                size = self._records.size[batches.first[slot] - self._flow.counts[TOLD]]
                found[at] = found.get(at, 0) + int(size)
        return found

    def _deal(self, model: int) -> None:
        """Let batches go to the replicas that run."""
        setup, flow, replicas = self._setup, self._flow, self.replicas[model]
        target = self._controllers[model].target
        state = (replicas.running, tuple(replicas.alive), target)
        if self._dealt.get(model) == state:
            return
        self._dealt[model] = state
        first, after = int(setup.instance_at[model]), int(setup.instance_at[model + 1])
        running = replicas.running
        taking = {first + replicas.ever[number].place for number in running}
        restrict(setup, flow, model, range(first, after), taking)
        idle = sum(1 for at in taking if not flow.in_flight[at])
        fewest = self._controllers[model].config.min_replicas
        at_rest = target == len(running) == len(replicas.alive) == fewest
        flow.idle[model] = idle if at_rest else idle - NOT_AT_REST

    def _load(self, model: int, at: int, templates: Sequence[int]) -> bool:
        """Let weights come to a place; return whether that takes time."""
        instance = int(self._setup.instance_at[model]) + at
        self._flow.free_s[instance] = -math.inf
        for template in templates:
            if self._fetch(template, instance):
                self._loading[int(self._state.counts[ADMITTED]) - 1] = model, at
        return (model, at) in self._loading.values()

    def _fetch(self, template: int, instance: int) -> bool:
        """Admit what loads weights to the clock, as a batch of nobody; return whether it runs."""
        batch = self._next_batch()
        slot, batches = self._slot(batch), self._batches
        batches.model[slot], batches.instance[slot] = -1, instance
        batches.begun[slot], batches.needed[slot] = math.inf, 0
        self._flow.ran[template] += 1
        state: Any = self._state
        over = admit(self._structure, state, batch, template, 0)
        now = float(self._now[0])
        put: Any = heaps.put if self._arrays else virtual_time.put
        for code in list(state.starting[: state.counts[STARTING]]):
            put(self._events, now + float(self._duration[int(code) & MASK]), int(code))
            self._batches.begun[self._slot(int(code) >> SHIFT)] = now
        state.counts[STARTING] = 0
        return not over

    def _loaded(self, batch: int, now: float) -> None:
        """Weights have come to a device; the last of its devices makes a replica complete."""
        model, at = self._loading.pop(batch)
        if (model, at) not in self._loading.values():
            self.replicas[model].loaded(at, now)
