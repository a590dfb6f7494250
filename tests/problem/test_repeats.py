"""Repeated layers of a problem: each node is like the one a period before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import layered, problems
from hetsim.problem.problem import Problem
from hetsim.problem.repeats import LEAST, Repeat, repeats
from sweeps import examples

Kind = tuple[tuple[float, ...], int, int]


def kind(problem: Problem, node: int) -> Kind:
    made = [value for value in problem.values if value.producer == node]
    nbytes, readers = sum(v.nbytes for v in made), sum(len(v.consumers) for v in made)
    return tuple(problem.seconds[node].tolist()), nbytes, readers


@examples(quick=25, full=600)
@given(problems(max_nodes=14), st.integers(1, 4))
def test_each_node_is_like_the_one_a_period_before(problem: Problem, times: int) -> None:
    problem = layered(problem, times)
    taken: set[int] = set()
    found = repeats(problem)
    for first, nodes, period in found:
        assert period >= LEAST
        assert nodes >= 2 * period
        own = range(first, first + nodes)
        assert taken.isdisjoint(own)
        taken.update(own)
        for v in own[period:]:
            assert kind(problem, v) == kind(problem, v - period)
        # It is as long as it can be.
        for v in (first + period - 1 if first else -1, first + nodes):
            if period <= v < problem.n:
                assert kind(problem, v) != kind(problem, v - period)
    assert [one.nodes for one in found] == sorted((one.nodes for one in found), reverse=True)
    # What the last node of a layer makes, the next layer reads too.
    inner = problem.n // times - 1
    if times > 2 and inner >= LEAST and len({kind(problem, v) for v in range(inner)}) == inner:
        assert found[0].nodes >= problem.n - inner - 1


def test_layers_of_two_kinds_are_both_found() -> None:
    wide, thin = [[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]], [[5.0, 1.0], [1.0, 7.0], [4.0, 4.0]]
    rows = [[9.0, 9.0], *wide * 4, [8.0, 8.0], *thin * 3]
    # Nobody reads the last node.
    problem = Problem.from_arrays(rows, edges=[(v, v + 1, 1) for v in range(len(rows) - 1)])
    assert repeats(problem) == (Repeat(1, 12, 3), Repeat(14, 8, 3))


@pytest.mark.parametrize(("model", "layers"), [("vit_base", 12), ("bert_small", 4)])
def test_layers_of_transformers(model: str, layers: int) -> None:
    problem = hetsim.Problem.of(hetsim.load_model(f"zoo:{model}"), hetsim.load_platform("rock-5b"))
    _, nodes, period = repeats(problem)[0]
    assert -(-nodes // period) == layers
