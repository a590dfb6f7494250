"""Affinities: what a file or a model's notes say is what happens, and errors name the line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import hetsim
from hetsim.errors import InvalidInput, UnsupportedNode
from hetsim.graph.work import ruled_ops
from hetsim.partitioning.affinity import Affinity, Exclusion, affinity_of_model
from hetsim.partitioning.affinity_file import load_affinity
from hetsim.partitioning.onnx_export import to_annotated
from hetsim.partitioning.partition import Partition
from hetsim.problem.problem import Problem
from onnx_builders import make_model, op, save, value

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


def test_yaml_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "affinity.yaml"
    path.write_text("pins: {n0: cpu}\nexclude:\n  - ops: [Task]\n")
    # Without a device, every device but the default is meant.
    made = hetsim.partition(CHAIN, affinity=load_affinity(path))
    assert devices_of(made, 4) == ["cpu"] * 4


def test_a_default_alone_takes_all_that_is_not_pinned() -> None:
    made = hetsim.partition(CHAIN, affinity=Affinity({"n1": "npu"}, default="cpu"))
    assert devices_of(made, 4) == ["cpu", "npu", "cpu", "cpu"]
    with pytest.raises(UnsupportedNode, match=r"'n1'.*no device of gpu supports it"):
        hetsim.partition(CHAIN, affinity=Affinity(default="gpu"))


def test_a_default_is_asked_last_wherever_the_priority_has_it() -> None:
    wishes = Affinity(priority=("gpu", "npu", "cpu"), default="gpu")
    assert devices_of(hetsim.partition(CHAIN, affinity=wishes), 4) == ["npu", "npu", "npu", "cpu"]


def test_a_pin_goes_before_an_exclusion() -> None:
    wishes = Affinity({"n0": "npu"}, (Exclusion("npu", ops=("Task",)),))
    assert devices_of(hetsim.partition(CHAIN, affinity=wishes), 4) == ["npu", "cpu", "gpu", "gpu"]


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
        ("[1]", "holds no mapping"),
        ('{"pins": {"n0": 3}}', "affinity.json:1"),
        ('{"pin": {"n0": "npu"}}', "'pin' is given no device"),
        ('{"pins": {}, "defualt": "cpu"}', "'defualt'.*did you mean 'default'"),
        ('{"schema": "hetsim-affinity/2"}', "hetsim-affinity/1"),
        ('{"exclude": [\n{"device": "npu"}]}', "affinity.json:2: it excludes nothing"),
        ('{"priority": "npu >>"}', "no list of different devices"),
        ('{"pins": {"n0": "npu", "n0": "gpu"}}', "'n0' appears twice"),
        ('{"schema": "hetsim-plan/1", "groups": [{"device": "npu"}]}', "nodes"),
        ('{"schema": "hetsim-plan/1", "groups": 3}', "'groups' is no list"),
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
    with pytest.raises(InvalidInput, match="'same' is pinned to 'cpu' and 'r' to 'gpu', but both"):
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
        ("none", "no node has a device noted"),
        ("layer", r"node 'r0', layer_ann: no device 'gppu'.*did you mean 'gpu'"),
        ("differ", r"node 'r0', mine: it says 'cpu', and another note on the node says 'gpu'"),
        ("sharded", r"exactly one device, and names cpu, gpu"),
        ("stage", r"exactly one device, and names none"),
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
    with pytest.raises(InvalidInput, match="node 'r0', mine: it says 'cpu'"):
        affinity_of_model(problem, "mine")
    with pytest.raises(InvalidInput, match="no file with notes"):
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
