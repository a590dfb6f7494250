"""Which device has which node, as a page holds it, by what the columns are defined as."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isclose
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from full_problems import full_problems
from hetsim.core.text import to_compact_json
from hetsim.errors import Infeasible, PartitionError
from hetsim.placement.planning import plan
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.reporting.pages.page import packed, unpacked
from hetsim.reporting.pages.subgraphs import plans_picture
from sweeps import examples


def columns(*plans: Plan, **about: Any) -> dict[str, Any]:
    picture = plans_picture(plans, **about)["subgraphs"]
    found = unpacked(json.loads(to_compact_json(picture)))
    assert isinstance(found, dict)
    return found


@given(problem=full_problems())
@examples(quick=15, full=1000)
def test_columns_are_those_of_the_problem(problem: Problem) -> None:
    try:
        made = plan(problem, "heft")
    except (Infeasible, PartitionError):
        # A kernel that is no pattern, of a node that runs nowhere alone, is no fair question.
        return
    found = columns(made)
    assert found["name"] == list(problem.node_names)
    shown = found["plans"][0]
    for index, group in enumerate(made.groups):
        device = problem.devices.index(group.device)
        assert [v for v in range(problem.n) if shown["group"][v] == index] == list(group.nodes)
        assert shown["device"][index] == device
        # Shares of a subgraph's nodes are what its device takes, less what it costs to start.
        own = sum(shown["seconds"][v] for v in group.nodes)
        taken = sum(s for _, s in problem.kernels(device, group.nodes))
        assert isclose(own, taken, rel_tol=1e-4, abs_tol=1e-12)
    groups, nodes = found["tables"]
    assert [row[0] for row in groups["rows"]] == [[f"g{k}"] for k in range(len(made.groups))]
    for name, op, device, group, _, elsewhere in nodes["rows"]:
        node = problem.node_names.index(name)
        assert op == problem.op_types[node]
        assert group == f"g{shown['group'][node]}"
        others = [other for other in problem.devices if other != device]
        assert (elsewhere == "-") == (not others)
        for part, other in zip(elsewhere.split("; "), others, strict=False):
            runs = problem.runnable[node, problem.devices.index(other)]
            assert part.startswith(f"{other} " if runs else f"{other}: ")


def named(count: int) -> Problem:
    """A chain of nodes of long names that no packing makes small."""
    rng = np.random.default_rng(0)
    problem = Problem.from_arrays(
        rng.uniform(1e-6, 1e-3, (count, 2)), edges=[(v, v + 1, 10 * v) for v in range(count - 1)]
    )
    names = tuple(bytes(rng.integers(97, 123, 40).astype(np.uint8)).decode() for _ in range(count))
    return replace(problem, node_names=names, origins=tuple((name,) for name in names))


def test_what_does_not_fit_is_left_out_and_said() -> None:
    problem = named(400)
    plans = [plan(problem, name) for name in ("heft", "single:d0", "single:d1")]
    whole = columns(*plans)
    assert "cut" not in whole
    assert len(whole["plans"]) == 3
    one = columns(*plans, budget_bytes=packed_size(whole) - 1)
    assert [each["name"] for each in one["plans"]] == ["heft"]
    assert "plans other than heft" in one["cut"]
    assert columns(*plans, budget_bytes=packed_size(one) - 1).keys() == {"cut"}


def packed_size(found: dict[str, Any]) -> int:
    return len(packed(found)["packed"])


def test_a_dealt_plan_is_a_choice_a_replica() -> None:
    problem = named(4)
    dealt = Plan.dealt(
        [plan(problem, "single:d0"), plan(problem, "single:d1")], [0, 1], strategy="both"
    )
    names = [one["name"] for one in columns(dealt)["plans"]]
    assert names == ["both, replica 1 of 2", "both, replica 2 of 2"]


def test_of_no_node_there_is_nothing() -> None:
    empty = Problem.from_arrays(np.zeros((0, 1)))
    assert plans_picture([Plan(empty, "none", ())]) == plans_picture([]) == {}


@pytest.mark.parametrize("broken", ["", "H4sI", "%%", "AAAA"])
def test_a_damaged_packing_is_told(broken: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the parser says
        unpacked({"packed": broken})
