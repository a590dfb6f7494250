"""Two processes that meet: who may come, and what is left of the place."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hetsim.errors import ExecutionError
from hetsim.execution.transports.channels import meeting as meetings
from hetsim.execution.transports.channels.meeting import come, meeting

OTHER_PROCESS = """
import sys
from hetsim.execution.transports.channels.meeting import come
channel = come(sys.argv[1], bytes.fromhex(sys.argv[2]))
channel.send(1, b"here", [b"I am"])
assert channel.receive().header == b"welcome"
"""


@pytest.fixture(autouse=True)
def deep_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache whose path is longer than that of a socket may be."""
    folder = tmp_path / ("long" * 40)
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(folder))
    return folder


def test_another_process_comes_and_the_place_goes(deep_cache: Path) -> None:
    with meeting() as place:
        assert place.folder.startswith(str(deep_cache))
        for folder in (Path(place.folder), Path(place.folder).parent):
            # No other user gets to the socket, whatever its own mode is.
            assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0
        words = [sys.executable, "-c", OTHER_PROCESS, place.folder, place.token.hex()]
        with subprocess.Popen(words) as other:
            channel = place.accept()
            assert channel is not None
            frame = channel.receive()
            assert (frame.header, frame.payload) == (b"here", b"I am")
            channel.send(1, b"welcome")
        assert other.returncode == 0
        assert place.token.hex() not in repr(place)
    channel.release()
    assert not Path(place.folder).exists()


def test_who_does_not_know_the_token_is_turned_away_and_the_next_one_is_not() -> None:
    with meeting() as place:
        strangers = [come(place.folder, bytes(32)), come(place.folder, b"short")]
        assert all(stranger is not None for stranger in strangers)
        strangers[1].close()  # type: ignore[union-attr]
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(place.accept()))
        thread.start()
        friend = come(place.folder, place.token)
        thread.join(60)
        assert friend is not None
        [channel] = found
        assert channel is not None
        friend.release()
        for stranger in strangers:
            stranger.release()  # type: ignore[union-attr]
        channel.release()  # type: ignore[attr-defined]


def test_another_user_is_turned_away_on_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    with meeting() as place:
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: 12345)
            assert come(place.folder, place.token) is None
        monkeypatch.setattr(meetings, "_ACCEPT_MS", 200)
        friend = come(place.folder, place.token)
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: 12345)
            assert place.accept() is None
        assert friend is not None
        friend.release()


def test_nobody_waits_where_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert come(str(tmp_path), bytes(32)) is None
    assert come(str(tmp_path / "none"), bytes(32)) is None
    # As of another machine that shares the folder: the file is there, and nobody behind it.
    with socket.socket(socket.AF_UNIX) as left:
        monkeypatch.chdir(tmp_path)
        left.bind("meeting")
    assert come(str(tmp_path), bytes(32)) is None


def test_a_place_that_cannot_be_had_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: socket.socket, address: object) -> None:
        raise OSError(28, "No space left on device")

    class Socket(socket.socket):
        bind = refused  # type: ignore[assignment]

    monkeypatch.setattr(meetings.socket, "socket", Socket)
    with pytest.raises(ExecutionError, match="No space left"), meeting():
        pass
