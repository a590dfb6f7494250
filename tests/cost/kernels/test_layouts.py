"""Copies between orders of channels: told as ONNX Runtime makes them, and priced where they are."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hetsim.cost.calibration.calibrate import device_file
from hetsim.cost.calibration.corrections import learnt_block
from hetsim.cost.calibration.fit import Fit, Overheads, network_of, predicted_s, prior
from hetsim.cost.calibration.measurements import (
    NetworkRun,
    RunKernel,
    RunSettings,
    generated,
    network_run,
)
from hetsim.cost.kernels.layouts import COPIES, Copy, copies_of
from hetsim.device.kernels.timing import time_network
from hetsim.graph.graph import Graph
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.loading import load_model
from hetsim.graph.model import Model
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.kernel_figures import INDEX, Correction
from hetsim.problem.problem import Problem
from kernel_graphs import graph_like, node
from sweeps import sweep

JOINS = {
    "pointwise": frozenset({"Relu", "Add/2", "Clip"}),
    "dense": frozenset({"Relu"}),
    "depthwise": frozenset({"Clip"}),
    "elementwise": frozenset({"Sigmoid/gate", "Div>Erf"}),
    "normalization": frozenset({"Add/before"}),
}
Nodes = list[tuple[str, list[str], list[str], dict[str, Any]]]
SHAPE = (1, 32, 6, 6)


def image(nodes: Nodes, *, outputs: tuple[str, ...] = (), **shapes: tuple[int, ...]) -> Graph:
    """Images, but for `shapes`; what begins with w is a constant."""
    return graph_like(nodes, SHAPE, outputs=outputs, **shapes)


def test_a_value_is_copied_once_into_blocks_and_once_out_of_them():
    graph = image(
        [
            ("Conv", ["x", "w1"], ["a"], {}),
            ("Conv", ["x", "w2"], ["b"], {}),
            ("Add", ["a", "b"], ["c"], {}),
            ("Erf", ["c"], ["d"], {}),
            ("Neg", ["c"], ["e"], {}),
        ],
        w1=(32, 32, 1, 1),
        w2=(32, 32, 3, 3),
        outputs=("d", "e"),
    )
    assert copies_of(graph, 16) == (Copy(0, math.prod(SHAPE)), Copy(2, math.prod(SHAPE)))


def test_the_last_block_is_filled_up():
    graph = image(
        [("Conv", ["x", "w"], ["y"], {})], x=(2, 20, 6, 6), y=(2, 8, 6, 6), w=(8, 20, 1, 1)
    )
    assert copies_of(graph, 16) == (Copy(0, 2 * 32 * 36), Copy(0, 2 * 8 * 36))
    assert copies_of(graph, 4) == (Copy(0, 2 * 20 * 36), Copy(0, 2 * 8 * 36))


def test_an_image_is_read_as_it_is():
    graph = image([("Conv", ["x", "w"], ["y"], {})], x=(1, 3, 6, 6), w=(32, 3, 1, 1))
    assert copies_of(graph, 16) == (Copy(0, math.prod(SHAPE)),)


@pytest.mark.parametrize(
    ("weights", "groups"),
    [((32, 33, 1, 1), 1), ((32, 2, 3, 3), 16), ((33, 1, 3, 3), 33), ((32, 32, 3), 1)],
)
def test_convolutions_of_odd_channels_groups_or_dims_are_not_for_blocks(weights, groups):
    channels = weights[1] * groups
    shape = (1, channels, 6, 6)[: len(weights)]
    graph = image(
        [("Conv", ["x", "w"], ["y"], {"group": groups})],
        x=shape, y=(1, weights[0], 6, 6)[: len(weights)], w=weights,
    )  # fmt: skip
    assert copies_of(graph, 16) == ()


def test_weights_that_are_computed_keep_a_convolution_plain():
    nodes = [("Neg", ["r"], ["v"], {}), ("Conv", ["x", "v"], ["y"], {})]
    assert copies_of(image(nodes, r=(32, 32, 1, 1), v=(32, 32, 1, 1)), 16) == ()


NETWORKS = ("zoo:shufflenet", "zoo:squeezenet", "zoo:densenet121", "zoo:mobilenet_v2")
SETTING = RunSettings("cpu", 1, "ONNX Runtime 0", {"processor": "a CPU"}, 0)


def ran(model: Model) -> NetworkRun:
    """The kernels that ONNX Runtime runs of a model on this machine."""
    timed = time_network(
        model.proto.SerializeToString(), random_inputs(model), "CPUExecutionProvider", 1, runs=1,
        most_s=0.0, weights_dir=None if model.weights_dir is None else str(model.weights_dir),
    )  # fmt: skip
    return network_run(model.name, 0, timed, SETTING)


@pytest.mark.sweep
def test_copies_are_those_of_the_runtime():
    models = [load_model(name) for name in NETWORKS]
    models += [one.load() for one in generated(0, 60) if one.name.startswith("convolutional")]
    found = [(model, ran(model)) for model in models]
    block = learnt_block(found)
    unlike = []
    for model, times in found:
        made = Counter(one.elements for one in times.kernels if one.op in COPIES)
        # On a machine for whose vectors the runtime has no blocks it makes none of any model.
        told = Counter(one.elements for one in copies_of(model.graph, block)) if block else {}
        if made != Counter(told):
            unlike.append(model.name)
    # Which of many rules the runtime keeps differs by version: a few networks may.
    assert len(unlike) <= len(models) // 10, unlike


def taken_of(copies: tuple[Copy, ...]) -> NetworkRun:
    kernels = tuple(
        RunKernel(f"copy{i}", "ReorderInput", copy.elements, 1e-6) for i, copy in enumerate(copies)
    )
    return NetworkRun("n", 0, 1.0, 0.0, 0.0, kernels)


def test_the_block_is_the_one_that_tells_most_copies():
    model = load_model("zoo:shufflenet")
    for block in (8, 16, 32):
        assert learnt_block([(model, taken_of(copies_of(model.graph, block)))]) == block
    assert learnt_block([(model, NetworkRun("n", 0, 1.0, 0.0, 0.0, ()))]) is None


@sweep("name", quick=["shufflenet"], full=["shufflenet", "bert_small", "densenet121"])
@pytest.mark.parametrize("slow_norms", [False, True])
def test_a_problem_on_the_written_device_takes_what_was_judged(name, slow_norms, tmp_path):
    """Also where the runtime's one kernel takes longer than two: it joins them all the same."""
    mean, _ = prior("cpu", 1)
    values = mean.copy()
    values[INDEX["io_gbytes_s"]] = np.log(1e20)
    fitted = Fit(values, Overheads(0.0, 0.0))
    factors = (Correction("normalization", 4.0 if slow_norms else 0.0, (), (), ()),)
    text = device_file(SETTING, "2026-01-01", 1, fitted, factors, JOINS, 16, ())
    path = tmp_path / "cpu.yaml"
    path.write_text(text, encoding="utf-8")
    model = load_model(f"zoo:{name}")
    network = network_of(model, NetworkRun(name, 0, 1.0, 0.0, 0.0, ()), JOINS, 16)
    judged = predicted_s(replace(network, io_bytes=0.0), fitted, factors)
    problem = Problem.of(model, load_platform(str(path)))
    seconds = problem.group_seconds(0, range(problem.n))
    assert seconds == pytest.approx(judged, rel=2e-3)
    copies = network_of(model, NetworkRun(name, 0, 1.0, 0.0, 0.0, ()), JOINS, None)
    plain = predicted_s(replace(copies, io_bytes=0.0), fitted, factors)
    assert (judged > plain) == bool(copies_of(model.graph, 16))


BLOCK = 16
ALL = 32 * 36
"""Elements of an image."""

WEIGHTS = {"w": (32, 32, 1, 1)}


def conv(source: str = "x", result: str = "c", weight: str = "w", **attributes: Any) -> Any:
    return ("Conv", [source, weight], [result], attributes)


def copied(found: Graph) -> list[tuple[int, int]]:
    return [(copy.node, copy.elements) for copy in copies_of(found, BLOCK)]


IN, LAST = (0, ALL), (1, ALL)
"""Copies of an image into blocks for node 0, and of what node 1 makes out of them."""


@pytest.mark.parametrize(
    "after",
    [
        node("Relu", "c"), node("Sigmoid", "c"), node("Tanh", "c"), node("LeakyRelu", "c"),
        node("Clip", "c"), node("MaxPool", "c"), node("AveragePool", "c"), node("Resize", "c"),
        node("Upsample", "c"), node("GlobalMaxPool", "c"), node("GlobalAveragePool", "c"),
        node("BatchNormalization", "c", "w1"), node("Mul", "c", "w4"), node("Mul", "c", "w3"),
        node("Concat", "c", axis=1), conv("c", "y"),
    ],
    ids=lambda node: f"{node[0]} {len(node[1])} {node[1][-1]}",
)  # fmt: skip
def test_what_has_a_kernel_for_blocks_keeps_them(after: Any) -> None:
    shapes = {"w1": (32,), "w3": (32, 1, 1), "w4": (1, 32, 1, 1)}
    assert copied(image([conv(), after], **WEIGHTS, **shapes)) == [IN, LAST]
