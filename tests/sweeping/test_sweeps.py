"""A sweep answers every point once, whenever it is killed, and its bytes are always the same."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from cli.conftest import tiny_model
from cli_calls import call, ok, record_of
from hetsim.errors import SweepError, UsageError
from hetsim.hardware.catalog import load_platform
from hetsim.placement.objective import kept_s
from hetsim.sweeping import verb
from hetsim.sweeping.evaluation import MOST, RemainingPoints, SharedSettings, SweepProgress, broken
from hetsim.sweeping.grid import Grid, ModelAxis, PlatformAxis
from hetsim.sweeping.rows import COLUMNS, line
from hetsim.sweeping.store import Store, keys_of
from sweeps import examples, sweep

LAPTOP = (PlatformAxis("laptop", "laptop"),)


def swept(grid: Path, out: Path, **more: Any) -> verb.Swept:
    return hetsim.sweep(hetsim.load_grid(grid), out, executor="threads", **more)


def test_rows_are_what_the_verbs_say(grid: Path, tmp_path: Path) -> None:
    told: list[SweepProgress] = []
    found = swept(grid, tmp_path / "out", tell=told.append)
    assert (len(found.rows), found.answered, found.known, found.failed) == (16, 16, 0, 8)
    assert [one.done for one in told][-1] == 16
    assert told[-1].left_s == 0
    model = hetsim.load_model(tmp_path / "tiny.onnx", dims={"batch": 2})
    for row in found.rows:
        assert tuple(row) == COLUMNS
        assert (row["error"] is None) == (row["strategy"] == "heft")
        if row["strategy"] == "single:npu":
            assert row["kind"] == "UnsupportedNode"
            assert "'npu' does not support" in row["error"]
            continue
        platform = load_platform(row["platform"])
        if row["what_if"]:
            platform = hetsim.what_if(platform, row["what_if"])
        plan = hetsim.plan(hetsim.Problem.of(model, platform), "heft")
        timeline = hetsim.simulate(plan)
        assert row["latency_s"] == timeline.latency_s
        assert row["devices"] == ",".join(plan.devices_used)
        if row["workload"] is None:
            assert (row["request_s"], row["energy_j"]) == (kept_s(plan), timeline.energy_j)
            assert row["p99_s"] is None
        else:
            assert (row["workload"], row["requests"], row["state"]) == ("even", 40, "stable")
            # Requests every millisecond, each of which takes less: none waits.
            assert row["mean_s"] == pytest.approx(timeline.latency_s, rel=1e-6)
            assert row["verdict"] is not None


@sweep("ends", quick=[(7,)], full=[(7,), (0, 1, 15)])
def test_what_is_answered_is_not_asked_again(
    ends: tuple[int, ...], grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    bytes_of = swept(grid, out).file.read_bytes()
    assert sorted(path.name for path in out.iterdir()) == ["rows.jsonl"]
    lines = bytes_of.splitlines(keepends=True)

    def never(*_: object) -> None:
        raise AssertionError("asked again")

    with monkeypatch.context() as patched:
        patched.setattr(verb, "answer", never)
        again = swept(grid, out)
        assert (again.answered, again.known) == (0, 16)
        assert again.file.read_bytes() == bytes_of
        # Killed before it was put in order, and as the next row was written.
        (out / "rows.jsonl").rename(out / "journal.jsonl")
        assert swept(grid, out).answered == 0
        assert (out / "rows.jsonl").read_bytes() == bytes_of
    for end in ends:
        for cut in (b"", lines[end][: len(lines[end]) // 2]):
            (out / "rows.jsonl").unlink()
            # In whatever order they came.
            (out / "journal.jsonl").write_bytes(b"".join(reversed(lines[:end])) + cut)
            went_on = swept(grid, out)
            assert (went_on.known, went_on.answered) == (end, 16 - end)
            assert went_on.file.read_bytes() == bytes_of


def test_a_larger_grid_asks_what_is_new(grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    small = swept(grid, out)
    grid.write_text(grid.read_text().replace("[heft, ", "[heft, single:cpu, "))
    large = swept(grid, out)
    assert (large.known, large.answered) == (16, 8)
    kept = [row for row in large.rows if row["strategy"] != "single:cpu"]
    assert kept == list(small.rows)


def test_rows_of_another_hetsim_answer_nothing(grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = swept(grid, out)
    other = "".join(line({**row, "more": 1}) + "\n" for row in found.rows)
    (out / "rows.jsonl").write_text(other)
    assert swept(grid, out).answered == 16


def test_another_model_is_another_question(grid: Path, tmp_path: Path) -> None:
    found = hetsim.load_grid(grid)
    platforms = [load_platform(axis.source) for axis in found.platforms]
    keys = keys_of(found, platforms)
    assert len(set(keys)) == len(keys) == 16
    assert keys_of(found, platforms) == keys
    proto = tiny_model("batch")
    proto.graph.initializer[0].raw_data = bytes(len(proto.graph.initializer[0].raw_data))
    onnx.save(proto, tmp_path / "tiny.onnx")
    assert not set(keys_of(found, platforms)) & set(keys)
    (tmp_path / "tiny.onnx").unlink()
    gone = swept(grid, tmp_path / "out")
    assert gone.failed == 16
    assert {row["kind"] for row in gone.rows} == {"ModelError"}
    onnx.save(proto, tmp_path / "tiny.onnx")
    assert swept(grid, tmp_path / "out").failed == 8


def test_points_that_are_the_same_are_asked_once(tmp_path: Path) -> None:
    grid = Grid((ModelAxis("zoo:no", shown="a"), ModelAxis("zoo:no", shown="a")), LAPTOP)
    found = hetsim.sweep(grid, tmp_path, executor="threads")
    assert (found.answered, found.known, len(found.rows)) == (1, 1, 2)
    assert found.rows[0] == found.rows[1]


def test_the_folder_is_one_of_a_sweep_and_of_one_alone(grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Store(out), pytest.raises(SweepError, match="another sweep is writing it"):
        swept(grid, out)
    for text in ("{}\n", "nothing\n", '{"key": 3}\n', "[]\n"):
        (out / "rows.jsonl").write_text(text)
        with pytest.raises(SweepError, match=r"rows.jsonl:1: this is not a row of a sweep"):
            swept(grid, out)
    (tmp_path / "file").write_text("")
    with pytest.raises(SweepError, match="cannot be written"):
        swept(grid, tmp_path / "file")


def test_what_broke_is_asked_again(tmp_path: Path) -> None:
    grid = Grid((ModelAxis("zoo:no", shown="a"),), LAPTOP)
    shared = SharedSettings(grid, (load_platform("laptop"),), "")
    row = {**broken(shared, 0, "its\nend"), "key": "k"}
    assert (row["error"], row["kind"]) == ("its end", "broken")
    with Store(tmp_path) as store:
        store.add([row])
        store.finish([line(row)])
    with Store(tmp_path) as store:
        assert not store.known


@examples(quick=15, full=100)
@given(
    st.integers(1, 3000), st.integers(1, 64), st.lists(st.floats(1e-5, 2.0), min_size=1, max_size=5)
)
def test_every_place_is_dealt_out_once(count: int, cores: int, seconds: list[float]) -> None:
    """And a chunk has 50 ms of work, as far as known, until there is no more."""
    keys = tuple(map(str, range(count)))
    shared = SharedSettings(Grid((ModelAxis("m"),), LAPTOP), (), "")
    kept: list[Any] = []
    work = RemainingPoints(shared, keys, deque(range(count)), kept.extend, lambda so_far: None, 0)
    dealt: list[int] = []
    turn = 0
    while (chunk := work.take(cores)) is not None:
        took_s = seconds[turn % len(seconds)]
        turn += 1
        enough = len(chunk) * work.seconds_a_point >= 0.05 or len(chunk) == MOST
        assert turn == 1 or enough or not work.places
        dealt += chunk
        work.give(chunk, ([{"error": None} for _ in chunk], took_s * len(chunk)))
    assert dealt == list(range(count))
    assert work.done == len(kept) == count
    assert [row["key"] for row in kept] == list(keys)


def test_a_chunk_whose_process_died_is_asked_point_by_point() -> None:
    grid = Grid((ModelAxis("a"), ModelAxis("b")), LAPTOP)
    kept: list[Any] = []
    work = RemainingPoints(SharedSettings(grid, (), ""), ("k", "l"), deque([0, 1]), kept.extend,
                   lambda so_far: None, 0)  # fmt: skip
    work.places.clear()
    work.lost((0, 1), "killed")
    assert [work.take(2), work.take(2), work.take(2)] == [(0,), (1,), None]
    work.lost((1,), "killed")
    assert [row["error"] for row in kept] == ["its process died: killed"]
    assert work.failed == 1


def test_the_command_tells_of_points_failures_and_the_front(grid: Path, tmp_path: Path) -> None:
    words = ("sweep", grid, "-o", tmp_path / "out", "--executor", "threads")
    shown = ok(*words, "--front", "latency_s,energy_j:min")
    text = " ".join(shown.stdout.split())
    assert "points 16, 16 computed" in text
    assert "failed 8; each row has its error 4 points: 'npu' does not support" in text
    assert "the Pareto front of latency_s (least) and energy_j (least) has " in text
    # The table has each row of the grid, in its order.
    lines = [line.split() for line in call(*words).stdout.splitlines()]
    rows = [json.loads(line) for line in (tmp_path / "out/rows.jsonl").read_text().splitlines()]
    assert [line[-1] for line in lines[-16:]] == [row["kind"] or "-" for row in rows]
    record = record_of(*words, "--front", "p99_s")
    counts = [record[name] for name in ("points", "answered", "known", "failed")]
    assert counts == [16, 0, 16, 8]
    assert {row["workload"] for row in record["front"]} == {"even"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "Missing argument 'GRID.yaml'"),
        (("g.yaml",), "Missing option '-o' / '--out'"),
        (("g.yaml", "-o", "x"), "g.yaml: no such file"),
    ],
)
def test_what_is_missing_is_told(words: tuple[str, ...], says: str) -> None:
    shown = call("sweep", *words)
    assert shown.exit_code in (2, 3)
    assert says in shown.stderr


def test_executors_are_two(grid: Path, tmp_path: Path) -> None:
    known = hetsim.load_grid(grid)
    with pytest.raises(UsageError, match="unknown executor 'here' for sweeps"):
        hetsim.sweep(known, tmp_path / "o", executor="here")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="an address needs the executor 'ray'"):
        hetsim.sweep(known, tmp_path / "o", executor="threads", address="auto")
    assert not (tmp_path / "o").exists()
