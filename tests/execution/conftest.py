"""Small models, plans that cut them as a test says, and one run on Ray for many tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from onnx import helper

import hetsim
from hetsim.execution.transports.ray_connection import RayConnection
from onnx_builders import load, make_model, op, value

DEVICES = ("cpu", "gpu", "npu")
Groups = Sequence[tuple[str, Sequence[int]]]
Cut = Callable[[onnx.ModelProto, Groups], hetsim.Plan]
Executor = Literal["ray", "threads"]
BRANCHES = [("cpu", [0]), ("gpu", [1]), ("npu", [2, 3]), ("gpu", [4]), ("cpu", [5])]


@pytest.fixture(params=["threads", "ray"])
def executor(request: pytest.FixtureRequest) -> Executor:
    """Where to run; there is a Ray where it is that."""
    if request.param == "ray":
        request.getfixturevalue("ray_connection")
    kind: Executor = request.param
    return kind


@pytest.fixture
def cut(tmp_path: Path) -> Cut:
    """Make the plan whose groups are (device, node ids), on devices that take everything."""
    return lambda proto, groups: by_hand(proto, groups, tmp_path)


def by_hand(
    proto: onnx.ModelProto, groups: Groups, folder: Path, devices: Sequence[str] = DEVICES
) -> hetsim.Plan:
    """The plan whose groups are (device, node ids), on devices that take everything."""
    model = load(proto, folder, canonical="none", measure=False)
    nodes, readers = model.graph.nodes, model.graph.consumers()
    problem = hetsim.Problem.from_arrays(
        np.ones((len(nodes), len(devices))),
        tensors=[(node.id, 8, readers.get(name, ())) for node in nodes for name in node.writes],
        devices=devices,
        host=0,
    )
    chosen = tuple(hetsim.Group(device, tuple(nodes)) for device, nodes in groups)
    return hetsim.Plan(replace(problem, model=model), "by hand", chosen)


@pytest.fixture
def diamond() -> onnx.ModelProto:
    return a_diamond()


def a_diamond() -> onnx.ModelProto:
    """A head, two branches, a tail: nodes 0, 1, 2 and 3, 4, 5; one branch is an output too."""
    rng = np.random.default_rng(5)
    return make_model(
        [
            op("MatMul", "x w0", "a", "head"),
            op("Sin", "a", "b", "left"),
            op("MatMul", "a w1", "c", "right"),
            op("Softmax", "c", "d", "right2"),
            op("Add", "b d", "e", "join"),
            op("MatMul", "e w2", "y", "tail"),
        ],
        [value("x", (8, 64))],
        [value("y", (8, 64)), value("b", (8, 64))],
        {f"w{k}": rng.standard_normal((64, 64)).astype(np.float32) for k in range(3)},
    )


@dataclass(frozen=True)
class RanOnRay:
    """A run of the diamond, cut into its branches, with seed 3; addresses before and after it."""

    plan: hetsim.Plan
    run: hetsim.RunResult
    addresses: tuple[str, str]


@pytest.fixture(scope="session")
def ran_on_ray(ray_connection: RayConnection, tmp_path_factory: pytest.TempPathFactory) -> RanOnRay:
    """One run for all tests that look at what it left."""
    import ray

    plan = by_hand(a_diamond(), BRANCHES, tmp_path_factory.mktemp("diamond"))
    before = ray.get_runtime_context().gcs_address
    run = hetsim.run(plan, seed=3)
    assert ray.is_initialized()
    return RanOnRay(plan, run, (before, ray.get_runtime_context().gcs_address))


@pytest.fixture
def endless() -> onnx.ModelProto:
    """A loop of 2**62 turns (node 1) between two short nodes."""
    body = helper.make_graph(
        [op("Identity", "going", "still"), op("Sin", "s", "t")],
        "body",
        [value("turn", (), "INT64"), value("going", (), "BOOL"), value("s", (4,))],
        [value("still", (), "BOOL"), value("t", (4,))],
    )
    return make_model(
        [
            op("Relu", "x", "p", "before"),
            op("Loop", "turns yes p", "q", "forever", body=body),
            op("Neg", "q", "y", "after"),
        ],
        [value("x", (4,))],
        [value("y", (4,))],
        {"turns": np.array(2**62), "yes": np.array(True)},
    )


@pytest.fixture
def indexing() -> onnx.ModelProto:
    """A Gather (node 1) that fails where an index is 5 or more, and nodes before and after."""
    return make_model(
        [
            op("Relu", "x", "p", "before"),
            op("Gather", "p i", "q", "pick"),
            op("Neg", "q", "y", "after"),
            op("Neg", "p", "z", "aside"),
        ],
        [value("x", (5,)), value("i", (2,), "INT64")],
        [value("y", (2,)), value("z", (5,))],
    )
