"""What the page is told of each node, value by value; and what the schema refuses."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema
import pytest

import hetsim
from hetsim.analysis.nodes.facts import NodeFacts
from hetsim.analysis.nodes.files import What
from hetsim.analysis.nodes.nodes import Nodes, nodes
from hetsim.analysis.nodes.record import nodes_schema
from hetsim.partitioning.record import COLOURS
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from three_nodes import back_and_forth

INF = math.inf
GREY = "#dddddd"


def results(told: Nodes, what: What) -> dict[str, Any]:
    """What is said by the names of nodes, without their colours."""
    found = json.loads(told.to_model_explorer(what))["results"]
    names = told.problem.node_names
    return {name: found[name]["value"] for name in names if name in found}


def colours(told: Nodes) -> list[str]:
    found = json.loads(told.to_model_explorer("device"))["results"]
    return [found[name]["bgColor"] for name in told.problem.node_names]


def planned(*devices: str, groups: tuple[Group, ...] | None = None) -> Nodes:
    made = groups or tuple(Group(device, (v,)) for v, device in enumerate(devices))
    return nodes(Plan(back_and_forth(), "by hand", made), device="npu")


def test_without_a_plan_nodes_are_where_they_are_preferred_and_take_what_they_do_there() -> None:
    free, wanted = nodes(back_and_forth()), nodes(back_and_forth(), device="npu")
    assert results(free, "device") == {"n0": "npu", "n1": "cpu", "n2": "npu"}
    assert results(free, "seconds") == {"n0": 1e6, "n1": 6e6, "n2": 1e6}
    assert colours(free) == [COLOURS[1], COLOURS[0], COLOURS[1]]
    assert results(wanted, "device") == {"n0": "npu", "n1": "npu", "n2": "npu"}
    # It would take a quarter there, as the others do.
    assert results(wanted, "seconds") == {"n0": 1e6, "n1": 1.5e6, "n2": 1e6}
    assert results(wanted, "why") == {"n1": "inf in seconds"}
    assert results(free, "why") == results(free, "cost") == results(wanted, "cost") == {}


def test_with_a_plan_nodes_are_where_it_has_them_and_cost_what_that_does() -> None:
    told = planned("cpu", "cpu", "npu")
    assert results(told, "device") == {"n0": "cpu", "n1": "cpu", "n2": "npu"}
    assert colours(told) == [COLOURS[0], COLOURS[0], COLOURS[1]]
    assert results(told, "seconds") == {"n0": 4e6, "n1": 6e6, "n2": 1e6}
    # The second is charged what moves to the third; the one that is best is not told of.
    assert results(told, "cost") == pytest.approx({"n0": 3e6, "n1": 4.5e6 + 2e6})
    assert results(told, "why") == {
        "n0": "the plan's choice: npu takes it, too", "n1": "inf in seconds",
    }  # fmt: skip


def test_over_replicas_it_is_all_devices_in_grey_and_the_mean() -> None:
    asked = Problem.from_arrays([[1.0, 3.0]] * 2, edges=[(0, 1, 8)], devices=("a", "b"))
    made = [Plan(asked, "s", (Group(device, (0, 1)),)) for device in "ab"]
    told = nodes(Plan.dealt(made, [0, 1], strategy="both"))
    assert results(told, "device") == {"n0": "a, b", "n1": "a, b"}
    assert colours(told) == [GREY, GREY]
    assert results(told, "seconds") == {"n0": 2e6, "n1": 2e6}
    assert results(told, "cost") == {"n0": 1e6, "n1": 1e6}


def test_what_nothing_takes_is_grey() -> None:
    told = nodes(Problem.from_arrays([[1.0], [INF]], devices=("a",)))
    assert results(told, "device") == {"n0": "a", "n1": "none"}
    assert colours(told) == [COLOURS[0], GREY]
    assert results(told, "seconds") == {"n0": 1e6}


def test_a_node_costs_nothing_where_it_is_preferred_and_is_unknown_without_a_time() -> None:
    def facts(device: str | None, preferred: str | None, seconds: Any, there: Any) -> NodeFacts:
        return NodeFacts(
            0, "n", "Op", ("n",), ("y",), (), preferred, there, False, device=device,
            seconds=seconds, moves_s=0.5,
        )  # fmt: skip

    # Also where a kernel is cut and its share there would be another.
    assert facts("a", "a", 3.0, 1.0).cost_s == 0.0
    assert facts("a", None, 3.0, None).cost_s == 0.0
    assert facts("b", "a", 3.0, 1.0).cost_s == 2.5
    assert facts("b", "a", 3.0, None).cost_s is None
    assert facts(None, "a", None, 1.0).cost_s is None
    assert [
        facts(*ends, 1.0, 1.0).falls_back for ends in (("a", "a"), ("a", None), (None, "a"))
    ] == [False, False, False]


def test_the_schema_takes_null_where_nothing_is_known_and_a_gain() -> None:
    valid = jsonschema.Draft202012Validator(nodes_schema())
    nowhere = nodes(Problem.from_arrays([[INF, INF]]))
    for told in (nodes(back_and_forth()), nodes(back_and_forth(), device="npu"), nowhere):
        record = json.loads(told.to_json())
        valid.validate(record)
        assert record["nodes"][0]["device"] is None
        assert record["strategy"] is None
    # On its preferred device it would take longer: what that costs is below nothing.
    slow = Problem.from_arrays([[1.0, 4.0]], devices=("cpu", "npu"))
    told = nodes(Plan(slow, "by hand", (Group("cpu", (0,)),)), device="npu")
    record = json.loads(told.to_json())
    valid.validate(record)
    assert record["nodes"][0]["cost_s"] == -3.0
    assert hetsim.simulate(Plan(slow, "s", (Group("cpu", (0,)),))).latency_s == 1.0
