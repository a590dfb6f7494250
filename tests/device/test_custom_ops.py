"""Devices and custom operators: who takes which, and what is said of those not taken."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hetsim
from custom_op_builders import LIBRARY, bodies, user
from hetsim.device.device import SimulatedDevice
from hetsim.errors import HetsimError, UsageError
from hetsim.graph.model import Model
from hetsim.graph.reading.extension import load_extension
from hetsim.testing import check_device

CPU = hetsim.load_device("rockchip-rk3588-cpu")
NPU = hetsim.load_device("rockchip-rk3588-npu")


def described(folder: Path) -> tuple[Model, SimulatedDevice]:
    """A model of a library's op, and a CPU that was not given the library."""
    extension = f"{LIBRARY}={bodies(folder)}"
    return hetsim.load_model(user(folder), extensions=[extension]), SimulatedDevice("cpu", CPU)


def test_an_op_of_a_library_is_taken_once_it_is_given(tmp_path: Path) -> None:
    model, device = described(tmp_path)
    node = next(node for node in model.graph.nodes if node.custom)
    support = device.query_model(model.graph)
    assert support.reasons == {
        node.id: "op ai.onnx.contrib:NegPos of a custom-op library that it was not given"
    }
    with pytest.raises(HetsimError, match="NegPos"):
        device.compile(model, [node.id])
    device.add_extension(model.extensions[0])
    assert all(device.query_model(model.graph).supported)
    compiled = device.compile(model, [node.id])
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    found = compiled.run({node.inputs[0]: x})
    np.testing.assert_array_equal(found[node.outputs[0]], np.minimum(x, 0))
    np.testing.assert_array_equal(found[node.outputs[1]], np.maximum(x, 0))
    with pytest.raises(HetsimError, match=r"'NegPos' of domain .* is not one of"):
        compiled.export(io.BytesIO())


def test_a_device_that_takes_none_says_so(tmp_path: Path) -> None:
    model, _ = described(tmp_path)
    device = SimulatedDevice("npu", NPU)
    assert device.spec.custom_ops == {"function"}
    with pytest.raises(UsageError, match="no custom operators from a library"):
        device.add_extension(model.extensions[0])
    node = next(node for node in model.graph.nodes if node.custom)
    reason = device.query_model(model.graph).reasons[node.id]
    assert reason == "op ai.onnx.contrib:NegPos of a custom-op library (it takes none)"
    none = SimulatedDevice("npu", replace(NPU, custom_ops=frozenset()))
    with pytest.raises(UsageError, match=r"from a function .* lists what it supports: none"):
        none.add_extension(load_extension(bodies(tmp_path)))


def test_a_function_is_taken_where_its_body_is(tmp_path: Path) -> None:
    model = hetsim.load_model(user(tmp_path), canonical="none", extensions=[bodies(tmp_path)])
    node = next(node for node in model.graph.nodes if node.body is not None)

    def answer(**rule: object) -> str | None:
        spec = replace(CPU, support=replace(CPU.support, **rule))  # type: ignore[arg-type]
        return SimulatedDevice("d", spec).query_model(model.graph).reasons.get(node.id)

    names = frozenset({"Mul", "Add", "Exp", "Min", "Max"})
    assert answer() is None
    assert answer(ops=names) is None
    assert answer(ops=names - {"Max"}) == "op Max in the body of ai.onnx.contrib:NegPos"
    assert answer(ops=names - {"Max"} | {"ai.onnx.contrib:NegPos"}) is None
    assert answer(except_ops=frozenset({"ai.onnx.contrib:NegPos"})) == "op ai.onnx.contrib:NegPos"
    spec = replace(CPU, custom_ops=frozenset())
    reasons = SimulatedDevice("d", spec).query_model(model.graph).reasons
    assert reasons == {node.id: "op ai.onnx.contrib:NegPos, a function (it takes none)"}


def test_conformance_with_custom_ops(tmp_path: Path) -> None:
    model, _ = described(tmp_path)

    def made() -> SimulatedDevice:
        device = SimulatedDevice("cpu", CPU)
        device.add_extension(model.extensions[0])
        return device

    check_device(made, [hetsim.load_model(user(tmp_path), extensions=[bodies(tmp_path)])])
    check_device(lambda: SimulatedDevice("cpu", CPU), [model])


def test_a_compiled_plan_cannot_hold_them(tmp_path: Path) -> None:
    from hetsim.execution.compiled.write import compile_plan

    model, _ = described(tmp_path)
    plan = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform("laptop")), "single:cpu")
    with pytest.raises(UsageError, match="cannot contain operators of a custom-op library"):
        compile_plan(plan, tmp_path / "compiled")
