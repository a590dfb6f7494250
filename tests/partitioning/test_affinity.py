"""Affinities: what a file or a model's notes say is what happens, and errors name the line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.errors import InvalidInput, UnsupportedNode
from hetsim.graph.work import ruled_ops
from hetsim.partitioning.affinity import Affinity, Exclusion, affinity_of_model
from hetsim.partitioning.affinity_file import load_affinity
from hetsim.partitioning.onnx_export import to_annotated
from hetsim.partitioning.partition import Partition
from hetsim.problem.groups import Group, order_groups
from hetsim.problem.problem import Problem
from onnx_builders import make_model, op, save, value
from sweeps import examples

INF = float("inf")
CHAIN = Problem.from_arrays(
    [[1.0, 2.0, 9.0], [1.0, INF, 9.0], [1.0, 2.0, 9.0], [INF, 2.0, 9.0]],
    [(0, 1, 4), (1, 2, 4), (2, 3, 4)],
    devices=("npu", "gpu", "cpu"),
    host=2,
)


def devices_of(made: Partition, n: int) -> list[str]:
    found = {v: group.device for group in made.groups for v in group.nodes}
    return [found[v] for v in range(n)]


def written(folder: Path, text: str) -> Path:
    path = folder / "affinity.json"
    path.write_text(text)
    return path


def test_pins_exclusions_priority_and_default(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        json.dumps(
            {
                "schema": "hetsim-affinity/1",
                "pins": {"n0": "gpu"},
                "exclude": [{"device": "npu", "nodes": ["n2"]}],
                "priority": "npu >> gpu",
                "default": "cpu",
            }
        ),
    )
    made = hetsim.partition(CHAIN, affinity=load_affinity(path))
    assert devices_of(made, 4) == ["gpu", "npu", "gpu", "gpu"]
    # A priority in the call goes before that of the file; its default stays.
    made = hetsim.partition(CHAIN, affinity=load_affinity(path), priority="npu")
    assert devices_of(made, 4) == ["gpu", "npu", "cpu", "cpu"]
    assert made.left == {2: "npu: 'n2' is excluded", 3: "npu: inf in seconds"}


def test_plain_pairs_are_pins_and_may_be_complete(tmp_path: Path) -> None:
    path = written(tmp_path, '{"n0": "cpu", "n1": "npu", "n2": "cpu", "n3": "gpu"}')
    made = hetsim.partition(CHAIN, affinity=load_affinity(path))
    assert devices_of(made, 4) == ["cpu", "npu", "cpu", "gpu"]
    assert made.left == {0: "pinned to it", 2: "pinned to it"}


def test_a_default_alone_takes_all_that_is_not_pinned() -> None:
    made = hetsim.partition(CHAIN, affinity=Affinity({"n1": "npu"}, default="cpu"))
    assert devices_of(made, 4) == ["cpu", "npu", "cpu", "cpu"]
    with pytest.raises(UnsupportedNode, match=r"'n1'.*no device of gpu supports it"):
        hetsim.partition(CHAIN, affinity=Affinity(default="gpu"))


def test_a_partition_that_was_printed_is_an_affinity(tmp_path: Path) -> None:
    first = hetsim.partition(CHAIN, priority="gpu >> npu >> cpu")
    path = written(tmp_path, first.to_json())
    again = hetsim.partition(CHAIN, affinity=load_affinity(path))
    assert again.groups == first.groups
    saved = tmp_path / "plan.json"
    plan = hetsim.plan(CHAIN, "heft")
    plan.save(saved)
    made = hetsim.partition(CHAIN, affinity=load_affinity(saved))
    assert devices_of(made, 4) == [CHAIN.devices[d] for d in plan.assignment]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"pins": {"n0": "npu",\n "n9": "npu"}}', r"affinity.json:2: no node 'n9' in instance"),
        ('{"n0": "nppu"}', r"affinity.json:1: no device 'nppu'.*did you mean 'npu'"),
        ('{"default": "tpu"}', r"affinity.json:1: no device 'tpu'"),
        ('{"priority": ["npu", "x"]}', r"affinity.json:1: no device 'x'"),
        ('{"exclude": [{"ops": ["Cnov"]}]}', r"affinity.json:1: no op type 'Cnov'.*'Conv'"),
        ('{"exclude": [{"nodes": ["n7"]}]}', r"affinity.json:1: no node 'n7'"),
        ('{"exclude": [{"device": "tpu", "nodes": ["n1"]}]}', r"no device 'tpu'"),
    ],
)
def test_names_that_do_not_exist(tmp_path: Path, text: str, complaint: str) -> None:
    wishes = load_affinity(written(tmp_path, text))
    with pytest.raises(InvalidInput, match=complaint) as error:
        hetsim.partition(CHAIN, affinity=wishes)
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "affinity.json:1: the file is empty"),
        ("[1]", "is not a mapping"),
        ('{"pins": {"n0": 3}}', "affinity.json:1"),
        ('{"pin": {"n0": "npu"}}', "'pin' has no device"),
        ('{"pins": {}, "defualt": "cpu"}', "'defualt'.*did you mean 'default'"),
        ('{"schema": "hetsim-affinity/2"}', "hetsim-affinity/1"),
        ('{"exclude": [\n{"device": "npu"}]}', "affinity.json:2: it excludes nothing"),
        ('{"priority": "npu >>"}', "not a list of different devices"),
        ('{"pins": {"n0": "npu", "n0": "gpu"}}', "'n0' appears twice"),
        ('{"schema": "hetsim-plan/1", "groups": [{"device": "npu"}]}', "nodes"),
        ('{"schema": "hetsim-plan/1", "groups": 3}', "'groups' is not a list"),
    ],
)
def test_files_that_say_something_else(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        load_affinity(written(tmp_path, text))


def test_a_missing_file() -> None:
    with pytest.raises(InvalidInput, match=r"none\.json: no such file"):
        load_affinity("none.json")


@pytest.fixture
def small(tmp_path: Path) -> Problem:
    """Relu, an identity that goes into it, a product, and a sum of constants that becomes one."""
    nodes = [
        op("Relu", "x", "a", "r"),
        op("Add", "c c", "d", "sum"),
        op("Identity", "a", "b", "same"),
        op("Mul", "b d", "y", "m"),
    ]
    proto = make_model(nodes, [value("x")], [value("y")], {"c": np.ones((2, 3), np.float32)})
    return Problem.of(hetsim.load_model(save(proto, tmp_path)), hetsim.load_platform("laptop"))


def test_nodes_that_vanished_are_told_not_refused(small: Problem) -> None:
    made = hetsim.partition(small, affinity=Affinity({"sum": "cpu", "r": "gpu"}))
    assert made.notes == ("1 pinned node became constants or vanished, first 'sum'",)


def test_nodes_that_became_one_need_one_device(small: Problem) -> None:
    with pytest.raises(
        InvalidInput, match="'same' is pinned to 'cpu' and 'r' to 'gpu', but optimization"
    ):
        hetsim.partition(small, affinity=Affinity({"r": "gpu", "same": "cpu"}))


def test_the_model_s_own_notes_come_back(small: Problem, tmp_path: Path) -> None:
    n = small.n
    made = hetsim.partition(small, assignment=[1] * (n - 1) + [0])
    annotated = save(to_annotated(small, made.groups), tmp_path, "annotated.onnx")
    again = Problem.of(hetsim.load_model(annotated), small.platform)  # type: ignore[arg-type]
    wishes = affinity_of_model(again)
    assert len(wishes.pins) == n
    assert hetsim.partition(again, affinity=wishes).groups == made.groups


def noted(folder: Path, change: str) -> Problem:
    """Two nodes with a note that something is wrong with."""
    proto = make_model(
        [op("Relu", "x", "a", "r0"), op("Neg", "a", "y", "n0")], [value("x")], [value("y")]
    )
    proto.ir_version = 11
    proto.configuration.add(name="mine", num_devices=2, device=["cpu", "gpu"])
    node = proto.graph.node[0]
    if change == "layer":
        node.metadata_props.add(key="layer_ann", value="gppu")
    if change in ("differ", "two configurations"):
        node.metadata_props.add(key="layer_ann", value="gpu")
    if change in ("differ", "two configurations", "sharded", "stage"):
        entry = node.device_configurations.add(configuration_id="mine")
        if change == "stage":
            entry.pipeline_stage = 1
        else:
            devices = [0, 1] if change == "sharded" else [0]
            entry.sharding_spec.add(tensor_name="x", device=devices)
    if change == "two configurations":
        proto.graph.node[1].device_configurations.add(configuration_id="other")
    path = folder / "noted.onnx"
    onnx.save(proto, path)
    return Problem.of(hetsim.load_model(path), hetsim.load_platform("laptop"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("none", "no node has a device in its metadata"),
        ("layer", r"node 'r0', layer_ann: no device 'gppu'.*did you mean 'gpu'"),
        ("differ", r"node 'r0', mine: it names 'cpu', but another entry of the node names 'gpu'"),
        ("sharded", r"exactly one device, but names cpu, gpu"),
        ("stage", r"exactly one device, but names none"),
        ("two configurations", r"several device configurations: mine, other"),
    ],
)
def test_notes_that_cannot_be_followed(tmp_path: Path, change: str, complaint: str) -> None:
    problem = noted(tmp_path, change)
    with pytest.raises(InvalidInput, match=complaint):
        hetsim.partition(problem, affinity=affinity_of_model(problem))


def test_one_configuration_of_several_can_be_named(tmp_path: Path) -> None:
    problem = noted(tmp_path, "two configurations")
    with pytest.raises(InvalidInput, match="did you mean 'mine'"):
        affinity_of_model(problem, "min")
    with pytest.raises(InvalidInput, match="node 'r0', mine: it names 'cpu', but"):
        affinity_of_model(problem, "mine")
    with pytest.raises(InvalidInput, match="no file with metadata"):
        affinity_of_model(CHAIN)


def test_an_op_type_is_one_of_onnx_of_hetsim_or_of_the_problem() -> None:
    """By its name alone where it is of ONNX's own domain."""
    unruled = sorted(
        {s.name for s in onnx.defs.get_all_schemas() if s.domain == ""}.difference(ruled_ops())
    )
    for op_type in ("Task", "Relu", *unruled):
        assert Affinity(exclude=(Exclusion("npu", (op_type,)),)).on(CHAIN).pins == {}
    assert "StringConcat" in unruled
    for strange, meant in (("Relo", "Relu"), ("StringConcatt", "StringConcat")):
        with pytest.raises(InvalidInput, match=f"no op type '{strange}'; did you mean '{meant}'"):
            Affinity(exclude=(Exclusion("npu", (strange,)),)).on(CHAIN)
    with pytest.raises(InvalidInput, match="no op type 'TreeEnsembleClassifier'"):
        Affinity(exclude=(Exclusion("npu", ("TreeEnsembleClassifier",)),)).on(CHAIN)


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
    for _ in range(6):
        assignment = rng.integers(0, len(moved.devices), moved.n).tolist()
        first = hetsim.partition(moved, method, assignment=assignment)
        wishes = read_back(first, tmp_path)
        assert hetsim.partition(moved, method, affinity=wishes).groups == first.groups
        # A strategy that is left no choice finds the same.
        plan = hetsim.plan(moved, "heft", pins=wishes.pins)
        assert plan.assignment == tuple(assignment)
        wishes = read_back(plan, tmp_path)
        assert hetsim.partition(moved, method, affinity=wishes).groups == first.groups


@examples(quick=15, full=200)
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
