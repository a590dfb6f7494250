"""A device with figures of kernels joins what compilers join, and leaves the rest as it was."""

from __future__ import annotations

from dataclasses import replace

from figure_builders import kernel_figures
from hetsim.cost.kernels.epilogues import epilogues
from hetsim.cost.prices import Prices
from hetsim.cost.registry import cost_model
from hetsim.device.device import SimulatedDevice
from hetsim.device.support.executed import integer_node
from hetsim.graph.loading import load_model
from hetsim.graph.work import graph_work
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.executing import executing
from kernel_graphs import chain

SPEC = load_platform("laptop").devices["npu"]
FIGURES = {name: kernel_figures(name) for name in ("float32", "float16", "int8")}


def fused(graph, spec):
    device = SimulatedDevice("npu", spec)
    support = device.query_model(graph)
    prices = Prices(device.spec, cost_model("roofline"))
    alone = [prices.node(graph, node)[0] for node in graph.nodes]
    return support, prices.fused(graph, support, alone)


def test_figures_of_kernels_go_before_declared_chains():
    graph = load_model("zoo:bert_small").graph
    spec = replace(SPEC, kernels=FIGURES)
    support, found = fused(graph, spec)
    sets = epilogues(graph, graph_work(graph), support.supported)
    assert {kernel.nodes for kernel in found} == set(sets)
    assert {kernel.nodes for kernel in found} != {k.nodes for k in fused(graph, SPEC)[1]}


def test_what_is_computed_in_integers_joins_nothing_that_is_not():
    graph = chain("Conv", "Relu", "Erf", "Relu")
    spec = executing(replace(SPEC, kernels=FIGURES), "int8", "npu")
    _, found = fused(graph, spec)
    for kernel in found:
        assert len({integer_node(spec, graph, graph.nodes[v]) for v in kernel.nodes}) == 1
    assert [kernel.nodes for kernel in found] == [(0, 1)]
