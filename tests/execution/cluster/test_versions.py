"""Versions: what a process tells of itself, and what may differ between two."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ray import cloudpickle

from hetsim.errors import ExecutionError
from hetsim.execution.cluster import (
    Versions,
    check_versions,
    differences,
    version_reader,
    versions_of,
)

ASKED = """
import pickle, sys
told = pickle.loads(sys.stdin.buffer.read())()
sys.stdout.buffer.write(pickle.dumps(told))
"""
HERE = Versions("3.11.7", "0.1.0", "abc", "2.60.0", "1.31.0", "1.23.0", "2.3.1", "x86_64")


@pytest.mark.parametrize(
    ("name", "there", "refused"),
    [
        ("hetsim", "0.2.0", True),
        ("hetsim", None, True),
        ("code", "def", True),
        ("onnxruntime", "1.31.1", True),
        ("onnxruntime", None, True),
        ("python", "3.12.7", True),
        ("python", "3.11.9", False),
        ("ray", "2.60.1", True),
        ("numpy", "1.26.4", True),
        ("numpy", "2.4.0", False),
        ("onnx", "1.22.0", False),
        ("onnx", None, False),
        ("machine", "aarch64", False),
    ],
)
def test_what_may_differ(name: str, there: str | None, refused: bool) -> None:
    other = replace(HERE, **{name: there})
    (found,) = differences(HERE, other)
    assert (found.name, found.there, found.refused) == (name, there, refused)
    if refused:
        with pytest.raises(ExecutionError, match=r"^node 10") as raised:
            check_versions(HERE, other, "node 10.0.0.2")
        assert there is None or there in raised.value.what
        assert raised.value.hint
    else:
        check_versions(HERE, other, "node 10.0.0.2")


@pytest.mark.sweep
def test_the_source_of_hetsim_is_told_apart(tmp_path: Path) -> None:
    def told(folder: Path) -> Versions:
        done = subprocess.run(
            [sys.executable, "-c", ASKED],
            input=cloudpickle.dumps(version_reader()),
            cwd=folder,
            capture_output=True,
            check=True,
        )
        return versions_of(pickle.loads(done.stdout))

    for name, text in (("one", "a = 1"), ("same", "a = 1"), ("other", "a = 2")):
        package = tmp_path / name / "hetsim"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("__version__ = '9.9'")
        (package / "part.py").write_text(text)
    one, same, other = (told(tmp_path / name) for name in ("one", "same", "other"))
    assert one.hetsim == "9.9"
    assert one == same
    (found,) = differences(one, other)
    assert (found.name, found.refused) == ("code", True)
