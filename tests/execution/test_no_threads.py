"""A system that has no thread, or no memory, to give: told as what is short."""

from __future__ import annotations

import threading

import onnx
import pytest

from execution.conftest import Cut
from hetsim.errors import OutOfRoom
from hetsim.execution.dispatch import loop
from hetsim.execution.session import Session

TWO = [("cpu", [0, 1, 2]), ("gpu", [3, 4, 5])]
STREAMS = "device 'cpu': cannot start a thread for each of its 1 streams: .*fewer streams"
NONE = "cannot start another thread.*ulimit"


def refusing(monkeypatch: pytest.MonkeyPatch, name: str, error: type[Exception]) -> None:
    start = threading.Thread.start

    def refused(self: threading.Thread) -> None:
        if self.name == name:
            raise error("can't start new thread" if error is RuntimeError else "")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refused)


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("hetsim session", RuntimeError, NONE),
        ("hetsim session", MemoryError, "out of memory"),
        ("hetsim device cpu 0", RuntimeError, STREAMS),
        ("hetsim device gpu compiling", RuntimeError, f"device 'gpu': .*{NONE}"),
    ],
)
def test_threads_that_cannot_be_had_are_told(
    name: str,
    error: type[Exception],
    says: str,
    cut: Cut,
    diamond: onnx.ModelProto,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = threading.enumerate()  # one watches the Ray of the tests
    refusing(monkeypatch, name, error)
    with pytest.raises(OutOfRoom, match=says), Session(cut(diamond, TWO), "threads"):
        pass
    there = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in there if "hetsim" in thread.name]


def test_a_session_that_has_no_memory_to_say_how_it_ended_ends(
    cut: Cut, diamond: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(loop, "out_of_room", short)
    monkeypatch.setattr(loop.SessionLoop, "_handle", short)
    with pytest.raises(OutOfRoom, match="out of memory"), Session(cut(diamond, TWO), "threads"):
        pass
