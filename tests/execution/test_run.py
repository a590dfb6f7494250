"""``run`` on every executor: right to the last bit, and clear about what fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import hetsim
from execution.conftest import Cut, Executor, Groups
from hetsim.errors import ExecutionError, UsageError
from hetsim.execution import run as runner
from hetsim.execution.run import Deviation, Plain, run
from hetsim.graph.inputs.samples import random_inputs
from hetsim.reporting.tables.plan import run_record, session_lines
from onnx_builders import assert_bitwise_equal, bits, make_model, op, run_whole, value
from oracles.onnx_suite import side_by_side
from sweeps import sweep

BAD_INDEX = {"x": np.ones(5, np.float32), "i": np.array([0, 7])}


CUTS: list[list[tuple[str, list[int]]]] = [
    [("cpu", [0, 1, 2, 3, 4, 5])],
    [("cpu", [0]), ("gpu", [1]), ("npu", [2, 3]), ("gpu", [4]), ("cpu", [5])],
    [("gpu", [0]), ("gpu", [1]), ("npu", [2]), ("npu", [3]), ("gpu", [4, 5])],
    [("cpu", [0, 1]), ("gpu", [2]), ("cpu", [3]), ("gpu", [4]), ("cpu", [5])],
    [("npu", [v]) for v in range(6)],
]


@pytest.mark.parametrize("groups", CUTS, ids=["whole", "branches", "runs", "to and fro", "nodes"])
def test_a_cut_model_gives_the_bits_of_the_whole(
    cut: Cut, diamond: onnx.ModelProto, groups: list[tuple[str, list[int]]]
) -> None:
    plan = cut(diamond, groups)
    check_against_the_whole(plan, run(plan, executor="threads", seed=3), "threads")


def test_ray_gives_the_bits_of_the_whole(ran_on_ray: Any) -> None:
    check_against_the_whole(ran_on_ray.plan, ran_on_ray.run, "ray")


def check_against_the_whole(
    plan: hetsim.Plan, result: hetsim.RunResult, executor: Executor
) -> None:
    assert result.bitwise_equal is True
    assert result.mismatches == ()
    assert list(result.outputs) == ["y", "b"]
    model = plan.problem.model
    assert model is not None
    oracle = run_whole(model, random_inputs(model, 3))
    assert_bitwise_equal(result.outputs, oracle)
    assert result.reference is not None
    assert_bitwise_equal(result.reference, oracle)
    assert result.timeline == hetsim.simulate(plan)
    assert result.executor == executor
    assert result.wall_s > 0
    assert result.compile_s > 0


@dataclass(frozen=True)
class Crossing:
    """A cut model across which values go, and what must arrive."""

    proto: onnx.ModelProto
    groups: Groups
    inputs: dict[str, Any]
    check: Callable[[Mapping[str, Any]], None]


def lists() -> Crossing:
    tensor = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    sequence = helper.make_value_info("s", helper.make_sequence_type_proto(tensor))
    nothing = helper.make_value_info("o", helper.make_optional_type_proto(tensor))
    proto = make_model(
        [
            op("SplitToSequence", "x", "s", axis=0),
            op("Optional", "", "o", type=tensor),
            op("StringConcat", "w w", "ww"),
            op("ConcatFromSequence", "s", "y", axis=1),
            op("OptionalHasElement", "o", "has"),
            op("StringConcat", "ww w", "www"),
        ],
        [value("x", (3, 2)), value("w", (2,), "STRING")],
        [
            value("y", None),
            value("has", None, "BOOL"),
            value("www", (2,), "STRING"),
            sequence,
            nothing,
        ],
        opset=21,
        ir=10,
    )
    x = np.arange(6, dtype=np.float32).reshape(3, 2)

    def check(outputs: Mapping[str, Any]) -> None:
        assert outputs["y"].tolist() == [[0, 1, 2, 3, 4, 5]]
        assert outputs["www"].tolist() == ["ababab", "ééé"]
        assert not outputs["has"]
        assert outputs["o"] is None
        assert [bits(entry) for entry in outputs["s"]] == [bits(row[np.newaxis]) for row in x]

    inputs = {"x": x, "w": np.array(["ab", "é"])}
    return Crossing(proto, [("cpu", [0, 1, 2]), ("gpu", [3, 4, 5])], inputs, check)


def foreign(kind: str) -> Crossing:
    proto = make_model(
        [
            op("Cast", "x", "p", to=getattr(onnx.TensorProto, kind)),
            op("Cast", "p", "q", to=onnx.TensorProto.FLOAT),
            op("Neg", "q", "y"),
        ],
        [value("x", (3, 3))],
        [value("y", (3, 3)), value("p", (3, 3), kind)],
        opset=21,
        ir=10,
    )
    x = np.arange(-4, 5, dtype=np.float32).reshape(3, 3)

    def check(outputs: Mapping[str, Any]) -> None:
        np.testing.assert_array_equal(outputs["y"], -x)
        np.testing.assert_array_equal(outputs["p"].astype(np.float32), x)

    return Crossing(proto, [("cpu", [0]), ("gpu", [1]), ("cpu", [2])], {"x": x}, check)


CROSSINGS: dict[str, Callable[[], Crossing]] = {
    "strings, sequences and optionals": lists,
    "BFLOAT16": lambda: foreign("BFLOAT16"),
    "FLOAT8E4M3FN": lambda: foreign("FLOAT8E4M3FN"),
    "INT4": lambda: foreign("INT4"),
}


@pytest.mark.parametrize("kind", CROSSINGS)
def test_values_cross_devices(cut: Cut, kind: str) -> None:
    case = CROSSINGS[kind]()
    result = run(cut(case.proto, case.groups), case.inputs, executor="threads")
    assert result.mismatches == ()
    case.check(result.outputs)


@pytest.mark.parametrize("executor", ["ray"], indirect=True)
def test_values_cross_processes(cut: Cut, executor: Executor) -> None:
    """All kinds side by side in one model, so that actors start once."""
    cases = {kind: build() for kind, build in CROSSINGS.items()}
    groups: list[tuple[str, list[int]]] = []
    before = 0
    for case in cases.values():
        groups += [(device, [before + node for node in nodes]) for device, nodes in case.groups]
        before += len(case.proto.graph.node)
    whole = side_by_side({kind: case.proto for kind, case in cases.items()})
    inputs = {
        f"{k}/{name}": array for k, case in cases.items() for name, array in case.inputs.items()
    }
    # ONNX Runtime takes no strings where it is given types that numpy lacks: the whole cannot run.
    result = run(cut(whole, groups), inputs, executor=executor, verify=False)
    assert result.reference is None
    assert result.bitwise_equal is None
    for kind, case in cases.items():
        names = [entry.name for entry in case.proto.graph.output]
        case.check({name: result.outputs[f"{kind}/{name}"] for name in names})


def test_outputs_that_no_node_makes(cut: Cut) -> None:
    constants = {
        "c": np.array([1.5, 2.5], np.float32),
        "big": np.arange(1024, dtype=np.float32),
        "words": np.array(["a", "é"], object),
    }
    proto = make_model(
        [op("Relu", "x", "y")],
        [value("x", (3,))],
        [
            value("x", (3,)),
            value("c", (2,)),
            value("y", (3,)),
            value("big", (1024,)),
            value("words", (2,), "STRING"),
        ],
        constants,
    )
    result = run(cut(proto, [("gpu", [0])]), executor="threads")
    assert list(result.outputs) == ["x", "c", "y", "big", "words"]
    assert result.mismatches == ()
    for name, array in constants.items():
        assert bits(result.outputs[name]) == bits(array)


@sweep("executor", quick=["threads"], full=["threads", "ray"], indirect=True)
def test_a_kernel_that_fails_is_named_with_its_device_and_subgraph(
    cut: Cut, indexing: onnx.ModelProto, executor: Executor
) -> None:
    plan = cut(indexing, [("cpu", [0]), ("gpu", [1]), ("cpu", [3]), ("npu", [2])])
    with pytest.raises(ExecutionError, match="out of data bounds") as caught:
        run(plan, BAD_INDEX, executor=executor)
    assert type(caught.value) is ExecutionError
    assert caught.value.where == "device 'gpu', subgraph g1 ('pick')"
    good = {**BAD_INDEX, "i": np.array([4, 0])}
    assert run(plan, good, executor=executor).bitwise_equal is True


@sweep("executor", quick=["threads"], full=["threads", "ray"], indirect=True)
def test_a_device_that_does_not_answer_is_named(
    cut: Cut, endless: onnx.ModelProto, executor: Executor
) -> None:
    plan = cut(endless, [("cpu", [0]), ("gpu", [1]), ("cpu", [2])])
    timeout = {"threads": 1.5, "ray": 6}[executor]
    # Compiling has a time of its own: on a busy machine it takes longer than this.
    with (
        hetsim.Session(plan, executor) as session,
        pytest.raises(ExecutionError, match=f"device 'gpu' did not answer within {timeout} s"),
    ):
        session.run(timeout_s=timeout)


def test_an_op_without_a_kernel_is_named(
    cut: Cut, diamond: onnx.ModelProto, executor: Executor
) -> None:
    plan = cut(diamond, CUTS[3])
    model = plan.problem.model
    assert model is not None
    model.proto.graph.node[3].op_type = "NoSuchOp"
    with pytest.raises(ExecutionError, match="NoSuchOp") as caught:
        run(plan, executor=executor)
    assert caught.value.where == "device 'cpu', subgraph g2 ('right2')"


def test_wrong_options(cut: Cut, diamond: onnx.ModelProto) -> None:
    plan = cut(diamond, CUTS[0])
    wrong: Any = "thread"
    with pytest.raises(UsageError, match="use 'ray' or 'threads'"):
        run(plan, executor=wrong)
    with pytest.raises(UsageError, match="an address needs"):
        run(plan, executor="threads", address="localhost:6379")
    for timeout in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="timeout"):
            run(plan, executor="threads", timeout_s=timeout)


def test_a_plan_without_a_model_is_refused() -> None:
    plan = hetsim.plan(hetsim.Problem.from_arrays([[1.0]], edges=[]), "heft")
    with pytest.raises(UsageError, match="without a model"):
        run(plan)


def test_a_difference_is_reported(
    cut: Cut, diamond: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_whole = runner.run_whole

    def nudged(model: Any, inputs: Any, roundings: Any) -> dict[str, Any]:
        outputs = true_whole(model, inputs, roundings)
        outputs["b"][0, 0] += 1
        return outputs

    monkeypatch.setattr(runner, "run_whole", nudged)
    result = run(cut(diamond, CUTS[1]), executor="threads")
    assert result.bitwise_equal is False
    assert result.mismatches == ("b (1 of 512 elements differ, by at most 1)",)


def test_how_far_default_options_are_is_told(cut: Cut, diamond: onnx.ModelProto) -> None:
    plan = cut(diamond, CUTS[1])
    assert run(plan, executor="threads").plain is None
    model = plan.problem.model
    assert model is not None
    given = random_inputs(model, 0)
    default = ort.InferenceSession(
        diamond.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(["y", "b"], given)
    done = run(plan, executor="threads", plain=True)
    assert done.bitwise_equal is True
    assert done.plain is not None
    assert done.plain.mismatches == ()
    for found, wanted in zip(done.plain.deviations, default, strict=True):
        off = np.abs(done.outputs[found.output].astype(float) - wanted.astype(float)).max()
        assert found.max_abs == off
        assert found.max_rel == off / np.abs(wanted.astype(float)).max()
    assert done.plain.bitwise_equal == all(
        bits(done.outputs[name]) == bits(wanted)
        for name, wanted in zip(("y", "b"), default, strict=True)
    )
    record = run_record(plan, done)
    assert record["session_options"]["graph_optimization_level"] == "ORT_DISABLE_ALL"
    assert record["default_session_options"]["bitwise_equal"] == done.plain.bitwise_equal
    odd = Plain(False, (Deviation("y", 0.5, 0.25, 1),), ("i (2 of 3 elements differ)",))
    told = " ".join(session_lines(replace(done, plain=odd)))
    assert "without graph optimisation and prepacking" in told
    far = "'y' deviates from default session options by at most 0.5, 25 % of its largest value"
    assert f"{far}, 1 element out of range" in told
    assert "give another i (2 of 3 elements differ)" in told
