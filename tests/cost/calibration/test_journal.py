"""Measurements on disk: what was interrupted goes on, what is of another machine does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetsim.cost.calibration.measuring import (
    Journal,
    Kernel,
    Setting,
    Taken,
    merged,
    taken,
)
from hetsim.device.kernels.timing import TimedKernelRuns, TimedNetwork
from hetsim.errors import InvalidInput

SETTING = Setting("cpu", 1, "ONNX Runtime 1", {"processor": "P"}, 1)
ONE = Taken("a", 0, 0.5, 0.1, 0.0, (Kernel("k", "Conv", 8, 0.25), Kernel("l", "Relu", None, 0.1)))


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = Journal(path, SETTING)
    journal.add(ONE)
    journal.add(replace(ONE, round=1))
    again = Journal(path, SETTING)
    assert list(again) == list(journal) == [ONE, replace(ONE, round=1)]
    assert ("a", 1) in again
    assert ("a", 2) not in again
    assert again.by_network() == {"a": [ONE, replace(ONE, round=1)]}


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    Journal(path, SETTING).add(ONE)
    whole = path.read_bytes()
    path.write_bytes(whole + b'["b", 0, 0.')
    again = Journal(path, SETTING)
    assert list(again) == [ONE]
    again.add(replace(ONE, network="b"))
    assert [one.network for one in Journal(path, SETTING)] == ["a", "b"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (replace(SETTING, threads=2), "begun with threads 1, and this is 2"),
        (replace(SETTING, runtime="ONNX Runtime 2"), "begun with runtime 'ONNX Runtime 1'"),
        (replace(SETTING, machine={"processor": "Q"}), "begun with machine {'processor': 'P'}"),
        (replace(SETTING, provider="cuda"), "begun with provider 'cpu'"),
        (replace(SETTING, design=2), "begun with design 1"),
    ],
)
def test_another_setting_is_refused(tmp_path: Path, other: Setting, message: str) -> None:
    path = tmp_path / "j.jsonl"
    Journal(path, SETTING)
    with pytest.raises(InvalidInput) as caught:
        Journal(path, other)
    assert message in str(caught.value)
    assert "delete it to begin anew" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "x\n", "{}\n", '{"schema": "other", "setting": {}}\n', "[]\n"]
)
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="not a journal of a calibration"):
        Journal(path, SETTING)


@pytest.mark.parametrize(
    "line", ["x", "[]", '["a", 0, -1, 0, 0, []]', '["a", 0, 1, 0, 0, [["k"]]]']
)
def test_a_line_that_is_no_measurement_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "j.jsonl"
    Journal(path, SETTING).add(ONE)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(line + "\n")
    with pytest.raises(InvalidInput, match=r"j.jsonl:3: not a measurement"):
        Journal(path, SETTING)


def test_repeats_become_one_figure_with_their_spread() -> None:
    runs = TimedNetwork(
        cpu_s=(1.0, 1.2, 1.1, 5.0), wall_s=(2.0, 2.4, 2.2, 10.0),
        kernels=(TimedKernelRuns("k", "Conv", "CPU", 4, (0.3, 0.2, 0.9)),),
    )  # fmt: skip
    found = taken("n", 0, runs, SETTING)
    assert (found.seconds, found.waited) == (1.0, 0.5)
    assert found.spread == (5.0 - 1.0) / 2
    assert found.kernels == (Kernel("k", "Conv", 4, 0.2),)
    by_wall = taken("n", 0, runs, replace(SETTING, threads=2))
    assert (by_wall.seconds, by_wall.waited) == (2.0, 0.0)


def test_several_times_become_one() -> None:
    later = replace(ONE, round=1, seconds=0.6, kernels=(Kernel("k", "Conv", 8, 0.2),))
    found = merged([ONE, later])
    assert found.seconds == 0.5
    assert found.spread == pytest.approx(0.1)
    assert found.kernels == (Kernel("k", "Conv", 8, 0.2),)
    assert merged([ONE]) == ONE
