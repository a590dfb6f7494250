"""The command line binds open shapes: all at once, by place, by arrays, or freezes an input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from cli_calls import call, ok, record_of, refused

RATES = """
<ir_version: 8, opset_import: ["": 17]>
rates (float[batch, ?] x, int64 sr) => (float[n, k] y)
<int64 fast = {16000}, int64[2] wide = {4, 4}, int64[2] low = {2, 2}>
{
    is_fast = Equal(sr, fast)
    y = If(is_fast) <
        then_branch = quick () => (float[a, a] t)
            { parts = Reshape(x, wide) t = MatMul(parts, parts) },
        else_branch = slow () => (float[b, b] e)
            { halves = Reshape(x, low) e = MatMul(halves, halves) }>
}
"""


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    path = tmp_path / "rates.onnx"
    proto = parser.parse_model(RATES.replace("?", "anything"))
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "?"
    onnx.save(proto, str(path))
    return path


def test_every_verb_follows_the_hint_and_takes_inputs(rates: Path, tmp_path: Path) -> None:
    laptop = ("--platform", "laptop")
    said = call("compare", rates, *laptop)
    assert said.exit_code == 3
    assert "batch, x[1]" in said.output
    flags = re.findall(r"(--dim) '?([^' ]+)=N'?", said.output)
    sizes = {"batch": 1, "x[1]": 16}
    bound = [word for flag, dim in flags for word in (flag, f"{dim}={sizes[dim]}")]
    np.savez(tmp_path / "in.npz", x=np.ones((1, 16), np.float32), sr=np.array(16000))
    np.save(tmp_path / "x.npy", np.ones((1, 4), np.float32))
    np.save(tmp_path / "sr.npy", np.array(8000))
    apart = ("--input", f"x={tmp_path / 'x.npy'}", "--input", f"sr={tmp_path / 'sr.npy'}")
    frozen = ("--dim", "*=4", "--dim", "batch=1", "--freeze", "sr=8000")
    verbs = (
        ("devices", "query", "intel-core-ultra-155h-npu"), ("partition", *laptop),
        ("compare", *laptop, "--strategy", "heft"), ("simulate", *laptop),
        ("run", *laptop, "--executor", "threads"),
    )  # fmt: skip
    for count, how in enumerate((bound, ("--input", tmp_path / "in.npz"), apart, frozen)):
        for words in (("inspect",), *(() if count else verbs)):
            verb = words[: 3 if words[0] == "devices" else 1]
            result = ok(*verb, rates, *words[len(verb) :], *how)
    folder = tmp_path / "compiled"
    assert call("compile", rates, *laptop, "-o", folder, *apart).exit_code == 0
    result = ok("run", folder, "--executor", "threads", *apart)
    assert "equal to the whole model: yes" in result.output


def test_a_saved_plan_keeps_what_was_frozen_and_measured(rates: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((1, 16), np.float32), sr=np.array(16000))
    given = ("--input", tmp_path / "in.npz")
    out = tmp_path / "out"
    made = ok("simulate", rates, "--platform", "laptop", *given, "--out", out)
    assert "then_branch" in made.output
    record = record_of("simulate", out / "plan.json")
    kept = json.loads((out / "result.json").read_text())
    assert record["problem"]["fingerprint"] == kept["problem"]["fingerprint"]
    assert record["problem"]["model"]["observed"]["branches"] == {"If_1": "then_branch"}
    ok("run", out / "plan.json", "--executor", "threads", *given)
    refused(call("simulate", out / "plan.json", *given), 2, "--input cannot go with a saved plan")


def test_maps_come_out_of_every_verb(tmp_path: Path) -> None:
    scores = helper.make_node(
        "LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
        coefficients=[0.5, -1.0, 1.0, 2.0], intercepts=[0.1, -0.1],
        classlabels_strings=["no", "yes"], post_transform="SOFTMAX", multi_class=1,
    )  # fmt: skip
    maps = helper.make_node(
        "ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_strings=["no", "yes"]
    )
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.STRING, None),
        onnx.ValueInfoProto(name="maps"),
    ]
    kind = outputs[1].type.sequence_type.elem_type.map_type
    kind.key_type = TensorProto.STRING
    kind.value_type.tensor_type.elem_type = TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 2])]
    graph = helper.make_graph([scores, maps], "classifier", inputs, outputs)
    # No operator set of the standard is imported.
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8
    )
    path = tmp_path / "classifier.onnx"
    onnx.save(proto, str(path))
    how = ("--platform", "laptop", "--dim", "*=3")
    for verb in ("inspect", "partition", "compare"):
        assert call(verb, path, *how).exit_code == 0
    ran = ok("run", path, *how, "--executor", "threads", "--json")
    assert [entry["keys"] for entry in json.loads(ran.stdout)["outputs"]["maps"]] == [2] * 3
    assert call("compile", path, *how, "-o", tmp_path / "parts").exit_code == 0
    again = call("run", tmp_path / "parts", "--executor", "threads", "--json")
    assert json.loads(again.stdout)["outputs"] == json.loads(ran.stdout)["outputs"]
