"""Every example runs and prints what is recorded beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def test_there_are_examples() -> None:
    assert len(SCRIPTS) >= 3
    assert {path.with_suffix(".txt") for path in SCRIPTS} == set(EXAMPLES.glob("*.txt"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_example_prints_its_record(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, script.name], cwd=EXAMPLES, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == script.with_suffix(".txt").read_text()
