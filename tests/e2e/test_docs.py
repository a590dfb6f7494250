"""What the documents say of the code's rooms, files and tests is there."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "hetsim"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
DECISIONS = ROOT / "docs" / "decisions"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@cache
def words_of(folder: Path) -> set[str]:
    """Words of all sources below a folder; of tests the names that are defined."""
    start = "def " if folder.name == "tests" else r"\b"
    return {
        word
        for path in folder.rglob("*.py")
        for word in re.findall(rf"{start}(\w+)", path.read_text())
    }


def rooms() -> dict[str, list[str]]:
    """Inner packages by what stands first in a row of the table of rooms: ``a/b`` for package b."""
    part = ARCHITECTURE.split("## The rooms")[1].split("\n## ")[0]
    found: dict[str, list[str]] = {}
    for line in part.splitlines():
        if line.startswith("| `"):
            names, text = line.strip("|").split("|", 1)
            for name in re.findall(r"`([\w/]+)`", names):
                inner = re.findall(r"`([\w/]+)/`", text)
                found[name.rstrip("/")] = [f"{name.rstrip('/')}/{room}" for room in inner]
    return found


def test_every_package_has_a_row_and_every_row_a_package() -> None:
    there = {
        path.parent.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("__init__.py")
        if path.parent != PACKAGE
    } | {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}
    named = [*rooms(), *(inner for row in rooms().values() for inner in row)]
    assert sorted(named) == sorted(there)


def test_rows_stand_in_the_order_of_the_floors() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (c["layers"] for c in contracts["contracts"] if c["type"] == "layers")
    named = [module for layer in reversed(layers) for module in re.findall(r"hetsim\.(\w+)", layer)]
    assert list(rooms()) == list(dict.fromkeys(named))


def test_every_package_says_what_it_is_for() -> None:
    for path in PACKAGE.rglob("__init__.py"):
        assert path.read_text().startswith('"""'), path


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_a_document_names_exist(path: Path) -> None:
    text = path.read_text()
    prefix = PACKAGE if path.name == "architecture.md" else ROOT
    for name in re.findall(r"`([\w/]+/[\w.]+\.(?:py|md|json|yaml))`", text):
        assert any((base / name).exists() for base in (ROOT, prefix)), name
    for name in re.findall(r"\]\(([\w/.-]+\.md)\)", text):
        assert (path.parent / name).exists(), name
    for name in re.findall(r"python (benchmarks/\w+\.py)", text):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("path", sorted(DECISIONS.glob("*.md")), ids=lambda path: path.stem)
def test_tests_and_names_that_a_decision_mentions_exist(path: Path) -> None:
    for name in re.findall(r"`(test_\w+)`", path.read_text()):
        assert name in words_of(ROOT / "tests"), name
    for name in re.findall(r"`([A-Z][A-Z_]+[A-Z]|[a-z]+_[a-z_]+)`", path.read_text()):
        if not name.startswith(("test_", "RAY_")):
            assert name in words_of(PACKAGE), name


def test_every_decision_is_listed() -> None:
    listed = re.findall(r"\]\((.+?\.md)\)", (DECISIONS / "README.md").read_text())
    assert listed == sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))


def test_what_docstrings_name_of_other_files_is_there() -> None:
    """``module.name``: some file of that stem, or of that folder, has the name."""
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    homes: dict[str, set[str]] = {}
    for path, text in texts.items():
        for home in {path.stem, *path.relative_to(PACKAGE).parent.parts[-1:]}:
            homes.setdefault(home, set()).update(re.findall(r"\w+", text))
    files = ("json", "onnx", "toml", "yaml", "bin")
    for path, text in texts.items():
        for home, name in re.findall(r"``(?:\w+\.)*([a-z]\w*)\.(\w+)(?:\(.*\))?``", text):
            if name in files or name[0].isdigit():
                continue
            there = homes.get(home, ())
            known = home in homes or home in ("hetsim", "onnx", "onnxruntime", "ray", "platform")
            assert known, f"{path}: no file is called {home}"
            assert name in there or not there or name in homes, f"{path}: {home} has no {name}"
