"""What reading takes stays bounded: small files that say much, and large models."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import hetsim
from cli_calls import call
from hetsim.errors import ModelError
from hetsim.graph import preparation
from hetsim.graph.canonical.folding import too_much
from hetsim.graph.model import Model
from hetsim.graph.reading import onnx_runtime
from hetsim.graph.shapes import inference, measurement
from onnx_builders import make_model, op, value

WIDE = np.array([2**14, 2**14])


def of_constants(*nodes: onnx.NodeProto, **constants: object) -> onnx.ModelProto:
    """A model that adds to its input the sum of `r`, which `nodes` make of constants."""
    return make_model(
        [*nodes, op("ReduceSum", "r", "s", keepdims=0), op("Add", "x s", "y")],
        [value("x")],
        [value("y")],
        {name: np.asarray(array) for name, array in constants.items()},
    )


def product(side: int) -> onnx.ModelProto:
    return of_constants(
        op("ConstantOfShape", "shape", "a"), op("MatMul", "a a", "r"), shape=np.array([side, side])
    )


MODELS = {
    # Each took minutes or gigabytes before.
    "product": product(2**14),
    "joined": of_constants(
        op("ConstantOfShape", "high", "a"), op("ConstantOfShape", "wide", "b"),
        op("Add", "a b", "r"), high=np.array([2**20, 1]), wide=np.array([1, 2**20]),
    ),
    "many": of_constants(
        *(op("ConstantOfShape", "shape", f"a{i}") for i in range(40)),
        op("Sum", " ".join(f"a{i}" for i in range(40)), "r"), shape=np.array([2**26]),
    ),
    "determinant": of_constants(
        op("ConstantOfShape", "shape", "a"), op("Det", "a", "r"), shape=WIDE
    ),
    "window": of_constants(
        op("ConstantOfShape", "shape", "a"),
        op("MaxPool", "a", "r", kernel_shape=[1000, 1000]), shape=np.array([1, 1, 3000, 3000]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("place", ["graph", "function", "branch"])
def test_what_takes_more_than_can_be_had_is_not_folded(
    name: str, place: str, tmp_path: Path
) -> None:
    proto = MODELS[name]
    if place == "function":
        nodes = [*proto.graph.node]
        function = helper.make_function(
            "f", "F", ["x", *(t.name for t in proto.graph.initializer)], ["y"], nodes,
            [helper.make_opsetid("", 20)],
        )  # fmt: skip
        call = op("F", " ".join(function.input), "y", domain="f")
        outer = make_model(
            [call], [value("x")], [value("y")], {}, domains={"f": 1}, functions=[function]
        )
        outer.graph.initializer.extend(proto.graph.initializer)
        proto = outer
    elif place == "branch":
        body = helper.make_graph(proto.graph.node, "b", [], [value("y")], proto.graph.initializer)
        ask = [op("ReduceMax", "x", "most", keepdims=0), op("Cast", "most", "go", to=9)]
        choice = op("If", "go", "z", then_branch=body, else_branch=body)
        proto = make_model([*ask, choice], [value("x")], [value("z")])
    assert too_much(proto)
    if place == "graph":
        onnx.save(proto, tmp_path / "m.onnx")
        model = hetsim.load_model(tmp_path / "m.onnx")
        assert "ConstantOfShape" in {node.op_type for node in model.graph.nodes}
        assert sum(np.prod(model.graph.tensors[c].static_shape) for c in model.graph.constants) < 9


def test_what_can_be_had_is_folded(tmp_path: Path) -> None:
    proto = product(64)
    assert not too_much(proto)
    onnx.save(proto, tmp_path / "m.onnx")
    assert [node.op_type for node in hetsim.load_model(tmp_path / "m.onnx").graph.nodes] == ["Add"]


def test_a_condition_that_takes_too_much_is_left_open(tmp_path: Path) -> None:
    inner = helper.make_graph([op("Relu", "x", "o")], "b", [], [value("o")])
    proto = make_model(
        [
            op("Exp", "most", "end"),
            op("Range", "begin end step", "r"),
            op("ReduceSum", "r", "s", keepdims=0),
            op("Cast", "s", "go", to=9),
            op("If", "go", "y", then_branch=inner, else_branch=inner),
        ],
        [value("x")],
        [value("y")],
        {"begin": np.float32(0), "most": np.float32(30), "step": np.float32(1)},
    )
    onnx.save(proto, tmp_path / "m.onnx")
    model = hetsim.load_model(tmp_path / "m.onnx", measure=False)
    assert "If" in {node.op_type for node in model.graph.nodes}


def growing(turns: int) -> onnx.ModelProto:
    """A Loop that doubles what it carries at every turn."""
    body = helper.make_graph(
        [op("Identity", "go", "on"), op("Concat", "held held", "twice", axis=0)],
        "body",
        [value("i", (), "INT64"), value("go", (), "BOOL"), value("held", (None,))],
        [value("on", (), "BOOL"), value("twice", (None,))],
    )
    return make_model(
        [op("Reshape", "x flat", "one"), op("Loop", "turns yes one", "y", body=body)],
        [value("x", (1,))],
        [value("y", (None,))],
        {"flat": np.array([-1]), "turns": np.array(turns), "yes": np.array(True)},
    )


def test_a_run_that_takes_too_much_memory_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "GROWTH_BYTES", 2**26)
    onnx.save(growing(60), tmp_path / "m.onnx")
    model = hetsim.load_model(tmp_path / "m.onnx")
    assert model.unmeasured is not None
    assert "it takes more than 64.0 MiB of memory" in model.unmeasured
    onnx.save(growing(4), tmp_path / "m.onnx")
    model = hetsim.load_model(tmp_path / "m.onnx")
    assert model.observed is not None
    assert model.observed.shapes["y"] == (16,)


GROWN = {
    "ConstantOfShape": (op("ConstantOfShape", "wide", "r"), {"wide": np.array([2**28])}),
    "Expand": (op("Expand", "one wide", "r"), {"wide": np.array([2**14, 2**14])}),
    "Tile": (op("Tile", "one wide", "r"), {"wide": np.array([2**14, 2**14])}),
    "Pad": (op("Pad", "one wide", "r"), {"wide": np.array([0, 0, 2**14, 2**14])}),
    "OneHot": (
        op("OneHot", "many wide both", "r"),
        {"many": np.zeros(2**10, np.int64), "wide": np.array(2**18), "both": np.float32([0, 1])},
    ),
    "Resize": (
        helper.make_node("Resize", ["one", "", "wide"], ["r"], mode="nearest"),
        {"wide": np.float32([2**14, 2**14])},
    ),
    "Range": (
        op("Range", "zero end step", "r"),
        {"zero": np.array(0), "end": np.array(2**27), "step": np.array(1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWN)
def test_one_node_that_makes_much_of_little_is_not_folded(name: str) -> None:
    node, constants = GROWN[name]
    constants = {"one": np.ones((1, 1), np.float32), **constants}
    assert too_much(of_constants(node, **constants))


def test_weights_that_are_made_of_their_shapes_are_folded() -> None:
    """The largest networks whose graphs are published without values: 1.3 GB, 0.4 in one."""
    proto = make_model(
        [op("ConstantOfShape", f"wide{i}", f"r{i}") for i in range(13)],
        [],
        [value(f"r{i}", None) for i in range(13)],
        {f"wide{i}": np.array([2**14, 25088 // 16]) for i in range(13)},
    )
    assert not too_much(proto)


@pytest.mark.parametrize("op_type", ["Range", "Expand"])
def test_one_node_of_a_run_takes_no_more_than_there_may_be(
    op_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is taken: nothing ends a kernel that is under way."""
    monkeypatch.setattr(measurement, "GROWTH_BYTES", 2**26)
    # Nobody looks meanwhile.
    monkeypatch.setattr(measurement, "_LOOK_S", 60.0)
    ends = [op("ReduceMax", "x", "m", keepdims=0), op("Exp", "m", "e"), op("Mul", "e many", "f")]
    make = {
        "Range": [op("Range", "zero f step", "r")],
        "Expand": [op("Cast", "f", "i", to=7), op("Unsqueeze", "i first", "s"),
                   op("Expand", "step s", "r")],
    }[op_type]  # fmt: skip
    proto = make_model(
        [*ends, *make, op("Neg", "r", "y")],
        [value("x", (2, 2))],
        [value("y", None)],
        {"zero": np.float32(0), "step": np.float32(1), "many": np.float32(2**33),
         "first": np.array([0])},
    )  # fmt: skip
    onnx.save(proto, tmp_path / "m.onnx")
    model = hetsim.load_model(tmp_path / "m.onnx")
    assert model.unmeasured is not None
    assert "it takes more than 64.0 MiB of memory" in model.unmeasured
    proto.graph.initializer[2].CopyFrom(onnx.numpy_helper.from_array(np.float32(2**6), "many"))
    onnx.save(proto, tmp_path / "m.onnx")
    assert hetsim.load_model(tmp_path / "m.onnx").observed is not None


@pytest.mark.parametrize(
    ("size", "why"), [(2**40, "random inputs"), (2**61, "its size exceeds 64 bits")]
)
def test_values_larger_than_the_memory_are_not_made(size: int, why: str, tmp_path: Path) -> None:
    proto = make_model(
        [op("NonZero", "x", "y")], [value("x", (size,))], [value("y", (None, None), "INT64")]
    )
    onnx.save(proto, tmp_path / "m.onnx")
    model = hetsim.load_model(tmp_path / "m.onnx")
    assert model.unmeasured is not None
    assert why in model.unmeasured


def of_text(doublings: int, entries: int = 1, letters: int = 2**20) -> onnx.ModelProto:
    """A model that joins its input with a text of `letters`, doubled, in as many entries."""
    names = ["kept", *(f"t{i}" for i in range(doublings))]
    texts = helper.make_tensor("text", onnx.TensorProto.STRING, [1], [b"x" * letters])
    proto = make_model(
        [
            op("Expand", "text shape", "kept"),
            *(op("StringConcat", f"{a} {a}", b) for a, b in pairwise(names)),
            op("StringConcat", f"x {names[-1]}", "y"),
        ],
        [value("x", (1,), "STRING")],
        [value("y", (entries,), "STRING")],
        {"shape": np.array([entries])},
    )
    proto.graph.initializer.append(texts)
    return proto


@pytest.mark.parametrize(("doublings", "entries"), [(30, 1), (0, 10**6), (8, 100)])
def test_letters_of_texts_count(doublings: int, entries: int, tmp_path: Path) -> None:
    """Each took gigabytes: what ONNX Runtime itself holds sizes to counts entries alone."""
    proto = of_text(doublings, entries)
    assert too_much(proto)
    onnx.save(proto, tmp_path / "m.onnx")
    ops = [node.op_type for node in hetsim.load_model(tmp_path / "m.onnx").graph.nodes]
    assert ops == ["Expand"] + ["StringConcat"] * (doublings + 1)


SIDE = 160
LAYERS = 4
"""Of which each has a weight that is put aside, and one that is folded."""


def layers(count: int = LAYERS, last: str = "Relu") -> onnx.ModelProto:
    """MatMul by a turned weight, Add and Relu in turn."""
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, Any] = {}
    drawn = np.random.Generator(np.random.SFC64(1))
    before = "x"
    for i in range(count):
        for name, shape in ((f"w{i}", (SIDE, SIDE)), (f"t{i}", (SIDE, SIDE)), (f"b{i}", (SIDE,))):
            weights[name] = drawn.random(shape, dtype=np.float32)
        kind = last if i == count - 1 else "Relu"
        nodes += [
            op("MatMul", f"{before} w{i}", f"m{i}", f"product{i}"),
            op("Transpose", f"t{i}", f"u{i}", f"turn{i}", perm=[1, 0]),
            op("MatMul", f"m{i} u{i}", f"n{i}", f"second{i}"),
            op("Add", f"n{i} b{i}", f"a{i}", f"sum{i}"),
            op(kind, f"a{i}", f"r{i}", f"last{i}"),
        ]
        before = f"r{i}"
    ends = ([value(name, (8, SIDE))] for name in ("x", before))
    return make_model(nodes, *ends, weights, opset=17, ir=8)


def content(model: Model) -> bytes:
    return model.proto.SerializeToString(deterministic=True)


@pytest.mark.parametrize("level", ["none", "basic", "extended"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_put_aside_give_the_same_model(
    monkeypatch: pytest.MonkeyPatch, level: str, dtype: type
) -> None:
    proto = layers()
    if dtype == np.float16:
        for tensor in proto.graph.initializer:
            array = onnx.numpy_helper.to_array(tensor).astype(dtype)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    whole = hetsim.model_of(proto, canonical=level)
    put: list[int] = []
    real = onnx_runtime.externalise

    def seen(given: onnx.ModelProto, *rest: Any) -> Any:
        left, kept = real(given, *rest)
        put.append(len(kept))
        assert left.ByteSize() < given.ByteSize() / 4
        return left, kept

    monkeypatch.setattr(onnx_runtime, "PAYS_BYTES", 1)
    monkeypatch.setattr(onnx_runtime, "LARGE_BYTES", 2**15)
    monkeypatch.setattr(onnx_runtime, "externalise", seen)
    apart = hetsim.model_of(proto, canonical=level)
    assert put
    assert max(put) == 2 * LAYERS
    assert content(apart) == content(whole)
    assert apart.weights_dir is None
    assert apart.graph == whole.graph
    assert apart.folded == whole.folded


def test_without_room_for_weights_a_model_is_checked_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(onnx_runtime, "PAYS_BYTES", 1)
    monkeypatch.setattr(onnx_runtime, "externalise", full)
    assert len(hetsim.model_of(layers(), canonical="none").graph.nodes) == 5 * LAYERS
    with pytest.raises(ModelError, match="axis"):
        hetsim.model_of(layers(last="Concat"), canonical="none")


def test_a_graph_too_large_to_be_rewritten_is_left_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes = 5 * LAYERS
    assert hetsim.model_of(layers()).canonical == "basic"
    monkeypatch.setattr(preparation, "MOST_REWRITTEN", nodes - 1)
    left = hetsim.model_of(layers())
    assert left.canonical == "none"
    assert left.unoptimised == (
        f"rewriting {nodes} nodes takes more time than it saves (--canonical basic does it)"
    )
    assert content(left) == content(hetsim.model_of(layers(), canonical="none"))
    asked = hetsim.model_of(layers(), canonical="basic")
    assert (asked.canonical, asked.unoptimised) == ("basic", None)
    assert len(asked.graph.nodes) < nodes
    path = tmp_path / "layers.onnx"
    onnx.save(layers(), str(path))
    for words in (["compare", str(path), "--platform", "edge-tpu", "--strategy", "heft"],
                  ["inspect", str(path)]):  # fmt: skip
        told = " ".join(call(*words).stdout.split())
        assert f"not optimised: rewriting {nodes} nodes takes more time than it saves" in told
    assert "not optimised" not in call("inspect", str(path), "--canonical", "none").stdout


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Models are checked by three nodes at a time; how many nodes each session had."""
    asked: list[int] = []
    real = onnx_runtime.probe_types

    def counted(proto: onnx.ModelProto, *rest: object) -> dict[str, onnx.TypeProto]:
        asked.append(len(proto.graph.node))
        return real(proto, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(inference, "PARTS_FROM", 6)
    monkeypatch.setattr(inference, "PART", 3)
    monkeypatch.setattr(inference, "probe_types", counted)
    return asked


def test_large_graphs_are_checked_in_parts(in_parts: list[int]) -> None:
    model = hetsim.model_of(layers(), canonical="none")
    assert in_parts == [3] * 6 + [2]
    assert len(model.graph.nodes) == 5 * LAYERS


def test_what_one_part_has_wrong_is_named(in_parts: list[int]) -> None:
    proto = layers()
    proto.graph.node[12].attribute.append(onnx.helper.make_attribute("unheard", 1))
    with pytest.raises(ModelError, match="unheard") as raised:
        hetsim.model_of(proto, canonical="none")
    assert proto.graph.node[12].name in str(raised.value)
    assert 1 < len(in_parts) < 7
