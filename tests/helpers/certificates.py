"""True certificates of small questions, by plain enumeration; late requests counted by the engine.

Shares no code with `hetsim recommend`: what is asked is drawn, devices and times are made up.
"""

from __future__ import annotations

import base64
import zlib
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
from made_bounds import bounds_of, excludes, too_little
from made_questions import Json, Made
from oracles.random_layouts import Shape, layout_of


def packed(values: Any, kind: str) -> str:
    """Numbers as a certificate has them."""
    raw = np.asarray(values, dtype=kind).tobytes()
    return base64.b64encode(zlib.compress(raw)).decode()


def unpacked(text: str, kind: str) -> Any:
    """Numbers of a certificate."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).copy()


class Maker(Made):
    """A question that is drawn, and its certificate."""

    def __init__(self, seed: int, *, sampled: bool = False, split: bool = False) -> None:
        super().__init__(seed, sampled=sampled, split=split)
        self.runs: list[Json] = []
        self.error = 0.0002
        self.found: list[Json] = []

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
        bound = None if models is None else too_little(self, self.found, models, policy)
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
                offered = sum(self.rates[ask] for ask in self.asks_of(s))
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

    def certificate(self) -> Json:
        """Enumerate, and write down what was found."""
        bounds = self.found = bounds_of(self)
        meets: list[Json] = []
        tried, undecided = [], []
        for counts in self.vectors():
            if len(meets) == 2:
                break
            if any(excludes(self, bound, counts) for bound in bounds):
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
