"""A model whose replicas come and go, told again: second by second, with Ray Serve's own functions.

Times are whole seconds. Each instance has a device of its own, which runs batches in the order in
which they were sent. In each second what ends ends, what comes comes; then replicas are up or gone,
the router counts and tells, the controller decides, replicas start and are let go; then what waits
is sent, and devices start. What decides, counts and sums up is Ray Serve's code.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from hetsim.workload.autoscaling import Autoscaling
from oracles.ray_serve import RayServe

QUEUED = "queued"


@dataclass(eq=False)
class Replica:
    """One replica: in whose place, when it was started, up, let go, and gone."""

    place: int
    start: int
    state: str = "starting"
    due: int = 0
    under_way: int = 0
    times: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False)
class Batch:
    """Requests that one instance has."""

    requests: list[int]
    replica: Replica


class Autoscaled:
    """Play requests by the second in which they come.

    `service` has the seconds of a batch by its size less one, `load` those of loading a replica's
    weights over the one link, 0 where there is nothing to load.
    """

    def __init__(
        self,
        ray_serve: RayServe,
        config: Autoscaling,
        places: int,
        limit: int,
        service: list[int],
        load: int,
    ) -> None:
        self.ray_serve, self.config, self.limit = ray_serve, config, limit
        self.service, self.load = service, load
        self.theirs = ray_serve.config(config)
        self.store = ray_serve.store()
        self.policy_state: dict[str, Any] = {}
        self.target = config.initial
        self.free = list(range(places))
        self.alive: list[Replica] = []
        self.ever: list[Replica] = []
        self.link: deque[tuple[Replica, list[int]]] = deque()
        self.waiting: deque[int] = deque()
        self.lines: dict[int, deque[Batch]] = defaultdict(deque)
        self.running: dict[int, tuple[int, Batch]] = {}
        self.router: dict[Replica, int] = {}
        self.told: tuple[list[Any], dict[Replica, list[Any]]] = ([], {})
        self.answers: dict[int, tuple[int, int, int]] = {}
        self.sent: dict[int, int] = {}
        self.targets: list[int] = []
        for _ in range(config.initial):
            one = Replica(self.free.pop(0), 0, "running", times={"up": 0})
            self.alive.append(one)
            self.ever.append(one)

    def play(self, arrivals: list[int]) -> None:
        coming = deque(enumerate(arrivals))
        now = 0
        while True:
            self.ends(now)
            while coming and coming[0][1] == now:
                self.waiting.append(coming.popleft()[0])
            if not coming and len(self.answers) == len(arrivals):
                return
            self.changes(now)
            self.decides(now)
            self.targets.append(self.target)
            self.sends(now)
            now += 1

    def ends(self, now: int) -> None:
        for place, (end, batch) in list(self.running.items()):
            if end == now:
                del self.running[place]
                batch.replica.under_way -= 1
                self.router[batch.replica] -= len(batch.requests)
                for request in batch.requests:
                    self.answers[request] = (self.sent[request], now, place)

    def changes(self, now: int) -> None:
        """Replicas that are up, or gone."""
        if self.link and self.link[0][1][0] == now:
            one, _ = self.link.popleft()
            if self.link:
                self.link[0][1][0] = now + self.load
            self.is_up(one, now)
        for one in list(self.alive):
            if one.state == "starting" and one.due == now:
                self.begins_load(one, now)
            elif one.state == "leaving" and one.due == now:
                if one.under_way:
                    one.due += int(self.config.graceful_shutdown_wait_loop_s)
                else:
                    self.is_gone(one, now)
        self.follow(now)

    def begins_load(self, one: Replica, now: int) -> None:
        if not self.load:
            self.is_up(one, now)
            return
        one.state = "loading"
        self.link.append((one, [now + self.load if not self.link else -1]))

    def is_up(self, one: Replica, now: int) -> None:
        if "left" in one.times:
            self.is_gone(one, now)
        else:
            one.state, one.times["up"] = "running", now

    def is_gone(self, one: Replica, now: int) -> None:
        one.times["gone"] = now
        self.alive.remove(one)
        self.free = sorted([*self.free, one.place])

    def follow(self, now: int) -> None:
        """Start and stop what the target asks for; tell the router who runs."""
        staying = [one for one in self.alive if "left" not in one.times]
        for _ in range(min(self.target - len(staying), len(self.free))):
            one = Replica(self.free.pop(0), now, due=now + int(self.config.startup_s))
            self.alive.append(one)
            self.ever.append(one)
            if one.due == now:
                self.begins_load(one, now)
        newest = sorted(staying, key=lambda one: -self.ever.index(one))
        order = [one for one in newest if one.state != "running"]
        order += [one for one in newest if one.state == "running"]
        for one in order[: max(len(staying) - self.target, 0)]:
            one.times["left"] = now
            if one.state == "running":
                one.state = "leaving"
                one.due = now + int(self.config.graceful_shutdown_wait_loop_s)
            elif one.state == "starting":
                self.is_gone(one, now)
        runs = self.runs()
        self.router = {one: many for one, many in self.router.items() if many or one in runs}

    def runs(self) -> list[Replica]:
        return [one for one in self.alive if one.state == "running"]

    def decides(self, now: int) -> None:
        config, back = self.config, self.config.look_back_period_s
        if now % config.record_interval_s == 0:
            self.store.add_metrics_point({QUEUED: len(self.waiting)}, now)
            self.store.add_metrics_point(dict(self.router), now)
            self.store.prune_keys_and_compact_data(now - back)
        if now % config.metrics_interval_s == 0:
            self.store.prune_keys_and_compact_data(now - back)
            self.told = (
                list(self.store.data[QUEUED]),
                {
                    one: list(self.store.data.get(one, self.ray_serve.points([(now, many)])))
                    for one, many in self.router.items()
                },
            )
        runs = self.runs()
        queued, each = self.told
        series = [queued, *(points for one, points in each.items() if one in runs)]
        plain = [[(point.timestamp, point.value) for point in one] for one in series]
        total = self.ray_serve.total(plain, now, str(config.aggregation_function))
        self.ray_serve.now_s = now
        self.target, self.policy_state = self.ray_serve.target(
            self.theirs, total, len(runs), self.target, self.policy_state
        )
        self.follow(now)

    def sends(self, now: int) -> None:
        while self.waiting:
            ready = [one for one in self.runs() if one.under_way < self.limit]
            if not ready:
                break
            one = min(ready, key=lambda each: (each.under_way, each.place))
            many = min(len(self.service), len(self.waiting))
            batch = Batch([self.waiting.popleft() for _ in range(many)], one)
            one.under_way += 1
            self.router[one] = self.router.get(one, 0) + many
            for request in batch.requests:
                self.sent[request] = now
            self.lines[one.place].append(batch)
        for place, line in self.lines.items():
            if line and place not in self.running:
                batch = line.popleft()
                self.running[place] = (now + self.service[len(batch.requests) - 1], batch)
