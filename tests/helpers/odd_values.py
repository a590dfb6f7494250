"""Models of values and types that few exporters write, each with inputs for it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from odd_graphs import F32, Case, X, anything, body
from onnx_builders import make_model, op, value

FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, None)


def sequences_carried_by_a_loop() -> Case:
    """A sequence that a Loop grows, cut on either side, and measured."""
    sequence = helper.make_sequence_type_proto(FLOATS)
    grow = body(
        [op("Identity", "go", "more"), op("Add", "x step", "item"),
         op("SequenceInsert", "held item", "longer")],
        [value("more", (), "BOOL"), helper.make_value_info("longer", sequence)],
        [value("i", (), "INT64"), value("go", (), "BOOL"),
         helper.make_value_info("held", sequence)],
    )  # fmt: skip
    proto = make_model(
        [
            op("SequenceEmpty", "", "empty"),
            op("SequenceInsert", "empty x", "first"),
            op("ReduceMax", "x", "step", keepdims=0),
            op("Loop", "n - first", "all", body=grow),
            op("SequenceErase", "all one", "fewer"),
            op("ConcatFromSequence", "fewer", "y", axis=0),
            op("SequenceLength", "all", "count"),
        ],
        [value("x")],
        [anything("y"), value("count", (), "INT64"), helper.make_value_info("fewer", sequence)],
        {"n": np.array(2), "one": np.array(1)},
    )
    return proto, {"x": X}


def sequence_map() -> Case:
    """An operator that is a function with a body, over a sequence that is an input."""
    sequence = helper.make_sequence_type_proto(FLOATS)
    each = body(
        [op("Add", "item scale", "moved"), op("Relu", "moved", "out")],
        [anything("out")],
        [anything("item"), anything("scale")],
    )
    proto = make_model(
        [
            op("Exp", "x", "scale"),
            op("SequenceMap", "s scale", "mapped", body=each),
            op("SequenceAt", "mapped last", "y"),
        ],
        [value("x", (3,)), helper.make_value_info("s", sequence)],
        [anything("y"), helper.make_value_info("mapped", sequence)],
        {"last": np.array(-1)},
    )
    return proto, {"x": X[0], "s": [X, X + 1]}


def optionals() -> Case:
    """Optional tensors and sequences, full and empty, over cuts and as outputs."""
    sequence = helper.make_sequence_type_proto(FLOATS)
    proto = make_model(
        [
            op("Relu", "x", "h"),
            op("Optional", "h", "full"),
            op("OptionalHasElement", "full", "yes"),
            op("OptionalGetElement", "full", "g"),
            op("SplitToSequence", "g", "parts", axis=0),
            op("Optional", "parts", "held"),
            op("OptionalGetElement", "held", "again"),
            op("Optional", "", "none", type=sequence),
            op("OptionalHasElement", "none", "no"),
            op("ConcatFromSequence", "again", "y", axis=1),
        ],
        [value("x")],
        [
            anything("y"),
            value("yes", (), "BOOL"),
            value("no", (), "BOOL"),
            helper.make_value_info("held", helper.make_optional_type_proto(sequence)),
            helper.make_value_info("none", helper.make_optional_type_proto(sequence)),
        ],
    )
    return proto, {"x": X}


def strings() -> Case:
    """Strings through standard and ai.onnx.ml operators, as constants and as outputs."""
    proto = make_model(
        [
            op("StringConcat", "x suffix", "joined"),
            op("StringNormalizer", "joined", "upper", case_change_action="UPPER", locale="C"),
            op("LabelEncoder", "upper", "codes", domain="ai.onnx.ml",
               keys_strings=["A!", "B!"], values_int64s=[3, 4], default_int64=-1),
            op("StringSplit", "sentence", "words counts", delimiter=" "),
            op("Cast", "codes", "text", to=TensorProto.STRING),
            op("StringConcat", "text upper", "y"),
        ],
        [value("x", (3,), "STRING"), value("sentence", (1,), "STRING")],
        [value("y", None, "STRING"), value("words", None, "STRING"), value("counts", None, "INT64"),
         value("suffix", (1,), "STRING")],
        {"suffix": np.array(["!"], dtype=object)},
        domains={"ai.onnx.ml": 2},
    )  # fmt: skip
    words = np.array(["a", "b", ""], dtype=object)
    return proto, {"x": words, "sentence": np.array(["to be or"], dtype=object)}


def maps() -> Case:
    """A sequence of maps as output, and a map as input."""
    proto = make_model(
        [
            op("Softmax", "x", "p"),
            op("ZipMap", "p", "z", domain="ai.onnx.ml", classlabels_strings=["u", "v", "w"]),
            op("CastMap", "m", "t", domain="ai.onnx.ml", cast_to="TO_FLOAT"),
            op("Add", "p t", "y"),
        ],
        [value("x"), value("m")],
        [anything("y"), value("z")],
        domains={"ai.onnx.ml": 1},
    )
    number = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    given = proto.graph.input[1].type
    given.Clear()
    given.map_type.key_type = TensorProto.INT64
    given.map_type.value_type.CopyFrom(number)
    made = proto.graph.output[1].type
    made.Clear()
    element = made.sequence_type.elem_type.map_type
    element.key_type = TensorProto.STRING
    element.value_type.CopyFrom(number)
    return proto, {"x": X, "m": {0: 1.5}}


def sparse_constants() -> Case:
    """A sparse initializer that several parts read, and a sparse Constant."""
    proto = make_model(
        [
            op("Constant", "", "k", sparse_value=sparse("", [5.0], [1])),
            op("Add", "x w", "a"),
            op("Mul", "a w", "b"),
            op("Add", "b k", "y"),
        ],
        [value("x")],
        [anything("y"), anything("a")],
    )
    proto.graph.sparse_initializer.append(sparse("w", [1.0, 2.0], [0, 4]))
    return proto, {"x": X}


def sparse(name: str, numbers: list[float], places: list[int]) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        helper.make_tensor(name, TensorProto.FLOAT, [len(numbers)], numbers),
        helper.make_tensor("", TensorProto.INT64, [len(places)], places),
        [2, 3],
    )


def contrib() -> Case:
    """com.microsoft operators: optional outputs left out, and shapes that ONNX cannot infer."""
    rng = np.random.default_rng(2)
    proto = make_model(
        [
            op("SkipLayerNormalization", "x skip gamma", "n - - sum", domain="com.microsoft"),
            op("BiasGelu", "n bias", "g", domain="com.microsoft"),
            op("FusedMatMul", "g w", "m", domain="com.microsoft", transB=1, alpha=0.5),
            op("NGramRepeatBlock", "tokens scores", "s", domain="com.microsoft", ngram_size=2),
            op("QuickGelu", "m", "q", domain="com.microsoft"),
            op("Add", "q sum", "y"),
        ],
        [value("x", (1, 2, 4)), value("tokens", (1, 4), "INT64"), value("scores", (1, 5))],
        [anything("y"), anything("s")],
        {
            "skip": rng.standard_normal((1, 2, 4)).astype(F32),
            "gamma": np.ones(4, F32),
            "bias": np.ones(4, F32),
            "w": rng.standard_normal((4, 4)).astype(F32),
        },
        domains={"com.microsoft": 1},
    )
    return proto, {
        "x": rng.standard_normal((1, 2, 4)).astype(F32),
        "tokens": np.array([[1, 2, 3, 1]]),
        "scores": np.ones((1, 5), F32),
    }


def half_precision() -> Case:
    """16-bit floats that the runtime computes in 32, and rounds where others read them."""
    rng = np.random.default_rng(3)
    proto = make_model(
        [
            op("Mul", "x k", "a"),
            op("MatMul", "a w", "b"),
            op("Transpose", "b", "c", perm=[1, 0]),
            op("Add", "c c", "d"),
            op("MatMul", "w d", "e"),
            op("Softmax", "e", "f"),
            op("Sub", "f e", "y"),
        ],
        [value("x", (8, 8), "FLOAT16")],
        [value("y", None, "FLOAT16"), value("d", None, "FLOAT16")],
        {"w": rng.standard_normal((8, 8)).astype(np.float16), "k": np.array(1.3, np.float16)},
    )
    return proto, {"x": rng.standard_normal((8, 8)).astype(np.float16)}


def small_types() -> Case:
    """4-bit weights and values, and elements of 8 bits, quantised and back."""
    four = helper.make_tensor("w4", TensorProto.INT4, (2, 3), [-8, 7, 3, -1, 0, 5])
    proto = make_model(
        [
            op("DequantizeLinear", "w4 scale", "w"),
            op("Add", "x w", "h"),
            op("QuantizeLinear", "h scale zero", "q"),
            op("Transpose", "q", "qt", perm=[1, 0]),
            op("DequantizeLinear", "qt scale zero", "y"),
        ],
        [value("x")],
        [anything("y")],
        {"scale": np.array(0.25, F32)},
        opset=21,
        ir=10,
    )
    proto.graph.initializer.extend([four, helper.make_tensor("zero", TensorProto.INT4, (), [1])])
    return proto, {"x": X}


def empty_and_scalar() -> Case:
    """Tensors without an element, scalars, and a shape that depends on the values."""
    proto = make_model(
        [
            op("Greater", "x high", "mask"),
            op("Compress", "x mask2", "none", axis=0),
            op("Concat", "none x", "both", axis=0),
            op("NonZero", "mask", "at"),
            op("Size", "at", "size"),
            op("ReduceSum", "both", "total", keepdims=0),
        ],
        [value("x")],
        [anything("none"), value("at", None, "INT64"), value("size", (), "INT64"),
         anything("total")],
        {"high": np.array(9, F32), "mask2": np.array([False, False])},
    )  # fmt: skip
    return proto, {"x": X}


def large_inline_weights() -> Case:
    """Weights that a run moves to a file, one of them read on both sides of a cut."""
    rng = np.random.default_rng(4)
    proto = make_model(
        [op("MatMul", "x w", "a"), op("Relu", "a", "b"), op("MatMul", "b w", "c"),
         op("Add", "c v", "y")],
        [value("x", (2, 300))],
        [value("y", (2, 300)), value("v", (300,))],
        {"w": rng.standard_normal((300, 300)).astype(F32) / 20,
         "v": rng.standard_normal(300).astype(F32)},
    )  # fmt: skip
    return proto, {"x": rng.standard_normal((2, 300)).astype(F32)}


def seeded_random() -> Case:
    """Random operators with a seed of their own."""
    proto = make_model(
        [
            op("RandomNormalLike", "x", "noise", seed=3.0),
            op("Add", "x noise", "h"),
            op("RandomUniform", "", "u", shape=[2, 3], seed=4.0),
            op("Dropout", "h ratio training", "d", seed=5),
            op("Mul", "d u", "y"),
        ],
        [value("x")],
        [anything("y")],
        {"ratio": np.array(0.5, F32), "training": np.array(True)},
    )
    return proto, {"x": X}


ODD_VALUES = (
    sequences_carried_by_a_loop,
    sequence_map,
    optionals,
    strings,
    maps,
    sparse_constants,
    contrib,
    half_precision,
    small_types,
    empty_and_scalar,
    large_inline_weights,
    seeded_random,
)
