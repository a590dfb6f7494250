"""Machine code for large graphs contracts as ``Condensed`` does, to the same labels."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest

from hetsim.graph.dag import Dag
from hetsim.partitioning.groups import components
from hetsim.partitioning.growing import compiled
from hetsim.partitioning.growing.condensed import Condensed
from hetsim.partitioning.growing.repair import repair
from hetsim.partitioning.methods import byoc, compact, convex, greedy, stage
from hetsim.partitioning.methods.boundary import method as boundary
from sweeps import sweep

pytestmark = pytest.mark.group("machine_code")

GRAPHS = 100


def layers(n: int, rng: random.Random) -> Dag:
    """Layers of 12 nodes; few edges skip some."""
    edges = set()
    for v in range(12, n):
        for _ in range(rng.randint(1, 2)):
            back = min(rng.randint(1, 9) if rng.random() < 0.05 else 1, v // 12)
            edges.add(((v // 12 - back) * 12 + rng.randrange(12), v))
    return Dag.from_edges(n, edges)


def blocks(n: int, rng: random.Random) -> Dag:
    """Blocks of ten nodes with branches that meet, bypassed by edges to their ends."""
    edges = set()
    for at in range(0, n - 10, 10):
        edges |= {(at, at + k) for k in (1, 2, 3, 6)} | {(at + k, at + 4) for k in (1, 2)}
        edges |= {(at + 3, at + 5), (at + 6, at + 9)} | {(at + k, at + k + 1) for k in range(4, 10)}
    return Dag.from_edges(n, edges)


def anywhere(n: int, rng: random.Random) -> Dag:
    """Edges between any two nodes, few of them."""
    pairs = (sorted(rng.sample(range(n), 2)) for _ in range(3 * n // 2))
    return Dag.from_edges(n, {(u, v) for u, v in pairs})


def fan(n: int, rng: random.Random) -> Dag:
    """One node feeds all, all feed one, and some each other."""
    edges = {(0, v) for v in range(1, n)} | {(v, n - 1) for v in range(1, n - 1)}
    edges |= {(v, v + rng.randint(1, 3)) for v in range(1, n - 4) if rng.random() < 0.3}
    return Dag.from_edges(n, edges)


def chain(n: int, rng: random.Random) -> Dag:
    return Dag.from_edges(n, [(v, v + 1) for v in range(n - 1)])


def islands(n: int, rng: random.Random) -> Dag:
    """Nodes without edges, and pairs."""
    return Dag.from_edges(n, [(v, v + 1) for v in range(0, n - 1, 3)])


SHAPES: dict[str, Callable[[int, random.Random], Dag]] = {
    one.__name__: one for one in (layers, blocks, anywhere, fan, chain, islands)
}


def random_graphs(seed: int) -> Iterator[tuple[random.Random, Dag, list[int]]]:
    """Layered, uniformly random and long-edged ones, and the kind of each node."""
    rng = random.Random(f"compiled {seed}")
    for _ in range(GRAPHS):
        n = rng.choice((0, 1, 2, 5, 12, 30, 60, 120))
        reach, kinds = rng.choice((2, 8, n)), rng.randint(1, 3)
        edges = {
            (max(0, v - rng.randint(1, reach)), v)
            for v in range(1, n)
            for _ in range(rng.choice((0, 1, 1, 2, 3)))
        }
        yield rng, Dag.from_edges(n, edges), [rng.randrange(kinds) for _ in range(n)]


def either_way(call: Callable[[], object]) -> tuple[object, object]:
    """What a call gives with machine code and without it."""
    found = []
    for which in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("pays", "scan_pays"):
                patch.setattr(compiled, name, lambda *_: which)  # noqa: B023
            found.append(call())
    return found[0], found[1]


@sweep("seed", quick=[0], full=range(50))
def test_methods_give_the_same(seed: int) -> None:
    """Whether the budget lasts or runs out: as if graphs were large, with budgets of all sizes."""
    cut_short = lasted = 0
    for rng, dag, kind in random_graphs(seed):
        visits = rng.choice((1, 2, 4, 256))
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {
                "THOROUGH_UP_TO": rng.choice((0, 10_000)),
                "LEAST_BUDGETED": 1,
                "VISITS_WITH_HOST": visits,
            }.items():
                patch.setattr(compact, name, value)
            for module in (byoc, compact, convex):
                patch.setattr(module, "VISITS_PER_EDGE", visits)
            for host in (None, 0):
                quick, plain = either_way(lambda: compact.merge(dag, kind, host))  # noqa: B023
                assert quick == plain
            for merge in (byoc.merge_with_notes, convex.merge_with_notes):
                quick, plain = either_way(lambda: merge(dag, kind))  # noqa: B023
                assert quick == plain
                cut_short += plain[1] != ()  # type: ignore[index]
                lasted += plain[1] == ()  # type: ignore[index]
    assert cut_short > 0
    assert lasted > 100


@sweep("seed", quick=[0], full=range(50))
def test_greedy_selects_the_same(seed: int) -> None:
    """Where few nodes are on another device, groups are large, come back, and are rolled back."""
    apart = 0
    for rng, dag, kind in random_graphs(seed):
        most = rng.random()
        few = [one * (rng.random() < most) for one in kind]
        quick, plain = either_way(lambda: greedy.solve(dag, few))  # noqa: B023
        assert quick == plain
        apart += list(plain.labels) != components(dag, few)  # type: ignore[attr-defined]
    # Most that are drawn have groups that are whole as they are connected; some are not.
    assert apart > 5


# Machine code of boundaries takes 15 seconds of a processor to be made.
@sweep("seed", quick=[], full=range(50))
def test_boundaries_are_the_same(seed: int) -> None:
    """Where data comes back into groups, and where groups are on cycles."""
    apart = 0
    for rng, dag, kind in random_graphs(seed):
        most = rng.random()
        few = [one * (rng.random() < most) for one in kind]
        quick, plain = either_way(lambda: named(boundary.merge(dag, few)))  # noqa: B023
        assert quick == plain
        apart += plain != components(dag, few)
    assert apart > 5


@sweep("seed", quick=[0], full=range(50))
def test_stages_are_the_same(seed: int) -> None:
    """On one device to five, with a host among them, elsewhere, or none."""
    for rng, dag, _ in random_graphs(seed):
        devices = rng.sample(range(9), rng.randint(1, 5))
        kind = [rng.choice(devices) for _ in range(dag.n)]
        for host in (None, devices[0], 9):
            quick, plain = either_way(lambda: stage.merge(dag, kind, host))  # noqa: B023
            assert quick == plain


def named(labels: Sequence[int]) -> list[int]:
    """Groups by their first nodes."""
    first: dict[int, int] = {}
    return [first.setdefault(label, node) for node, label in enumerate(labels)]


def of_shape(shape: str) -> Iterator[tuple[Dag, list[int]]]:
    """Large enough for windows to be moved, cycles of many groups and heaps that are cleared."""
    for seed in range(2):
        rng = random.Random(f"{shape} {seed}")
        dag = SHAPES[shape](600, rng)
        for share in (0.1, 0.3):
            yield dag, [int(rng.random() < share) for _ in range(dag.n)]


@pytest.mark.parametrize("shape", SHAPES)
def test_methods_give_the_same_on_graphs_of_every_shape(shape: str) -> None:
    for dag, kind in of_shape(shape):
        for solve in (greedy.solve, byoc.merge, compact.merge, convex.merge):
            quick, plain = either_way(lambda: solve(dag, kind))  # noqa: B023
            assert quick == plain


@sweep("shape", quick=[], full=SHAPES)
def test_boundaries_are_the_same_on_graphs_of_every_shape(shape: str) -> None:
    for dag, kind in of_shape(shape):
        quick, plain = either_way(lambda: named(boundary.merge(dag, kind)))  # noqa: B023
        assert quick == plain


@sweep("seed", quick=[0], full=range(50))
def test_groups_are_repaired_the_same(seed: int) -> None:
    broken = 0
    for rng, dag, _ in random_graphs(seed):
        # Connected by what is drawn, in circles or not.
        drawn = Condensed(dag.preds, dag.succs, 0)
        for u, v in dag.edges():
            if rng.random() < 0.5:
                a, b = drawn.find(u), drawn.find(v)
                drawn.parent[max(a, b)] = min(a, b)
        labels = [drawn.find(v) for v in range(dag.n)]
        quick, plain = either_way(lambda: repair(dag, labels))  # noqa: B023
        assert quick == plain
        broken += plain[1] != ()  # type: ignore[index]
    assert broken > 10


@sweep("seed", quick=[0], full=range(50))
def test_a_count_within_the_budget_holds_for_plain_sets(seed: int) -> None:
    """``Condensed`` never takes more steps than machine code counts; from groups, too."""
    for rng, dag, kind in random_graphs(seed):
        start = None if rng.random() < 0.3 else convex.merge(dag, [rng.choice((k, -v - 1)) for v, k
                                                                  in enumerate(kind)])  # fmt: skip
        plain, taken = by_sets(dag, kind, start)
        most = 4 * taken + 4
        for budget in range(0, most, max(1, most // 20)):
            found = compiled.scanned(dag.pred_rows, dag.succ_rows, kind, budget, groups=start)
            assert found is None or (found == plain and taken <= budget)
        assert compiled.scanned(dag.pred_rows, dag.succ_rows, kind, 2**40, groups=start) == plain


def by_sets(dag: Dag, kind: Sequence[int], start: Sequence[int] | None) -> tuple[list[int], int]:
    groups = Condensed(dag.preds, dag.succs, 0)
    if start is not None:
        groups.adopt(start)
    for node in range(dag.n):
        for other in reversed(dag.preds[node]):
            if kind[other] == kind[node]:
                groups.contract(other, node)
    return [groups.find(v) for v in range(dag.n)], -groups.budget


@pytest.mark.parametrize(
    ("kept", "loaded", "least"),
    [
        (True, False, compiled.LOAD_AFTER),
        (True, True, compiled.LOAD_AFTER_WITH_NUMBA),
        (False, True, compiled.COMPILE_AFTER),
    ],
)
def test_machine_code_is_loaded_once_much_was_left_to_python(
    kept: bool, loaded: bool, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many graphs of which none would be worth it alone; small ones never are."""
    if loaded:
        monkeypatch.setitem(sys.modules, "numba", sys)
    else:
        monkeypatch.delitem(sys.modules, "numba", raising=False)
    for name in ("compiled_scan", "compiled_walk", "compiled_select"):
        monkeypatch.setattr(compiled, name, functools.cache(lambda: None))
    monkeypatch.setattr(compiled, "scan_is_kept", lambda: kept)
    monkeypatch.setattr(compiled, "_left", [least - 1001])
    assert not compiled.scan_pays(1000)
    assert not compiled.scan_pays(compiled.SCANNED_FROM - 1)
    assert compiled.scan_pays(1000)
    assert compiled.scan_pays(compiled.COMPILE_FROM)
    compiled.compiled_scan()
    compiled._left[0] = 0
    assert compiled.scan_pays(compiled.SCANNED_FROM)
    assert not compiled.scan_pays(compiled.SCANNED_FROM - 1)
