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
                "counts": int(at > 0),
                "most": most[at],
                "price": price,
                "cost": round(exact * 10**9),
            })  # fmt: skip
        self.classes = [(m, v) for m in range(models) for v in range(int(rng.integers(1, 3)))]
        self.pieces = [2 if split else 1 for _ in self.classes]
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
        self.seconds = {
            (q, c, piece, b): float(work[c] / self.speed[q] * (0.5 + 0.5 * b) / self.pieces[c])
            for q in range(3)
            for c in range(len(self.classes))
            for piece in range(self.pieces[c])
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
        self.templates: list[Json] = []
        self.number: dict[Any, int] = {}
        self.error = 0.0002

    # Deployments

    def template(self, where: tuple[tuple[int, bool], ...], of: int, batch: int) -> int:
        """The template of a class on devices, each of a type, and behind a link or not."""
        key = (where, of, batch)
        if key not in self.number:
            groups: list[list[Any]] = []
            moves: list[list[Any]] = []
            count = len(where)
            for slot, (q, linked) in enumerate(where):
                before = [slot - 1] if slot else []
                if linked:
                    moves.append([-1, self.move_s * batch, [slot], before])
                    before = [count + len(moves) - 1]
                row = [slot, self.seconds[q, of, min(slot, self.pieces[of] - 1), batch], [], before]
                groups.append([*row, [slot]] if self.pieces[of] > 1 else row)
            # Links are numbered as those slots have them that have one.
            used = [slot for slot, (_, linked) in enumerate(where) if linked]
            for move in moves:
                move[2] = [used.index(move[2][0])]
            self.number[key] = len(self.templates)
            self.templates.append({
                "class": of, "batch": batch, "devices": [q for q, _ in where],
                "links": len(used), "tasks": groups + moves,
            })  # fmt: skip
        return self.number[key]

    def devices_of(self, counts: tuple[int, ...]) -> list[tuple[int, bool]]:
        """Type of each device, and whether it is behind a link."""
        return [
            (q, self.places[k] == CARD)
            for k, count in enumerate(counts)
            for _ in range(count)
            for q in self.kinds[k]["devices"]
        ]

    def deployment(self, counts: tuple[int, ...], policy: Json) -> list[Any] | None:
        """Models as a run has them; None where the policy has no deployment."""
        devices = self.devices_of(counts)
        found = []
        for m in range(len(self.streams)):
            own = [c for c, (model, _) in enumerate(self.classes) if model == m]
            groups = [
                (place,)
                for place, (q, _) in enumerate(devices)
                if all((q, c, 0, 1) in self.seconds for c in own) and not self.split
                and all(self.alone(q, c, 1) <= self.streams[m]["slos"][0][1] for c in own)
            ]  # fmt: skip
            if self.split:
                groups = [(k, k + 1) for k in range(0, len(devices) - 1, 2)]
            if not groups:
                return None
            instances = []
            for group in groups:
                where = tuple(devices[place] for place in group)
                sizes = self.sizes[: policy["max_batch"]]
                instances.append({
                    "devices": list(group),
                    "links": [place for place in group if devices[place][1]],
                    "templates": [[self.template(where, c, b) for b in sizes] for c in own],
                })  # fmt: skip
            found.append(instances)
        return found

    def alone(self, q: int, of: int, batch: int, piece: int = 0) -> float:
        """What a request takes at least."""
        return self.seconds[q, of, piece, batch]

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
                for v, row in enumerate(instance["templates"]):
                    for b, number in enumerate(row):
                        tasks = self.templates[number]["tasks"]
                        table[v, i, b] = len(shapes)
                        shapes.append(Shape(
                            [instance["devices"][t[0]] for t in tasks if t[0] >= 0],
                            [tuple(instance["links"][k] for k in t[2]) for t in tasks if t[0] < 0],
                            [t[3] for t in tasks],
                        ))  # fmt: skip
                        duration += [t[1] for t in tasks]
            served.append(
                Model(
                    table,
                    (policy["limit"],) * len(instances),
                    policy["routing"],
                    delay_s=policy["delay_s"],
                )
            )
        streams = [self.streams_of[q] for q, _ in devices]
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
            "links": len(self.devices_of(counts)),
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
        for ask, (_, c) in enumerate(self.asks):
            for piece in range(self.pieces[c]):
                able = [
                    float(any(key[:3] == (q, c, piece) and self.seconds[key] <= limit[c]
                              for key in self.seconds))
                    for q in range(3)
                ]  # fmt: skip
                found.append({"by": "needs", "ask": ask, "slo": 0, "piece": piece,
                              "capacity": able, "least": 1.0})  # fmt: skip
        for weights in self._weights():
            worth = [[w / n] * n for w, n in zip(weights, self.pieces, strict=True)]
            capacity = [0.0] * 3
            for (q, c, piece, b), seconds in self.seconds.items():
                if seconds <= limit[c]:
                    earns = worth[c][piece] * b * self.streams_of[q] / seconds
                    capacity[q] = max(capacity[q], earns)
            bound = {"capacity": capacity, "slo": slos, "worth": worth}
            if self.sampled:
                found.append({"by": "rate", **bound, "least": self._rate(weights)})
            else:
                found.append({"by": "window", **bound, **self._window(weights, limit)})
                found.append({"by": "pooled", **bound, "least": self._pooled(max(limit.values()))})
                if min(weights) < 1 or found[-1]["least"] <= 0:
                    found.pop()
        return found

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
        bounds = self.bounds()
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
                "classes": [
                    {"model": m, "variant": str(v), "pieces": n}
                    for (m, v), n in zip(self.classes, self.pieces, strict=True)
                ],
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
            "least": [[*key, seconds, seconds] for key, seconds in self.seconds.items()],
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
            n * sum(bound["capacity"][q] for q in kind["devices"])
            for n, kind in zip(counts, self.kinds, strict=True)
        )
        return bool(there < bound["least"] * (1 - 1e-9))
