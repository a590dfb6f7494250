"""What a run did for real, and when: every call and every value that moved, in order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import onnx
import pytest
from click.testing import CliRunner

import hetsim
from hetsim.cli.main import main
from hetsim.execution.devices.plan_steps import Step, Timing
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.run_log import CALLER, RunLog
from hetsim.execution.run import run
from hetsim.plans.timeline import Event
from onnx_builders import save

Cut = Callable[[onnx.ModelProto, Sequence[tuple[str, Sequence[int]]]], hetsim.Plan]
Executor = Literal["ray", "processes", "threads"]
BRANCHES = [("cpu", [0]), ("gpu", [1]), ("npu", [2, 3]), ("gpu", [4]), ("cpu", [5])]


def check(events: Sequence[Event]) -> None:
    """Times are in order: nothing starts before it was there, or beside another on its stream."""
    assert all(0 <= event.start_s <= event.end_s for event in events)
    assert [event.start_s for event in events] == sorted(event.start_s for event in events)
    computing = [event for event in events if event.kind == "compute"]
    for track in {event.tracks for event in computing}:
        own = [event for event in computing if event.tracks == track]
        assert all(one.end_s <= other.start_s for one, other in pairwise(own))
    made = {(e.request, e.group): e for e in computing if e.group >= 0 and not e.lost}
    for event in events:
        if event.kind == "transfer" and event.group >= 0 and (event.request, event.group) in made:
            assert made[event.request, event.group].end_s <= event.start_s


@pytest.mark.parametrize("executor", ["threads", "processes", "ray"])
def test_a_run_says_what_it_did(request: pytest.FixtureRequest, executor: Executor) -> None:
    if executor == "ray":
        done = request.getfixturevalue("ran_on_ray").run
    else:
        cut, diamond = (request.getfixturevalue(name) for name in ("cut", "diamond"))
        done = run(cut(diamond, BRANCHES), executor=executor)
    check(done.events)
    computed = [event for event in done.events if event.kind == "compute"]
    assert sorted(event.group for event in computed) == [0, 1, 2, 3, 4]
    assert [BRANCHES[event.group][0] for event in computed] == [e.device for e in computed]
    assert {event.tracks for event in computed} == {("cpu/0",), ("gpu/0",), ("npu/0",)}
    moved = Counter((e.name, e.source, e.device) for e in done.events if e.kind == "transfer")
    assert moved == Counter(
        [("x", CALLER, "cpu"), ("a", "cpu", "gpu"), ("a", "cpu", "npu"), ("d", "npu", "gpu"),
         ("e", "gpu", "cpu"), ("y", "cpu", CALLER), ("b", "gpu", CALLER)]
    )  # fmt: skip


def test_a_session_records_where_it_is_asked_to(cut: Cut, diamond: onnx.ModelProto) -> None:
    with hetsim.Session(cut(diamond, BRANCHES), "threads") as session:
        session.run()
        assert session.events == ()
    with hetsim.Session(cut(diamond, BRANCHES), "threads", trace=True) as session:
        for request in [session.run_async(seed=seed) for seed in range(5)]:
            request.result()
        events = session.events
    check(events)
    assert Counter(e.request for e in events if e.kind == "compute") == dict.fromkeys(range(5), 5)


def test_calls_that_came_to_nothing_are_there(cut: Cut, diamond: onnx.ModelProto) -> None:
    with hetsim.Session(cut(diamond, BRANCHES), "threads", trace=True) as session:
        session.run()
        session.inject([hetsim.Failure("npu", 0.0, "hang", 0.2)])
        requests = [session.run_async(seed=seed) for seed in range(4)]
        for request in requests:
            request.result()
        events = session.events
    check(events)
    assert [event.device for event in events if event.lost] == ["npu"]
    # What was done by the plan made after it has no group of the first plan.
    later = [event for event in events if event.kind == "compute" and event.group < 0]
    assert later
    assert all(event.name.endswith(" of plan 2") for event in later)
    assert all(event.device != "npu" for event in later)


def test_the_clock_of_another_machine_is_set_to_the_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = iter([100.0, 101.0, 103.0])
    monkeypatch.setattr("hetsim.execution.dispatch.run_log.time.monotonic", lambda: next(now))
    log = RunLog(keep=True)
    step = Step("gpu", (0, 1), ("x",), ("y",), (), ((), ()))
    call = Call(0, 0, "gpu", 0)
    log.submitted()
    log.given_out(call, step, {})
    log.ended(call, Timing(7000.0, ((7000.25, 7000.5), (7000.5, 7001.0))))
    moved, first, second = log.events(lambda request, name: (-1, 8))
    # Two seconds went by here and one there: half a second each way.
    assert (moved.name, moved.start_s, moved.end_s, moved.nbytes) == ("x", 1.0, 1.5, 8)
    assert (first.name, first.start_s, first.end_s) == ("g0", 1.75, 2.0)
    assert (second.name, second.start_s, second.end_s) == ("g1", 2.0, 2.5)


@pytest.mark.parametrize("target", ["--trace", "--out"])
def test_the_trace_of_a_run_holds_the_run(
    diamond: onnx.ModelProto, tmp_path: Path, target: str
) -> None:
    path = save(diamond, tmp_path)
    where = tmp_path / "written"
    done = CliRunner().invoke(
        main,
        ["run", str(path), "--platform", "laptop", "--strategy", "hetero:npu,gpu,cpu",
         "--executor", "threads", target, str(where), "--json"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    record = json.loads((where if target == "--trace" else where / "trace.json").read_text())
    entries = record["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in entries if e["name"] == "process_name"}
    drawn = Counter(
        names[entry["pid"]].partition(":")[0]
        for entry in entries
        if entry["ph"] == "X" and entry["cat"] == "compute"
    )
    subgraphs = json.loads(done.stdout)["plan"]["subgraphs"]
    assert drawn == {
        "real run, wall clock": subgraphs, "simulation, virtual clock": subgraphs
    }  # fmt: skip
