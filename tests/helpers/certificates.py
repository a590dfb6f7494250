"""True certificates of small questions, by plain enumeration; late requests counted by the engine.

Shares no code with `hetsim recommend`: what is asked is drawn, devices and times are made up.
"""

from __future__ import annotations

import base64
import itertools
import math
import zlib
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from hetsim.confidence.verdict import verdict_of, verdict_of_all
from hetsim.service.figures import judged as judged_by
from hetsim.service.figures import latencies
from hetsim.service.stability import stability_of
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.outcomes import Outcomes
from hetsim.simulation.serving.setup import Model, Source
from hetsim.workloads.slo import Slo
from oracles.random_layouts import Shape, layout_of

Json = dict[str, Any]

CARD, HOST, BOARD = "card", "host", "board"


def packed(values: Any, kind: str) -> str:
    """Numbers as a certificate has them."""
    raw = np.asarray(values, dtype=kind).tobytes()
    return base64.b64encode(zlib.compress(raw)).decode()


def unpacked(text: str, kind: str) -> Any:
    """Numbers of a certificate."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).copy()


class Maker:
    """A question that is drawn, and its certificate."""

    def __init__(self, seed: int, *, sampled: bool = False, split: bool = False) -> None:
        self.rng = rng = np.random.default_rng([seed, 16])
        self.sampled, self.split = sampled, split
        models = int(rng.integers(1, 3))
        self.speed = [0.5, float(rng.uniform(0.8, 1.5)), float(rng.uniform(2.0, 4.0))]
        self.streams_of = [int(rng.integers(1, 3)), 1, int(rng.integers(1, 3))]
        types = [[0], [1], [2], [0, 1]]
        self.places = [HOST, CARD, CARD, BOARD]
        most = [1, int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 3))]
        self.kinds: list[Json] = []
        for at, devices in enumerate(types):
            usd = Decimal(int(rng.integers(5, 200))) / 100
            price: Json = {"usd_per_hour": str(usd)}
            exact = Fraction(usd)
            if at == 3:
                price = {"usd": "900", "years": "3", "power_w": "40", "usd_per_kwh": "0.31"}
                exact = Fraction(900, 3 * 8766) + Fraction(40 * 31, 100_000)
            self.kinds.append({
                "name": f"kind{at}",
                "devices": devices,
                "links": int(self.places[at] == CARD),
                "counts": int(at > 0),
                "most": most[at],
                "price": price,
                "cost": round(exact * 10**9),
            })  # fmt: skip
        self.classes = [(m, v) for m in range(models) for v in range(int(rng.integers(1, 3)))]
        self.sizes = [1, 2]
        self.policies: list[Json] = [
            {"name": "alone", "routing": "least_finish", "max_batch": 1, "delay_s": 0.0},
            {"name": "pairs", "routing": "shortest_queue", "max_batch": 2, "delay_s": 0.001},
        ]
        for policy in self.policies:
            policy |= {
                "placement": "pipeline" if split else "all", "limit": 1, "preferred": [],
                "max_queue_size": None, "timeout_s": None, "timeout_action": "reject",
            }  # fmt: skip
        work = rng.uniform(0.01, 0.03, len(self.classes))
        # Of plans over two devices each does a half.
        self.seconds = {
            (q, c, b): float(work[c] / self.speed[q] * (0.5 + 0.5 * b) / (1 + split))
            for q in range(3)
            for c in range(len(self.classes))
            for b in self.sizes
            # The second type of device knows no second variant.
            if not (q == 1 and self.classes[c][1] == 1 and not split)
        }
        self.move_s = 0.0005
        self.streams: list[Json] = [
            {"name": f"stream{m}", "model": m, "level": 0,
             "slos": [[0.9, float(rng.uniform(0.05, 0.12))]]}
            for m in range(models)
        ]  # fmt: skip
        self.asks = [(m, c) for c, (m, _) in enumerate(self.classes)]
        self.rates = rng.uniform(20.0, 90.0, len(self.asks)).tolist()
        count = 4000 if sampled else int(rng.integers(60, 160))
        self.time = np.cumsum(rng.exponential(1 / sum(self.rates), count))
        self.ask = rng.choice(
            len(self.asks), count, p=np.array(self.rates) / sum(self.rates)
        ).astype(np.uint16)
        self.runs: list[Json] = []
        self.ways: list[Json] = []
        self.templates: list[Json] = []
        self.number: dict[Any, int] = {}
        self.error = 0.0002
        self.found: list[Json] = []
        self.list_ways()

    # Deployments

    def list_ways(self) -> None:
        """Every device alone, or every two that may stand one after another."""
        slots = [(k, p) for k, kind in enumerate(self.kinds) for p in range(len(kind["devices"]))]
        sets: list[tuple[tuple[int, ...], tuple[tuple[int, int], ...]]] = []
        sets += [((k,), ((0, p),)) for k, p in slots if not self.split]
        if self.split:
            sets += [((k, j), ((0, p), (1, r))) for k, p in slots for j, r in slots if k <= j]
            sets.append(((3,), ((0, 0), (0, 1))))
        for (kinds, devices), of, batch in itertools.product(
            sets, range(len(self.classes)), self.sizes
        ):
            types = [self.kinds[kinds[unit]]["devices"][place] for unit, place in devices]
            if all((q, of, batch) in self.seconds for q in types):
                self.template(kinds, devices, types, of, batch)

    def template(
        self,
        kinds: tuple[int, ...],
        devices: tuple[tuple[int, int], ...],
        types: list[int],
        of: int,
        batch: int,
    ) -> None:
        """Devices one after another; in front of each that is a card a transfer to it."""
        groups: list[list[Any]] = []
        moves: list[list[Any]] = []
        cards = [unit for unit, kind in enumerate(kinds) if self.places[kind] == CARD]
        for slot, q in enumerate(types):
            before = [slot - 1] if slot else []
            if devices[slot][0] in cards:
                moves.append([-1, self.move_s * batch, [cards.index(devices[slot][0])], before])
                before = [len(devices) + len(moves) - 1]
            groups.append([slot, self.seconds[q, of, batch], [], before])
        self.number[kinds, devices, of, batch] = len(self.templates)
        self.templates.append({"way": len(self.ways), "tasks": groups + moves})
        self.ways.append({
            "class": of, "batch": batch, "alone_s": sum(row[1] for row in groups),
            "strategy": "chain", "kinds": list(kinds),
            "devices": [[*one, row[1]] for one, row in zip(devices, groups, strict=True)],
            "links": [self.move_s * batch] * len(cards),
        })  # fmt: skip

    def devices_of(self, counts: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """Kind, copy and place in it of each device."""
        return [
            (k, copy, place)
            for k, count in enumerate(counts)
            for copy in range(count)
            for place in range(len(self.kinds[k]["devices"]))
        ]

    def deployment(self, counts: tuple[int, ...], policy: Json) -> list[Any] | None:
        """Models as a run has them; None where the policy has no deployment."""
        devices = self.devices_of(counts)
        found = []
        for m in range(len(self.streams)):
            own = [c for c, (model, _) in enumerate(self.classes) if model == m]
            groups = [(one,) for one in devices]
            if self.split:
                groups = [(devices[k], devices[k + 1]) for k in range(0, len(devices) - 1, 2)]  # type: ignore[misc]
            instances = []
            for group in groups:
                units = list(dict.fromkeys(one[:2] for one in group))
                key = (
                    tuple(kind for kind, _ in units),
                    tuple((units.index(one[:2]), one[2]) for one in group),
                )
                numbers = [[self.number.get((*key, c, b), -1) for b in self.sizes] for c in own]
                ways = [self.ways[row[0]] for row in numbers if row[0] >= 0]
                limit = self.streams[m]["slos"][0][1]
                if len(ways) < len(own) or (
                    not self.split and any(way["alone_s"] > limit for way in ways)
                ):
                    continue
                instances.append({
                    "copies": [copy for _, copy in units],
                    "templates": [row[: policy["max_batch"]] for row in numbers],
                })  # fmt: skip
            if not instances:
                return None
            found.append(instances)
        return found

    def where(self, counts: tuple[int, ...], instance: Json) -> tuple[list[int], list[int]]:
        """Devices and links of an instance on a vector, by number."""
        way = self.ways[self.templates[instance["templates"][0][0]]["way"]]
        units = list(zip(way["kinds"], instance["copies"], strict=True))
        every = self.devices_of(counts)
        links = [
            (k, copy, link)
            for k, count in enumerate(counts)
            for copy in range(count)
            for link in range(self.kinds[k]["links"])
        ]
        devices = [every.index((*units[unit], place)) for unit, place, _ in way["devices"]]
        return devices, [at for unit in units for at, one in enumerate(links) if one[:2] == unit]

    def play(self, counts: tuple[int, ...], models: list[Any], policy: Json) -> Outcomes:
        """By the engine of hetsim."""
        devices = self.devices_of(counts)
        shapes: list[Shape] = []
        duration: list[float] = []
        served = []
        for m, instances in enumerate(models):
            own = [c for c, (of, _) in enumerate(self.classes) if of == m]
            size = len(instances[0]["templates"][0])
            table = np.zeros((len(own), len(instances), size), int)
            for i, instance in enumerate(instances):
                own_devices, own_links = self.where(counts, instance)
                for v, row in enumerate(instance["templates"]):
                    for b, number in enumerate(row):
                        tasks = self.templates[number]["tasks"]
                        table[v, i, b] = len(shapes)
                        shapes.append(Shape(
                            [own_devices[t[0]] for t in tasks if t[0] >= 0],
                            [tuple(own_links[k] for k in t[2]) for t in tasks if t[0] < 0],
                            [t[3] for t in tasks],
                        ))  # fmt: skip
                        duration += [t[1] for t in tasks]
            served.append(
                Model(
                    table,
                    (policy["limit"] * (1 + self.split),) * len(instances),
                    policy["routing"],
                    delay_s=policy["delay_s"],
                )
            )
        streams = [self.streams_of[self.kinds[k]["devices"][place]] for k, _, place in devices]
        serving = Serving(
            layout_of(shapes, streams, len(devices)),
            np.array(duration),
            served,
            [Source(m) for m in range(len(models))],
            machine_code=False,
        )
        stream = np.array([self.asks[ask][0] for ask in self.ask])
        variant = np.array([self.classes[self.asks[ask][1]][1] for ask in self.ask])
        told = [serving.serve(self.time, stream, variant), serving.close()]
        return Outcomes.joined(told)

    def run(self, counts: tuple[int, ...], at: int) -> tuple[int, str]:
        """Play one policy on a vector; return its run and what it says."""
        policy = self.policies[at]
        models = self.deployment(counts, policy)
        self.runs.append({"counts": list(counts), "policy": at})
        bound = None if models is None else self.too_little(models, policy)
        if bound is not None and (sum(counts) + at) % 2:
            places = [
                [
                    {"copies": one["copies"], "way": self.templates[one["templates"][0][0]]["way"]}
                    for one in row
                ]
                for row in models or []
            ]
            self.runs[-1] |= {"bound": bound, "places": places}
            return len(self.runs) - 1, "misses"
        if models is None:
            self.runs[-1]["none"] = "fewer than two devices"
            return len(self.runs) - 1, "misses"
        played = self.play(counts, models, policy)
        judged, answers = [], set()
        for s, stream in enumerate(self.streams):
            mine = Outcomes._make(part[played.stream == s] for part in played)
            share, limit = stream["slos"][0]
            waited = latencies(mine)
            if self.sampled:
                verdict = verdict_of(waited, mine.fresh, share, limit, 1 - self.error)
                offered = sum(self.rates[ask] for ask in self._of(s))
                keeps_up = stability_of(mine.arrival_s, mine.finish_s, mine.fresh, offered)
                verdict = judged_by(Slo(share, limit), verdict, keeps_up, rejects=False)
            else:
                verdict = verdict_of_all(waited, mine.fresh, share, limit)
            answers.add(verdict.answer)
            error = self.error if self.sampled else 0.0
            late = int(np.count_nonzero(waited > limit))
            judged.append([s, 0, len(self.time), late, verdict.answer, error])
        self.runs[-1] |= {
            "instances": models,
            "played": len(self.time),
            "judged": judged,
        }
        answer = "undecided" if "undecided" in answers else "meets"
        return len(self.runs) - 1, "misses" if "misses" in answers else answer

    # Bounds

    def bounds(self) -> list[Json]:
        """All sorts that fit."""
        found: list[Json] = []
        slos = [0] * len(self.streams)
        limit = {c: self.streams[m]["slos"][0][1] for m, c in self.asks}
        none = [[0.0] * kind["links"] for kind in self.kinds]
        for ask, (_, c) in enumerate(self.asks):
            useful = [w for w in self.ways if w["class"] == c and w["alone_s"] <= limit[c]]
            # Of two devices one, whichever of them, is a half.
            able = [
                (0.5 if self.split else 1.0)
                * any(q in self.types_of(way) for way in useful)
                for q in range(3)
            ]  # fmt: skip
            found.append({"by": "needs", "ask": ask, "slo": 0, "capacity": able, "links": none,
                          "least": 1.0})  # fmt: skip
        for with_links, worth in itertools.product((False, True), self._weights()):
            capacity = [0.0] * 3
            links = [[0.0] * kind["links"] for kind in self.kinds]
            for way in self.ways:
                if way["alone_s"] > limit[way["class"]]:
                    continue
                types = self.types_of(way)
                takes = sum(
                    one[2] / self.streams_of[q]
                    for one, q in zip(way["devices"], types, strict=True)
                ) + with_links * sum(way["links"])  # fmt: skip
                each = worth[way["class"]] * way["batch"] / takes
                for q in types:
                    capacity[q] = max(capacity[q], each)
                for k in way["kinds"]:
                    links[k] = [max(one, each * with_links) for one in links[k]]
            bound = {"capacity": capacity, "links": links, "slo": slos, "worth": worth}
            if self.sampled:
                found.append({"by": "rate", **bound, "least": self._rate(worth)})
            else:
                found.append({"by": "window", **bound, **self._window(worth, limit)})
                found.append({"by": "pooled", **bound, "least": self._pooled(max(limit.values()))})
                if min(worth) < 1 or found[-1]["least"] <= 0:
                    found.pop()
        return found

    def types_of(self, way: Json) -> list[int]:
        """The types of the devices of a way."""
        return [self.kinds[way["kinds"][unit]]["devices"][p] for unit, p, _ in way["devices"]]

    def _weights(self) -> list[list[float]]:
        return [[1.0] * len(self.classes), self.rng.uniform(0.5, 2, len(self.classes)).tolist()]

    def _of(self, stream: int) -> list[int]:
        return [ask for ask, (own, _) in enumerate(self.asks) if own == stream]

    def _rate(self, weights: list[float]) -> float:
        total = 0.0
        for s, stream in enumerate(self.streams):
            mine = self._of(s)
            total += sum(self.rates[ask] * weights[self.asks[ask][1]] for ask in mine)
            late = (1 - stream["slos"][0][0]) * sum(self.rates[ask] for ask in mine)
            total -= late * max(weights[self.asks[ask][1]] for ask in mine)
        return total

    def _may(self, stream: int) -> int:
        count = int(np.isin(self.ask, self._of(stream)).sum())
        share = self.streams[stream]["slos"][0][0]
        return max(late for late in range(count + 1) if count - late >= share * count)

    def _window(self, weights: list[float], limit: dict[int, float]) -> Json:
        each = np.array([weights[self.asks[ask][1]] for ask in self.ask])
        dear = sum(
            self._may(s) * max(weights[self.asks[ask][1]] for ask in self._of(s))
            for s in range(len(self.streams))
        )
        whole = float(self.time[-1]) + max(limit.values()) - float(self.time[0])
        least = (float(each.sum()) - dear) / whole
        return {"from": 0, "to": len(each) - 1, "least": max(least, 0.0) * (1 - 1e-9)}

    def _pooled(self, limit: float) -> float:
        most = sum(self._may(s) for s in range(len(self.streams)))
        low, high = 0.0, 1000.0
        for _ in range(30):
            rate = (low + high) / 2
            free, late = -math.inf, 0
            for came in self.time.tolist():
                if max(free, came) + 1 / rate > came + limit + 1e-6:
                    late += 1
                else:
                    free = max(free, came) + 1 / rate
            low, high = (rate, high) if late > most else (low, rate)
        return low

    def too_little(self, models: list[Any], policy: Json) -> int | None:
        """The first bound that excludes what a policy makes of devices and links."""
        limit = [self.streams[m]["slos"][0][1] for m, _ in self.classes]
        for number, bound in enumerate(self.found):
            if bound["by"] == "needs":
                continue
            worth: dict[tuple[int, ...], float] = {}
            for m, instances in enumerate(models):
                for one in instances:
                    first = self.ways[self.templates[one["templates"][0][0]]["way"]]
                    for way in self.ways:
                        on = [row[:2] for row in way["devices"]]
                        if (
                            (way["kinds"], on)
                            != (first["kinds"], [d[:2] for d in first["devices"]])
                            or self.classes[way["class"]][0] != m
                            or way["batch"] > policy["max_batch"]
                            or way["alone_s"] > limit[way["class"]]
                        ):
                            continue
                        self._add(worth, bound, way, one["copies"])
            if sum(worth.values()) < bound["least"] * (1 - 1e-9):
                return number
        return None

    def _add(
        self, worth: dict[tuple[int, ...], float], bound: Json, way: Json, copies: list[int]
    ) -> None:
        """Raise what devices and links are worth to the part that a way earns of them."""
        prices: dict[tuple[int, ...], tuple[float, float]] = {}
        for (unit, place, seconds), q in zip(way["devices"], self.types_of(way), strict=True):
            key = (way["kinds"][unit], copies[unit], 0, place)
            prices[key] = bound["capacity"][q], seconds / self.streams_of[q]
        links = iter(way["links"])
        for kind, copy in zip(way["kinds"], copies, strict=True):
            for link, price in enumerate(bound["links"][kind]):
                prices[kind, copy, 1, link] = price, next(links)
        takes = sum(price * seconds for price, seconds in prices.values())
        part = bound["worth"][way["class"]] * way["batch"] / takes
        for key, (price, _) in prices.items():
            worth[key] = max(worth.get(key, 0.0), price * part)

    # All of it

    def vectors(self) -> list[tuple[int, ...]]:
        """In order."""
        each = itertools.product(*(range(kind["most"] + 1) for kind in self.kinds))
        allowed = [one for one in each if self.fits(one)]
        return sorted(allowed, key=lambda one: (self.cost(one), sum(one[1:]), one))

    def fits(self, counts: tuple[int, ...]) -> bool:
        """At most five devices; a host where there are cards, with three slots."""
        slots = counts[1] + counts[2] - 3 * counts[0]
        return sum(counts[1:]) <= 5 and slots <= 0

    def cost(self, counts: tuple[int, ...]) -> int:
        """In billionths of a dollar an hour."""
        return sum(kind["cost"] * n for kind, n in zip(self.kinds, counts, strict=True))

    def certificate(self) -> Json:
        """Enumerate, and write down what was found."""
        bounds = self.found = self.bounds()
        meets: list[Json] = []
        tried, undecided = [], []
        for counts in self.vectors():
            if len(meets) == 2:
                break
            if any(self.excludes(bound, counts) for bound in bounds):
                continue
            runs = []
            answers = []
            for at in range(len(self.policies)):
                number, answer = self.run(counts, at)
                runs.append(number)
                answers.append(answer)
                if answer == "meets":
                    meets.append({"counts": list(counts), "cost": self.cost(counts), "run": number})
                    break
            if "meets" in answers:
                continue
            if "undecided" in answers:
                undecided.append(list(counts))
            else:
                tried.append({"counts": list(counts), "runs": runs})
        spent = sum(
            max((row[5] for row in run.get("judged", []) if row[4] != "undecided"), default=0.0)
            for run in self.runs
        )
        return {
            "certificate": "hetsim-certificate/1",
            "made_of": {"hetsim": "0", "files": {"workload.yaml": "0" * 64}},
            "question": {
                "objective": "cost",
                "max_devices": 5,
                "error": min(max(spent, 0.05), 0.5) if self.sampled else 0.05,
                "demand": "sampled" if self.sampled else "trace",
                "warm_up_s": 0.0,
                "devices": [{"name": f"type{q}", "streams": self.streams_of[q]} for q in range(3)],
                "kinds": self.kinds,
                "limits": [{"of": [-3, 1, 1, 0], "at_least": -3, "at_most": 0}],
                "models": [{"name": f"model{m}"} for m in range(len(self.streams))],
                "classes": [{"model": m, "variant": str(v)} for m, v in self.classes],
                "streams": self.streams,
                "asks": [
                    {"stream": s, "class": c, "rate_per_s": rate if self.sampled else None}
                    for (s, c), rate in zip(self.asks, self.rates, strict=True)
                ],
                "policies": self.policies,
            },
            "arrivals": {
                "requests": len(self.time),
                "time_s": packed(self.time, "<f8"),
                "ask": packed(self.ask, "<u2"),
            },
            "ways": self.ways,
            "bounds": bounds,
            "templates": self.templates,
            "runs": self.runs,
            "tried": tried,
            "undecided": undecided,
            "answer": meets[0] if meets else None,
            "runner_up": meets[1] if len(meets) > 1 else None,
        }

    def excludes(self, bound: Json, counts: tuple[int, ...]) -> bool:
        """Whether a bound excludes a vector."""
        there = sum(
            n * (sum(bound["capacity"][q] for q in kind["devices"]) + sum(links))
            for n, kind, links in zip(counts, self.kinds, bound["links"], strict=True)
        )
        return bool(there < bound["least"] * (1 - 1e-9))
