"""Sizes of products, against loops, equivalent convolutions and the FLOPs of whole models."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.graph.loading import load_model
from hetsim.graph.work import _PRODUCTS, _RULES, node_work
from hetsim.graph.work.rule import FORMS
from one_node import MS, small, work


@given(small, small, small, st.integers(1, 3), st.integers(1, 3))
def test_a_convolution_is_one_product_a_group(batch, deep, wide, group, tap):
    done = product(
        "Conv",
        [(batch, deep * group, 9, 9), (wide * group, deep, tap, tap)],
        (batch, wide * group, 10 - tap, 10 - tap),
        group=group,
    )
    assert (done.rows, done.columns) == (batch * (10 - tap) ** 2, wide)
    assert (done.depth, done.groups) == (deep * tap * tap, group)
    assert (done.window, done.strides, done.dilations) == ((tap, tap), (1, 1), (1, 1))


@pytest.mark.parametrize(
    ("channels", "weight", "group", "form"),
    [
        (8, (16, 8, 3, 3), 1, "dense"),
        (8, (16, 8, 1, 1), 1, "pointwise"),
        (8, (8, 1, 3, 3), 8, "depthwise"),
        (8, (16, 1, 3, 3), 8, "depthwise"),
        (8, (16, 4, 3, 3), 2, "grouped"),
        (8, (16, 4, 1, 1), 2, "grouped"),
    ],
)
def test_forms_of_convolutions(channels, weight, group, form):
    done = product("Conv", [(1, channels, 5, 5), weight], (1, weight[0], 5, 5), group=group)
    assert done.form == form
    assert form in FORMS


@given(small, small, small, st.integers(1, 3))
def test_a_transposed_convolution_is_the_product_before_the_overlap(batch, deep, wide, group):
    done = product(
        "ConvTranspose",
        [(batch, deep * group, 4, 4), (deep * group, wide, 2, 2)],
        (batch, wide * group, 5, 5),
        group=group,
    )
    assert (done.form, done.groups) == ("transposed", group)
    assert (done.rows, done.columns, done.depth) == (batch * 16, wide * 4, deep)


def product(op, inputs, output, *, weights=(1,), **options):
    """The product of one node; the inputs at `weights` are constants, None is absent."""
    return work(op, inputs, [output], constants=weights, **options).product


operands = st.sampled_from([
    ((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)),
    ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)),
    ((6, 5, 2, 3), (5, 3, 4)), ((6, 1, 2, 3), (1, 5, 3, 4)), ((1, 2, 3), (5, 3, 4)),
])  # fmt: skip


@given(operands)
def test_a_matrix_product_has_the_terms_of_its_definition(shapes):
    a, b = shapes
    out = np.matmul(np.zeros(a), np.zeros(b)).shape
    done = product("MatMul", [a, b], out)
    assert done.macs == math.prod(out) * a[-1]
    assert done.depth == a[-1]
    assert done.form == "matmul"
    assert product("MatMul", [a, b], out, weights=()).form == "batched"


def test_matrices_that_share_an_operand_are_one_product():
    done = product("MatMul", [(7, 5, 3), (3, 4)], (7, 5, 4))
    assert (done.rows, done.columns, done.depth, done.groups) == (35, 4, 3, 1)
    done = product("MatMul", [(5, 3), (7, 3, 4)], (7, 5, 4), weights=(0,))
    assert (done.rows, done.columns, done.depth, done.groups) == (28, 5, 3, 1)
    done = product("MatMul", [(7, 5, 3), (7, 3, 4)], (7, 5, 4), weights=())
    assert (done.rows, done.columns, done.depth, done.groups) == (5, 4, 3, 7)


def test_turned_operands():
    done = product("Gemm", [(3, 2), (4, 3), (4,)], (2, 4), transA=1, transB=1)
    assert (done.rows, done.columns, done.depth) == (2, 4, 3)
    done = product("FusedMatMul", [(6, 3, 2), (6, 4, 3)], (6, 2, 4), domain=MS, transA=1, transB=1)
    assert (done.rows, done.columns, done.depth, done.groups) == (2, 4, 3, 6)


def test_quantized_operands_stand_at_other_places():
    scale = ()
    done = product(
        "QLinearConv",
        [(1, 2, 5, 5), scale, scale, (4, 2, 3, 3), scale, scale, scale, scale],
        (1, 4, 3, 3),
        weights=(3,),
    )
    assert (done.form, done.rows, done.columns, done.depth) == ("dense", 9, 4, 18)
    shapes = [(2, 3), scale, scale, (3, 4), scale, scale, scale, scale]
    done = product("QLinearMatMul", shapes, (2, 4), weights=(3,))
    assert (done.form, done.rows, done.columns, done.depth) == ("matmul", 2, 4, 3)


def test_a_product_of_unknown_sizes_says_so_and_has_its_flop():
    """Of three operands there is no one product; of two there is."""
    for equation, shapes in (
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ij,jk->ik", [(2, 3), (3, 5)]),
    ):
        done = work("Einsum", shapes, [(2, 5)], equation=equation)
        assert done.product is not None
        assert bool(done.unsized) == (len(shapes) == 3)
        elements = 2 * 5
        assert abs(2 * done.product.macs - done.flops) <= 2 * elements


def test_every_product_without_sizes_is_listed():
    """Whoever adds a rule for a product says its sizes, or enters it here."""
    products = {key: rule for key, rule in _RULES.items() if rule.op_class in _PRODUCTS}
    without = [key for key, rule in products.items() if rule.product is None]
    assert {key.rpartition(":")[2] for key in without} == {
        "LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor",
        "QLinearConvTranspose", "AttnLSTM", "CDist", "DynamicQuantizeLSTM",
        "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", "MatMulBnb4",
        "MatMulFpQ4", "MatMulNBitsMlp", "MatMulNBitsQkv", "MoE", "QMoE", "QOrderedMatMul",
        "WordConvEmbedding",
    }  # fmt: skip


def test_what_is_no_product_has_none():
    assert product("Relu", [(2, 3)], (2, 3), weights=()) is None
    assert product("Conv", [(1, 2, 5, 5), (4, 2, 3, 3)], (1, 4, 3, 3), domain="mine") is None


@pytest.mark.parametrize("name", ["mobilenet_v2", "shufflenet", "bert_small"])
def test_products_are_the_flops_of_their_nodes(name):
    graph = load_model(f"zoo:{name}").graph
    found = 0
    for node in graph.nodes:
        whole = node_work(graph, node)
        done = whole.product
        if done is None or done.form in ("pooling", "resize"):
            assert whole.op_class not in ("conv", "matmul")
            continue
        found += 1
        biases = sum(len(graph.tensors[r].static_shape) == 1 for r in node.reads)
        out = graph.tensors[node.writes[0]].elements
        assert 2 * done.macs <= whole.flops <= 2 * done.macs + (biases + 1) * out
    assert found > 20
