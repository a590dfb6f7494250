"""``hetsim compare`` of several platforms, or of the whole catalog."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from cli_calls import call, ok, record_of, refused
from hetsim.cli.verbs.compare import ONE_PLATFORM, compare
from hetsim.hardware.catalog import platform_names
from onnx_builders import make_model, op, save, value

TWO = ("compare", "zoo:squeezenet", "--platform", "rock-5b, jetson-orin-nano", "--samples", 20)


def test_platforms_are_a_list_and_the_page_has_the_record(tmp_path: Path) -> None:
    page = tmp_path / "boards.html"
    record = record_of(*TWO, "--report", page)
    assert record["schema"] == "hetsim-platforms/1"
    assert [row["name"] for row in record["rows"]] == ["jetson-orin-nano", "rock-5b"]
    assert record["rows"][0]["offers"][0]["usd"] == 249
    read = re.search(r'id="hetsim-data">(.*?)</script>', page.read_text("utf-8"), re.S)
    assert read is not None
    island = json.loads(read[1])
    assert (island["kind"], island["record"]) == ("platforms", record)
    again = tmp_path / "again.html"
    assert call("report", page, "--out", again).exit_code == 0
    assert record["verdict"]["say"].split(":")[0] in again.read_text("utf-8")


def test_the_first_sentence_is_the_answer() -> None:
    result = ok(*TWO)
    text = " ".join(result.stdout.split())
    assert text.startswith("Of 2 boards and machines, jetson-orin-nano is fastest: ")
    assert "on gpu alone in float32." in text
    assert "heapest within 10 %: jetson-orin-nano ($249, " in text
    assert "cheapest of all: rock-5b ($" in text
    assert result.stderr == ""


@pytest.mark.sweep
def test_without_a_platform_it_is_the_catalog() -> None:
    record = record_of("compare", "zoo:squeezenet", "--strategy", "single", "--samples", 5)
    rows = record["rows"]
    assert set(platform_names()) <= {row["name"] for row in rows}
    assert {row["name"] for row in rows if not row["alone"]} == set(platform_names())
    costs = [row["cost_s"] for row in rows if row["feasible"]]
    assert costs == sorted(costs)
    assert all(row["reason"] for row in rows if not row["feasible"])


FLAGS = [one.opts[-1] for one in compare.params if one.name in ONE_PLATFORM]


@pytest.mark.parametrize("flag", FLAGS)
def test_options_of_one_platform_are_refused(flag: str) -> None:
    words = {"--sustained": (), "--run": (), "--explain": (), "--sensitivities": (),
             "--executor": ("threads",), "--timeout": ("9s",), "--precision": ("device",),
             "--affinity": ("model",), "--profile": ("npu=x.json",),
             "--measured": ("npu=x.onnx:4ms",)}  # fmt: skip
    refused(
        call("compare", "zoo:squeezenet", flag, *words.get(flag, ("x",))),
        2,
        f"{flag} needs one platform; add --platform NAME",
    )


def test_open_dimensions_say_what_to_type(tmp_path: Path) -> None:
    weights = np.zeros((4, 3, 3, 3), np.float32)
    nodes = [op("Conv", "x w", "y")]
    shape = ("N", 3, "H", "W")
    proto = make_model(nodes, [value("x", shape)], [value("y", None)], {"w": weights})
    assert isinstance(proto, onnx.ModelProto)
    path = save(proto, tmp_path)
    refused(call("compare", path, "--samples", 5), 3, "--shape x=N,3,N,N")
    record = record_of("compare", path, "--platform", "rock-5b,raspberry-pi-4", "--shape",
                       "x=1,3,64,64")  # fmt: skip
    assert len(record["rows"]) == 2


def test_a_target_that_no_platform_meets_is_missed() -> None:
    result = call(*TWO, "--target", "1us")
    assert result.exit_code == 5
    assert "misses the target of 1.00 us" in result.stderr
    assert call(*TWO, "--target", "1s").exit_code == 0


def test_one_platform_named_twice_is_one_platform() -> None:
    once, twice = (
        record_of("compare", "zoo:squeezenet", "--platform", name, "--samples", 0)
        for name in ("raspberry-pi-4", "raspberry-pi-4, raspberry-pi-4,")
    )
    assert twice["schema"] == once["schema"]
    assert twice["rows"] == once["rows"]


def test_a_platform_that_does_not_exist_is_said_before_the_model_is_read() -> None:
    result = call("compare", "none.onnx", "--platform", "rock-5b,jetson")
    assert result.exit_code in (2, 3)
    assert "no platform 'jetson' in the catalog" in result.stderr
