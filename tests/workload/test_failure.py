"""Failures as text: what is read, and what is refused with a hint."""

from __future__ import annotations

import math

import pytest

from hetsim.errors import UsageError
from hetsim.workload.failure import Failure, check_failures, parse_failures

DEVICES = ("cpu", "gpu.0", "gpu.1", "npu")


def test_what_is_written_is_read() -> None:
    assert parse_failures("kill gpu.0 at 3ms") == (Failure("gpu.0", 0.003),)
    assert parse_failures("kill npu at 2s for 5ms,hang cpu at .5us for 1.5s") == (
        Failure("npu", 2.0, "kill", 0.005),
        Failure("cpu", 0.5e-6, "hang", 1.5),
    )


def test_a_failure_writes_itself() -> None:
    for text in ("kill gpu.0 at 3ms", "hang npu at 0.5ms for 20ms"):
        assert str(parse_failures(text)[0]) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write 'kill DEVICE"),
        ("kill gpu", "write 'kill DEVICE"),
        ("kill gpu in 3ms", "write 'kill DEVICE"),
        ("kill gpu at 3ms until 5ms", "write 'kill DEVICE"),
        ("kil gpu at 3ms", "did you mean 'kill'"),
        ("kill gpu at 3", "'3' is no time"),
        ("kill gpu at -3ms", "'-3ms' is no time"),
        ("kill gpu at 3days", "write a number and h, min, s, ms, us or ns"),
        ("kill gpu at 3ms, ", "write 'kill DEVICE"),
    ],
)
def test_what_is_written_otherwise_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_failures(text)


def test_when_it_is_known_and_when_it_is_over() -> None:
    assert (Failure("npu", 2.0).known_s, Failure("npu", 2.0).back_s) == (2.0, math.inf)
    back = Failure("npu", 2.0, "kill", 3.0)
    assert (back.known_s, back.back_s) == (2.0, 5.0)
    hang = Failure("npu", 2.0, "hang", 3.0)
    assert (hang.known_s, hang.back_s) == (5.0, math.inf)


def test_failures_are_put_in_order_and_named_in_full() -> None:
    found = check_failures([Failure("npu", 2.0), Failure("gpu", 1.0, "kill", 0.5)], DEVICES)
    assert [(f.device, f.at_s) for f in found] == [("gpu.0", 1.0), ("npu", 2.0)]
    again = [Failure("npu", 1.0, "kill", 0.5), Failure("npu", 1.5)]
    assert check_failures(again, DEVICES) == tuple(again)


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ([Failure("npus", 1.0)], "did you mean 'npu'"),
        ([Failure("npu", -1.0)], "at no time"),
        ([Failure("npu", math.nan)], "at no time"),
        ([Failure("npu", 1.0, "kill", -1.0)], "at no time"),
        ([Failure("npu", 1.0, "hang")], "taken for dead"),
        ([Failure("npu", 1.0, "stop")], "no failure 'stop'"),  # type: ignore[arg-type]
        ([Failure("npu", 1.0), Failure("npu", 2.0)], "finds the device down"),
        ([Failure("gpu", 1.0, "kill", 2.0), Failure("gpu.0", 2.0)], "finds the device down"),
    ],
)
def test_failures_that_make_no_sense(failures: list[Failure], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_failures(failures, DEVICES)
