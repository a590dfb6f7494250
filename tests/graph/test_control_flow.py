"""Graphs inside nodes: what If, Loop, Scan and functions do is what their bodies do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

from hetsim.graph import work
from hetsim.graph.canonical import canonical_model as canonical
from hetsim.graph.canonical.inner_graphs import inner_graphs
from hetsim.graph.graph import ControlFlow
from hetsim.graph.loading import model_of
from hetsim.graph.reading.extension import NONE
from hetsim.graph.shapes.observed import Observed
from hetsim.graph.work import graph_work, node_work, uncosted
from odd_values import sparse
from onnx_builders import WIDE, if_model, make_model, op, value


def costs(columns):
    """FLOP of one branch: the product, and one for each element that the maximum is of."""
    return 2 * 2 * WIDE * columns + 2 * columns


def only(graph):
    (node,) = graph.nodes
    return node


@pytest.mark.parametrize("canonical", ["none", "basic", "extended"])
def test_an_if_is_its_dearer_branch_and_at_least_its_cheaper(canonical):
    graph = model_of(if_model(), canonical=canonical).graph
    done = node_work(graph, only(graph))
    assert done.rule
    assert done.flops == costs(WIDE)
    assert done.least is not None
    assert done.least.flops == costs(WIDE // 2)
    assert done.weight_bytes == 4 * WIDE * WIDE
    held = {tensor.name: tensor.nbytes for tensor in only(graph).held}
    assert sum(held.values()) == 4 * WIDE * (WIDE + WIDE // 2)
    assert len(held) == 2


def test_a_branch_that_was_seen_is_the_one_that_counts():
    graph = model_of(if_model()).graph
    name = only(graph).name
    for sure, least in ((True, None), (False, costs(WIDE // 2))):
        seen = replace(graph, seen=ControlFlow({name: "then_branch"}, {}, sure))
        done = node_work(seen, only(seen))
        assert done.flops == costs(WIDE)
        assert (done.least and done.least.flops) == least
    cheap = replace(graph, seen=ControlFlow({name: "else_branch"}, {}, True))
    assert node_work(cheap, only(cheap)).flops == costs(WIDE // 2)


@pytest.mark.parametrize("taken", [True, False])
def test_a_constant_condition_decides(taken):
    proto = if_model()
    del proto.graph.input[0]
    proto.graph.initializer.append(numpy_helper.from_array(np.array(taken), "c"))
    graph = model_of(proto, canonical="none").graph
    done = node_work(graph, only(graph))
    assert done.flops == costs(WIDE if taken else WIDE // 2)
    assert done.least is None


LOOP = """
<ir_version: 8, opset_import: ["": 17]>
looped (float[4, 8] x, int64 n, bool go) => (float[4, 8] last, float[k, 4, 8] all)
{
    last, all = Loop(LIMIT, GO, x) <body = body (int64 i, bool c, float[4, 8] v)
        => (bool on, float[4, 8] w, float[4, 8] s)
        { e = Exp(v)
          w = Add(e, x)
          s = Relu(w)
          on = CONDITION }>
}
"""


def loop(limit, go, condition):
    text = LOOP.replace("LIMIT", limit).replace("GO", go).replace("CONDITION", condition)
    proto = parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(np.array(5), "five"))
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    return model_of(proto, canonical="none", measure=False).graph


A_TURN = 32 * (16 + 1 + 1)


def test_a_loop_is_its_body_by_its_turns():
    graph = loop("five", "", "Identity(c)")
    done = node_work(graph, only(graph))
    assert (done.flops, done.rule, done.least) == (5 * A_TURN, True, None)
    assert graph.nodes[0].branches["body"].nodes[1].op_type == "Add"


def test_a_loop_that_may_end_early_may_do_nothing():
    # The comparison counts 1 a turn.
    graph = loop("five", "go", "Not(c)")
    done = node_work(graph, only(graph))
    assert (done.flops, done.rule) == (5 * (A_TURN + 1), True)
    assert done.least is not None
    assert done.least.flops == 0
    seen = replace(graph, seen=ControlFlow({}, {only(graph).name: 3.0}, True))
    assert node_work(seen, only(seen)).flops == 3 * (A_TURN + 1)
    assert node_work(seen, only(seen)).least is None


def test_a_loop_without_a_known_end_says_what_to_give():
    graph = loop("n", "", "Identity(c)")
    done = node_work(graph, only(graph))
    assert not done.rule
    assert "--input" in done.why
    assert done.flops == A_TURN
    assert uncosted(graph) == ("Loop",)


GROWING = """
<ir_version: 8, opset_import: ["": 17]>
grown (float[4, 8] x, int64 n) => (float[N, 8] y)
{ y = Loop(n, , x) <body = body (int64 i, bool c, float[N, 8] v)
    => (bool on, float[M, 8] w) { e = Exp(v) w = Concat <axis = 0> (e, x) on = Identity(c) }> }
"""


def growing(observed):
    """The graph of a Loop whose value gains four rows a turn."""
    proto = parser.parse_model(GROWING)
    proto.graph.node[0].name = "grows"
    del proto.graph.output[0].type.tensor_type.shape.dim[0]
    proto.graph.output[0].type.tensor_type.shape.dim.insert(
        0, onnx.TensorShapeProto.Dimension(dim_value=24)
    )
    return canonical._graph(proto, "grown", [("grows",)], NONE, observed)


def test_a_loop_whose_value_grows_is_priced_at_what_was_seen():
    done = node_work(growing(None), only(growing(None)))
    assert not done.rule
    path = "grows/body"
    shapes = {path: {"e": (20, 8), "w": (24, 8), "on": ()}}
    for given in (True, False):
        seen = Observed("a run", given, {}, {}, {}, {"grows": 5.0}, shapes)
        done = node_work(growing(seen), only(growing(seen)))
        # As large as it becomes, in each of the five turns; it may also end at once.
        assert (done.flops, done.rule) == (5 * 16 * 24 * 8, True)
        assert done.least.flops == 0


def test_a_scan_is_its_body_for_every_slice():
    proto = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    scanned (float[3] s, float[3, 7] x) => (float[3] t, float[7, 3] y)
    { t, y = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = body (float[3] a, float[3] b)
        => (float[3] c, float[3] d) { c = Add(a, b) d = Exp(c) }> (s, x) }
    """)
    graph = model_of(proto, canonical="none").graph
    done = node_work(graph, only(graph))
    assert (done.flops, done.rule) == (7 * 3 * (1 + 16), True)


def test_bodies_within_bodies():
    proto = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    nested (float[4] x, bool b) => (float[4] y)
    <int64 three = {3}>
    { y = Loop(three, , x) <body = body (int64 i, bool c, float[4] v) => (bool on, float[4] w)
        { w = If(b) <then_branch = t () => (float[4] p) { p = Exp(v) },
                     else_branch = e () => (float[4] q) { q = Relu(v) }>
          on = Identity(c) }> }
    """)
    graph = model_of(proto, canonical="none").graph
    done = node_work(graph, only(graph))
    assert done.flops == 3 * 4 * 16
    assert done.least is not None
    assert done.least.flops == 3 * 4


def test_an_op_that_the_standard_describes_is_costed_by_the_description(monkeypatch):
    """An operator without a rule of its own: its function says what it does, in one kernel."""
    model = make_model([op("HardSwish", "x", "y")], [value("x", [4, 8])], [value("y", [4, 8])])
    rules = {name: rule for name, rule in work._RULES.items() if name != "HardSwish"}
    monkeypatch.setattr(work, "_RULES", rules)
    graph = model_of(model, canonical="none").graph
    (done,) = graph_work(graph)
    # HardSwish is x times HardSigmoid(x), says the standard.
    assert (done.flops, done.rule) == (32 * (4 + 1), True)
    assert (done.read_bytes, done.write_bytes) == (4 * 32, 4 * 32)


def test_a_sparse_constant_is_a_dense_one_to_what_is_inside():
    add, opsets = op("Add", "x w", "y"), [helper.make_opsetid("", 20)]
    functions = [helper.make_function("my", "F", ["x", "w"], ["y"], [add], opsets)]
    branch = helper.make_graph([op("Add", "x w", "b")], "branch", [], [value("b")])
    nodes = [
        op("F", "x w", "y", domain="my"),
        op("If", "c", "z", then_branch=branch, else_branch=branch),
    ]
    ends = [value("x"), value("c", (), "BOOL")], [value("y"), value("z")]
    proto = make_model(nodes, *ends, domains={"my": 1}, functions=functions)
    proto.graph.sparse_initializer.append(sparse("w", [1.0], [0]))
    call, choice = model_of(proto, canonical="none").graph.nodes
    for inside in (call.body, choice.branches["then_branch"]):
        (weights,) = inside.constants
        assert inside.tensors[weights].shape == (2, 3)


def test_weights_of_graphs_that_are_not_priced_count_too():
    """A search over texts holds its decoder, whose turns nobody knows before a run."""
    decoder = if_model().graph.node[0].attribute[0].g
    search = op("GreedySearch", "", "out", "search", domain="com.microsoft", decoder=decoder)
    proto = make_model([search], [], [value("out")], domains={"com.microsoft": 1})
    held = inner_graphs(proto, {}, lambda *_: None, {})["search"].held
    assert [tensor.name for tensor in held] == ["search/decoder/w"]
    assert held[0].nbytes == 4 * WIDE * (WIDE // 2)
