"""Custom operators: function bodies, libraries, and what both say of shapes and costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import hetsim
from custom_op_builders import DOMAIN, LIBRARY, bodies, other, user
from hetsim.errors import ModelError, UnboundDimension
from hetsim.graph.work import graph_work, uncosted
from onnx_builders import make_model, op, save, value


def test_without_it_the_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"unknown op 'NegPos' .*\(--extension\)"):
        hetsim.load_model(user(tmp_path))


@pytest.mark.parametrize("canonical", ["none", "basic", "extended"])
def test_a_function_body_makes_the_op_a_part_of_the_model(tmp_path: Path, canonical: str) -> None:
    model = hetsim.load_model(
        user(tmp_path),
        canonical=canonical,  # type: ignore[arg-type]
        extensions=[bodies(tmp_path)],
    )
    assert [model.graph.tensors[name].shape for name in model.graph.outputs] == [(2, 3)] * 2
    assert not any(node.custom for node in model.graph.nodes)
    called = [node for node in model.graph.nodes if node.op_type == "NegPos"]
    assert len(called) == (canonical == "none")
    # Both ways count the same arithmetic: Mul, Min, Max, Add at one each, and Exp.
    assert uncosted(model.graph) == ()
    flops = sum(work.flops for work in graph_work(model.graph))
    exp = next(n for n in model.graph.nodes if n.op_type == "Exp")
    assert flops == 4 * 6 + graph_work(model.graph)[exp.id].flops
    assert {name for node in model.graph.nodes for name in node.origins} == {
        "Mul_0", "split", "Add_2", "Exp_3",
    }  # fmt: skip


@pytest.mark.parametrize("canonical", ["none", "basic"])
def test_a_library_runs_its_kernels_and_a_body_says_what_they_do(
    tmp_path: Path, canonical: str
) -> None:
    extension = f"{LIBRARY}={bodies(tmp_path)}"
    model = hetsim.load_model(
        user(tmp_path),
        canonical=canonical,  # type: ignore[arg-type]
        extensions=[extension],
    )
    node = next(node for node in model.graph.nodes if node.op_type == "NegPos")
    assert node.custom
    assert [model.graph.tensors[name].shape for name in node.outputs] == [(2, 3)] * 2
    work = graph_work(model.graph)[node.id]
    assert (work.flops, work.read_bytes, work.write_bytes, work.rule) == (12, 24, 48, True)
    platform = hetsim.load_platform("laptop")
    plan = hetsim.plan(hetsim.Problem.of(model, platform), "hetero:npu,cpu")
    run = hetsim.run(plan, executor="threads")
    assert run.bitwise_equal
    assert plan.assignment[node.id] == list(platform.devices).index("cpu")
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    outputs = hetsim.run(plan, {"x": x}, executor="threads").outputs
    np.testing.assert_array_equal(outputs["y"], np.minimum(-2 * x, 0) + x)
    np.testing.assert_allclose(outputs["z"], np.exp(np.maximum(-2 * x, 0)), rtol=1e-6)
    plan.save(tmp_path / "plan.json")
    again = hetsim.load_plan(tmp_path / "plan.json", extensions=[extension])
    assert again.groups == plan.groups
    assert again.problem.model is not None
    assert again.problem.model.libraries == (LIBRARY,)
    save(make_model([op("Neg", "x", "y")], [value("x")], [value("y")], functions=[other()]),
         tmp_path, "bodies.onnx")  # fmt: skip
    with pytest.raises(hetsim.errors.PlanError, match="the model changed"):
        hetsim.load_plan(tmp_path / "plan.json", extensions=[extension])


def test_shapes_behind_a_library_alone_are_measured(tmp_path: Path) -> None:
    measured = hetsim.load_model(user(tmp_path), extensions=[LIBRARY])
    assert measured.observed is not None
    assert not measured.observed.given
    hetsim.Problem.of(measured, hetsim.load_platform("laptop"))
    model = hetsim.load_model(user(tmp_path), extensions=[LIBRARY], measure=False)
    with pytest.raises(UnboundDimension, match=r"a run is needed and was not allowed"):
        hetsim.Problem.of(model, hetsim.load_platform("laptop"))


def test_a_function_of_the_model_goes_first(tmp_path: Path) -> None:
    nodes = [op("NegPos", "x", "n p", domain=DOMAIN), op("Add", "n p", "y")]
    proto = make_model(nodes, [value("x")], [value("y")], domains={DOMAIN: 1}, functions=[other()])
    path = save(proto, tmp_path)
    model = hetsim.load_model(path, extensions=[bodies(tmp_path)])
    assert {node.op_type for node in model.graph.nodes} >= {"Neg", "Abs"}


def test_a_body_may_call_another(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("outer", 1)]
    inner = helper.make_function("outer", "Twice", ["x"], ["y"], [op("Add", "x x", "y")], opsets)
    outer = helper.make_function("outer", "Four", ["x"], ["y"],
                                 [op("Twice", "x", "t", domain="outer"),
                                  op("Twice", "t", "y", domain="outer")], opsets)  # fmt: skip
    held = make_model([op("Neg", "x", "y")], [value("x")], [value("y")], functions=[inner, outer])
    proto = make_model(
        [op("Four", "x", "y", domain="outer")], [value("x")], [value("y")], domains={"outer": 1}
    )
    model = hetsim.load_model(
        save(proto, tmp_path), canonical="none", extensions=[save(held, tmp_path, "b.onnx")]
    )
    assert [node.op_type for node in model.graph.nodes] == ["Four"]
    assert graph_work(model.graph)[0].flops == 12
    plan = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform("laptop")), "single:cpu")
    x = np.ones((2, 3), np.float32)
    assert (hetsim.run(plan, {"x": x}, executor="threads").outputs["y"] == 4).all()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("absent.onnx", None, "no such file"),
        ("absent.so", None, "no such file"),
        ("empty.onnx", "model", "it has no function"),
        ("text.so", "text", "not a library of custom operators: .*text.so"),
        ("a.so=b.txt", None, "give BODIES.onnx, LIBRARY or LIBRARY=BODIES.onnx"),
        ("a.onnx=b.onnx", None, "give BODIES.onnx, LIBRARY or LIBRARY=BODIES.onnx"),
    ],
)
def test_what_is_no_extension(tmp_path: Path, name: str, content: str | None, says: str) -> None:
    path = tmp_path / name
    if content == "model":
        save(make_model([op("Neg", "x", "y")], [value("x")], [value("y")]), tmp_path, name)
    elif content is not None:
        path.write_text(content)
    with pytest.raises(ModelError, match=says):
        hetsim.load_model(user(tmp_path), extensions=[path])
