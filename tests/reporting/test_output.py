"""Files appear whole or not at all, and nothing is overwritten unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hetsim.errors import OutOfRoom, UsageError
from hetsim.reporting.output import OWN_FILES, check_file, check_folder, write_file, write_folder
from small_files import small_files

FILES = {name: f"new {name}\n" for name in OWN_FILES}


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_new_folder_gets_all_files_and_nothing_else_appears(tmp_path: Path) -> None:
    write_folder(tmp_path / "a" / "out", FILES)
    assert contents(tmp_path) == {f"a/out/{name}": text for name, text in FILES.items()}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_folder(tmp_path / "out", FILES)
    assert contents(tmp_path / "out") == FILES


def test_a_folder_with_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"--out .* not empty.* --force"):
        write_folder(tmp_path, FILES)
    assert contents(tmp_path) == {"mine.txt": "mine"}


def test_force_replaces_own_files_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    (out / "plan.json").write_text("old")
    write_folder(out, FILES, force=True)
    assert contents(tmp_path) == {
        "out/mine.txt": "mine",
        **{f"out/{name}": text for name, text in FILES.items()},
    }


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    write_folder(link, FILES)
    assert link.is_symlink()
    assert contents(tmp_path / "real") == FILES


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="it is a file"):
        check_folder(tmp_path / "file", force=True)
    with pytest.raises(UsageError, match="is a file"):
        check_folder(tmp_path / "file" / "out", force=True)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    with pytest.raises(UsageError, match="broken link"):
        check_folder(tmp_path / "nowhere", force=True)
    (tmp_path / "out" / "plan.json").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"'plan\.json' in it is a folder"):
        check_folder(tmp_path / "out", force=True)


def test_a_failure_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    with small_files(100), pytest.raises(OutOfRoom, match="the file size limit"):
        write_folder(tmp_path / "out", FILES | {"trace.json": ["x"] * 200})
    assert list(tmp_path.iterdir()) == []
    with small_files(100), pytest.raises(OutOfRoom, match="the file size limit"):
        write_file(tmp_path / "trace.json", ["x"] * 200)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_on_the_way_leaves_the_old_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out, dict.fromkeys(OWN_FILES, "old"))
    with small_files(100), pytest.raises(OutOfRoom):
        write_folder(out, FILES | {"trace.json": ["x"] * 200}, force=True)
    assert contents(tmp_path) == {f"out/{name}": "old" for name in OWN_FILES}


def test_a_file_is_written_once(tmp_path: Path) -> None:
    target = tmp_path / "trace.json"
    write_file(target, "one")
    with pytest.raises(UsageError, match=r"--trace .*it exists; .*--force"):
        write_file(target, "two")
    assert target.read_text() == "one"
    write_file(target, "two", force=True)
    assert contents(tmp_path) == {"trace.json": "two"}


def test_a_file_must_have_a_folder_and_be_regular(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        check_file(tmp_path / "missing" / "trace.json", force=False)
    with pytest.raises(UsageError, match="it is a folder"):
        check_file(tmp_path, force=True)
    with pytest.raises(UsageError, match="not a regular file"):
        check_file(Path("/dev/null"), force=True)


def test_a_file_may_come_in_pieces_and_is_whole_or_not_there(tmp_path: Path) -> None:
    def pieces(last: str) -> Iterator[str]:
        yield from ("a", "é\n")
        if not last:
            raise OverflowError
        yield last

    write_file(tmp_path / "made.json", pieces("b"))
    write_folder(tmp_path / "out", {"trace.json": pieces("c"), "plan.json": "d"})
    with pytest.raises(OverflowError):
        write_file(tmp_path / "not.json", pieces(""))
    with pytest.raises(OverflowError):
        write_folder(tmp_path / "not", {"plan.json": "d", "trace.json": pieces("")})
    assert contents(tmp_path) == {
        "made.json": "aé\nb", "out/trace.json": "aé\nc", "out/plan.json": "d"
    }  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.json", "out"]
