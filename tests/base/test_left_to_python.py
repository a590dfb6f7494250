"""Work that was left to Python is added up over processes, until machine code would have paid."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import llvmlite.binding
import pytest

from hetsim.base import left_to_python, object_code
from hetsim.base.left_to_python import is_due


def one(n: int) -> int:
    return n + 1


def two(n: int) -> int:
    return n + 2


KEPT = object_code.is_allowed() and llvmlite.binding.llvm_version_info >= (16, 0, 0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a process that has counted nothing."""
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(left_to_python, "_counts", {})
    monkeypatch.setattr(object_code, "is_allowed", lambda: True)
    return tmp_path / "cache" / "machine-code" / "left-to-python"


def test_who_has_much_to_do_waits_for_nothing(folder: Path) -> None:
    assert is_due(one, 100, 100)
    assert not is_due(one, 99, 100)
    assert is_due(one, 1, 100)


def test_little_adds_up_and_then_begins_anew(folder: Path) -> None:
    assert [is_due(one, 30, 100) for _ in range(8)] == [False, False, False, True] * 2
    # Each function, and each that is made of other parts, by itself.
    assert not is_due(two, 99, 100)
    assert sorted(float(file.read_text()) for file in folder.iterdir()) == [0.0, 99.0]


def test_other_processes_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for _ in range(8):
        monkeypatch.setattr(left_to_python, "_counts", {})
        found.append(is_due(one, 30, 100))
    assert found == [False, False, False, True] * 2


def test_small_steps_are_written_now_and_then(folder: Path) -> None:
    for _ in range(100):
        is_due(one, 1, 10_000)
        written = [float(file.read_text()) for file in folder.glob("*")]
        assert written in ([], [0.0])
    assert not is_due(one, 100, 10_000)
    assert [float(file.read_text()) for file in folder.glob("*")] == [200.0]


@pytest.mark.parametrize("text", ["", "x", "nan", "-5", "9" * 60, "\0" * 2**20])
def test_what_is_no_count_harms_nothing(
    text: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_due(one, 50, 100)
    (file,) = folder.iterdir()
    file.write_text(text)
    monkeypatch.setattr(left_to_python, "_counts", {})
    is_due(one, 50, 100)
    assert is_due(one, 100, 100)


def test_without_a_folder_a_process_counts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert [is_due(one, 50, 100) for _ in range(4)] == [False, True] * 2


def test_where_no_object_code_is_kept_each_is_asked_by_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_code, "is_allowed", lambda: False)
    assert [is_due(one, 60, 100) for _ in range(4)] == [False] * 4
    assert is_due(one, 100, 100)
    assert not folder.exists()


@pytest.mark.parametrize(("loaded", "kept"), [(0, False), (0, True), (1, False)])
def test_what_is_loaded_or_kept_pays_early_and_the_rest_once_it_is_due(
    loaded: int, kept: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = SimpleNamespace(cache_info=lambda: SimpleNamespace(currsize=loaded))
    monkeypatch.setattr(left_to_python, "_was_kept", lambda *_, **_inline: kept)
    assert not left_to_python.pays(compiled, one, 9, 10, 100)
    found = [left_to_python.pays(compiled, one, 50, 10, 100) for _ in range(2)]
    assert found == [bool(loaded) or kept, True]
    assert left_to_python.pays(compiled, one, 100, 10, 100)


PLANNED = """
import numpy as np
import hetsim
from hetsim.placement.listing import list_schedule
list_schedule.COMPILE_FROM = 5_000
rng = np.random.default_rng(0)
n = 1_200
problem = hetsim.Problem.from_arrays(
    rng.uniform(1e-4, 1e-3, (n, 3)),
    edges=[(v - 20, v, 1000) for v in range(20, n)],
    bytes_per_s=1e9,
)
plan = hetsim.plan(problem, "heft")
print(list_schedule._compiled.cache_info().currsize, hash(plan.groups))
"""


@pytest.mark.skipif(not KEPT, reason="no object code is kept here: numba calls all")
def test_small_plans_in_a_row_have_machine_code_in_the_end(tmp_path: Path) -> None:
    environ = {**os.environ, "HETSIM_CACHE_DIR": str(tmp_path), "PYTHONHASHSEED": "0"}
    environ.pop("NUMBA_CACHE_DIR", None)
    told = [
        subprocess.run(
            [sys.executable, "-c", PLANNED], env=environ, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(6)
    ]
    # The fifth has it made, the sixth finds it; all plan alike.
    assert [made for made, _ in told] == ["0", "0", "0", "0", "1", "1"]
    assert len({plan for _, plan in told}) == 1
