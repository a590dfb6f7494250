"""Plans under load whose instances start and stop by Ray Serve's controller.

An instance is the slot of a replica. It gets batches while a replica runs in it, and routing
chooses among these; requests that find none wait in the model's queue.

A replica starts in the first free slot in the order of the deployment, or as soon as one is free.
It is up once its process has started and its weights are loaded. A stopping replica gets no more
requests and checks at intervals whether all its requests are done; then it is gone and its slot is
free. The newest replicas stop first, those still starting before all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from hetsim.core import heaps
from hetsim.simulation.autoscaling.controller import Controller
from hetsim.simulation.clock import virtual_time
from hetsim.simulation.clock.rules import ADMITTED, MASK, OLDEST, SHIFT, STARTING, admit
from hetsim.simulation.clock.templates import TemplateLayout
from hetsim.simulation.serving.driver import restrict
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Clients, EngineOptions, ModelSetup, RequestSource
from hetsim.simulation.serving.tables import FOREIGN, TAKEN, TOLD
from hetsim.workload.autoscaling import Autoscaling


@dataclass(slots=True)
class Replica:
    """Replica over its life, in the instance `place` of its model.

    Times of its start, first readiness, stop request and end are infinite if not reached yet.
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


class ModelReplicas:
    """All replicas of a model: `ever` by start, `alive` the indices of those that still exist.

    `load` starts loading the weights of the replica in a slot, and returns whether that takes time;
    the end is reported by ``loaded``. `busy` returns whether the instance of a slot has batches
    under way.
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
        """Indices in `ever` of replicas that get requests."""
        return tuple(k for k in self.alive if self.ever[k].runs)

    @property
    def next_s(self) -> float:
        """Time at which the next one has started, or checks whether it can end."""
        return min(self._due_s.values(), default=math.inf)

    def loaded(self, place: int, now_s: float) -> None:
        """Note that the weights of the replica in a slot are loaded."""
        number = next(k for k in self.alive if self.ever[k].place == place)
        if self.ever[number].leave_s < math.inf:
            self._gone(number, now_s)
        else:
            self.ever[number].up_s = now_s

    def pass_to(self, now_s: float) -> None:
        """Process all events due at `now_s`."""
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
        """Start or stop replicas to reach `target`."""
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
        # Those that start last, and among these the newest first.
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
            # Its process has not started yet, so no weights are being loaded.
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
    """Return the time some positive seconds later, strictly later than now even for large times."""
    return max(now_s + seconds, math.nextafter(now_s, math.inf))


NOT_AT_REST = 1 << 30
"""Offset on a model's count of idle instances while it has more than its minimum of replicas, or
some start or stop: an arrival then does not find the initial state."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Scaling of one model; `loads` are the templates that load weights, by instance."""

    config: Autoscaling
    loads: tuple[tuple[int, ...], ...]


class ScalingServing(Serving):
    """Models on one platform, some of whose instances start and stop.

    `scalings` are by model; None: all its instances exist throughout. Other arguments as in
    ``Serving``.

    Complexity: that of ``Serving``, plus O(replicas) for each model and count of its requests; idle
    periods are skipped, so counts are at most proportional to requests.
    """

    _shortens = False

    def __init__(
        self,
        layout: TemplateLayout,
        duration: NDArray[np.float64],
        models: Sequence[ModelSetup],
        sources: Sequence[RequestSource],
        clients: Sequence[Clients] = (),
        *,
        scalings: Sequence[Scaling | None],
        **options: Unpack[EngineOptions],
    ) -> None:
        super().__init__(layout, duration, models, sources, clients, **options)
        self._controllers: dict[int, Controller] = {}
        self.replicas: dict[int, ModelReplicas] = {}
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

    def _replicas_of(self, model: int, scaling: Scaling) -> ModelReplicas:
        first = int(self._setup.instance_at[model])

        def busy(at: int) -> bool:
            return bool(self._flow.in_flight[first + at])

        def load(at: int) -> bool:
            return self._load(model, at, scaling.loads[at])

        return ModelReplicas(scaling.config, len(scaling.loads), load, busy)

    @property
    def now_s(self) -> float:
        """Time of the last arrival or completion."""
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
        """Skip the counts of idle models until a request arrives."""
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
        """Return the time of the next autoscaling event of a model."""
        due = [one.next_s() for one in self._controllers.values()]
        due += [one.next_s for one in self.replicas.values()]
        return min(due, default=math.inf)

    def _under_way(self, model: int) -> dict[int, int]:
        """Return requests by replica, of those that run or that stop with some left."""
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
        """Return by instance the requests under way of a model."""
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
        """Restrict batches to the replicas that run."""
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
        """Load weights into a slot; return whether that takes time."""
        instance = int(self._setup.instance_at[model]) + at
        self._flow.free_s[instance] = -math.inf
        for template in templates:
            if self._fetch(template, instance):
                self._loading[int(self._state.counts[ADMITTED]) - 1] = model, at
        return (model, at) in self._loading.values()

    def _fetch(self, template: int, instance: int) -> bool:
        """Admit weight loading to the clock as a batch without requests; return whether it runs."""
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
        """Note that weights reached a device; a replica is up once all its devices have them."""
        model, at = self._loading.pop(batch)
        if (model, at) not in self._loading.values():
            self.replicas[model].loaded(at, now)
