"""Disk and memory that end are told apart from what is wrong with what was to be put there."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import hetsim
from cli_calls import call
from hetsim.core.files import read_most, read_regular, whole_file
from hetsim.core.room import check_memory, no_room_in, out_of_room
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.errors import ModelError, OutOfRoom
from hetsim.execution.dispatch.transport import kernel_fault
from hetsim.graph.reading import onnx_file, session
from hetsim.sweeping import evaluation
from onnx_builders import make_model, op, save, value
from small_files import LIMIT_BYTES, small_files
from sweeps import sweep

RUN = "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running "


def heavy_model(folder: Path) -> Path:
    weights = {name: np.ones((40, 40), np.float32) for name in "wk"}
    nodes = [op("MatMul", "x w", "h"), op("Neg", "k", "n"), op("MatMul", "h n", "y")]
    proto = make_model(nodes, [value("x", (1, 40))], [value("y", (1, 40))], weights)
    return Path(save(proto, folder))


def test_what_is_short_is_told_by_number_or_message() -> None:
    disk = out_of_room(OSError(errno.ENOSPC, "x", "/nowhere/file"), needed_bytes=2**20)
    assert disk is not None
    assert disk.short_of == "disk"
    assert "the disk is full: 1.00 MiB are to be written, and" in disk.what
    assert (disk.where, disk.exit_code) == ("/nowhere/file", 1)
    for number, short_of in (
        (errno.EDQUOT, "disk"), (errno.EFBIG, "disk"), (errno.ENOMEM, "memory"),
        (errno.EMFILE, "files"), (errno.ENFILE, "files"),
    ):  # fmt: skip
        found = out_of_room(OSError(number, "x"), "a place", hint="do this")
        assert found is not None
        assert found.short_of == short_of
        assert found.where == "a place"
    assert out_of_room(OSError(errno.EACCES, "x")) is None
    for error, nbytes in (
        (MemoryError(), 0),
        (MemoryError("Unable to allocate 2.00 KiB for an array with shape (2,)"), 2048),
        (RuntimeError("std::bad_alloc"), 0),
        (RuntimeError(f"{RUN}X node. a.cc:3 Failed to allocate memory for requested buffer of "
                      "size 4096\n"), 4096),
    ):  # fmt: skip
        found = out_of_room(error)
        assert found is not None
        assert (found.short_of, found.needed_bytes) == ("memory", nbytes)
    thread = out_of_room(RuntimeError("can't start new thread"), "a place")
    assert thread is not None
    assert (thread.short_of, thread.where) == ("threads", "a place")
    assert "ulimit -v" in str(thread)
    library = "x.so: failed to map segment from shared object"
    assert out_of_room(ImportError(library)) is not None
    # So it is where a file system runs nothing.
    assert out_of_room(ImportError(f"{library}: Operation not permitted")) is None
    assert "this machine has" in str(out_of_room(MemoryError("Unable to allocate 9.0 EiB for")))
    # What a model calls its nodes says nothing of memory, and no memory holds 2^63 bytes.
    for said in ("Name:'std::bad_alloc' Status: wrong", "requested buffer of size 4 was odd",
                 f"Failed to allocate memory for requested buffer of size {2**63}"):  # fmt: skip
        assert out_of_room(RuntimeError(f"{RUN}{said}")) is None
    assert out_of_room(ModelError("it says std::bad_alloc")) is None
    assert out_of_room(disk, "elsewhere") is disk


def test_a_disk_and_a_memory_are_asked_beforehand(tmp_path: Path) -> None:
    assert no_room_in(tmp_path, 2 * LIMIT_BYTES, "m") is None
    with small_files():
        short = no_room_in(tmp_path, 2 * LIMIT_BYTES, "m.onnx", hint="here")
    assert short is not None
    assert (short.short_of, short.where, short.hint) == ("disk", "m.onnx", "here")
    assert not list(tmp_path.iterdir())
    check_memory(0)
    check_memory(2**20)
    for nbytes in (2**60, 2**80):
        with pytest.raises(MemoryError):
            check_memory(nbytes)


def test_files_are_read_without_setting_the_limit_aside(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 5000)
    # More than any machine has.
    assert read_regular(tmp_path / "a", 2**60) == b"x" * 5000
    with (tmp_path / "a").open("rb") as stream:
        assert len(read_most(stream, 4000)) == 4000
    # Of no size that is told.
    assert b"VmRSS" in read_regular("/proc/self/status")
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_regular("/proc/self/status", 10)


def test_a_file_that_is_not_written_whole_is_as_before(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    with pytest.raises(OSError, match="too large"), small_files(), whole_file(path) as draft:
        draft.write(b"x" * 2 * LIMIT_BYTES)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
    assert path.read_text() == "before"


PLAIN = ("--platform", "laptop", "--canonical", "none")
WRITERS: dict[str, tuple[str, ...]] = {
    "out": ("simulate", "{model}", *PLAIN, "--out", "{to}/o"),
    "trace": ("simulate", "{model}", *PLAIN, "--trace", "{to}/t.json"),
    "report": ("simulate", "{model}", *PLAIN, "--report", "{to}/r.html"),
    "compiled": ("compile", "{light}", *PLAIN, "--out", "{to}/c"),
    "onnx": ("partition", "{model}", *PLAIN, "--onnx", "{to}/p"),
    "sweep": ("sweep", "{grid}", "--executor", "threads", "-o", "{to}/s"),
    "cache": ("inspect", "zoo:squeezenet"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_is_not_the_models_fault(
    writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, to, grid = heavy_model(tmp_path), tmp_path / "to", tmp_path / "grid.yaml"
    light = save(make_model([op("Neg", "x", "y")], [value("x")], [value("y")]), tmp_path, "l.onnx")
    strategies = "[heft, chain-dp, 'single:cpu', 'single:gpu', 'single:npu']"
    grid.write_text(f"models: [{light}]\nplatforms: [laptop, desktop]\nstrategies: {strategies}\n")
    to.mkdir()
    words = [word.format(model=model, light=light, to=to, grid=grid) for word in WRITERS[writer]]
    if writer == "cache":
        monkeypatch.setenv("HETSIM_CACHE_DIR", str(to))
    with small_files(300):
        made = call(*words)
    assert made.exit_code == 1, made.stderr
    assert made.stderr.startswith("error: ")
    assert "the file size limit is reached" in made.stderr
    assert (str(to) if writer != "cache" else "zoo model 'squeezenet'") in made.stderr
    assert made.stderr.count("\n") == 1
    # Rows of a sweep that are on disk are kept.
    assert {entry.name for entry in to.rglob("*") if entry.is_file()} <= {"journal.jsonl"}


def test_a_model_that_no_disk_takes_is_not_refused_by_the_runtime(tmp_path: Path) -> None:
    path = heavy_model(tmp_path)
    with small_files(), pytest.raises(OutOfRoom) as caught:
        hetsim.load_model(path)
    assert caught.value.where == str(path)
    assert "TMPDIR" in str(caught.value)
    assert hetsim.load_model(path).graph.nodes


@pytest.mark.parametrize("room", [onnx_file, session])
def test_a_model_for_which_there_is_no_memory_is_no_broken_one(
    room: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = heavy_model(tmp_path)

    def refuse(nbytes: int) -> None:
        check_memory(2**60)

    monkeypatch.setattr(room, "check_memory", refuse)
    with pytest.raises(OutOfRoom, match="of memory are needed") as caught:
        hetsim.load_model(path)
    assert caught.value.where == str(path)


def test_a_kernel_that_finds_no_memory_is_told_apart() -> None:
    proto = make_model([op("Expand", "x s", "y")], [value("x", (1,)), value("s", (1,), "INT64")],
                       [value("y", None)])  # fmt: skip
    opened = CompiledSubgraph(proto.SerializeToString(), None, ["y"])
    wanted = {"x": np.ones(1, np.float32), "s": np.array([2**42])}
    with pytest.raises(OutOfRoom) as caught:
        opened.run(wanted)
    assert caught.value.needed_bytes == 2**44
    assert kernel_fault(caught.value).kind == "out of memory"


def test_a_point_of_a_sweep_that_found_no_room_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = heavy_model(tmp_path), tmp_path / "s"
    grid = tmp_path / "grid.yaml"
    grid.write_text(f"models: [{path}]\nplatforms: [laptop]\nstrategies: [heft]\n")
    words = ("sweep", str(grid), "--executor", "threads", "-o", str(out))

    def short(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "_plan_figures", short)
        assert "out of memory" in call(*words).stdout
    assert "out of memory" not in call(*words).stdout


@sweep(
    "words, unbuffered",
    quick=[(("--help",), "1")],
    full=product((("zoo", "list"), ("--completion", "bash"), ("--help",)), ("", "1")),
)
def test_what_cannot_be_printed_whole_is_an_error(
    words: tuple[str, ...], unbuffered: str, tmp_path: Path
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    with (tmp_path / "out").open("wb") as out:
        environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"}
        made = subprocess.run(
            [sys.executable, "-m", "hetsim", *words], stdout=out, stderr=subprocess.PIPE,
            preexec_fn=limit, env=environ, check=False,
        )  # fmt: skip
    assert made.returncode == 1
    assert made.stderr.startswith(b"error: stdout: the file size limit is reached")
