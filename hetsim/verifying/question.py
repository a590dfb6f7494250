"""What was asked, as the certificate tells it: kinds and prices, requests and objectives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np

from hetsim.verifying.node import Node
from hetsim.verifying.playing import ACTIONS, ROUTINGS
from hetsim.verifying.statistic import may_be_late

HOURS_A_YEAR = 8766
MOST_REQUESTS = 4_000_000
MOST_DEVICES = 20_000
INTERVALS, ERRORS = 32, 6.0
"""Of equal length, by which the rate of arrivals is told, and how many standard errors it may be
off by: a right one is off by more once in hundreds of thousands."""
UNITS = {"cost": 10**9, "energy": 10**6, "devices": 1}
WORDS = {"cost": "USD an hour", "energy": "W", "devices": "devices"}
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be had: so many of it at most; devices and links of one, what it costs in units."""

    name: str
    devices: list[int]
    links: int
    counts: int
    most: int
    cost: int


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests of a model: (share on time, latency) each objective."""

    model: int
    level: int
    slos: list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to serve that was tried: how models are placed, routed, batched and queued.

    `refused`: a type of device, and models that do not fit it together, each.
    """

    placement: str
    routing: str
    max_batch: int
    limit: int | None
    delay_s: float
    preferred: list[int]
    max_queue_size: int | None
    timeout_s: float
    delays: bool
    refused: tuple[tuple[int, frozenset[int]], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """All of it, with the requests that come: `time`, and which ask each of them `is`.

    `came`: of each ask the arrivals, their rate, and how far a rate may be off and agree with them.
    """

    objective: str
    sampled: bool
    error: float
    streams_of: list[int]
    kinds: list[Kind]
    limits: list[tuple[list[int], int, int]]
    max_devices: int
    losses: int
    models: int
    classes: list[int]
    streams: list[Stream]
    asks: list[tuple[int, int]]
    rates: list[float]
    came: list[tuple[int, float, float]]
    policies: list[Policy]
    warm_up_s: float
    time: Array
    ask: Array

    def asks_of(self, stream: int) -> list[int]:
        """Return the asks of a stream."""
        return [at for at, (own, _) in enumerate(self.asks) if own == stream]

    def rate_of(self, stream: int) -> float:
        """Return the requests a second of a stream."""
        return sum(self.rates[at] for at in self.asks_of(stream))

    def judged(self, stream: int) -> Array:
        """Return which requests are of a stream, and are judged."""
        return np.isin(self.ask, self.asks_of(stream)) & (self.time >= self.warm_up_s)

    def may_be_late(self, stream: int, slo: int) -> int:
        """Return how many requests of a trace may be late."""
        requests = int(np.count_nonzero(self.judged(stream)))
        return may_be_late(requests, self.streams[stream].slos[slo][0])

    def limit(self, of: int, slos: list[int | None]) -> float:
        """Return the largest limit that these objectives, by stream, set a class; -1: none does."""
        found = [-1.0]
        for stream, own in self.asks:
            slo = slos[stream]
            if own == of and slo is not None:
                found.append(self.streams[stream].slos[slo][1])
        return max(found)

    def of_model(self, model: int) -> list[int]:
        """Return the classes of a model."""
        return [at for at, own in enumerate(self.classes) if own == model]

    def devices_of(self, counts: list[int]) -> list[tuple[int, int]]:
        """Return (kind, place in it) of the devices of a vector, copy after copy of each kind."""
        return [
            (at, place)
            for at, (kind, count) in enumerate(zip(self.kinds, counts, strict=True))
            for _ in range(count)
            for place in range(len(kind.devices))
        ]

    def first_of(self, counts: list[int], kind: int, copy: int) -> tuple[int, int]:
        """Return the first device and the first link of a copy of a kind on a vector."""
        before = list(zip(self.kinds, counts, strict=True))[:kind]
        devices = sum(n * len(one.devices) for one, n in before)
        links = sum(n * one.links for one, n in before)
        own = self.kinds[kind]
        return devices + copy * len(own.devices), links + copy * own.links

    def cost(self, counts: list[int]) -> int:
        """Return what a vector costs, in units."""
        return sum(kind.cost * count for kind, count in zip(self.kinds, counts, strict=True))

    def told(self, counts: Sequence[int]) -> str:
        """Return a vector in words."""
        each = zip(counts, self.kinds, strict=True)
        names = " + ".join(f"{n} {kind.name[:60]}" for n, kind in each if n)
        cost = self.cost(list(counts)) / UNITS[self.objective]
        return f"{names or 'nothing'} ({cost:.10g} {WORDS[self.objective]})"

    def allows(self, counts: list[int]) -> bool:
        """Whether a vector is one of those that could be had."""
        many = sum(kind.counts * count for kind, count in zip(self.kinds, counts, strict=True))
        return (
            many <= self.max_devices
            and all(n <= kind.most for n, kind in zip(counts, self.kinds, strict=True))
            and all(
                least <= sum(a * n for a, n in zip(of, counts, strict=True)) <= most
                for of, least, most in self.limits
            )
        )


def question_of(root: Node) -> Question:
    """Read and check the question and the arrivals of a certificate."""
    node = root["question"].fields(
        "objective max_devices error demand warm_up_s devices kinds limits models classes "
        "streams asks policies",
        "losses",
    )
    objective = node["objective"].text(*UNITS)
    sampled = node["demand"].text("trace", "sampled") == "sampled"
    devices = [one.fields("name streams") for one in node["devices"].rows(1000)]
    models = [one.fields("name") for one in node["models"].rows(1000)]
    for one in (*devices, *models):
        one["name"].text()
    kinds = [_kind(one, objective, len(devices)) for one in node["kinds"].rows(64)]
    if sum(kind.most * max(kind.cost, 1) for kind in kinds) >= 1 << 62:
        node["kinds"].broken("costs are too large to be added up")
    if not kinds or not node["policies"].rows(1000):
        node.broken("no kinds, or no policies")
    if sum(kind.most * (len(kind.devices) + kind.links) for kind in kinds) > MOST_DEVICES:
        node["kinds"].broken(f"more than {MOST_DEVICES} devices and links")
    limits = []
    for one in node["limits"].rows(1000):
        one.fields("of at_least at_most")
        of = [each.whole(-(10**6), 10**6) for each in one["of"].rows(length=len(kinds))]
        least, most = (one[key].whole(-(10**9), 10**9) for key in ("at_least", "at_most"))
        limits.append((of, least, most))
    classes = []
    for one in node["classes"].rows(1000):
        one.fields("model variant")["variant"].text()
        classes.append(one["model"].place(models))
    streams = []
    for one in node["streams"].rows(1000):
        one.fields("name model level slos")["name"].text()
        slos = [slo.rows(length=2) for slo in one["slos"].rows(100)]
        pairs = [(share.above(0, 1 - 1e-12), limit.above()) for share, limit in slos]
        streams.append(Stream(one["model"].place(models), one["level"].whole(0, 127), pairs))
    if not any(stream.slos for stream in streams):
        node["streams"].broken("no objective")
    asks: list[tuple[int, int]] = []
    rates: list[float] = []
    for one in node["asks"].rows(10_000):
        one.fields("stream class rate_per_s")
        stream, at = one["stream"].place(streams), one["class"].place(classes)
        if classes[at] != streams[stream].model:
            one["class"].broken("of another model than the stream's")
        if not sampled and one["rate_per_s"].value is not None:
            one["rate_per_s"].broken("a trace has none")
        asks.append((stream, at))
        rates.append(one["rate_per_s"].above() if sampled else 0.0)
    if {stream for stream, _ in asks} != set(range(len(streams))) or len(set(asks)) != len(asks):
        node["asks"].broken("a stream without requests, or an ask twice")
    time, ask = _arrivals(root["arrivals"], len(asks))
    came = [_came(time, time[ask == at], rates[at]) for at in range(len(asks))]
    for one, rate, (count, per_s, off) in zip(node["asks"].rows(10_000), rates, came, strict=True):
        if sampled and abs(rate - per_s) > off:
            one["rate_per_s"].untrue(
                f"{rate:.6g} a second, and the {count:,} arrivals come at {per_s:.6g} "
                f"({max(per_s - off, 0):.6g} to {per_s + off:.6g})"
            )
    return Question(
        objective=objective,
        sampled=sampled,
        error=node["error"].number(0, 0.5),
        streams_of=[one["streams"].whole(1, 10_000) for one in devices],
        kinds=kinds,
        limits=limits,
        max_devices=node["max_devices"].whole(0, 10**6),
        losses=node["losses"].whole(1, 16) if "losses" in node else 0,
        models=len(models),
        classes=classes,
        streams=streams,
        asks=asks,
        rates=rates,
        came=came,
        policies=[_policy(one, len(devices), len(models)) for one in node["policies"].rows(1000)],
        warm_up_s=node["warm_up_s"].number(),
        time=time,
        ask=ask,
    )


def _maybe(node: Node) -> int | None:
    return None if node.value is None else node.whole()


def _kind(node: Node, objective: str, devices: int) -> Kind:
    node.fields("name devices links counts most price cost")["name"].text()
    found = Kind(
        name=node["name"].text(),
        devices=node["devices"].places(range(devices)),
        links=node["links"].whole(0, 10_000),
        counts=node["counts"].whole(0, 1000),
        most=node["most"].whole(0, 10_000),
        cost=node["cost"].whole(),
    )
    price = Fraction(found.counts)
    if objective == "energy":
        price = _decimal(node["price"].fields("power_w")["power_w"])
    elif objective == "cost" and "usd_per_hour" in node["price"].fields(
        "", "usd_per_hour usd years power_w usd_per_kwh"
    ):
        price = _decimal(node["price"].fields("usd_per_hour")["usd_per_hour"])
    elif objective == "cost":
        paid = node["price"].fields("usd years", "power_w usd_per_kwh")
        price = _decimal(paid["usd"]) / max(_decimal(paid["years"]), Fraction(1, 10**6))
        price /= HOURS_A_YEAR
        if "power_w" in paid or "usd_per_kwh" in paid:
            paid.fields("usd years power_w usd_per_kwh")
            price += _decimal(paid["power_w"]) * _decimal(paid["usd_per_kwh"]) / 1000
    else:
        node["price"].fields("")
    if found.cost != (exact := round(price * UNITS[objective])):
        node["cost"].untrue(f"the price makes {exact}, not {found.cost}")
    return found


def _decimal(node: Node) -> Fraction:
    text = node.text()
    try:
        value = Decimal(text) if len(text) <= 40 else Decimal(-1)
    except InvalidOperation:
        value = Decimal(-1)
    # An exponent may be enormous: 1e-999999999 is a short text, and no short fraction.
    if not value.is_finite() or value < 0 or abs(value.adjusted()) > 30:
        node.broken("no decimal number from 0 on")
    return Fraction(value)


def _policy(node: Node, devices: int, models: int) -> Policy:
    node.fields(
        "name placement routing max_batch limit delay_s preferred max_queue_size timeout_s "
        "timeout_action",
        "refused",
    )["name"].text()
    refused = []
    for one in node["refused"].rows(10_000) if "refused" in node else []:
        device, together = one.rows(length=2)
        refused.append((device.place(range(devices)), frozenset(together.places(range(models)))))
    timeout = node["timeout_s"]
    return Policy(
        placement=node["placement"].text(),
        routing=node["routing"].text(*ROUTINGS),
        max_batch=node["max_batch"].whole(1, 10_000),
        limit=None if node["limit"].value == "streams" else node["limit"].whole(0, 10_000),
        delay_s=node["delay_s"].number(),
        preferred=[one.whole(1, 10_000) for one in node["preferred"].rows(10_000)],
        max_queue_size=_maybe(node["max_queue_size"]),
        timeout_s=math.inf if timeout.value is None else timeout.above(),
        delays=node["timeout_action"].text(*ACTIONS) == "delay",
        refused=tuple(refused),
    )


def _came(all_s: Array, own_s: Array, rate: float) -> tuple[int, float, float]:
    """Return how many arrivals there are, their rate, and how far from it a right one may be.

    By how much intervals differ, which arrivals that come in bursts or waves do; no less than
    independent ones would. Infinite where nothing comes after the first moment.
    """
    end_s = float(all_s[-1]) if len(all_s) else 0.0
    if not end_s:
        return len(own_s), 0.0, math.inf
    counts = np.histogram(own_s, INTERVALS, (0.0, end_s))[0]
    variance = max(INTERVALS * float(counts.var(ddof=1)), len(own_s), rate * end_s)
    return len(own_s), len(own_s) / end_s, (ERRORS * math.sqrt(variance) + 1) / end_s


def _arrivals(node: Node, asks: int) -> tuple[Array, Array]:
    if node.value is None:
        return np.zeros(0), np.zeros(0, np.uint16)
    requests = node.fields("requests time_s ask")["requests"].whole(1, MOST_REQUESTS)
    time = node["time_s"].array("<f8", requests)
    ask = node["ask"].array("<u2", requests)
    if not (np.isfinite(time).all() and (time[1:] >= time[:-1]).all() and time[0] >= 0):
        node["time_s"].broken("times do not ascend from 0 on")
    if time[-1] > 1e12 or ask.max() >= asks:
        node.broken("later than 1e12 s, or of no ask")
    return time, ask
