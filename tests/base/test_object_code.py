"""What numba compiled once is called without it, to the same bits; what cannot be is left to it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding
import numba
import numpy as np
import pytest

from hetsim.base import object_code
from hetsim.base.code_folder import is_kept
from hetsim.base.machine_code import machine_code
from hetsim.base.records import Record, bits_of
from hetsim.base.words import laid_out, told_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


AS_OBJECTS = pytest.mark.skipif(
    llvmlite.binding.llvm_version_info < (16, 0, 0),
    reason="LLVM before 16 says of pointers to what they point: numba calls all",
)


def objects(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.o"))


def whole(a: int, b: int) -> int:
    return a // b - 3 * a


def real(a: float, b: float) -> float:
    return math.exp(-a) * math.log(b) + a**b + b % a


def truth(a: bool, b: int) -> bool:
    return a and b > 2


def nothing(a: Any, at: int) -> None:
    a[at] = at


def table(a: Any, b: Any, at: int) -> float:
    """Reads the last row, column and plane, and writes the first place."""
    rows, columns = a.shape
    total = 0.0
    for k in range(columns):
        total += a[rows - 1, k] * k
    for k in range(b.shape[2]):
        total += b[-1, at, k]
    a[0, 0] += a.size + b.size
    return total


def ones(n: int) -> float:
    return np.ones(n).sum()


def helper(a: Any, at: int) -> float:
    return a[at] + 1.0


def helped(a: Any, n: int) -> float:
    total = 0.0
    for k in range(n):
        total += helper(a, k)
    return total


def arrays() -> tuple[Any, Any]:
    return np.arange(12.0).reshape(3, 4), np.arange(24, dtype=np.int32).reshape(2, 3, 4)


CALLS: list[
    tuple[Callable[..., Any], tuple[Callable[..., Any], ...], Callable[[], tuple[Any, ...]]]
]
CALLS = [
    (whole, (), lambda: (-7, 2)),
    (whole, (), lambda: (2**40, -3)),
    (real, (), lambda: (1.25, 7.5)),
    (real, (), lambda: (np.float64(0.1), -0.0)),
    (truth, (), lambda: (True, 3)),
    (truth, (), lambda: (True, 2)),
    (nothing, (), lambda: (np.zeros(4), 3)),
    (nothing, (), lambda: (np.zeros(4, np.int8), 3)),
    (table, (), lambda: (*arrays(), 1)),
    (helped, (helper,), lambda: (np.arange(5.0), 5)),
]


@AS_OBJECTS
@pytest.mark.parametrize("case", range(len(CALLS)))
def test_it_gives_what_numba_gives_and_changes_what_it_is_given(case: int, cache: Path) -> None:
    function, parts, made_of = CALLS[case]
    told, given = made_of(), made_of()
    scope = {**function.__globals__, **{part.__name__: numba.njit(part) for part in parts}}
    plain = numba.njit(error_model="numpy")(type(function)(function.__code__, scope))
    expected = plain(*told)
    for found in (0, 1):
        given = made_of()
        made = machine_code(function, *parts)
        answer = made(*given)
        assert type(answer) is type(expected)
        assert answer == expected or answer != answer
        for one, other in zip(told, given, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
        assert made.found == found
        assert len(objects(cache)) == 1
    assert is_kept(function, *parts)
    assert not is_kept(function, *parts, inline=True)


@AS_OBJECTS
def test_other_types_are_kept_beside(cache: Path) -> None:
    made = machine_code(nothing)
    for dtype in (np.float64, np.float32, np.int64, np.int8, np.bool_):
        given = np.zeros(3, dtype)
        made(given, 1)
        assert given.tolist() == [0, 1, 0]
    assert len(objects(cache)) == 5


@pytest.mark.parametrize(
    "given",
    [
        np.arange(8.0)[::2],
        np.asfortranarray(np.ones((2, 3)))[0],
    ],
)
def test_arrays_of_other_layouts_are_left_to_numba(given: Any, cache: Path) -> None:
    made = machine_code(helped, helper)
    assert made(given, len(given)) == given.sum() + len(given)
    assert not objects(cache)


def test_what_cannot_be_written_to_is_left_to_numba(cache: Path) -> None:
    given = np.arange(3.0)
    given.flags.writeable = False
    assert machine_code(helped, helper)(given, 3) == 6.0
    assert not objects(cache)
    with pytest.raises(Exception, match="Cannot modify readonly array"):
        machine_code(nothing)(given, 1)


def test_a_function_that_makes_arrays_is_left_to_numba(cache: Path) -> None:
    for found in (0, 1):
        made = machine_code(ones)
        assert made(5) == 5.0
        assert made.found == found
    assert not objects(cache)
    assert not is_kept(ones)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_numbers_beyond_64_bits_have_no_words(number: int) -> None:
    assert laid_out((number,)) is None
    assert laid_out((number // 2,)) == (("int64",), [number // 2])


class Pair(NamedTuple):
    """A record."""

    first: Any
    second: Any


def test_kinds_are_told_the_same_in_every_process() -> None:
    record = Record(Pair(np.zeros(2, np.int8), 2.0))
    laid = laid_out((record, np.zeros((2, 3)), 1, 1.0, False))
    assert laid is not None
    kinds, words = laid
    assert told_of(kinds) == "Pair(first:|i1 second:float) <f8[2] int64 float64 bool"
    assert words[2:] == [2, 3, 1, bits_of(1.0), 0]


@AS_OBJECTS
@pytest.mark.parametrize("change", ["made_for", "needs", "cut", "sha256", "nothing"])
def test_what_is_of_another_machine_or_damaged_is_made_anew(change: str, cache: Path) -> None:
    expected = machine_code(real)(1.25, 7.5)
    (path,) = objects(cache)
    head, _, code = path.read_bytes().partition(b"\n")
    said = json.loads(head)
    if change == "made_for":
        said["made_for"][2] += ",+other"
    elif change == "needs":
        said["needs"].append("no_function_of_c")
    elif change == "sha256":
        said["sha256"] = said["sha256"][::-1]
    elif change == "cut":
        code = code[:-1]
    path.write_bytes(json.dumps(said).encode() + b"\n" + code)
    assert (object_code.load(path) is not None) == (change == "nothing")
    assert machine_code(real)(1.25, 7.5) == expected


@AS_OBJECTS
def test_object_code_that_is_lost_is_made_again_though_numba_keeps_its_own(cache: Path) -> None:
    for _ in range(2):
        made = machine_code(whole)
        assert made(7, 2) == -18
        assert made.found == 0
        (path,) = objects(cache)
        path.unlink()


@AS_OBJECTS
def test_where_nothing_is_to_be_compiled_nothing_kept_is_called(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_code(whole)(7, 2)
    assert is_kept(whole)
    for name in ("DISABLE_JIT", "CPU_NAME", "OPT"):
        with monkeypatch.context() as patch:
            patch.setenv(f"NUMBA_{name}", "1")
            assert not is_kept(whole)


CLOCK = """
import sys
import numpy as np
import hetsim
from hetsim.simulation.clock.playing import play, tasks_of_plan

problem = hetsim.Problem.from_arrays(
    np.ones((40, 2)), edges=[(v, v + 1, 8) for v in range(39)], dispatch_s=0.5,
    contention="fifo", latency_s=0.25, bytes_per_s=4.0,
)
plan = hetsim.plan(problem, "heft")
answers = [
    play(tasks_of_plan(plan, "fifo"), np.arange(9.0), traced=True, machine_code=code)
    for code in (True, False)
]
assert answers[0].finish.tobytes() == answers[1].finish.tobytes()
assert answers[0].start.tobytes() == answers[1].start.tobytes()
print("numba" in sys.modules)
"""


@AS_OBJECTS
@pytest.mark.group("machine_code")
def test_the_clock_runs_without_numba_once_it_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine code of all tests: the first process may have to make it."""
    monkeypatch.delenv("HETSIM_CACHE_DIR")
    run = [sys.executable, "-c", CLOCK]
    subprocess.run(run, check=True, timeout=300)
    done = subprocess.run(run, check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "False"
    assert os.environ.get("NUMBA_CACHE_DIR", "") == ""
