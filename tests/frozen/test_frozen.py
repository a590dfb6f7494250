"""Answers are those that were frozen: a change that keeps them keeps every digest."""

from __future__ import annotations

from itertools import product

from frozen.frozen_answers import (
    MODELS,
    PLANS,
    PLATFORMS,
    QUESTIONS,
    VERBS,
    answer_of,
    kept,
    plans_of,
    shown,
)
from sweeps import sweep

QUICK_VERBS = (
    "compare zoo:inception_v1",
    "simulate --max-rate zoo:resnet18 --platform laptop --slo p99=20ms --strategy single:cpu",
    "simulate zoo:resnet50 --platform dual-gpu",
    "inspect --nodes",
)
QUICK_PAIRS = [("inception_v1", "rock-5b"), ("bert_small", "laptop"), ("resnet18", "two-hosts")]
RENEW = "if that is meant: python -m frozen.frozen_answers, in tests/"


@sweep(
    "question",
    quick=[one for one in QUESTIONS if shown(one).startswith(QUICK_VERBS)],
    full=QUESTIONS,
    ids=shown,
)
def test_what_a_verb_says(question: str) -> None:
    before, now = kept(VERBS)[shown(question)], answer_of(question)
    assert now == before, f"the answer changed; {RENEW}"


@sweep("model, platform", quick=QUICK_PAIRS, full=list(product(MODELS, PLATFORMS)))
def test_plans_timelines_and_partitions(model: str, platform: str) -> None:
    before, now = kept(PLANS)[f"{model} {platform}"], plans_of(model, platform)
    moved = {name: (before.get(name), now.get(name)) for name in before | now}
    moved = {name: pair for name, pair in moved.items() if pair[0] != pair[1]}
    assert not moved, f"answers changed, {len(moved)} of {len(before)}: {moved}; {RENEW}"


def test_every_model_and_platform_is_frozen() -> None:
    assert set(kept(PLANS)) == {
        f"{model} {platform}" for model, platform in product(MODELS, PLATFORMS)
    }
    assert set(kept(VERBS)) == {shown(question) for question in QUESTIONS}
