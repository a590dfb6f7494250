"""Files of grids: every point once, and every mistake with its line."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import jsonschema
import pytest
import yaml

import hetsim
from hetsim.errors import SweepError
from hetsim.sweeping.files.reader import grid_schema


def test_points_are_the_cross_product(grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(grid.parent)
    found = hetsim.load_grid(grid.name)
    points = tuple(found.points())
    assert len(points) == found.size == 16
    assert [point.index for point in points] == list(range(16))
    places = [(p.model, p.platform, p.what_if, p.precision, p.strategy, p.batching, p.load)
              for p in points]  # fmt: skip
    assert places == list(product(*(range(len(axis)) for axis in found.axes)))
    assert found.models[0].source == str(grid.parent / "tiny.onnx")
    assert found.models[0].shown == "tiny.onnx (batch=2)"
    assert [axis.shown for axis in found.platforms] == ["laptop", "rock-5b"]
    assert found.loads[0] is None
    assert [axis and axis.shown for axis in found.loads] == [None, "even"]
    assert [str(axis) for axis in found.what_ifs] == ["", "npu.speed x2"]


def test_short_forms_are_lists_of_one(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text("models: zoo:squeezenet\nplatforms: laptop\nstrategies: auto\n")
    found = hetsim.load_grid(path)
    assert (found.size, found.models[0].source) == (1, "zoo:squeezenet")
    assert found.strategies == ("auto",)


GOOD = "models: [zoo:squeezenet]\nplatforms: [laptop]\n"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("models: []\nplatforms: [laptop]\n", 1, "models"),
        ("models: [zoo:squeezenet]\n", 1, "missing key 'platforms'"),
        ("models: [zoo:squeezenet]\nplatforms: [latop]\n", 2, "did you mean 'laptop'?"),
        (f"{GOOD}stratgies: [heft]\n", 3, "did you mean 'strategies'?"),
        (f"{GOOD}strategies: [hef]\n", 3, "hef"),
        (f"{GOOD}objective: speed\n", 3, "unknown objective 'speed'"),
        (f"{GOOD}what_ifs:\n  - {{}}\n  - nqu.speed x2\n", 5, "no device or link 'nqu'"),
        (f"{GOOD}what_ifs: [{{without: cpu}}]\n", 3, "'cpu' is the host"),
        (f"{GOOD}precisions: [{{npu: int9}}]\n", 3, "int9"),
        (f"{GOOD}precisions: [{{tpu: int8}}]\n", 3, "no device 'tpu'"),
        (f"{GOOD}batchings: [{{max_batch_size: 4}}]\n", 3, "give workloads: without none"),
        (f"{GOOD}workloads: [{{requests: 5}}]\n", 3, "arrivals"),
        (f"{GOOD}workloads:\n - arrivals: {{poisson: {{rate_per_s: -1}}}}\n   requests: 5\n", 4,
         "rate_per_s"),
        (f"{GOOD}workloads:\n - arrivals: {{poisson: {{rate_per_s: 1}}}}\n", 4, "duration"),
        (f"{GOOD}workloads:\n - arrivals: {{replay: {{path: no.csv}}}}\n", 4, "no such file"),
        ("models: [\n", 1, "not YAML"),
        ("", 1, "empty"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(text)
    with pytest.raises(SweepError, match=re.escape(says)) as caught:
        hetsim.load_grid(path)
    assert f"g.yaml:{line}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_fits_one_platform_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(
        "models: zoo:squeezenet\nplatforms: [laptop, desktop]\nwhat_ifs: [npu.speed x2]\n"
    )
    assert hetsim.load_grid(path).size == 2


def test_no_grid_is_larger_than_anybody_waits_for(tmp_path: Path) -> None:
    many = ", ".join(["zoo:squeezenet"] * 2000)
    path = tmp_path / "g.yaml"
    path.write_text(f"models: [{many}]\nplatforms: [{', '.join(['laptop'] * 2000)}]\n")
    with pytest.raises(SweepError, match="4000000 points, more than 1000000; split it"):
        hetsim.load_grid(path)


def test_the_schema_accepts_what_is_read(grid: Path) -> None:
    schema = grid_schema()
    check = jsonschema.Draft202012Validator(schema)
    for text in (grid.read_text(), GOOD, f"{GOOD}strategies: auto\nbatchings: [none]\n",
                 f"{GOOD}workloads: [none]\nbatchings: [null]\n"):  # fmt: skip
        assert not list(check.iter_errors(yaml.safe_load(text))), text
    for wrong in ({"models": []}, {**yaml.safe_load(GOOD), "platform": 3}):
        assert list(check.iter_errors(wrong))
