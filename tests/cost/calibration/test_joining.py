"""What joins a kernel: learnt where the runtime ran it within the kernel, and kept where said."""

from __future__ import annotations

import numpy as np
import pytest

from hetsim.cost.calibration.correcting import learnt_joins
from hetsim.cost.calibration.fitting import lowered, matched_nodes, network_of
from hetsim.cost.calibration.measuring import Setting, Taken, generated, taken
from hetsim.cost.kernels.fusion import epilogues, joints
from hetsim.device.kernels.timing import time_network
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work
from kernel_graphs import graph_of

GRAPH = graph_of(
    [
        ("Conv", ["x", "w"], ["c"], {}),
        ("HardSwish", ["c"], ["h"], {}),
        ("Add", ["h", "r"], ["a"], {}),
        ("Relu", ["a"], ["y"], {}),
        ("Sigmoid", ["y"], ["s"], {}),
        ("Mul", ["y", "s"], ["z"], {}),
    ],
    {"x": (1, 8, 4, 4), "w": (8, 8, 1, 1)} | dict.fromkeys("rchaysz", (1, 8, 4, 4)),
    constants=("w",),
)


def sets(**joins: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    said = {form: frozenset(words) for form, words in joins.items()}
    return epilogues(GRAPH, graph_work(GRAPH), [True] * 6, joins=said)


def test_all_joins_where_nothing_is_said() -> None:
    works = graph_work(GRAPH)
    assert epilogues(GRAPH, works, [True] * 6) == ((0, 1, 2, 3, 4, 5),)
    found = joints(GRAPH, works)
    assert [(one.form, one.word, one.root) for one in found] == [
        ("pointwise", "HardSwish", 0), ("pointwise", "Add/2", 0), ("pointwise", "Relu", 0),
        ("elementwise", "Sigmoid/gate", 4), ("pointwise", "Sigmoid/gate", 0),
    ]  # fmt: skip
    assert found[-1].nodes == found[-2].nodes == (4, 5)


def test_only_what_is_said_joins() -> None:
    assert sets() == ()
    assert sets(pointwise=("HardSwish", "Add")) == ((0, 1),)
    assert sets(elementwise=("Add>Relu",)) == ((2, 3),)
    assert sets(elementwise=("Relu", "Mul>Relu")) == ()
    assert sets(elementwise=("Sigmoid/gate",)) == ((4, 5),)
    joined = sets(pointwise=("HardSwish", "Add/2"), elementwise=("Sigmoid>Mul/2",))
    assert joined == ((0, 1, 2), (4, 5))


def test_a_norm_takes_in_the_sum_before_it_only_where_that_is_said() -> None:
    nodes = [
        ("Add", ["x", "r"], ["a"], {}),
        ("LayerNormalization", ["a", "scale"], ["y"], {}),
        ("Add", ["y", "r"], ["b"], {}),
        ("LayerNormalization", ["b", "scale"], ["z"], {}),
        ("Add", ["b", "z"], ["out"], {}),
    ]
    shapes = {"scale": (8,)} | dict.fromkeys(("x", "r", "a", "y", "b", "z", "out"), (4, 8))
    graph = graph_of(nodes, shapes, constants=("scale",))
    works = graph_work(graph)
    said = {"normalization": frozenset({"Add/before"})}
    # The second sum has another reader.
    assert epilogues(graph, works, [True] * 5, joins=said) == ((0, 1),)
    assert epilogues(graph, works, [True] * 5, joins={}) == ()
    assert (0, 1) not in epilogues(graph, works, [True] * 5)
    told = [one for one in joints(graph, works) if one.form == "normalization"]
    assert ("Add/before", 0, (0, 1)) in [(one.word, one.root, one.nodes) for one in told]


def test_a_sum_of_two_is_an_addition() -> None:
    graph = graph_of(
        [("Conv", ["x", "w"], ["c"], {}), ("Sum", ["c", "r"], ["y"], {})],
        {"x": (1, 8, 4, 4), "w": (8, 8, 1, 1)} | dict.fromkeys("rcy", (1, 8, 4, 4)),
        constants=("w",),
    )
    said = {"pointwise": frozenset({"Add/2"})}
    assert epilogues(graph, graph_work(graph), [True] * 2, joins=said) == ((0, 1),)


@pytest.fixture(scope="module")
def measured() -> tuple[Model, Taken]:
    model = generated(1, 2)[0].load()
    timed = time_network(
        model.proto.SerializeToString(), random_inputs(model), "CPUExecutionProvider", 1,
        runs=2, most_s=1.0,
    )  # fmt: skip
    return model, taken("n", 0, timed, Setting("cpu", 1, "r"))


def test_what_ran_within_a_kernel_is_learnt(measured: tuple[Model, Taken]) -> None:
    model, times = measured
    found = learnt_joins([measured])
    assert found is not None
    _, nodes = matched_nodes(model, times)
    together = {frozenset(each) for each in nodes}
    for one in joints(model.graph, graph_work(model.graph)):
        within = any({one.root, *one.nodes} <= each for each in together)
        if within:
            assert one.word in found.get(one.form, frozenset())
    assert learnt_joins([]) is None
    assert learnt_joins([(model, Taken("n", 0, 1.0, 0.0, 0.0, ()))]) is None


def test_points_are_all_that_was_timed_but_views(measured: tuple[Model, Taken]) -> None:
    model, times = measured
    network = network_of(model, times, learnt_joins([measured]))
    in_points = sum(point.seconds for point in network.points)
    assert 0.9 * network.timed_s <= in_points <= network.timed_s * (1 + 1e-9)
    kernels, rows = lowered(model.graph, learnt_joins([measured]))
    assert len(kernels) == len(rows) == sum(len(point.rows) for point in network.points)
    assert np.array_equal(network.rows, rows)
