"""Published measurements: every row says what it is, and where it stands."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

MEASURED = Path(__file__).parents[2] / "data" / "measured"
ALWAYS = ("id", "kind", "source", "device", "chip", "unit", "model", "precision", "metric")
UNITS = {"cpu", "gpu", "npu", "tpu", "fpga", "dla"}
SOURCE = re.compile(r"github:[\w.-]+/[\w.-]+@[0-9a-f]{12}:.+|https://\S+.*")


@pytest.fixture(scope="module")
def rows():
    with gzip.open(MEASURED / "rows.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_each_row_is_whole(rows):
    for row in rows:
        assert not [name for name in ALWAYS if not row.get(name)], row
        assert SOURCE.fullmatch(row["source"]), row["source"]
        assert set(row["unit"].split("+")) <= UNITS, row["unit"]
        assert None not in row.values()


def test_figures_are_positive(rows):
    without = 0
    for row in rows:
        figures = [row[k] for k in ("latency_ms", "throughput_per_s") if k in row]
        assert all(figure > 0 for figure in figures), row
        assert row.get("batch", 1) >= 1
        without += not figures
    assert without == 17  # real-time factors of sound, flagged so


def test_a_network_that_is_called_int8_is_no_float(rows):
    """Ten rows were labelled by the heading of their table, not by the network's own name."""
    called = [row for row in rows if "int8" in row["model"].lower()]
    assert len(called) == 10
    assert {row["model"] for row in called if "int8" not in row["precision"]} == set()


def test_rows_are_in_order_and_no_two_are_the_same(rows):
    keys = [(row["kind"], row["source"], row["id"]) for row in rows]
    assert keys == sorted(keys)
    assert len({row["id"] for row in rows}) == len(rows)


def test_the_readme_counts_what_is_there(rows):
    text = (MEASURED / "README.md").read_text(encoding="utf-8")
    found = Counter(row["kind"] for row in rows)
    assert f"{len(rows):,} times" in text
    told: dict[str, int] = {}
    for kinds, count in re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \| ([\d,]+) \|", text, re.M):
        names = re.findall(r"`([\w-]+)`", kinds)
        assert sum(found[name] for name in names) == int(count.replace(",", "")), names
        told.update(dict.fromkeys(names, 1))
    assert set(told) == set(found)
    for name in ("links", "gemm"):
        lines = (MEASURED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        assert all(json.loads(line)["source"] for line in lines)
        assert re.search(rf"`{name}.jsonl` \|.*\b{len(lines)}\b", text)


def test_the_wheel_has_a_notice_that_names_each_source(rows):
    project = ProjectMetadata(str(MEASURED.parents[1]), PluginManager())
    assert "NOTICE" in project.core.license_files
    notice = (MEASURED.parents[1] / "NOTICE").read_text(encoding="utf-8")
    told = " ".join(notice.split())
    rounds = told.partition("mlcommons/inference_results_")[2].partition(" Apache")[0].split(", ")
    count = sum(row["kind"] == "mlperf" for row in rows)
    assert f"{count:,} results" in told
    for source in {row["source"] for row in rows}:
        if found := re.match(
            r"github:(mlcommons/inference_results_)?([\w.-]+(?:/[\w.-]+)?)@", source
        ):
            assert found[2] in (rounds if found[1] else told), source
        else:
            assert source.split("/")[2] in told, source
