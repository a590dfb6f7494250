"""What another package's device, strategy or cost model raises or gives amiss is told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

import hetsim
from builders import BOX
from hetsim.core import plugins
from hetsim.cost.model import Estimate
from hetsim.cost.roofline import Roofline
from hetsim.device.device import Device, Support
from hetsim.errors import HetsimError, PluginError
from onnx_builders import make_model, op, value

MODEL = hetsim.model_of(
    make_model(
        [op("Relu", "x", "h", "relu"), op("Neg", "h", "y", "neg")], [value("x")], [value("y")]
    )
)


class Point:
    """An entry point of a package that is not installed."""

    class dist:  # noqa: N801
        name = "other"

    def __init__(self, found: object) -> None:
        self.found = found

    def load(self) -> object:
        return self.found


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a package add these objects: by group, under the name ``toy``."""

    def add(**groups: object) -> None:
        def found(group: str) -> dict[str, Any]:
            kind = group.removeprefix("hetsim.")
            return {"toy": (Point(groups[kind]),)} if kind in groups else {}

        monkeypatch.setattr(plugins, "_found", found)

    return add


def asks(package: Callable[..., None], **hooks: Any) -> hetsim.Problem:
    """Ask a device of another package that has these hooks."""
    package(devices=type("Toy", (Device,), hooks))
    box = hetsim.load_platform(BOX)
    devices = {**box.devices, "npu": replace(box.devices["npu"], backend="toy")}
    return hetsim.Problem.of(MODEL, replace(box, devices=devices))


def answer(**changes: Any) -> Callable[..., Support]:
    given = {"device": "npu", "supported": (True, True), "reasons": {}} | changes
    return lambda self, graph: Support(**given)


def fails(*args: Any, **kwargs: Any) -> Any:
    raise KeyError("inside")


@pytest.mark.parametrize(
    ("hooks", "says"),
    [
        ({"query_model": fails}, "'query_model' of 'toy' of hetsim.devices raised KeyError: 'ins"),
        ({"transform_graph": fails}, "'transform_graph' of 'toy' .* raised KeyError"),
        ({"unavailable": fails}, "'unavailable' of 'toy' .* raised KeyError"),
        ({"__init__": fails}, "'__init__' of 'toy' .* raised KeyError"),
        (
            {"unavailable": lambda self: "gone"},
            "'unavailable' .* returned 'gone', not None or two texts",
        ),
        (
            {"query_model": lambda self, graph: None},
            "'query_model' .* returned None, not a Support",
        ),
        (
            {"transform_graph": lambda self, graph: 3},
            "'transform_graph' .* returned 3, not a Graph",
        ),
        ({"query_model": answer(supported=(True,))}, "not a Support with a tuple of 2 answers"),
        ({"query_model": answer(supported=[True, True])}, "a tuple of 2 answers"),
        ({"query_model": answer(supported=(1, "x"))}, "whose answers are True or False"),
        ({"query_model": answer(supported=(True, False))}, "a reason for each node that is not"),
        ({"query_model": answer(composites=[3])}, "composites are a tuple of Match"),
        ({"tolerance": "x"}, "'tolerance' .* returned 'x', not a number from 0 on"),
        ({"tolerance": -1.0}, "'tolerance' .* returned -1.0, not a number from 0 on"),
        ({"exports": 3}, "'exports' .* returned 3, not True or False"),
    ],
)
def test_a_devices_hook_is_named(
    package: Callable[..., None], hooks: dict[str, Any], says: str
) -> None:
    with pytest.raises(PluginError, match=f"package 'other': .*{says}") as raised:
        asks(package, **hooks)
    assert raised.value.hint == "report it to the package's maintainers"


def test_a_device_that_answers_rightly_is_asked_as_any_other(package: Callable[..., None]) -> None:
    own = hetsim.Problem.of(MODEL, hetsim.load_platform(BOX))
    assert asks(package).seconds.tolist() == own.seconds.tolist()


@pytest.mark.parametrize(
    ("opened", "says"),
    [
        (fails, "'open' of 'toy' .* raised KeyError"),
        (lambda *a: 3, "'open' .* returned 3, not a Comp"),
    ],
)
def test_what_does_not_open_is_named_by_package_and_device(
    package: Callable[..., None], opened: Callable[..., Any], says: str
) -> None:
    problem = asks(package, open=opened, query_model=answer())
    plan = hetsim.Plan(problem, "by hand", (hetsim.Group("npu", (0, 1)),))
    with pytest.raises(HetsimError, match=f"device 'npu', .*{says}"):
        hetsim.run(plan, executor="threads")


@dataclass(frozen=True)
class Strategy:
    """A strategy of another package."""

    gives: Any = None

    def solve(self, problem: hetsim.Problem) -> Any:
        return fails() if self.gives == "fails" else self.gives


@pytest.mark.parametrize(
    ("gives", "says"),
    [
        ("fails", "'solve' of 'toy' of hetsim.strategies raised KeyError: 'inside'"),
        (3, "'solve' of 'toy' of hetsim.strategies returned 3, not a Plan"),
    ],
)
def test_a_strategys_hook_is_named(package: Callable[..., None], gives: Any, says: str) -> None:
    package(strategies=Strategy)
    problem = hetsim.Problem.of(MODEL, hetsim.load_platform(BOX))
    with pytest.raises(PluginError, match=f"package 'other': {says}"):
        hetsim.plan(problem, "toy", gives=gives)


def test_a_plan_of_a_copy_is_judged_by_the_problem(package: Callable[..., None]) -> None:
    package(strategies=Strategy)
    problem = hetsim.Problem.of(MODEL, hetsim.load_platform(BOX))
    halved = hetsim.plan(replace(problem, seconds=problem.seconds / 2), "heft")
    plan = hetsim.plan(problem, "toy", gives=halved)
    assert plan.problem is problem
    assert plan.groups == halved.groups


def estimate(**changes: Any) -> Callable[..., Estimate]:
    given = {"seconds": 1.0, "compute_s": 1.0, "memory_s": 0.0, "launch_s": 0.0}
    return lambda self, device, kernel: Estimate(**given | changes, provenance="toy")


@pytest.mark.parametrize(
    ("estimates", "says"),
    [
        (fails, "'estimate' of 'toy' of hetsim.cost_models raised KeyError: 'inside'"),
        (lambda *a: 3.0, "returned 3.0, not an Estimate"),
        (estimate(seconds="x"), "not an Estimate whose seconds is a finite number from 0 on"),
        (estimate(seconds=float("nan")), "whose seconds is a finite number"),
        (estimate(launch_s=-1.0), "whose launch_s is a finite number"),
    ],
)
def test_a_cost_models_hook_is_named(
    package: Callable[..., None], estimates: Callable[..., Any], says: str
) -> None:
    package(cost_models=type("Toy", (), {"estimate": estimates}))
    with pytest.raises(PluginError, match=f"package 'other': .*{says}"):
        hetsim.Problem.of(MODEL, hetsim.load_platform(BOX), cost="toy")


def test_a_whole_models_hooks_are_named(package: Callable[..., None]) -> None:
    class Whole(Roofline):
        def figures(self, *args: Any) -> Any:
            return None

        def likely(self, *args: Any) -> Any:
            return 3

        def of_works(self, *args: Any) -> Any:
            return self

    package(cost_models=Whole)
    box = hetsim.load_platform(BOX)
    with pytest.raises(PluginError, match=r"'likely' of 'toy' .* returned 3, not None or a Likely"):
        hetsim.Problem.of(MODEL, box, cost="toy")
    Whole.likely = lambda self, *args: None  # type: ignore[method-assign]
    own = hetsim.Problem.of(MODEL, box, cost="roofline")
    assert hetsim.Problem.of(MODEL, box, cost="toy").seconds.tolist() == own.seconds.tolist()
