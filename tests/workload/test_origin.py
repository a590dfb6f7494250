"""Traces of one workload keep the time between them; a column tells whose requests are whose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetsim.errors import WorkloadError
from hetsim.workload.arrivals import Replay
from hetsim.workload.files.reader import check_workload, load_workload
from hetsim.workload.requests import requests_of
from hetsim.workload.workload import Stream, Workload

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
BURST_GPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,276,693,Conversation log
118,ChatGPT,1360,647,2007,Conversation log
180,GPT-4,185,66,251,API log
"""
"""The columns that https://github.com/HPMLL/BurstGPT publishes; rows of our own."""


def came(**arrivals: Replay) -> dict[str, list[float]]:
    streams = tuple(Stream(name, "zoo:resnet18", one) for name, one in arrivals.items())
    return came_of(Workload(streams))


def came_of(workload: Workload) -> dict[str, list[float]]:
    blocks = list(requests_of(workload))
    times = np.concatenate([block.arrival_s for block in blocks])
    which = np.concatenate([block.stream for block in blocks])
    assert (np.diff(times) >= 0).all()
    return {one.name: times[which == at].tolist() for at, one in enumerate(workload.streams)}


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("at\n2023-11-16T18:16:46.68059Z\n2023-11-16T18:16:47.68059Z\n",
         {"column": "at", "unit": "date"}),
        ("at\n2023-11-16 19:16:46.68059+01:00\n2023-11-16 18:16:47.68059+00:00\n",
         {"column": "at", "unit": "date"}),
        ("at\n1700158606680590000\n1700158607680590000\n", {"column": "at", "unit": "ns"}),
        ("at\n1700158606680590\n1700158607680590\n", {"column": "at", "unit": "us"}),
        ('{"at": 1700158606680.59}\n{"at": 1700158607680.59}\n', {"column": "at", "unit": "ms"}),
        ("1700158606.68059\n1700158607.68059\n", {}),
    ],
)  # fmt: skip
def test_files_of_one_epoch_share_an_origin_whatever_their_format(
    tmp_path: Path, text: str, options: dict[str, Any]
) -> None:
    azure = Replay(written(tmp_path / "azure.csv", AZURE))
    minute_later = Replay(written(tmp_path / "other.csv", text), **options)
    # A float holds seconds since 1970 to about 0.2 us.
    close = 1e-12 if options.get("unit") in ("date", "ns", "us") else 1e-6
    for found in (came(a=azure, b=minute_later), came(b=minute_later, a=azure)):
        assert found["a"] == [0.0, 4.314579]
        assert found["b"] == pytest.approx([60.0, 61.0], rel=0, abs=close)


def test_times_of_one_clock_are_equal_where_the_files_say_the_same_time(tmp_path: Path) -> None:
    """Subtracted from one origin they are equal to the bit, so the first stream goes first."""
    first = Replay(written(tmp_path / "a.csv", "0.3\n7.1\n12.345678\n"))
    second = Replay(written(tmp_path / "b.csv", "5.7\n7.1\n12.345678\n"))
    found = came(a=first, b=second)
    assert found["a"] == [0.0, 7.1 - 0.3, 12.345678 - 0.3]
    assert found["b"] == [5.7 - 0.3, 7.1 - 0.3, 12.345678 - 0.3]


def test_what_has_no_epoch_in_common_begins_by_itself(tmp_path: Path) -> None:
    azure = Replay(written(tmp_path / "azure.csv", AZURE))
    plain = Replay(written(tmp_path / "plain.csv", "7\n8\n"))
    later = Replay(written(tmp_path / "later.csv", "9000\n9500\n"), column=None, unit="ms")
    assert came(a=azure, p=plain, l=later) == {
        "a": [0.0, 4.314579], "p": [0.0, 1.0], "l": [2.0, 2.5]
    }  # fmt: skip


def test_speeds_divide_the_time_after_the_origin(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "10\n12\n")
    late = written(tmp_path / "b.csv", "20\n24\n")
    streams = (Stream("a", "m", Replay(path, 2.0)), Stream("b", "m", Replay(late, 4.0)))
    workload = Workload(streams)
    assert came_of(workload) == {"a": [0.0, 1.0], "b": [2.5, 3.5]}
    assert came_of(workload.faster(2.0)) == {"a": [0.0, 0.5], "b": [1.25, 1.75]}
    assert [one.arrivals.rate_per_s for one in workload.streams if one.arrivals] == [1.0, 1.0]


def test_a_stream_says_when_its_file_begins(tmp_path: Path) -> None:
    early = Replay(written(tmp_path / "a.csv", "10\n12\n"), start_s=3.0)
    late = Replay(written(tmp_path / "b.csv", "20\n24\n"))
    last = Replay(written(tmp_path / "c.csv", "21\n25\n"))
    found = came(a=early, b=late, c=last)
    assert found == {"a": [3.0, 5.0], "b": [0.0, 4.0], "c": [1.0, 5.0]}
    streams = (Stream("a", "m", early), Stream("b", "m", late))
    assert came_of(Workload(streams).faster(2.0)) == {"a": [1.5, 2.5], "b": [0.0, 2.0]}


def test_the_origin_holds_of_a_part_of_the_workload_and_of_what_is_shared(tmp_path: Path) -> None:
    early = Replay(written(tmp_path / "a.csv", "10\n12\n"))
    late = Replay(written(tmp_path / "b.csv", "20\n24\n"))
    both = Workload((Stream("a", "m", early), Stream("b", "m", late)))
    assert came_of(Workload(both.streams[1:])) == {"b": [10.0, 14.0]}
    shared = Workload((Stream("a", "m", early), Stream("b", "m", share=1.0)), arrivals=late)
    assert came_of(shared) == {"a": [0.0, 2.0], "b": [10.0, 14.0]}


def test_one_file_feeds_several_streams_by_a_column(tmp_path: Path) -> None:
    path = written(tmp_path / "burst.csv", BURST_GPT)
    columns = ("Request tokens",)
    chat = Replay(path, column="Timestamp", where={"Model": "ChatGPT"}, columns=columns)
    big = Replay(path, column="Timestamp", where={"Model": "GPT-4"}, columns=columns)
    assert came(chat=chat, big=big) == {"chat": [0.0, 40.0, 113.0], "big": [113.0, 175.0]}
    assert came(big=big) == {"big": [113.0, 175.0]}
    assert big.trace().columns["Request tokens"].tolist() == [417, 185]
    assert big.rate_per_s == 1 / 62
    both = {"Model": "GPT-4", "Log Type": "API log"}
    assert came(api=Replay(path, column="Timestamp", where=both)) == {"api": [175.0]}


def test_keys_of_json_lines_choose_requests(tmp_path: Path) -> None:
    rows = '{"at": 1, "tier": 1}\n{"at": 2, "tier": 2}\n{"at": 4, "tier": 1}\n'
    path = written(tmp_path / "t.jsonl", rows)
    assert came(a=Replay(path, column="at", where={"tier": "1"})) == {"a": [0.0, 3.0]}


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"Model": "GPT4"}, "no request where 'Model' is 'GPT4'; did you mean 'GPT-4'?"),
        ({"model": "GPT-4"}, "no columns are named 'model'; did you mean 'Model'?"),
        (
            {"Model": "GPT-4", "Log Type": "x"},
            "no request where 'Model' is 'GPT-4' and 'Log Type'",
        ),
    ],
)
def test_values_that_no_request_has_are_named(
    tmp_path: Path, where: dict[str, str], says: str
) -> None:
    path = written(tmp_path / "burst.csv", BURST_GPT)
    with pytest.raises(WorkloadError) as caught:
        Replay(path, column="Timestamp", where=where).trace()
    assert says in str(caught.value)


def test_a_file_says_it(tmp_path: Path) -> None:
    written(tmp_path / "burst.csv", BURST_GPT)
    written(tmp_path / "azure.csv", AZURE)
    written(
        tmp_path / "w.yaml",
        """streams:
  chat:
    model: zoo:resnet18
    arrivals: {replay: {path: burst.csv, column: Timestamp, where: {Model: ChatGPT}}}
  big:
    model: zoo:resnet50
    arrivals: {replay: {path: burst.csv, column: Timestamp, where: {Model: GPT-4}}}
  azure:
    model: zoo:resnet50
    arrivals: {replay: {path: azure.csv, start_s: 60}}
""",
    )
    assert came_of(load_workload(tmp_path / "w.yaml")) == {
        "chat": [0.0, 40.0, 113.0], "big": [113.0, 175.0], "azure": [60.0, 64.314579]
    }  # fmt: skip


def test_a_file_that_is_missing_is_told_once_where_it_is_named(tmp_path: Path) -> None:
    written(tmp_path / "azure.csv", AZURE)
    written(
        tmp_path / "w.yaml",
        """streams:
  a: {model: "zoo:resnet18", arrivals: {replay: {path: azure.csv}}}
  b: {model: "zoo:resnet18", arrivals: {replay: {path: none.csv}}}
""",
    )
    (error,) = check_workload(str(tmp_path / "w.yaml")).errors
    assert "w.yaml:3: no such file" in str(error)
