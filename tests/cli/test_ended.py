"""A command that is told to end clears away what it made, and says what ended it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hetsim.cli.main import SignalExit, ended_by_signals
from sweeps import sweep

COMMAND = (
    "run", "zoo:squeezenet", "--platform", "rock-5b", "--strategy", "heft", "--executor", "threads",
    "--emulate", "--time-scale", "1000", "--rate", "1", "--requests", "1000",
)  # fmt: skip


@sweep("number", quick=[signal.SIGHUP], full=[signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_what_a_command_made_goes_however_it_is_ended(
    number: signal.Signals, tmp_path: Path
) -> None:
    runs = tmp_path / "cache" / "runs"
    # Whoever runs the tests may have these ignored: nohup, or a shell in the background.
    heard = "from signal import *; signal(SIGINT, default_int_handler); signal(SIGHUP, SIG_DFL); "
    child = subprocess.Popen(
        [sys.executable, "-c", f"{heard}from hetsim.cli.main import main; main()", *COMMAND],
        env={
            **os.environ,
            "HETSIM_CACHE_DIR": str(tmp_path / "cache"),
            "XDG_CACHE_HOME": str(tmp_path),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while child.poll() is None and not (runs.exists() and any(runs.iterdir())):
        time.sleep(0.05)
    child.send_signal(number)
    _, stderr = child.communicate(timeout=300)
    assert child.returncode == 128 + number
    told = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert stderr.splitlines()[-1] == f"error: {told}"
    assert list(runs.iterdir()) == []


def ended_twice() -> None:
    with ended_by_signals():
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)


def test_handlers_of_others_stay_and_a_second_signal_is_passed_over() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    default = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(SignalExit, match="SIGTERM") as ended:
            ended_twice()
        assert ended.value.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGTERM, default)
