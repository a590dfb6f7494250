"""Bounds of questions that were drawn, of every sort that fits, and what they exclude."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from made_questions import Json, Made


def bounds_of(made: Made) -> list[Json]:
    """All sorts that fit."""
    found: list[Json] = []
    slos = [0] * len(made.streams)
    limit = {c: made.streams[m]["slos"][0][1] for m, c in made.asks}
    none = [[0.0] * kind["links"] for kind in made.kinds]
    for ask, (_, c) in enumerate(made.asks):
        useful = [w for w in made.ways if w["class"] == c and w["alone_s"] <= limit[c]]
        # Of two devices one, whichever of them, is a half.
        able = [
            (0.5 if made.split else 1.0)
            * any(q in made.types_of(way) for way in useful)
            for q in range(3)
        ]  # fmt: skip
        found.append({"by": "needs", "ask": ask, "slo": 0, "capacity": able, "links": none,
                      "least": 1.0})  # fmt: skip
    for with_links, worth in itertools.product((False, True), _weights(made)):
        capacity = [0.0] * 3
        links = [[0.0] * kind["links"] for kind in made.kinds]
        for way in made.ways:
            if way["alone_s"] > limit[way["class"]]:
                continue
            types = made.types_of(way)
            takes = sum(
                one[2] / made.streams_of[q]
                for one, q in zip(way["devices"], types, strict=True)
            ) + with_links * sum(way["links"])  # fmt: skip
            each = worth[way["class"]] * way["batch"] / takes
            for q in types:
                capacity[q] = max(capacity[q], each)
            for k in way["kinds"]:
                links[k] = [max(one, each * with_links) for one in links[k]]
        bound = {"capacity": capacity, "links": links, "slo": slos, "worth": worth}
        if made.sampled:
            found.append({"by": "rate", **bound, "least": _rate(made, worth)})
        else:
            found.append({"by": "window", **bound, **_window(made, worth, limit)})
            found.append({"by": "pooled", **bound, "least": _pooled(made, max(limit.values()))})
            if min(worth) < 1 or found[-1]["least"] <= 0:
                found.pop()
    return found


def _weights(made: Made) -> list[list[float]]:
    return [[1.0] * len(made.classes), made.rng.uniform(0.5, 2, len(made.classes)).tolist()]


def _rate(made: Made, weights: list[float]) -> float:
    total = 0.0
    for s, stream in enumerate(made.streams):
        mine = made.asks_of(s)
        total += sum(made.rates[ask] * weights[made.asks[ask][1]] for ask in mine)
        late = (1 - stream["slos"][0][0]) * sum(made.rates[ask] for ask in mine)
        total -= late * max(weights[made.asks[ask][1]] for ask in mine)
    return total


def _may(made: Made, stream: int) -> int:
    count = int(np.isin(made.ask, made.asks_of(stream)).sum())
    share = made.streams[stream]["slos"][0][0]
    return max(late for late in range(count + 1) if count - late >= share * count)


def _window(made: Made, weights: list[float], limit: dict[int, float]) -> Json:
    each = np.array([weights[made.asks[ask][1]] for ask in made.ask])
    dear = sum(
        _may(made, s) * max(weights[made.asks[ask][1]] for ask in made.asks_of(s))
        for s in range(len(made.streams))
    )
    whole = float(made.time[-1]) + max(limit.values()) - float(made.time[0])
    least = (float(each.sum()) - dear) / whole
    return {"from": 0, "to": len(each) - 1, "least": max(least, 0.0) * (1 - 1e-9)}


def _pooled(made: Made, limit: float) -> float:
    most = sum(_may(made, s) for s in range(len(made.streams)))
    low, high = 0.0, 1000.0
    for _ in range(30):
        rate = (low + high) / 2
        free, late = -math.inf, 0
        for came in made.time.tolist():
            if max(free, came) + 1 / rate > came + limit + 1e-6:
                late += 1
            else:
                free = max(free, came) + 1 / rate
        low, high = (rate, high) if late > most else (low, rate)
    return low


def _add(
    made: Made, worth: dict[tuple[int, ...], float], bound: Json, way: Json, copies: list[int]
) -> None:
    """Raise what devices and links are worth to the part that a way earns of them."""
    prices: dict[tuple[int, ...], tuple[float, float]] = {}
    for (unit, place, seconds), q in zip(way["devices"], made.types_of(way), strict=True):
        key = (way["kinds"][unit], copies[unit], 0, place)
        prices[key] = bound["capacity"][q], seconds / made.streams_of[q]
    links = iter(way["links"])
    for kind, copy in zip(way["kinds"], copies, strict=True):
        for link, price in enumerate(bound["links"][kind]):
            prices[kind, copy, 1, link] = price, next(links)
    takes = sum(price * seconds for price, seconds in prices.values())
    part = bound["worth"][way["class"]] * way["batch"] / takes
    for key, (price, _) in prices.items():
        worth[key] = max(worth.get(key, 0.0), price * part)


def too_little(made: Made, bounds: list[Json], models: list[Any], policy: Json) -> int | None:
    """The first bound that excludes what a policy makes of devices and links."""
    limit = [made.streams[m]["slos"][0][1] for m, _ in made.classes]
    for number, bound in enumerate(bounds):
        if bound["by"] == "needs":
            continue
        worth: dict[tuple[int, ...], float] = {}
        for m, instances in enumerate(models):
            for one in instances:
                first = made.ways[made.templates[one["templates"][0][0]]["way"]]
                for way in made.ways:
                    on = [row[:2] for row in way["devices"]]
                    if (
                        (way["kinds"], on) != (first["kinds"], [d[:2] for d in first["devices"]])
                        or made.classes[way["class"]][0] != m
                        or way["batch"] > policy["max_batch"]
                        or way["alone_s"] > limit[way["class"]]
                    ):
                        continue
                    _add(made, worth, bound, way, one["copies"])
        if sum(worth.values()) < bound["least"] * (1 - 1e-9):
            return number
    return None


def excludes(made: Made, bound: Json, counts: tuple[int, ...]) -> bool:
    """Whether a bound excludes a vector."""
    there = sum(
        n * (sum(bound["capacity"][q] for q in kind["devices"]) + sum(links))
        for n, kind, links in zip(counts, made.kinds, bound["links"], strict=True)
    )
    return bool(there < bound["least"] * (1 - 1e-9))
