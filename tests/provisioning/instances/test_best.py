"""The best sets of replicas against all of them, and bounds against what they bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetsim.problem.parts import StorageWidth
from hetsim.provisioning.instances.replicas import ReplicaChoices, SharedWeights
from hetsim.provisioning.instances.search import best_of, few_of
from oracles.every_placement import most_carried
from replica_builders import random_replicas
from sweeps import sweep


@sweep("seed", quick=range(1, 3), full=range(300))
def test_it_is_the_best_of_all_and_its_gap_is_never_below_the_true_one(seed: int) -> None:
    replicas = random_replicas(seed, most=18)
    best = best_of(replicas)
    truth = most_carried(replicas)
    assert best.factor == pytest.approx(truth, rel=1e-9)
    assert best.proved
    assert best.factor * (1 + best.gap) >= truth * (1 - 1e-12)
    assert best.relaxed >= best.bound >= truth * (1 - 1e-12)
    for chosen, flow in best.sets:
        assert replicas.fits(chosen)
        assert 0 < flow.factor <= flow.bound * (1 + 1e-12)
        # What is said to be carried keeps nothing busy for longer than there is time.
        asked = flow.share * replicas.demand[replicas.way_kind] * flow.factor
        assert (asked @ replicas.work <= replicas.width * (1 + 1e-9)).all()
        for one in chosen:
            mine = replicas.ways_of[one]
            assert asked[mine] @ replicas.within_s[mine] <= replicas.places[one] * (1 + 1e-9)
        whole = np.bincount(replicas.way_kind, flow.share, len(replicas.demand))
        assert whole == pytest.approx(np.ones(len(replicas.demand)))
    few = few_of(best, replicas, 4)
    assert len(few) <= 4
    assert all(replicas.fits(chosen) and replicas.serves_all(chosen) for chosen, _ in few)
    if few:
        assert few[0][1].factor == pytest.approx(best.factor, rel=1e-8)


@sweep("seed", quick=[0], full=range(60))
def test_a_search_that_ends_early_says_how_far_it_may_be_off(seed: int) -> None:
    replicas = random_replicas(seed, most=16)
    truth = most_carried(replicas)
    for nodes in (1, 5, 20):
        best = best_of(replicas, nodes=nodes)
        assert best.factor <= truth * (1 + 1e-9)
        assert best.bound >= truth * (1 - 1e-12)


def two_models(room: int) -> ReplicaChoices:
    """Two models alike, each on either of two devices alike, 10 bytes of weights each."""
    return ReplicaChoices(
        model=(0, 0, 1, 1),
        demand=np.array([1.0, 1.0]),
        kind_model=(0, 1),
        way_replica=np.arange(4),
        way_kind=np.array([0, 0, 1, 1]),
        work=np.array([[0.5, 0.0], [0.0, 0.5], [0.5, 0.0], [0.0, 0.5]]),
        width=np.ones(2),
        within_s=np.full(4, 0.5),
        alone_s=np.full(4, 0.5),
        places=np.full(4, np.inf),
        live=np.zeros((4, 2), dtype=np.int64),
        parts=(
            SharedWeights(0, 0, 10, (0,)),
            SharedWeights(0, 1, 10, (1,)),
            SharedWeights(1, 0, 10, (2,)),
            SharedWeights(1, 1, 10, (3,)),
        ),
        room=(room, room),
        held=((StorageWidth(), StorageWidth()),) * 2,
    )


def test_two_models_on_two_devices() -> None:
    # One each, or both on both: two devices do the work of two requests in half a second each.
    for room in (10, 19, 20):
        best = best_of(two_models(room))
        assert best.factor == pytest.approx(2.0, rel=1e-12)
        assert (best.gap, best.proved) == (pytest.approx(0, abs=1e-12), True)
        assert len(best.sets[0][0]) == 2
    assert best_of(two_models(9)).sets == ()
    assert best_of(two_models(9)).proved
    # A device that has half the bytes of the graph's own has room for both.
    halved = replace(two_models(10), held=((StorageWidth(2, 1), StorageWidth()),) * 2)
    assert halved.fits((0, 2))
    assert not halved.fits((1, 3))
    assert best_of(halved).factor == pytest.approx(2.0)


def test_a_limit_of_batches_under_way_binds_and_weights_are_there_once() -> None:
    limited = replace(two_models(10), places=np.full(4, 0.5))
    assert best_of(limited).factor == pytest.approx(1.0)
    shared = replace(
        two_models(15),
        parts=(SharedWeights(0, 0, 10, (0, 1)), SharedWeights(1, 0, 5, (2, 3))),
    )
    assert shared.held_bytes((0, 1, 2, 3)) == [15, 0]
    assert best_of(shared).factor == pytest.approx(2.0)


def test_what_asks_for_no_work_is_carried_at_any_rate() -> None:
    free = replace(two_models(20), work=np.zeros((4, 2)))
    best = best_of(free)
    assert (best.factor, best.gap) == (np.inf, 0)
