"""A question that is asked again: what is changed, what stays, and what cannot be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import hetsim
from builders import BOX
from hetsim.analysis.lint.finders import seconds_on, weights
from hetsim.analysis.lint.suspects import Asked, Change, Seen, targets_of
from hetsim.analysis.what_if import supposed_seconds, wider_link
from hetsim.errors import Infeasible
from hetsim.graph.work import graph_work
from hetsim.hardware.kernel_figures import INDEX
from hetsim.placement.objective import bottleneck
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced

INF = math.inf


def chain(**more: Any) -> Problem:
    return Problem.from_arrays(
        [[4.0, 1.0], [4.0, INF], [4.0, 1.0]], edges=[(0, 1, 2), (1, 2, 2)], devices=("a", "b"),
        bytes_per_s=1.0, contention="fifo", **more,
    )  # fmt: skip


def asked(
    problem: Problem, objective: Any = "latency", strategy: str = "", **options: Any
) -> Asked:
    usual = "heft" if objective == "latency" else "chain-dp"
    return Asked(problem, strategy or usual, objective, options)


def test_pins_of_a_change_hold_beside_those_that_are_given_and_never_against_them() -> None:
    problem = chain()
    by = asked(problem, pins={"n0": "a"})
    both = by.planned(problem, {"n2": "b"})
    where = {v: group.device for group in both.groups for v in group.nodes}
    assert (where[0], where[2]) == ("a", "b")
    kept = by.planned(problem, {"n0": "b", "n2": "b"})
    where = {v: group.device for group in kept.groups for v in group.nodes}
    assert (where[0], where[2]) == ("a", "b")
    assert by.options == {"pins": {"n0": "a"}}
    with pytest.raises(Infeasible):
        asked(problem, max_devices=1).planned(problem, {"n0": "a", "n2": "b"})


def test_what_a_plan_costs_is_by_the_objective() -> None:
    problem = chain()
    plan = hetsim.plan(problem, "single:a")
    assert asked(problem).costs(plan) == hetsim.simulate(plan).latency_s == 12.0
    through = asked(problem, "throughput")
    assert through.costs(plan) == bottleneck(plan)
    assert through.planned(problem).options["objective"] == "throughput"
    assert "objective" not in asked(problem).planned(problem).options


def test_a_change_of_arrays_is_wider_links_and_nodes_that_are_taken() -> None:
    problem = chain()
    by = asked(problem)
    assert by.changed(Change("nothing")) is problem
    wide = by.changed(Change("wide", wider=("a>b", "b>a")))
    expected = wider_link(wider_link(problem, "a>b"), "b>a")
    assert wide.routes == expected.routes
    taken = by.changed(Change("taken", takes=(("b", (0, 1)),)))
    # What it takes by itself stays as it is.
    assert taken.seconds[:, 1].tolist() == [1.0, *supposed_seconds(problem, 1, [1]), 1.0]
    assert by.after(Change("taken", takes=(("b", (1,)),))) == 3.0
    assert by.after(Change("pinned", pins=(("n0", "b"),))) == 1.0 + 2.0 + 4.0 + 2.0 + 1.0
    assert by.after(Change("wrong", pins=(("n1", "b"),))) is None
    assert by.after(Change("wrong", pins=(("nothing", "b"),))) is None
    assert by.after(Change("wrong", wider=("nothing",))) is None
    # Where the problem is known it is not asked for again.
    assert by.after(Change("nothing"), taken) == 3.0


def test_the_same_change_in_other_words_is_one() -> None:
    parts: list[dict[str, Any]] = [
        {"pins": (("n0", "a"),)}, {"execute": (("a", "int8"),)}, {"what_if": ("x",)},
        {"takes": (("a", (1,)),)}, {"wider": ("l",)}, {},
    ]  # fmt: skip
    for part in parts:
        assert {Change("one", **part), Change("another", **part)} == {Change("", **part)}
    assert len({Change("one", **part) for part in parts}) == len(parts)


@pytest.fixture(scope="module")
def box() -> Problem:
    return Problem.of(hetsim.load_model("zoo:squeezenet"), hetsim.load_platform(str(BOX)))


def test_a_change_of_a_platform_is_priced_anew(box: Problem) -> None:
    by = asked(box)
    assert box.platform is not None
    for change, platform, execute in (
        (Change("c", what_if=("device npu.speed x2",)),
         hetsim.what_if(box.platform, "device npu.speed x2"), {}),
        (Change("c", execute=(("npu", "int8"),)), box.platform, {"npu": "int8"}),
        (Change("c", what_if=("device npu.speed x2",), execute=(("npu", "int8"),)),
         hetsim.what_if(box.platform, "device npu.speed x2"), {"npu": "int8"}),
    ):  # fmt: skip
        found = by.changed(change)
        assert found.fingerprint == repriced(box, platform, execute).fingerprint
    assert by.after(Change("c", what_if=("device nothing.speed x2",))) is None


def test_weights_are_suspected_that_do_not_stay_on_the_chip() -> None:
    model = hetsim.load_model("zoo:resnet18")
    problem = Problem.of(model, hetsim.load_platform("edge-tpu"), execute={"tpu": "int8"})
    plan = hetsim.plan(problem, "hetero:tpu,cpu")
    looked = Seen(asked(problem), plan, targets_of(problem, "tpu"))
    (one,) = weights(looked)
    tpu = problem.device_index("tpu")
    assert problem.platform is not None
    figures = problem.platform.devices["tpu"].kernels["int8"]
    on_chip = figures.values[INDEX["weights_on_chip_mib"]]
    works = graph_work(model.graph)
    own = [v for v in range(problem.n) if problem.runnable[v, tpu]]
    # In integers of one byte, of which floats take four.
    held = sum(
        works[v].integer_bytes + (works[v].weight_bytes - works[v].integer_bytes) / 4 for v in own
    )
    assert held > on_chip
    (change,) = one.changes
    factor = math.ceil(held / on_chip)
    assert change.what_if == (f"tpu.kernels.weights_on_chip_mib x{factor}",)
    assert one.nodes == tuple(v for v in own if works[v].weight_bytes)
    there = looked.after(change)
    assert there is not None
    less = seconds_on(plan, {tpu}, problem) - seconds_on(plan, {tpu}, there)
    assert one.cost_s == less > 0
    # Nothing is said without a plan, of what has no figures, or of arrays.
    assert list(weights(Seen(asked(problem), None, looked.targets))) == []
    assert list(weights(Seen(asked(problem), plan, targets_of(problem, "cpu")))) == []
    arrays = chain()
    assert list(weights(Seen(asked(arrays), hetsim.plan(arrays, "heft"), ()))) == []
    assert np.isfinite(less)
