"""Processes that collect side by side begin apart, and collect the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collecting import turn

HELPERS = str(Path(__file__).parent / "helpers")
CONFTEST = """
import pytest
from collecting import Collecting

def pytest_configure(config):
    config.pluginmanager.register(Collecting(config))
"""
LOGGED = """
import os

with open({ran!r}, "a") as lines:
    print(os.environ["PYTEST_XDIST_WORKER"], {name!r}, file=lines)

def test_it(): pass
"""


def test_each_process_begins_with_another_file_and_all_have_the_same_tests(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ran = str(tmp_path / "ran")
    names = ["sub/g", "sub/h", *"abcdef"]
    (tmp_path / "sub").mkdir()
    for name in names:
        path = tmp_path / f"{name}.py"
        text = LOGGED.format(ran=ran, name=name)
        path.with_name(f"test_{path.name}").write_text(text)
    words = [
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--import-mode=importlib",
        "-p",
        "no:hypothesispytest",
    ]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": HELPERS, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    # xdist runs nothing where processes have not the same tests in the same order.
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout
    read = [line.split() for line in Path(ran).read_text().splitlines()]
    by = {worker: [name for one, name in read if one == worker] for worker, _ in read}
    assert sorted(by["gw0"]) == sorted(by["gw1"]) == sorted(names)
    assert by["gw0"] == names
    assert by["gw1"] == ["c", "d", "e", "f", "sub/h", "sub/g", "a", "b"]


@pytest.mark.parametrize(
    ("weights", "processes", "expected"),
    [
        ([1] * 8, 4, [0, 2, 4, 6]),
        ([5, 1, 1, 1], 2, [0, 0]),
        ([1, 1, 1, 5], 2, [0, 3]),
        ([], 2, [0, 0]),
        ([3], 3, [0, 0, 0]),
    ],
)
def test_beginnings_lie_apart(weights: list[int], processes: int, expected: list[int]) -> None:
    assert [turn(weights, number, processes) for number in range(processes)] == expected
