"""Certificates of random questions."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from hetsim.provisioning.platforms.certificate import certificate
from hetsim.provisioning.platforms.question import Question
from hetsim.provisioning.platforms.search import Search
from random_questions import random_drawn, random_question, with_splits

Json = dict[str, Any]


def certified(seed: int) -> Json:
    """The certificate of a random question.

    Of every second one there are plans over several devices.
    """
    return priced(_of_random(seed))


def of_question(question: Question) -> Json:
    """The certificate of a question."""
    return priced(certificate(Search(question).found()))


def of_drawn(seed: int, budget: int = 1 << 15) -> Json:
    """The certificate of a random question of drawn requests."""
    return priced(_of_drawn(seed, budget))


@cache
def _of_random(seed: int) -> str:
    question = random_question(seed, requests=60)
    return certificate(Search(with_splits(question, seed) if seed % 2 else question).found())


@cache
def _of_drawn(seed: int, budget: int) -> str:
    question, workload = random_drawn(seed)
    return certificate(Search(question, workload, budget=budget).found(), workload)


def priced(text: str) -> Json:
    """A certificate with prices that make its costs."""
    given: Json = json.loads(text)
    for kind in given["question"]["kinds"]:
        kind["parts"] = {"usd_per_hour": str(Decimal(kind["cost"]) / 10**9)}
    return given


def left(given: Any, folder: Path) -> Path:
    """A certificate as a file."""
    path = folder / "certificate.json"
    path.write_text(json.dumps(given))
    return path
