"""Files are written atomically, and never through a link that somebody else put there."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import hetsim
from cli_calls import call
from hetsim.core import files
from hetsim.core.files import append, create, draft_folder, sha256_of, whole_file
from hetsim.cost.calibration.measurements import Journal, NetworkRun, RunSettings
from hetsim.errors import InvalidInput, SweepError, UsageError
from hetsim.partitioning.onnx_export import save as save_onnx
from hetsim.reporting.output import write_file
from hetsim.sweeping.store import JOURNAL, RUNNING, Store, leftovers_removed
from onnx_builders import make_model, op, save, value

VICTIM = "somebody's own text, without an end of its line"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text(VICTIM)
    return path


def plant(names: tuple[str, ...], folder: Path, victim: Path) -> None:
    for name in names:
        (folder / name).symlink_to(victim)


def test_only_new_files_are_created(tmp_path: Path, victim: Path) -> None:
    plant(("link", "dangling"), tmp_path, victim)
    (tmp_path / "dangling").unlink()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("link", "dangling", "victim"):
        with pytest.raises(FileExistsError):
            create(tmp_path / name)
    with create(tmp_path / "new") as stream:
        stream.write(b"x")
    assert (tmp_path / "new").read_bytes() == b"x"
    assert not (tmp_path / "nowhere").exists()
    assert victim.read_text() == VICTIM


def test_only_regular_files_are_appended_to(tmp_path: Path, victim: Path) -> None:
    plant(("link",), tmp_path, victim)
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"link|regular|symbolic"):
            append(tmp_path / name)
    os.close(reading)
    with pytest.raises(OSError, match=r"pipe|device"):
        append(tmp_path / "pipe")
    for _ in range(2):
        with append(tmp_path / "log") as stream:
            stream.write(b"x\n")
    assert (tmp_path / "log").read_bytes() == b"x\nx\n"
    assert victim.read_text() == VICTIM


def test_drafts_have_names_that_nobody_can_guess(tmp_path: Path) -> None:
    drafts = set()
    for _ in range(20):
        with whole_file(tmp_path / "a") as stream, draft_folder(tmp_path / "b") as folder:
            drafts |= {Path(stream.name).name, folder.name}
            assert folder.is_dir()
    assert len(drafts) == 40
    assert all(str(os.getpid()) not in name.split(".") for name in drafts)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_name_may_be_as_long_as_the_file_system_takes(tmp_path: Path) -> None:
    name = "n" * 255
    with whole_file(tmp_path / name) as stream:
        stream.write(b"x")
    with draft_folder(tmp_path / "b" / name) as folder:
        folder.rename(tmp_path / "b" / name)
    assert (tmp_path / name).read_bytes() == b"x"
    assert (tmp_path / "b" / name).is_dir()


PLAIN = ("--platform", "laptop", "--canonical", "none")
WRITERS: dict[str, tuple[str, ...]] = {
    "t.json": ("simulate", "{model}", *PLAIN, "--trace", "{to}/t.json"),
    "r.html": ("simulate", "{model}", *PLAIN, "--report", "{to}/r.html"),
    "n.csv": ("inspect", "--nodes", "{model}", *PLAIN, "--out", "{to}/n.csv"),
    "g.dot": ("partition", "{model}", *PLAIN, "--dot", "{to}/g.dot"),
    "out": ("simulate", "{model}", *PLAIN, "--out", "{to}/out"),
    "onnx": ("partition", "{model}", *PLAIN, "--onnx", "{to}/onnx"),
    "compiled": ("compile", "{model}", *PLAIN, "--out", "{to}/compiled"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_no_verb_writes_through_a_planted_link(name: str, tmp_path: Path, victim: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    # What drafts were called before, as one of the same folder could foresee it.
    plant((f".{name}.{os.getpid()}.tmp",), to, victim)
    path = save(make_model([op("Neg", "x", "y")], [value("x")], [value("y")]), tmp_path)
    made = call(*(word.format(model=path, to=to) for word in WRITERS[name]))
    assert made.exit_code == 0, made.stderr
    assert (to / name).exists()
    assert victim.read_text() == VICTIM
    assert {entry.name for entry in to.iterdir()} == {name, f".{name}.{os.getpid()}.tmp"}


def test_no_call_writes_through_a_planted_link(tmp_path: Path, victim: Path) -> None:
    own, thread = os.getpid(), threading.get_ident()
    plant(
        (
            f".p.json.{own}.tmp",
            f".m.onnx.{own}.{thread}.tmp",
            f".m.onnx.weights.{own}.{thread}.tmp",
        ),
        tmp_path,
        victim,
    )
    weights = {"w": np.ones((40, 40), np.float32)}
    proto = make_model([op("MatMul", "x w", "y")], [value("x", (1, 40))], [value("y")], weights)
    save_onnx(proto, tmp_path / "m.onnx", None, inline_limit_bytes=0)
    problem = hetsim.Problem.of(
        hetsim.load_model(tmp_path / "m.onnx"), hetsim.load_platform("laptop")
    )
    hetsim.plan(problem).save(tmp_path / "p.json")
    assert victim.read_text() == VICTIM


def test_a_sweep_leaves_what_its_journal_links_to(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "s").mkdir()
    plant((JOURNAL,), tmp_path / "s", victim)
    with pytest.raises(SweepError, match="cannot be written"):
        Store(tmp_path / "s")
    assert victim.read_text() == VICTIM


def test_a_calibration_leaves_what_its_journal_links_to(tmp_path: Path, victim: Path) -> None:
    setting = RunSettings("cpu", 1, "ONNX Runtime 1", {"processor": "P"}, 1)
    path = tmp_path / "a.journal.jsonl"
    journal = Journal(path, setting)
    taken = NetworkRun("n", 0, 1.0, 0.1, 0.0, ())
    journal.add(taken)
    kept = path.read_text()
    victim.write_text(kept + '["cut off')
    path.unlink()
    plant((path.name,), tmp_path, victim)
    with pytest.raises(InvalidInput, match="cannot write the journal"):
        journal.add(taken)
    with pytest.raises(InvalidInput, match="cannot write the journal"):
        Journal(path, setting)
    assert victim.read_text() == kept + '["cut off'


def test_a_note_of_a_sweep_that_is_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / RUNNING)
    with leftovers_removed(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["loop", "nowhere"])
@pytest.mark.parametrize("name", ["out", "onnx", "compiled"])
def test_a_folder_that_is_a_broken_link_is_named(name: str, target: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to(name if target == "loop" else target)
    path = save(make_model([op("Neg", "x", "y")], [value("x")], [value("y")]), tmp_path)
    made = call(*(word.format(model=path, to=tmp_path) for word in WRITERS[name]))
    assert made.exit_code == 2
    assert "it is a broken link" in made.stderr


def test_parents_of_a_folder_are_created_however_many(tmp_path: Path) -> None:
    place = tmp_path.joinpath(*["a"] * 1200)
    with draft_folder(place / "b") as folder:
        folder.rename(place / "b")
    (place / "b").rmdir()
    for parent in (place, *place.parents[:1199]):
        parent.rmdir()
    assert not list(tmp_path.iterdir())


def test_a_link_to_itself_is_replaced_only_with_force(tmp_path: Path) -> None:
    (tmp_path / "t.json").symlink_to("t.json")
    with pytest.raises(UsageError, match="it exists"):
        write_file(tmp_path / "t.json", "x")
    write_file(tmp_path / "t.json", "x", force=True)
    assert (tmp_path / "t.json").read_text() == "x"


def test_a_digest_is_kept_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "KEPT_FROM_BYTES", 4)
    path = tmp_path / "weights"
    path.write_bytes(b"weights")
    now = os.stat(path)
    kept = tmp_path / "cache" / "digests"

    first = sha256_of(path)
    assert first == hashlib.sha256(b"weights").hexdigest()
    assert not kept.exists()  # It was changed a moment ago.

    monkeypatch.setattr(files, "SETTLED_S", -1.0)
    assert sha256_of(path) == first
    (entry,) = kept.iterdir()
    entry.write_text("0" * 64)
    assert sha256_of(path) == "0" * 64  # It is not read again.

    time.sleep(0.05)  # Times of a file are a few milliseconds apart.
    path.write_bytes(b"others.")
    os.utime(path, ns=(now.st_atime_ns, now.st_mtime_ns))
    assert sha256_of(path) == hashlib.sha256(b"others.").hexdigest()
    for entry in kept.iterdir():
        entry.write_text("damaged")
    assert sha256_of(path) == hashlib.sha256(b"others.").hexdigest()
