"""What the clock says to bad requests and bad plans."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from hetsim.errors import (
    HetsimError,
    Infeasible,
    InvalidInput,
    OutOfMemory,
    PlanError,
    UnsupportedNode,
    UsageError,
)
from hetsim.hardware.spec import Route
from hetsim.plans.plan import Plan
from hetsim.simulation.simulate import simulate
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
