"""What results offer in Python: the same answer as a repr, as HTML, rows, a picture and a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas
import plotly.graph_objects
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from answers_on_disk import read_left
from hetsim.core.result import REPR_LINES, REPR_MOST, Result, short
from hetsim.execution.serving.load_test import Host, late
from hetsim.problem.problem import Problem
from hetsim.reporting import results
from hetsim.workload.arrivals import Constant
from hetsim.workload.deployment import Served
from onnx_builders import make_model, op, value
from sweeps import examples

PROTO = make_model(
    [op("Relu", "x", "h", "relu"), op("Neg", "h", "y", "neg")], [value("x")], [value("y")]
)
LAPTOP = hetsim.load_platform("laptop")
NAMES = tuple(results.VIEWS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A result of each class, by its name."""
    folder = tmp_path_factory.mktemp("results")
    path = str(folder / "m.onnx")
    onnx.save(PROTO, path)
    problem = Problem.of(hetsim.load_model(path), LAPTOP)
    plan = hetsim.plan(problem, "heft")
    slos = (hetsim.Slo(share=0.9, latency_s=1.0),)
    stream = hetsim.Stream("s", path, Constant(10.0), slos=slos)
    workload = hetsim.Workload((stream,), requests=20)
    deployment = hetsim.Deployment((Served(path, strategy="single"),))
    up = {"cpu": 0.9, "gpu": 0.9, "npu": 0.9}
    grid = folder / "grid.yaml"
    grid.write_text(f"models: [{path}]\nplatforms: [laptop]\nstrategies: [heft, auto]\n")
    service = hetsim.simulate(deployment, workload, platform=LAPTOP)
    never = late(np.zeros(0))
    host = Host(never, never, 0, 0, 0.0, 0.0, 0.0, 0.0, 1.0)
    found = (
        hetsim.compare(problem, ["single", "heft"], samples=4),
        hetsim.compare_platforms(problem.model, ["laptop", "rock-5b"], samples=4),
        plan,
        hetsim.simulate(plan),
        hetsim.run(plan, executor="threads"),
        hetsim.partition(problem),
        hetsim.explain(plan),
        hetsim.nodes(plan),
        hetsim.sensitivities(plan),
        hetsim.lint(problem, "heft", least=0.0),
        service,
        hetsim.capacity(deployment, workload, platform=LAPTOP, most_requests=100, gap=0.5),
        hetsim.survive(deployment, workload, platform=LAPTOP, losses=1),
        hetsim.availability(deployment, workload, platform=LAPTOP, target=0.9, available=up),
        hetsim.place(workload, LAPTOP, strategies=("single",), most=1),
        hetsim.recommend(workload, "laptop", objective="devices", max_devices=1, samples=0),
        hetsim.sweep(hetsim.load_grid(grid), folder / "rows", executor="threads"),
        # Of a real run times are others each time, and a busy machine refuses one.
        hetsim.LoadTest(service, service, True, 1.0, host, None, "threads", 0.0),
    )
    return {type(one).__name__: one for one in found}


def test_every_result_has_views(made: dict[str, Any]) -> None:
    kinds = Result.__subclasses__()
    assert {kind.__name__ for kind in kinds} == set(NAMES) == set(made)


@pytest.mark.parametrize("name", NAMES)
def test_a_repr_is_short_and_says_the_answer(name: str, made: dict[str, Any]) -> None:
    text = repr(made[name])
    assert text.startswith(f"{name}: ")
    assert len(text) <= REPR_MOST
    assert 2 <= text.count("\n") + 1 <= REPR_LINES
    # A failure would be told, too, as a repr must not raise.
    assert "Error" not in text


@given(st.lists(st.text(max_size=600), max_size=9))
@examples(quick=65, full=1000)
def test_no_repr_is_long(lines: list[str]) -> None:
    text = short(*lines)
    assert len(text) <= REPR_MOST
    assert text.count("\n") < REPR_LINES
    assert text.replace("\n", "").isprintable()


def test_what_results_are_of_is_short_too() -> None:
    long = "n" * 5000
    problem = Problem.from_arrays([[1.0] * 40] * 3, devices=[f"{long}{k}" for k in range(40)])
    model = hetsim.model_of(PROTO)
    row = hetsim.compare(Problem.of(model, LAPTOP), ["heft"], samples=0).rows[0]
    for one in (problem, model, LAPTOP, LAPTOP.devices["gpu"], row, hetsim.plan(problem, "heft")):
        assert repr(one).startswith(f"{type(one).__name__}: ")
        assert len(repr(one)) <= REPR_MOST


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_of_the_record(name: str, made: dict[str, Any]) -> None:
    found = made[name]
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    if name == "Swept":
        rows: Any = [json.loads(line) for line in Path(found.file).read_text().splitlines()]
    else:
        rows = results.record_of(found)
        for key in results.VIEWS[name].rows.split("."):
            rows = rows[key]
    names = list(rows) if isinstance(rows, dict) else None
    rows = list(rows.values()) if isinstance(rows, dict) else rows
    assert len(frame) == len(rows)
    if names is not None:
        assert list(frame["name"]) == names
    for (_, cells), row in zip(frame.iterrows(), rows, strict=True):
        for key, one in row.items():
            if one is None:
                assert pandas.isna(cells[key])
            elif isinstance(one, (int, float, str)):
                assert cells[key] == one


def test_rows_of_a_purchase_are_its_choices(tmp_path: Path) -> None:
    path = str(tmp_path / "m.onnx")
    onnx.save(PROTO, path)
    bought = hetsim.recommend(
        model=path, rate_per_s=1.0, slos=["p90=1s"], catalog="odroid-m1,rock-5b", samples=0
    )
    assert bought.purchase is not None
    frame = bought.to_pandas()
    assert frame["hourly_usd"].tolist() == [one.hourly_usd for one in bought.purchase.choices]
    assert frame["label"][0] == "best"


def test_figures_within_a_row_keep_their_units(made: dict[str, Any]) -> None:
    compared = made["Comparison"]
    frame = compared.to_pandas().set_index("strategy")
    for row in compared.rows:
        assert frame.loc[row.strategy, "latency_s"] == row.latency_s
        assert frame.loc[row.strategy, "sure.cost_s.p90"] == row.sure.cost_s.high
        assert frame.loc[row.strategy, "timeline.energy_j"] == row.timeline.energy_j
    timeline = made["Timeline"]
    frame = timeline.to_pandas().set_index("name")
    assert frame["busy_s"].to_dict() == timeline.device_busy_s
    assert frame["peak_memory_bytes"].dropna().to_dict() == timeline.peak_memory_bytes


def test_without_pandas_the_error_says_what_to_install(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(hetsim.errors.NotInstalled, match="pip install pandas") as error:
        made["Plan"].to_pandas()
    assert error.value.package == "pandas"


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_one_that_plotly_takes(name: str, made: dict[str, Any]) -> None:
    figure = made[name].plot()
    # The constructor of a figure refuses what its schema does not have.
    again = plotly.graph_objects.Figure(json.loads(figure.to_json()))
    assert len(again.data) == len(figure.data) > 0
    # Names of the page's theme are no colours elsewhere.
    assert not re.search(r'"--[a-z]', figure.to_json())


def test_a_timeline_is_drawn_task_by_task(made: dict[str, Any]) -> None:
    timeline = made["Timeline"]
    drawn = sorted(
        (base, length)
        for bar in timeline.plot().data
        for base, length in zip(bar.base, bar.x, strict=True)
    )
    held = sorted(
        (event.start_s, event.end_s - event.start_s)
        for event in timeline.events
        for _ in event.tracks or ("",)
    )
    assert np.allclose(drawn, held, atol=2e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_reads_back_as_the_record(name: str, made: dict[str, Any], tmp_path: Path) -> None:
    found = made[name]
    page = tmp_path / "page.html"
    found.report(page)
    assert read_left(page).record == results.record_of(found)
    with pytest.raises(hetsim.errors.UsageError, match=r"it exists; .* give force=True"):
        found.report(page)
    found.report(page, force=True)


class Tags(HTMLParser):
    """The names of all tags of a text, and what stands between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.texts = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts += data


@pytest.mark.parametrize("name", NAMES)
def test_html_is_tables_and_paragraphs(name: str, made: dict[str, Any]) -> None:
    found = Tags(made[name]._repr_html_())
    assert found.names <= {"p", "table", "thead", "tbody", "tr", "th", "td", "br"}
    assert found.texts


def test_html_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    problem = Problem.from_arrays([[1.0, 2.0]], devices=(evil, "b"))
    make: tuple[Callable[[], Any], ...] = (
        lambda: hetsim.compare(problem, ["single"], samples=0),
        lambda: hetsim.plan(problem, "heft"),
        lambda: hetsim.simulate(hetsim.plan(problem, "heft")),
    )
    for one in make:
        found = Tags(one()._repr_html_())
        assert "script" not in found.names
        assert evil in found.texts
        assert "<script" not in one().plot().to_json()
