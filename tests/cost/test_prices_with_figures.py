"""A device with figures of kernels joins what compilers join, and leaves the rest as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datasheets import by_datasheet
from figure_builders import kernel_figures
from hetsim.cost.kernels.form import COLUMN, features
from hetsim.cost.kernels.fusion import Uses, epilogues, joined_kernel
from hetsim.cost.kernels.networks import Networks, log_total, network_table
from hetsim.cost.prices import Prices
from hetsim.cost.quantized import kernel_sets, quantized_kernel
from hetsim.cost.registry import cost_model
from hetsim.device.device import SimulatedDevice
from hetsim.device.support.quantized import Quantized, as_int8, integer_node
from hetsim.device.support.rules import Support
from hetsim.graph.loading import load_model
from hetsim.graph.work import graph_work
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.variants import executing
from kernel_graphs import chain, graph_of

SPEC = by_datasheet(load_platform("laptop").devices["npu"])
FIGURES = {name: kernel_figures(name) for name in ("float32", "float16", "int8")}


def fused(graph, spec):
    device = SimulatedDevice("npu", spec)
    support = device.query_model(graph)
    prices = Prices(device.spec, cost_model("roofline"))
    alone = [prices.node(graph, node)[0] for node in graph.nodes]
    return support, prices.fused(graph, support, alone, {})


def test_figures_of_kernels_go_before_declared_chains():
    graph = load_model("zoo:bert_small").graph
    spec = replace(SPEC, kernels=FIGURES)
    support, found = fused(graph, spec)
    sets = epilogues(graph, graph_work(graph), support.supported)
    assert {kernel.nodes for kernel in found} == set(sets)
    assert {kernel.nodes for kernel in found} != {k.nodes for k in fused(graph, SPEC)[1]}


def test_what_is_computed_in_integers_joins_nothing_that_is_not():
    graph = chain("Conv", "Relu", "Erf", "Relu")
    floats = {name: FIGURES[name] for name in ("float32", "float16")}
    spec = executing(replace(SPEC, kernels=floats), "int8", "npu")
    _, found = fused(graph, spec)
    for kernel in found:
        assert len({integer_node(spec, graph, graph.nodes[v]) for v in kernel.nodes}) == 1
    assert [kernel.nodes for kernel in found] == [(0, 1)]


def test_by_figures_for_int8_a_network_is_the_kernels_that_they_were_fitted_by():
    graph = chain("Conv", "Relu", "Erf", "Relu")
    spec = executing(replace(SPEC, kernels=FIGURES), "int8", "npu")
    _, found = fused(graph, spec)
    prices = Prices(spec, cost_model("fitted"))
    alone = [prices.node(graph, node)[0] for node in graph.nodes]
    taken = Support("npu", (True,) * len(alone), {})
    found = prices.fused(graph, taken, alone, {})
    inside = {v for kernel in found for v in kernel.nodes}
    total = sum(kernel.seconds for kernel in found)
    total += sum(s for v, s in enumerate(alone) if v not in inside)
    rows = network_table(graph).laid(1, 1, 1)
    whole = float(np.exp(log_total(np.log([FIGURES["int8"].values]), Networks.of([rows]))[0]))
    figures = FIGURES["int8"]
    around = figures.dispatch_s + rows[3] / figures.value("io_gbytes_s")
    assert total == pytest.approx(whole - around, rel=1e-9)


def test_casts_at_the_ends_change_nothing_between():
    nodes = [
        ("Cast", ["x"], ["a"], {"to": 1}), ("Conv", ["a", "w"], ["b"], {}),
        ("Relu", ["b"], ["c"], {}), ("Softmax", ["c"], ["d"], {}),
        ("Cast", ["d"], ["y"], {"to": 10}),
    ]  # fmt: skip
    shapes = {"w": (4, 4, 1, 1)} | dict.fromkeys("xabcdy", (1, 4, 3, 3))
    graph = graph_of(nodes, shapes, constants=("w",), dtypes={"x": "float16", "y": "float16"})
    _, found = fused(graph, replace(SPEC, kernels=FIGURES, fusions=(), execution_dtype={}))
    assert [kernel.nodes for kernel in found] == [(0, 1, 2), (3, 4)]


def test_what_stays_float_among_integers_joins_as_elsewhere():
    graph = load_model("zoo:squeezenet").graph
    plain = {k.nodes for k in fused(graph, replace(SPEC, kernels=FIGURES, fusions=()))[1]}
    found = Quantized(graph, SPEC)
    support = SimulatedDevice("npu", replace(SPEC, kernels=FIGURES, fusions=())).query_model(graph)
    sets = kernel_sets(found, replace(SPEC, kernels=FIGURES, fusions=()), support)
    assert {one.nodes for one in sets} == plain


def test_a_quantized_unit_is_the_row_of_the_float_kernel_in_integers():
    scales = {"s": (), "z": (), "x": (1, 4, 3, 3), "q": (8, 4, 3, 3), "w": (8, 4, 3, 3)}
    shapes = scales | {"a": (1, 4, 3, 3)} | dict.fromkeys("bcy", (1, 8, 1, 1))
    nodes = [
        ("DequantizeLinear", ["x", "s", "z"], ["a"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["w"], {}),
        ("Conv", ["a", "w"], ["b"], {}), ("Relu", ["b"], ["c"], {}),
        ("QuantizeLinear", ["c", "s", "z"], ["y"], {}),
    ]  # fmt: skip
    stored = ("s", "z", "q")
    graph = graph_of(nodes, shapes, constants=stored, dtypes=dict.fromkeys("zxqy", "int8"))
    support = SimulatedDevice("npu", SPEC).query_model(graph)
    found = Quantized(graph, SPEC)
    (unit,) = kernel_sets(found, SPEC, support)
    assert (unit.nodes, unit.dtype) == ((0, 1, 2, 3, 4), "int8")
    kernel = quantized_kernel(found, graph_work(graph), unit.nodes, unit.dtype)

    plain = graph_of(
        [("Conv", ["a", "w"], ["b"], {}), ("Relu", ["b"], ["c"], {})], shapes, constants=("w",)
    )
    whole = joined_kernel(Uses.of(plain), (0, 1))
    expected = features(whole, as_int8(SPEC))
    row = features(kernel, SPEC)
    scale_bytes = row[COLUMN["weight_bytes"]] - expected[COLUMN["weight_bytes"]]
    assert 0 <= scale_bytes <= 32
    expected[COLUMN["weight_bytes"]] += scale_bytes
    assert row.tolist() == expected.tolist()
