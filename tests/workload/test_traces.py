"""Traces are read as they are published, and refused with the line that is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetsim.errors import WorkloadError
from hetsim.workload import traces as reading
from hetsim.workload.arrivals import Numbers, Replay
from hetsim.workload.traces import MAX_LINE_BYTES, File, read_trace

AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319601,3180,8
2023-11-16 18:17:04.0319601,110,27
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-12 23:59:59.001163+00:00,1452,3
2024-05-13 00:00:00+00:00,584,3
2024-05-13 01:00:00.5+01:00,862,38
"""
MOONCAKE = """{"timestamp": 27482, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 30535, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]}
"""


def written(folder: Path, text: str | bytes, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path: Path, **options: Any) -> reading.Trace:
    asked = {key: options.pop(key) for key in ("columns",) if key in options}
    return read_trace(File(str(path), **options), **asked)


def test_azure_as_of_2023_to_a_hundred_nanoseconds(tmp_path: Path) -> None:
    trace = read(written(tmp_path, AZURE_2023), columns=("ContextTokens", "GeneratedTokens"))
    assert trace.format == "azure"
    assert trace.arrival_s.tolist() == [0, 0.0520001, 0.0520001]
    assert trace.columns["ContextTokens"].tolist() == [4808, 3180, 110]
    assert trace.columns["GeneratedTokens"].tolist() == [10, 8, 27]
    assert trace.rate_per_s == pytest.approx(2 / 0.0520001)


def test_azure_as_of_2024_with_zones_and_whole_seconds(tmp_path: Path) -> None:
    trace = read(written(tmp_path, AZURE_2024))
    assert trace.format == "azure"
    assert trace.arrival_s.tolist() == [0, 0.998837, 1.498837]
    assert trace.columns == {}


def test_mooncake_in_milliseconds(tmp_path: Path) -> None:
    trace = read(written(tmp_path, MOONCAKE, "t.jsonl"), columns=("input_length",))
    assert trace.format == "mooncake"
    assert trace.arrival_s.tolist() == [0, 3.053]
    assert trace.columns["input_length"].tolist() == [6758, 7322]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("5.5\n6\n\n7.25\n", {}),
        ("at\n5.5\n6\n7.25\n", {"column": "at"}),
        ("size, at\r\n1,5500\r\n2,6000\r\n3,7250\r\n", {"column": "at", "unit": "ms"}),
        ('"at"\n"5500000"\n"6000000"\n"7250000"\n', {"column": "at", "unit": "us"}),
        ("at\n2024-01-01T00:00:05.5Z\n2024-01-01 00:00:06\n2024-01-01 00:00:07.25\n",
         {"column": "at", "unit": "date"}),
        ("at\n1700000000000000000\n1700000000500000000\n1700000001750000000\n",
         {"column": "at", "unit": "ns"}),
        ('{"at": 5.5}\n{"at": 6}\n{"at": 7.25}\n', {"column": "at"}),
        ('\ufeff{"at": 5.5, "x": null}\n{"at": 6}\n{"at": 7.25}', {"column": "at"}),
    ],
)  # fmt: skip
def test_a_column_of_any_file(tmp_path: Path, text: str, options: dict[str, Any]) -> None:
    assert read(written(tmp_path, text), **options).arrival_s.tolist() == [0, 0.5, 1.75]


def test_a_compressed_trace_is_the_same(tmp_path: Path) -> None:
    plain = read(written(tmp_path, AZURE_2023))
    packed = read(written(tmp_path, gzip.compress(AZURE_2023.encode()), "t.csv.gz"))
    assert np.array_equal(plain.arrival_s, packed.arrival_s)


def test_a_replay_gives_the_times_faster_where_asked(tmp_path: Path) -> None:
    path = written(tmp_path, "".join(f"{second}\n" for second in range(100)))
    numbers = Numbers(0, "a")
    times = np.concatenate(list(Replay(str(path)).blocks(numbers)))
    assert np.array_equal(times, np.arange(100.0))
    faster = np.concatenate(list(Replay(str(path)).faster(4.0).blocks(numbers)))
    assert np.array_equal(faster, times / 4)
    assert Replay(str(path), 4.0).rate_per_s == 4.0


def test_a_trace_that_changed_is_read_again(tmp_path: Path) -> None:
    path = written(tmp_path, "1\n2\n")
    assert len(read(path).arrival_s) == 2
    written(tmp_path, "1\n2\n3\n")
    assert len(read(path).arrival_s) == 3


HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("", {}, "t.csv:1: the trace is empty; it has one request a line"),
        ("\n1\n", {}, "t.csv:1: the first line is empty; it has one request a line"),
        (HEAD, {}, "t.csv:1: the trace has no request; add requests"),
        ("2\n1\n", {}, "t.csv:2: 'the time' is before that of the previous line; sort the"),
        ("1\nnan\n", {}, "t.csv:2: 'the time' is 'nan': not finite"),
        ("1\ninf\n", {}, "t.csv:2: 'the time' is 'inf': not finite"),
        ("-1\n2\n", {}, "t.csv:1: 'the time' is '-1': negative"),
        ("1\nx\n", {}, "t.csv:2: 'the time' is 'x': not a number"),
        ("1\n1e300\n", {}, "t.csv:2: 'the time' is '1e300': above 1e+12 s"),
        ("1\n" + "9" * 400 + "\n", {}, "above 1e+12 s"),
        ("1\n" + "9" * 5000 + "\n", {}, "not finite"),
        ("1\n1,2\n", {}, "t.csv:2: 2 values, but 1 on the first line"),
        ("a,b\n1,2\n", {}, "t.csv:1: the column of the time is not given"),
        ("a,b\n1,2\n", {"column": "aa"}, "t.csv:1: no columns are named 'aa'; did you mean 'a'?"),
        ("a,a\n1,2\n", {"column": "a"}, "t.csv:1: 2 columns are named 'a'"),
        ("a\n2024-01-01 00:00:00\n", {"column": "a"}, "not a number; write unit: date"),
        ("a\n7\n", {"column": "a", "unit": "date"}, "not a date such as 2023-11-16 18:17:03.979"),
        ("a\n2024-13-01 00:00:00\n", {"column": "a", "unit": "date"}, "t.csv:2: 'a' is "),
        ('a\n"1\n', {"column": "a"}, "t.csv:2: not CSV: "),
        (HEAD + "2023-11-16 18:17:03,many,10\n", {"columns": ("ContextTokens",)},
         "t.csv:2: 'ContextTokens' is 'many', not a whole number from 1 to 2147483647"),
        (HEAD + "2023-11-16 18:17:03,0,10\n", {"columns": ("ContextTokens",)}, "is '0', not"),
        (HEAD + "2023-11-16 18:17:03,1,10\n", {"columns": ("Context",)},
         "t.csv:1: no columns are named 'Context'; did you mean 'ContextTokens'?"),
        (HEAD, {"column": "TIMESTAMP"}, "t.csv: 'azure' defines the column of the time; remove"),
        (b"\xff\xfe1\n", {}, "t.csv:1: not UTF-8 text; a trace is CSV or JSON lines"),
        ('{"timestamp": 1, "input_length": 2}\n{"timestamp": 2}\n', {"columns": ("input_length",)},
         "t.csv:2: no key 'input_length'; choose from: timestamp"),
        ('{"timestamp": 1, "input_length": 2}\n[]\n', {}, "t.csv:2: not a JSON object; write"),
        ('{"timestamp": 1, "input_length": 2}\n{"timestamp"\n', {}, "t.csv:2: not JSON; write one"),
        ('{"timestamp": NaN, "input_length": 2}\n', {}, "t.csv:1: 'timestamp' is nan: not finite"),
        ('{"timestamp": true, "input_length": 2}\n', {}, "'timestamp' is True: not a number"),
        ('{"timestamp": null, "input_length": 2}\n', {}, "'timestamp' is None: not a number"),
        ('{"timestamp": 1, "input_length": 2.5}\n', {"columns": ("input_length",)}, "is 2.5"),
        ('{"at": 1}\n', {}, "t.csv: the key of the time is not given; write column: KEY"),
        ("{" * 3000, {}, "t.csv: the key of the time is not given"),
        ('{"at":' + "[" * 5000 + "\n", {"column": "at"}, "t.csv:1: not JSON; write one"),
        ("1" * MAX_LINE_BYTES, {}, f"t.csv:1: a line of {MAX_LINE_BYTES} bytes or more; a trace"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_with_file_line_and_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | bytes,
    options: dict[str, Any],
    says: str,
) -> None:
    written(tmp_path, text, "t.csv")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkloadError) as caught:
        read(Path("t.csv"), **options)
    assert says in str(caught.value)
    assert str(caught.value).startswith("t.csv:")
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    for path, says in (
        (tmp_path / "none.csv", "no such file"),
        (tmp_path, "cannot be read"),
        (tmp_path / "a\0b", "cannot be read"),
        (written(tmp_path, b"no gzip", "bad.gz"), "not a complete gzip file"),
        (
            written(tmp_path, gzip.compress(AZURE_2023.encode())[:40], "cut.gz"),
            "not a complete gzip file",
        ),
    ):
        with pytest.raises(WorkloadError, match=says):
            read(path)


def test_an_enormous_trace_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_REQUESTS", 3)
    assert len(read(written(tmp_path, "1\n" * 3)).arrival_s) == 3
    with pytest.raises(WorkloadError, match=r"t\.csv:4: more than 3 requests; cut"):
        read(written(tmp_path, "1\n" * 5, "t.csv"))


TRACES = Path(__file__).parents[2] / "examples" / "traces"


@pytest.mark.parametrize(
    ("kind", "requests", "seconds", "means"),
    [
        ("code", 8819, 3435.948056, (2047.8483, 27.8825)),
        ("conv", 19366, 3501.7219375, (1154.6974, 211.1259)),
    ],
)
def test_the_traces_of_the_examples_are_read_as_azure_published_them(
    kind: str, requests: int, seconds: float, means: tuple[float, float]
) -> None:
    path = TRACES / f"AzureLLMInferenceTrace_{kind}.csv"
    trace = read(path, columns=("ContextTokens", "GeneratedTokens"))
    assert (trace.format, len(trace.arrival_s)) == ("azure", requests)
    assert trace.arrival_s[-1] == pytest.approx(seconds, abs=1e-6)
    assert [column.mean() for column in trace.columns.values()] == pytest.approx(means, abs=1e-4)
