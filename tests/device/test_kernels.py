"""Compiled subgraphs: what they compute, and what they say when they cannot."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.errors import ExecutionError
from onnx_builders import make_model, op, value


def compiled(proto: onnx.ModelProto, *outputs: str, folder: Path | None = None) -> CompiledSubgraph:
    return CompiledSubgraph(
        proto.SerializeToString(), None if folder is None else str(folder), outputs
    )


def test_outputs_come_in_the_order_asked_for() -> None:
    proto = make_model(
        [op("Neg", "x", "a"), op("Add", "a a", "b")], [value("x")], [value("a"), value("b")]
    )
    part = compiled(proto, "b", "a")
    x = np.ones((2, 3), np.float32)
    found = part.run({"x": x, "unused": None})
    assert list(found) == ["b", "a"]
    np.testing.assert_array_equal(found["b"], -2 * x)
    assert part.input_names == ("x",)
    assert compiled(proto).run({"x": x}) == {}


def test_an_op_that_has_no_kernel_says_what_to_do() -> None:
    x, y = (value(name, (2, 2), "BFLOAT16") for name in "xy")
    with pytest.raises(ExecutionError, match=r"MatMul.*convert the model to other types"):
        compiled(make_model([op("MatMul", "x x", "y")], [x], [y]), "y")


def test_an_input_that_is_missing_or_unfit_is_an_error() -> None:
    part = compiled(make_model([op("Neg", "x", "y")], [value("x")], [value("y")]), "y")
    with pytest.raises(ExecutionError, match="input 'x' is missing"):
        part.run({})
    with pytest.raises(ExecutionError, match="double"):
        part.run({"x": np.ones((2, 3))})


def test_a_run_can_be_cancelled_from_another_thread() -> None:
    body = helper.make_graph(
        [op("Identity", "going", "still"), op("Sin", "s", "t")],
        "body",
        [value("turn", (), "INT64"), value("going", (), "BOOL"), value("s", (4,))],
        [value("still", (), "BOOL"), value("t", (4,))],
    )
    proto = make_model(
        [op("Loop", "turns yes x", "y", body=body)],
        [value("x", (4,))],
        [value("y", (4,))],
        {"turns": np.array(2**62), "yes": np.array(True)},
    )
    part = compiled(proto, "y")
    timer = threading.Timer(0.2, part.cancel)
    timer.start()
    with pytest.raises(ExecutionError):
        part.run({"x": np.ones(4, np.float32)})
    timer.join()


def test_sequences_together_with_foreign_types_are_refused_when_compiled() -> None:
    tensor = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    sequence = helper.make_value_info("s", helper.make_sequence_type_proto(tensor))
    proto = make_model(
        [op("SequenceLength", "s", "n"), op("Cast", "h", "y", to=onnx.TensorProto.FLOAT)],
        [sequence, value("h", (2,), "BFLOAT16")],
        [value("n", (), "INT64"), value("y", (2,))],
    )
    with pytest.raises(ExecutionError, match=r"value 's' .* and value 'h' .bfloat16."):
        compiled(proto, "n", "y")


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="reads the memory map of Linux")
def test_external_weights_are_mapped_and_not_copied(tmp_path: Path) -> None:
    count = 4 * 2**20
    proto = make_model([op("Add", "x w", "y")], [value("x", (1,))], [value("y", (count,))])
    weights = np.zeros(count, np.float32)
    weights.tofile(tmp_path / "w.bin")
    reference = proto.graph.initializer.add(
        name="w",
        data_type=onnx.TensorProto.FLOAT,
        dims=[count],
        data_location=onnx.TensorProto.EXTERNAL,
    )
    reference.external_data.add(key="location", value="w.bin")
    part = compiled(proto, "y", folder=tmp_path)
    maps = Path("/proc/self/maps").read_text()
    assert str((tmp_path / "w.bin").resolve()) in maps
    os.unlink(tmp_path / "w.bin")
    assert not part.run({"x": np.zeros(1, np.float32)})["y"].any()
