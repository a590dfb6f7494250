"""Properties of the boundary method on graphs with parameters, constants and several ports."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from builders import colourings
from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import boundary
from hetsim.partitioning.methods.boundary import Port, Wiring
from hetsim.problem.groups import as_groups, components, order_groups
from hetsim.problem.validator import problems_of
from oracles.boundary_rule import boundary_groups
from sweeps import examples

NAMES = ("a", "b", "c")


@st.composite
def wirings(draw: st.DrawFn, max_nodes: int = 16) -> tuple[Wiring, list[int]]:
    """Graphs in which nodes have two outputs and read up to three, one of them twice; devices."""
    n = draw(st.integers(1, max_nodes))
    ports: list[list[Port]] = []
    kinds: list[str] = []
    for v in range(n):
        reach = st.integers(max(0, v - draw(st.sampled_from((3, n)))), v - 1)
        sources = st.lists(st.tuples(reach, st.integers(0, 1)))
        ports.append(list(draw(sources)[:3]) if v and draw(st.integers(0, 3)) else [])
        kinds.append("op" if ports[-1] or draw(st.booleans()) else "constant")
    device_of = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    for v in draw(st.lists(st.integers(0, n - 1), max_size=4)):
        ports.append([(v, draw(st.integers(0, 1)))])
        kinds.append("result")
        device_of.append(device_of[v])
    return Wiring.of_ports(ports, kinds), device_of


def blocks(labels: list[int]) -> list[int]:
    first: dict[int, int] = {}
    return [first.setdefault(label, node) for node, label in enumerate(labels)]


@examples(quick=15, full=3000)
@given(wirings())
def test_groups_and_boundaries_are_those_of_the_literal_rule(
    case: tuple[Wiring, list[int]],
) -> None:
    wiring, device_of = case
    cuts = boundary.groups_of(wiring, device_of)
    labels, boundaries = boundary_groups(wiring, device_of)
    assert blocks(cuts.label) == blocks(labels)
    ports = [(v, k) for v, sources in enumerate(wiring.inputs) for k in range(len(sources))]
    assert {port for port, cut in zip(ports, cuts.cut, strict=True) if cut} == boundaries


@examples(quick=25, full=300)
@given(colourings(60, 3))
def test_merge_is_valid_and_groups_are_connected(coloured: tuple[Dag, list[int]]) -> None:
    dag, device_of = coloured
    labels = boundary.merge(dag, device_of)
    assert labels == boundary.merge(dag, device_of)
    parts = order_groups(dag, labels)
    assert parts is not None
    supported = [[device_of[v] == p for p in range(3)] for v in range(dag.n)]
    groups = as_groups(parts, device_of, NAMES)
    assert problems_of(dag, groups, NAMES, supported, connected=True) == []
    # Where what the edges inside devices connect can run as it is, nothing more is cut.
    whole = components(dag, device_of)
    if order_groups(dag, whole) is not None:
        assert blocks(labels) == blocks(whole)


def test_long_chains() -> None:
    n = 10_000
    chain = Dag.from_edges(n, [(v, v + 1) for v in range(n - 1)])
    assert len(set(boundary.merge(chain, [v % 2 for v in range(n)]))) == n
    blocks_of_ten = [v // 10 % 2 for v in range(n)]
    assert len(set(boundary.merge(chain, blocks_of_ten))) == n // 10
    skips = [(v, v + 2) for v in range(n - 2)]
    ladder = Dag.from_edges(n, [(v, v + 1) for v in range(n - 1)] + skips)
    assert len(set(boundary.merge(ladder, [v % 2 for v in range(n)]))) == n
