"""Every example runs and prints what is recorded beside it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from hetsim.execution.transports.ray_connection.connection import RayConnection

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def test_there_are_examples() -> None:
    assert len(SCRIPTS) >= 3
    assert {path.with_suffix(".txt") for path in SCRIPTS} == set(EXAMPLES.glob("*.txt"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_example_prints_its_record(
    script: Path,
    ray_connection: RayConnection,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(EXAMPLES)
    runpy.run_path(script.name, run_name="__main__")
    assert capsys.readouterr().out == script.with_suffix(".txt").read_text()
