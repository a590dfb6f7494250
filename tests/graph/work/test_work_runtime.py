"""FLOP of ONNX Runtime's own ops and of ``ai.onnx.ml``, against walks, loops and the plain ops."""

from __future__ import annotations

import itertools
import math
import random

import onnx
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.graph.loading import load_model, model_of
from hetsim.graph.work import graph_work, uncosted
from hetsim.graph.zoo import models as zoo
from one_node import MS, flops, moved, small, work
from onnx_builders import make_model, op, value
from sweeps import sweep

ML = "ai.onnx.ml"
BLOCKED = "com.microsoft.nchwc"


# Models that were optimised for a CPU before ---------------------------------------------------


@sweep("name", quick=["squeezenet"], full=["squeezenet", "mobilenet_v2", "bert_small"])
def test_a_model_optimised_at_all_levels_costs_what_it_did(name, tmp_path):
    path = tmp_path / "whole.onnx"
    onnx.save(onnx.load(zoo.materialise(name)), path)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(tmp_path / "all.onnx")
    options.log_severity_level = 4
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    graph = load_model(tmp_path / "all.onnx").graph
    assert {node.domain for node in graph.nodes} - {""}
    assert uncosted(graph) == ()

    def products(it):
        kinds = ("conv", "matmul", "attention")
        return sum(done.flops for done in graph_work(it) if done.op_class in kinds)

    plain = products(load_model(path).graph)
    # Channels are padded to whole blocks, and what is fused into a product counts with it.
    assert plain <= products(graph) <= 1.1 * plain


def test_blocked_ops_count_what_the_plain_ones_do():
    x, w, bias, out = (1, 16, 8, 8), (32, 16, 3, 3), (32,), (1, 32, 6, 6)
    plain = flops("FusedConv", [x, w, bias, out], [out], domain=MS, activation="Relu")
    assert flops("Conv", [x, w, bias, out], [out], domain=BLOCKED, activation="Relu") == plain
    for pool in ("MaxPool", "AveragePool"):
        options = {"kernel_shape": (2, 2)}
        half = (1, 16, 4, 4)
        assert flops(pool, [x], [half], domain=BLOCKED, **options) == flops(
            pool, [x], [half], **options
        )
    assert moved("ReorderInput", [x], [x], domain=BLOCKED) == (4 * 1024, 0, 4 * 1024)


# Recurrent layers ------------------------------------------------------------------------------


@given(small, small, small, small, st.integers(1, 2))
def test_a_quantised_lstm_has_the_products_of_an_lstm(steps, batch, width, hidden, directions):
    x, out = (steps, batch, width), (steps, directions, batch, hidden)
    plain = flops(
        "LSTM", [x, (directions, 4 * hidden, width), (directions, 4 * hidden, hidden)], [out]
    )
    w, r = (directions, width, 4 * hidden), (directions, hidden, 4 * hidden)
    scale, zero = (directions,), ((directions,), "int8")
    inputs = [x, (w, "int8"), (r, "int8"), *[None] * 5, scale, zero, scale, zero]
    done = work("DynamicQuantizeLSTM", inputs, [out], domain=MS)
    assert done.rule
    assert (done.op_class, done.dtype) == ("recurrent", "int8")
    cells = directions * steps * batch
    # Input and state are quantised, and both products scaled back.
    assert done.flops - plain == cells * (6 * (width + hidden) + 4 * 4 * hidden)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_lengths_that_come_with_the_data_may_be_short(kind, gates):
    x, w, r = (7, 2, 3), (1, gates * 5, 3), (1, gates * 5, 5)
    lengths = ((2,), "int32")
    whole = work(kind, [x, w, r], [(7, 1, 2, 5)])
    assert whole.least is None
    free = work(kind, [x, w, r, None, lengths], [(7, 1, 2, 5)])
    assert (free.flops, free.least.flops) == (whole.flops, 0)
    fixed = work(kind, [x, w, r, None, lengths], [(7, 1, 2, 5)], constants=(4,), values={4: (3, 7)})
    assert fixed.flops * 14 == whole.flops * 10


# Attention -------------------------------------------------------------------------------------


@given(small, small, small, st.integers(1, 6), st.integers(0, 3))
def test_what_a_causal_mask_hides_may_be_left_out(batch, heads, width, rows, past):
    q, later = (batch, heads, rows, width), (batch, heads, past, width)
    inputs = [q, q, q, None, later, later] if past else [q, q, q]
    whole = work("Attention", inputs, [q], is_causal=1)
    seen = sum(
        1
        for row, column in itertools.product(range(rows), range(rows + past))
        if column <= row + past
    )
    each, rest = divmod(whole.flops, batch * heads * rows * (rows + past))
    assert rest == 0
    assert (whole.least or whole).flops == each * batch * heads * seen
    assert work("Attention", inputs, [q]).least is None


# Trees and other models of ai.onnx.ml ----------------------------------------------------------


def grown(rng, tree, lists):
    """A random tree, depth first, appended to `lists`; returns its depths of leaves."""
    next_id = itertools.count()

    def grow(depth):
        node = next(next_id)
        place = len(lists["nodes_nodeids"])
        for name in lists:
            lists[name].append(0)
        lists["nodes_treeids"][place] = tree
        lists["nodes_nodeids"][place] = node
        if depth < 2 or (depth < 6 and rng.random() < 0.5):
            lists["nodes_modes"][place] = "BRANCH_LEQ"
            (yes, above), (no, below) = grow(depth + 1), grow(depth + 1)
            lists["nodes_truenodeids"][place], lists["nodes_falsenodeids"][place] = yes, no
            return node, [*above, *below]
        lists["nodes_modes"][place] = "LEAF"
        return node, [depth]

    return grow(0)[1]


TREE_LISTS = (
    "nodes_treeids", "nodes_nodeids", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids",
)  # fmt: skip


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 8))
def test_trees_are_walked_from_root_to_leaf(seed, trees, samples):
    rng = random.Random(seed)
    lists = {name: [] for name in TREE_LISTS}
    depths = [grown(rng, tree, lists) for tree in range(trees)]
    order = list(range(len(lists["nodes_modes"])))
    rng.shuffle(order)
    attributes = {name: tuple(entries[i] for i in order) for name, entries in lists.items()}
    done = work("TreeEnsembleRegressor", [(samples, 4)], [(samples, 1)], domain=ML, **attributes)
    assert done.rule
    assert done.flops == samples * (2 * sum(map(max, depths)) + trees)
    least = samples * (2 * sum(map(min, depths)) + trees)
    assert (done.least or done).flops == least
    assert done.weight_bytes <= samples * 16 * sum(map(min, depths))


def test_nodes_that_point_to_one_another_end():
    """Sixty levels of two nodes, each of which points to both of the next: 2**60 ways."""
    levels = 60
    next_pair = [2 * (k // 2 + 1) for k in range(2 * levels)]
    done = work(
        "TreeEnsembleRegressor", [(1, 4)], [(1, 1)], domain=ML,
        nodes_treeids=(0,) * (2 * levels + 2), nodes_nodeids=tuple(range(2 * levels + 2)),
        nodes_modes=("BRANCH_LEQ",) * (2 * levels) + ("LEAF",) * 2,
        nodes_truenodeids=(*next_pair, 0, 0),
        nodes_falsenodeids=(*(k + 1 for k in next_pair), 0, 0),
    )  # fmt: skip
    assert done.rule


def test_trees_of_operator_set_5():
    """One tree: the root is a branch; its true side a leaf, its false side a branch of leaves."""
    done = work(
        "TreeEnsemble",
        [(10, 4)],
        [(10, 1)],
        domain=ML,
        tree_roots=(0,),
        nodes_truenodeids=(0, 1),
        nodes_trueleafs=(1, 1),
        nodes_falsenodeids=(1, 2),
        nodes_falseleafs=(0, 1),
    )
    assert done.flops == 10 * (2 * 2 + 1)
    assert done.least.flops == 10 * (2 * 1 + 1)


def test_trees_hold_their_nodes_as_weights():
    nodes = op("TreeEnsembleRegressor", "x", "y", domain=ML, n_targets=1,
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0],
        target_weights=[1.0, 2.0],
    )  # fmt: skip
    proto = make_model(
        [nodes], [value("x", [5, 3])], [value("y", [5, 1])], domains={ML: 3}, opset=17
    )
    graph = model_of(proto).graph
    held = {tensor.name.rpartition("/")[2]: tensor.nbytes for tensor in graph.nodes[0].held}
    assert held["nodes_values"] == 12
    assert held["target_weights"] == 8
    (done,) = graph_work(graph)
    assert (done.flops, done.rule, done.least) == (5 * (2 + 1), True, None)


def test_linear_models_are_products():
    coefficients = tuple(float(i) for i in range(3 * 4))
    scores = (7, 3)
    product = flops("MatMul", [(7, 4), (4, 3)], [scores]) + flops("Add", [scores] * 2, [scores])
    regressor = flops("LinearRegressor", [(7, 4)], [scores], domain=ML, coefficients=coefficients)
    assert regressor == product
    labels = ((7,), "int64")
    classifier = {"domain": ML, "coefficients": coefficients, "post_transform": "SOFTMAX"}
    done = flops("LinearClassifier", [(7, 4)], [labels, scores], **classifier)
    assert done == product + flops("Softmax", [scores], [scores])


def test_support_vectors_meet_every_sample():
    vectors, width, samples = 5, 4, 3
    options = {
        "support_vectors": (0.5,) * (vectors * width), "coefficients": (1.0,) * vectors,
    }  # fmt: skip
    linear = flops("SVMRegressor", [(samples, width)], [(samples, 1)], domain=ML, **options)
    assert linear == samples * (2 * vectors * width + 2 * vectors)
    kernel = flops(
        "SVMRegressor", [(samples, width)], [(samples, 1)], domain=ML, kernel_type="RBF", **options
    )
    assert kernel - linear == samples * (vectors * width + 17 * vectors)


# What is simpler than it looks, and what data decide -------------------------------------------


def test_powers_that_are_something_simpler():
    square = make_model(
        [op("Pow", "x two", "y")],
        [value("x", [8])],
        [value("y", [8])],
        {"two": onnx.numpy_helper.to_array(onnx.helper.make_tensor("t", 1, [], [2.0]))},
    )
    (done,) = graph_work(model_of(square, canonical="none").graph)
    assert (done.flops, done.least) == (flops("Mul", [(8,), (8,)], [(8,)]), None)
    free = work("Pow", [(8,), ()], [(8,)])
    assert free.flops > 10 * 8
    assert free.least.flops == 8


def test_regions_and_boxes_are_between_their_least_and_their_most():
    maps, boxes, out = (1, 2, 8, 8), (3, 4), (3, 2, 2, 2)
    regions = [maps, boxes, ((3,), "int64")]
    adaptive = work("RoiAlign", regions, [out])
    # A region as large as the map has 4 x 4 samples an element, one of no size has one.
    assert adaptive.flops == 16 * flops("RoiAlign", regions, [out], sampling_ratio=1)
    assert adaptive.least.flops == flops("RoiAlign", regions, [out], sampling_ratio=1)
    scores = (1, 3, 50)
    kept = work("NonMaxSuppression", [(1, 50, 4), scores], [((9, 3), "int64")])
    assert kept.least.flops == math.prod(scores) < kept.flops


def test_tables_in_blocks_are_read_by_the_rows_that_are_named():
    table, scales = ((100, 64), "uint8"), (100, 4)
    read = moved(
        "GatherBlockQuantized", [table, ((3,), "int64"), scales], [(3, 64)], domain=MS, bits=8,
        constants=(0, 2),
    )  # fmt: skip
    assert read == (24, 3 * 64 + 3 * 16, 3 * 64 * 4)


def test_packed_tables_are_read_by_the_rows_that_are_named():
    inputs = [((100, 36), "uint8"), ((3,), "int64")]
    read = moved("GatherPacked", inputs, [(3, 64)], domain=MS, K=64, constants=(0,))
    assert read == (24, 3 * 36, 3 * 64 * 4)


def test_a_router_scores_each_token_and_expert():
    plain = work("MoEGroupRouter", [(6, 10), (10,)], [(6, 10)], domain=MS)
    projected = work("MoEGroupRouter", [(6, 256), (10,), (10, 256)], [None, (6, 10)], domain=MS)
    assert plain.flops % 60 == 0
    assert projected.flops == plain.flops + 2 * 256 * 60


def test_a_mixture_reads_the_experts_that_it_asks():
    tokens, hidden, inner, experts = (6, 8), 8, 16, 10
    inputs = [tokens, (6, experts), (experts, inner, hidden), None, (experts, hidden, inner)]
    done = work("MoE", inputs, [tokens], domain=MS, k=2, constants=(2, 4))
    products = 6 * 2 * 2 * (2 * inner * hidden)
    assert products <= done.flops <= 2 * products
    assert done.weight_bytes == 2 * 4 * (2 * inner * hidden)


def test_transforms_whose_axis_comes_with_the_data_are_between_those_of_all():
    def of(axis):
        fixed = {"constants": (2,), "values": {2: (axis,)}}
        return work("DFT", [(1, 8, 32, 1), None, ((), "int64")], [(1, 8, 32, 2)], **fixed)

    rows, columns = of(1), of(2)
    assert rows.flops == 32 * 5 * 8 * 3
    assert columns.flops == 8 * 5 * 32 * 5
    # Of real numbers half of it will do.
    assert (rows.least.flops, columns.least.flops) == (rows.flops // 2, columns.flops // 2)
    free = work("DFT", [(1, 8, 32, 1), None, ((), "int64")], [(1, 8, 32, 2)])
    batch = of(0).flops
    assert free.flops == max(rows.flops, columns.flops, batch)
    assert free.least.flops == min(rows.flops, columns.flops, batch) // 2
    frames = [(1, 128), ((), "int64"), None, ((), "int64")]
    short = work("STFT", frames, [(1, 15, 9, 2)])
    fixed = work("STFT", frames, [(1, 15, 9, 2)], constants=(3,), values={3: (16,)})
    assert short.flops == fixed.flops == 15 * 5 * 16 * 4
