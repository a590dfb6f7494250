"""Prices of nodes and kernels on a device, by closed forms and by counting cost models."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from datasheets import by_datasheet
from figure_builders import kernel_figures
from hetsim.cost.kernels.formula import COLUMN, features
from hetsim.cost.kernels.fusion import Uses, epilogues, joined_kernel
from hetsim.cost.kernels.layouts import copy_work
from hetsim.cost.kernels.networks import Networks, log_total, network_table
from hetsim.cost.model import Estimate, Kernel
from hetsim.cost.prices import Fused, Prices
from hetsim.cost.quantized import around_floats, in_integers, kernel_sets, quantized_kernel
from hetsim.cost.registry import cost_model
from hetsim.device.device import SimulatedDevice
from hetsim.device.support.quantized import Quantized, as_int8
from hetsim.device.support.rules import Support
from hetsim.graph.graph import Graph
from hetsim.graph.loading import load_model, model_of
from hetsim.graph.patterns.matching import Match
from hetsim.graph.work import Work, graph_work
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.spec import DeviceSpec
from hetsim.hardware.variants import executing
from kernel_graphs import chain, graph_of

SPEC = replace(
    by_datasheet(load_platform("laptop").devices["npu"]),
    fusions=((("Conv",), ("Relu",)),),
    patterns=(),
    execution_dtype={},
)
LAUNCH = 1000.0


@dataclass
class Counted:
    """A launch, a second for each FLOP, and a hundredth for each byte, whatever they are of."""

    asked: list[tuple[DeviceSpec, Kernel]] = field(default_factory=list)

    def estimate(self, device: DeviceSpec, kernel: Kernel) -> Estimate:
        self.asked.append((device, kernel))
        seconds = took(*kernel.works)
        return Estimate(seconds, 0.0, 0.0, LAUNCH, "counted")


def took(*works: Work) -> float:
    """What it says of works that are launched together."""
    moved = sum(w.read_bytes + w.write_bytes + w.weight_bytes for w in works)
    return LAUNCH + sum(w.flops for w in works) + 0.01 * moved


def prices(spec: DeviceSpec = SPEC) -> Prices:
    return Prices(spec, Counted())


def support(graph: Graph, no: tuple[int, ...] = (), *composites: tuple[int, ...]) -> Support:
    whole = tuple(Match("p", nodes) for nodes in composites)
    return Support("npu", tuple(v not in no for v in range(len(graph.nodes))), {}, whole)


def parsed(text: str) -> Graph:
    head = '<ir_version: 8, opset_import: ["": 17]>\n'
    return model_of(onnx.parser.parse_model(head + text), canonical="none").graph


def alone(graph: Graph) -> list[float]:
    return [took(work) for work in graph_work(graph)]


CHOICE = """
    choice (bool c, float[4, 8] x) => (float[4, 8] y)
    { y = If(c) <
        then_branch = t () => (float[4, 8] a) { p = Exp(x) q = Sin(p) a = Relu(q) },
        else_branch = e () => (float[4, 8] b) { b = Exp(x) }> }
"""


def body_of(graph: Graph, name: str) -> Graph:
    found = graph.nodes[-1].branches[name]
    assert found is not None
    return found


def test_a_choice_is_the_dearer_way_and_at_least_the_cheaper_without_a_launch_of_its_own() -> None:
    graph = parsed(CHOICE)
    long, short = (sum(alone(body_of(graph, f"{w}_branch"))) for w in ("then", "else"))
    assert prices().node(graph, graph.nodes[0]) == (long, short)
    text = CHOICE.replace("then_branch", "_branch").replace("else_branch", "then_branch")
    swapped = parsed(text.replace(" _branch", " else_branch"))
    assert prices().node(swapped, swapped.nodes[0]) == (long, short)


LOOP = """
    repeated (float[4, 8] x) => (float[4, 8] y)
    <int64 n = {5}, bool go = {1}>
    { y = Loop(n, go, x) <
        body = b (int64 i, bool keep, float[4, 8] s) => (bool more, float[4, 8] t)
            { more = Identity(keep) u = Exp(s) t = Sin(u) }> }
"""


def test_a_loop_is_its_body_as_often_as_it_turns() -> None:
    graph = parsed(LOOP)
    body = body_of(graph, "body")
    each = sum(s for s, n in zip(alone(body), body.nodes, strict=True) if n.op_type != "Identity")
    most, least = prices().node(graph, graph.nodes[-1])
    same = [n for n in body.nodes if n.op_type == "Identity"]
    rest = sum(prices().node(body, n)[0] for n in same)
    assert most == pytest.approx(5 * (each + rest))
    assert least == pytest.approx(most)
    # Where a condition may end it sooner it may make no turn at all.
    by_input = LOOP.replace(", bool go = {1}", "").replace("8] x)", "8] x, bool go)")
    free = parsed(by_input)
    most_free, least_free = prices().node(free, free.nodes[-1])
    assert (most_free, least_free) == (pytest.approx(most), 0.0)


FUSED = """
    fused (bool c, float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y)
    <float[4, 4, 1, 1] w = {0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0}>
    { y = If(c) <
        then_branch = t () => (float[1, 4, 6, 6] a) { p = Conv(x, w) q = Relu(p) a = Sin(q) },
        else_branch = e () => (float[1, 4, 6, 6] b) { b = Exp(x) }> }
"""


def test_what_is_inside_is_fused_as_outside() -> None:
    graph = parsed(FUSED)
    body = body_of(graph, "then_branch")
    conv, relu, sine = graph_work(body)
    inner = body.tensors["p"].nbytes if "p" in body.tensors else 4 * 4 * 36
    joined = took(conv, relu) - 0.01 * 2 * inner + took(sine)
    (other,) = alone(body_of(graph, "else_branch"))
    most, least = prices().node(graph, graph.nodes[-1])
    assert most == pytest.approx(joined)
    assert least == pytest.approx(min(joined, other))
    apart = prices(replace(SPEC, fusions=())).node(graph, graph.nodes[-1])
    assert apart[0] == pytest.approx(sum(alone(body)))


OPEN = """
    opened (bool c, float[4, 8] x) => (float y)
    { y = If(c) <
        then_branch = t () => (float a)
            { n = NonZero(x) m = Cast <to = 1> (n) a = ReduceSum <keepdims = 0> (m) },
        else_branch = e () => (float b) { b = ReduceSum <keepdims = 0> (x) }> }
"""


def test_a_way_inside_of_which_shapes_are_open_is_not_priced() -> None:
    graph = parsed(OPEN)
    (known,) = alone(body_of(graph, "else_branch"))
    assert prices().node(graph, graph.nodes[0]) == (known, known)
    open_too = "k = NonZero(x) l = Cast <to = 1> (k) b = ReduceSum <keepdims = 0> (l)"
    graph = parsed(OPEN.replace("b = ReduceSum <keepdims = 0> (x)", open_too))
    # What its own values take to move, and a launch.
    work = graph_work(graph)[0]
    assert prices().node(graph, graph.nodes[0]) == (took(work), took(work))
    assert work.flops == 0


def test_a_cast_between_types_that_are_one_there_takes_nothing() -> None:
    names = {"x": (4,), "y": (4,)}
    for held, free in (({}, False), ({"float32": "float16"}, True), ({"float16": "int8"}, False)):
        cast = graph_of([("Cast", ["x"], ["y"], {})], names, dtypes={"x": "float16"})
        found = prices(replace(SPEC, execution_dtype=held)).node(cast, cast.nodes[0])
        assert (found == (0.0, 0.0)) == free


@pytest.mark.parametrize("op", ["Relu", "Erf"])
def test_in_integers_a_node_scales_and_one_in_floats_converts(op: str) -> None:
    spec = executing(SPEC, "int8", "npu")
    graph = chain(op)
    (node,), (work,) = graph.nodes, graph_work(graph)
    asked = Counted()
    most, least = Prices(spec, asked).node(graph, node)
    ((device, kernel),) = asked.asked
    if op == "Relu":
        assert kernel.works == (in_integers(graph, node, work, last=True),)
        assert device.execution_dtype["float32"] == "int8"
    else:
        assert kernel.works == (work, *around_floats(graph, [node], [work]))
        assert device == spec
    assert most == least == took(*kernel.works)


@pytest.mark.parametrize(
    ("floats", "kind", "nbytes"),
    [(("float32",), "float32", 4), (("float32", "float16"), "float16", 2),
     (("float64",), "float64", 8), (("bfloat16", "float16"), "bfloat16", 2)],
)  # fmt: skip
def test_borders_of_integers_take_what_converting_a_large_tensor_does(
    floats: tuple[str, ...], kind: str, nbytes: int
) -> None:
    """By byte of the narrowest type of floats, without a launch."""
    names = {f"v{k}": (8,) for k in range(len(floats) + 1)}
    nodes: list[Any] = [("Relu", [f"v{k}"], [f"v{k + 1}"], {}) for k in range(len(floats))]
    kinds = {f"v{k}": floats[min(k, len(floats) - 1)] for k in range(len(names))}
    graph = graph_of(nodes, names, dtypes=kinds)
    spec = executing(SPEC, "int8", "npu")
    asked = Counted()
    enter, leave = Prices(spec, asked).borders(graph)
    elements = 1 << 20
    wide = nbytes * elements
    # Rounding is four FLOP an element, shifting and scaling two.
    moved = 0.01 * (wide + elements)
    assert enter == pytest.approx((4 * elements + moved) / wide)
    assert leave == pytest.approx((2 * elements + moved) / wide)
    for _, kernel in asked.asked:
        converted, carried = kernel.works
        assert (converted.dtype, converted.op_class) == (kind, "quantize")
        assert (carried.dtype, carried.flops) == ("int8", 0)
        assert (carried.read_bytes, carried.write_bytes) == (wide, elements)
    assert Prices(SPEC, Counted()).borders(graph) == (0.0, 0.0)
    whole = dict.fromkeys("ab", "int64")
    ids = graph_of([("Add", ["a", "a"], ["b"], {})], dict.fromkeys("ab", (2,)), dtypes=whole)
    assert Prices(spec, Counted()).borders(ids) == (0.0, 0.0)


def fused(
    spec: DeviceSpec,
    graph: Graph,
    seconds: list[float] | None = None,
    *composites: tuple[int, ...],
    copies: dict[int, float] | None = None,
    no: tuple[int, ...] = (),
) -> tuple[Fused, ...]:
    found = prices(spec)
    each = seconds or [found.node(graph, node)[0] for node in graph.nodes]
    return found.fused(graph, support(graph, no, *composites), each, copies or {})


def test_kernels_are_joined_where_that_pays() -> None:
    graph = chain("Conv", "Relu", "Sin")
    conv, relu, _ = graph_work(graph)
    together = took(conv, relu) - 0.01 * 2 * 4 * 36
    assert fused(SPEC, graph) == (Fused((0, 1), pytest.approx(together)),)
    assert fused(SPEC, graph, [together / 2, together / 2, 1.0]) == ()
    assert len(fused(SPEC, graph, [together / 2, together / 2 + 0.1, 1.0])) == 1
    assert fused(SPEC, graph, no=(1,)) == ()
    # What is copied for a member is copied for the kernel, too.
    (copied,) = fused(SPEC, graph, copies={0: 5.0, 1: 7.0, 2: 11.0})
    assert copied.seconds == pytest.approx(together + 12.0)


def test_composites_are_kernels_whatever_they_cost_and_join_nothing_else() -> None:
    graph = chain("Conv", "Relu", "Sin")
    _, relu, sine = graph_work(graph)
    whole = took(relu, sine) - 0.01 * 2 * 4 * 36
    found = fused(SPEC, graph, [0.0, 0.0, 0.0], (1, 2))
    assert found == (Fused((1, 2), pytest.approx(whole), "p"),)


def test_copies_between_layouts_are_of_the_node_that_they_are_for() -> None:
    shape = (1, 32, 6, 6)
    nodes: list[Any] = [("Conv", ["x", "w"], ["c"], {}), ("Sin", ["c"], ["y"], {})]
    graph = graph_of(nodes, {"w": (32, 32, 1, 1)} | dict.fromkeys("xcy", shape), constants=("w",))
    blocks = replace(kernel_figures(), channel_block=16)
    spec = replace(SPEC, kernels={"float32": blocks})
    once = took(copy_work(math.prod(shape), 16))
    # Into blocks and out of them, both for the convolution.
    assert prices(spec).copies(graph, support(graph)) == {0: 2 * once}
    assert prices(spec).copies(graph, support(graph, (0,))) == {}
    assert prices(SPEC).copies(graph, support(graph)) == {}
    plain = replace(SPEC, kernels={"float32": kernel_figures()})
    assert prices(plain).copies(graph, support(graph)) == {}
    int8 = executing(replace(spec, kernels={"float32": blocks, "int8": blocks}), "int8", "npu")
    assert prices(int8).copies(graph, support(graph)) == {}


def shared_load(*ops: str, outputs: tuple[str, ...] = ()) -> Graph:
    """Several nodes that read what one DequantizeLinear makes."""
    nodes: list[Any] = [("DequantizeLinear", ["i", "s", "z"], ["a"], {})]
    nodes += [(op, ["a"], [f"y{k}"], {}) for k, op in enumerate(ops)]
    shapes = {"s": (), "z": ()} | dict.fromkeys(("i", "a"), (1, 4, 3, 3))
    shapes |= {f"y{k}": (1, 4, 3, 3) for k in range(len(ops))}
    return graph_of(
        nodes, shapes, constants=("s", "z"), dtypes=dict.fromkeys("iz", "int8"),
        outputs=outputs or tuple(f"y{k}" for k in range(len(ops))),
    )  # fmt: skip


def test_a_shared_load_takes_nothing_and_its_readers_read_integers() -> None:
    graph = shared_load("Erf", "Sin")
    works = graph_work(graph)
    found = prices().loads(graph, support(graph))
    quantized = Quantized(graph, SPEC)
    assert found == {0: 0.0} | {
        v: took(*quantized_kernel(quantized, works, (v,), None).works) for v in (1, 2)
    }
    assert found[1] == pytest.approx(took(works[1]) - 0.01 * 3 * 36)
    assert prices().loads(graph, support(graph, (0,))) == {}
    assert prices().loads(graph, support(graph, (1,))) == {0: 0.0, 2: found[2]}
    given_out = shared_load("Erf", "Sin", outputs=("a", "y0", "y1"))
    assert prices().loads(given_out, support(given_out)) == {}
    assert prices().loads(chain("Erf"), support(chain("Erf"))) == {}


def test_kernels_among_conversions_are_priced_whole_also_as_if_in_integers() -> None:
    nodes: list[Any] = [
        ("DequantizeLinear", ["i", "s", "z"], ["a"], {}), ("Erf", ["a"], ["b"], {}),
        ("QuantizeLinear", ["b", "s", "z"], ["k"], {}),
    ]  # fmt: skip
    shapes = {"s": (), "z": ()} | dict.fromkeys("iabk", (1, 4, 3, 3))
    kinds = dict.fromkeys("izk", "int8")
    graph = graph_of(nodes, shapes, constants=("s", "z"), dtypes=kinds)
    works = graph_work(graph)
    plain = quantized_kernel(Quantized(graph, SPEC), works, (0, 1, 2), None)
    assert fused(SPEC, graph) == (Fused((0, 1, 2), took(*plain.works)),)
    # As a device that executes in int8 has it, floats are converted on their way.
    spec = executing(SPEC, "int8", "npu")
    (found,) = prices(spec).fused(graph, support(graph), [9e9] * 3, {})
    converted = around_floats(graph, graph.nodes, works, ("a", "b"))
    assert found.seconds == pytest.approx(took(*plain.works, *converted))


LAPTOP_NPU = by_datasheet(load_platform("laptop").devices["npu"])
BY_FIGURES = {name: kernel_figures(name) for name in ("float32", "float16", "int8")}


def fused_on(graph, spec):
    device = SimulatedDevice("npu", spec)
    support = device.query_model(graph)
    prices = Prices(device.spec, cost_model("roofline"))
    alone = [prices.node(graph, node)[0] for node in graph.nodes]
    return support, prices.fused(graph, support, alone, {})


def test_figures_of_kernels_go_before_declared_chains():
    graph = load_model("zoo:bert_small").graph
    spec = replace(LAPTOP_NPU, kernels=BY_FIGURES)
    support, found = fused_on(graph, spec)
    sets = epilogues(graph, graph_work(graph), support.supported)
    assert {kernel.nodes for kernel in found} == set(sets)
    assert {kernel.nodes for kernel in found} != {k.nodes for k in fused_on(graph, LAPTOP_NPU)[1]}


def test_by_figures_for_int8_a_network_is_the_kernels_that_they_were_fitted_by():
    graph = chain("Conv", "Relu", "Erf", "Relu")
    spec = executing(replace(LAPTOP_NPU, kernels=BY_FIGURES), "int8", "npu")
    _, found = fused_on(graph, spec)
    prices = Prices(spec, cost_model("fitted"))
    alone = [prices.node(graph, node)[0] for node in graph.nodes]
    taken = Support("npu", (True,) * len(alone), {})
    found = prices.fused(graph, taken, alone, {})
    inside = {v for kernel in found for v in kernel.nodes}
    total = sum(kernel.seconds for kernel in found)
    total += sum(s for v, s in enumerate(alone) if v not in inside)
    rows = network_table(graph).laid(1, 1, 1)
    whole = float(np.exp(log_total(np.log([BY_FIGURES["int8"].values]), Networks.of([rows]))[0]))
    figures = BY_FIGURES["int8"]
    around = figures.dispatch_s + rows[3] / figures.value("io_gbytes_s")
    assert total == pytest.approx(whole - around, rel=1e-9)


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
    support = SimulatedDevice("npu", LAPTOP_NPU).query_model(graph)
    found = Quantized(graph, LAPTOP_NPU)
    (unit,) = kernel_sets(found, LAPTOP_NPU, support)
    assert (unit.nodes, unit.dtype) == ((0, 1, 2, 3, 4), "int8")
    kernel = quantized_kernel(found, graph_work(graph), unit.nodes, unit.dtype)

    plain = graph_of(
        [("Conv", ["a", "w"], ["b"], {}), ("Relu", ["b"], ["c"], {})], shapes, constants=("w",)
    )
    whole = joined_kernel(Uses.of(plain), (0, 1))
    expected = features(whole, as_int8(LAPTOP_NPU))
    row = features(kernel, LAPTOP_NPU)
    scale_bytes = row[COLUMN["weight_bytes"]] - expected[COLUMN["weight_bytes"]]
    assert 0 <= scale_bytes <= 32
    expected[COLUMN["weight_bytes"]] += scale_bytes
    assert row.tolist() == expected.tolist()
