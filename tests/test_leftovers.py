"""A process that outlives a run of tests is found, and fails the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps import sweep

HELPERS = str(Path(__file__).parent / "helpers")
CONFTEST = """
import leftovers
from summary import Summary

leftovers._GRACE_S = 0.0

def pytest_configure(config):
    config.pluginmanager.register(Summary())
    config.pluginmanager.register(leftovers.Leftovers())
"""
TEST = """
import subprocess
import sys

def test_it():
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    print("started", child.pid)
    if {ends}:
        child.kill()
        child.wait()
    else:
        child.returncode = 0  # or its object would complain
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found in /proc")
@sweep("ends", quick=[True], full=[True, False])
def test_a_process_that_stays(ends: bool, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TEST.format(ends=ends))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:hypothesispytest"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": HELPERS,
            "PYTEST_ADDOPTS": "",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    pid = done.stdout.split("started ")[1].split()[0]
    try:
        assert (done.returncode == 0) == ends, done.stdout
        assert (f"{pid} {sys.executable} -c import time; time.sleep(60)" in done.stdout) != ends
    finally:
        if not ends:
            os.kill(int(pid), 9)
