"""A run fails where a process that it started outlives it, Ray's included (on Linux)."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Generator
from pathlib import Path

import pytest

from summary import SUMMARY

_MARK = "HETSIM_TEST_RUN"
_GRACE_S = 20.0
"""A process that was killed may take that long to go, on a loaded machine."""

_ENDS_WITH_US = b"multiprocessing.resource_tracker"
"""Python's own helper ends when the process that started it does, this one too."""


class Leftovers:
    """A plugin that knows a run's processes by their environment, whoever their parent is."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        os.environ[_MARK] = self._mark

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Look for them once all that share the work have ended."""
        yield
        ends = time.monotonic() + _GRACE_S
        while (found := marked(self._mark)) and time.monotonic() < ends:
            time.sleep(0.1)
        if found:
            session.config.stash[SUMMARY]["processes that outlived the tests"] = found
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def marked(mark: str) -> list[str]:
    """Id and words of every other process that has inherited this mark."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                if _ENDS_WITH_US in words:
                    continue
                found.append(f"{process.name} {words.decode(errors='replace')}")
        except OSError:
            # Gone, or another user's.
            continue
    return found
