"""What to buy or rent for one model at a rate, against plain enumeration of all mixes."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import hetsim
from hetsim.core.text import to_json
from hetsim.hardware.price import Price
from hetsim.provisioning.platforms.policies import policies_for_one
from hetsim.provisioning.platforms.priced import machine_name, priced_catalog
from hetsim.provisioning.platforms.purchase import Market
from hetsim.provisioning.platforms.question import (
    ClassRequests,
    DeviceType,
    Kind,
    Question,
    QuestionStream,
    RequestClass,
    RequestTask,
    Way,
)
from hetsim.provisioning.platforms.search import Search
from hetsim.provisioning.platforms.simulation import batch_means
from hetsim.reporting.tables.recommendation import recommendation_record, recommendation_report
from hetsim.workload.arrivals import Poisson
from hetsim.workload.workload import Slo
from sweeps import examples

BUDGET = 2**14
MOST = 4


@dataclass
class Priced:
    """A draft whose kinds have the given ways, each as soon as it is priced."""

    question: Question
    ways: dict[tuple[int, int], tuple[Way, ...]]
    components: tuple[Any, ...] = ()
    planner: Any = None
    known: set[int] = field(default_factory=set)

    def priced(self, k: int, counts: Any, within_s: float = 0.0) -> None:
        self.known.add(k)

    @property
    def so_far(self) -> Question:
        ways = {key: row for key, row in self.ways.items() if key[0] in self.known}
        return replace(self.question, ways=ways)


def question_at(rate: float, kinds: list[tuple[int, float, float]]) -> Priced:
    """One device a kind: its cost, what a request takes it in ms, and what batches of 4 save."""
    ways = {}
    for k, (_, alone_ms, saves) in enumerate(kinds):
        each = {1: alone_ms / 1e3, 4: 4 * alone_ms / 1e3 * saves}
        ways[k, 0] = tuple(
            Way(b, (RequestTask(0, s, (), ()),), s) for b, s in each.items() if s >= alone_ms / 1e3
        )
    slo = Slo(0.95, 0.05)
    question = Question(
        "cost",
        MOST,
        tuple(DeviceType(f"kind{k}", 1, 1 << 33) for k in range(len(kinds))),
        tuple(
            Kind(f"kind{k}", (k,), 0, cost * 10**6, MOST, price=Price(usd=1.0))
            for k, (cost, _, _) in enumerate(kinds)
        ),
        ("model",),
        (RequestClass(0),),
        (QuestionStream("model", 0, (slo,)),),
        (ClassRequests(0, 0, rate),),
        {},
        given=False,
    )
    return Priced(question, ways)


KINDS = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.floats(2.0, 70.0).map(lambda ms: round(ms, 1)),
        st.sampled_from((0.4, 0.7, 1.0)),
    ),
    min_size=2,
    max_size=3,
)


@examples(quick=3, full=10)
@given(KINDS, st.sampled_from((20.0, 60.0, 150.0)))
def test_nothing_cheaper_meets(kinds: list[tuple[int, float, float]], rate: float) -> None:
    draft = question_at(rate, kinds)
    stream = hetsim.Stream("model", "none.onnx", Poisson(rate), slos=(Slo(0.95, 0.05),))
    workload = hetsim.Workload((stream,), requests=BUDGET)
    market = Market(draft, workload, BUDGET, 0.0, float("inf"))  # type: ignore[arg-type]
    market.alone()
    found, complete, rest = market.mixes()
    assert complete
    assert not rest
    # By the ways alone, whatever was priced: each mix played by every policy.
    full = replace(draft.question, ways=draft.ways)
    search = Search(
        full, workload, budget=BUDGET, sampled=False, policies=policies_for_one(full),
        by_batches=True,
    )  # fmt: skip
    undecided = set(found.undecided)
    answer = found.answer
    cost = full.dearest + 1 if answer is None else full.cost(answer.counts)
    for counts in product(range(MOST + 1), repeat=len(kinds)):
        if 0 < sum(counts) <= MOST and full.cost(counts) < cost and counts not in undecided:
            assert search.play(counts).answer != "meets", counts
    if answer is not None:
        assert search.play(answer.counts).answer != "misses"


def test_kinds_that_are_dearer_than_the_next_best_are_not_priced() -> None:
    draft = question_at(20.0, [(1, 10.0, 1.0), (2, 10.0, 1.0), (30, 5.0, 1.0)])
    stream = hetsim.Stream("model", "none.onnx", Poisson(20.0), slos=(Slo(0.95, 0.05),))
    workload = hetsim.Workload((stream,), requests=BUDGET)
    market = Market(draft, workload, BUDGET, 0.0, float("inf"))  # type: ignore[arg-type]
    market.alone()
    # The second is priced as the next best.
    assert [market.singles[k].standing for k in range(3)] == ["meets", "meets", "dearer"]
    assert draft.known == {0, 1}
    found, complete, _ = market.mixes()
    assert complete
    assert found.answer is not None
    assert found.answer.counts == (1, 0, 0)


def test_batch_means_tell_only_what_a_run_shows() -> None:
    draws = np.random.default_rng(0).random(21_000)
    assert batch_means(draws < 0.01, 0.95, 0.01) == "meets"
    assert batch_means(draws < 0.20, 0.95, 0.01) == "misses"
    assert batch_means(draws < 0.05, 0.95, 0.01) == "undecided"
    # Late more and more often: a queue that grows.
    assert batch_means(draws < np.linspace(0, 0.098, len(draws)), 0.95, 0.5) != "meets"


def test_every_kind_of_the_priced_catalog_has_a_dated_offer() -> None:
    found = priced_catalog()
    assert len(found.catalog.kinds) >= 10
    for entry in found.catalog.kinds:
        had = found.had[entry.name]
        assert entry.price is not None
        assert entry.price.rented == had.rented
        assert had.month[:2] == "20"
        if entry.host:
            assert entry.price.usd is not None
            assert entry.price.usd > (had.offer.usd or 0)
    assert not set(found.unpriced) & {had.offer.name for had in found.had.values()}
    few = priced_catalog(["jetson-orin-nano"])
    assert {had.offer.name for had in few.had.values()} == {"jetson-orin-nano"}
    assert machine_name("AWS g4dn.xlarge, us-east-1, on demand") == "aws-g4dn.xlarge"
    for name, says in (
        (found.unpriced[0], "give it a price in a catalog file"),
        ("rockchip-rk3588-npu", "write rock-5b, of which it is a part"),
    ):
        with pytest.raises(hetsim.errors.UsageError, match=says):
            priced_catalog([name])
    with pytest.raises(hetsim.errors.UsageError, match="no hardware or machine 'jetson-orin-nan'"):
        priced_catalog(["jetson-orin-nan"])


def test_the_answer_is_a_sentence_and_a_record() -> None:
    found = hetsim.recommend(
        model="zoo:resnet18",
        rate_per_s=20,
        catalog="jetson-orin-nano,raspberry-pi-5-cpu",
        time_limit_s=600,
        samples=2,
    )
    best = found.require()
    assert found.purchase is not None
    assert found.purchase.complete
    assert found.purchase.lifetime_years == 3
    record = recommendation_record(found)
    assert record["verdict"]["say"].startswith(("Buy ", "Rent "))
    assert record["purchase"]["choices"][0]["counts"] == dict(best.counts)
    assert record["answer"]["cost"] == pytest.approx(found.purchase.choices[0].hourly_usd)
    assert to_json(record)
    shown_in = io.StringIO()
    Console(width=200, file=shown_in).print(recommendation_report(found))
    shown = shown_in.getvalue()
    assert "depreciates over 3 years" in shown
    assert "US average" in shown
    dearer = hetsim.recommend(
        model="zoo:resnet18",
        rate_per_s=20,
        catalog="jetson-orin-nano,raspberry-pi-5-cpu",
        time_limit_s=600,
        samples=0,
        depreciation_years=1,
    )
    assert dearer.require().cost > best.cost


def test_a_catalog_file_has_prices_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    price = "{usd: 150, years: 3, of: 2025-01, source: an offer}"
    file.write_text(f"kinds:\n  board: {{platform: rock-5b, link: eth1, price: {price}}}\n")
    found = hetsim.recommend(model="zoo:squeezenet", rate_per_s=20, catalog=file, samples=0)
    shown_in = io.StringIO()
    Console(width=200, file=shown_in).print(recommendation_report(found))
    assert "Buy 1 board ($150" in shown_in.getvalue()
    assert "Prices are of" not in shown_in.getvalue()
    late = hetsim.recommend(
        model="zoo:squeezenet", rate_per_s=20, slos=("p99=1us",), catalog=file, samples=0
    )
    with pytest.raises(hetsim.errors.ObjectiveMissed, match="no plan answers one request within"):
        late.require()


def test_one_model_wants_a_rate_and_no_workload() -> None:
    with pytest.raises(hetsim.errors.UsageError, match="no rate"):
        hetsim.recommend(model="zoo:resnet18")
    with pytest.raises(hetsim.errors.UsageError, match="a workload or a model"):
        hetsim.recommend()
    stream = hetsim.Stream("all", "zoo:resnet18", Poisson(1.0), slos=(Slo(0.5, 1.0),))
    with pytest.raises(hetsim.errors.UsageError, match="goes with a catalog"):
        hetsim.recommend(hetsim.Workload((stream,), requests=10))
