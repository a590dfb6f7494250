"""What a partition says: why nodes are where they are, what was dropped, and what cannot be."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.errors import HetsimError, InvalidInput, UnsupportedNode, UsageError
from hetsim.graph.dag import Dag
from hetsim.partitioning.affinity import Affinity, Asked, Exclusion, with_wishes
from hetsim.partitioning.deconflict import Resolution, deconflict, device_order
from hetsim.partitioning.flow import as_resolution, partition
from hetsim.partitioning.housekeeping import Housekeeping
from hetsim.partitioning.record import COLOURS, to_dot, to_mermaid
from hetsim.partitioning.regions import Quotient, Region, annotate
from hetsim.problem.groups import Group, as_groups, component_counts, owners
from hetsim.problem.parts import Held
from hetsim.problem.problem import Problem

INF = float("inf")
NAMES = ("npu", "gpu", "cpu")


def chain(seconds: list[list[float]], **given: Any) -> Problem:
    edges = [(v, v + 1, 4) for v in range(len(seconds) - 1)]
    return Problem.from_arrays(seconds, edges, devices=NAMES, host=2, **given)


PLAIN = chain([[1.0, 2.0, 9.0], [INF, 2.0, 9.0], [INF, INF, 9.0], [1.0, 2.0, 9.0]], name="arrays")


def test_each_node_on_the_default_device_has_its_reason() -> None:
    assert partition(PLAIN).left == {2: "npu: inf in seconds; gpu: inf in seconds"}
    pins = {"n0": "cpu", "n2": "cpu", "n3": "gpu"}
    assert partition(PLAIN, pins=pins).left == {0: "pinned to it", 2: "pinned to it"}
    away = partition(PLAIN, exclude=[Exclusion(nodes=("n0", "n3")), Exclusion("gpu", ("Task",))])
    assert away.left == {
        0: "npu: 'n0' is excluded; gpu: op Task is excluded",
        1: "npu: inf in seconds; gpu: op Task is excluded",
        2: "npu: inf in seconds; gpu: op Task is excluded",
        3: "npu: 'n3' is excluded; gpu: op Task is excluded",
    }
    chosen = partition(PLAIN, choose=lambda node, offers: "cpu" if node == 3 else None)
    assert chosen.left == {2: "npu: inf in seconds; gpu: inf in seconds", 3: "chosen for it"}
    assert partition(PLAIN, priority=["cpu"]).left == {}
    edge = partition(PLAIN, housekeeping=Housekeeping("default", nodes=frozenset({0, 3})))
    assert edge.left == {
        0: "housekeeping: at the edge of a group",
        2: "npu: inf in seconds; gpu: inf in seconds",
        3: "housekeeping: at the edge of a group",
    }
    assert partition(PLAIN, assignment=[2, 2, 2, 2]).left == {}


def test_what_was_dropped_is_said_once_and_of_each_of_its_nodes() -> None:
    problem = chain([[INF, INF, 9.0]] * 3, composites=[(0, (0, 1), 0.5), (1, (1, 2), 0.5)])
    made = partition(problem, "compact")
    assert made.notes == ("gpu: pattern 'composite1' at 'n1' was dropped: it lost 'n1' to npu",)
    assert made.left == {
        2: "npu: inf in seconds; gpu: inf in seconds; "
        "gpu: pattern 'composite1' was dropped, for it lost 'n1' to npu"
    }
    (dropped,) = deconflict(annotate(problem)).dropped
    assert dropped.region == Region("gpu", (1, 2), "composite1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"assignment": [0] * 4, "priority": "npu", "pins": {"n0": "npu"}},
         "priority and pins cannot change an assignment that is given; leave out 'assignment' and "
         "'resolution', or the rest"),
        ({"assignment": [0] * 4, "resolution": Resolution((0,), (0,) * 4)},
         "resolution cannot change an assignment that is given; leave out 'assignment' and "
         "'resolution', or the rest"),
        ({"rank": [0.0] * 3}, "rank has 3 entries for 4 nodes"),
        ({"rank": [0.0] * 5}, "rank has 5 entries for 4 nodes"),
        ({"regions": annotate(chain([[1.0, 1.0, 1.0]], name="other"))},
         "the regions are of another problem, 'other'; annotate this one"),
        ({"assignment": [0, 1, 1, 0]},
         "node 'n2' (Task): it is assigned to a device that does not take it: gpu: inf in seconds"),
        ({"priority": "npu,gpu"},
         "node 'n2' (Task): no device of npu, gpu supports it: npu: inf in seconds; gpu: inf in "
         "seconds; add a device that does, such as the host, to the priority list"),
        ({"method": "byoc", "priority": "cpu,npu"},
         "node 'n1' (Task): method 'byoc' needs a default device that supports every node; 'npu' "
         "does not: npu: inf in seconds (and 1 more); end the priority with a device that does, "
         "such as the host"),
        ({"method": "byoc", "priority": "cpu,gpu"},
         "node 'n2' (Task): method 'byoc' needs a default device that supports every node; 'gpu' "
         "does not: gpu: inf in seconds; end the priority with a device that does, such as the "
         "host"),
        ({"pins": {"n1": "npu"}},
         "node 'n1' (Task): it is pinned to 'npu', which does not take it: npu: inf in seconds; "
         "pin it to gpu or cpu"),
        ({"choose": lambda node, offers: "cpuu"},
         "the de-conflict callable answers 'cpuu', which does not offer 'n0'; "
         "did you mean 'cpu'?"),
        ({"choose": lambda node, offers: 3},
         "what the de-conflict callable answers is 3, not a device"),
        ({"priority": "npu,,cpu"},
         "'npu, , cpu' is no list of different devices; write e.g. npu,gpu,cpu or npu >> gpu >> "
         "cpu"),
        ({"priority": "by-memory"}, "no memory capacities in arrays to go by-memory"),
        ({"pins": {"n9": "npu"}}, "affinity: no node 'n9' in arrays; choose from: n0, n1, n2, n3"),
        ({"pins": {"n0": "tpu"}}, "affinity: no device 'tpu' in arrays; did you mean 'npu'?"),
        ({"affinity": Affinity({"n0": "npu"}), "pins": {"n1": "cpu"}},
         "both 'affinity' and 'pins' say pins; leave one out"),
        ({"affinity": Affinity(default="xyz")},
         "affinity: no device 'xyz' in arrays; choose from: cpu, gpu, npu"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_full(given: dict[str, Any], said: str) -> None:
    with pytest.raises(HetsimError) as caught:
        partition(PLAIN, **given)
    assert str(caught.value) == said


def test_an_error_of_support_holds_what_a_program_may_ask() -> None:
    with pytest.raises(UnsupportedNode) as caught:
        partition(PLAIN, "byoc", priority="cpu,npu")
    assert (caught.value.nodes, caught.value.ops, caught.value.devices) == (
        ("n1", "n2"), ("Task",), ("npu",)
    )  # fmt: skip
    with pytest.raises(UnsupportedNode) as caught:
        partition(PLAIN, priority="npu,gpu")
    assert (caught.value.nodes, caught.value.devices) == (("n2",), ("npu", "gpu"))


def test_priority_by_memory_goes_by_what_the_devices_themselves_hold() -> None:
    problem = chain([[1.0] * 3], capacity_bytes=[8, 9, 9])
    assert device_order(problem, "by-memory") == (1, 2, 0)
    # 8 bytes of the graph's own types are 2 on the one that holds them at a quarter.
    held = replace(problem, capacity_bytes=(12, 9, 8), held=(Held(32, 8), Held(), Held()))
    assert device_order(held, "by-memory") == (1, 2, 0)
    several = Problem.from_arrays(
        [[1.0] * 4], devices=("gpu.0", "cpu", "gpu.1", "gpu.2"), host=1
    )  # fmt: skip
    assert device_order(several, "gpu,cpu") == (0, 2, 3, 1)
    assert device_order(several, "gpu.1,cpu,gpu") == (2, 1, 0, 3)
    assert device_order(several) == (0, 2, 3, 1)
    assert device_order(replace(several, host=None)) == (0, 1, 2, 3)


@pytest.mark.parametrize("device", NAMES)
def test_a_given_assignment_keeps_whole_kernels_whole(device: str) -> None:
    """Those that a device needs go before those that it can do without."""
    at = NAMES.index(device)
    seconds = [[9.0] * 3 for _ in range(4)]
    seconds[1][at] = seconds[2][at] = INF
    composites = [(at, (0, 3), 1.0), (at, (1, 2), 1.0)]
    # Kept whole together, 0 with 3 and 1 with 2 would wait for each other.
    problem = Problem.from_arrays(
        seconds, [(0, 1, 4), (2, 3, 4)], devices=NAMES, composites=composites
    )
    whole = as_resolution(problem, [at] * 4)
    assert whole.atoms == ((1, 2),)
    assert whole.order == (at,)
    other = (at + 1) % 3
    apart = as_resolution(problem, [at, other, other, at])
    assert apart.atoms == ((0, 3),)
    assert apart.order == tuple(sorted((at, other)))
    with pytest.raises(UnsupportedNode, match=r"'n2' .* is assigned to a device"):
        as_resolution(problem, [at, other, at, at])
    for wrong in ([at] * 3, [at] * 5, [at, at, at, 3], [at, at, at, -1]):
        with pytest.raises(InvalidInput, match="assignment"):
            as_resolution(problem, wrong)


def test_a_resolution_of_another_problem_is_refused() -> None:
    good = Resolution((0, 2), (0, 2, 2, 0), ((0, 1),))
    good.check(PLAIN)
    for wrong in (
        replace(good, assignment=(0, 2, 2)),
        replace(good, assignment=(0, 2, 2, 3)),
        replace(good, assignment=(0, 2, 2, -1)),
        replace(good, atoms=((0, 4),)),
        replace(good, atoms=((-1, 0),)),
    ):
        with pytest.raises(InvalidInput, match="resolution"):
            wrong.check(PLAIN)


def test_wishes_become_nodes_and_devices() -> None:
    problem = replace(PLAIN, origins=(("a", "n1"), ("n1", "b"), ("c",), ("n3",)))
    wish = Affinity(
        {"n0": "gpu", "n1": "cpu"},
        (Exclusion("npu", ("Task",), ("c",)), Exclusion(None, (), ("a",))),
        default="gpu",
    )
    asked = wish.on(problem)
    # A name of the file means all that stand for it, but for those pinned by their own.
    assert asked.pins == {0: 1, 1: 2}
    assert asked.excluded == (
        (0, (0, 1, 2, 3), "op Task is excluded"), (0, (2,), "'c' is excluded"),
        (None, (0,), "'a' is excluded"),
    )  # fmt: skip
    assert (asked.priority, asked.default, asked.notes) == (("gpu",), 1, ())
    assert wish.exclusions(problem) == (
        wish.exclude[0], Exclusion("npu", (), ("a",)), Exclusion("cpu", (), ("a",)),
    )  # fmt: skip
    assert wish.constraints(problem) == {
        "pins": wish.pins, "exclude": wish.exclusions(problem),
    }  # fmt: skip
    plain = replace(wish, default=None)
    assert plain.exclusions(problem) == plain.exclude
    assert plain.on(problem).priority is None
    assert replace(wish, priority=("cpu", "npu")).on(problem).priority == ("cpu", "npu")
    assert Affinity().constraints(problem) == {}
    regions = annotate(problem)
    left = asked.restrict(regions, 1)
    # Pinned to the gpu, n0 is not taken from there; of the npu and the cpu it is.
    assert left.alone.tolist() == [
        [False, True, False], [False, True, True], [False, False, True], [False, True, True],
    ]  # fmt: skip
    kept = Asked({0: 0}, ((0, (0, 3), "why"),), None, None, ()).restrict(regions, 2)
    assert kept.alone[:, 0].tolist() == [True, False, False, False]
    assert kept.reason(3, 0) == "npu: why"


def test_wishes_beside_an_affinity_take_the_place_of_what_it_leaves_open() -> None:
    wish = Affinity({"n0": "npu"}, default="cpu")
    exclude = (Exclusion("npu", ("Task",)),)
    assert with_wishes(None) is None
    assert with_wishes(wish) == wish
    assert with_wishes(None, {"n1": "cpu"}) == Affinity({"n1": "cpu"})
    assert with_wishes(wish, None, exclude) == replace(wish, exclude=exclude)
    assert with_wishes(wish, {}, ()) == wish
    with pytest.raises(UsageError, match="both 'affinity' and 'exclude' say exclude"):
        with_wishes(replace(wish, exclude=exclude), None, exclude)
    places: dict[tuple[str | int, ...], str] = {("pins", "n0"): "f:3", (): "f"}
    placed = replace(wish, places=places)
    assert (placed.place("pins", "n0"), placed.place("pins", "n1")) == ("f:3", "f")
    assert wish.place("pins", "n0") == "affinity"


def test_sets_that_are_kept_whole_are_nodes_of_a_graph_of_their_own() -> None:
    dag = Dag.from_edges(5, [(0, 1), (1, 2), (0, 3), (3, 4), (2, 4)])
    made = Quotient.of(dag, [(1, 2), (3, 4)])
    assert list(made.members) == [(0,), (1, 2), (3, 4)]
    assert list(made.place) == [0, 1, 1, 2, 2]
    assert made.dag == Dag.from_edges(3, [(0, 1), (0, 2), (1, 2)])
    assert made.spread([7, 8, 9]) == [7, 8, 8, 9, 9]
    assert made.devices([5, 6, 6, 7, 7]) == [5, 6, 7]
    alone = Quotient.of(dag, [])
    assert alone.dag is dag
    assert (list(alone.members), list(alone.place)) == ([(v,) for v in range(5)], list(range(5)))
    assert list(alone.members[1:3]) == [(1,), (2,)]
    assert (alone.devices([5] * 5), alone.spread([0, 1, 2, 3, 4])) == ([5] * 5, [0, 1, 2, 3, 4])


def test_groups_and_who_owns_a_node() -> None:
    groups = (Group("cpu", (0, 2)), Group("npu", (2, 3, 9, -1)))
    assert owners(5, groups) == [0, -1, 1, 1, -1]
    dag = Dag.from_edges(5, [(0, 1), (2, 3)])
    assert component_counts(dag, [0, 0, 1, 1, 0], 3) == [2, 1, 0]
    assert component_counts(dag, [0, 0, 1, 1, 0], 3, [(1, 4)]) == [1, 1, 0]
    # A tie of nodes of different groups joins none.
    assert component_counts(dag, [0, 0, 1, 1, 0], 3, [(2, 4)]) == [2, 1, 0]
    assert as_groups([(0, 2), (1,)], [1, 0, 1], ("a", "b")) == (
        Group("b", (0, 2)), Group("a", (1,)),
    )  # fmt: skip


def test_colours_are_of_devices_and_go_round() -> None:
    count = len(COLOURS) + 2
    names = tuple(f"d{p}" for p in range(count))
    problem = Problem.from_arrays(np.ones((count, count)), devices=names)
    groups = tuple(Group(name, (v,)) for v, name in enumerate(names))
    expected = [COLOURS[p % len(COLOURS)] for p in range(count)]
    assert len(set(COLOURS)) == len(COLOURS)
    for text in (to_mermaid(problem, groups), to_dot(problem, groups)):
        assert re.findall(r"#[0-9a-f]{6}", text) == expected
        for v in range(count):
            assert f"Task: n{v}" in text
            assert f"g{v} on d{v}" in text


def test_the_record_of_a_partition_says_all_of_each_group() -> None:
    platform = hetsim.load_platform("laptop")
    problem = Problem.of(hetsim.load_model("zoo:squeezenet"), platform, execute={"npu": "int8"})
    made = hetsim.partition(problem, assignment=[v // 20 % 3 for v in range(problem.n)])
    record = json.loads(made.to_json())
    assert (record["schema"], record["method"]) == ("hetsim-partition/1", made.method)
    assert record["boundary"] == [
        {"tensor": value.name, "nbytes": value.nbytes} for value in made.boundary
    ]
    assert record["boundary_bytes"] == made.boundary_bytes
    told = zip(record["groups"], made.groups, made.borders, strict=True)
    for index, (entry, group, border) in enumerate(told):
        device = problem.devices.index(group.device)
        assert (entry["id"], entry["device"]) == (index, group.device)
        assert entry["nodes"] == [problem.node_names[v] for v in group.nodes]
        for key, ids, names in (
            ("inputs", border.inputs, problem.values),
            ("outputs", border.outputs, problem.values),
            ("constants", border.constants, problem.constants),
        ):
            assert entry[key] == [names[at].name for at in ids]
        assert entry["seconds"] == problem.group_seconds(device, group.nodes)
        assert sum(entry["ops"].values()) == len(group.nodes)
        held = {at for v in group.nodes for at in problem.values_of[v]}
        nbytes = sum(problem.values[at].nbytes for at in held)
        nbytes += sum(problem.constants[at].nbytes for at in border.constants)
        assert entry["memory_bytes"] == problem.held_bytes(device, nbytes)
        assert len(set(entry["origins"])) == len(entry["origins"])
        assert set(entry["origins"]) == {n for v in group.nodes for n in problem.origins[v]}
    left = hetsim.partition(PLAIN)
    assert json.loads(left.to_json())["left"] == {"n2": left.left[2]}
