"""The example package, installed: its device, strategy and cost model work everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "device_package"
PLATFORM = """\
host: cpu
devices:
  cpu: rockchip-rk3588-cpu
  npu: {device: rockchip-rk3588-npu, overrides: {backend: toy-npu}}
links:
  - {between: [cpu, npu], latency_us: 20, bandwidth_gbytes_s: 3}
"""
SECOND = """\
Metadata-Version: 2.1
Name: second
Version: 1.0
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    words = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run(
        [sys.executable, "-m", "pip", *words, str(folder), str(PACKAGE)], check=True, timeout=120
    )
    (folder / "box.yaml").write_text(PLATFORM)
    return folder


def call(folder: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **changes},
        capture_output=True,
        text=True,
        timeout=300,
    )


def hetsim(folder: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return call(folder, "-m", "hetsim", *words, **changes)


def test_it_is_short() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in PACKAGE.iterdir() if path.is_file())
    assert lines < 100


def test_its_device_conforms(installed: Path) -> None:
    script = (
        "from dataclasses import replace\n"
        "import hetsim\n"
        "from hetsim.device.registry import make_device\n"
        "from hetsim.testing import check_device\n"
        "spec = replace(hetsim.load_device('rockchip-rk3588-npu'), backend='toy-npu')\n"
        "check_device(lambda: make_device('npu', spec))\n"
        "print(type(make_device('npu', spec)).__name__)\n"
    )
    done = call(installed, "-c", script)
    assert done.stdout == "ToyNpu\n", done.stderr


def test_partitioners_strategies_clock_and_reports_work_with_it(installed: Path) -> None:
    done = hetsim(installed, "partition", "zoo:squeezenet", "--platform", "box.yaml", "--json")
    left = json.loads(done.stdout)["left"]
    assert any("1000 channels (it takes 512)" in why for why in left.values()), done.stderr
    listed = hetsim(installed, "strategies")
    assert "npu-first" in listed.stdout
    assert listed.stderr == ""
    for executor in ("threads", "ray"):
        ran = hetsim(
            installed, "run", "zoo:squeezenet", "--platform", "box.yaml", "--strategy", "npu-first",
            "--executor", executor,
        )  # fmt: skip
        assert "bitwise equal to the whole model: yes" in ran.stdout, ran.stderr
    script = (
        "import hetsim\n"
        "m, p = hetsim.load_model('zoo:squeezenet'), hetsim.load_platform('box.yaml')\n"
        "one, two = hetsim.Problem.of(m, p), hetsim.Problem.of(m, p, cost='twice')\n"
        "print(float(two.seconds[0, 0] / one.seconds[0, 0]))\n"
    )
    assert call(installed, "-c", script).stdout == "2.0\n"


def test_an_unavailable_device_is_an_error_that_says_what_to_do(installed: Path) -> None:
    words = ("partition", "zoo:squeezenet", "--platform", "box.yaml")
    done = hetsim(installed, *words, TOY_NPU_DRIVER="absent")
    assert (done.returncode, done.stdout) == (2, "")
    assert "device 'npu': the toy driver is not loaded; unset TOY_NPU_DRIVER" in done.stderr


def test_two_claims_and_broken_packages_are_named_and_the_rest_goes_on(
    installed: Path, tmp_path: Path
) -> None:
    info = tmp_path / "second-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(SECOND)
    (info / "entry_points.txt").write_text(
        "[hetsim.strategies]\nnpu-first = nothing:Here\nbroken = nothing:Here\nheft = x:Y\n"
    )
    path = f"{installed}{os.pathsep}{tmp_path}"
    listed = hetsim(installed, "strategies", PYTHONPATH=path)
    assert listed.returncode == 0
    assert "heft" in listed.stdout
    warnings = listed.stderr.splitlines()
    assert len(warnings) == 3
    assert "package 'second': 'broken' of hetsim.strategies cannot be imported" in listed.stderr
    assert "package 'second' adds 'heft' to hetsim.strategies, which is a name of" in listed.stderr
    assert "two packages add 'npu-first'" in listed.stderr
    words = ("simulate", "zoo:squeezenet", "--platform", "laptop", "--strategy")
    clash = hetsim(installed, *words, "npu-first", PYTHONPATH=path)
    assert clash.returncode == 2
    assert "package 'hetsim-toy-npu' and package 'second'" in clash.stderr
    assert hetsim(installed, *words, "heft", PYTHONPATH=path).returncode == 0
