"""Generated networks: the same every time, accepted by the checker and the runtime, finite."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from hetsim.cost.calibration.builder import KINDS, single
from hetsim.cost.calibration.fitting import lowered
from hetsim.cost.calibration.measuring import BLOCK, generated, judged, part_of, rounds
from hetsim.cost.calibration.networks import networks
from hetsim.cost.kernels.form import FORMS
from hetsim.device.kernels.timing import time_network
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.loading import load_model, model_of

KNOWN = tuple(sorted({one.kind for one in networks(12)}))


def first_of(kind: str) -> onnx.ModelProto:
    return next(one for one in networks(12) if one.kind == kind).build()


@pytest.mark.parametrize("kind", KNOWN)
def test_a_network_is_the_same_every_time_and_valid(kind: str) -> None:
    made = first_of(kind)
    onnx.checker.check_model(made, full_check=True)
    assert made.SerializeToString() == first_of(kind).SerializeToString()


@pytest.mark.parametrize("index", range(len(KINDS)))
def test_single_layers_of_every_kind_run(index: int) -> None:
    made = single("s", np.random.default_rng([1, index]), (index,), 3)
    onnx.checker.check_model(made, full_check=True)
    model = model_of(made)
    timed = time_network(
        model.proto.SerializeToString(), random_inputs(model), "CPUExecutionProvider", 1,
        runs=1, most_s=1.0,
    )  # fmt: skip
    assert timed.kernels


def test_values_neither_grow_nor_fade() -> None:
    import onnxruntime

    for index in (0, 2, 6):
        made = networks(index + 1)[index].build()
        session = onnxruntime.InferenceSession(
            made.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        model = model_of(made)
        for array in session.run(None, random_inputs(model)):
            size = np.abs(array).mean()
            assert 1e-6 < size < 1e6


def test_the_first_networks_have_most_forms() -> None:
    found: set[str] = set()
    for one in generated(0, 24):
        _, rows = lowered(one.load().graph)
        found |= {FORMS[int(row[0])] for row in rows}
    assert found >= {"dense", "pointwise", "depthwise", "matmul", "batched", "pooling", "softmax"}


def test_what_is_measured_comes_in_blocks_each_two_times() -> None:
    order = [(round_, task.name) for round_, task in rounds(2 * BLOCK, ["squeezenet"])]
    assert len(order) == len(set(order)) == 2 * (2 * BLOCK + 3)
    half = [task for round_, task in order if round_ == 0]
    assert half[:BLOCK] == [task.name for task in generated(0, BLOCK)]
    assert half[BLOCK : BLOCK + 3] == ["zoo:squeezenet", "zoo:squeezenet 1/2", "zoo:squeezenet 2/2"]
    few = [(round_, task.name) for round_, task in rounds(3, [])]
    assert few == [(round_, task.name) for round_ in (0, 1) for task in generated(0, 3)]


def test_parts_of_a_network_are_all_of_it() -> None:
    whole = load_model("zoo:squeezenet")
    parts = [part_of("zoo:squeezenet", part, 4, 0) for part in range(4)]
    assert all(len(part.graph.nodes) >= 3 for part in parts)
    names = [node.name for part in parts for node in part.graph.nodes]
    assert names == [node.name for node in whole.graph.nodes]
    assert [task.name for task in judged(["resnet18"])] == [
        "zoo:resnet18", "zoo:resnet18 1/2", "zoo:resnet18 2/2",
    ]  # fmt: skip
