"""Machine code is kept in the user's own folder or not at all; never beside the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from hetsim.core import deadline
from hetsim.core.files import cache_dir, private_folder
from hetsim.core.machine_code import machine_code

SOURCE = "def triple(x):\n    return 3.0 * x / x * 1.0\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def triple(tmp_path: Path) -> Callable[..., float]:
    """A function in a package of its own."""
    file = tmp_path / "package" / "tripling.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    scope: dict[str, Callable[..., float]] = {"__name__": "tripling"}
    exec(compile(SOURCE, str(file), "exec"), scope)
    return scope["triple"]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_it_is_kept_in_the_users_cache_and_not_beside_the_source(
    cache: Path, triple: Callable[..., float], tmp_path: Path
) -> None:
    assert not machine_code(triple).kept
    made = machine_code(triple)
    assert made(2.0) == 3.0
    assert machine_code(triple).kept
    assert np.isnan(made(0.0))
    kept = files(cache / "machine-code")
    assert {path.suffix for path in kept} == {".nbi", ".nbc"}
    assert (cache / "machine-code").stat().st_mode & 0o777 == 0o700
    assert files(tmp_path / "package") == [tmp_path / "package" / "tripling.py"]
    assert numba.config.CACHE_DIR == ""
    again = machine_code(triple)
    assert again(2.0) == 3.0
    assert again.found == 1


def test_what_it_calls_in_another_file_is_compiled_with_it_and_a_change_there_seen(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "called_inside.py").write_text("")
    (tmp_path / "calls_another.py").write_text(
        "from called_inside import *\ndef outer(x):\n    return inner(x) + 1.0\n"
    )
    inner, outer = import_module("called_inside"), import_module("calls_another")
    for factor, expected, hits in ((2.0, 5.0, 0), (3.0, 7.0, 0), (2.0, 5.0, 1)):
        text = f"def inner(x):\n    return {factor} * x\n"
        (tmp_path / "called_inside.py").write_text(text)
        exec(compile(text, inner.__file__ or "", "exec"), inner.__dict__)
        made = machine_code(outer.outer, inner.inner)
        assert made(2.0) == expected
        assert made.found == hits


def test_a_change_of_a_constant_of_another_file_is_seen(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "names_constants.py").write_text(
        "PLACE, SIZES = 0, (1.0, 2.0)\ndef sized(x):\n    return SIZES[PLACE] * x\n"
    )
    outer = import_module("names_constants")
    for place, sizes, expected, hits in (
        (0, (1.0, 2.0), 2.0, 0),
        (1, (1.0, 2.0), 4.0, 0),
        (1, (1.0, 5.0), 10.0, 0),
        (0, (1.0, 2.0), 2.0, 1),
    ):
        monkeypatch.setattr(outer, "PLACE", place)
        monkeypatch.setattr(outer, "SIZES", sizes)
        made = machine_code(outer.sized)
        assert made(2.0) == expected
        assert made.found == hits


def test_parts_call_parts_and_fields_of_a_named_tuple_that_change_place_are_seen(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "with_a_record.py").write_text(
        "from typing import NamedTuple\n"
        "class Pair(NamedTuple):\n    a: list\n    b: list\n"
        "class Riap(NamedTuple):\n    b: list\n    a: list\n"
        "def least(x):\n    return 10.0 * x[0]\n"
        "def part(pair: 'Pair'):\n    return least(pair.a)\n"
        "def outer(pair: 'Pair'):\n    return part(pair) + pair.b[0]\n"
    )
    module = import_module("with_a_record")
    arrays = (np.full(1, 2.0), np.full(1, 3.0))
    for fields, expected, hits in (
        (module.Pair, 23.0, 0),
        (module.Riap, 32.0, 0),
        (module.Pair, 23.0, 1),
    ):
        monkeypatch.setattr(module, "Pair", fields)
        made = machine_code(module.outer, module.least, module.part, inline=True)
        assert made(fields(*arrays)) == expected
        assert made.found == hits


def test_damaged_machine_code_is_made_anew(cache: Path, triple: Callable[..., float]) -> None:
    assert machine_code(triple)(2.0) == 3.0
    for suffix in (".nbc", ".nbi"):
        for path in files(cache):
            if path.suffix == suffix:
                path.write_bytes(b"\x80nonsense")
        assert machine_code(triple)(2.0) == 3.0


def test_no_deadline_counts_what_is_compiled(cache: Path, triple: Callable[..., float]) -> None:
    cpu_s, counted_s = time.process_time(), deadline.now_s()
    assert machine_code(triple)(2.0) == 3.0
    assert deadline.now_s() - counted_s < (time.process_time() - cpu_s) / 2


def test_without_a_folder_of_its_own_nothing_is_kept(
    cache: Path, triple: Callable[..., float], tmp_path: Path
) -> None:
    cache.write_text("a file where the folder should be")
    assert machine_code(triple)(2.0) == 3.0
    assert files(tmp_path / "package") == [tmp_path / "package" / "tripling.py"]


def test_a_disk_that_fills_up_is_no_error(
    cache: Path, triple: Callable[..., float], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_code(triple)(1)
    (folder,) = (cache / "machine-code").iterdir()
    for below in folder.iterdir():
        shutil.rmtree(below)
        below.write_text("")
    made = machine_code(triple)
    assert made(2.0) == 3.0


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o750, 0o705])
def test_a_folder_that_others_can_open_is_not_used(cache: Path, mode: int) -> None:
    folder = private_folder("kept", "below")
    assert folder == cache / "kept" / "below"
    (cache / "kept").chmod(mode)
    assert private_folder("kept", "below") is None
    (cache / "kept").chmod(0o700)
    assert private_folder("kept", "below") == folder


def test_a_folder_of_somebody_else_is_not_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert private_folder("kept") is not None
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert private_folder("kept") is None
    monkeypatch.undo()
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(tmp_path / "other"))
    (tmp_path / "other").mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "other" / "kept").symlink_to(tmp_path / "elsewhere")
    assert private_folder("kept") is None


def test_the_cache_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HETSIM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "hetsim"

    def homeless() -> Path:
        raise RuntimeError("there is no home")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert private_folder("kept") is None


def test_a_folder_that_the_user_named_for_numba_is_used(
    cache: Path, triple: Callable[..., float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "named"))
    assert machine_code(triple)(2.0) == 3.0
    assert files(tmp_path / "named")
    assert not cache.exists()


def test_the_package_is_left_as_it_is_and_numba_is_loaded_late(tmp_path: Path) -> None:
    code = """
import sys
import hetsim
from hetsim.simulation.clock import virtual_time
from hetsim.core.machine_code import machine_code
sys.path.insert(0, sys.argv[1])
from triples import triple
made = virtual_time.compiled(), machine_code(triple)
assert "numba" not in sys.modules
assert made[1](2.0) == 3.0
print("numba" in sys.modules, made[1].found)
"""
    (tmp_path / "triples.py").write_text(SOURCE)
    for told in ("True 0", "True 1"):
        done = subprocess.run(
            [sys.executable, "-Bc", code, str(tmp_path)],
            env={**os.environ, "HETSIM_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": ""},
            capture_output=True, text=True, check=True, timeout=200,
        )  # fmt: skip
        assert done.stdout.strip() == told
    assert files(tmp_path / "cache" / "machine-code")
    assert {path.name for path in tmp_path.iterdir()} == {"triples.py", "cache"}


class Amounts(NamedTuple):
    """A record of arrays and numbers."""

    whole: NDArray[np.int64]
    small: NDArray[np.int8]
    real: NDArray[np.float64]
    flags: NDArray[np.bool_]
    count: int
    share: float


def move(amounts: Amounts, at: int) -> None:
    """Change all arrays in one place."""
    amounts.whole[at] += amounts.count
    amounts.small[at] -= 1
    amounts.real[at] = amounts.share * amounts.whole[at]
    amounts.flags[at] = amounts.small[at] < 0


def moved(amounts: Amounts, times: int) -> float:
    for turn in range(times):
        move(amounts, turn % len(amounts.real))
    return amounts.real[-1] + amounts.share


def amounts(size: int) -> Amounts:
    ones = np.ones(size)
    return Amounts(np.arange(size), ones.astype(np.int8), ones, ones > 1, 3, 0.25)


def test_records_are_read_and_written_by_reference(cache: Path) -> None:
    for made in (machine_code(moved, move, inline=True), machine_code(moved, move, inline=True)):
        for size in (1, 7):
            plain, by_reference = amounts(size), amounts(size)
            assert made(by_reference, 10) == moved(plain, 10)
            for one, other in zip(plain[:4], by_reference[:4], strict=True):
                assert one.tobytes() == other.tobytes()
    assert made.found == 1


def test_an_array_with_gaps_is_no_field_of_a_record() -> None:
    made = machine_code(moved, move, inline=True)
    wrong = amounts(8)._replace(real=np.ones(16)[::2])
    with pytest.raises(TypeError, match="real of Amounts is not contiguous"):
        made(wrong, 1)


def test_where_numba_has_moved_what_is_built_on_records_go_by_value(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hetsim.core.records", None)
    made = machine_code(moved, move, inline=True)
    plain, by_value = amounts(7), amounts(7)
    with pytest.warns(RuntimeWarning, match="does not know this version of numba"):
        assert made(by_value, 10) == moved(plain, 10)
    for one, other in zip(plain[:4], by_value[:4], strict=True):
        assert one.tobytes() == other.tobytes()


KEPT_BY_OTHERS = """
import sys
from hetsim.core.machine_code import machine_code
sys.path.insert(0, sys.argv[1])
import with_other_parts as given

for word in sys.argv[2:]:
    made = machine_code(given.outer, vars(given)[word].inner, given.middle)
    print(made(2.0), made.found)
"""


@pytest.mark.sweep
def test_what_two_processes_kept_of_one_function_with_unlike_parts_is_told_apart(
    tmp_path: Path,
) -> None:
    """Each compiled alone, their symbols differ by nothing that numba counts."""
    (tmp_path / "with_other_parts.py").write_text(
        "def outer(x):\n    return middle(x) + middle(x + 1.0) + middle(x + 2.0)\n\n"
        "def middle(x):\n    x = inner(x)\n"
        # Long enough for LLVM to call it rather than put it inline.
        + "".join(f"    if x == -{at}.0:\n        x = 1.0 / x\n" for at in range(60))
        + "    return x\n\n"
        "class twice:\n    def inner(x):\n        return 2.0 * x\n\n"
        "class thrice:\n    def inner(x):\n        return 3.0 * x\n"
    )
    environment = {
        **os.environ, "HETSIM_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": ""
    }  # fmt: skip

    def told(*words: str) -> list[str]:
        command = [sys.executable, "-c", KEPT_BY_OTHERS, str(tmp_path), *words]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout.splitlines()

    assert told("twice") == ["18.0 0"]
    assert told("thrice") == ["27.0 0"]
    assert told("twice", "thrice") == ["18.0 1", "27.0 1"]
    assert told("thrice", "twice") == ["27.0 1", "18.0 1"]


MADE_IN_TWO = """
import sys
from pathlib import Path
from numba.core import event
from hetsim.core.machine_code import machine_code
sys.path.insert(0, sys.argv[1])
from slowly_made import outer, inner

made = machine_code(outer, inner)
compiled = []
class Told(event.Listener):
    def on_start(self, told): pass
    def on_end(self, told): compiled.append(told.data["dispatcher"].__name__)
event.register("numba:compile", Told())
print("ready", flush=True)
sys.stdin.readline()
assert made(2.0) == 5.0
print(*compiled, made.found)
"""


@pytest.mark.sweep
def test_of_processes_that_start_together_one_makes_it(tmp_path: Path) -> None:
    (tmp_path / "slowly_made.py").write_text(
        "def inner(x):\n    return 2.0 * x\n\ndef outer(x):\n    return inner(x) + 1.0\n"
    )
    environment = {
        **os.environ, "HETSIM_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": ""
    }  # fmt: skip
    both = [
        subprocess.Popen(
            [sys.executable, "-c", MADE_IN_TWO, str(tmp_path)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        for one in both:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        # Each sends its line before either has ended.
        for one in both:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        told = sorted(one.communicate(timeout=120)[0].split() for one in both)
    finally:
        for one in both:
            one.kill()
            one.wait()
    assert told == [["1"], ["inner", "outer", "0"]]
