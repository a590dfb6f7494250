"""A partition that was printed, and a plan that was saved, are affinities that say the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import BOX, problems
from hetsim.errors import InvalidInput
from hetsim.partitioning.affinity import Affinity
from hetsim.partitioning.partition import Partition
from hetsim.placement.registry import OWN
from hetsim.problem.groups import Group, order_groups
from hetsim.problem.problem import Problem
from onnx_builders import make_model, op, save, value
from sweeps import examples, sweep

METHODS = tuple(info.name for info in hetsim.methods())


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """The runtime moves a Transpose behind what reads it: nodes become several, and one.

    It calls the new node as a node of the file that it has folded just before.
    """
    nodes = [
        op("Transpose", "c", "ct", "Transpose", perm=[1, 0]),
        op("Transpose", "x", "t", "tr", perm=[0, 2, 3, 1]),
        op("ReduceMean", "t", "m", "mean", axes=[3], keepdims=1),
        op("Sub", "t m", "d", "sub"),
        op("Mul", "d d", "q", "square"),
        op("Transpose", "q", "y", "back", perm=[0, 3, 1, 2]),
        op("Relu", "m", "z", "relu"),
        op("MatMul", "y ct", "w", "product"),
    ]
    proto = make_model(
        nodes,
        [value("x", (1, 4, 5, 6))],
        [value("w", None), value("z", None)],
        {"c": np.ones((3, 6), np.float32)},
        opset=17,
    )
    path = save(proto, tmp_path_factory.mktemp("moved"))
    return Problem.of(hetsim.load_model(path), hetsim.load_platform("dual-gpu"))


def test_the_case_is_one(moved: Problem) -> None:
    """Nodes of the file are in several nodes, and nodes stand for several of the file."""
    named = [name for origins in moved.origins for name in origins]
    assert len(named) > len(set(named))
    assert max(map(len, moved.origins)) > 1
    assert moved.model is not None
    assert moved.model.folded == ("Transpose",)
    # A name of the file is that of a node only where it stands for it.
    assert "Transpose" not in moved.node_names


def read_back(made: Partition | hetsim.Plan, folder: Path) -> Affinity:
    path = folder / "printed.json"
    path.write_text(made.to_json())
    return hetsim.load_affinity(path)


@pytest.mark.parametrize("method", METHODS)
def test_every_assignment_of_a_split_model_goes_round(
    moved: Problem, method: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        assignment = rng.integers(0, len(moved.devices), moved.n).tolist()
        first = hetsim.partition(moved, method, assignment=assignment)
        wishes = read_back(first, tmp_path)
        assert hetsim.partition(moved, method, affinity=wishes).groups == first.groups
        # A strategy that is left no choice finds the same.
        plan = hetsim.plan(moved, "heft", pins=wishes.pins)
        assert plan.assignment == tuple(assignment)
        wishes = read_back(plan, tmp_path)
        assert hetsim.partition(moved, method, affinity=wishes).groups == first.groups


@pytest.fixture(scope="module")
def bert() -> Problem:
    return Problem.of(hetsim.load_model("zoo:bert_small"), hetsim.load_platform(BOX))


@pytest.mark.parametrize("method", METHODS)
def test_a_printed_partition_of_a_model(bert: Problem, method: str, tmp_path: Path) -> None:
    first = hetsim.partition(bert, method)
    again = hetsim.partition(bert, method, affinity=read_back(first, tmp_path))
    assert again.groups == first.groups


SAVED = [name for name in OWN if name not in ("auto", "exact")]


@sweep("strategy", quick=SAVED[::3], full=SAVED)
def test_a_saved_plan_of_a_model(bert: Problem, strategy: str, tmp_path: Path) -> None:
    plan = hetsim.plan(bert, strategy)
    wishes = read_back(plan, tmp_path)
    made = hetsim.partition(bert, affinity=wishes)
    device_of = {v: bert.devices.index(g.device) for g in made.groups for v in g.nodes}
    assert tuple(device_of[v] for v in range(bert.n)) == plan.assignment
    assert hetsim.plan(bert, "heft", pins=wishes.pins).assignment == plan.assignment


@examples(quick=50, full=200)
@given(problems(10), st.data())
def test_whatever_nodes_stand_for(
    tmp_path_factory: pytest.TempPathFactory, problem: Problem, data: st.DataObject
) -> None:
    """Own names are those of the file where a node stands for that one, or fresh."""
    file = [f"f{i}" for i in range(6)]
    origins = tuple(
        tuple(data.draw(st.lists(st.sampled_from(file), min_size=1, max_size=3, unique=True)))
        for _ in range(problem.n)
    )
    names: list[str] = []
    for node, own in enumerate(origins):
        free = [name for name in own if name not in names]
        names.append(data.draw(st.sampled_from([*free, f"new{node}"])))
    problem = replace(problem, origins=origins, node_names=tuple(names))
    assignment = [
        data.draw(st.sampled_from(np.flatnonzero(row).tolist())) for row in problem.supported
    ]
    parts = order_groups(problem.dag, range(problem.n))
    assert parts is not None
    groups = tuple(Group(problem.devices[assignment[v]], (v,)) for (v,) in parts)
    wishes = read_back(hetsim.Plan(problem, "s", groups), tmp_path_factory.getbasetemp())
    assert wishes.on(problem).pins == dict(enumerate(assignment))


def test_a_name_of_the_file_means_all_that_stand_for_it(moved: Problem) -> None:
    at = {name: v for v, name in enumerate(moved.node_names)}
    pinned = Affinity({"tr": "gpu.1"}).on(moved).pins
    assert pinned == {v: 2 for v, origins in enumerate(moved.origins) if "tr" in origins}
    # But for those that are pinned by a name of their own.
    pins = {"mean": "gpu.1", "sub": "cpu"}
    found = Affinity(pins).on(moved).pins
    assert found[at["sub"]] == 0
    assert all(found[v] == 2 for v, origins in enumerate(moved.origins) if "mean" in origins)
    # Where a name has no node of its own, its wish must not get lost.
    with pytest.raises(InvalidInput, match=r"'tr' is pinned to 'gpu\.1' and 'sub' to 'cpu'"):
        Affinity({"tr": "gpu.1", "sub": "cpu"}).on(moved)
