"""Every zoo model, by every method and at random: the split model is the same model.

Each time a transformer and a network of convolutions; the sweep has the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import hetsim
from hetsim.backend import Split, split
from hetsim.execution.transports.ray_connection import RayConnection
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.loading import model_of
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import platform_names
from hetsim.partitioning.onnx_export import save, to_functions
from onnx_builders import assert_bitwise_equal, run_whole
from oracles.onnx_suite import side_by_side
from sweeps import sweep


def outputs(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


@pytest.mark.slow
@sweep(
    "name, step", quick=[("bert_small", 7)], full=[("bert_small", 7), *product(zoo.names(), [1])]
)
def test_split_models_pass_the_checker_and_agree(name: str, step: int, tmp_path: Path) -> None:
    model = hetsim.load_model(f"zoo:{name}")
    feeds = random_inputs(model, seed=3)
    whole = outputs(save(model.proto, tmp_path / "whole.onnx", model.weights_dir), feeds)
    seen = set()
    for platform in platform_names()[::step]:
        problem = hetsim.Problem.of(model, hetsim.load_platform(platform))
        for info in hetsim.methods():
            groups = hetsim.partition(problem, info.name).groups
            key = tuple(group.nodes for group in groups)
            # Many methods agree; a split is a split whatever its devices are called.
            if key in seen:
                continue
            seen.add(key)
            proto = to_functions(problem, groups)
            assert len(proto.graph.node) == len(groups)
            path = save(proto, tmp_path / "split.onnx", model.weights_dir)
            onnx.checker.check_model(path, full_check=True)
            for expected, found in zip(whole, outputs(path, feeds), strict=True):
                np.testing.assert_array_equal(found, expected)
    assert seen


PARTS = (2, 5, 20, None)
"""None: every node alone."""


def cut_at_random(model: hetsim.Model, parts: int | None) -> hetsim.Plan:
    plan = split(model, Split(cuts=parts, seed=parts or 1))
    assert len(plan.groups) == (parts or len(model.graph.nodes))
    return plan


@pytest.mark.slow
@sweep("name", quick=["squeezenet"], full=zoo.names())
def test_any_number_of_parts_gives_the_same_bits(name: str, ray_connection: RayConnection) -> None:
    model = hetsim.load_model(f"zoo:{name}")
    inputs = random_inputs(model, seed=4)
    whole = run_whole(model, inputs)
    plans = [cut_at_random(model, parts) for parts in PARTS]
    for plan in plans:
        run = hetsim.run(plan, inputs, executor="threads", verify=False)
        assert_bitwise_equal(run.outputs, whole)
    together = side_by_side_plan(model, plans)
    fed = {f"{k}/{name}": array for k in range(len(plans)) for name, array in inputs.items()}
    run = hetsim.run(together, fed, executor="ray", verify=False)
    for k in range(len(plans)):
        mine = {name: run.outputs[f"{k}/{name}"] for name in whole}
        assert_bitwise_equal(mine, whole)


def side_by_side_plan(model: hetsim.Model, plans: Sequence[hetsim.Plan]) -> hetsim.Plan:
    """All `plans` in one, each on a copy of its model, so that actors start once for all."""
    proto = side_by_side({str(k): model.proto for k in range(len(plans))})
    together = model_of(proto, weights_dir=model.weights_dir, canonical="none")
    count = len(model.graph.nodes)
    names = [node.name for node in together.graph.nodes]
    assert names == [f"{k}/{n.name}" for k in range(len(plans)) for n in model.graph.nodes]
    groups = [
        hetsim.Group(group.device, tuple(node + k * count for node in group.nodes))
        for k, plan in enumerate(plans)
        for group in plan.groups
    ]
    plan = replace(split(together, Split()), groups=tuple(groups))
    plan.validate()
    return plan
