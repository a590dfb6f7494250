"""A comparison loads what it needs, public names resolve, and hash seeds change no result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hetsim
from cli_calls import call
from sweeps import sweep


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, **environment},
    )


NOT_OF_A_COMPARISON = (
    "ray",
    "scipy",
    "numba",
    "plotly",
    "jinja2",
    "ortools",
    "hetsim.simulation.failures",
    "hetsim.simulation.serving",
    "hetsim.simulation.autoscaling",
    "hetsim.simulation.service",
    "hetsim.workload",
    "hetsim.execution",
    "hetsim.provisioning.rates",
    "hetsim.provisioning.instances",
    "hetsim.provisioning.platforms",
    "hetsim.sweeping",
    "hetsim.cost.calibration",
    "hetsim.analysis.timeline_check",
    "hetsim.statistics",
    "hetsim.reporting.pages",
)
"""What no comparison needs where one device alone is shown to be the best."""


def test_a_comparison_loads_what_it_needs() -> None:
    words = ["compare", "zoo:resnet18", "--platform", "edge-tpu", "--quiet"]
    probe = (
        f"import sys\nfrom hetsim.cli.main import main\nmain({words!r}, standalone_mode=False)\n"
        "loaded = [f'{name}.' for name in sys.modules]\n"
        f"print([name for name in {NOT_OF_A_COMPARISON!r}"
        " if any(one.startswith(f'{name}.') for one in loaded)])"
    )
    assert run_python("-c", probe).stdout.splitlines()[-1] == "[]"


def test_every_public_name_resolves() -> None:
    for name in hetsim.__all__:
        assert getattr(hetsim, name) is not None, name


MODELS = {"laptop": "zoo:resnet50", "rock-5b": "zoo:bert_small", "edge-tpu": "zoo:squeezenet"}


@pytest.mark.slow
@sweep(
    "platform, seeds",
    quick=[("edge-tpu", ("0",))],
    full=[(name, seeds) for name in MODELS for seeds in (("0",), ("1", "2", "3"))],
)
def test_results_are_the_same_under_every_hash_seed(
    tmp_path: Path, platform: str, seeds: tuple[str, ...]
) -> None:
    """This process has a seed of its own."""
    words = ["compare", MODELS[platform], "--platform", platform, "--json", "--out"]
    table = call(*words, tmp_path / "here").stdout
    plan = (tmp_path / "here" / "plan.json").read_text()
    for seed in seeds:
        out = tmp_path / seed
        done = run_python("-m", "hetsim", *words, str(out), PYTHONHASHSEED=seed)
        assert done.stdout == table
        assert (out / "plan.json").read_text() == plan
