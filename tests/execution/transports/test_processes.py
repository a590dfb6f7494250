"""Processes found and ended, and Ctrl-C held back meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from hetsim.execution.transports.ray_connection.interrupts import held_interrupts
from hetsim.execution.transports.ray_connection.processes import command_line, descendants, end_all

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


def test_without_ctrl_c_nothing_happens(ctrl_c: None) -> None:
    with held_interrupts():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_hold_nothing_back(ctrl_c: None) -> None:
    handlers: list[object] = []

    def work() -> None:
        with held_interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
