"""The mistakes of ``make mutants``: the same for a seed, in one place each; and the excuses."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from mutants.choosing import chosen_for
from mutants.drawing import drawn

ROOT = Path(__file__).parents[1]

SOURCE = '''"""One function."""

from __future__ import annotations

from dataclasses import dataclass

MOST = 1_000


@dataclass(frozen=True)
class Pair:
    first: int | None
    second: int | None


def least(values: list[int] | None, more: int | str) -> int | None:
    for a, b in zip(values, values, strict=True):
        if a <= b:
            return a
    return None
'''


def test_mistakes_are_drawn_by_seed_and_each_can_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text(SOURCE)
    found = list(drawn([file], tmp_path, 12, seed=3))
    assert found == list(drawn([file], tmp_path, 12, seed=3))
    assert len({mutant.now for mutant in found}) == len(found) >= 8
    # The loop, its comparison, and the decorator; no type, no limit, no flag that only checks.
    lines = SOURCE.splitlines()
    marked = {"@dataclass(frozen=True)", lines[16].strip(), lines[17].strip()}
    assert {mutant.was.strip() for mutant in found} == marked
    for mutant in found:
        ast.parse(mutant.text)
        if mutant.now:
            assert mutant.text.replace(mutant.now, mutant.was) == SOURCE


def test_the_tests_of_a_file_come_by_how_near_they_import_it(tmp_path: Path) -> None:
    for name, text in (
        ("hetsim/base/a.py", ""),
        ("hetsim/base/b.py", "from hetsim.base import a"),
        ("hetsim/plans/c.py", "import hetsim.base.a"),
        ("tests/base/test_far.py", "def test() -> None:\n    from hetsim.base.b import one"),
        ("tests/base/test_near.py", "from hetsim.base.a import one"),
        ("tests/base/test_other.py", "import math"),
        ("tests/plans/test_beside.py", "from hetsim.base import a"),
        ("tests/plans/test_through.py", "from hetsim.plans.c import one"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert chosen_for(tmp_path / "hetsim/base/a.py", tmp_path) == [
        "tests/base/test_near.py",
        "tests/plans/test_beside.py",
        "tests/base/test_far.py",
    ]


def test_what_is_excused_is_still_there() -> None:
    """An excuse is of a line as it stands: where that has changed, it is to be thought over."""
    listed = tomllib.loads((ROOT / "tests/mutants/equivalent.toml").read_text())["mutant"]
    for entry in listed:
        lines = [line.strip() for line in (ROOT / entry["path"]).read_text().splitlines()]
        assert entry["was"] in " ".join(lines), entry
        assert entry["now"] != entry["was"]
        assert len(entry["why"]) > 20
