"""Text from models and files shows as text: in pages of every kind, in tables, and in traces."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from answers_on_disk import write_rows
from browsing import Open
from hetsim.analysis.comparing import compare
from hetsim.base.text import to_compact_json
from hetsim.placement.planning import plan
from hetsim.plans.plan import Plan
from hetsim.reporting.pages.island import Island
from hetsim.reporting.pages.islands.compare import comparison_island
from hetsim.reporting.pages.islands.difference import difference_island
from hetsim.reporting.pages.islands.folder import folder_island
from hetsim.reporting.pages.islands.of_left import island_of
from hetsim.reporting.pages.islands.plan import run_island, simulation_island
from hetsim.reporting.pages.page import page, write_page
from hetsim.reporting.pages.pictures.of_plans import pictures_of, played_of
from hetsim.reporting.pages.reading import Left, read_left
from hetsim.reporting.result import comparison_record, simulation_record
from hetsim.reporting.tables.comparison import comparison_report
from hetsim.reporting.tables.plan import simulation_report
from hetsim.reporting.trace import trace_json
from hetsim.reporting.words.console import console, whole
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

KINDS = ("compare", "simulate", "run", "plan", "sweep", "difference", "folder")


def islands(folder: Path, texts: tuple[str, ...]) -> Iterator[tuple[str, Island]]:
    """A report of each kind in which everything that has a name is called so."""
    problem = hostile_problem(texts)
    command = ("hetsim", "compare", *texts)
    found = compare(problem, ["single", "heft"])
    played = [
        (f"{texts[0]} {name}", replace(made, strategy=f"{texts[3]} {name}", reason=texts[4]), of)
        for name, made, of in played_of(found)
    ]
    pictures = pictures_of(played)
    names = {"heft": f"{texts[5]} heft"} | {f"single:{name}": name for name in problem.devices}
    record = poisoned(read(comparison_record(found)), names)
    yield "compare", comparison_island(record, command, pictures)
    made = played[0][1]
    one = read(simulation_record(made, simulate(made)))
    one["plan"]["options"] = {texts[1]: texts[2]}
    yield "simulate", simulation_island(one, command, pictures)
    ran = {"executor": texts[0], "bitwise_equal": False, "tolerance": None,
           "mismatches": list(texts), "precision": "graph", "deviations": [],
           "outputs": {each: {"dtype": each, "shape": [1], "sha256": each} for each in texts},
           }  # fmt: skip
    yield "run", run_island({**one, **ran}, command, pictures)
    saved = json.loads(made.to_json())
    lefts = [
        Left(texts[0], "simulate", one, command, pictures),
        Left(texts[1], "simulate", other_names(one, texts), command, pictures),
        Left(texts[2], "plan", saved, command),
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


def read(record: Any) -> Any:
    return json.loads(to_compact_json(record))


def other_names(record: dict[str, Any], texts: tuple[str, ...]) -> dict[str, Any]:
    """The same answer to a question whose texts are others."""
    changed = json.loads(json.dumps(record))
    changed["problem"]["contention"] = texts[1]
    changed["problem"]["execute"] = {texts[0]: texts[2]}
    changed["plan"]["strategy"] = texts[5]
    return changed


def plain_texts() -> tuple[str, ...]:
    return tuple(f"plain{number}" for number in range(len(HOSTILE)))


def test_pages_of_every_kind_have_the_elements_of_plain_names(tmp_path: Path) -> None:
    hostile = dict(islands(tmp_path / "hostile", HOSTILE))
    plain = dict(islands(tmp_path / "plain", plain_texts()))
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


@pytest.mark.parametrize("width", [40, 80, 200])
def test_tables_show_them_as_text(width: int) -> None:
    problem = hostile_problem()
    found = compare(problem, ["single", "heft"])
    made = replace(plan(problem, "heft"), strategy=HOSTILE[3], reason=HOSTILE[5])
    for report in (
        comparison_report(found, wide=True),
        simulation_report(made, simulate(made)),
    ):
        text = printed(report, width)
        assert shown_safely(text) == ""


def test_traces_hold_them_as_text() -> None:
    problem = hostile_problem()
    made: Plan = replace(plan(problem, "heft"), strategy=HOSTILE[3])
    text = trace_json(made, simulate(made))
    assert text.isascii()
    assert "".join(map(shown_safely, strings(json.loads(text)))) == ""
    names = {event["name"] for event in json.loads(text)["traceEvents"]}
    assert any("onerror" in name for name in names)


def test_names_are_text_in_a_browser(tmp_path: Path, opened: Open) -> None:
    _, island = next(islands(tmp_path / "rows", HOSTILE))
    path = tmp_path / "report.html"
    write_page(island, path)
    check_in_a_browser(path, opened)


@pytest.mark.sweep
@pytest.mark.parametrize("width", [360, 1280])
def test_names_are_text_in_a_browser_in_every_kind(
    tmp_path: Path, opened: Open, width: int
) -> None:
    for kind, island in islands(tmp_path / "rows", HOSTILE):
        path = tmp_path / f"{kind}.html"
        write_page(island, path)
        check_in_a_browser(path, opened, width=width)
