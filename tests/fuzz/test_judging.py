"""The judge of fuzzed calls: each fault is seen, and what is right is let pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fuzz.judging import fault_of, steering
from fuzz.kept import WORDS, cases_in, keep, read_words
from fuzz.pool import Pool

ERROR = b"error: m.onnx: broken\n"


@pytest.mark.parametrize(
    ("code", "out", "err", "fault"),
    [
        (0, b"fine\n", b"", ""),
        (0, "fine: 3\u00a0ms \u2500\n".encode(), b"a note\n", ""),
        (3, b"", ERROR, ""),
        (3, b"m.onnx: broken\n", b"error: 1 of 1 file cannot be used\n", ""),
        (2, b"", b"error: no such option\n", ""),
        (1, b"", b"error: the model does not run\n", ""),
        (1, b"", b"internal error: KeyError: 'x'\n", "internal error"),
        (1, b"", b"killed\n", "internal error"),
        (None, b"", b"KeyError: 'x'\n", "exception"),
        (7, b"", ERROR, "exit code 7"),
        (3, b"", b"error: broken\n", "no file named"),
        (3, b"", b"", "no word"),
        (0, b"", b"warning: overflow encountered in cast\n", "warning"),
        (0, b"", b"Traceback (most recent call last):\n", "traceback"),
        (0, b"a\x1b[31mb\n", b"", "control characters"),
        (3, b"", b"error: m.onnx: \x07\n", "control characters"),
        (3, b"", "error: m.onnx: \u202e\n".encode(), "control characters"),
        (0, b"\xff\n", b"", "no text"),
    ],
)
def test_an_answer_is_judged(code: int | None, out: bytes, err: bytes, fault: str) -> None:
    assert fault_of(code, out, err, (), {"m.onnx"}) == fault


def test_what_is_left_behind_is_a_fault() -> None:
    assert fault_of(0, b"", b"", ["$TMPDIR/x"], ()) == "left behind: $TMPDIR/x"


def test_characters_that_steer() -> None:
    assert steering("a\tb\nc\x9b") == "\t\x9b"


DYING = """
import os, sys, types
fake = sys.modules["hetsim.cli.main"] = types.ModuleType("main")
class Program:
    def main(self, words):
        exec(words[0])
        sys.exit(0)
fake.main = Program()
from fuzz import worker
worker.main(worker.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
"""
"""A worker whose program runs the Python that it is given."""


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A pool of such workers."""
    with Pool(
        tmp_path_factory.mktemp("pool"), seconds=1, nbytes=10**8, program=("-c", DYING)
    ) as made:
        yield made


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("print('fine')", ""),
        ("sys.exit(7)", "exit code 7"),
        ("raise KeyError('x')", "exception"),
        ("os.abort()", "SIGABRT"),
        ("os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("os._exit(3)", "ended with 3"),
        ("exec('while True: pass')", ("hang", "wait without end")),
        ("x = bytearray(3 * 10**8); exec('while True: pass')", "memory"),
        ("x = bytearray(3 * 10**8)", "memory"),
        ("import tempfile; tempfile.mkdtemp()", "left behind"),
        ("open('beside', 'w').close()", "left behind: beside"),
        ("open('out.html', 'w').close()", ""),
        ("os.write(2, b'\\x1b[31m')", "control characters"),
        ("import subprocess; x = subprocess.Popen(['sleep', '9'])", "left behind: process"),
    ],
)
def test_every_way_to_die_is_seen(
    dying: Pool, tmp_path: Path, code: str, fault: str | tuple[str, ...]
) -> None:
    case = tmp_path / "case"
    case.mkdir()
    (case / "file").write_text("x")
    for words in ([[code]], [["print('on')"]]):
        (case / WORDS).write_text(json.dumps(words))
        calls = list(dying.play({"folder": str(case)}))
        assert len(calls) == 1
        # The one after it is played, whatever became of the first.
        expected = fault if words == [[code]] else ""
        assert calls[0].fault.startswith(expected), calls[0]
        assert bool(calls[0].fault) == bool(expected), calls[0]


def test_a_case_is_kept_and_read_again(tmp_path: Path) -> None:
    case = tmp_path / "case"
    case.mkdir()
    (case / "m.onnx").write_bytes(b"\xff")
    (case / "out.html").write_text("made")
    words: list[list[str]] = [["inspect", "m.onnx"]]
    found: dict[str, Any] = {"fault": "hang"}
    keep(case, words, found, tmp_path / "kept" / "one")
    assert cases_in(tmp_path / "kept") == [tmp_path / "kept" / "one"]
    assert read_words(tmp_path / "kept" / "one") == words
    assert sorted(path.name for path in (tmp_path / "kept" / "one").iterdir()) == [
        "found.json",
        "m.onnx",
        "words.json",
    ]
