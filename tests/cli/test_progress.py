"""What is going on is said on a terminal alone: since when, and about how long still."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hetsim.cli.invocation import WorkProgress
from hetsim.core.progress import AT_MOST, ProgressState
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
    going = WorkProgress("comparing", clock)
    going("heft", share=0.1)
    clock.now_s += 1.9
    assert str(going) == "comparing: heft"
    clock.now_s += 0.1
    assert str(going) == "comparing: heft; 2 s, about 18 s left"
    going("auto", share=0.5)
    clock.now_s += 8.0
    assert str(going) == "comparing: auto; 10 s, about 10 s left"


def test_what_is_left_is_not_told_where_it_is_not_known(clock: Clock) -> None:
    going = WorkProgress("looking", clock)
    clock.now_s += 61.0
    assert str(going) == "looking; 1 min 1 s"
    going.hear(ProgressState(0.01, ""))
    assert str(going) == "looking; 1 min 1 s"
    going.hear(ProgressState(1.0, ""))
    assert str(going) == "looking; 1 min 1 s"


def test_shares_never_fall(clock: Clock) -> None:
    going = WorkProgress("x", clock)
    going.hear(ProgressState(0.5, ""))
    going.hear(ProgressState(0.2, ""))
    clock.now_s += 4.0
    assert str(going) == "x; 4 s, about 4 s left"


def test_what_the_work_says_itself_runs_down(clock: Clock) -> None:
    going = WorkProgress("measuring", clock)
    clock.now_s += 5.0
    going("net 3, 12 measured", left_s=7300.0)
    clock.now_s += 100.0
    assert str(going) == "measuring: net 3, 12 measured; 1 min 45 s, about 2 h left"
    clock.now_s += 9000.0
    assert str(going).endswith("about 1 s left")


def test_what_the_work_knows_to_be_left_at_most_runs_down(clock: Clock) -> None:
    going = WorkProgress("planning with exact", clock)
    going.hear(ProgressState(0.1, "proving", 30.0, 1.0, AT_MOST))
    clock.now_s += 4.0
    assert str(going) == "planning with exact: proving; 4 s, at most 26 s left"
    # Once others say how far it is, it is about as before.
    going.hear(ProgressState(0.8, "playing"))
    assert str(going) == "planning with exact: playing; 4 s, about 1 s left"


def test_where_more_comes_after_it_the_share_grows_with_time(clock: Clock) -> None:
    going = WorkProgress("comparing", clock)
    clock.now_s += 5.0
    going.hear(ProgressState(0.25, "exact", 10.0, 0.75, AT_MOST))
    assert str(going) == "comparing: exact; 5 s, about 15 s left"
    clock.now_s += 5.0
    assert str(going) == "comparing: exact; 10 s, about 10 s left"
    clock.now_s += 5.0
    assert str(going) == "comparing: exact; 15 s, about 5 s left"


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
    quick=[],
    full=[((), True, {"TERM": "dumb"}), ((), False, {}), (("--quiet",), True, {})],
)
def test_it_is_nowhere_else(more: tuple[str, ...], err: bool, env: dict[str, str]) -> None:
    done = shown("devices", "query", "google-edge-tpu", "zoo:squeezenet", *more, err=err, env=env)
    assert (done.code, done.err) == (0, "")


@pytest.mark.sweep
def test_a_proof_says_on_a_terminal_how_long_it_takes_at_most() -> None:
    words = ("--platform", "laptop", "--strategy", "exact", "--set", "time_limit_s=50")
    done = shown("simulate", "zoo:alexnet", *words, out=False, at_once=True)
    assert done.code == 0
    said = re.search(r"planning with exact: proving; \d+ s, at most (\d+) s left", done.line)
    assert said is not None
    assert int(said[1]) <= 50


@pytest.mark.sweep
def test_a_search_says_on_a_terminal_up_to_which_cost_it_is(tmp_path: Path) -> None:
    price = "price: {usd: 150, years: 3, of: 2024-06, source: an offer}"
    (tmp_path / "catalog.yaml").write_text(
        f"kinds: {{board: {{platform: rock-5b, link: eth1, most: 4, {price}}}}}\n"
    )
    (tmp_path / "workload.yaml").write_text(
        "requests: 500\nstreams:\n  photos: {model: 'zoo:resnet18', "
        "arrivals: {constant: {rate_per_s: 400}}, slos: [p99=30ms]}\n"
    )
    done = shown(
        "recommend", "--workload", str(tmp_path / "workload.yaml"),
        "--catalog", str(tmp_path / "catalog.yaml"), "--tariff", "0.3", out=False, at_once=True,
    )  # fmt: skip
    assert done.code == 0
    found = re.findall(r"the cheapest platform: (\d) board of those up to ", done.line)
    # As the line stood when it ended.
    assert re.search(rf"^best +{found[-1]} board:", done.out, re.MULTILINE)
