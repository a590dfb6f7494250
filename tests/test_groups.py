"""Tests of a group go to one process, and long ones go out first."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path

from groups import units

HELPERS = str(Path(__file__).parent / "helpers")
CONFTEST = """
import os
import pytest
from groups import Groups

def pytest_configure(config):
    config.pluginmanager.register(Groups())

@pytest.fixture(scope="session")
def ray_connection():
    yield
    note("ended")

@pytest.fixture(params=["ray", "threads"])
def executor(request): return request.param

@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    note(item.name)

def note(word):
    with open("ran." + os.environ["PYTEST_XDIST_WORKER"], "a") as lines:
        print(word, file=lines)
"""
TESTS = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_alone(number): pass

@pytest.mark.slow
def test_long(): pass

@pytest.mark.parametrize("number", range(5))
def test_on_ray(number, ray_connection): pass

@pytest.mark.parametrize("number", range(5))
def test_on_either(number, executor): pass
"""


def test_a_group_stays_together_and_long_tests_go_first(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    words = ["-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:hypothesispytest"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": HELPERS,
            "PYTEST_ADDOPTS": "",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [path.read_text().split() for path in tmp_path.glob("ran.*")]
    assert sorted(len(each) > 0 for each in ran) == [True, True]
    assert sum(len(each) for each in ran) == 20 + 1 + 5 + 10 + 1
    on_ray = {f"test_on_ray[{number}]" for number in range(5)}
    on_ray |= {f"test_on_either[ray-{number}]" for number in range(5)}
    (mine,) = [each for each in ran if on_ray & set(each)]
    assert on_ray == set(mine[:10])
    assert mine.index("ended") == 10
    (other,) = [each for each in ran if each is not mine]
    assert other[0] == "test_long"


def test_a_file_stays_together_and_parts_get_smaller() -> None:
    files = {"a": 60, "b": 30, "c": 30, "d": 5}
    ids = [f"{name}.py::test[{k}]" for name, count in files.items() for k in range(count)]
    ids.insert(3, "a.py::test_on_ray")
    found = units(ids, {"a.py::test_on_ray": "ray"}, processes=1)
    assert list(found) != ids
    assert set(found) == set(ids)
    assert found.pop("a.py::test_on_ray") == "ray"
    parts = [(unit, len(list(those))) for unit, those in groupby(found.values())]
    assert len({unit for unit, _ in parts}) == len(parts), "a unit is one run of tests"
    left = 125
    for unit, count in parts:
        assert count <= max(1, left // 4)
        left -= count
        assert {id_.split("::")[0] for id_ in ids if found.get(id_) == unit} == {unit.split()[0]}
    assert parts[0][1] == 31
    assert parts[-1][1] == 1
