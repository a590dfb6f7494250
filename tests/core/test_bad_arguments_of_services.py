"""Whatever the functions and records of services, sessions and files are given: as in its sister.

No function of the package's face is left out of the two.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hetsim
from core.test_bad_arguments import CALLS as OTHERS
from core.test_bad_arguments import (
    INF,
    LAPTOP,
    NAN,
    PARTS,
    PROBLEM,
    PROTO,
    REAL,
    SMALL,
    Unprintable,
    raises_errors_of_ours,
)
from hetsim.errors import HetsimError
from hetsim.partitioning.affinity import Exclusion
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import Served
from sweeps import sweep

BAD: tuple[Any, ...] = (
    -1, 1.5, NAN, INF, True, "", "zzz", b"x", (), {"a": 1}, [99], ["x"], [None],
    np.array([1, 2]), np.array(["a"]), 3 + 4j, 10**30, object(), Unprintable(),
)  # fmt: skip

OBJECTIVE = hetsim.Slo(0.9, 1.0)
Call = tuple[Callable[..., Any], dict[str, Any]]


@pytest.fixture(scope="module")
def session() -> Iterator[hetsim.Session]:
    with hetsim.Session(REAL, executor="threads") as session:
        yield session


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "m.onnx"
    onnx.save(PROTO, path)
    return str(path)


def stream_of(path: str, **changes: Any) -> hetsim.Stream:
    given = {"name": "s", "model": path, "arrivals": Poisson(100.0), "slos": (OBJECTIVE,)}
    return hetsim.Stream(**given | changes)


@pytest.fixture(scope="module")
def calls(session: hetsim.Session, model: str) -> dict[str, Call]:
    """A call that is right, argument by argument."""
    stream = stream_of(model)
    workload = hetsim.Workload((stream,), requests=5)
    deployment = hetsim.Deployment((Served(model, strategy="single"),))
    services = {"deployment": deployment, "workload": workload, "platform": LAPTOP}
    none = dict.fromkeys(("tariff_usd_per_kwh", "depreciation_years", "prices", "demand"))

    def played(**changes: Any) -> object:
        given = {"streams": (stream,), "requests": 5} | changes
        return hetsim.simulate(deployment, hetsim.Workload(**given), platform=LAPTOP)

    def opened(**given: Any) -> None:
        hetsim.Session(REAL, executor="threads", **given).close()

    return {
        "simulate": (
            lambda deployment, workload, **given: hetsim.simulate(deployment, workload, **given),
            {**services, "until_answered": False, "within": None},
        ),
        "capacity": (
            hetsim.capacity,
            {
                "deployments": deployment, "workload": workload, "platform": LAPTOP,
                "most_requests": 100, "gap": 0.5, "losses": 0,
            },
        ),
        "availability": (
            hetsim.availability,
            {
                **services, "target": 0.9, "available": {"cpu": 0.9, "gpu": 0.9, "npu": 0.9},
                "until_answered": False,
            },
        ),
        "survive": (hetsim.survive, {**services, "losses": 1, "until_answered": False}),
        "recommend": (
            hetsim.recommend,
            {
                "workload": workload, "catalog": "laptop", "objective": "devices",
                "max_devices": 1, "most_requests": 100, "samples": 0, "losses": 0, **none,
            },
        ),
        "place": (
            hetsim.place,
            {
                "workload": workload, "platform": LAPTOP, "batchings": (),
                "strategies": ("single",), "routing": None, "most": 1,
            },
        ),
        "serve": (
            lambda **given: hetsim.serve(**{"executor": "threads"} | given),
            {
                "deployment": session, "workload": None, "inputs": None, "address": None,
                "time_scale": None, "timeout_s": None, "verify": True, "seed": 0,
            },
        ),
        "sweep": (
            hetsim.sweep,
            {"grid": None, "out": "/none", "executor": "threads", "front": (), "tell": None},
        ),
        "lint": (
            hetsim.lint,
            {
                "problem": PROBLEM, "strategy": "single", "device": None, "least": 0.0,
                "objective": "latency", "affinity": None,
            },
        ),
        "nodes": (hetsim.nodes, {"asked": PROBLEM, "device": None}),
        "sensitivities": (hetsim.sensitivities, {"plan": REAL, "objective": "latency"}),
        "what_if": (
            lambda platform, change, without: hetsim.what_if(platform, change, without=without),
            {"platform": LAPTOP, "change": "gpu.memory =64GB", "without": ()},
        ),
        "load_workload": (hetsim.load_workload, {"source": "/none"}),
        "load_deployment": (hetsim.load_deployment, {"source": "/none"}),
        "load_grid": (hetsim.load_grid, {"source": "/none"}),
        "load_catalog": (hetsim.load_catalog, {"source": "laptop"}),
        "Workload": (
            played,
            {
                "streams": (stream,), "duration_s": 0.1, "requests": 5, "warm_up_s": 0.0,
                "seed": 0, "arrivals": None, "failures": None,
            },
        ),
        "Workload.faster": (workload.faster, {"speedup": 2.0}),
        "Stream": (
            lambda **given: played(streams=(stream_of(model, **given),)),
            {"name": "s", "model": model, "arrivals": Poisson(100.0), "slos": (), "dims": {}},
        ),
        "Slo": (hetsim.Slo, {"share": 0.9, "latency_s": 1.0}),
        "Slo.at_percentile": (hetsim.Slo.at_percentile, {"percentile": 99, "latency_s": 1.0}),
        "Deployment": (hetsim.Deployment, {"models": deployment.models}),
        "Failing": (
            lambda **given: played(failures=hetsim.Failing(**given)),
            {"injected": (), "mtbf_s": None, "mttr_s": None, "times": "exponential"},
        ),
        "Group": (
            lambda **given: hetsim.Plan(SMALL, "s", (hetsim.Group(**given),)).validate(),
            {"device": "cpu", "nodes": (0, 1, 2)},
        ),
        "Exclusion": (
            lambda **given: hetsim.partition(SMALL, exclude=(Exclusion(**given),)),
            {"device": "cpu", "ops": (), "nodes": ()},
        ),
        "Session": (opened, {"trace": False, "timeout_s": 20.0, "max_in_flight": 1}),
        "Session.run": (session.run, {"inputs": None, "seed": 0, "timeout_s": 20.0}),
        "Session.run_async": (
            lambda **given: session.run_async(**given).result(),
            {"inputs": None, "seed": 0, "timeout_s": 20.0, "wait": True},
        ),
        "Session.inject": (session.inject, {"failures": ()}),
        "Request.result": (
            lambda **given: session.run_async().result(**given), {"timeout_s": 20.0}
        ),
        "run": (
            lambda **given: hetsim.run(REAL, executor="threads", **given), {"plain": False}
        ),
    }  # fmt: skip


NAMES = (
    "simulate", "capacity", "availability", "survive", "recommend", "place", "serve", "sweep",
    "lint", "nodes", "sensitivities", "what_if", "load_workload", "load_deployment", "load_grid",
    "load_catalog", "Workload", "Workload.faster", "Stream", "Slo", "Slo.at_percentile",
    "Deployment", "Failing", "Group", "Exclusion", "Session", "Session.run", "Session.run_async",
    "Session.inject", "Request.result", "run",
)  # fmt: skip

ANSWERS = {
    "Availability", "Capacity", "Comparison", "Explanation", "Lint", "LoadTest", "Model", "Nodes",
    "Partition", "Placement", "PlatformComparison", "Problem", "Recommendation", "Run", "Service",
    "Survived", "Timeline", "DeviceSpec", "Platform",
}  # fmt: skip
"""Records that functions give, or that files are read to."""

WITHOUT_ARGUMENTS = {"methods", "strategies"}


LONG = ("capacity", "recommend")
"""Those of which every right call is a search."""


@sweep(
    "name, part",
    quick=[(name, 0) for name in NAMES if name not in LONG],
    full=product(NAMES, range(PARTS)),
)
def test_any_argument_gives_an_answer_or_an_error_of_ours(
    name: str, part: int, calls: dict[str, Call], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function, right = calls[name]
    for at, argument in enumerate(right):
        raises_errors_of_ours(function, right, argument, BAD[(part + at) % PARTS :: PARTS])


@pytest.mark.parametrize(
    ("name", "argument", "wrong"),
    [
        ("capacity", "deployments", {"a": 1}),
        ("availability", "available", [0.5]),
        ("recommend", "catalog", 3),
        ("recommend", "slos", "p99=50ms"),
        ("recommend", "slos", ["p99=50ms"]),
        ("recommend", "execute", {"npu": "int8"}),
        ("place", "batchings", [3]),
        ("place", "strategies", "heft"),
        ("place", "routing", "random"),
        ("Workload", "failures", [1]),
        ("Failing", "injected", 3),
        ("Workload.faster", "speedup", "x"),
        ("Session", "timeout_s", "x"),
        ("Session", "timeout_s", 0),
        ("Session", "max_in_flight", 2.0),
        ("Session", "trace", "x"),
        ("Session.run", "timeout_s", "x"),
        ("Session.run", "inputs", [1]),
        ("Session.run", "seed", "x"),
        ("Session.run_async", "wait", "x"),
        ("Session.inject", "failures", 3),
        ("Request.result", "timeout_s", "x"),
        ("Request.result", "timeout_s", 1e30),
        ("run", "plain", "x"),
    ],
)
def test_the_argument_is_named(
    name: str, argument: str, wrong: object, calls: dict[str, Call]
) -> None:
    function, right = calls[name]
    with pytest.raises(HetsimError, match=rf"(^|\W){argument}\b"):
        function(**{**right, argument: wrong})


def test_no_function_of_the_face_is_left_out(calls: dict[str, Call]) -> None:
    assert set(NAMES) == set(calls)
    face = {name: getattr(hetsim, name) for name in hetsim.__all__}
    callables = {
        name
        for name, found in face.items()
        if callable(found) and not (inspect.isclass(found) and issubclass(found, HetsimError))
    }
    tried = {*OTHERS, *calls}
    assert callables - tried == ANSWERS | WITHOUT_ARGUMENTS
    assert all(is_dataclass(face[name]) or inspect.isclass(face[name]) for name in ANSWERS)
    assert not any(inspect.signature(face[name]).parameters for name in WITHOUT_ARGUMENTS)
