"""Certificate of what a search found, written down with the numbers that it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hetsim.core.files import sha256_of
from hetsim.core.text import fields, plainly, records
from hetsim.graph.loading import load_model
from hetsim.provisioning.platforms.bounds.bound import Bound
from hetsim.provisioning.platforms.claim import FORMAT, ArrivalsClaim, Claim, LimitClaim
from hetsim.provisioning.platforms.placements import able_on, held_on, subsets
from hetsim.provisioning.platforms.plays import Played
from hetsim.provisioning.platforms.policies import Placed, Policy, up_to
from hetsim.provisioning.platforms.question import Arrivals, Way, drawn
from hetsim.provisioning.platforms.search import ERROR, Found, Run, Tried
from hetsim.version import __version__
from hetsim.workload.workload import Workload


def certificate(
    found: Found, workload: Workload | None = None, files: Mapping[str, str] | None = None
) -> str:
    """Certificate of what was found, JSON.

    `workload` is that of drawn requests, `files` the SHA-256, in hex, of what was read, by name.
    Complexity: of the requests, the devices of all vectors that were played, and their tasks.
    """
    return Claim.model_validate(_Writer(found, workload).record(dict(files or {}))).text()


def digests_of(paths: Mapping[str, str], models: tuple[str, ...]) -> dict[str, str]:
    """SHA-256, in hex, of files by name, and of models by how they are named."""
    found = {name: sha256_of(path) for name, path in paths.items()}
    for model in models:
        if model.startswith("zoo:"):
            found[model] = load_model(model).sha256
        elif Path(model).is_file():
            found[model] = sha256_of(model)
    return found


class _Writer:
    """Writer that numbers templates and runs as they are met."""

    def __init__(self, found: Found, workload: Workload | None) -> None:
        self._found, self._question, self._workload = found, found.question, workload
        self._ways: list[dict[str, Any]] = []
        self._templates: list[dict[str, Any]] = []
        # By way: its place, and its template's where it was played.
        self._place: dict[Way, int] = {}
        self._number: dict[Way, int] = {}
        self._runs: list[dict[str, Any]] = []

    def record(self, files: dict[str, str]) -> dict[str, Any]:
        """Return all of it."""
        found = self._found
        question = found.question
        for (of_type, of_class), ways in sorted(question.ways.items()):
            kind, slot = question.home_of(of_type)
            self._add_ways(of_class, ways, "single", (kind,), [(0, slot)])
        for split in question.splits:
            for of_class, ways in sorted(split.ways.items()):
                self._add_ways(of_class, ways, split.strategy, split.kinds, split.devices)
        tried = [
            {
                "counts": list(one.counts),
                "runs": [
                    self._run(one, run, policy) for run in one.runs for policy in run.policies
                ],
            }
            for one in found.tried
            if one.answer == "misses"
        ]
        answer = self._chosen(found.answer)
        runner_up = self._chosen(found.runner_up)
        return {
            "certificate": FORMAT,
            # Names are of files: whoever checks it takes none that would steer a terminal.
            "made_of": plainly({"hetsim": __version__, "files": files}),
            "question": plainly(self._asked()),
            "arrivals": self._arrivals(),
            "ways": self._ways,
            "bounds": [self._bound(one) for one in found.bounds],
            "templates": self._templates,
            "runs": self._runs,
            "tried": tried,
            "undecided": [list(counts) for counts in found.undecided],
            "answer": answer,
            "runner_up": runner_up,
        }

    def _asked(self) -> dict[str, Any]:
        question = self._question
        return {
            **fields(question, "objective=aim max_devices"),
            **({"losses": question.losses} if question.losses else {}),
            "error": ERROR,
            "demand": "trace" if question.given else "sampled",
            "warm_up_s": question.warm_up_s,
            "devices": records(question.types, "name streams"),
            "kinds": records(
                question.kinds, "name devices links counts=counted most price=parts cost"
            ),
            "limits": [one.model_dump() for one in LimitClaim.of_hosts(question.kinds)],
            "models": [{"name": name} for name in question.models],
            "classes": [
                {
                    "model": one.model,
                    "variant": ", ".join(f"{name}={size}" for name, size in one.variant.items()),
                }
                for one in question.classes
            ],
            "streams": [
                {
                    **fields(one, "name model"),
                    "level": 0,
                    "slos": [[slo.share, slo.latency_s] for slo in one.slos],
                }
                for one in question.streams
            ],
            "asks": records(question.asks, "stream class=of_class rate_per_s"),
            "policies": [
                {
                    "name": str(one),
                    **fields(one, "placement routing max_batch"),
                    "limit": "streams" if one.line else one.limit([1]),
                    "delay_s": 0.0,
                    "preferred": [],
                    "max_queue_size": None,
                    "timeout_s": None,
                    "timeout_action": "reject",
                    **self._refused(one),
                }
                for one in self._found.policies
            ],
        }

    def _refused(self, policy: Policy) -> dict[str, Any]:
        """The least sets of models that a type of device does not hold together, where asked."""
        if policy.placement != "each":
            return {}
        question = self._question
        found: list[list[Any]] = []
        for of_type in range(len(question.types)):
            held = held_on(question, of_type, policy)
            least: list[set[int]] = []
            for on in subsets(able_on(question, of_type, policy)):
                if on not in held and not any(one <= set(on) for one in least):
                    least.append(set(on))
                    found.append([of_type, list(on)])
        return {"refused": found}

    def _arrivals(self) -> ArrivalsClaim | None:
        arrivals = self._question.arrivals
        if arrivals is None:
            looked = [run["played"] for run in self._runs if "played" in run]
            looked += [bound.requests for bound in self._found.bounds]
            played = max(looked, default=0)
            if not played or self._workload is None:
                return None
            arrivals = Arrivals.joined(drawn(self._workload, played))
        return ArrivalsClaim.of(arrivals)

    def _bound(self, bound: Bound) -> dict[str, Any]:
        question = self._question
        kinds = range(len(question.kinds))
        one: dict[str, Any] = {
            "by": bound.by,
            "capacity": bound.capacity[: len(question.types)].tolist(),
            "links": [bound.capacity[list(question.links_of_kind[k])].tolist() for k in kinds],
            "least": bound.least,
        }
        if bound.by == "needs":
            return {**one, "ask": bound.ask, "slo": bound.slo[question.asks[bound.ask].stream]}
        one |= {"slo": list(bound.slo), "worth": bound.worth.tolist()}
        if bound.by == "window":
            one |= {"from": bound.window[0], "to": bound.window[1]}
        if bound.error:
            one |= {"error": bound.error, "requests": bound.requests}
        return one

    def _chosen(self, one: Tried | None) -> dict[str, Any] | None:
        if one is None:
            return None
        best = one.best(self._question)
        assert best is not None
        record = {
            "counts": list(one.counts),
            "cost": self._question.cost(one.counts),
            "run": self._run(one, best, best.policies[0]),
        }
        if self._question.losses:
            record["without"] = [self._run(one, run, best.policies[0]) for run in best.also]
        return record

    def _run(self, one: Tried, run: Run, which: int) -> int:
        record: dict[str, Any] = {"counts": list(one.counts), "policy": which}
        if self._question.losses:
            record["lost"] = list(run.lost)
        if isinstance(run.placed, str):
            record["none"] = run.placed
        elif run.bound is not None:
            record |= {"bound": run.bound, "places": self._places(run.placed)}
        else:
            assert run.played is not None
            policy = self._found.policies[which]
            record |= self._deployed(run.placed, policy, run.played)
        self._runs.append(record)
        return len(self._runs) - 1

    def _places(self, where: Placed) -> list[list[dict[str, Any]]]:
        """By model, what serves it: one of its ways, and the copies of its kinds."""
        question = self._question
        return [
            [
                {
                    "copies": [where.places[at].unit for at in where.units(question, one)],
                    "way": self._place[where.ways(question, one, of_class)[0]],
                }
                for one in mine
            ]
            for mine, of_class in (
                (mine, question.classes_of[model][0]) for model, mine in enumerate(where.instances)
            )
        ]

    def _deployed(self, where: Placed, policy: Policy, played: Played) -> dict[str, Any]:
        question = self._question
        models = []
        for model, mine in enumerate(where.instances):
            instances = []
            for one in mine:
                templates = []
                for of_class in question.classes_of[model]:
                    ways = up_to(where.ways(question, one, of_class), policy.max_batch)
                    sizes = [way.batch for way in ways]
                    numbers = [self._template(way) for way in ways]
                    holds = np.searchsorted(sizes, np.arange(1, sizes[-1] + 1)).tolist()
                    templates.append([numbers[which] for which in holds])
                copies = [where.places[at].unit for at in where.units(question, one)]
                instances.append({"copies": copies, "templates": templates})
            models.append(instances)
        return {
            "instances": models,
            "played": played.played,
            "judged": [list(said[:6]) for said in played.said],
        }

    def _add_ways(
        self,
        of_class: int,
        ways: Sequence[Way],
        strategy: str,
        kinds: tuple[int, ...],
        devices: Sequence[tuple[int, int]],
    ) -> None:
        links = sum(self._question.kinds[kind].links for kind in kinds)
        for way in ways:
            busy, held = way.held(len(devices), links)
            self._place[way] = len(self._ways)
            self._ways.append(
                {
                    "class": of_class,
                    **fields(way, "batch alone_s"),
                    "strategy": strategy,
                    "kinds": list(kinds),
                    "devices": [[*one, busy[slot]] for slot, one in enumerate(devices)],
                    "links": held,
                }
            )

    def _template(self, way: Way) -> int:
        if way not in self._number:
            self._number[way] = len(self._templates)
            tasks = fields(way, "tasks")["tasks"]
            self._templates.append({"way": self._place[way], "tasks": tasks})
        return self._number[way]
