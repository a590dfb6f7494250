"""Processes found and ended, and Ctrl-C held back meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetsim.execution.transports import processes as abandoned
from hetsim.execution.transports.processes import (
    OWNER,
    command_line,
    descendants,
    end_abandoned,
    end_all,
    hangup_ends,
    held_interrupts,
    owned,
    working_in,
)

TREE = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "grandchild"])
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.skipif(not descendants(1), reason="the system has no /proc")
def test_a_tree_of_processes_is_found_and_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        found = {process.pid: process for process in descendants(os.getpid())}
        assert found[child.pid].parent == os.getpid()
        assert found[grandchild].parent == child.pid
        assert command_line(found[grandchild]).endswith("grandchild")
        # Of the same id, but started at another time: somebody else's.
        end_all([replace(found[child.pid], start_ticks=0)], 0.2)
        assert child.poll() is None
        end_all([found[child.pid], found[grandchild]], 0.2)
        assert {p.pid for p in descendants(os.getpid())}.isdisjoint({child.pid, grandchild})
        assert command_line(found[grandchild]) == ""


@pytest.mark.skipif(not descendants(1), reason="the system has no /proc")
def test_rays_whose_owner_is_gone_are_ended_and_others_stay(tmp_path: Path) -> None:
    """A process that names a folder stands for what is left of the Ray in it."""
    names = ("gone0000", "alive000", "other000", "linked00", "users_of", "open0000", "gone")
    folders = {name: tmp_path / f"hetsim-{name}" for name in names}
    for name, folder in folders.items():
        folder.mkdir(mode=0o755 if name == "open0000" else 0o700)
    # Folders that users named so, with a file of that name.
    for name in ("gone0000", "users_of", "open0000", "gone"):
        (folders[name] / OWNER).touch()
    (folders["users_of"] / "more").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / OWNER).touch()
    (tmp_path / "hetsim-link0000").symlink_to(outside)
    (folders["linked00"] / OWNER).symlink_to(outside / OWNER)
    started = {
        name: subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", str(folder)])
        for name, folder in folders.items()
    }
    try:
        with owned(folders["alive000"]):
            end_abandoned(tmp_path)
        running = {name: [p.pid for p in working_in(path)] for name, path in folders.items()}
    finally:
        for process in started.values():
            process.kill()
            process.wait()
    assert running == {n: [p.pid] * (n != "gone0000") for n, p in started.items()}
    left = {path.name for path in tmp_path.glob("hetsim-*")}
    assert left == {f"hetsim-{name}" for name in (*names[1:], "link0000")}
    assert (outside / OWNER).exists()


def test_a_folder_of_a_ray_is_never_there_with_an_owner_that_nobody_has_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever clears away comes at the worst moment, between two lines."""
    folder = tmp_path / "hetsim-abcd_123"
    folder.mkdir(mode=0o700)
    lock = abandoned.try_lock

    def meanwhile(held: Any) -> bool:
        end_abandoned(tmp_path)
        return lock(held)

    monkeypatch.setattr(abandoned, "try_lock", meanwhile)
    with owned(folder):
        end_abandoned(tmp_path)
        assert [path.name for path in folder.iterdir()] == [OWNER]
    old = time.time() - 2 * 24 * 3600
    (folder / OWNER).rename(folder / "owner.draft")
    end_abandoned(tmp_path)
    assert folder.exists()
    os.utime(folder, (old, old))
    end_abandoned(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_process_is_held_back_where_python_handles_it(number: signal.Signals) -> None:
    told: list[str] = []
    before = signal.signal(number, lambda number, frame: told.append("handled"))
    try:
        with held_interrupts():
            signal.raise_signal(number)
            told.append("inside")
        assert told == ["inside", "handled"]
        signal.signal(number, signal.SIG_DFL)  # before may be another's: Ray leaves its own here
        with held_interrupts():
            assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_hangup_ends_as_termination_does_where_nobody_handles_it() -> None:
    def end(number: int, frame: object) -> None:
        raise SystemExit(number)

    before = signal.signal(signal.SIGTERM, end)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with hangup_ends(), pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with hangup_ends():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, hangup)


def test_ctrl_c_is_held_back_until_the_end(ctrl_c: None) -> None:
    reached: list[str] = []

    def work() -> None:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            reached.append("end")
        reached.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
