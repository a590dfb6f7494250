"""What verbs left on disk is read back, and what is none of it is told by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from answers_on_disk import AnswersOnDisk, left_by_verbs, read_left
from cli_calls import call, record_of
from hetsim.core.text import Record
from hetsim.errors import InvalidInput
from hetsim.reporting.formatting import ratio
from hetsim.reporting.pages.answers import island_of
from hetsim.reporting.pages.difference import difference_island
from hetsim.reporting.pages.page import pack, page, write_page
from hetsim.reporting.pages.records import beside, headline
from hetsim.reporting.pages.saved import KINDS, SavedAnswer, read_all


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> AnswersOnDisk:
    return left_by_verbs(tmp_path_factory.mktemp("answers"))


def test_a_page_gives_the_same_report_again(answers: AnswersOnDisk) -> None:
    left = read_left(answers.page)
    assert left.kind == "compare"
    assert left.record == json.loads(answers.record.read_text())
    again = page(island_of(left, ("hetsim", "report")))
    assert again == answers.page.read_text()


def test_a_record_alone_gives_verdict_and_tables(answers: AnswersOnDisk) -> None:
    island = island_of(read_left(answers.record), ("hetsim", "report", "x"))
    whole = island_of(read_left(answers.page), ())
    assert island.verdict == whole.verdict
    views = [section.view for section in whole.sections]
    assert [section.view for section in island.sections] == [views[0], views[-1]]
    assert island.tiles == whole.tiles
    rows = next(one for one in island.sections[0].tables if one.title == "rows").rows
    assert [row[0] for row in rows] == [one["strategy"] for one in island.record["rows"]]


def test_a_folder_of_out_has_its_command_and_plan(answers: AnswersOnDisk) -> None:
    left = read_left(answers.folder)
    assert left.kind == "simulate"
    assert left.command[:2] == ("hetsim", "simulate")
    assert left.plan is not None
    island = island_of(left, ())
    subgraphs = next(section for section in island.sections if section.view == "subgraphs")
    assert len(subgraphs.tables[0].rows) == len(left.plan["groups"])


def test_a_plan_and_a_sweep_have_a_report(answers: AnswersOnDisk) -> None:
    for path, kind in ((answers.folder / "plan.json", "plan"), (answers.sweep, "sweep")):
        left = read_left(path)
        assert left.kind == kind
        island = island_of(left, ("hetsim", "report"))
        assert island.verdict.say
        assert island.sections
    assert len(read_left(answers.sweep).rows) == 2
    assert read_left(answers.sweep / "rows.jsonl") == read_left(answers.sweep)


def test_the_figures_that_an_answer_is_about_lead_its_report(tmp_path: Path) -> None:
    """Of a plan, of what came under load, and of a placement, as the verbs print them."""
    asked = "simulate zoo:squeezenet --platform laptop --strategy single:gpu --rate 50"
    served = record_of(*asked.split(), "--requests", 200)
    top = headline(served)
    (stream,) = served["streams"]
    for one in stream["percentiles"]:
        told = top[stream["name"], f"p{one['percentile']:g}", "latency_s"]
        assert told == one["latency_s"]
    workload = tmp_path / "workload.yaml"
    arrivals = "arrivals: {constant: {rate_per_s: 1}}, slos: [p99=1s]"
    workload.write_text(f"requests: 9\nstreams: {{a: {{model: zoo:squeezenet, {arrivals}}}}}\n")
    placed = record_of("recommend", "--workload", workload, "--platform", "edge-tpu")
    left = SavedAnswer("placement.json", KINDS[placed["schema"]], placed)
    factor = placed["rows"][0]["factor"]
    assert headline(placed)["best", "factor"] == factor
    shown = {one.path[-1]: one.texts()[1] for one in beside({}, headline(placed))}
    assert shown["factor"] == ratio(factor)
    assert f"{factor:.3g}x the demand" in island_of(left, ()).verdict.say


def test_a_folder_of_several_is_all_of_them(answers: AnswersOnDisk) -> None:
    (answers.root / "readme.txt").write_text("passed over")
    (answers.root / "other.html").write_text("<p>passed over")
    (answers.root / "other.json").write_text("{}")
    found = read_all(answers.root)
    assert [Path(left.source).name for left in found] == [
        "compared.html", "compared.json", "out", "swept"
    ]  # fmt: skip


WRONG: dict[str, Any] = {
    "empty.json": "",
    "cut.json": '{"schema": "hetsim-compar',
    "list.json": "[1]",
    "none.json": "{}",
    "number.json": '{"schema": 7}',
    "other.json": '{"schema": "hetsim-zoo/1"}',
    "deep.json": "[" * 100_000,
    "page.html": "<html></html>",
    "cut.html": '<script type="application/json" id="hetsim-data">{"report"',
    "broken.html": '<script type="application/json" id="hetsim-data">{"report"</script>',
    "version.html": (
        '<script type="application/json" id="hetsim-data">{"report":"hetsim-report/9"}</script>'
    ),
    "fields.html": (
        '<script type="application/json" id="hetsim-data">{"report":"hetsim-report/2"}</script>'
    ),
    "bytes.json": b"\xff\xfe\x00",
    "rows.jsonl": "no row\n",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_answer_is_told_by_its_name(name: str, tmp_path: Path) -> None:
    path, content = tmp_path / name, WRONG[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInput) as caught:
        read_all(path)
    assert name in str(caught.value)
    assert caught.value.hint


def zeros(nbytes: int) -> Record:
    """So many zeros, as pages have what is packed."""
    return {"packed": pack(b"0" * nbytes)}


@pytest.mark.parametrize(
    ("pictures", "told"),
    [
        (lambda: {"subgraphs": zeros(2**26 + 1)}, "more than 64.0 MiB"),
        (lambda: {"timeline": [{"tasks": zeros(2**20)}] * 65}, "more than 64.0 MiB"),
        (lambda: {"subgraphs": {"packed": zeros(9)["packed"][:-8]}}, "are cut"),
        (lambda: {"subgraphs": {"packed": "no gzip"}}, "damaged"),
        (lambda: {"subgraphs": {"packed": pack(b"[" * 10**5)}}, "not whole"),
    ],
    ids=["one", "many", "cut", "other", "deep"],
)
def test_what_is_packed_is_not_unpacked_without_end(
    pictures: Callable[[], Record], told: str, tmp_path: Path, answers: AnswersOnDisk
) -> None:
    """A page of some kilobytes may say that it holds gigabytes: they are never made."""
    made = read_left(answers.folder)
    path = tmp_path / "bomb.html"
    write_page(replace(island_of(made, ()), pictures=pictures()), path)
    for least in (path, tmp_path):
        result = call("report", least, "-o", tmp_path / "again.html")
        assert result.exit_code == 3
        assert told in result.stderr
        assert "bomb.html" in result.stderr
        assert not (tmp_path / "again.html").exists()


def test_nothing_there_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(InvalidInput, match=path.name):
            read_all(path)


@pytest.mark.parametrize("schema", KINDS)
def test_a_record_that_lacks_its_fields_is_told(schema: str, tmp_path: Path) -> None:
    """Whatever is missing of it, the answer is a report or one line."""
    path = tmp_path / "half.json"
    for more in ({}, {"rows": []}, {"rows": [3]}, {"plan": None, "timeline": {}}, {"groups": "x"}):
        path.write_text(json.dumps({"schema": schema, **more}))
        assert said_or_made(path)


@pytest.mark.parametrize("schema", KINDS)
def test_of_two_the_one_that_is_damaged_is_told(schema: str, tmp_path: Path) -> None:
    """What moved between any two that each may be read is a report or one line."""
    amiss = (
        {}, {"problem": {"model": "x"}}, {"problem": {"figures": []}}, {"model": "x"}, {"rows": 3},
        {"problem": {"model": {}, "devices": 4}}, {"plan": {"options": [1]}, "timeline": "x"},
    )  # fmt: skip
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    for was, now in (*product(amiss, amiss[:1]), *zip(amiss, amiss, strict=True)):
        one.write_text(json.dumps({"schema": schema, **was}))
        other.write_text(json.dumps({"schema": schema, **now}))
        assert moved_or_said(one, other)


def moved_or_said(one: Path, other: Path) -> bool:
    """Whether it is told what moved, or one line that names one of the two."""
    try:
        made = difference_island(read_left(one), read_left(other), ("hetsim", "report"))
    except InvalidInput as error:
        return one.name in str(error) or other.name in str(error)
    return made.kind == "difference"


def said_or_made(path: Path) -> bool:
    """Whether there is a page of it, or one line that names it."""
    try:
        made = page(island_of(read_left(path), ("hetsim", "report")))
    except InvalidInput as error:
        return path.name in str(error)
    return bool(made)
