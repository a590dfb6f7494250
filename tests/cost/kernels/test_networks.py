"""Tables of networks against prices of their kernels one by one, and against larger batches."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import onnx
import onnx.parser
import pytest

from figure_builders import kernel_figures
from hetsim.cost.kernels.formula import COLUMN, FORMS, streamed_share
from hetsim.cost.kernels.networks import kernels_seconds, network_table
from hetsim.graph.loading import load_model, model_of
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.spec import Platform, SupportRule
from hetsim.hardware.variants import executing
from hetsim.problem.problem import Problem
from kernel_graphs import chain, graph_of
from sweeps import sweep

FIGURES = {
    "float32": kernel_figures("float32"),
    "float16": kernel_figures("float16", rate_tflops=5.0),
    "int8": kernel_figures("int8", rate_tflops=9.0, launch_us=2.0),
}
DEVICE = replace(
    load_platform("laptop").devices["npu"],
    kernels=FIGURES,
    execution_dtype={},
    support=SupportRule(),
    patterns=(),
)
ITEM_BYTES = {"float32": 4, "float16": 2, "int8": 1}
PRECISIONS = ("float32", "float16")
IN_INTEGERS = ("squeezenet", "densenet121", "mobilenet_v2", "vgg19")


def priced(model, spec):
    """The seconds of all kernels of a model in a problem with that device alone."""
    platform = Platform("one", {"npu": spec}, (), "npu", "one", "0" * 64)
    problem = Problem.of(model, platform, cost="fitted")
    return math.fsum(took_s for _, took_s in problem.kernels(0, range(problem.n)))


def predicted(table, precision):
    """The seconds of its kernels by the formula."""
    values, item_bytes = FIGURES[precision].values, ITEM_BYTES[precision]
    streamed = streamed_share(
        FIGURES[precision].value("weights_on_chip_mib"), table.weight_bytes(item_bytes)
    )
    seconds = kernels_seconds(values, table.at(1, item_bytes), streamed)
    return math.fsum(seconds * table.counts)


@pytest.mark.group("machine_code")
@sweep(
    "name, precision",
    quick=[("squeezenet", "float16"), ("squeezenet", "int8")],
    full=[*product(zoo.names(), PRECISIONS), *product(IN_INTEGERS, ["int8"])],
)
def test_a_table_is_the_sum_of_the_prices(name, precision):
    model = load_model(f"zoo:{name}")
    spec = DEVICE if precision == "float32" else executing(DEVICE, precision, "npu")
    if precision == "int8":
        spec = replace(spec, quantized=spec.quantized | {"Dropout"})
    total = predicted(network_table(model.graph), precision)
    assert total == pytest.approx(priced(model, spec), rel=1e-9)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_kernels_of_a_larger_batch_are_those_of_one_made_larger(name):
    path = zoo.materialise(name)
    proto = onnx.load(path)
    dims = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    for one in (*proto.graph.input, *proto.graph.output):
        one.type.tensor_type.shape.dim[0].dim_value = 4 * dims[0]
    del proto.graph.value_info[:]
    table = network_table(load_model(path).graph)
    larger = network_table(model_of(proto).graph)
    order = np.lexsort(table.at(4, 2).T), np.lexsort(larger.at(1, 2).T)
    assert np.allclose(table.at(4, 2)[order[0]], larger.at(1, 2)[order[1]])
    assert np.array_equal(table.counts[order[0]], larger.counts[order[1]])
    assert table.io_bytes(4, 2) == larger.io_bytes(1, 2)


def test_products_of_activations_have_more_groups_and_others_more_rows():
    table = network_table(load_model("zoo:bert_small").graph)
    one, eight = table.at(1, 4), table.at(8, 4)
    batched = one[:, COLUMN["form"]] == FORMS.index("batched")
    by_weights = one[:, COLUMN["form"]] == FORMS.index("matmul")
    for rows, column in ((batched, "groups"), (by_weights, "rows")):
        assert rows.any()
        assert np.array_equal(eight[rows, COLUMN[column]], 8 * one[rows, COLUMN[column]])
    assert np.array_equal(eight[:, COLUMN["flops"]], 8 * one[:, COLUMN["flops"]])
    assert np.array_equal(eight[:, COLUMN["weight_bytes"]], one[:, COLUMN["weight_bytes"]])


LOOP = """<ir_version: 8, opset_import: ["": 17]>
    repeated (float[4, 8] x, bool c) => (float[4, 8] y)
    <int64 n = {5}, bool go = {1}, int64 two = {2}>
    { z = Loop(n, go, x) <
        body = b (int64 i, bool keep, float[4, 8] s) => (bool more, float[4, 8] t)
            { more = Identity(keep) u = Exp(s)
              t = Loop(two, keep, u) <
                body = d (int64 j, bool on, float[4, 8] p) => (bool again, float[4, 8] q)
                    { again = Identity(on) q = Softmax(p) }> }>
      y = If(c) <
        then_branch = e () => (float[4, 8] f) { f = Relu(z) },
        else_branch = g () => (float[4, 8] h) { k = ReduceSum <keepdims = 1> (z) h = Sub(z, k) }> }
"""


def test_what_is_inside_runs_as_often_as_its_turns_multiply():
    """Of a choice the way with most FLOP and bytes counts, of a loop all turns."""
    graph = model_of(onnx.parser.parse_model(LOOP), canonical="none").graph
    table = network_table(graph)
    found = {}
    for row, count in zip(table.at(1, 4), table.counts, strict=True):
        moved = row[COLUMN["read_bytes"]] + row[COLUMN["write_bytes"]]
        if moved >= 4 * 32:
            found[FORMS[int(row[COLUMN["form"]])], bool(row[COLUMN["exp_bytes"]])] = count
    # Exp five times, Softmax ten; behind them the sum and the difference, which read most.
    assert found == {
        ("elementwise", True): 5, ("softmax", False): 10, ("reduction", False): 1,
        ("elementwise", False): 1,
    }  # fmt: skip


def test_bytes_of_weights_and_ends_are_of_the_types_that_they_are_held_in():
    table = network_table(chain("Conv", "Relu", "Softmax"))
    weights = table.at(3, 2, 8)[:, COLUMN["weight_bytes"]].sum()
    assert weights == table.weight_bytes(8) == 16 * 8
    assert table.at(3, 2)[:, COLUMN["weight_bytes"]].sum() == 16 * 2
    written = table.at(3, 2, 8)[:, COLUMN["write_bytes"]].sum()
    assert written == 3 * 2 * 36 * 2
    rows, counts, weight_bytes, io_bytes = table.laid(3, 2, 8)
    assert np.array_equal(rows, table.at(3, 2, 8))
    assert (weight_bytes, io_bytes) == (128, 3 * 2 * 36 * 2)
    assert counts is table.counts
    mixed = network_table(
        graph_of(
            [("Gather", ["x", "i"], ["y"], {"axis": 0})], {"x": (5, 4), "i": (3,), "y": (3, 4)},
            dtypes={"i": "int64"},
        )
    )  # fmt: skip
    assert (mixed.io_elements, mixed.io_stored) == (20 + 12, 3 * 8)
    assert mixed.io_bytes(2, 1) == 2 * (32 + 24)
