"""Certificates of what is recommended hold; none of them does with one claim changed."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from falsified import all_rejected
from hetsim.recommending.certificate import certificate
from hetsim.recommending.question import Question
from hetsim.recommending.searching import Search
from hetsim.verifying import verify
from random_questions import random_drawn, random_question, with_losses, with_splits
from sweeps import sweep


def certified(seed: int, path: Path) -> Any:
    """The certificate of a random question.

    Of every second one there are plans over several devices.
    """
    question = random_question(seed, requests=60)
    if seed % 2:
        question = with_splits(question, seed)
    return of_question(question, path)


def of_question(question: Question, path: Path) -> Any:
    """The certificate of a question."""
    return priced(certificate(Search(question).found()), path)


def of_drawn(seed: int, path: Path) -> Any:
    """The certificate of a random question of drawn requests."""
    question, workload = random_drawn(seed)
    found = Search(question, workload, budget=1 << 15).found()
    return priced(certificate(found, workload), path)


def priced(text: str, path: Path) -> Any:
    """A certificate with prices that make its costs."""
    given = json.loads(text)
    for kind in given["question"]["kinds"]:
        kind["price"] = {"usd_per_hour": str(Decimal(kind["cost"]) / 10**9)}
    path.write_text(json.dumps(given))
    return given


@sweep("seed", quick=[11, 28], full=range(400))
def test_what_is_recommended_holds(seed: int, tmp_path: Path) -> None:
    given = certified(seed, path := tmp_path / "certificate.json")
    held = verify(path)
    assert held.bounds == len(given["bounds"])
    assert held.undecided == 0


@sweep("seed", quick=[1, 13], full=range(200))
def test_what_is_recommended_without_devices_holds(seed: int, tmp_path: Path) -> None:
    given = of_question(with_losses(seed), path := tmp_path / "certificate.json")
    assert verify(path).bounds == len(given["bounds"])


@sweep("seed", quick=[13], full=range(60))
def test_falsified_ones_without_devices_are_rejected(seed: int, tmp_path: Path) -> None:
    text = json.dumps(of_question(with_losses(seed), path := tmp_path / "certificate.json"))
    all_rejected(text, path, seed)


@sweep("seed", quick=[4], full=range(40))
def test_what_is_recommended_for_drawn_requests_holds(seed: int, tmp_path: Path) -> None:
    given = of_drawn(seed, path := tmp_path / "certificate.json")
    assert verify(path).bounds == len(given["bounds"])


@sweep("seed", quick=[], full=range(12))
def test_falsified_ones_of_drawn_requests_are_rejected(seed: int, tmp_path: Path) -> None:
    text = json.dumps(of_drawn(seed, path := tmp_path / "certificate.json"))
    all_rejected(text, path, seed)


@sweep("seed", quick=[1], full=range(60))
def test_falsified_ones_are_rejected(seed: int, tmp_path: Path) -> None:
    text = json.dumps(certified(seed, path := tmp_path / "certificate.json"))
    all_rejected(text, path, seed)
