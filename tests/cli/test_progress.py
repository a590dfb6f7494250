"""What is going on is said on a terminal alone: since when, and about how long still."""

from __future__ import annotations

import pytest

from hetsim.cli.going import Going
from sweeps import sweep
from terminals import ESCAPES, shown


class Clock:
    """Seconds as they are set."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_times_are_told_after_two_seconds(clock: Clock) -> None:
    going = Going("comparing", clock)
    going("heft", share=0.1)
    clock.now_s += 1.9
    assert str(going) == "comparing: heft"
    clock.now_s += 0.1
    assert str(going) == "comparing: heft; 2 s, about 18 s left"
    going("auto", share=0.5)
    clock.now_s += 8.0
    assert str(going) == "comparing: auto; 10 s, about 10 s left"


def test_what_is_left_is_not_told_where_it_is_not_known(clock: Clock) -> None:
    going = Going("looking", clock)
    clock.now_s += 61.0
    assert str(going) == "looking; 1 min 1 s"
    going.hear(0.01, "")
    assert str(going) == "looking; 1 min 1 s"
    going.hear(1.0, "")
    assert str(going) == "looking; 1 min 1 s"


def test_shares_never_fall(clock: Clock) -> None:
    going = Going("x", clock)
    going.hear(0.5, "")
    going.hear(0.2, "")
    clock.now_s += 4.0
    assert str(going) == "x; 4 s, about 4 s left"


def test_what_the_work_says_itself_runs_down(clock: Clock) -> None:
    going = Going("measuring", clock)
    clock.now_s += 5.0
    going("net 3, 12 measured", left_s=7300.0)
    clock.now_s += 100.0
    assert str(going) == "measuring: net 3, 12 measured; 1 min 45 s, about 2 h left"
    clock.now_s += 9000.0
    assert str(going).endswith("about 1 s left")


COMMAND = ("compare", "zoo:squeezenet", "--platform", "laptop", "--strategy", "heft")


def test_it_is_on_a_terminal_and_gone_in_the_end() -> None:
    done = shown(*COMMAND, out=False)
    assert done.code == 0
    assert "comparing heft" in ESCAPES.sub("", done.err)
    # The line is erased, and the cursor is there again.
    assert "\x1b[2K" in done.err
    assert done.err.rindex("\x1b[?25h") > done.err.rindex("\x1b[?25l")
    assert "\x1b" not in done.out
    assert "comparing" not in done.out


@sweep(
    "more, err, env",
    quick=[((), True, {"TERM": "dumb"})],
    full=[((), True, {"TERM": "dumb"}), ((), False, {}), (("--quiet",), True, {})],
)
def test_it_is_nowhere_else(more: tuple[str, ...], err: bool, env: dict[str, str]) -> None:
    done = shown("devices", "query", "google-edge-tpu", "zoo:squeezenet", *more, err=err, env=env)
    assert (done.code, done.err) == (0, "")
