"""Shapes that no inference finds come from one run; open dims are bound by name, place or array."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import hetsim
from hetsim.errors import ModelError, RequestError, UnboundDimension, UsageError
from hetsim.execution.compiled.run import open_compiled, run_compiled
from hetsim.execution.compiled.write import compile_plan
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.loading import load_model, model_of
from hetsim.graph.model import Model
from onnx_builders import make_model, op, save, value

NONZERO = """
<ir_version: 8, opset_import: ["": 17]>
picked (float[N, 3] x) => (float[M] y)
{
    places = NonZero(x)
    turned = Transpose(places)
    y0 = GatherND(x, turned)
    y = Relu(y0)
}
"""

RATES = """
<ir_version: 8, opset_import: ["": 17]>
rates (float[batch, n] x, int64 sr) => (float[batch, k] y)
<int64 fast = {16000}, int64[2] wide = {4, 4}, int64[2] low = {2, 2}>
{
    is_fast = Equal(sr, fast)
    y = If(is_fast) <
        then_branch = quick () => (float[batch, a] t)
            { parts = Reshape(x, wide) t = MatMul(parts, parts) },
        else_branch = slow () => (float[batch, b] e)
            { halves = Reshape(x, low) e = MatMul(halves, halves) }>
}
"""


LEFT_OPEN = RATES.replace("int64[2] low = {2, 2}", "float[2, 2] low = {1, 2, 3, 4}").replace(
    "halves = Reshape(x, low) e = MatMul(halves, halves)", "e = MatMul(x, low)"
)
"""The model for which even the shapes of its inputs cannot be stated."""


def text_model(text: str, **options: Any) -> Model:
    return model_of(parser.parse_model(text), **options)


def shapes_in_truth(proto: onnx.ModelProto, inputs: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of all values by the reference implementation of ONNX."""
    from onnx.reference import ReferenceEvaluator

    names = [name for node in proto.graph.node for name in node.output if name]
    found = ReferenceEvaluator(proto).run(None, inputs, intermediate=True)  # type: ignore[call-arg]
    return {name: np.shape(found[name]) for name in names}


@pytest.mark.parametrize("level", ["none", "basic"])
def test_shapes_that_depend_on_data_are_those_of_a_run(level: Any) -> None:
    x = np.array([[1, 0, 2], [0, 3, 4]], np.float32)
    model = text_model(NONZERO, inputs={"x": x}, canonical=level)
    for name, shape in shapes_in_truth(model.proto, {"x": x}).items():
        assert model.graph.tensors[name].shape == shape
    assert model.observed is not None
    assert model.observed.given
    assert model.graph.tensors["y"].measured
    assert not model.graph.tensors["x"].measured
    # The ONNX model stays open: the parts run on any inputs of these shapes.
    (output,) = model.proto.graph.output
    assert not any(dim.HasField("dim_value") for dim in output.type.tensor_type.shape.dim)


def test_without_inputs_the_run_is_on_random_ones_and_always_the_same() -> None:
    first, again = (text_model(NONZERO, dims={"N": 5}) for _ in range(2))
    assert first.observed == again.observed
    assert first.observed is not None
    assert not first.observed.given
    truth = shapes_in_truth(first.proto, random_inputs(first))
    assert all(first.graph.tensors[name].shape == shape for name, shape in truth.items())


def normalized(rows: int | str, of_output: tuple[int, ...] | None = None) -> onnx.ModelProto:
    """An op of which inference knows no shape, though it depends on none but shapes."""
    scaled = op("Normalizer", "x", "n", domain="ai.onnx.ml", norm="L2")
    ends = [value("x", (rows, 3))], [value("y", of_output)]
    return make_model([scaled, op("Relu", "n", "y")], *ends, domains={"ai.onnx.ml": 3})


def test_shapes_that_the_file_declares_hold_for_a_plan_that_is_read_back(tmp_path: Path) -> None:
    path = save(normalized(6, (6, 3)), tmp_path)
    first = load_model(path)
    assert first.observed is not None
    assert load_model(path, observed=first.observed).graph.tensors == first.graph.tensors


def test_devices_of_static_shapes_refuse_what_depends_on_data_alone() -> None:
    problem = hetsim.Problem.of(text_model(NONZERO, dims={"N": 5}), hetsim.load_platform("laptop"))
    npu = problem.devices.index("npu")
    (relu,) = [v for v, name in enumerate(problem.op_types) if name == "Relu"]
    assert "dynamic shape" in problem.refusals[npu][relu]
    model = model_of(normalized("rows"), dims={"*": 6})
    assert model.observed is not None
    assert dict(model.observed.shapes) == {"n": (6, 3), "y": (6, 3)}
    assert not any(tensor.measured for tensor in model.graph.tensors.values())


def quantised_lstm() -> Model:
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(-9, 9, (1, 4, 8)).astype(np.int8),
        "r": rng.integers(-9, 9, (1, 2, 8)).astype(np.int8),
        "s": np.full((1,), 0.1, np.float32),
        "z": np.zeros((1,), np.int8),
    }
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        ["x", "w", "r", "", "", "", "", "", "s", "z", "s", "z"],
        ["y"],
        hidden_size=2,
        domain="com.microsoft",
    )
    tail = helper.make_node("Relu", ["y"], ["last"])
    proto = make_model(
        [node, tail],
        [value("x", ("steps", 1, 4))],
        [value("last", None)],
        weights,
        domains={"com.microsoft": 1},
    )
    return model_of(proto, dims={"*": 6})


def test_ops_that_inference_does_not_know_get_shapes() -> None:
    model = quantised_lstm()
    assert model.graph.tensors["last"].shape == (6, 1, 1, 2)
    plan = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform("laptop")), "heft")
    assert hetsim.run(plan, executor="threads").bitwise_equal


@pytest.mark.parametrize("shape", [("n", "n"), (-1, 3), ("?", "?")])
def test_a_file_of_inputs_binds_what_arrays_bind(
    shape: tuple[int | str, ...], tmp_path: Path
) -> None:
    path = save(
        make_model([op("Relu", "x", "y")], [value("x", shape)], [value("y", None)]), tmp_path
    )
    x = np.ones((2, 3), np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    for inputs in ({"x": x}, tmp_path / "in.npz"):
        model = load_model(path, inputs=inputs)
        assert model.graph.tensors["x"].shape == (2, 3)
        plan = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform("laptop")), "heft")
        plan.save(tmp_path / "plan.json")
        assert hetsim.load_plan(tmp_path / "plan.json").to_json() == plan.to_json()


def test_a_saved_plan_opens_to_the_same_problem_without_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(parser.parse_model(NONZERO), tmp_path)
    np.savez(tmp_path / "in.npz", x=np.eye(3, dtype=np.float32))
    model = load_model(path, inputs=tmp_path / "in.npz")
    assert model.observed is not None
    assert model.observed.source.endswith("in.npz")
    plan = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform("laptop")), "heft")
    plan.save(tmp_path / "plan.json")
    (tmp_path / "in.npz").unlink()

    def no_run(*args: object, **options: object) -> None:
        raise AssertionError("a run was made")

    monkeypatch.setattr("hetsim.graph.preparation.observe", no_run)
    again = hetsim.load_plan(tmp_path / "plan.json")
    assert again.problem.fingerprint == plan.problem.fingerprint
    assert again.to_json() == plan.to_json()


def test_an_input_is_frozen_and_its_branch_folds(tmp_path: Path) -> None:
    path = save(parser.parse_model(RATES), tmp_path)
    for rate, taken in ((16000, (4, 4)), (8000, (2, 2))):
        for level in ("none", "basic"):
            count = taken[0] * taken[1]
            model = load_model(
                path,
                shapes={"x": (1, count)},
                freeze={"sr": rate},
                canonical=level,  # type: ignore[arg-type]
            )
            assert model.graph.inputs == ("x",)
            assert "If" not in {node.op_type for node in model.graph.nodes}
            assert model.graph.tensors["y"].shape == taken
            assert model.observed is None
    plan = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform("laptop")), "heft")
    plan.save(tmp_path / "plan.json")
    again = hetsim.load_plan(tmp_path / "plan.json")
    assert again.to_json() == plan.to_json()
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    done = hetsim.run(again, {"x": x}, executor="threads")
    np.testing.assert_array_equal(done.outputs["y"], x.reshape(2, 2) @ x.reshape(2, 2))
    assert hetsim.run(again, {"x": x, "sr": np.array(8000)}, executor="threads").bitwise_equal
    with pytest.raises(RequestError, match="'sr' is frozen to another value"):
        hetsim.run(again, {"x": x, "sr": np.array(9000)}, executor="threads")


@pytest.mark.parametrize(
    ("freeze", "said"),
    [
        ({"srs": 1}, "no input named 'srs' to freeze; did you mean 'sr'"),
        ({"sr": 1.5}, "not a value of type int64"),
        ({"sr": "fast"}, "not a value of type int64"),
        ({"sr": [1, 2]}, "shape"),
    ],
)
def test_what_cannot_be_frozen_is_told(freeze: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        text_model(RATES, freeze=freeze)


@pytest.mark.parametrize("text", [RATES, LEFT_OPEN])
def test_a_branch_that_is_not_taken_need_not_fit_the_shapes(text: str, tmp_path: Path) -> None:
    # Plain ONNX Runtime runs it; it refuses the model once the shapes are stated.
    x = np.arange(16, dtype=np.float32).reshape(1, 16)
    given = {"x": x, "sr": np.array(16000)}
    model = load_model(save(parser.parse_model(text), tmp_path), inputs=given)
    assert model.observed is not None
    assert dict(model.observed.branches) == {"If_1": "then_branch"}
    assert model.observed.inner["If_1/then_branch"]["parts"] == (4, 4)
    assert model.graph.tensors["y"].shape == (4, 4)
    plan = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform("laptop")), "heft")
    compile_plan(plan, tmp_path / "compiled")
    compiled = open_compiled(tmp_path / "compiled")
    for done in (
        hetsim.run(plan, given, executor="threads"),
        run_compiled(compiled, given, executor="threads"),
    ):
        np.testing.assert_array_equal(done.outputs["y"], x.reshape(4, 4) @ x.reshape(4, 4))


def test_turns_and_nested_branches_are_seen() -> None:
    proto = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    turns (float[2] x, int64 n, bool up) => (float[2] y)
    <bool yes = {1}>
    { y = Loop(n, yes, x) <body = body (int64 i, bool c, float[2] v)
        => (bool on, float[2] w)
        { w = If(up) <then_branch = t () => (float[2] a) { a = Exp(v) },
                      else_branch = e () => (float[2] b) { h = Neg(v) b = Neg(h) }>
          on = Identity(c) }> }
    """)
    before = proto.SerializeToString()
    inputs = {"x": np.ones(2, np.float32), "n": np.array(7), "up": np.array(False)}
    model = model_of(proto, inputs=inputs, canonical="none")
    assert proto.SerializeToString() == before
    assert model.observed is not None
    (loop,) = [node.name for node in model.graph.nodes]
    assert dict(model.observed.trips) == {loop: 7.0}
    assert dict(model.observed.branches) == {f"{loop}/body/If_0": "else_branch"}
    assert model.observed.inner[f"{loop}/body/If_0/else_branch"] == {"h": (2,), "b": (2,)}


def flags_in(message: str) -> list[str]:
    """The options that a message tells to give."""
    return re.findall(r"--dim '?([^' ]+)=N'?", message)


@pytest.mark.parametrize("nameless", [None, "?", "-1", "None"])
def test_what_is_open_is_told_at_once_and_the_hint_is_true(nameless: str | None) -> None:
    inputs = [value("a", ("batch", nameless, nameless)), value("b", ("batch", "n"))]
    nodes = [op("Relu", "a", "c"), op("Neg", "b", "d")]
    proto = make_model(nodes, inputs, [value("c", None), value("d", None)])
    model = model_of(proto)
    with pytest.raises(UnboundDimension) as told:
        hetsim.Problem.of(model, hetsim.load_platform("laptop"))
    with pytest.raises(UnboundDimension) as also:
        random_inputs(model)
    assert str(told.value) == str(also.value)
    dims = flags_in(str(told.value))
    assert dims == ["batch", "a[1]", "a[2]", "n"]
    bound = model_of(proto, dims={name: size for size, name in enumerate(dims, 2)})
    assert [bound.graph.tensors[name].shape for name in "abcd"] == [
        (2, 3, 4), (2, 5), (2, 3, 4), (2, 5)]  # fmt: skip
    for every in ({"*": 1}, {"batch": 1, "*": 1}):
        assert model_of(proto, dims=every).graph.tensors["c"].shape == (1, 1, 1)
    arrays = {"a": np.ones((2, 0, 4), np.float32), "b": np.ones((2, 5), np.float32)}
    assert model_of(proto, inputs=arrays).graph.tensors["c"].shape == (2, 0, 4)


CACHE = """
<ir_version: 9, opset_import: ["": 18]>
step (float[batch,4,seq,16] q, float[batch,4,past,16] k, int64[batch,past] mask)
=> (float[batch,4,seq,16] y, float[batch,4,total,16] present, int64[batch,past] kept)
{
    present = Concat<axis=2>(k, q)
    turned = Transpose<perm=[0,1,3,2]>(present)
    scores = MatMul(q, turned)
    shares = Softmax<axis=-1>(scores)
    y = MatMul(shares, present)
    kept = Neg(mask)
}
"""


@pytest.mark.parametrize(
    "sizes",
    [
        {"dims": {"batch": 1, "seq": 3, "past": 0}},
        {"dims": {"past": 0, "*": 2}},
        {"shapes": {"q": (1, 4, 3, 16), "k": (1, 4, 0, 16)}},
        {"shapes": {"q": (1, 4, 3, 16), "mask": [1, 0]}},
        {"dims": {"batch": 1, "seq": 0, "past": 7}},
    ],
)
def test_what_may_be_empty_is_bound_to_0(sizes: dict[str, Any]) -> None:
    model = model_of(parser.parse_model(CACHE), **sizes)
    assert 0 in (model.graph.tensors["k"].static_shape + model.graph.tensors["q"].static_shape)
    problem = hetsim.Problem.of(model, hetsim.load_platform("laptop"))
    for plan in (hetsim.plan(problem), hetsim.plan(problem, "single:cpu")):
        assert 0 < hetsim.simulate(plan).latency_s < 1
        assert hetsim.run(plan, executor="threads").mismatches == ()
        assert hetsim.Plan.from_json(plan.to_json(), problem).groups == plan.groups


@pytest.mark.parametrize("sizes", [{"batch": 0, "*": 2}, {"batch": 0, "past": 0, "seq": 2}])
def test_sizes_that_leave_nothing_to_compute_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="every output of the model is empty with --dim batch=0"):
        model_of(parser.parse_model(CACHE), dims=sizes)


def test_a_name_for_two_sizes_is_told_and_what_is_told_helps() -> None:
    inputs = [value("a", ("n",)), value("b", ("n",))]
    nodes = [op("Relu", "a", "c"), op("Neg", "b", "d")]
    proto = make_model(nodes, inputs, [value("c", ("n",)), value("d", ("n",))])
    with pytest.raises(UsageError) as told:
        model_of(proto, shapes={"a": (2,), "b": (3,)})
    match = re.search(r"--dim '(b\[0\])=(\d)'", str(told.value))
    assert match is not None
    by_place = model_of(proto, dims={"a[0]": 2, match[1]: int(match[2])})
    arrays = {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)}
    for model in (by_place, model_of(proto, inputs=arrays)):
        assert [model.graph.tensors[name].shape for name in "abcd"] == [(2,), (3,), (2,), (3,)]
        plan = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform("laptop")), "heft")
        assert hetsim.run(plan, arrays, executor="threads").bitwise_equal
    with pytest.raises(RequestError, match="load the model with these inputs"):
        hetsim.graph.inputs.arrays.check_arrays(model_of(proto).graph, arrays, "model")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"inputs": {"x": np.ones((2, 4), np.float32)}}, RequestError, "contradicts"),
        ({"inputs": {"x": np.ones(2, np.float32)}}, RequestError, "2, the|1 dim"),
        ({"inputs": {"x": np.ones((2, 3))}}, RequestError, r"\.astype\('float32'\)"),
        ({"inputs": {}}, RequestError, "no value for input 'x'"),
        ({"inputs": {"x": np.ones((2, 3), "f4")}, "dims": {"N": 1}}, UsageError, "bound to 1"),
        ({"dims": {"x[1]": 3}}, UsageError, "no input has a dimension"),
        ({"dims": {"*": 0}}, UsageError, "cannot be 0"),
        ({"inputs": "nowhere.npz"}, RequestError, "no such file"),
        ({"inputs": __file__}, RequestError, "numpy.savez"),
    ],
)  # fmt: skip
def test_wrong_inputs_and_dims_are_told(
    options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        text_model(NONZERO, **options)


def test_a_run_that_fails_is_told_where_shapes_need_it() -> None:
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    shaped (float[6] x, int64[2] shape) => (float[M, N] y) { y = Reshape(x, shape) }
    """
    model = text_model(text)
    assert model.unmeasured is not None
    with pytest.raises(UnboundDimension, match=r"--input FILE\.npz with x float32 \[6\]") as told:
        hetsim.Problem.of(model, hetsim.load_platform("laptop"))
    assert "random inputs" in str(told.value)
    right = {"x": np.ones(6, np.float32), "shape": np.array([2, 3])}
    assert text_model(text, inputs=right).graph.tensors["y"].shape == (2, 3)
    with pytest.raises(ModelError, match="does not run with the inputs given"):
        text_model(text, inputs={**right, "shape": np.array([4, 4])})


def test_sequences_and_optionals_are_drawn() -> None:
    proto = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    joined (seq(float[N, 2]) s, optional(float[3]) o) => (float[M, 2] y, float[3] z)
    { y = ConcatFromSequence <axis = 0> (s) z = OptionalGetElement(o) }
    """)
    model = model_of(proto)
    assert model.observed is not None
    assert model.graph.tensors["y"].shape == (2, 2)
    plan = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform("laptop")), "heft")
    assert hetsim.run(plan, executor="threads").bitwise_equal
