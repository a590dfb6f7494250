"""Every zoo model, under every platform, by every method: the split model is the same model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import hetsim
from hetsim.graph import zoo
from hetsim.graph.samples import random_inputs
from hetsim.hardware.catalog import platform_names
from hetsim.partitioning.as_onnx import to_functions
from hetsim.partitioning.onnx_saving import save


def outputs(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.names())
def test_split_models_pass_the_checker_and_agree(name: str, tmp_path: Path) -> None:
    model = hetsim.load_model(f"zoo:{name}")
    feeds = random_inputs(model, seed=3)
    whole = outputs(save(model.proto, tmp_path / "whole.onnx", model.weights_dir), feeds)
    seen = set()
    for platform in platform_names():
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
