"""The dispatcher against a model of devices that hold values, lose them, fail and come back."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hetsim.execution.devices.plan_steps import Part, Step, steps_of
from hetsim.execution.dispatch.dispatcher import Call, Dispatcher
from sweeps import examples

STREAMS = {"a": 1, "b": 2, "c": 1}
INPUTS = ("in0", "in1")


@st.composite
def cuts(draw: st.DrawFn) -> tuple[tuple[Step, ...], tuple[Step, ...], list[Part], list[str]]:
    """The same parts on two choices of devices; what they make, and outputs among it."""
    parts: list[Part] = []
    values = list(INPUTS)
    for index in range(draw(st.integers(1, 9))):
        reads = draw(st.lists(st.sampled_from(values), max_size=3, unique=True))
        parts.append(Part(draw(st.sampled_from("abc")), tuple(reads), (f"v{index}",)))
        values.append(f"v{index}")
    outputs = draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3, unique=True))
    moved = [Part(draw(st.sampled_from("ab")), part.inputs, part.outputs) for part in parts]
    return steps_of(parts, outputs), steps_of(moved, outputs), parts, outputs


class Devices:
    """What real workers do, on names in place of arrays: it fails where a value is missing."""

    def __init__(self, parts: list[Part]) -> None:
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


@examples(quick=40, full=150)
@given(cuts(), st.data())
def test_requests_end_whatever_fails(
    made: tuple[tuple[Step, ...], tuple[Step, ...], list[Part], list[str]], data: st.DataObject
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
            dispatcher.switch(second, outputs)
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


def test_a_free_device_takes_the_earliest_request_that_is_ready() -> None:
    parts = [Part("a", ("in0",), ("x",)), Part("b", ("x",), ("y",)), Part("a", ("y",), ("z",))]
    dispatcher = Dispatcher(steps_of(parts, ["z"]), ["z"], {"a": 1, "b": 1})
    for request in range(3):
        dispatcher.admit(request, {"in0": 0})
    dispatcher.restore("a")
    dispatcher.restore("b")

    def end(*calls: Call) -> list[tuple[int, int]]:
        for call in calls:
            dispatcher.finish(call, dict.fromkeys(dispatcher.step(call).sends, 0))
        return [(call.request, call.step) for call in given_out(dispatcher)]

    latest: list[Call] = []

    def given_out(source: Dispatcher) -> list[Call]:
        latest[:] = source.calls()
        return latest

    assert [(c.request, c.step) for c in given_out(dispatcher)] == [(0, 0)]
    # The first device goes on with the second request while the other has the first one.
    assert end(*latest) == [(1, 0), (0, 1)]
    first, second = latest
    assert end(second) == []
    # Both its last step of request 0 and the first one of request 2 are ready.
    assert end(first) == [(0, 2), (1, 1)]


def test_only_what_is_lost_and_needed_is_done_again() -> None:
    parts = [
        Part("a", ("in0",), ("x",)),
        Part("b", ("x",), ("y",)),
        Part("a", ("y",), ("z",)),
        Part("b", ("z",), ("out",)),
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


def test_a_step_of_an_old_version_counts_for_what_it_sent_alone() -> None:
    # The first part moves from a to b, where the last one reads what it left there.
    parts = [Part("a", ("in0",), ("x",)), Part("c", ("x",), ("y",)), Part("b", ("x", "y"), ("z",))]
    old = steps_of(parts, ["z"])
    new = steps_of([replace(parts[0], device="b"), *parts[1:]], ["z"])
    assert new[0].keeps == ("x",)
    assert new[2].receives == ("y",)
    devices = Devices(parts)
    dispatcher = Dispatcher(old, ["z"], STREAMS)
    dispatcher.admit(0, {"in0": "in0 of 0"})
    for device in STREAMS:
        dispatcher.restore(device)
    (call,) = dispatcher.calls()
    dispatcher.switch(new, ["z"])
    # Another device does the step of the same number already.
    running = dispatcher.calls()
    assert [(c.device, c.step) for c in running] == [("b", 0)]
    assert not dispatcher.finish(call, devices.run(call, old[0]))
    assert dispatcher.flights[0].done == set()
    dispatcher.lose("b", values_too=False)
    devices.clear("b")
    dispatcher.restore("b")
    ran = []
    while running := dispatcher.calls():
        for call in running:
            ran.append(call.step)
            dispatcher.finish(call, devices.run(call, new[call.step]))
    assert sorted(ran) == [0, 1, 2]


def test_requests_that_are_given_up_are_forgotten() -> None:
    steps = steps_of([Part("a", ("in0",), ("x",))], ["x"])
    dispatcher = Dispatcher(steps, ["x"], {"a": 1})
    dispatcher.restore("a")
    for request in range(2):
        dispatcher.admit(request, {"in0": 0})
    (call,) = dispatcher.calls()
    assert dispatcher.drop(0)
    assert not dispatcher.drop(0)
    assert dispatcher.calls() == []
    assert not dispatcher.finish(call, {"x": 0})
    assert [c.request for c in dispatcher.calls()] == [1]


def test_after_a_loss_the_steps_of_a_device_wait_for_all_that_run_again_before_them() -> None:
    # Of device b's steps the middle one need not run again once b is lost: a holds what it led to.
    parts = [
        Part("a", ("in0",), ("y",)),
        Part("b", ("y",), ("x", "kept")),
        Part("a", ("x",), ("p",)),
        Part("b", ("p",), ("q",)),
        Part("a", ("q",), ("r",)),
        Part("b", ("r", "kept"), ("z",)),
    ]
    steps = steps_of(parts, ["x", "z"])
    assert [step.parts for step in steps] == [(0,), (1,), (2,), (3,), (4,), (5,)]
    for streams, lost in ((1, ["y"]), (2, []), (2, ["y"])):
        devices = Devices(parts)
        dispatcher = Dispatcher(steps, ["x", "z"], {"a": 1, "b": streams})
        dispatcher.admit(0, {"in0": "in0 of 0"})
        dispatcher.restore("a")
        dispatcher.restore("b")
        for expected in range(5):
            (call,) = dispatcher.calls()
            assert call.step == expected
            assert not dispatcher.finish(call, devices.run(call, steps[call.step]))
        dispatcher.lose("b", values_too=True)
        devices.clear("b")
        dispatcher.miss(0, lost)
        dispatcher.restore("b")
        again = []
        while running := dispatcher.calls():
            (call,) = running
            again.append(call.step)
            done = dispatcher.finish(call, devices.run(call, steps[call.step]))
        assert again == ([0, 1, 5] if lost else [1, 5])
        assert done
