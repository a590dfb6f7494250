"""Models of one batch size and of any, on two devices, cut between them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import hetsim
from onnx_builders import make_model, op, value
from platforms import cpu_and_npu


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> hetsim.Platform:
    return cpu_and_npu(tmp_path_factory.mktemp("platform"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Any batch of rows, a scale that all share; two outputs, one of which is an input again."""
    rng = np.random.default_rng(0)
    weights = {f"w{k}": rng.standard_normal((32, 32)).astype(np.float32) for k in (1, 2)}
    made = make_model(
        [
            op("MatMul", "x w1", "a"),
            op("Relu", "a", "b"),
            op("Mul", "b scale", "c"),
            op("MatMul", "c w2", "y"),
        ],
        [value("x", ("batch", 32)), value("scale", (1,))],
        [value("y", ("batch", 32)), value("b", ("batch", 32))],
        weights,
    )
    path = tmp_path_factory.mktemp("model") / "rows.onnx"
    onnx.save(made, path)
    return str(path)


@pytest.fixture(scope="module")
def cut(model: str, platform: hetsim.Platform, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A saved plan: its first half on the cpu, the other on the npu."""
    problem = hetsim.Problem.of(hetsim.load_model(model, dims={"batch": 1}), platform)
    half = problem.n // 2
    groups = (
        hetsim.Group("cpu", tuple(range(half))),
        hetsim.Group("npu", tuple(range(half, problem.n))),
    )
    path = tmp_path_factory.mktemp("plan") / "cut.json"
    hetsim.Plan(problem, "by hand", groups).save(path)
    return str(path)
