"""Tests on other Pythons, or with the lowest versions that ``pyproject.toml`` allows.

Each place is a virtual environment below ``build/elsewhere``, which uv fills. All tests are
imported there, and those of CORE run; what a place lacks is said by name.

    make elsewhere PLACES="lowest 3.12 3.13 3.14"
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ROOT / "build" / "elsewhere"
LOWEST = "lowest"
EXTRAS = ".[dev,parquet]"

CORE = (
    "tests/core", "tests/problem", "tests/graph/patterns", "tests/partitioning",
    "tests/graph/shapes",
    "tests/placement/strategies", "tests/provisioning/rates", "tests/reporting/test_trace.py",
    "tests/cli/test_exit_codes.py", "tests/execution/test_run.py",
)  # fmt: skip
"""What a version of Python or of a package may break: reading, numbers, plans, kernels, a Ray."""


def interpreters(version: str) -> Iterator[Path]:
    """Yield where a Python of a version may be: on the path, or among pyenv's."""
    found = shutil.which(f"python{version}")
    if found is not None:
        yield Path(found)
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True)


def runs(python: Path, version: str) -> bool:
    """Whether it is that version indeed: what is on the path may be a stand-in."""
    told = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", told], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def interpreter(place: str) -> Path | None:
    """Return the Python of a place; None: it is not installed. That of `lowest` is this one."""
    if place == LOWEST:
        return Path(sys.executable)
    return next((one for one in interpreters(place) if runs(one, place)), None)


def steps(place: str, python: Path) -> list[list[str]]:
    """Return the commands that make a place and run the tests there."""
    uv, folder = str(PLACES / "uv" / "bin" / "uv"), PLACES / place
    here = str(folder / "bin" / "python")
    how = ["--resolution", "lowest-direct"] if place == LOWEST else ["-c", "constraints.txt"]
    test = [here, "-m", "pytest", "-p", "no:cacheprovider", "--hypothesis-seed=1", "-q"]
    if place == LOWEST:
        # Old versions of Ray leave files and processes of their own to the collector.
        test += ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
    return [
        [uv, "venv", "--quiet", "--clear", "--python", str(python), str(folder)],
        [uv, "pip", "install", "--quiet", "--python", here, *how, "--editable", EXTRAS],
        [*test, "--collect-only", "-qq", "tests"],
        [*test, "-n", "4", "--dist", "loadgroup", *CORE],
    ]


def run(places: Sequence[str]) -> int:
    """Run the tests in each place; return the number of those in which something failed."""
    failed = []
    for place in places:
        python = interpreter(place)
        if python is None:
            print(f"{place}: Python {place} is not installed here, and not tried", flush=True)
            continue
        print(f"{place}: {python}", flush=True)
        for step in steps(place, python):
            done = subprocess.run(step, cwd=ROOT, check=False)
            if done.returncode:
                print(f"{place}: {' '.join(step)} ended with {done.returncode}", flush=True)
                failed.append(place)
                break
        else:
            print(f"{place}: passed", flush=True)
    return len(failed)


if __name__ == "__main__":
    sys.exit(min(run(sys.argv[1:]), 1))
