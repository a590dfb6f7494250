"""FLOP of whole models, against a count from the op definitions and published figures."""

from __future__ import annotations

import math
import warnings

import numpy as np
import onnx
import pytest

from hetsim.errors import HetsimError, NoKernel, UnboundDimension
from hetsim.graph.loading import load_model, model_of
from hetsim.graph.work import graph_work, op_key, ruled_ops, uncosted
from hetsim.graph.zoo import models as zoo
from sweeps import sweep

EACH_TIME = ("alexnet", "bert_small", "mobilenet_v2", "shufflenet", "squeezenet")
"""Convolutions in groups, depthwise and plain, and attention."""

# The independent count ------------------------------------------------------------------------


def attribute(node, name, default):
    found = [a for a in node.attribute if a.name == name]
    return onnx.helper.get_attribute_value(found[0]) if found else default


def padding(node, size, kernel, stride, dilation):
    """Pads of one spatial axis set as (all begins, all ends), from auto_pad or pads."""
    rank = len(size)
    auto = attribute(node, "auto_pad", b"NOTSET")
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        return [
            max(0, (-(-s // t) - 1) * t + r - s)
            for s, t, r in zip(size, stride, reach, strict=True)
        ]
    pads = [0] * 2 * rank if auto == b"VALID" else attribute(node, "pads", [0] * 2 * rank)
    return [a + b for a, b in zip(pads[:rank], pads[rank:], strict=True)]


def conv_flops(node, x, w, *bias):
    """Positions from pads, strides and dilations; channels a filter from x and the group."""
    batch, channels, *size = x
    filters, _, *kernel = w
    group = attribute(node, "group", 1)
    stride = attribute(node, "strides", [1] * len(size))
    dilation = attribute(node, "dilations", [1] * len(size))
    pad = padding(node, size, kernel, stride, dilation)
    positions = math.prod(
        (s + p - (k - 1) * d - 1) // t + 1
        for s, p, k, d, t in zip(size, pad, kernel, dilation, stride, strict=True)
    )
    outputs = batch * filters * positions
    return outputs * (2 * (channels // group) * math.prod(kernel) + len(bias))


def gemm_flops(node, a, b, *bias):
    m, k = reversed(a) if attribute(node, "transA", 0) else a
    n = b[0] if attribute(node, "transB", 0) else b[1]
    assert attribute(node, "alpha", 1.0) == attribute(node, "beta", 1.0) == 1.0
    return m * n * (2 * k + len(bias))


def matmul_flops(node, a, b):
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    return 2 * math.prod(batch) * a[-2] * a[-1] * b[-1]


COUNTS = {"Conv": conv_flops, "Gemm": gemm_flops, "MatMul": matmul_flops}


def independent_flops(proto):
    """FLOP of every Conv, Gemm and MatMul, by the name of its first output."""
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True).graph
    shapes = {
        value.name: [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*inferred.input, *inferred.value_info, *inferred.output)
    }
    shapes |= {tensor.name: list(tensor.dims) for tensor in inferred.initializer}
    return {
        node.output[0]: COUNTS[node.op_type](node, *(shapes[name] for name in node.input if name))
        for node in inferred.node
        if node.op_type in COUNTS
    }


# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("canonical", ["none", "basic"])
@sweep("name", quick=EACH_TIME, full=zoo.names())
def test_contractions_of_the_zoo(name, canonical):
    model = load_model(f"zoo:{name}", canonical=canonical)
    counted = {
        node.outputs[0]: work.flops
        for node, work in zip(model.graph.nodes, graph_work(model.graph), strict=True)
        if node.op_type in COUNTS
    }
    expected = independent_flops(model.proto)
    assert len(expected) > 5
    assert counted == expected
    assert uncosted(model.graph) == ()


@sweep("name", quick=EACH_TIME, full=zoo.names())
def test_no_zoo_model_has_an_uncosted_op_when_fused(name):
    fused = load_model(f"zoo:{name}", canonical="extended").graph
    assert uncosted(fused) == ()
    # Fusing moves arithmetic between nodes and saves none of the products.
    plain = load_model(f"zoo:{name}", canonical="basic").graph
    products = [
        sum(w.flops for w in graph_work(g) if w.op_class in ("conv", "matmul", "attention"))
        for g in (plain, fused)
    ]
    assert products[0] <= products[1] <= 1.05 * products[0]


@pytest.mark.parametrize(
    ("name", "gmacs"),
    [
        # torchvision's published GMACs; those of its classifiers taken off where there is none.
        ("vgg19", 19.63),
        ("resnet18", 1.81),
        ("resnet50", 4.09),
        ("mobilenet_v2", 0.30),
    ],
)
def test_published_counts(name, gmacs):
    graph = load_model(f"zoo:{name}").graph
    total = sum(w.flops for w in graph_work(graph) if w.op_class in ("conv", "matmul"))
    assert total / 2e9 == pytest.approx(gmacs, rel=0.01)


def test_weights_of_a_network_are_read_once():
    model = load_model("zoo:vgg19")
    entry = next(e for e in zoo.describe() if e.name == "vgg19")
    assert sum(w.weight_bytes for w in graph_work(model.graph)) == 4 * entry.parameters


# The standard's own test cases -----------------------------------------------------------------


@pytest.mark.sweep
def test_standard_test_cases_are_costed():
    """Every op with a rule is costed on the single-node cases that the standard gives for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    costed, without_kernel = set(), set()
    for case in cases:
        if len(case.model.graph.node) != 1:
            continue
        try:
            nodes, works = costs_of(case)
        except NoKernel:
            without_kernel.add(case.model.graph.node[0].op_type)
            continue
        except HetsimError:
            continue
        assert all(work.flops >= 0 for work in works)
        costed.update(op_key(n) for n, work in zip(nodes, works, strict=True) if work.rule)
    # A constant is no node of the graph, and random ops and a few old ones have no case.
    standard = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    sequences = {op for op in standard if "Sequence" in op or op.startswith("Optional")}
    sequences.add("TfIdfVectorizer")
    assert (standard & set(ruled_ops())) - costed - sequences - without_kernel <= {
        "Constant", "GlobalLpPool", "MaxRoiPool", "Multinomial",
        "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
    }  # fmt: skip
    assert len(without_kernel - costed) < 10


def costs_of(case):
    """Nodes of a case and their work; where sizes depend on data, with those of its inputs."""
    try:
        graph = model_of(case.model, canonical="none").graph
        return graph.nodes, graph_work(graph)
    except UnboundDimension:
        names = [value.name for value in case.model.graph.input]
        inputs = dict(zip(names, map(np.asarray, case.data_sets[0][0]), strict=True))
        graph = model_of(case.model, canonical="none", inputs=inputs).graph
        return graph.nodes, graph_work(graph)
