"""Who gets the signals that ask a process to end: the main thread, and no library's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from hetsim.core.process import ENDING, ending_left_to_others

MASKS = """
import json, os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads of numpy are no matter here
from hetsim.graph.reading.session import quiet_runtime
quiet_runtime()
held = {}
for task in os.listdir("/proc/self/task"):
    with open(f"/proc/self/task/{task}/status") as status:
        found = dict(line.split(":", 1) for line in status)
    held[task == str(os.getpid())] = held.get(task == str(os.getpid()), []) + [found["SigBlk"]]
print(json.dumps({"main": held[True], "others": held.get(False, [])}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="masks of threads are told by /proc")
def test_no_thread_of_onnx_runtime_takes_what_the_main_thread_holds_back() -> None:
    said = subprocess.run(
        [sys.executable, "-c", MASKS], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    found = json.loads(said)
    for number in ENDING:
        bit = 1 << (number - 1)
        assert [int(mask, 16) & bit for mask in found["main"]] == [0]
        assert all(int(mask, 16) & bit for mask in found["others"])


def test_what_was_held_back_before_stays_so() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    try:
        with ending_left_to_others():
            assert {*ENDING} <= signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == {*before, signal.SIGTERM}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
