"""The verdict of a comparison: what its Monte Carlo samples say, and no more."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import off_by, problems
from hetsim.analysis.comparison import Comparison
from hetsim.analysis.verdict import LIKELY, PAYS, PlanChoice, decide
from hetsim.problem.problem import Problem
from hetsim.reporting.pages.answers import answer_island
from hetsim.reporting.tables.comparison import comparison_record, verdict
from sweeps import examples, sweep

ALONE = PlanChoice("single:a", 2.0, ("a",))
SPLIT = PlanChoice("heft", 1.0, ("a", "b"))
OTHER = PlanChoice("auto", 0.9, ("a", "b"))
COPIES = PlanChoice("multi", 1.5, ("a", "b"), copies=True)

MODELS = ("mobilenet_v2", "bert_small", "shufflenet", "squeezenet", "resnet50", "vit_base")
PLATFORMS = ("laptop", "iq-9075", "rock-5b", "snapdragon-phone", "jetson-agx-orin",
             "jetson-orin-nx", "pi-5-hailo-8l", "desktop")  # fmt: skip


def faster_in(share: float, than: PlanChoice, count: int = 200) -> np.ndarray:
    """Costs that are less than what `than` costs in this share of the samples."""
    return np.where(np.arange(count) < share * count, 0.5, 2.0) * than.cost_s


@pytest.mark.parametrize(
    ("chance", "gain", "answer"),
    [
        (1.0, 2.0, "pays"),
        (0.8, PAYS, "pays"),
        (0.795, 2.0, "too close to call"),
        (0.41, 1.12, "too close to call"),
        (0.3, 0.9, "too close to call"),
        (0.2, 1.5, "does not pay"),
        (0.0, 0.5, "does not pay"),
        (0.95, 1.02, "does not pay"),
        (0.9, 0.98, "does not pay"),
        (None, PAYS, "pays"),
        (None, 1.02, "does not pay"),
        (None, 0.9, "does not pay"),
    ],
)
def test_the_samples_decide(chance: float | None, gain: float, answer: str) -> None:
    tried = PlanChoice("heft", ALONE.cost_s / gain, ("a", "b"))
    samples = {}
    if chance is not None:
        samples = {"single:a": np.full(200, 2.0), "heft": faster_in(chance, ALONE)}
    found = decide(ALONE, [tried], samples)
    assert (found.answer, found.chance) == (answer, chance)
    assert found.gain == pytest.approx(gain)
    assert found.take == (tried if answer == "pays" else ALONE)
    assert (found.tried, found.over) == (tried, ALONE)


def test_the_cheapest_plan_that_pays_is_taken_else_the_likeliest_is_told() -> None:
    def found(heft: float, auto: float) -> tuple[str, PlanChoice | None, PlanChoice | None]:
        samples = {"heft": faster_in(heft, ALONE), "auto": faster_in(auto, ALONE)}
        one = decide(ALONE, [SPLIT, OTHER], {"single:a": np.full(200, 2.0), **samples})
        return (one.answer, one.take, one.tried)

    assert found(0.9, 0.9) == ("pays", OTHER, OTHER)
    assert found(0.9, 0.6) == ("pays", SPLIT, SPLIT)
    assert found(0.7, 0.6) == ("too close to call", ALONE, SPLIT)
    assert found(0.1, 0.15) == ("does not pay", ALONE, OTHER)


def test_a_split_must_beat_the_copies_that_pay_themselves() -> None:
    def found(copies: float, split: float) -> tuple[str, PlanChoice | None, PlanChoice | None]:
        samples = {
            "single:a": np.full(200, 2.0),
            "multi": np.where(np.arange(200) < copies * 200, 1.5, 3.0),
        }
        samples["heft"] = np.where(np.arange(200) < split * 200, 1.0, 4.0)
        one = decide(ALONE, [SPLIT, COPIES], samples)
        return (one.answer, one.take, one.over)

    assert found(0.9, 0.9) == ("pays", SPLIT, COPIES)
    assert found(0.9, 0.5) == ("too close to call", COPIES, COPIES)
    assert found(0.9, 0.1) == ("does not pay", COPIES, COPIES)
    assert found(0.5, 0.9) == ("pays", SPLIT, ALONE)
    assert found(0.5, 0.5) == ("too close to call", ALONE, ALONE)


def check(found: Comparison) -> None:
    """The answer, the sentence and the record say what the table of the samples says."""
    told = found.verdict
    whole = comparison_record(found)
    record = whole["verdict"]
    assert answer_island(whole, (), {}).verdict.say == record["say"] == verdict(found)
    assert told.take is not None
    assert record["answer"] == told.answer
    assert record["chance"] == told.chance
    if told.tried is None or found.objective == "throughput":
        return
    assert told.over is not None
    (sure,) = [row.sure for row in found.rows if row.strategy == told.tried.strategy]
    assert sure is not None
    # `pays` counts ties as well.
    assert told.chance is not None
    assert told.chance <= (sure.pays or 0.0)
    if told.answer == "pays":
        assert told.chance >= LIKELY
        assert (told.gain or 0.0) >= PAYS
        assert told.take == told.tried
        assert record["say"].startswith("Splitting pays: ")
    else:
        assert told.take.strategy == f"single:{found.best_single}"
        heads = {
            "too close to call": ("Too close to call: take ",),
            "does not pay": ("Splitting does not pay: take ", "Splitting hardly pays: take "),
        }
        assert record["say"].startswith(heads[told.answer])
    assert f"({found.draws} samples), it is faster in {100 * told.chance:.3g} %." in record["say"]


@examples(quick=7, full=200)
@given(problems(max_nodes=6), st.sampled_from([0.05, 0.4, 1.0]), st.integers(0, 3))
def test_the_sentence_never_contradicts_the_samples(problem: Problem, sd: float, seed: int) -> None:
    vague = off_by(problem, sd, sd / 2)
    found = hetsim.compare(vague, ["single", "heft", "chain-dp"], samples=40, draw_seed=seed)
    if found.best_single is not None:
        check(found)


def test_a_split_that_wins_by_the_figures_alone_is_not_called_worth_it() -> None:
    # 1.2 times as fast by the figures, and by nothing else: what each device is off by is drawn.
    problem = Problem.from_arrays(
        [[1.0, 9.0], [1.0, 5 / 6]], edges=[(0, 1, 1)], devices=("a", "b"), sd=[0.1, 0.9]
    )
    split = Problem.from_arrays(
        [[1.0, 9.0], [1.0, 2 / 3]], edges=[(0, 1, 1)], devices=("a", "b"), sd=[0.0, 0.9]
    )
    for one in (problem, split):
        found = hetsim.compare(one, ["single", "heft"])
        assert found.rows[0].strategy == "heft"
        assert found.verdict.answer == "too close to call"
        assert found.verdict.take is not None
        assert found.verdict.take.strategy == "single:a"
        assert verdict(found).startswith("Too close to call: take a alone, 2.00 s")
    alone = hetsim.compare(split, ["single", "heft"], samples=0)
    assert verdict(alone).startswith("By the point estimates alone, splitting pays: heft takes ")


@sweep(
    "model, platform",
    quick=[("squeezenet", "jetson-orin-nx")],
    full=list(product(MODELS, PLATFORMS)),
)
def test_no_pair_of_the_catalog_says_what_its_samples_do_not(model: str, platform: str) -> None:
    problem = hetsim.Problem.of(hetsim.load_model(f"zoo:{model}"), hetsim.load_platform(platform))
    found = hetsim.compare(problem)
    assert found.draws == 200
    check(found)
