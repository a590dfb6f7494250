"""All streams together are each of them alone, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from hetsim.workload import arrivals as room
from hetsim.workload.arrivals import Burst, Closed, Constant, Gamma, Mmpp, Poisson, Replay
from hetsim.workload.requests import Requests, requests_of
from hetsim.workload.workload import Follows, Stream, Workload

SURE = 1e-3


def streams(**arrivals: Any) -> tuple[Stream, ...]:
    return tuple(Stream(name, "zoo:bert_small", given) for name, given in arrivals.items())


def joined(workload: Workload) -> Requests:
    blocks = list(requests_of(workload))
    assert all(len(block) for block in blocks)
    return Requests(
        np.concatenate([block.arrival_s for block in blocks] or [np.zeros(0)]),
        np.concatenate([block.stream for block in blocks] or [np.zeros(0, dtype=np.int64)]),
        np.concatenate([block.variant for block in blocks] or [np.zeros(0, dtype=np.int64)]),
    )


MIXED = Workload(
    streams(
        a=Poisson(30.0), b=Gamma(5.0, 2.0), c=Burst(8.0, 4), d=Constant(2.0),
        e=Mmpp((1.0, 50.0), (3.0, 1.0)), f=Burst(8.0, 4), g=Closed(3),
    ),
    duration_s=300.0,
    seed=5,
)  # fmt: skip


def test_each_stream_keeps_its_own_times_and_all_ascend() -> None:
    found = joined(MIXED)
    assert np.all(np.diff(found.arrival_s) >= 0)
    assert found.arrival_s[-1] < 300
    for at, stream in enumerate(MIXED.streams):
        mine = found.arrival_s[found.stream == at]
        if isinstance(stream.arrivals, Closed):
            assert not len(mine)
            continue
        assert np.array_equal(mine, joined(replace(MIXED, streams=(stream,))).arrival_s)
        assert len(mine)


def test_at_one_time_the_stream_that_is_written_first_comes_first() -> None:
    found = joined(MIXED)
    ties = np.diff(found.arrival_s) == 0
    assert np.count_nonzero(ties) > 1000
    assert np.all(np.diff(found.stream)[ties] >= 0)


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_the_order_does_not_depend_on_how_many_are_drawn_at_a_time(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = joined(replace(MIXED, duration_s=20.0))
    monkeypatch.setattr(room, "BLOCK", block)
    parts = joined(replace(MIXED, duration_s=20.0))
    assert np.array_equal(parts.arrival_s, whole.arrival_s)
    assert np.array_equal(parts.stream, whole.stream)


def test_the_first_of_all_streams_together_are_counted() -> None:
    found = joined(replace(MIXED, duration_s=None, requests=70_001))
    assert len(found.arrival_s) == 70_001
    short = joined(replace(MIXED, duration_s=None, requests=100))
    assert np.array_equal(short.arrival_s, found.arrival_s[:100])


def test_clients_alone_and_rates_of_zero_give_no_block() -> None:
    given = streams(a=Closed(3), b=Poisson(0.0), c=Closed(2))
    for some in (given[:1], given, (given[0], given[2])):
        assert list(requests_of(Workload(some, duration_s=1.0))) == []


def test_merged_poisson_streams_are_one_of_the_summed_rate() -> None:
    merged = joined(Workload(streams(a=Poisson(30.0), b=Poisson(10.0)), requests=100_000))
    assert scipy.stats.kstest(np.diff(merged.arrival_s), "expon", args=(0, 1 / 40.0)).pvalue > SURE
    assert np.mean(merged.stream) == pytest.approx(0.25, abs=0.006)


def shared(arrivals: Any, **shares: float) -> Workload:
    each = tuple(Stream(name, "m.onnx", share=share) for name, share in shares.items())
    return Workload(each, requests=100_000, arrivals=arrivals)


def test_a_poisson_process_that_is_split_is_poisson_and_independent() -> None:
    found = joined(shared(Poisson(40.0), a=0.75, b=0.25))
    for at, rate in ((0, 30.0), (1, 10.0)):
        gaps = np.diff(found.arrival_s[found.stream == at])
        assert scipy.stats.kstest(gaps, "expon", args=(0, 1 / rate)).pvalue > SURE
    windows = int(found.arrival_s[-1])
    counts = [
        np.bincount(found.arrival_s[found.stream == at].astype(int), minlength=windows)[:windows]
        for at in (0, 1)
    ]
    assert abs(np.corrcoef(*counts)[0, 1]) < 4 / np.sqrt(windows)


def test_shares_change_no_time_and_a_share_of_zero_gets_nothing() -> None:
    found = joined(shared(Gamma(40.0, 2.0), a=0.5, none=0.0, b=0.5, last=0.0))
    assert np.bincount(found.stream, minlength=4)[[1, 3]].tolist() == [0, 0]
    other = joined(shared(Gamma(40.0, 2.0), a=0.1, b=0.9))
    assert np.array_equal(other.arrival_s, found.arrival_s)


def test_a_workload_that_is_faster_has_the_same_requests_sooner(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("0\n1\n1\n5\n")
    more = streams(h=Replay(str(path)))
    workload = replace(MIXED, streams=(*MIXED.streams, *more), duration_s=None, requests=5000)
    found, faster = joined(workload), joined(workload.faster(4.0))
    assert np.array_equal(faster.arrival_s, found.arrival_s / 4)
    assert np.array_equal(faster.stream, found.stream)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "t.jsonl"
    sizes = (1, 128, 129, 512, 513, 9000)
    path.write_text(
        "".join(
            f'{{"timestamp": {at * 1000}, "input_length": {size}, "output_length": {at + 1}}}\n'
            for at, size in enumerate(sizes)
        )
    )
    return str(path)


def test_dimensions_follow_columns_by_buckets(trace: str) -> None:
    dims = {
        "batch": 2,
        "sequence": Follows("input_length", (128, 512, 1024), "truncate"),
        "new": Follows("output_length", (3, 6)),
    }
    stream = Stream("a", "m.onnx", Replay(trace), dims=dims)
    found = joined(Workload((stream,)))
    bound = [stream.variants[one] for one in found.variant]
    assert [one["sequence"] for one in bound] == [128, 128, 512, 512, 1024, 1024]
    assert [one["new"] for one in bound] == [3, 3, 3, 6, 6, 6]
    assert {one["batch"] for one in bound} == {2}


def test_blocks_are_made_as_they_are_asked_for() -> None:
    """Ten million requests, or without end: only what is asked for is drawn."""
    endless: Iterator[Requests] = requests_of(replace(MIXED, duration_s=1e9))
    sizes = [len(next(endless)) for _ in range(20)]
    assert max(sizes) < 2**19
