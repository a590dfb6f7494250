"""A partition written as ONNX is checked by onnx, run by ONNX Runtime, and read back."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import hetsim
from builders import BOX
from hetsim.errors import PlanError, UsageError
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.loading import load_model, model_of
from hetsim.graph.model import Model
from hetsim.partitioning.flow import partition
from hetsim.partitioning.methods.registry import methods
from hetsim.partitioning.onnx_export import save, to_annotated, to_functions, to_models
from hetsim.partitioning.partition import Partition
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem
from odd_graphs import (
    Case,
    absent_inputs_and_outputs,
    loops_within_branches,
    names_in_scopes,
    outputs_of_every_kind,
)
from odd_values import sequences_carried_by_a_loop, sparse_constants
from onnx_builders import (
    assert_bitwise_equal,
    bits,
    function_model,
    load,
    make_model,
    op,
    open_exactly,
    run_whole,
    value,
)
from sweeps import sweep

FLOAT = np.float32
ZOO = ("squeezenet", "resnet18", "bert_small")
METHODS = tuple(info.name for info in methods())


def problem_of(model: Model, devices: Sequence[str] = ("cpu", "npu")) -> Problem:
    """Every node on any of `devices`, in no matter what time."""
    producer = model.graph.producers()
    edges = {
        (producer[name], node.id, 1)
        for node in model.graph.nodes
        for name in node.reads
        if name in producer
    }
    seconds = np.ones((len(model.graph.nodes), len(devices)))
    made = Problem.from_arrays(seconds, edges=sorted(edges), devices=devices)
    names = tuple(node.name for node in model.graph.nodes)
    return dataclasses.replace(made, model=model, node_names=names)


def random_partition(problem: Problem, method: str, seed: int) -> Partition:
    """Nodes thrown onto the devices that support them."""
    generator = random.Random(seed)
    choices = [[d for d in range(len(problem.devices)) if row[d]] for row in problem.supported]
    return partition(problem, method, assignment=[generator.choice(c) for c in choices])


def groups_in(problem: Problem, proto: onnx.ModelProto) -> tuple[Group, ...]:
    """Read the groups back from the calls and functions of the model."""
    functions = {(f.domain, f.name): f for f in proto.functions}
    number = {name: v for v, name in enumerate(problem.node_names)}
    found = []
    for index, call in enumerate(proto.graph.node):
        function = functions[call.domain, call.op_type]
        notes = {entry.key: entry.value for entry in function.metadata_props}
        assert notes["hetsim.group"] == str(index)
        assert call.op_type.startswith(f"g{index}_")
        nodes = tuple(number[node.name] for node in function.node)
        found.append(Group(notes["hetsim.device"], nodes))
    return tuple(found)


def groups_noted(problem: Problem, proto: onnx.ModelProto) -> tuple[Group, ...]:
    """Read the groups back from the notes on the nodes, of which both kinds must agree."""
    (configuration,) = proto.configuration
    assert tuple(configuration.device) == problem.devices
    assert configuration.num_devices == len(problem.devices)
    members: dict[int, list[int]] = {}
    device_of: dict[int, str] = {}
    for v, node in enumerate(proto.graph.node):
        (noted,) = node.device_configurations
        assert noted.configuration_id == configuration.name
        (entry,) = [e for e in node.metadata_props if e.key == "layer_ann"]
        for spec in noted.sharding_spec:
            assert spec.tensor_name in {*node.input, *node.output}
            assert [problem.devices[d] for d in spec.device] == [entry.value]
        members.setdefault(noted.pipeline_stage, []).append(v)
        assert device_of.setdefault(noted.pipeline_stage, entry.value) == entry.value
    return tuple(Group(device_of[stage], tuple(members[stage])) for stage in sorted(members))


def check(path: Path) -> None:
    """onnx's full check, where it has a way to say what the model says.

    It knows no graph output of unknown rank and no sparse operand; such a model fails it
    whole or cut. What is left is strict inference of types, for unknown ranks.
    """
    proto = onnx.load(path, load_external_data=False)
    if proto.graph.sparse_initializer:
        return
    kinds = [v.type for v in (*proto.graph.input, *proto.graph.output)]
    if all(k.tensor_type.HasField("shape") for k in kinds if k.HasField("tensor_type")):
        onnx.checker.check_model(path, full_check=True)
    else:
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)


def run_saved(path: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    session = open_exactly(onnx.load(path, load_external_data=False), path.parent)
    names = [output.name for output in session.get_outputs()]
    feeds = {i.name: inputs[i.name] for i in session.get_inputs()}
    return dict(zip(names, session.run(names, feeds), strict=True))


def check_all(
    problem: Problem, groups: Sequence[Group], inputs: dict[str, Any], whole: dict[str, Any],
    folder: Path,
) -> None:  # fmt: skip
    """All three forms: they pass the full check, run to the same bits, and hold the groups."""
    model = problem.model
    assert model is not None
    before = model.proto.SerializeToString(deterministic=True)
    functions, annotated = to_functions(problem, groups), to_annotated(problem, groups)
    assert groups_in(problem, functions) == tuple(groups)
    assert groups_noted(problem, annotated) == tuple(groups)
    for kind, proto in (("functions", functions), ("annotated", annotated)):
        path = save(proto, folder / f"{kind}.onnx", model.weights_dir)
        check(path)
        assert_bitwise_equal(run_saved(path, inputs), whole)
    values = dict(inputs)
    parts = to_models(problem, groups)
    assert len(parts) == len(groups)
    for index, proto in enumerate(parts):
        path = save(proto, folder / f"part{index}.onnx", model.weights_dir)
        check(path)
        values.update(run_saved(path, values))
    given = {*inputs, *(name for node in model.graph.nodes for name in node.writes)}
    for name in given & set(whole):
        assert bits(values[name]) == bits(whole[name]), name
    assert model.proto.SerializeToString(deterministic=True) == before


def branch(name: str, nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [value(nodes[-1].output[0], None)])


def diamond() -> onnx.ModelProto:
    """Inner values that are outputs too, an absent input, outputs nobody writes."""
    return make_model(
        [
            op("MatMul", "x w", "a", "n0"),
            op("Clip", "a - top", "b", "n1"),
            op("Add", "a w2", "c", "n2"),
            op("Mul", "b c", "d", "n3"),
            op("Add", "d w2", "y", "n4"),
        ],
        [value("x"), value("spare", (4,))],
        [value("y", None), value("b", None), value("x"), value("w2", (3,)), value("spare", (4,))],
        {
            "w": np.linspace(0, 1, 9, dtype=FLOAT).reshape(3, 3),
            "w2": np.ones(3, FLOAT),
            "top": np.array(0.5, FLOAT),
        },
        opset=13,
        ir=4,
    )


def functions_in_bodies() -> onnx.ModelProto:
    """Functions of the model's own, one of which takes a domain and name that ours would."""
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("my", 1)]
    half = helper.make_function("my", "Half", ["a"], ["b"], [op("Mul", "a a", "b")], imports)
    twice = helper.make_function(
        "my", "Twice", ["a"], ["c"], [op("Half", "a", "b", domain="my"), op("Exp", "b", "c")],
        imports,
    )  # fmt: skip
    ours = helper.make_function(
        "hetsim.cpu", "g0_cpu", ["a"], ["b"], [op("Sin", "a", "b")], imports
    )
    choice = {
        "then_branch": branch("t", [op("Twice", "h", "t", domain="my")]),
        "else_branch": branch("e", [op("g0_cpu", "h", "e", domain="hetsim.cpu")]),
    }
    return make_model(
        [
            op("Tanh", "x", "h", "tanh"),
            op("Twice", "h", "u", "call", domain="my"),
            op("If", "c", "i", "if", **choice),
            op("Add", "u i", "y", "add"),
        ],
        [value("x"), value("c", (), "BOOL")],
        [value("y", None)],
        domains={"my": 1, "hetsim.cpu": 3},
        functions=[half, twice, ours],
    )


def dynamic() -> Case:
    """Sizes that stay open, and one that depends on the values."""
    proto = make_model(
        [
            op("Relu", "x", "a", "n0"),
            op("Shape", "a", "s", "n1"),
            op("Reshape", "a flat", "b", "n2"),
            op("Reshape", "b s", "c", "n3"),
            op("NonZero", "c", "y", "n4"),
        ],
        [value("x", ("n", 3))],
        [value("y", None, "INT64")],
        {"flat": np.array([-1])},
    )
    return proto, {"x": np.array([[1, -1, 2], [0, 3, 0]], FLOAT)}


def built(build: Callable[[], onnx.ModelProto]) -> Callable[[], Case]:
    """With random inputs."""

    def made() -> Case:
        proto = build()
        return proto, random_inputs(model_of(proto, canonical="none"), seed=3)

    made.__name__ = build.__name__
    return made


BUILDERS = (
    *map(built, (diamond, function_model, functions_in_bodies)), dynamic, loops_within_branches,
    names_in_scopes, outputs_of_every_kind, sparse_constants, sequences_carried_by_a_loop,
    absent_inputs_and_outputs,
)  # fmt: skip
MADE = [*product(BUILDERS, METHODS)]


@sweep("build, method", quick=MADE[::4], full=MADE)
def test_small_models(build: Callable[[], Case], method: str, tmp_path: Path) -> None:
    proto, inputs = build()
    model = load(proto, tmp_path, canonical="none")
    whole = run_whole(model, inputs)
    problem = problem_of(model)
    for seed in range(2):
        groups = random_partition(problem, method, seed).groups
        check_all(problem, groups, inputs, whole, tmp_path / str(seed))


@cache
def zoo_model(name: str) -> tuple[Model, dict[str, Any], dict[str, Any]]:
    model = load_model(f"zoo:{name}")
    inputs = random_inputs(model)
    return model, inputs, run_whole(model, inputs)


@pytest.mark.parametrize("method", METHODS)
@sweep(
    "name, platform",
    quick=[("bert_small", "laptop")],
    full=[(name, platform) for name in ZOO for platform in ("laptop", "box")],
)
def test_zoo_models(name: str, platform: str, method: str, tmp_path: Path) -> None:
    model, inputs, whole = zoo_model(name)
    problem = Problem.of(model, hetsim.load_platform(BOX if platform == "box" else platform))
    groups = partition(problem, method).groups
    check_all(problem, groups, inputs, whole, tmp_path)


@sweep("name", quick=ZOO[:1], full=ZOO)
def test_functions_survive_the_default_optimisation(name: str) -> None:
    model, inputs, whole = zoo_model(name)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if model.weights_dir is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(model.weights_dir)
        )
    problem = Problem.of(model, hetsim.load_platform(BOX))
    cuts = [partition(problem).groups, random_partition(problem, "compact", seed=2).groups]
    for groups in cuts:
        content = to_functions(problem, groups).SerializeToString()
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        for output, got in zip(whole, session.run(list(whole), inputs), strict=True):
            np.testing.assert_allclose(got, whole[output], rtol=1e-3, atol=1e-4)


def two_groups(folder: Path, devices: Sequence[str] = ("cpu", "npu")) -> tuple[Problem, Any]:
    problem = problem_of(load(diamond(), folder, canonical="none"), devices)
    return problem, (Group(devices[0], (0, 1)), Group(devices[1], (2, 3, 4)))


def test_what_a_function_holds(tmp_path: Path) -> None:
    problem, groups = two_groups(tmp_path)
    proto = to_functions(problem, groups)
    first, second = proto.functions
    assert (first.domain, first.name) == ("hetsim.cpu", "g0_cpu")
    assert (second.domain, second.name) == ("hetsim.npu", "g1_npu")
    assert list(first.input) == ["x", "w", "top"]
    assert list(first.output) == ["a", "b"]
    assert list(second.input) == ["a", "w2", "b"]
    assert list(second.output) == ["y"]
    assert {v.name for v in second.value_info} == {"c", "d", "y"}
    assert {v.name for v in proto.graph.value_info} == {"a"}
    assert [list(node.input) for node in proto.graph.node] == [
        list(function.input) for function in proto.functions
    ]
    assert {t.name for t in proto.graph.initializer} == {"w", "w2", "top"}
    assert proto.ir_version >= 10
    assert {e.domain: e.version for e in proto.opset_import} == {
        "": 13, "hetsim.cpu": 1, "hetsim.npu": 1,
    }  # fmt: skip
    assert [(e.domain, e.version) for e in second.opset_import] == [("", 13)]


def test_own_functions_and_their_domains_are_kept(tmp_path: Path) -> None:
    model = load(functions_in_bodies(), tmp_path, canonical="none")
    problem = problem_of(model)
    proto = to_functions(problem, (Group("cpu", (0, 1, 2, 3)),))
    assert [f.name for f in proto.functions] == ["Half", "Twice", "g0_cpu", "g0_cpu_"]
    assert {e.domain: e.version for e in proto.opset_import}["hetsim.cpu"] == 3
    assert proto.graph.node[0].op_type == "g0_cpu_"


def test_any_device_name_will_do(tmp_path: Path) -> None:
    names = ("big.cpu 0", "nœud/1")
    problem, groups = two_groups(tmp_path, names)
    proto = to_functions(problem, groups)
    assert [f.name for f in proto.functions] == ["g0_big_cpu_0", "g1_n_ud_1"]
    assert [f.domain for f in proto.functions] == ["hetsim.big_cpu_0", "hetsim.n_ud_1"]
    inputs = random_inputs(problem.model)  # type: ignore[arg-type]
    whole = run_whole(problem.model, inputs)  # type: ignore[arg-type]
    check_all(problem, groups, inputs, whole, tmp_path / "out")


def test_a_model_of_functions_can_be_cut_again(tmp_path: Path) -> None:
    problem, groups = two_groups(tmp_path)
    path = save(to_functions(problem, groups), tmp_path / "again.onnx", None)
    again = problem_of(load_model(path, canonical="none"))
    inputs = random_inputs(problem.model)  # type: ignore[arg-type]
    whole = run_whole(problem.model, inputs)  # type: ignore[arg-type]
    check_all(again, (Group("cpu", (0,)), Group("npu", (1,))), inputs, whole, tmp_path / "out")


def test_notes_replace_older_ones_of_their_name(tmp_path: Path) -> None:
    problem, groups = two_groups(tmp_path)
    path = save(to_annotated(problem, groups), tmp_path / "noted.onnx", None)
    again = problem_of(load_model(path, canonical="none"), ("a", "b", "c"))
    other = (Group("c", (0, 1, 2)), Group("a", (3, 4)))
    assert groups_noted(again, to_annotated(again, other)) == other


def test_wrong_groups_and_problems(tmp_path: Path) -> None:
    problem, groups = two_groups(tmp_path)
    bare = Problem.from_arrays(np.ones((5, 2)), edges=[])
    for write in (to_functions, to_models, to_annotated):
        with pytest.raises(PlanError, match="in no group"):
            write(problem, groups[:1])
        with pytest.raises(PlanError, match="unknown device 'tpu'"):
            write(problem, (groups[0], Group("tpu", groups[1].nodes)))
        with pytest.raises(UsageError, match="made from arrays"):
            write(bare, groups)
