"""Steps: which subgraphs share a call, and that playing them finds every value where it is read."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hetsim.execution.program import ProgramSubgraph, steps_of
from sweeps import examples


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[ProgramSubgraph], list[str]]:
    """Random parts in a topological order; each makes one or two values."""
    parts: list[ProgramSubgraph] = []
    values = ["in0", "in1"]
    for index in range(draw(st.integers(1, 12))):
        reads = draw(st.lists(st.sampled_from(values), max_size=3, unique=True))
        writes = [f"v{index}.{k}" for k in range(draw(st.integers(1, 2)))]
        parts.append(ProgramSubgraph(draw(st.sampled_from("abc")), tuple(reads), tuple(writes)))
        values.extend(writes)
    made = values[2:]
    outputs = draw(st.lists(st.sampled_from(made), max_size=4, unique=True))
    return parts, [*outputs, "in1"]


@examples(quick=25, full=100)
@given(programs())
def test_playing_the_steps_finds_every_value_leaves_none_and_takes_few_calls(
    program: tuple[list[ProgramSubgraph], list[str]],
) -> None:
    parts, outputs = program
    steps = steps_of(parts, outputs)
    # Parts that follow one another on a device share a call.
    assert len(steps) <= 1 + sum(a.device != b.device for a, b in pairwise(parts))
    sent = {"in0", "in1"}
    held: dict[str, set[str]] = {part.device: set() for part in parts}
    for step in steps:
        # In submission order nothing is waited for, so no device can block another.
        assert sent.issuperset(step.receives)
        here = held[step.device]
        assert here.isdisjoint(step.receives)
        here.update(step.receives)
        for index, frees in zip(step.parts, step.frees, strict=True):
            assert here.issuperset(parts[index].inputs)
            here.update(parts[index].outputs)
            here.difference_update(frees)
        assert here.issuperset(step.sends)
        sent.update(step.sends)
        here.difference_update(set(step.sends) - set(step.keeps))
    assert sent.issuperset(outputs)
    read = {name for part in parts for name in part.inputs}
    for device, left in held.items():
        unread = {n for p in parts if p.device == device for n in p.outputs if n not in read}
        assert left <= unread


def test_a_call_does_not_withhold_what_another_device_waits_for() -> None:
    parts = [
        ProgramSubgraph("a", (), ("p",)),
        ProgramSubgraph("b", ("p",), ("q",)),
        ProgramSubgraph("a", ("p",), ("r",)),
    ]
    steps = steps_of(parts, ["q", "r"])
    assert [step.parts for step in steps] == [(0,), (1,), (2,)]
    assert steps[0].sends == ("p",)
    assert steps[0].keeps == ("p",)
    assert steps[2].receives == ()
    assert steps[2].frees == (("p",),)
