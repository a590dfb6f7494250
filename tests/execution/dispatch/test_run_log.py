"""What a run did for real, and when: every call and every value that moved, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace

import onnx
import pytest

import hetsim
from execution.conftest import BRANCHES, Cut, Executor
from hetsim.execution.dispatch import run_log
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.run_log import CALLER, RunLog
from hetsim.execution.program import Step, Timing
from hetsim.execution.run import run
from hetsim.problem.timeline import Event


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


@pytest.mark.parametrize("executor", ["threads", "ray"])
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


class Told:
    """A log, and the clock by which it takes down what happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, keep: bool = True) -> None:
        self.now = 0.0
        monkeypatch.setattr(run_log, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.log = RunLog(keep=keep)

    def at(self, now: float) -> RunLog:
        self.now = now
        return self.log


def about(request: int, name: str) -> tuple[int, int]:
    return (-1 if name == "in0" else "xyz".index(name), 10 * request + len(name))


STEPS = {
    "a": Step("a", (0,), ("in0",), ("x",), (), ((),)),
    "b": Step("b", (1, 2), ("x", "in0"), ("y", "z"), (), ((), ())),
}


def test_what_happened_is_told_from_the_first_request_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one clock: a call's values are on their way from when it was given until it began."""
    told = Told(monkeypatch)
    told.at(100.0).submitted()
    first, second = Call(0, 0, "a", 0), Call(0, 1, "b", 0)
    told.at(101.0).given_out(first, STEPS["a"], {})
    # The next request makes no other beginning.
    told.at(101.5).submitted()
    told.at(104.0).ended(first, Timing(102.0, ((102.0, 104.0),)))
    told.at(104.0).given_out(second, STEPS["b"], {"x": "a"})
    told.at(109.0).ended(second, Timing(105.0, ((105.5, 106.0), (106.0, 108.0))))
    told.at(109.5).fetching(0, {"y": "b", "x": "a"})
    told.at(111.0).fetched(0)
    assert told.log.events(about) == (
        Event("transfer", "in0", 0, 1.0, 2.0, (), "a", CALLER, -1, 3),
        Event("compute", "g0", 0, 2.0, 4.0, ("a/0",), "a", group=0),
        Event("transfer", "in0", 0, 4.0, 5.0, (), "b", CALLER, -1, 3),
        Event("transfer", "x", 0, 4.0, 5.0, (), "b", "a", 0, 1),
        Event("compute", "g1", 0, 5.5, 6.0, ("b/0",), "b", group=1),
        Event("compute", "g2", 0, 6.0, 8.0, ("b/0",), "b", group=2),
        Event("transfer", "x", 0, 9.5, 11.0, (), CALLER, "a", 0, 1),
        Event("transfer", "y", 0, 9.5, 11.0, (), CALLER, "b", 1, 1),
    )
    assert told.log.busy_s == {"a": 2.0, "b": 2.5}
    assert told.log.calls == {"a": 1, "b": 1}
