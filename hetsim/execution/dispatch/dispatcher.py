"""Dispatcher of steps to devices: a state machine without clocks, threads or transport."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hetsim.execution.program import ReplicaSteps, Step


class Call(NamedTuple):
    """Call of a device: one step of a request."""

    request: int
    step: int
    device: str
    version: int


@dataclass(slots=True)
class Flight:
    """Request in flight.

    `values` are available to any device: inputs, and values sent by steps, by the device in
    `made_on`. They are kept until the request ends, as a lost device's work restarts from them.
    `done` steps still have their kept values on their device; those in `missing` wait for that many
    others; `after` is the next step on a step's device. `round` counts how often the steps to run
    were computed, and `running` has the round in which each call was dispatched.
    """

    order: _Order
    values: dict[str, Any]
    made_on: dict[str, str] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    missing: dict[int, int] = field(default_factory=dict)
    after: Mapping[int, int] = field(default_factory=dict)
    round: int = 0
    running: dict[Call, int] = field(default_factory=dict)


class _Order:
    """Dependencies of a replica's steps, computed once per version."""

    def __init__(
        self, steps: Sequence[Step], outputs: Sequence[str], replica: ReplicaSteps
    ) -> None:
        self.steps = steps
        self.outputs = outputs
        self.wanted = frozenset(outputs)
        self.key = replica.key
        own = range(replica.first, replica.first + replica.count)
        self.maker = {name: index for index in own for name in self.steps[index].sends}
        self.makers: dict[int, set[int]] = {}
        self.readers: dict[int, list[int]] = {index: [] for index in own}
        self.keepers: dict[int, tuple[int, ...]] = {}
        kept: dict[str, tuple[int, ...]] = {}
        for index in own:
            step = self.steps[index]
            makers = {self.maker[name] for name in step.receives if name in self.maker}
            self.makers[index] = makers
            for earlier in makers:
                self.readers[earlier].append(index)
            self.keepers[index] = kept.get(step.device, ())
            if step.keeps:
                kept[step.device] = (*kept.get(step.device, ()), index)
        self.first, self.after = self.waits(set(own))

    def waits(self, steps: Set[int]) -> tuple[dict[int, int], dict[int, int]]:
        """Return how many of `steps` each waits for, and by step the next on its device.

        A step waits for the producers of its inputs, and for the previous step on its device.
        """
        counts: dict[int, int] = {}
        after: dict[int, int] = {}
        latest: dict[str, int] = {}
        for index in sorted(steps):
            device = self.steps[index].device
            counts[index] = len(self.makers[index] & steps) + (device in latest)
            if device in latest:
                after[latest[device]] = index
            latest[device] = index
        return counts, after

    def needed(self, flight: Flight, running: set[int]) -> set[int]:
        """Return steps that must run, or are running, for the missing outputs."""
        found: set[int] = set()
        pending = [self.maker[name] for name in self.outputs if name not in flight.values]
        while pending:
            index = pending.pop()
            if index in found:
                continue
            found.add(index)
            if index in running:
                continue
            pending += [
                self.maker[name] for name in self.steps[index].receives if name not in flight.values
            ]
            pending += [earlier for earlier in self.keepers[index] if earlier not in flight.done]
        return found


class Dispatcher:
    """State machine from events to calls.

    A device takes as many calls as it has streams, of different requests; a free stream takes the
    step of the earliest request with all its inputs available and its previous step on the device
    done. `deal`: replica by request, repeated.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        outputs: Sequence[str],
        streams: Mapping[str, int],
        replicas: Sequence[ReplicaSteps] = (),
        deal: Sequence[int] = (0,),
    ) -> None:
        self._take(steps, outputs, replicas, deal)
        self._streams = dict(streams)
        self._busy = dict.fromkeys(streams, 0)
        self._up: set[str] = set()
        self._ready: dict[str, list[tuple[int, int, int]]] = {device: [] for device in streams}
        self.version = 0
        self.flights: dict[int, Flight] = {}

    def admit(self, request: int, values: Mapping[str, Any]) -> None:
        """Admit a request with the handles of its inputs; later requests have higher numbers."""
        order = self._dealt(request)
        flight = self.flights[request] = Flight(order, dict(values))
        flight.missing, flight.after = dict(order.first), order.after
        for index, missing in order.first.items():
            if not missing:
                self._push(request, flight, index)

    def calls(self) -> list[Call]:
        """Return the calls that devices can start now."""
        found: list[Call] = []
        for device, ready in self._ready.items():
            if not ready or device not in self._up:
                continue
            while ready and self._busy[device] < self._streams[device]:
                request, index, made_in = heapq.heappop(ready)
                flight = self.flights.get(request)
                if flight is None or flight.round != made_in:
                    continue
                del flight.missing[index]
                call = Call(request, index, device, self.version)
                flight.running[call] = flight.round
                self._busy[device] += 1
                found.append(call)
        return found

    def step(self, call: Call) -> Step:
        """Return the step of a call of the current version."""
        return self._steps[call.step]

    def finish(self, call: Call, sent: Mapping[str, Any]) -> bool:
        """Record the values of a call; return whether its request now has all outputs."""
        self._busy[call.device] -= 1
        flight = self.flights.get(call.request)
        if flight is None:
            return False
        given_out = flight.running.pop(call)
        flight.values.update(sent)
        flight.made_on.update(dict.fromkeys(sent, call.device))
        if call.version == self.version:
            flight.done.add(call.step)
        if given_out != flight.round:
            self._plan(call.request, flight)
        else:
            following = flight.after.get(call.step)
            waiting = flight.order.readers[call.step]
            for follower in waiting if following is None else (*waiting, following):
                missing = flight.missing.get(follower)
                if missing is not None:
                    flight.missing[follower] = missing - 1
                    if missing == 1:
                        self._push(call.request, flight, follower)
        return flight.values.keys() >= flight.order.wanted

    def fail(self, call: Call, lost: Iterable[str] = (), *, state_gone: bool = True) -> None:
        """Record a failed call, and schedule it again."""
        self._busy[call.device] -= 1
        flight = self.flights.get(call.request)
        if flight is None:
            return
        flight.running.pop(call, None)
        if state_gone:
            self._undo(flight, call.device)
        self.miss(call.request, lost)

    def miss(self, request: int, lost: Iterable[str]) -> None:
        """Record lost values of a request, and reschedule their steps."""
        flight = self.flights.get(request)
        if flight is not None:
            for name in lost:
                if name in flight.made_on:
                    flight.values.pop(name, None)
            self._plan(request, flight)

    def lose(self, device: str, *, values_too: bool) -> tuple[int, ...]:
        """Record a lost device with its values; return the affected requests."""
        self._up.discard(device)
        self._busy[device] = 0
        touched: list[int] = []
        for request, flight in self.flights.items():
            running = [call for call in flight.running if call.device == device]
            gone = [
                name
                for name, maker in flight.made_on.items()
                if values_too and maker == device and name in flight.values
            ]
            held = any(self._steps[index].device == device for index in flight.done)
            if running or gone or held:
                touched.append(request)
            for call in running:
                del flight.running[call]
            self._undo(flight, device)
            for name in gone:
                del flight.values[name]
            self._plan(request, flight)
        return tuple(touched)

    def restore(self, device: str) -> None:
        """Record that a device accepts calls."""
        self._up.add(device)

    def switch(
        self,
        version: int,
        steps: Sequence[Step],
        outputs: Sequence[str],
        replicas: Sequence[ReplicaSteps] = (),
        deal: Sequence[int] = (0,),
    ) -> None:
        """Switch to a later version: other steps, same outputs; sent values remain valid."""
        self._take(steps, outputs, replicas, deal)
        self.version = version
        known = {order.key: order for order in self._orders}
        for request, flight in self.flights.items():
            flight.order = known.get(flight.order.key) or self._dealt(request)
            flight.done.clear()
            self._plan(request, flight)

    def drop(self, request: int) -> bool:
        """Remove a request; return whether it existed. Calls under way keep their stream."""
        return self.flights.pop(request, None) is not None

    def running_on(self, device: str) -> tuple[Call, ...]:
        """Return calls under way on a device, earliest request first."""
        return tuple(
            call
            for flight in self.flights.values()
            for call in flight.running
            if call.device == device
        )

    def _take(
        self,
        steps: Sequence[Step],
        outputs: Sequence[str],
        replicas: Sequence[ReplicaSteps],
        deal: Sequence[int],
    ) -> None:
        self._steps = tuple(steps)
        self._deal = tuple(deal)
        self._orders = [
            _Order(self._steps, tuple(outputs), replica)
            for replica in replicas or (ReplicaSteps(0, len(steps)),)
        ]

    def _dealt(self, request: int) -> _Order:
        return self._orders[self._deal[request % len(self._deal)]]

    def _undo(self, flight: Flight, device: str) -> None:
        flight.done -= {i for i in flight.done if self._steps[i].device == device}

    def _plan(self, request: int, flight: Flight) -> None:
        """Recompute which steps a request needs, and what they wait for."""
        order = flight.order
        running = {call.step for call in flight.running if call.version == self.version}
        while True:
            needed = order.needed(flight, running)
            again = needed & flight.done
            if not again:
                break
            # A step that ran may have consumed its inputs: its device starts over.
            for device in {order.steps[index].device for index in again}:
                self._undo(flight, device)
        occupied = {call.device: call.step for call in flight.running if call.step in running}
        flight.round += 1
        flight.missing = {}
        counts, flight.after = order.waits(needed | running)
        for index in sorted(needed - running):
            waits = counts[index]
            # A device holds one state of a request: no step starts beside a later one, after whose
            # end the steps are recomputed.
            waits += index < occupied.get(order.steps[index].device, -1)
            flight.missing[index] = waits
            if not waits:
                self._push(request, flight, index)

    def _push(self, request: int, flight: Flight, index: int) -> None:
        heapq.heappush(self._ready[self._steps[index].device], (request, index, flight.round))
