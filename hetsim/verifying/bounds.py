"""Linear bounds: why no deployment on a vector, whatever its policy, meets the objectives.

A device of type q has a capacity, so has each link of a kind, and a vector the sum of those of its
devices and links. Each bound says how much there must be. In `rate`, `window` and `pooled` requests
are worth something, and what a batch takes of devices and links is worth no less by their capacity
than its requests, in any way of serving them that can be on time (dual feasibility, checked way by
way); what must be on time is worth at least so much. In `needs` something must be there at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hetsim.verifying.node import Node
from hetsim.verifying.question import Array, Question
from hetsim.verifying.statistic import NEVER_S, estimated

CLOSE = 1e-12
"""By how much sums of floats may be off."""

MARGIN = 1e-9
"""By how much a vector must fall short of a bound."""

TICKS = 1 << 60
"""A second."""

Slos = list[int | None]
"""Which objective of each stream a bound is about, if any."""


class Way(NamedTuple):
    """How a batch of a class is served: on one of each of these kinds, what it takes at least.

    `strategy`: what it was planned by; an instance runs the ways of one strategy.

    `devices`: (which of `kinds`, which device of that, seconds) each; `links`: seconds of those of
    the first of `kinds`, then of the next.
    """

    of: int
    batch: int
    alone_s: float
    strategy: str
    kinds: list[int]
    devices: list[tuple[int, int, float]]
    links: list[float]


class Capacity(NamedTuple):
    """Of a device by type; of the links of a kind."""

    devices: list[float]
    links: list[list[float]]


class Bound(NamedTuple):
    """Vectors of less capacity, summed over kinds, are excluded; what verdicts in it may err by.

    `prices` are the capacity of each device and link, `worth` that of each class, and `limits`
    within which it is; the last two are empty of `needs`.
    """

    capacity: Array
    least: float
    error: float
    prices: Capacity
    worth: list[float]
    limits: list[float]
    losses: int
    devices: list[tuple[float, int]]

    def excludes(self, counts: Array) -> Array:
        """Return which of the vectors [vectors, kinds] it excludes.

        Without the devices of most capacity, as many as may be lost: `devices` has the capacity of
        each device of each kind, the most first.
        """
        left = counts @ self.capacity
        free = np.full(len(counts), self.losses)
        for capacity, kind in self.devices if self.losses else []:
            taken = np.minimum(free, counts[:, kind])
            left = left - taken * capacity
            free = free - taken
        found: Array = left < self.least * (1 - MARGIN)
        return found

    def earned(self, way: Way, question: Question) -> float:
        """What a batch earns of what it takes by the capacity; 0 where it is late."""
        if way.alone_s > self.limits[way.of] or not self.worth[way.of]:
            return 0.0
        takes = _takes(way, self.prices, question)
        return min(self.worth[way.of] * way.batch / takes, 1.0) if takes else 1.0


def ways_of(root: Node, question: Question) -> list[Way]:
    """Read the ways to serve a batch, and what they take at least."""
    found = []
    for node in root["ways"].rows():
        node.fields("class batch alone_s strategy kinds devices links")
        kinds = node["kinds"].places(question.kinds)
        devices = []
        for row in node["devices"].rows(1000):
            parts = row.rows(length=3)
            unit = parts[0].place(kinds)
            place = parts[1].place(question.kinds[kinds[unit]].devices)
            devices.append((unit, place, parts[2].number()))
        if len({one[:2] for one in devices}) != len(devices):
            node["devices"].broken("a device twice")
        if {unit for unit, _, _ in devices} != set(range(len(kinds))):
            node["kinds"].broken("no device, or none of one of them")
        count = sum(question.kinds[kind].links for kind in kinds)
        found.append(
            Way(
                node["class"].place(question.classes),
                node["batch"].whole(1, 10_000),
                node["alone_s"].number(),
                node["strategy"].text(),
                kinds,
                devices,
                [one.number() for one in node["links"].rows(length=count)],
            )
        )
    return found


def bounds_of(root: Node, question: Question, ways: Sequence[Way]) -> list[Bound]:
    """Read the bounds, and check how each was come by. Raises Untrue."""
    found = []
    known: dict[str, float] = {}
    for node in root["bounds"].rows(1000):
        by = node.having("by")["by"].text(*CHECKS)
        rows = node.having("capacity")["capacity"].rows(length=len(question.streams_of))
        links = node.having("links")["links"].rows(length=len(question.kinds))
        capacity = Capacity(
            [one.number() for one in rows],
            [
                [one.number() for one in row.rows(length=kind.links)]
                for row, kind in zip(links, question.kinds, strict=True)
            ],
        )
        error = CHECKS[by](node, capacity, question, ways)
        if error:
            # One verdict, however many bounds rest on it.
            what = repr([node[key].value for key in ("slo", "least", "requests")])
            known[what], error = (
                max(known.get(what, 0.0), error),
                max(error - known.get(what, 0.0), 0.0),
            )
        by_kind = [
            sum(capacity.devices[device] for device in kind.devices) + sum(own)
            for kind, own in zip(question.kinds, capacity.links, strict=True)
        ]
        worth, limits = [], []
        if by != "needs":
            worth = [one.number() for one in node["worth"].rows()]
            slos = _slos(node, question)
            limits = [question.limit(of, slos) for of in range(len(question.classes))]
        devices = [
            (capacity.devices[device], at)
            for at, kind in enumerate(question.kinds)
            for device in kind.devices
        ]
        devices.sort(reverse=True)
        found.append(
            Bound(
                np.array(by_kind), node["least"].number(), error, capacity, worth, limits,
                question.losses, devices,
            )
        )  # fmt: skip
    return found


def _slos(node: Node, question: Question) -> Slos:
    """The objective of each stream that a bound is about."""
    rows = node["slo"].rows(length=len(question.streams))
    found = [
        None if one.value is None else one.place(stream.slos)
        for one, stream in zip(rows, question.streams, strict=True)
    ]
    if all(one is None for one in found):
        node["slo"].broken("no objective")
    return found


def _worth(
    node: Node, capacity: Capacity, question: Question, ways: Sequence[Way], slos: Slos
) -> list[float]:
    """Return what each class is worth; no way to serve it takes what is worth less."""
    worth = [one.number() for one in node["worth"].rows(length=len(question.classes))]
    limits = [question.limit(of, slos) for of in range(len(worth))]
    for at, way in enumerate(ways):
        if way.alone_s > limits[way.of]:
            continue
        takes = _takes(way, capacity, question)
        if takes < worth[way.of] * way.batch * (1 - CLOSE):
            node["capacity"].untrue(
                f"way {at} takes what is worth {takes:.6g}, and a batch of {way.batch} of class "
                f"{way.of} earns {worth[way.of] * way.batch:.6g}"
            )
    # What has no way at all is worth what it says; what is asked of nobody, nothing.
    return [one if limit >= 0 else 0.0 for one, limit in zip(worth, limits, strict=True)]


def _takes(way: Way, capacity: Capacity, question: Question) -> float:
    """What a batch takes of devices and links, by their capacity."""
    found = 0.0
    for unit, place, seconds in way.devices:
        device = question.kinds[way.kinds[unit]].devices[place]
        found += capacity.devices[device] * seconds / question.streams_of[device]
    each = [one for kind in way.kinds for one in capacity.links[kind]]
    return found + sum(one * seconds for one, seconds in zip(each, way.links, strict=True))


def _least(node: Node, most: float) -> None:
    if node["least"].number() > most * (1 + CLOSE):
        node["least"].untrue(f"more than {float(most)!r}, which is all that it must be")


def _rate(node: Node, capacity: Capacity, question: Question, ways: Sequence[Way]) -> float:
    node.fields("by capacity links least slo worth")
    if not question.sampled:
        node["by"].broken("a trace has no rate")
    slos = _slos(node, question)
    worth = _worth(node, capacity, question, ways, slos)
    total = 0.0
    for stream, slo in enumerate(slos):
        if slo is not None:
            asks = [
                (question.rates[at], worth[question.asks[at][1]]) for at in question.asks_of(stream)
            ]
            late = 1 - question.streams[stream].slos[slo][0]
            total += sum(rate * each for rate, each in asks)
            total -= late * question.rate_of(stream) * max(each for _, each in asks)
    _least(node, total)
    return 0.0


def _window(node: Node, capacity: Capacity, question: Question, ways: Sequence[Way]) -> float:
    node.fields("by capacity links least slo worth from to")
    if question.sampled or not len(question.time):
        node["by"].broken("arrivals that are drawn, or none")
    slos = _slos(node, question)
    worth = _worth(node, capacity, question, ways, slos)
    first = node["from"].place(question.time)
    last = node["to"].whole(first, len(question.time) - 1)
    total = 0.0
    for stream, slo in enumerate(slos):
        if slo is not None:
            asks = question.asks_of(stream)
            came = question.ask[first : last + 1][question.judged(stream)[first : last + 1]]
            total += sum(np.count_nonzero(came == at) * worth[question.asks[at][1]] for at in asks)
            dearest = max(worth[question.asks[at][1]] for at in asks)
            total -= max(question.may_be_late(stream, slo), 0) * dearest
    largest = max(question.limit(of, slos) for of in range(len(question.classes)))
    seconds = float(question.time[last]) + largest - float(question.time[first])
    _least(node, total / seconds)
    return 0.0


def _pooled(node: Node, capacity: Capacity, question: Question, ways: Sequence[Way]) -> float:
    node.fields("by capacity links least slo worth" + " error requests" * question.sampled)
    slos = _slos(node, question)
    worth = _worth(node, capacity, question, ways, slos)
    streams = [stream for stream, slo in enumerate(slos) if slo is not None]
    for at, (stream, of) in enumerate(question.asks):
        if stream in streams and worth[of] < 1 - CLOSE:
            node["worth"][of].untrue(f"ask {at} is worth less than 1")
    mine = np.zeros(len(question.time), bool)
    for stream in streams:
        mine |= question.judged(stream)
    if question.sampled:
        mine[node["requests"].whole(1, len(mine)) :] = False
    largest = max(question.limit(of, slos) for of in range(len(question.classes)))
    finish, fresh = greedy(question.time[mine], node["least"].above(), largest)
    late = int(np.count_nonzero(np.isinf(finish)))
    if not question.sampled:
        most = sum(question.may_be_late(s, slo) for s, slo in enumerate(slos) if slo is not None)
        if late <= most:
            node["least"].untrue(f"{late} late at that rate, and {most} may be")
        return 0.0
    rates = [(question.rate_of(s), question.streams[s].slos[slo][0])
             for s, slo in enumerate(slos) if slo is not None]  # fmt: skip
    share = sum(rate * on_time for rate, on_time in rates) / sum(rate for rate, _ in rates)
    error = node["error"].above(0, 0.5)
    waited = np.where(np.isinf(finish), NEVER_S, finish - question.time[mine])
    if not len(waited) or estimated(waited, fresh, share, largest, error) != "misses":
        node["least"].untrue("the arrivals do not say that this rate misses")
    return error


def greedy(time: Array, rate: float, limit: float) -> tuple[Array, Array]:
    """Return when one server of `rate` requests a second ends each; infinite: left out as late.

    In the order of arrival, leaving out what would be late. All are as long and may wait as long,
    so that none is better left out than the one that is late first: the fewest late of any
    order, also where a request may be interrupted. In whole ticks, rounded to fewer late ones.
    """
    each = int(TICKS / Fraction(rate))
    waits = int(limit * TICKS) + 1
    free = 0
    finish = np.full(len(time), np.inf)
    fresh = np.zeros(len(time), bool)
    for k, came in enumerate(int(one * TICKS) for one in time.tolist()):
        fresh[k] = free <= came
        end = max(free, came) + each
        if end <= came + waits:
            free = end
            finish[k] = end / TICKS
    return finish, fresh


def _needs(node: Node, capacity: Capacity, question: Question, ways: Sequence[Way]) -> float:
    """This ask is more than may be late, and the devices of each way for it have 1 or more."""
    node.fields("by capacity links least ask slo")
    ask = node["ask"].place(question.asks)
    stream, of = question.asks[ask]
    slo = node["slo"].place(question.streams[stream].slos)
    share, limit = question.streams[stream].slos[slo]
    if question.sampled:
        enough = question.rates[ask] > (1 - share) * question.rate_of(stream) * (1 + CLOSE)
    else:
        came = question.judged(stream) & (question.ask == ask)
        enough = int(came.sum()) > question.may_be_late(stream, slo)
    if not enough:
        node["ask"].untrue("so few that all of them may be late")
    _least(node, 1.0)
    for at, way in enumerate(ways):
        types = [question.kinds[way.kinds[unit]].devices[place] for unit, place, _ in way.devices]
        there = sum(capacity.devices[device] for device in types)
        if way.of == of and way.alone_s <= limit and there < 1 - CLOSE:
            node["capacity"].untrue(f"{there!r}, less than 1 of what would do: way {at}")
    return 0.0


CHECKS = {
    "rate": _rate,
    "window": _window,
    "pooled": _pooled,
    "needs": _needs,
}
