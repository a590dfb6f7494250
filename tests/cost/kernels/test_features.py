"""Kernels in numbers, against the definitions of their ops and what nodes move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetsim.cost.kernels.form import COLUMN, FEATURES, FORMS, PRODUCTS, features
from hetsim.cost.kernels.fusion import Uses, joined_kernel
from hetsim.cost.model import Kernel
from hetsim.cost.registry import cost_model
from hetsim.device.support.quantized import as_int8
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.loading import load_model
from hetsim.graph.work import _FORMS, _RULES, Work, graph_work, node_work
from hetsim.graph.work.rule import Product
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.spec import OP_CLASSES
from kernel_graphs import graph_of

DEVICE = replace(load_platform("laptop").devices["npu"], execution_dtype={})
HALF = replace(DEVICE, execution_dtype={"float32": "float16"})


def row(graph, *members, device=DEVICE):
    works = graph_work(graph)
    kernel = joined_kernel(Uses.of(graph), members or range(len(works)))
    return dict(zip(FEATURES, features(kernel, device).tolist(), strict=True))


CONV = graph_of(
    [
        ("Conv", ["x", "w", "b"], ["y"], {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ("Sigmoid", ["y"], ["s"], {}),
        ("Mul", ["y", "s"], ["m"], {}),
        ("Add", ["m", "r"], ["z"], {}),
    ],
    {"x": (2, 8, 10, 10), "w": (16, 8, 3, 3), "b": (16,), "r": (2, 16, 5, 5)}
    | dict.fromkeys("ysmz", (2, 16, 5, 5)),
    constants=("w", "b"),
)


def test_a_fused_convolution_is_a_convolution_and_moves_what_leaves_it():
    found = row(CONV)
    out = 2 * 16 * 25
    assert found == {
        "form": FORMS.index("dense"),
        "flops": 2 * out * 72,
        "rows": 50, "columns": 16, "depth": 72, "groups": 1,
        "window_h": 3, "window_w": 3, "stride": 2, "dilation": 1,
        "read_bytes": 4 * (1600 + out),
        "write_bytes": 4 * out,
        "weight_bytes": 4 * (16 * 72 + 16),
        "exp_bytes": 4 * out,
        "largest_read_bytes": 4 * 1600,
        "steps": 1,
        "positions": 25,
    }  # fmt: skip


@pytest.mark.parametrize(("device", "share"), [(HALF, 0.5), (as_int8(DEVICE), 0.25)])
def test_bytes_are_those_of_the_type_that_the_device_holds(device, share):
    plain, held = row(CONV), row(CONV, device=device)
    for name in FEATURES:
        factor = share if name.endswith("_bytes") else 1
        assert held[name] == plain[name] * factor


def test_joining_tensors_is_a_form_of_its_own():
    graph = graph_of(
        [("Concat", ["a", "b"], ["y"], {"axis": 1}), ("Slice", ["y"], ["z"], {})],
        {"a": (1, 2, 3), "b": (1, 3, 3), "y": (1, 5, 3), "z": (1, 5, 3)},
    )
    assert FORMS[int(row(graph, 0)["form"])] == "concat"
    assert FORMS[int(row(graph, 1)["form"])] == "movement"


def test_what_is_read_outside_leaves_the_kernel():
    graph = replace(CONV, outputs=("s", "z"))
    assert row(graph)["write_bytes"] == row(CONV)["write_bytes"] * 2
    # The gate alone reads what it is made of once.
    gate = row(CONV, 1, 2)
    assert (gate["read_bytes"], gate["write_bytes"]) == (3200, 3200)
    assert FORMS[int(gate["form"])] == "elementwise"


def test_what_is_no_elementwise_op_says_what_the_kernel_is():
    graph = graph_of(
        [("Transpose", ["x"], ["y"], {}), ("Gelu", ["y"], ["z"], {})],
        {"x": (4, 6), "y": (6, 4), "z": (6, 4)},
    )
    found = row(graph)
    assert FORMS[int(found["form"])] == "transpose"
    assert (found["flops"], found["exp_bytes"], found["largest_read_bytes"]) == (0, 96, 96)


def test_a_view_is_nothing():
    graph = graph_of([("Reshape", ["x"], ["y"], {})], {"x": (4, 6), "y": (24,)})
    found = row(graph)
    assert found["flops"] == found["read_bytes"] == found["write_bytes"] == 0


def test_stored_integers_stay_as_they_are():
    graph = graph_of(
        [("Gather", ["table", "ids"], ["y"], {})],
        {"table": (100, 8), "ids": (3,), "y": (3, 8)},
        constants=("table", "ids"),
        dtypes={"ids": "int64"},
    )
    assert row(graph)["weight_bytes"] == 3 * 8 * 4 + 3 * 8
    assert row(graph, device=HALF)["weight_bytes"] == 3 * 8 * 2 + 3 * 8
    assert FORMS[int(row(graph)["form"])] == "gather"


def test_steps_of_a_recurrent_layer_are_launched_one_after_the_other():
    graph = graph_of(
        [("LSTM", ["x", "w", "r"], ["y"], {"hidden_size": 5})],
        {"x": (7, 2, 3), "w": (1, 20, 3), "r": (1, 20, 5), "y": (7, 1, 2, 5)},
        constants=("w", "r"),
    )
    found = row(graph)
    assert FORMS[int(found["form"])] == "recurrent"
    assert (found["rows"], found["columns"], found["depth"]) == (2, 20, 8)
    assert (found["steps"], found["flops"]) == (7, graph_work(graph)[0].flops)


def test_attention_is_queries_by_keys_and_scores_by_values():
    graph = graph_of(
        [("Attention", ["q", "k", "v"], ["y"], {})],
        {"q": (2, 3, 5, 8), "k": (2, 3, 7, 8), "v": (2, 3, 7, 4), "y": (2, 3, 5, 4)},
    )
    found = row(graph)
    assert FORMS[int(found["form"])] == "attention"
    assert [found[n] for n in ("rows", "columns", "depth", "groups")] == [5, 7, 12, 6]
    assert graph_work(graph)[0].product.macs == 6 * 5 * 7 * (8 + 4)


def test_what_nothing_is_known_of_is_priced_by_its_bytes():
    node = Node(0, "n", "Mystery", "mine", ("x",), ("y",))
    tensors = {name: Tensor(name, "float32", (4,)) for name in "xy"}
    graph = Graph("g", (node,), tensors, ("x",), ("y",), frozenset(), {"": 20})
    found = row(graph)
    assert FORMS[int(found["form"])] == "other"
    assert (found["read_bytes"], found["write_bytes"], found["flops"]) == (16, 16, 0)


def test_every_op_and_class_has_a_form():
    assert set(PRODUCTS) <= set(FORMS)
    assert _FORMS.keys() == set(OP_CLASSES)
    assert set(_FORMS.values()) | {rule.form for rule in _RULES.values()} <= {"", *FORMS}


def test_products_of_no_known_sizes_keep_their_flop():
    graph = graph_of(
        [("Einsum", ["a", "b", "c"], ["y"], {"equation": "ij,jk,kl->il"})],
        {"a": (2, 3), "b": (3, 4), "c": (4, 5), "y": (2, 5)},
    )
    work = node_work(graph, graph.nodes[0])
    assert (work.form, work.product.columns) == ("matmul", 5)
    assert abs(2 * work.product.macs - work.flops) < 2 * 10


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "passing"),
    [
        ("Tanh", ["x"], {}, 6), ("Gelu", ["x"], {}, 6), ("Sqrt", ["x"], {}, 6),
        ("HardSwish", ["x"], {}, 0), ("Relu", ["x"], {}, 0), ("Pow", ["x", "e"], {}, 6),
        ("Pow", ["x", "two"], {}, 0), ("LRN", ["x"], {"size": 5}, 6),
    ],
)  # fmt: skip
def test_elements_that_pass_functions_like_exp(op, inputs, attributes, passing):
    shapes = {"x": (2, 3), "y": (2, 3), "e": (), "two": ()}
    graph = graph_of([(op, inputs, ["y"], attributes)], shapes, constants=("two",))
    graph = replace(graph, constant_numbers={"two": 2.0})
    assert node_work(graph, graph.nodes[0]).exp_elements == passing


@pytest.mark.parametrize(
    ("mode", "taps"), [("nearest", 1), ("linear", 2), ("bilinear", 2), ("cubic", 4), (None, 1)]
)
def test_resampling_has_the_window_of_each_result(mode, taps):
    graph = graph_of(
        [("Resize", ["x", "", "s"], ["y"], {} if mode is None else {"mode": mode})],
        {"x": (1, 2, 4, 4), "y": (1, 2, 8, 8), "s": (4,)},
        constants=("s",),
    )
    found = row(graph)
    assert FORMS[int(found["form"])] == "resize"
    assert (found["window_h"], found["window_w"], found["flops"]) == (taps, taps, 0)


@pytest.mark.parametrize(
    ("window", "strides", "dilations", "expected"),
    [
        ((3, 5), (1, 2), (1, 1), (3, 5, 1, 1)), ((1, 7), (2, 1), (3, 2), (1, 7, 2, 3)),
        ((5,), (2,), (3,), (1, 5, 2, 3)), ((2, 3, 4), (3, 1, 1), (1, 1, 1), (3, 4, 3, 1)),
    ],
)  # fmt: skip
def test_a_window_is_told_by_its_last_two_sides_and_a_stride_by_its_first(
    window, strides, dilations, expected
):
    spatial = tuple(30 + k for k in range(len(window)))
    out = tuple(
        (size - dilation * (side - 1) - 1) // stride + 1
        for size, side, stride, dilation in zip(spatial, window, strides, dilations, strict=True)
    )
    graph = graph_of(
        [("Conv", ["x", "w"], ["y"], {"strides": strides, "dilations": dilations})],
        {"x": (2, 4, *spatial), "w": (8, 4, *window), "y": (2, 8, *out)},
        constants=("w",),
    )
    found = row(graph)
    names = ("window_h", "window_w", "stride", "dilation")
    assert tuple(found[name] for name in names) == expected
    assert found["depth"] == 4 * np.prod(window)
    assert found["positions"] == np.prod(out)


def work(form, flops=0, moved=0, **sizes):
    """A work of a form; of a product of (rows, columns, depth) where these are given."""
    product = Product(form, sizes["rows"], 4, 2, 1, operand_elements=6) if sizes else None
    return Work(flops, moved, 0, 0, "other", "float32", True, form=form, product=product)


@pytest.mark.parametrize(
    ("works", "main"),
    [
        # Most FLOP of products; what is no elementwise op; most FLOP; most bytes; the first.
        ([work("matmul", rows=3), work("dense", rows=5), work("softmax", 999)], 1),
        ([work("matmul", rows=5), work("dense", rows=5)], 0),
        ([work("elementwise", 999, 999), work("softmax", 1, 1)], 1),
        ([work("softmax", 5, 999), work("pooling", 6, 1)], 1),
        ([work("softmax", 5, 9), work("pooling", 5, 10), work("gather", 5, 10)], 1),
        ([work("recurrent", 50, rows=1), work("matmul", rows=3)], 0),
        ([work("recurrent", 40, rows=1), work("matmul", rows=3)], 1),
        ([work("elementwise", 1, 5), work("elementwise", 2, 1)], 1),
    ],
)
def test_a_kernel_is_what_its_heaviest_member_is(works, main):
    found = features(Kernel(tuple(works)), DEVICE)
    alone = features(Kernel((works[main],)), DEVICE)
    for name in ("form", "rows", "columns", "depth", "groups", "steps"):
        assert found[COLUMN[name]] == alone[COLUMN[name]]
    assert features(Kernel(()), DEVICE)[COLUMN["form"]] == FORMS.index("other")
    assert features(Kernel(()), DEVICE)[COLUMN["rows"] :].tolist() == [1] * 8 + [0] * 5 + [1, 1]


def test_a_product_of_nothing_has_no_size_of_nothing():
    shapes = {"a": (0, 4), "b": (4, 3), "y": (0, 3)}
    found = row(graph_of([("MatMul", ["a", "b"], ["y"], {})], shapes, constants=("b",)))
    assert found["flops"] == 0
    assert all(found[name] >= 1 for name in ("rows", "columns", "depth", "groups"))


def test_products_by_packed_weights_are_told_without_their_unpacking():
    node = Node(0, "n", "MatMulFpQ4", "com.microsoft", ("a", "b"), ("y",))
    tensors = {n: Tensor(n, "float32", s) for n, s in {"a": (1, 64), "y": (1, 8)}.items()}
    tensors["b"] = Tensor("b", "uint8", (256,))
    graph = Graph("g", (node,), tensors, ("a",), ("y",), frozenset({"b"}), {"": 20})
    product = graph_work(graph)[0].product
    assert (product.rows, product.columns, product.depth) == (1, 8, 64)


@pytest.mark.parametrize("name", ["squeezenet", "bert_small"])
def test_bytes_of_nodes_alone_are_those_of_their_work(name):
    graph = load_model(f"zoo:{name}").graph
    for work in graph_work(graph):
        found = features(Kernel((work,)), DEVICE)
        moved = sum(found[COLUMN[n]] for n in ("read_bytes", "write_bytes", "weight_bytes"))
        assert moved == work.read_bytes + work.write_bytes + work.weight_bytes
        assert np.isfinite(found).all()
        estimate = cost_model("roofline").estimate(DEVICE, Kernel((work,)))
        assert estimate.memory_s == moved / (DEVICE.bytes_per_s * DEVICE.memory_efficiency)


def test_a_kernel_of_several_products_has_the_flop_of_all():
    two = [
        Work(0, 8, 8, 8, "matmul", "float32", True, form="matmul", product=sizes)
        for sizes in (row_product(3), row_product(5))
    ]
    found = features(Kernel(tuple(two)), DEVICE)
    assert found[COLUMN["flops"]] == 2 * (3 * 4 * 2 + 5 * 4 * 2)
    assert found[COLUMN["rows"]] == 5


def row_product(rows):
    return Product("matmul", rows, 4, 2, 1, operand_elements=rows * 2)
