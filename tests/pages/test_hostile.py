"""Text from models and files shows as text: in pages of every kind, in tables, and in traces."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from answers_on_disk import read_left, write_rows
from browsing import Open
from cli_calls import ok
from hetsim.analysis.comparison import compare
from hetsim.analysis.lint.lint import lint
from hetsim.analysis.nodes.nodes import nodes
from hetsim.analysis.nodes.record import nodes_record
from hetsim.core.text import to_compact_json
from hetsim.placement.planning import plan
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.reporting.console import console, whole
from hetsim.reporting.pages.answers import answer_island, folder_island, island_of
from hetsim.reporting.pages.difference import difference_island
from hetsim.reporting.pages.page import Island, page, write_page
from hetsim.reporting.pages.saved import SavedAnswer
from hetsim.reporting.pages.subgraphs import plans_picture
from hetsim.reporting.pages.timeline import pictures_of, played_of
from hetsim.reporting.tables.analysis import lint_record, lint_report, nodes_report
from hetsim.reporting.tables.comparison import comparison_record, comparison_report
from hetsim.reporting.tables.plan import simulation_record, simulation_report
from hetsim.reporting.trace import trace_pieces
from hetsim.simulation.simulate import simulate
from hostile import (
    HOSTILE,
    Outline,
    check_in_a_browser,
    hostile_problem,
    poisoned,
    shown_safely,
    strings,
)
from onnx_builders import make_model, op, value
from platforms import CPU_AND_NPU
from sweeps import sweep

KINDS = (
    "compare", "simulate", "run", "plan", "sweep", "difference", "folder", "lint", "nodes",
    "nodes of a plan", "place", "recommend",
)  # fmt: skip

WORKLOAD = """\
streams:
  frames: {model: a.onnx, dims: {batch: 2}, arrivals: {constant: {rate_per_s: 300}}, slos: p90=50ms}
  scans: {model: b.onnx, dims: {batch: 1}, arrivals: {constant: {rate_per_s: 90}}, slos: p99=9ms}
requests: 300
"""
NAMES = ("frames", "scans", "a.onnx", "b.onnx", "cpu", "npu", "rock-5b", "jetson-orin-nano")
"""What has a name in the answers for a workload: each is called by another text."""


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the pages of where two models are placed, and of the cheapest for one."""
    folder = tmp_path_factory.mktemp("placed")
    weights = {"w": np.eye(8, dtype=np.float32)}
    made = make_model(
        [op("MatMul", "x w", "a"), op("Relu", "a", "y")],
        [value("x", ("batch", 8))], [value("y", ("batch", 8))], weights,
    )  # fmt: skip
    for name in ("a", "b"):
        onnx.save(made, folder / f"{name}.onnx")
    (folder / "pair.yaml").write_text(CPU_AND_NPU)
    (folder / "load.yaml").write_text(WORKLOAD)
    (folder / "one.yaml").write_text("".join([*WORKLOAD.splitlines(True)[:2], "requests: 99\n"]))
    for name, words in {
        "place": ("load.yaml", "--platform", "pair.yaml"),
        "recommend": ("one.yaml", "--catalog", "rock-5b,jetson-orin-nano", "--max-devices", "2",
                      "--price", "rock-5b=0.05/h", "--price", "jetson-orin-nano=0.12/h"),
    }.items():  # fmt: skip
        with chdir(folder):
            ok("recommend", "--workload", *words, "--report", f"{name}.html")
    return folder


def of_workloads(placed: Path, texts: tuple[str, ...], command: tuple[str, ...]) -> Iterator[Any]:
    """The reports of placements and recommendations, every name in them another."""
    names = dict(zip(NAMES, cycle(texts), strict=False))
    names |= {f"device {name}": f"device {names[name]}" for name in ("cpu", "npu")}
    for verb in ("place", "recommend"):
        left = read_left(placed / f"{verb}.html")
        record = poisoned(left.record, names)
        record["verdict"] = {"say": f"Best: {texts[0]} on {texts[6]}"}
        pictures = poisoned(left.pictures, names)
        yield verb, island_of(replace(left, record=record, pictures=pictures), command)


def islands(folder: Path, placed: Path, texts: tuple[str, ...]) -> Iterator[tuple[str, Island]]:
    """A report of each kind in which everything that has a name is called so."""
    problem = hostile_problem(texts)
    command = ("hetsim", "compare", *texts)
    found = compare(problem, ["single", "heft"])
    played = [
        (f"{texts[0]} {name}", replace(made, strategy=f"{texts[3]} {name}", reason=texts[4]), of)
        for name, made, of in played_of(found)
    ]
    pictures = {**pictures_of(played), **plans_picture([made for _, made, _ in played])}
    names = {"heft": f"{texts[5]} heft"} | {f"single:{name}": name for name in problem.devices}
    record = poisoned(read(comparison_record(found)), names)
    yield "compare", answer_island(record, command, pictures)
    made = played[0][1]
    one = read(simulation_record(made, simulate(made)))
    one["plan"]["options"] = {texts[1]: texts[2]}
    yield "simulate", answer_island(one, command, pictures)
    ran = {"executor": texts[0], "bitwise_equal": False, "tolerance": None,
           "mismatches": list(texts), "precision": "graph", "deviations": [],
           "outputs": {each: {"dtype": each, "shape": [1], "sha256": each} for each in texts},
           }  # fmt: skip
    yield "run", answer_island({**one, **ran}, command, pictures)
    saved = json.loads(made.to_json())
    lefts = [
        SavedAnswer(texts[0], "simulate", one, command, pictures),
        SavedAnswer(texts[1], "simulate", other_names(one, texts), command, pictures),
        SavedAnswer(texts[2], "plan", saved, command),
    ]
    yield "plan", island_of(lefts[2], command)
    write_rows(folder, [0.5, 0.25])
    swept = read_left(folder)
    rows = tuple(poisoned(row, {"a.onnx": texts[0], "p": texts[3], "s0": texts[1], "s1": texts[4]})
                 | {"error": texts[5]} for row in swept.rows)  # fmt: skip
    yield "sweep", island_of(replace(swept, source=texts[0], rows=rows), command)
    yield "difference", difference_island(lefts[0], lefts[1], command)
    yield (
        "folder",
        folder_island(texts[3], [(one, island_of(one, command)) for one in lefts], command),
    )
    yield "lint", answer_island(read(lint_record(lint(problem, "heft"))), command, {})
    problem = replace(problem, origins=tuple((name,) for name in problem.node_names))
    yield "nodes", answer_island(read(nodes_record(nodes(problem))), command, {})
    made = plan(problem, "heft")
    of_plan = read(nodes_record(nodes(made, device=problem.devices[1])))
    yield "nodes of a plan", answer_island(of_plan, command, plans_picture([made]))
    yield from of_workloads(placed, texts, command)


def read(record: Any) -> Any:
    return json.loads(to_compact_json(record))


def other_names(record: dict[str, Any], texts: tuple[str, ...]) -> dict[str, Any]:
    """The same answer to a question whose texts are others."""
    changed = json.loads(json.dumps(record))
    changed["problem"]["contention"] = texts[1]
    changed["problem"]["execute"] = {texts[0]: texts[2]}
    changed["plan"]["strategy"] = texts[5]
    return changed


def listed_problem() -> Problem:
    """The same, all of whose nodes are those of the file."""
    problem = hostile_problem()
    return replace(problem, origins=tuple((name,) for name in problem.node_names))


def plain_texts() -> tuple[str, ...]:
    return tuple(f"plain{number}" for number in range(len(HOSTILE)))


def test_pages_of_every_kind_have_the_elements_of_plain_names(tmp_path: Path, placed: Path) -> None:
    hostile = dict(islands(tmp_path / "hostile", placed, HOSTILE))
    plain = dict(islands(tmp_path / "plain", placed, plain_texts()))
    assert tuple(hostile) == KINDS
    for kind, island in hostile.items():
        shown, other = Outline(page(island)), Outline(page(plain[kind]))
        assert shown.elements == other.elements, kind
        assert shown.listeners == []
        assert shown_safely("".join(shown.texts)) == "", kind
        assert not any("long" * 500 in text for text in shown.texts)


def printed(report: Any, width: int) -> str:
    target = console(io.StringIO())
    target.width = width
    return whole(target, report)


@sweep("width", quick=[40], full=[40, 80, 200])
def test_tables_show_them_as_text(width: int) -> None:
    problem = hostile_problem()
    found = compare(problem, ["single", "heft"])
    made = replace(plan(problem, "heft"), strategy=HOSTILE[3], reason=HOSTILE[5])
    for report in (
        comparison_report(found, wide=True),
        simulation_report(made, simulate(made)),
        lint_report(lint(problem, "heft"), wide=True),
        nodes_report(nodes(listed_problem()), wide=True),
        nodes_report(nodes(plan(listed_problem(), "heft")), wide=True),
    ):
        text = printed(report, width)
        assert shown_safely(text) == ""


def test_traces_hold_them_as_text() -> None:
    problem = hostile_problem()
    made: Plan = replace(plan(problem, "heft"), strategy=HOSTILE[3])
    text = "".join(trace_pieces(made, simulate(made)))
    assert text.isascii()
    assert "".join(map(shown_safely, strings(json.loads(text)))) == ""
    names = {event["name"] for event in json.loads(text)["traceEvents"]}
    assert any("onerror" in name for name in names)


@pytest.mark.parametrize(
    "ending", ["csv", "json", "model-explorer.json", "why.model-explorer.json"]
)
def test_files_of_nodes_hold_them_as_text(ending: str) -> None:
    """A row a node, whatever lines its name has, and names as they are: others look them up."""
    problem = listed_problem()
    for told in (nodes(problem), nodes(plan(problem, "heft"))):
        text = told.to_file(Path(f"x.{ending}"))
        if ending == "csv":
            rows = list(csv.reader(io.StringIO(text, newline="")))
            assert {len(row) for row in rows} == {len(rows[0])}
            assert {row[0] for row in rows[1:]} == set(problem.node_names)
        else:
            assert text.isascii()
            json.loads(text)


def test_names_are_text_in_a_browser(tmp_path: Path, opened: Open, placed: Path) -> None:
    _, island = next(islands(tmp_path / "rows", placed, HOSTILE))
    path = tmp_path / "report.html"
    write_page(island, path)
    check_in_a_browser(path, opened)


@pytest.mark.sweep
@pytest.mark.parametrize("width", [360, 1280])
def test_names_are_text_in_a_browser_in_every_kind(
    tmp_path: Path, opened: Open, width: int, placed: Path
) -> None:
    for kind, island in islands(tmp_path / "rows", placed, HOSTILE):
        path = tmp_path / f"{kind}.html"
        write_page(island, path)
        check_in_a_browser(path, opened, width=width)
