"""Machine code for large graphs contracts as ``Condensed`` does, to the same labels."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from hetsim.partitioning.groups import components
from hetsim.partitioning.growing import compiled
from hetsim.partitioning.growing.repair import repair
from hetsim.partitioning.methods import byoc, compact, convex, greedy, stage
from merge_graphs import SHAPES, by_plain_loops, drawn_labels, of_shape, random_graphs
from sweeps import sweep

pytestmark = pytest.mark.group("machine_code")


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
        visits = rng.choice((0, 1, 256))
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


@sweep("seed", quick=[0], full=range(50))
def test_stages_are_the_same(seed: int) -> None:
    """On one device to five, with a host among them, elsewhere, or none."""
    for rng, dag, _ in random_graphs(seed):
        devices = rng.sample(range(9), rng.randint(1, 5))
        kind = [rng.choice(devices) for _ in range(dag.n)]
        for host in (None, devices[0], 9):
            quick, plain = either_way(lambda: stage.merge(dag, kind, host))  # noqa: B023
            assert quick == plain


@pytest.mark.parametrize("shape", SHAPES)
def test_methods_give_the_same_on_graphs_of_every_shape(shape: str) -> None:
    for dag, kind in of_shape(shape):
        for solve in (greedy.solve, byoc.merge, compact.merge, convex.merge):
            quick, plain = either_way(lambda: solve(dag, kind))  # noqa: B023
            assert quick == plain


@sweep("seed", quick=[0], full=range(50))
def test_groups_are_repaired_the_same(seed: int) -> None:
    broken = 0
    for rng, dag, _ in random_graphs(seed):
        labels = drawn_labels(rng, dag)
        quick, plain = either_way(lambda: repair(dag, labels))  # noqa: B023
        assert quick == plain
        broken += plain[1] != ()  # type: ignore[index]
    assert broken > 10


@sweep("seed", quick=[0], full=range(50))
def test_searches_cost_what_they_do_in_plain_loops(seed: int) -> None:
    """From groups, too."""
    for rng, dag, kind in random_graphs(seed):
        start = None if rng.random() < 0.3 else convex.merge(dag, [rng.choice((k, -v - 1)) for v, k
                                                                  in enumerate(kind)])  # fmt: skip
        plain, taken = by_plain_loops(dag, kind, start)
        rows = dag.pred_rows, dag.succ_rows
        assert compiled.scanned(*rows, kind, taken, groups=start) == (plain, True)
        if taken:
            assert not compiled.scanned(*rows, kind, taken - 1, groups=start)[1]


@pytest.mark.parametrize(
    ("kept", "least"), [(True, compiled.LOAD_AFTER), (False, compiled.COMPILE_AFTER)]
)
def test_machine_code_is_loaded_once_much_was_left_to_python(
    kept: bool, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many graphs of which none would be worth it alone; small ones never are."""
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


@pytest.mark.parametrize("kept", [True, False])
def test_one_graph_is_for_machine_code_from_where_loading_it_pays(kept: bool) -> None:
    few, many = compiled.KEPT_FROM, compiled.COMPILE_FROM

    def asked() -> bool:
        return kept

    assert not compiled.pays(few - 1, 0, asked)
    assert compiled.pays(few, 0, asked) == compiled.pays(many - 1, 0, asked) == kept
    assert compiled.pays(many, 0, asked)
    assert compiled.pays(compiled.LOADED_FROM, 1, asked)
    assert not compiled.pays(compiled.LOADED_FROM - 1, 1, asked)
