"""What the clock says to bad requests and bad plans."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import hetsim
from deployments import deployed, poisson
from hetsim.errors import (
    HetsimError,
    Infeasible,
    InvalidInput,
    NoRoute,
    OutOfMemory,
    PlanError,
    UnsupportedNode,
    UsageError,
)
from hetsim.hardware.spec import Route
from hetsim.problem.plan import Plan
from hetsim.simulation.simulate import arrivals, simulate
from hetsim.workload.failure import Failing
from oracles.clock_plans import on, two_devices


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"requests": 0}, "0 requests"),
        ({"requests": 1.5}, "whole number"),
        ({"arrivals_s": []}, "shape"),
        ({"arrivals_s": [[0.0]]}, "shape"),
        ({"arrivals_s": ["soon"]}, "not numbers"),
        ({"arrivals_s": [0.0, -1.0]}, "negative"),
        ({"arrivals_s": [math.nan]}, "negative or infinite"),
        ({"arrivals_s": [0.0, math.inf]}, "negative or infinite"),
        ({"arrivals_s": [0.0, 2.0, 1.0]}, "ascend at index 2"),
        ({"requests": 3, "arrivals_s": [0.0, 1.0]}, "3 requests but 2 arrivals"),
        ({"contention": "lottery"}, "lottery"),
    ],
)
def test_bad_requests(options: dict[str, object], message: str) -> None:
    plan = on(two_devices(), ("gpu", (0, 1)))
    expected = InvalidInput if "contention" in options else UsageError
    with pytest.raises(expected, match=message):
        simulate(plan, **options)  # type: ignore[arg-type]


def test_bad_plans() -> None:
    problem = two_devices(capacity_bytes=[150, 250], weight_bytes=[100, 100])
    assert problem.capacity_bytes is not None
    lost = dataclasses.replace(problem, routes=((Route(0, 1), Route(math.inf, 1)),) * 2)
    lacking = dataclasses.replace(
        problem,
        seconds=np.array([[4.0, math.inf], [2.0, 2.0]]),
        refusals=({}, {0: "op Conv is not listed"}),
    )
    whole = ("gpu", (0, 1))
    cases: list[tuple[type[HetsimError], str, Plan]] = [
        (PlanError, "'n1' is in no group", on(problem, ("gpu", (0,)))),
        (PlanError, "stands before group 1", on(problem, ("gpu", (1,)), ("cpu", (0,)))),
        (PlanError, "unknown device 'tpu'", on(problem, ("tpu", (0, 1)))),
        (UnsupportedNode, "node 'n0'.*op Conv is not listed.*cpu", on(lacking, whole)),
        (OutOfMemory, "device 'cpu': needs.*200.*150", on(problem, ("cpu", (0, 1)))),
        (Infeasible, "value 't0': no route", on(lost, whole)),
    ]
    for kind, message, plan in cases:
        for trace in (True, False):
            with pytest.raises(kind, match=message):
                simulate(plan, trace=trace)


def test_what_a_device_cannot_run_is_named_with_those_that_can() -> None:
    problem = dataclasses.replace(
        two_devices(),
        seconds=np.array([[4.0, math.inf], [math.inf, math.inf]]),
        node_names=("conv1", "relu1"),
        op_types=("Conv", "Relu"),
        refusals=({}, {0: "op Conv is not listed"}),
    )
    plan = on(problem, ("cpu", (0,)), ("gpu", (1,)))
    with pytest.raises(UnsupportedNode, match="no reason given") as caught:
        simulate(plan)
    error = caught.value
    assert (error.nodes, error.ops, error.devices) == (("relu1",), ("Relu",), ("gpu",))
    assert error.hint == "no device supports it"
    with pytest.raises(UnsupportedNode, match="op Conv is not listed") as caught:
        simulate(on(problem, ("gpu", (0, 1))))
    assert caught.value.hint == "assign it to cpu"
    assert (caught.value.nodes, caught.value.where) == (("conv1",), "node 'conv1'")
    # Without names and reasons, by its number.
    bare = dataclasses.replace(problem, node_names=(), op_types=(), refusals=())
    with pytest.raises(UnsupportedNode, match="no reason given") as caught:
        simulate(on(bare, ("gpu", (0, 1))))
    assert (caught.value.nodes, caught.value.ops) == (("0",), ())


@pytest.mark.parametrize(("way", "value"), [((0, 1), "t0"), ((1, 0), "t1")])
def test_a_value_without_a_route_is_named_with_its_ends(way: tuple[int, int], value: str) -> None:
    problem = two_devices()
    table = [list(row) for row in problem.routes]
    table[way[0]][way[1]] = Route(math.inf, 1)
    cut = dataclasses.replace(problem, routes=tuple(map(tuple, table)))
    with pytest.raises(NoRoute, match=f"value '{value}'") as caught:
        simulate(on(cut, ("gpu", (0,)), ("cpu", (1,))))
    ends = [problem.devices[end] for end in way]
    assert [caught.value.source, caught.value.target] == ends
    # What does not go that way needs no route.
    simulate(on(cut, ("cpu", (0, 1))))


@pytest.mark.parametrize(
    ("capacity", "device", "needed", "few"),
    [
        ([215, 108], "gpu", 109, "assign fewer nodes to it, or allow fewer requests in flight"),
        ([214, 109], "cpu", 215, "assign fewer nodes to it, or allow fewer requests in flight"),
        ([200, 99], "gpu", 100, "assign fewer nodes to it"),
        ([199, 99], "cpu", 200, "assign fewer nodes to it"),
    ],
)
def test_a_device_without_room_is_named_with_what_it_needs(
    capacity: list[int], device: str, needed: int, few: str
) -> None:
    """Weights of 100 and 200 bytes, with values 109 and 215; weights alone are looked at first."""
    weights = {"weight_bytes": [100, 200]}
    place = ("gpu", (0,)), ("cpu", (1,))
    simulate(on(two_devices(**weights, capacity_bytes=[215, 109]), *place))
    problem = two_devices(**weights, capacity_bytes=capacity)
    with pytest.raises(OutOfMemory) as caught:
        simulate(on(problem, *place))
    error = caught.value
    assert problem.capacity_bytes is not None
    has = problem.capacity_bytes[problem.devices.index(device)]
    assert (error.device, error.needed_bytes, error.held_bytes) == (device, needed, has)
    assert error.hint == few
    assert f"({needed} bytes; weights {200 if device == 'cpu' else 100} B)" in error.what


def test_what_is_of_a_deployment_is_not_of_a_plan() -> None:
    plan = on(two_devices(), ("gpu", (0, 1)))
    platform = hetsim.load_platform("laptop")
    workload = poisson("zoo:squeezenet", 10.0, 5)
    for options in (
        {"platform": platform},
        {"until_answered": True},
        {"within": 0.1},
        {"requests": workload},
    ):
        with pytest.raises(UsageError, match="a workload, platform, until_answered and within"):
            simulate(plan, **options)  # type: ignore[call-overload]


def test_what_is_of_a_plan_is_not_of_a_deployment() -> None:
    platform = hetsim.load_platform("laptop")
    deployment, workload = deployed("zoo:squeezenet"), poisson("zoo:squeezenet", 10.0, 5)
    for options in (
        {"arrivals_s": [0.0]},
        {"contention": "fifo"},
        {"sustained": True},
        {"trace": False},
    ):
        with pytest.raises(UsageError, match="arrivals_s, contention, trace and sustained"):
            simulate(deployment, workload, platform=platform, **options)  # type: ignore[call-overload]
    for requests, where in ((3, platform), (workload, None), (1, None)):
        with pytest.raises(UsageError, match="needs a workload and a platform"):
            simulate(deployment, requests, platform=where)  # type: ignore[call-overload]


def test_failures_of_a_deployment_are_beside_those_of_its_workload() -> None:
    platform = hetsim.load_platform("laptop")
    deployment = deployed("zoo:squeezenet")
    workload = poisson("zoo:squeezenet", 10.0, 5)
    one, other = hetsim.Failure("gpu", 0.1), hetsim.Failure("npu", 0.2)
    told = dataclasses.replace(workload, failures=Failing((one,)))
    for asked, more, injected in (
        (told, [other], (one, other)),
        (workload, [one, other], (one, other)),
        (told, [], (one,)),
    ):
        found = simulate(deployment, asked, platform=platform, failures=more)
        assert found.workload.failures == Failing(injected)
        assert dataclasses.replace(found.workload, failures=None) == workload
    assert simulate(deployment, workload, platform=platform).workload.failures is None


def test_so_many_requests_come_at_once() -> None:
    assert arrivals(3, None).tolist() == [0.0, 0.0, 0.0]
    assert arrivals(1, [2.0, 2.0]).tolist() == arrivals(2, [2.0, 2.0]).tolist() == [2.0, 2.0]
    with pytest.raises(UsageError, match="too many to simulate"):
        arrivals(1 << 62, None)
