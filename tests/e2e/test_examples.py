"""Every example runs and prints what is recorded beside it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
ON_RAY = "03_run_on_ray"
LONG = {
    "02_own_platform", "06_capacity", "07_failures", "08_what_a_faster_link_is_worth",
    "09_which_precision", "10_platform_capacity",
    "11_one_more_than_needed", "12_two_models_on_one_board", "13_cheapest_platform",
    "14_autoscaling",
}  # fmt: skip
"""In the sweep alone: what they ask is asked each time by tests of its own folder, too."""


def test_there_are_examples() -> None:
    assert len(SCRIPTS) >= 3
    assert {path.with_suffix(".txt") for path in SCRIPTS} == set(EXAMPLES.glob("*.txt"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            path,
            marks=[
                *[pytest.mark.group("ray")] * (path.stem == ON_RAY),
                *[pytest.mark.sweep] * (path.stem in LONG),
            ],
        )
        for path in SCRIPTS
    ],
    ids=lambda path: path.stem,
)
def test_example_prints_its_record(
    script: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if script.stem == ON_RAY:
        request.getfixturevalue("ray_connection")
    monkeypatch.chdir(EXAMPLES)
    runpy.run_path(script.name, run_name="__main__")
    assert capsys.readouterr().out == script.with_suffix(".txt").read_text()
