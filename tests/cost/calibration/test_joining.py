"""What joins a kernel: learnt where the runtime ran it within the kernel, and kept where said."""

from __future__ import annotations

import numpy as np
import pytest

from hetsim.cost.calibration.correcting import learnt_joins
from hetsim.cost.calibration.fitting import lowered, matched_nodes, network_of
from hetsim.cost.calibration.measuring import Setting, Taken, generated, taken
from hetsim.cost.kernels.fusion import joints
from hetsim.device.kernels.timing import time_network
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work


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
