"""Problems from arrays, argument by argument: what each becomes, and how it is refused."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import numpy as np
import pytest

from hetsim.errors import InvalidInput
from hetsim.hardware.spec import Route
from hetsim.problem.parts import FusedKernel, Staging, StoredConstant, Value
from hetsim.problem.problem import Problem

TWO = [[1.0, 2.0], [3.0, math.inf], [0.0, 4.0]]
"""Seconds of three nodes on two devices."""


def test_what_is_not_said_is_free_and_named_by_number() -> None:
    problem = Problem.from_arrays(TWO)
    assert problem.devices == ("d0", "d1")
    assert problem.node_names == ("n0", "n1", "n2")
    assert problem.op_types == ("Task",) * 3
    assert problem.origins == (("n0",), ("n1",), ("n2",))
    assert (problem.values, problem.constants, problem.fused) == ((), (), ())
    assert (problem.host, problem.staging, problem.capacity_bytes) == (None, None, None)
    assert (problem.dispatch_s, problem.streams) == ((0.0, 0.0), (1, 1))
    assert (problem.idle_w, problem.busy_w) == ((0.0, 0.0), (0.0, 0.0))
    assert problem.refusals == ({}, {1: "inf in seconds"})
    assert problem.evidence == ()
    for p in range(2):
        assert problem.routes[p][p].seconds(10**9) == 0.0
        assert problem.routes[p][1 - p].seconds(10**9) == 0.0
    assert Problem.from_arrays(np.zeros((0, 1))).n == 0


def test_each_pair_of_devices_has_a_link_of_its_own_each_way() -> None:
    latency = np.array([[9.0, 1.0, 2.0], [3.0, 9.0, 0.0], [5.0, 6.0, 9.0]])
    speed = np.array([[0.0, 8.0, 16.0], [32.0, 0.0, math.inf], [4.0, 2.0, 0.0]])
    problem = Problem.from_arrays([[1.0] * 3], latency_s=latency, bytes_per_s=speed)
    assert len(set(problem.link_names)) == 6
    for p in range(3):
        for q in range(3):
            route = problem.routes[p][q]
            if p == q:
                assert route == Route(0.0, math.inf)
                continue
            assert (route.latency_s, route.bytes_per_s) == (latency[p, q], speed[p, q])
            assert [problem.link_names[at] for at in route.resources] == [f"d{p}>d{q}"]


@pytest.mark.parametrize("way", [list, iter, np.array])
def test_edges_are_values_of_one_reader_in_graph_order(way: Any) -> None:
    for seed in range(30):
        rng = random.Random(seed)
        n = rng.randint(2, 9)
        pairs = [(u, v) for v in range(n) for u in range(v) if rng.random() < 0.4]
        edges = [(u, v, rng.choice((0, 5, 2**40))) for u, v in pairs] or [(0, 1, 3)]
        rng.shuffle(edges)
        problem = Problem.from_arrays([[1.0]] * n, way(edges))
        assert problem.values == tuple(
            Value(f"n{u}:n{v}", nbytes, u, (v,)) for u, v, nbytes in sorted(edges)
        )
        assert all(type(value.nbytes) is int for value in problem.values)


def test_tensors_weights_and_kernels_are_kept_as_they_are_told() -> None:
    staging = Staging((0.0, 0.5), (0.25, 0.0))
    problem = Problem.from_arrays(
        TWO,
        tensors=[(-1, 0, [2, 0, 2]), (0, 7, (2, 1)), (2, 1, [])],
        weight_bytes=[0, 5, 2**40],
        capacity_bytes=[0, 2**41],
        composites=[(1, (2, 1), 0), (0, [0], 1.5), (1, [0], 2)],
        streams=[1, 3],
        dispatch_s=[0.0, 0.5],
        staging=staging,
        sd=0.25,
        host=1,
        devices=["cpu", "npu"],
        name="mine",
        contention="none",
    )
    assert problem.values == (
        Value("t0", 0, -1, (0, 2)), Value("t1", 7, 0, (1, 2)), Value("t2", 1, 2, (), is_output=True)
    )  # fmt: skip
    assert problem.constants == (StoredConstant("w1", 5, (1,)), StoredConstant("w2", 2**40, (2,)))
    assert problem.capacity_bytes == (0, 2**41)
    assert problem.fused == (
        FusedKernel(1, (1, 2), 0.0, "composite0"), FusedKernel(0, (0,), 1.5, "composite1"),
        FusedKernel(1, (0,), 2.0, "composite2"),
    )  # fmt: skip
    assert (problem.streams, problem.dispatch_s, problem.staging) == ((1, 3), (0.0, 0.5), staging)
    assert [(e.name, e.of, e.sd) for e in problem.evidence] == [
        ("cpu", "cpu", 0.25), ("npu", "npu", 0.25)
    ]  # fmt: skip
    assert (problem.host, problem.devices, problem.name) == (1, ("cpu", "npu"), "mine")
    assert problem.contention == "none"
    one_vague = Problem.from_arrays(TWO, sd=[0.0, 0.5])
    assert [e.sd for e in one_vague.evidence] == [0.0, 0.5]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seconds": 1.0}, "seconds has shape (); give [nodes, devices]"),
        ({"seconds": np.zeros((2, 0))}, "seconds has shape (2, 0); give [nodes, devices]"),
        ({"seconds": [[1.0, -1e-9]]},
         "seconds has negative or NaN entries; use inf where unsupported"),
        ({"seconds": [[math.nan, 1.0]]},
         "seconds has negative or NaN entries; use inf where unsupported"),
        ({"devices": ["a", "b", "c"]}, "3 device names for 2 columns, or not unique"),
        ({"devices": ["a", ""]}, "devices[1] is empty"),
        ({"host": 2}, "host is 2"),
        ({"host": -1}, "host is -1"),
        ({"edges": [], "tensors": []}, "both edges and tensors are given; give one of them"),
        ({"edges": [(1, 1, 4)]}, "edge (1, 1) does not ascend within 0 .. 2"),
        ({"edges": [(1, 3, 4)]}, "edge (1, 3) does not ascend within 0 .. 2"),
        ({"edges": [(-1, 2, 4)]}, "edge (-1, 2) does not ascend within 0 .. 2"),
        ({"edges": [(0, 2, 4), (0, 1, 1), (0, 2, 4)]},
         "edge (0, 2) is given twice; add their bytes"),
        ({"tensors": [(3, 4, ())]}, "tensor 0 has producer 3; use -1 .. 2"),
        ({"tensors": [(-2, 4, (0,))]}, "tensor 0 has producer -2; use -1 .. 2"),
        ({"tensors": [(0, 1, (1,)), (1, 4, (1, 2))]},
         "tensor 1: consumers (1, 2) do not follow 1"),
        ({"tensors": [(1, 4, (3,))]}, "tensor 0: consumers (3,) do not follow 1"),
        ({"tensors": [(-1, 4, ())]}, "tensor 0 is an input that nobody reads"),
        ({"latency_s": -1e-9}, "latency -1e-09 from d0 to d1; use 0 or more"),
        ({"latency_s": [[0, 0], [math.inf, 0]]}, "latency inf from d1 to d0; use 0 or more"),
        ({"bytes_per_s": 0}, "bandwidth 0.0 from d0 to d1; above 0"),
        ({"bytes_per_s": math.nan}, "bandwidth nan from d0 to d1; above 0"),
        ({"bytes_per_s": [[1.0, 2.0]]}, "bytes_per_s has shape (1, 2); give a number or [2, 2]"),
        ({"latency_s": [0.0, 1.0]}, "latency_s has shape (2,); give a number or [2, 2]"),
        ({"weight_bytes": [1, 2]}, "weight_bytes has 2 entries, not 3"),
        ({"edges": [(0, 1, 2**61)], "weight_bytes": [2**61, 0, 1]},
         "problem 'instance': values and weights take more than 4.61e+18 bytes in all"),
        ({"capacity_bytes": [1]}, "capacity_bytes has 1 entries, not 2"),
        ({"streams": [1]}, "streams has 1 entries, not 2"),
        ({"streams": [1, 0]}, "streams[1] is 0"),
        ({"composites": [(2, (0,), 1.0)]}, "composite 0: its device is 2"),
        ({"composites": [(-1, (0,), 1.0)]}, "composite 0: its device is -1"),
        ({"composites": [(0, (), 1.0)]}, "composite 0: nodes () are not among 0 .. 2"),
        ({"composites": [(0, (1, 3), 1.0)]}, "composite 0: nodes (1, 3) are not among 0 .. 2"),
        ({"composites": [(0, (-1, 1), 1.0)]}, "composite 0: nodes (-1, 1) are not among 0 .. 2"),
        ({"composites": [(1, (0, 1), 1.0), (0, (1,), 1.0), (1, (1, 2), 1.0)]},
         "composite 2: node 1 is in two composites of device 1; composites of one device must not"),
        ({"composites": [(0, (1,), -1.0)]}, "composite 0: its seconds is -1.0"),
        ({"staging": Staging((0.0,), (0.0, 0.0))}, "staging.fetch_s_per_byte has 1 entries, not 2"),
        ({"staging": Staging((0.0, 0.0), (0.0, -1.0))}, "staging.store_s_per_byte[1] is -1.0"),
        ({"contention": "fofi"}, "unknown contention 'fofi'; choose from: fifo, none"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(said)}"):
        Problem.from_arrays(**{"seconds": TWO, **change})


@pytest.mark.parametrize("name", ["dispatch_s", "sd"])
@pytest.mark.parametrize("value", [-1e-9, math.inf, math.nan, [0.1], [0.1, 0.2, 0.3], [[0.1, 0.2]]])
def test_figures_by_device_are_finite_and_from_0_on(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=name):
        Problem.from_arrays(TWO, **{name: value})
    for fits in (0, 0.5, [0.0, 2.0]):
        made: Any = Problem.from_arrays(TWO, **{name: fits})
        given = made.dispatch_s if name == "dispatch_s" else [e.sd for e in made.evidence]
        assert list(given) == (
            np.broadcast_to(fits, 2).tolist() if np.any(fits) or name != "sd" else []
        )
