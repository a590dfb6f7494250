"""The graph's view in a browser: its layout, what it says of nodes, and how it is walked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsing import WIDTHS, Axe, Open, Opened
from hetsim.placement.planning import plan
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.reporting.pages.island import Island, Verdict
from hetsim.reporting.pages.islands.graph import graph_section
from hetsim.reporting.pages.page import write_page
from hetsim.reporting.pages.subgraphs import graph_picture


def island(*plans: Plan) -> Island:
    """A report of the graph alone."""
    pictures = {"graph": graph_picture(plans)}
    return Island(
        "run",
        "A graph",
        ("hetsim", "run"),
        {"problem": {"devices": list(plans[0].problem.devices)}},
        Verdict("It is drawn."),
        sections=graph_section(pictures),
        pictures=pictures,
    )


def layered(count: int, seed: int, *, devices: int = 3) -> Problem:
    """Random nodes, each fed by a few of the last ones; some devices lack some of them."""
    rng = np.random.default_rng(seed)
    seconds = rng.uniform(1e-5, 1e-3, (count, devices))
    seconds[rng.random((count, devices)) < 0.1] = np.inf
    seconds[:, 0] = rng.uniform(1e-5, 1e-3, count)
    edges = sorted(
        {
            (int(u), v, int(rng.integers(1, 10**6)))
            for v in range(1, count)
            for u in rng.integers(max(0, v - 8), v, rng.integers(1, 4))
        }
    )
    once = {(u, v): nbytes for u, v, nbytes in edges}
    return Problem.from_arrays(
        seconds,
        edges=[(u, v, nbytes) for (u, v), nbytes in once.items()],
        latency_s=1e-6,
        bytes_per_s=1e9,
        host=0,
    )


@pytest.fixture(scope="module")
def problem() -> Problem:
    return layered(40, seed=1)


@pytest.fixture(scope="module")
def drawn(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "report.html"
    write_page(island(shown(problem), plan(problem, "single:d0")), path)
    return path


def shown(problem: Problem) -> Plan:
    """The plan that is seen first: several subgraphs, some of many nodes."""
    return plan(problem, "hetero:d2,d0")


LAID_OUT = """([count, from, to]) => hetsim.layout({
    width: Array.from({length: count}, (_, v) => 60 + 10 * (v % 5)),
    height: Array.from({length: count}, (_, v) => 20 + 10 * (v % 3)), from, to})"""


def check_layout(one: Opened, count: int, edges: list[tuple[int, int]]) -> None:
    """No two boxes overlap, every edge leads to a later rank, and sweeps add no crossing."""
    given = [count, [u for u, _ in edges], [v for _, v in edges]]
    made = one.page.evaluate(LAID_OUT, given)
    assert made == one.page.evaluate(LAID_OUT, given)
    x, y, rank, column = (made[key] for key in ("x", "y", "rank", "column"))
    longest = [0] * count
    for u, v in sorted(edges):
        longest[v] = max(longest[v], longest[u] + 1)
        assert rank[u] < rank[v]
        assert column[u] < column[v] or (column[u] == column[v] and y[u] < y[v])
    assert max(rank, default=0) == max(longest, default=0)
    width = [60 + 10 * (v % 5) for v in range(count)]
    height = [20 + 10 * (v % 3) for v in range(count)]
    for u in range(count):
        assert x[u] - width[u] / 2 >= -1e-6
        assert x[u] + width[u] / 2 <= made["width"] + 1e-6
        for v in range(u):
            beside = abs(x[u] - x[v]) >= (width[u] + width[v]) / 2 - 1e-6
            below = abs(y[u] - y[v]) >= (height[u] + height[v]) / 2 - 1e-6
            assert beside or below, (u, v)
    first, best = made["crossings"]
    assert best <= first


def graphs(seeds: range) -> list[tuple[int, list[tuple[int, int]]]]:
    found: list[tuple[int, list[tuple[int, int]]]] = [(1, []), (3, [(0, 2)])]
    for seed in seeds:
        rng = np.random.default_rng(seed)
        count = int(rng.integers(2, 60))
        reach = int(rng.integers(2, 30))
        edges = {
            (int(u), v)
            for v in range(1, count)
            for u in rng.integers(max(0, v - reach), v, rng.integers(0, 4))
        }
        found.append((count, sorted(edges)))
    return found


def test_it_is_laid_out_and_says_why_nodes_are_where_they_are(
    problem: Problem, drawn: Path, opened: Open
) -> None:
    one = opened(drawn)
    for count, edges in graphs(range(6)):
        check_layout(one, count, edges)
    check_reasons(one, problem)


@pytest.mark.sweep
def test_boxes_of_many_graphs_do_not_overlap(drawn: Path, opened: Open) -> None:
    one = opened(drawn)
    for count, edges in graphs(range(400)):
        check_layout(one, count, edges)


def exchanged(problem: Problem, on: list[int], node: int, device: int) -> float:
    """Seconds of the transfers around a node on a device, every other where it is."""
    total = 0.0
    for value in problem.values:
        ways = set()
        if node in value.consumers and value.producer >= 0:
            ways = {(on[value.producer], device)}
        elif value.producer == node:
            ways = {(device, on[reader]) for reader in value.consumers}
        for source, target in ways:
            if source != target:
                route = problem.routes[source][target]
                total += route.latency_s + value.nbytes / route.bytes_per_s
    return total


def check_reasons(one: Opened, problem: Problem) -> None:
    """What is told of a node elsewhere is what its times and the links say."""
    told: list[Any] = one.page.evaluate(
        "() => { const {model, plan} = hetsim.graphs[0];"
        " return Array.from({length: model.count}, (_, v) => model.whyOf(plan, v)); }"
    )
    on = list(shown(problem).assignment)
    for node, why in enumerate(told):
        able = [p for p in range(3) if np.isfinite(problem.seconds[node, p])]
        here = problem.seconds[node, on[node]]
        if len(able) == 1:
            assert why["here"] == f"Only d{on[node]} takes it."
        elif here == min(problem.seconds[node, able]):
            assert f"d{on[node]} is the fastest of the {len(able)}" in why["here"]
        else:
            assert "aster on" in why["here"]
        for other in why["elsewhere"]:
            device = problem.devices.index(other["device"])
            if device not in able:
                assert other["seconds"] is None
                assert other["why"] == problem.refusals[device][node]
                continue
            then = problem.seconds[node, device] + exchanged(problem, on, node, device)
            now = here + exchanged(problem, on, node, on[node])
            assert other["alone_s"] == pytest.approx(then - now, rel=1e-3, abs=1e-8)


def test_it_is_walked_by_keys_and_folds(problem: Problem, drawn: Path, opened: Open) -> None:
    one = opened(drawn)
    check_keys(one, problem)
    check_folding(one, problem)


def check_keys(one: Opened, problem: Problem) -> None:
    """Keys walk along edges, and the page says where one is."""
    page = one.page
    page.focus(".graph-canvas")
    page.keyboard.press("Home")
    names = list(problem.node_names)

    def chosen() -> int:
        node = page.evaluate("hetsim.graphs[0].node")
        assert names[node] in page.inner_text("#live")
        assert page.inner_text(".graph-panel h3") == names[node]
        return int(node)

    edges = set(problem.dag.edges())
    here = chosen()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
        there = chosen()
        assert (here, there) in edges
        here = there
    page.keyboard.press("ArrowUp")
    assert (chosen(), here) in edges
    page.keyboard.press("/")
    page.keyboard.type(names[17])
    page.keyboard.press("Enter")
    assert names[chosen()] == names[17]
    page.keyboard.press("Escape")
    page.keyboard.press("+")
    page.keyboard.press("0")
    page.keyboard.press("Escape")
    assert page.evaluate("hetsim.graphs[0].node") == -1


def check_folding(one: Opened, problem: Problem) -> None:
    """Subgraphs fold to boxes, a click unfolds one, and another plan can be chosen."""
    page = one.page
    page.get_by_role("button", name="Fold all").click()
    made = shown(problem)
    boxes = page.evaluate("hetsim.graphs[0].canvas.units.node")
    assert len(boxes) == len(made.groups)
    wide = next((g for g, group in enumerate(made.groups) if len(group.nodes) > 1), None)
    assert wide is not None
    at = page.evaluate(
        "g => { const {canvas} = hetsim.graphs[0]; const i = canvas.units.group.indexOf(g);"
        " canvas.reveal(i); const {layout, left, top, scale} = canvas;"
        " return [(layout.x[i] - left) * scale, (layout.y[i] - top) * scale]; }",
        wide,
    )
    page.click(".graph-canvas", position={"x": at[0], "y": at[1]})
    drawn = page.evaluate("hetsim.graphs[0].canvas.units.node")
    assert {node for node in drawn if node >= 0} >= set(made.groups[wide].nodes)
    page.select_option("select", "1")
    assert page.evaluate("hetsim.graphs[0].plan.name") == "single:d0"


@pytest.mark.sweep
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_at_every_width_and_in_either_light(
    drawn: Path, opened: Open, axe: Axe, width: int, scheme: str
) -> None:
    one = opened(drawn, width=width, color_scheme=scheme)
    one.page.focus(".graph-canvas")
    one.page.keyboard.press("Home")
    one.screenshot(f"graph-{width}-{scheme}")
    assert one.too_wide() <= 0
    assert axe(one) == []


@pytest.mark.sweep
def test_a_large_graph_starts_folded(tmp_path: Path, opened: Open, axe: Axe) -> None:
    large = layered(900, seed=2, devices=2)
    made = plan(large, "hetero:d1,d0")
    path = tmp_path / "large.html"
    write_page(island(made), path)
    one = opened(path)
    assert one.page.evaluate("hetsim.graphs[0].canvas.units.node.length") == len(made.groups)
    one.page.get_by_role("button", name="Unfold all").click()
    assert one.page.evaluate("hetsim.graphs[0].canvas.units.node.length") == 900
    assert axe(one) == []
