"""Replicas of one model that start, run, go and are gone, each in the place of an instance.

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

from hetsim.workloads.autoscaling import Autoscaling


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
        self._alive: list[int] = []
        self._due_s: dict[int, float] = {}
        self.ever: list[Replica] = []
        for place in self._free[: config.initial]:
            self._alive.append(len(self.ever))
            self.ever.append(Replica(place, 0.0, 0.0))
        del self._free[: config.initial]

    @property
    def running(self) -> tuple[int, ...]:
        """Those that get requests, numbered as in `ever`."""
        return tuple(k for k in self._alive if self.ever[k].runs)

    @property
    def alive(self) -> Sequence[int]:
        """Those that are not gone."""
        return tuple(self._alive)

    @property
    def next_s(self) -> float:
        """When one of them has started, or looks whether it can go."""
        return min(self._due_s.values(), default=math.inf)

    def loaded(self, place: int, now_s: float) -> None:
        """The weights of the replica in a place are there."""
        number = next(k for k in self._alive if self.ever[k].place == place)
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
        staying = [k for k in self._alive if self.ever[k].leave_s == math.inf]
        while len(staying) < target and self._free:
            number = len(self.ever)
            staying.append(number)
            self._alive.append(number)
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
        self._alive.remove(number)
        self._free.append(one.place)
        self._free.sort()


def _after(now_s: float, seconds: float) -> float:
    """So many seconds above 0 later, later than now however late that is."""
    return max(now_s + seconds, math.nextafter(now_s, math.inf))
