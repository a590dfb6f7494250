"""The dispatcher against a model of devices that hold values, lose them, fail and come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hetsim.execution.dispatch.dispatcher import Call, Dispatcher
from hetsim.execution.program import ProgramSubgraph, ReplicaSteps, Step, steps_of
from sweeps import examples

STREAMS = {"a": 1, "b": 2, "c": 1}
INPUTS = ("in0", "in1")


@st.composite
def cuts(
    draw: st.DrawFn,
) -> tuple[tuple[Step, ...], tuple[Step, ...], list[ProgramSubgraph], list[str]]:
    """The same parts on two choices of devices; what they make, and outputs among it."""
    parts: list[ProgramSubgraph] = []
    values = list(INPUTS)
    for index in range(draw(st.integers(1, 9))):
        reads = draw(st.lists(st.sampled_from(values), max_size=3, unique=True))
        parts.append(ProgramSubgraph(draw(st.sampled_from("abc")), tuple(reads), (f"v{index}",)))
        values.append(f"v{index}")
    outputs = draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3, unique=True))
    moved = [
        ProgramSubgraph(draw(st.sampled_from("ab")), part.inputs, part.outputs) for part in parts
    ]
    return steps_of(parts, outputs), steps_of(moved, outputs), parts, outputs


class Devices:
    """What real workers do, on names in place of arrays: it fails where a value is missing."""

    def __init__(self, parts: list[ProgramSubgraph]) -> None:
        self.parts = parts
        self.held: dict[tuple[str, int, int], set[str]] = {}

    def run(self, call: Call, step: Step) -> dict[str, str]:
        values = self.held.setdefault((call.device, call.version, call.request), set())
        values.update(step.receives)
        for part, frees in zip(step.parts, step.frees, strict=True):
            assert values.issuperset(self.parts[part].inputs)
            values.update(self.parts[part].outputs)
            values.difference_update(frees)
        assert values.issuperset(step.sends)
        values.difference_update(set(step.sends) - set(step.keeps))
        return {name: f"{name} of {call.request}" for name in step.sends}

    def clear(self, device: str) -> None:
        self.held = {key: values for key, values in self.held.items() if key[0] != device}


@examples(quick=15, full=150)
@given(cuts(), st.data())
def test_requests_end_whatever_fails(
    made: tuple[tuple[Step, ...], tuple[Step, ...], list[ProgramSubgraph], list[str]],
    data: st.DataObject,
) -> None:
    first, second, parts, outputs = made
    devices = Devices(parts)
    dispatcher = Dispatcher(first, outputs, STREAMS)
    versions = [first]
    down = set(STREAMS)
    running: dict[Call, Step] = {}
    admitted, finished = 0, set()
    quiet = 0
    while len(finished) < 3:
        for call in dispatcher.calls():
            step = dispatcher.step(call)
            values = dispatcher.flights[call.request].values
            assert all(values[name] == f"{name} of {call.request}" for name in step.receives)
            assert call.device not in down
            running[call] = step
            here = [c for c in running if c.device == call.device]
            assert len(here) <= STREAMS[call.device]
            # An older version's state is another one.
            alike = [c for c in here if (c.request, c.version) == (call.request, call.version)]
            assert alike == [call]
        calm = quiet > 25
        choices = ["end"] * bool(running) + ["admit"] * (admitted < 3) + ["up"] * bool(down)
        if not calm:
            choices += ["fail", "lost"] * bool(running) + ["die", "die and lose"]
            choices += ["switch"] * (len(versions) == 1)
        quiet += 1
        action = data.draw(st.sampled_from(choices))
        if action == "admit":
            dispatcher.admit(admitted, {n: f"{n} of {admitted}" for n in INPUTS})
            admitted += 1
        elif action == "up":
            device = data.draw(st.sampled_from(sorted(down)))
            down.discard(device)
            dispatcher.restore(device)
        elif action == "switch":
            versions.append(second)
            dispatcher.switch(1, second, outputs)
        elif action.startswith("die"):
            device = data.draw(st.sampled_from(sorted(STREAMS)))
            dispatcher.lose(device, values_too=action != "die")
            devices.clear(device)
            down.add(device)
            running = {call: step for call, step in running.items() if call.device != device}
        else:
            order = sorted(running, key=lambda c: (c.request, c.version, c.step))
            call = data.draw(st.sampled_from(order))
            step = running.pop(call)
            if action == "end":
                if dispatcher.finish(call, devices.run(call, step)):
                    found = dispatcher.flights[call.request].values
                    assert all(found[n] == f"{n} of {call.request}" for n in outputs)
                    finished.add(call.request)
                    dispatcher.drop(call.request)
            elif action == "fail":
                devices.held.pop((call.device, call.version, call.request), None)
                dispatcher.fail(call)
            else:
                lost = data.draw(st.sets(st.sampled_from(step.receives))) if step.receives else ()
                dispatcher.fail(call, lost, state_gone=False)


class Rule:
    """Who takes what next, word for word, where nothing fails."""

    def __init__(
        self, steps: Sequence[Step], outputs: Sequence[str], replicas: Sequence[ReplicaSteps]
    ) -> None:
        self.steps, self.outputs = steps, outputs
        self.own = [range(one.first, one.first + one.count) for one in replicas]
        self.replica_of: dict[int, int] = {}
        self.sent: dict[int, set[str]] = {}
        self.done: dict[int, set[int]] = {}
        self.running: set[tuple[int, int]] = set()

    def ready(self, device: str) -> list[tuple[int, int]]:
        """Steps of requests that have all they read, and follow what was done there before."""
        return [
            (request, step)
            for request, replica in self.replica_of.items()
            for step in self.own[replica]
            if self.steps[step].device == device
            and step not in self.done[request]
            and (request, step) not in self.running
            and self.sent[request].issuperset(self.steps[step].receives)
            and all(
                before in self.done[request]
                for before in self.own[replica]
                if before < step and self.steps[before].device == device
            )
        ]

    def give_out(self, streams: dict[str, int]) -> set[tuple[int, int]]:
        """A free stream takes the step of the earliest request."""
        found = set()
        for device, width in streams.items():
            busy = sum(self.steps[step].device == device for _, step in self.running)
            for one in sorted(self.ready(device))[: max(width - busy, 0)]:
                self.running.add(one)
                found.add(one)
        return found


@examples(quick=15, full=400)
@given(st.lists(cuts(), min_size=1, max_size=3), st.data())
def test_where_nothing_fails_each_step_runs_once_when_its_turn_comes(
    made: list[tuple[tuple[Step, ...], tuple[Step, ...], list[ProgramSubgraph], list[str]]],
    data: st.DataObject,
) -> None:
    """With replicas, dealt out over and over, and requests that are given up in between."""
    # The same parts wherever they run: of the first, on other devices in each replica.
    _, _, parts, outputs = made[0]
    places = st.lists(st.sampled_from("abc"), min_size=len(parts), max_size=len(parts))
    steps: list[Step] = []
    replicas: list[ReplicaSteps] = []
    for key in range(len(made)):
        moved = zip(data.draw(places), parts, strict=True)
        mine = steps_of([replace(part, device=device) for device, part in moved], outputs)
        replicas.append(ReplicaSteps(len(steps), len(mine), key))
        steps += mine
    deal = data.draw(st.lists(st.sampled_from(range(len(replicas))), min_size=1, max_size=4))
    dispatcher = Dispatcher(steps, outputs, STREAMS, replicas, deal)
    rule = Rule(steps, outputs, replicas)
    for device in STREAMS:
        dispatcher.restore(device)
    running: dict[tuple[int, int], Call] = {}
    admitted = 0
    while admitted < 4 or running:
        action = data.draw(
            st.sampled_from(
                ["admit"] * (admitted < 4) + ["end"] * 2 * bool(running) + ["drop"] * bool(running)
            )
        )
        if action == "admit":
            dispatcher.admit(admitted, {name: name for name in INPUTS})
            rule.replica_of[admitted] = deal[admitted % len(deal)]
            rule.sent[admitted], rule.done[admitted] = set(INPUTS), set()
            admitted += 1
        elif action == "end":
            request, step = data.draw(st.sampled_from(sorted(running)))
            over = dispatcher.finish(
                running.pop((request, step)), dict.fromkeys(steps[step].sends, step)
            )
            rule.running.discard((request, step))
            known = request in rule.replica_of
            if known:
                rule.sent[request].update(steps[step].sends)
                rule.done[request].add(step)
            assert over == (known and rule.sent[request].issuperset(outputs))
        else:
            # What runs of it holds its stream until it ends.
            request = data.draw(st.sampled_from(sorted(rule.replica_of) or [-1]))
            assert dispatcher.drop(request) == (request in rule.replica_of)
            rule.replica_of.pop(request, None)
        given_out = dispatcher.calls()
        assert all(call.version == 0 for call in given_out)
        assert all(call.device == steps[call.step].device for call in given_out)
        now = {(call.request, call.step): call for call in given_out}
        assert now.keys() == rule.give_out(STREAMS)
        assert len(now) == len(given_out)
        running.update(now)
        for device in STREAMS:
            theirs = [running[one] for one in sorted(running) if running[one].device == device]
            known_of = [call for call in theirs if call.request in rule.replica_of]
            assert list(dispatcher.running_on(device)) == known_of
    assert set(dispatcher.flights) == set(rule.replica_of)
    for request, replica in rule.replica_of.items():
        assert rule.done[request] == set(rule.own[replica])


def test_only_what_is_lost_and_needed_is_done_again() -> None:
    parts = [
        ProgramSubgraph("a", ("in0",), ("x",)),
        ProgramSubgraph("b", ("x",), ("y",)),
        ProgramSubgraph("a", ("y",), ("z",)),
        ProgramSubgraph("b", ("z",), ("out",)),
    ]
    steps = steps_of(parts, ["out"])
    dispatcher = Dispatcher(steps, ["out"], {"a": 1, "b": 1})
    dispatcher.admit(0, {"in0": 0})
    dispatcher.restore("a")
    dispatcher.restore("b")
    for _ in range(3):
        (call,) = dispatcher.calls()
        dispatcher.finish(call, dict.fromkeys(dispatcher.step(call).sends, 0))
    (call,) = dispatcher.calls()
    assert call.step == 3
    assert dispatcher.lose("b", values_too=False) == (0,)
    dispatcher.restore("b")
    assert [(c.device, c.step) for c in dispatcher.calls()] == [("b", 3)]
    # With what it sent: z is on a's side still, so y, which only z needed, is not made again.
    dispatcher.lose("b", values_too=True)
    dispatcher.restore("b")
    assert [(c.device, c.step) for c in dispatcher.calls()] == [("b", 3)]
    dispatcher.lose("a", values_too=True)
    dispatcher.restore("a")
    assert [(c.device, c.step) for c in dispatcher.calls()] == []
