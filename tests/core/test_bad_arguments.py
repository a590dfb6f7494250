"""Whatever the public functions are given, what comes back is an answer or a HetsimError."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim import backend
from hetsim.analysis import what_if
from hetsim.errors import HetsimError, InvalidInput
from hetsim.graph.reading.extension import load_extension
from hetsim.partitioning.affinity import Exclusion, affinity_of_model
from hetsim.partitioning.deconflict import deconflict
from hetsim.partitioning.housekeeping import Housekeeping
from hetsim.partitioning.regions import annotate
from hetsim.partitioning.sizes import SizeRules
from hetsim.placement.objective import max_load
from hetsim.problem.parts import Staging
from hetsim.problem.problem import Problem
from onnx_builders import make_model, op, value
from sweeps import sweep

NAN, INF = math.nan, math.inf


class Unprintable:
    """An object whose text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError


SMALL = Problem.from_arrays(
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]],
    [(0, 1, 4), (1, 2, 4)],
    devices=("cpu", "npu"),
    host=0,
    weight_bytes=[1, 1, 1],
    capacity_bytes=[100, 100],
    latency_s=0.1,
    bytes_per_s=10.0,
)
OTHER = Problem.from_arrays([[1.0, 2.0]] * 4, [(0, 1, 4)], devices=("cpu", "gpu"), host=0)
PROTO = make_model(
    [op("Relu", "x", "h", "relu"), op("Neg", "h", "y", "neg")], [value("x")], [value("y")]
)
MODEL = hetsim.model_of(PROTO)
LAPTOP = hetsim.load_platform("laptop")
PROBLEM = Problem.of(MODEL, LAPTOP)
PLAN = hetsim.plan(SMALL, "heft")
REAL = hetsim.plan(PROBLEM, "heft")
PART = hetsim.partition(SMALL)
REGIONS = annotate(SMALL)

BAD: tuple[Any, ...] = (
    None, -1, 99, 1.5, NAN, INF, True, "", "zzz", "a\0b", b"x", (), [], {}, {"a": 1}, {99}, [99],
    [-1], [NAN], [INF], ["x"], [None], [[1, 2]], [(1, 2)], [(0, 1, NAN)], [(0, 1, -5)],
    [(0, 1, 1.5)],
    [(0, 1, INF)], [("a", "b", 1)], [(0.5, 1, 1)], [(0, 1, None)], [(0, 1, 2, 3)], [0, 1],
    [0.5, 0, 0], [0, 0, 9], [0, 0, -1], [0, 0, None], [0, 0, 0, 0], (INF, INF), (NAN, NAN),
    (-1, -1), (0.5, 1), np.array([1, 2]), np.zeros((2, 2, 2)), np.array(["a"]),
    np.array([NAN, 1.0]), 3 + 4j, 10**30, object(), Unprintable(), int, range(3),
)  # fmt: skip

MORE: dict[str, tuple[Any, ...]] = {
    "plan": (hetsim.plan(OTHER, "heft"), hetsim.Plan(SMALL, "s", (hetsim.Group("cpu", (0,)),))),
    "problem": (OTHER, PROBLEM),
    "regions": (annotate(OTHER),),
    "resolution": (deconflict(annotate(OTHER)),),
    "timeline": (hetsim.simulate(hetsim.plan(OTHER, "heft")),),
    "dims": ({"n": 0}, {"n": 1.5}, {1: 1}, {"n": None}),
    "shapes": ({"x": 3}, {"x": [1.5, 2]}, {"x": "ab"}, {1: [1]}, {"x": [None, None]}),
    "inputs": ({"x": [1, 2]}, {"x": None}, {1: 1}, {"x": np.zeros(3)}),
    "pins": ({"n0": "tpu"}, {"n0": 3}, {1: "cpu"}, {"zz": "cpu"}, {"n0": None}),
    "exclude": ((Exclusion(5, (), ()),), (Exclusion("cpu", 5, ()),)),  # type: ignore[arg-type]
    "capacity_bytes": (
        {"cpu": NAN}, {"cpu": -1}, {"tpu": 5}, {"cpu": 1.5}, {"cpu": INF}, {"cpu": "a"}, {3: 5},
    ),
    "failures": ("kill cpu at 3ms", ["kill cpu at 3ms"], [hetsim.Failure("tpu", 0.0)]),
    "priority": ("cpu,,npu", ("cpu", 3), ("cpu", None), "cpu >> cpu"),
    "composites": (
        [(0, [0], NAN)], [(9, [0], 1.0)], [(0, [9], 1.0)], [(0, 5, 1.0)], [(0, [0])],
        [(0, [0], "x")],
    ),
    "tensors": ([(0, 1)], [(0, 4, 5)], [(0, 4, ("b",))], [(0, 4, (1.5,))], [(0, INF, (1,))]),
    "seconds": ([[1, 2], [1]], [["a", "b"]], [[None, 1]], [[-1, 1]], [[NAN, 1]], [1, 2], [[]]),
    "groups": (
        (hetsim.Group("cpu", (0, 1, 2)),) * 2,
        (hetsim.Group("tpu", (0, 1, 2)),),
        (hetsim.Group("cpu", (0, 1, 9)),),
        (hetsim.Group("cpu", (0, 1, -1)),),
        (hetsim.Group(["cpu"], (0, 1, 2)),),  # type: ignore[arg-type]
        (hetsim.Group("cpu", ("a",)),),  # type: ignore[arg-type]
        (hetsim.Group("cpu", 5),),  # type: ignore[arg-type]
    ),
}  # fmt: skip
"""Further values of an argument, whatever the function."""


def partitioned(record: Callable[..., Any], name: str) -> Callable[..., Any]:
    return lambda **fields: hetsim.partition(SMALL, **{name: record(**fields)})


def opened(**given: Any) -> None:
    with hetsim.Session(**given):
        pass


LIMITS: dict[str, Any] = {"pins": {}, "exclude": (), "max_devices": None, "capacity_bytes": {}}
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "from_arrays": (
        Problem.from_arrays,
        {
            "seconds": [[1.0, 2.0]] * 3, "edges": [(0, 1, 4)], "devices": ("a", "b"),
            "latency_s": 0.0, "bytes_per_s": 1.0, "weight_bytes": [1, 1, 1],
            "capacity_bytes": [9, 9], "host": 0,
            "contention": "none", "dispatch_s": 0.0, "streams": None, "composites": (),
            "staging": None, "name": "i",
        },
    ),
    "from_arrays by tensors": (
        Problem.from_arrays, {"seconds": [[1.0, 2.0]] * 3, "tensors": [(0, 4, (1, 2))]},
    ),
    "Problem.of": (
        Problem.of, {"model": MODEL, "platform": LAPTOP, "cost": "roofline", "contention": "fifo"},
    ),
    "partition": (
        hetsim.partition,
        {
            "problem": SMALL, "method": "compact", "assignment": None, "resolution": None,
            "regions": None, "priority": None, "affinity": None, "pins": {}, "exclude": (),
            "housekeeping": None, "sizes": None, "rank": None,
        },
    ),
    "annotate": (annotate, {"problem": SMALL}),
    "deconflict": (deconflict, {"regions": REGIONS, "priority": None}),
    "plan": (
        hetsim.plan,
        {"problem": SMALL, "strategy": "heft", "objective": "latency", "affinity": None, **LIMITS},
    ),
    "local-search": (
        lambda **options: hetsim.plan(SMALL, "local-search", **options),
        {"seed": 0, "objective": "latency"},
    ),
    "compare": (
        hetsim.compare,
        {
            "problem": SMALL, "strategies": ("single", "heft"), "objective": "latency",
            "affinity": None, **LIMITS,
        },
    ),
    "compare_platforms": (
        hetsim.compare_platforms,
        {
            "model": MODEL, "platforms": [LAPTOP], "strategies": ("single",),
            "objective": "latency", "execute": None, "runtime": None, "samples": 2, "seed": 0,
            "cost": "roofline", "contention": "fifo", "pessimistic": False,
        },
    ),
    "simulate": (
        hetsim.simulate,
        {
            "plan": PLAN, "requests": 1, "arrivals_s": None, "contention": None, "trace": True,
            "failures": (),
        },
    ),
    "lower_bound": (
        hetsim.lower_bound,
        {"problem": SMALL, "objective": "latency", "affinity": None, **LIMITS},
    ),
    "max_load": (max_load, {"problem": SMALL, "assignment": [0, 0, 0]}),
    "explain": (
        hetsim.explain,
        {"plan": PLAN, "objective": "latency", "strategies": ("single",)},
    ),
    "check_timeline": (
        hetsim.check_timeline,
        {"problem": SMALL, "plan": PLAN, "timeline": hetsim.simulate(PLAN), "bound_s": None},
    ),
    "load_model": (hetsim.load_model, {"source": "/none"}),
    "model_of": (
        hetsim.model_of,
        {
            "proto": PROTO, "name": "m", "weights_dir": None, "dims": None, "shapes": None,
            "inputs": None, "freeze": None, "canonical": "none", "extensions": (), "measure": True,
        },
    ),
    "load_platform": (hetsim.load_platform, {"source": "laptop"}),
    "load_device": (hetsim.load_device, {"source": "/none"}),
    "load_plan": (hetsim.load_plan, {"source": "/none", "problem": SMALL}),
    "load_affinity": (hetsim.load_affinity, {"source": "/none"}),
    "load_extension": (load_extension, {"source": "/none"}),
    "affinity_of_model": (affinity_of_model, {"problem": PROBLEM, "configuration": None}),
    "run": (
        hetsim.run,
        {
            "plan": REAL, "inputs": None, "executor": "threads", "timeout_s": 20.0, "verify": True,
            "seed": 0, "precision": "graph", "failures": (),
        },
    ),
    "Session": (
        opened,
        {
            "plan": REAL, "executor": "threads", "timeout_s": 20.0, "hang_s": None,
            "max_in_flight": 2, "max_restarts": 1, "max_losses": 2, "precision": "graph",
        },
    ),
    "Housekeeping": (
        partitioned(Housekeeping, "housekeeping"),
        {"mode": "follow", "ops": frozenset(), "nodes": None},
    ),
    "SizeRules": (
        partitioned(SizeRules, "sizes"),
        {"min_nodes": 1, "max_groups": None, "max_nodes_per_group": None, "fit_weights": False},
    ),
    "Affinity": (
        partitioned(hetsim.Affinity, "affinity"),
        {"pins": {}, "exclude": (), "priority": None, "default": None},
    ),
    "Failure": (
        lambda **fields: hetsim.simulate(REAL, failures=[hetsim.Failure(**fields)]),
        {"device": "npu", "at_s": 0.1, "kind": "kill", "for_s": None},
    ),
    "Staging": (
        lambda **fields: Problem.from_arrays([[1.0, 2.0]], staging=Staging(**fields)),
        {"fetch_s_per_byte": (0.0, 0.0), "store_s_per_byte": (0.0, 0.0)},
    ),
    "Plan": (
        lambda **fields: hetsim.Plan(**fields).validate(),
        {"problem": SMALL, "strategy": "s", "groups": PLAN.groups},
    ),
    "wider_link": (what_if.wider_link, {"problem": PROBLEM, "name": "cpu-gpu", "factor": 2.0}),
    "faster_device": (what_if.faster_device, {"problem": PROBLEM, "device": 0, "factor": 2.0}),
    "Partition.explain": (PART.explain, {"u": 0, "v": 1}),
    "Plan.save": (PLAN.save, {"path": "/none/x"}),
    "device_index": (SMALL.device_index, {"name": "cpu"}),
    "backend": (
        lambda **given: backend.prepare(PROTO, devices=given.pop("devices", 2)).run(**given),
        {"inputs": [np.zeros((2, 3), np.float32)], "devices": 2},
    ),
    "backend.prepare": (backend.prepare, {"model": PROTO, "device": "CPU"}),
}  # fmt: skip
"""A call that is right, argument by argument."""


PARTS = 3
"""Of the values, one for an argument each time, another for the next."""


def raises_errors_of_ours(
    function: Callable[..., Any],
    right: Mapping[str, Any],
    argument: str,
    bad: Iterable[Any],
) -> None:
    """Try all of `bad` for one argument of a call that is right."""
    for wrong in bad:
        try:
            function(**{**right, argument: wrong})
        except HetsimError:
            continue
        except Exception as error:
            pytest.fail(f"{argument}={type(wrong).__name__}: {type(error).__name__}: {error}")


@sweep("name, part", quick=[(name, 0) for name in CALLS], full=product(CALLS, range(PARTS)))
def test_any_argument_gives_an_answer_or_an_error_of_ours(
    name: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A plan is saved where a text says.
    monkeypatch.chdir(tmp_path)
    function, right = CALLS[name]
    for at, argument in enumerate(right):
        bad = BAD[(part + at) % PARTS :: PARTS]
        raises_errors_of_ours(function, right, argument, (*bad, *MORE.get(argument, ())))


def test_right_arguments_of_other_types_are_taken() -> None:
    part = hetsim.partition(SMALL, assignment=np.array([0, 1, 1]), rank=np.array([0.0, 1.0, 2.0]))
    assert [group.nodes for group in part.groups] == [(0,), (1, 2)]
    assert all(type(v) is int for group in part.groups for v in group.nodes)
    same = Problem.from_arrays(
        np.ones((2, 2), np.float32),
        iter([(np.int64(0), np.int32(1), 4.0)]),
        capacity_bytes=np.array([1e9, 2e9]),
        host=np.int64(1),  # type: ignore[arg-type]
    )
    assert (same.capacity_bytes, same.host) == ((10**9, 2 * 10**9), 1)
    assert hetsim.plan(same, "local-search", seed=np.int64(3)).options == {"seed": "3"}
    with pytest.raises(InvalidInput, match="problem is <Unprintable>, not a Problem"):
        hetsim.partition(Unprintable())  # type: ignore[arg-type]


def test_an_old_keyword_names_the_new_one() -> None:
    with pytest.raises(TypeError, match="no keyword 'draws'; it is 'samples' now"):
        hetsim.compare(SMALL, ["heft"], draws=0)
