"""Parts of a certificate, by what they are about, for whoever changes one of them."""

from __future__ import annotations

import base64
import json
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from hetsim.provisioning.platforms.certificate import certificate
from hetsim.provisioning.platforms.question import Question
from hetsim.provisioning.platforms.searching import Search
from random_questions import random_drawn, random_question, with_splits

Json = dict[str, Any]


def certified(seed: int) -> Json:
    """The certificate of a random question.

    Of every second one there are plans over several devices.
    """
    question = random_question(seed, requests=60)
    return of_question(with_splits(question, seed) if seed % 2 else question)


def of_question(question: Question) -> Json:
    """The certificate of a question."""
    return priced(certificate(Search(question).found()))


def of_drawn(seed: int, budget: int = 1 << 15) -> Json:
    """The certificate of a random question of drawn requests."""
    question, workload = random_drawn(seed)
    return priced(certificate(Search(question, workload, budget=budget).found(), workload))


def priced(text: str) -> Json:
    """A certificate with prices that make its costs."""
    given: Json = json.loads(text)
    for kind in given["question"]["kinds"]:
        kind["price"] = {"usd_per_hour": str(Decimal(kind["cost"]) / 10**9)}
    return given


def left(given: Any, folder: Path) -> Path:
    """A certificate as a file."""
    path = folder / "certificate.json"
    path.write_text(json.dumps(given))
    return path


def packed(values: Any, kind: str) -> str:
    """Numbers as a certificate has them."""
    raw = np.asarray(values, dtype=kind).tobytes()
    return base64.b64encode(zlib.compress(raw)).decode()


def unpacked(text: str, kind: str) -> Any:
    """Numbers of a certificate."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).copy()


def one_of(rows: list[Any], rng: np.random.Generator) -> Any:
    return rows[rng.integers(len(rows))] if rows else None


def played(given: Json) -> list[Json]:
    return [run for run in given["runs"] if "none" not in run and "bound" not in run]


def by_bound(given: Json) -> list[Json]:
    """Runs that a bound excludes."""
    return [run for run in given["runs"] if "bound" in run]


def for_all(given: Json) -> list[Json]:
    """Runs of policies that place each model on all devices."""
    policies = given["question"]["policies"]
    return [run for run in played(given) if policies[run["policy"]]["placement"] == "all"]


def bounds_by(given: Json, *by: str) -> list[Json]:
    return [bound for bound in given["bounds"] if bound["by"] in by]


def last(given: Json) -> Json | None:
    found: Json | None = given["runner_up"] or given["answer"]
    return found


def called(given: Json, rng: np.random.Generator, was: str, becomes: str) -> bool:
    """Whether there was a verdict of that kind to call something else."""
    rows = [row for run in played(given) for row in run["judged"] if row[4] == was]
    if rows:
        one_of(rows, rng)[4] = becomes
    return bool(rows)


def types_of(given: Json, way: Json) -> list[int]:
    """The types of the devices of a way."""
    kinds = given["question"]["kinds"]
    return [kinds[way["kinds"][unit]]["devices"][place] for unit, place, _ in way["devices"]]


def takes(given: Json, bound: Json, way: Json) -> float:
    """What a way takes of devices and links, by the capacity of a bound."""
    devices = given["question"]["devices"]
    links = [one for kind in way["kinds"] for one in bound["links"][kind]]
    return sum(
        bound["capacity"][q] * one[2] / devices[q]["streams"]
        for q, one in zip(types_of(given, way), way["devices"], strict=True)
    ) + sum(one * seconds for one, seconds in zip(links, way["links"], strict=True))


def counted(given: Json, bound: Json) -> list[Json]:
    """The ways that a bound is about: what they serve is worth something, in time."""
    question = given["question"]
    found = []
    for way in given["ways"]:
        limits = [
            question["streams"][ask["stream"]]["slos"][bound["slo"][ask["stream"]]][1]
            for ask in question["asks"]
            if ask["class"] == way["class"] and bound["slo"][ask["stream"]] is not None
        ]
        if bound["worth"][way["class"]] > 0 and way["alone_s"] <= max(limits, default=-1):
            found.append(way)
    return found


def a_way(given: Json, rng: np.random.Generator) -> tuple[Json, Json]:
    """A template, and the way that it is of."""
    template = one_of(given["templates"], rng)
    return template, given["ways"][template["way"]]


def a_played_way(given: Json, rng: np.random.Generator) -> tuple[Json, Json, list[int]] | None:
    """An instance of a run, its way, and the counts that it is on."""
    rows = [
        (one, given["ways"][given["templates"][one["templates"][0][0]]["way"]], run["counts"])
        for run in played(given) for model in run["instances"] for one in model
    ]  # fmt: skip
    return one_of(rows, rng) if rows else None
