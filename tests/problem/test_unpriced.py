"""What is not priced is named in every report, and nothing is claimed over it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx.parser
import pytest

import hetsim
from datasheets import all_by_datasheet
from hetsim.cost.prices import Prices
from hetsim.cost.registry import cost_model
from hetsim.errors import OutOfMemory
from hetsim.graph.loading import load_model, model_of
from hetsim.placement.bounds.lower_bound import stated_bound
from hetsim.reporting.tables.comparison import comparison_record, comparison_report, verdict
from hetsim.reporting.tables.plan import simulation_record
from hetsim.reporting.tables.question import unpriced_rows
from onnx_builders import WIDE, if_model, op, texts_model


@pytest.fixture(scope="module")
def laptop():
    return all_by_datasheet(hetsim.load_platform("laptop"))


@pytest.fixture(scope="module")
def unpriced(laptop):
    return hetsim.Problem.of(model_of(texts_model(), name="texts"), laptop)


def shown(renderable):
    from rich.console import Console

    console = Console(width=200)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_no_bound_is_stated_where_a_node_is_not_priced(unpriced, objective):
    assert {unpriced.node_names[node] for node in unpriced.unpriced} == {"twice"}
    assert hetsim.lower_bound(unpriced, objective) == 0.0
    assert stated_bound(unpriced, objective) is None
    table = hetsim.compare(unpriced, ["single", "heft"], objective=objective)
    assert table.bound_s is None
    assert table.ceiling is None
    assert all(row.gap is None for row in table.rows)
    text = shown(comparison_report(table))
    assert "none: 1 node has no price" in text
    assert "StringConcat" in text
    assert "texts" in text
    assert "no plan can" not in text
    assert "ceiling" not in text
    assert "lower bound" not in verdict(table)
    assert "without nodes that have no price" in verdict(table)


def test_records_name_what_is_not_priced(unpriced):
    table = hetsim.compare(unpriced, ["single"])
    record = comparison_record(table)
    assert record["lower_bound_s"] is None
    assert record["speedup_ceiling"] is None
    assert list(record["problem"]["unpriced"]) == ["twice"]
    plan = hetsim.plan(unpriced, "single:cpu")
    told = simulation_record(plan, hetsim.simulate(plan))
    assert list(told["problem"]["unpriced"]) == ["twice"]


def test_a_plan_counts_the_dearer_branch_and_a_bound_the_cheaper(laptop):
    problem = hetsim.Problem.of(model_of(if_model()), laptop)
    assert not problem.unpriced
    prices = Prices(laptop.devices["cpu"], cost_model("roofline"))
    branch = problem.model.graph.nodes[0].branches
    dear, cheap = (
        sum(prices.node(graph, node)[0] for node in graph.nodes)
        for graph in (branch["then_branch"], branch["else_branch"])
    )
    assert cheap < dear
    cpu = problem.device_index("cpu")
    (told,) = (text for name, text in unpriced_rows(problem) if name == "data-driven")
    assert told == (
        "1 node (If 1): plans count the costliest branch and the turns of a run, bounds the least"
    )
    assert problem.seconds[0, cpu] == pytest.approx(dear)
    assert problem.least_seconds[0, cpu] == pytest.approx(cheap)
    assert hetsim.lower_bound(problem) < min(
        hetsim.simulate(hetsim.plan(problem, f"single:{name}")).latency_s
        for name in problem.devices
        if np.isfinite(problem.seconds[0, problem.device_index(name)])
    )


def test_the_least_is_told_of_the_nodes_that_may_take_less_and_of_no_others(laptop):
    proto = if_model()
    before = [op("Neg", f"x{k}" if k else "first", f"x{k + 1}" if k < 3 else "x") for k in range(4)]
    choice = proto.graph.node.pop()
    proto.graph.node.extend([*before, choice])
    proto.graph.input[1].name = "first"
    problem = hetsim.Problem.of(model_of(proto, canonical="none"), laptop)
    alone = hetsim.Problem.of(model_of(if_model(), canonical="none"), laptop)
    (at,) = [v for v, kind in enumerate(problem.op_types) if kind == "If"]
    assert at == 4
    assert problem.least_s == {at: alone.least_s[0]}
    assert alone.least_s[0] == tuple(alone.least_seconds[0].tolist())
    others = [v for v in range(problem.n) if v != at]
    assert (problem.least_seconds[others] == problem.shared_seconds[others]).all()


def test_weights_of_branches_are_parameters_and_memory(laptop):
    nbytes = 4 * WIDE * (WIDE + WIDE // 2)
    problem = hetsim.Problem.of(model_of(if_model()), laptop)
    assert sum(constant.nbytes for constant in problem.constants) == nbytes
    plan = hetsim.plan(problem, "single:cpu")
    assert hetsim.simulate(plan).weight_bytes["cpu"] == nbytes
    small = replace(problem, capacity_bytes=(nbytes - 1,) * 3)
    with pytest.raises(OutOfMemory):
        hetsim.simulate(hetsim.plan(small, "single:cpu"))


@pytest.mark.parametrize("canonical", ["none", "basic"])
def test_a_model_split_into_functions_costs_what_it_cost(canonical, laptop, tmp_path):
    whole = hetsim.Problem.of(load_model("zoo:squeezenet"), laptop)
    part = hetsim.partition(whole, "compact", assignment=[v // 13 % 3 for v in range(whole.n)])
    assert len(part.groups) > 4
    part.save_onnx(tmp_path / "parts")
    split = hetsim.Problem.of(
        load_model(tmp_path / "parts/split.onnx", canonical=canonical), laptop
    )
    if canonical == "none":
        assert split.n == len(part.groups)
    bound = hetsim.lower_bound(whole)
    for name in ("cpu", "gpu", "npu"):
        alone = [
            hetsim.simulate(hetsim.plan(p, f"single:{name}")).latency_s for p in (whole, split)
        ]
        device = whole.device_index(name)
        cut = sum(
            whole.group_seconds(device, g.nodes) - whole.dispatch_s[device] for g in part.groups
        )
        # A fusion that the cut goes through is lost; nothing else changes.
        gone = cut - (whole.group_seconds(device, range(whole.n)) - whole.dispatch_s[device])
        assert alone[1] == pytest.approx(alone[0] + (gone if canonical == "none" else 0.0))
        assert alone[1] >= bound


def alone(problem, device):
    return hetsim.simulate(hetsim.plan(problem, f"single:{device}")).latency_s


@pytest.mark.parametrize("canonical", ["none", "basic"])
def test_shapes_that_are_open_inside_a_branch_leave_it_unpriced(canonical, laptop):
    """How many elements are not zero is known in a run; the model still gets its plans."""
    proto = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    counted (bool c, float[4, 8] x) => (float y)
    { y = If(c) <
        then_branch = t () => (float a)
            { n = NonZero(x) m = Cast <to = 1> (n) a = ReduceSum <keepdims = 0> (m) },
        else_branch = e () => (float b) { b = ReduceSum <keepdims = 0> (x) }> }
    """)
    problem = hetsim.Problem.of(model_of(proto, canonical=canonical), laptop)
    (why,) = problem.unpriced.values()
    assert why == "inside it, the shape of value 'n' is open: --input FILE.npz measures it in a run"
    assert hetsim.compare(problem, ["single", "heft"]).bound_s is None
