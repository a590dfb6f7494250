"""Strategies by name, and their options: read from texts, kept in plans, and used again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.core.plugins import PROMISES
from hetsim.errors import OutOfMemory, PluginError, UsageError
from hetsim.partitioning.affinity import Exclusion
from hetsim.placement import registry
from hetsim.placement.constraints import Constrained
from hetsim.placement.planning import again
from hetsim.placement.registry import (
    OWN,
    Strategy,
    describe_options,
    option_texts,
    promises_of,
    read_options,
    read_settings,
    resolve,
    solved,
    strategies,
    strategy_class,
    strategy_names,
)
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


def test_every_name_has_a_class_and_a_record() -> None:
    names = strategy_names()
    assert names == tuple(sorted(names))
    assert set(OWN) <= set(names)
    for name in OWN:
        made = strategy_class(name)
        assert made.__name__.lower() == name.replace("-", "")
        assert strategy_class(f"{name}:argument") is made
        assert hasattr(resolve(name), "solve")
    assert [entry.name for entry in strategies()] == list(names)
    for entry in strategies():
        assert entry.usage.partition("[")[0].partition(":")[0] == entry.name
        assert entry.summary
        assert promises_of(entry.name) == promises_of(f"{entry.name}:x") == entry.promises
        assert set(entry.promises) <= set(PROMISES)


def test_what_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no strategy 'hefd'; did you mean 'heft'"):
        strategy_class("hefd:x")
    with pytest.raises(UsageError, match="no strategy ''"):
        resolve("")
    with pytest.raises(
        UsageError, match="strategy 'hetero' has no option 'methd'; did you mean 'method'"
    ):
        resolve("hetero:npu", {"methd": "stage"})
    with pytest.raises(UsageError, match="strategy 'heft' takes no argument"):
        resolve("heft:x")
    for text in ("local-search:x", "ideal-dp:x"):
        with pytest.raises(UsageError, match=f"strategy '{text[:-2]}' takes no argument"):
            resolve(text)
    for text in ("hetero:npu,,cpu", "hetero:,"):
        with pytest.raises(UsageError, match="not a list of different devices"):
            resolve(text)
    for text in ("hetero:npu,npu", "multi:a,,b", "multi:a,a", "pipeline:a,a"):
        with pytest.raises(UsageError, match="not a list of different devices"):
            resolve(text)


class Nothing:
    """Solves to what is no plan."""

    def solve(self, problem: Problem) -> Plan:
        """Return none."""
        return None  # type: ignore[return-value]


def test_only_a_plan_of_another_package_is_looked_at() -> None:
    problem = Problem.from_arrays([[1.0]])
    made: Strategy = Nothing()
    assert solved("heft", made, problem) is None
    with pytest.raises(PluginError, match="theirs"):
        solved("theirs:x", made, problem)
    plan = hetsim.plan(problem, "heft")
    assert registry._asked("heft", "solve", lambda: plan) is plan


def fan() -> Problem:
    """Three devices, of which each is best for one of the tasks between the first and last."""
    return Problem.from_arrays(
        [[1.0, 2.0, 2.0], [1.0, 9.0, 9.0], [9.0, 1.0, 9.0], [9.0, 9.0, 1.0], [1.0, 2.0, 2.0]],
        edges=[(0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 4, 1), (2, 4, 1), (3, 4, 1)],
        devices=("a", "b", "c"),
    )


@pytest.mark.parametrize(
    ("strategy", "text", "value"),
    [
        ("heft", "max_devices=2", 2),
        ("heft", 'pins={"n=1": "a"}', {"n=1": "a"}),
        ("heft", 'exclude=[{"device": "a", "ops": ["Conv"]}]', (Exclusion("a", ("Conv",)),)),
        ("heft", 'capacity_bytes={"a": 8}', {"a": 8}),
        ("auto", "search=false", False),
        ("auto", "objective=throughput", "throughput"),
        ("local-search", "time_limit_s=0.5", 0.5),
        ("local-search", "time_limit_s=null", None),
        ("hetero", "priority=b, a", ("b", "a")),
        ("hetero", 'priority=["b"]', ("b",)),
        ("hetero", "method=stage", "stage"),
    ],
)
def test_a_text_becomes_an_option(strategy: str, text: str, value: Any) -> None:
    key = text.partition("=")[0]
    read = read_settings((strategy,), [text], "--set")
    assert read == {key: value}
    kept = option_texts(strategy, read)
    assert read_options(strategy, kept) == read


@pytest.mark.parametrize(
    ("strategies", "text", "says"),
    [
        (
            ("heft",),
            "max_device=2",
            "'heft' has no option 'max_device'; did you mean 'max_devices'",
        ),
        (("heft", "single"), "moves=2", "'heft', 'single' has no option 'moves'"),
        (("heft",), "max_devices", "no value; write max_devices=VALUE"),
        (("heft",), "max_devices=two", "--set max_devices: 'two': input should be a valid integer"),
        (("heft",), "max_devices=", "max_devices: ''"),
        (("local-search",), "time_limit_s=nan", "finite number"),
        (("auto",), "search=maybe", "valid boolean"),
        (("auto",), "objective=speed", "'latency' or 'throughput'"),
        (("heft",), "pins=n1", "pins: 'n1': input should be a valid"),
        (("nope",), "max_devices=1", "no strategy 'nope'"),
    ],
)
def test_a_text_that_is_none(strategies: tuple[str, ...], text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_settings(strategies, [text], "--set")


def test_every_option_is_described_and_its_default_can_be_read() -> None:
    for strategy in OWN:
        for option in describe_options(strategy):
            assert option.kind
            assert option.meaning, f"{strategy}: nothing is said of {option.name}"
            if option.default:
                text = f"{option.name}={option.default}"
                read = read_settings((strategy,), [text], "here")
                assert read[option.name] == getattr(resolve(strategy), option.name)


def test_a_plan_is_made_again_as_it_was() -> None:
    problem = fan()
    options: dict[str, Any] = {"pins": {"n1": "b"}, "max_devices": 2}
    made = hetsim.plan(problem, "heft", **options)
    assert made.options == {"max_devices": "2", "pins": '{"n1":"b"}'}
    read = hetsim.Plan.from_json(made.to_json(), problem)
    assert again(read, problem).groups == made.groups
    assert Constrained.of(read) == Constrained(**options)
    assert again(read, problem, pins={"n1": "c"}).assignment[1] == 2


def test_less_memory_rules_out_what_no_strategy_checked() -> None:
    problem = Problem.from_arrays([[4.0, 1.0]] * 3, weight_bytes=[8] * 3, capacity_bytes=[50, 50])
    for strategy in ("hetero:d1", "single:d1"):
        row = hetsim.compare(problem, [strategy], capacity_bytes={"d1": 8}).rows[0]
        assert row.plan is None
        assert "device 'd1'" in str(row.reason)
    # With a second device on the list what does not fit goes there.
    plan = hetsim.plan(problem, "hetero:d1,d0", capacity_bytes={"d1": 8})
    assert plan.assignment.count(1) == 1


def test_the_priority_list_holds_to_pins() -> None:
    plan = hetsim.plan(fan(), "hetero", priority=("a", "b"), pins={"n2": "b"})
    assert plan.assignment == (0, 0, 1, 0, 0)
    assert plan.problem.seconds[2, 0] == 9.0


def test_an_activation_that_fits_nowhere_is_told() -> None:
    alone = Problem.from_arrays([[np.inf, 1.0]] * 2, edges=[(0, 1, 99)], capacity_bytes=[50, 50])
    with pytest.raises(OutOfMemory, match=r"device 'd1': .*proven.* needs 99 B"):
        hetsim.plan(alone, "heft")


def test_options_that_are_none_are_named_with_their_place() -> None:
    problem = Problem.from_arrays(np.ones((2, 2)), [(0, 1, 1)])
    with pytest.raises(UsageError, match="'moves' is given twice") as caught:
        read_settings(("local-search",), ["moves=1", "moves=2"], "--set")
    assert caught.value.where == "--set"
    for options, where, text in (
        ({"pins": {"n0": 3}}, "pins['n0']", "option pins is"),
        ({"max_devices": "two"}, None, "option max_devices is 'two'"),
        ({"capacity_bytes": {"d0": "x"}}, "capacity_bytes['d0']", "option capacity_bytes is"),
    ):
        with pytest.raises(UsageError) as wrong:
            hetsim.plan(problem, "heft", **options)  # type: ignore[arg-type]
        assert wrong.value.where == where
        assert text in str(wrong.value)
    for limit in (float("nan"), float("inf"), -1.0):
        with pytest.raises(UsageError, match="time_limit_s"):
            hetsim.plan(problem, "local-search", time_limit_s=limit)
