"""The mistakes of ``make mutants``: the same for a seed, in one place each; and the excuses."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mutants.drawing import drawn

ROOT = Path(__file__).parents[1]

SOURCE = '''"""One function."""

from __future__ import annotations

import functools
from dataclasses import dataclass

MOST = 1_000
ROOM = 1 << (2 + 5)


@dataclass(frozen=True)
class Pair:
    first: int | None
    second: int | None


@functools.cache
def least(values: list[int] | None, more: int | str) -> int | None:
    for a, b in zip(values, values, strict=True):
        if a <= b:
            return a
    return None


if TYPE_CHECKING:
    import ast
'''


@pytest.mark.sweep
def test_mistakes_are_drawn_by_seed_and_each_can_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text(SOURCE)
    found = list(drawn([file], tmp_path, 12, seed=3))
    assert found == list(drawn([file], tmp_path, 12, seed=3))
    assert len({mutant.now for mutant in found}) == len(found) >= 8
    # The loop, its comparison, a decorator; no type, no limit, nothing that only checks or saves.
    lines = SOURCE.splitlines()
    marked = {"@dataclass(frozen=True)", lines[19].strip(), lines[20].strip()}
    limits = [mutant for mutant in found if mutant.was.startswith(("MOST", "ROOM"))]
    assert {mutant.was.strip() for mutant in found if mutant not in limits} == marked
    assert not any("Number" in mutant.operator for mutant in limits)
    for mutant in found:
        ast.parse(mutant.text)
        if mutant.now:
            assert mutant.text.replace(mutant.now, mutant.was) == SOURCE


def test_what_is_excused_is_still_there() -> None:
    """An excuse is of a line as it stands: where that has changed, it is to be thought over."""
    listed = tomllib.loads((ROOT / "tests/mutants/equivalent.toml").read_text())["mutant"]
    for entry in listed:
        lines = [line.strip() for line in (ROOT / entry["path"]).read_text().splitlines()]
        assert entry["was"] in " ".join(lines), entry
        assert entry["now"] != entry["was"]
        assert len(entry["why"]) > 20


TRYING = """
import os
from pathlib import Path

from hypothesis import settings

from mutants.drawing import Mutant
from mutants.trying import tried

settings.register_profile("hetsim", settings())
mistake = Mutant("one.py", 1, "a = 1", "a = 2", "", "a = 2\\n")
for limit_s in (60.0, 0.0):
    trial = tried(mistake, ["test_one.py"], Path.cwd(), limit_s)
    print(trial.verdict, trial.test, *Path("ran").read_text().split())
    Path("ran").write_text("")
"""

TESTS = """
from pathlib import Path

import one


def ran(name):
    with Path("ran").open("a") as file:
        file.write(f"{name} ")


def test_first():
    ran("first")


def test_second():
    ran("second")
    assert one.a == 1


def test_third():
    ran("third")
"""


@pytest.mark.sweep
def test_tests_run_until_one_fails_or_the_time_is_over(tmp_path: Path) -> None:
    for name, text in (("one.py", "a = 1\n"), ("test_one.py", TESTS), ("ran", "")):
        (tmp_path / name).write_text(text)
    paths = os.pathsep.join(map(str, (tmp_path, ROOT / "tests", ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", TRYING], cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "killed test_one.py::test_second first second", "survived ",
    ]  # fmt: skip
    assert (tmp_path / "one.py").read_text() == "a = 1\n"
