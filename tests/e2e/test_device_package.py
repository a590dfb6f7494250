"""The example package, installed: its device, strategy and cost model work everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from sweeps import sweep

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
AT = "at"
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
    # Nothing is imported from the working directory: commands run in another folder.
    (folder / AT).mkdir()
    (folder / AT / "box.yaml").write_text(PLATFORM)
    return folder


TOLD = """
import json, os, sys
import click.testing
from hetsim.cli.main import main
for words, changes in json.loads(sys.argv[1]):
    done = click.testing.CliRunner().invoke(main, words, env=changes)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    print(json.dumps([done.exit_code, done.stdout, done.stderr]))
"""


def call(folder: Path, code: str, *words: str, path: str = "") -> str:
    """Run code in a process that finds the installed packages; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder / AT,
        env={**os.environ, "PYTHONPATH": path or str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Answer(NamedTuple):
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def commands(
    folder: Path, *calls: tuple[list[str], dict[str, str]], path: str = ""
) -> list[Answer]:
    """Give words to the command line, with changes of its environment, one after the other."""
    told = call(folder, TOLD, json.dumps(calls), path=path).splitlines()
    assert len(told) == len(calls)
    return [Answer(*json.loads(line)) for line in told]


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
        "m, p = hetsim.load_model('zoo:squeezenet'), hetsim.load_platform('box.yaml')\n"
        "one, two = (hetsim.Problem.of(m, p, cost=name) for name in ('roofline', 'twice'))\n"
        "print(float(two.seconds[0, 0] / one.seconds[0, 0]))\n"
    )
    assert call(installed, script) == "ToyNpu\n2.0\n"


@sweep("executor", quick=["threads"], full=["threads", "ray"])
def test_partitioners_strategies_clock_and_reports_work_with_it(
    installed: Path, executor: str
) -> None:
    box = ["zoo:squeezenet", "--platform", "box.yaml"]
    run = ["run", *box, "--strategy", "npu-first", "--executor"]
    split, listed, told, ran, absent = commands(
        installed,
        (["partition", *box, "--json"], {}),
        (["compare", "--strategies"], {}),
        (["compare", "--strategies", "npu-first", "--json"], {}),
        ([*run, executor], {}),
        (["partition", *box], {"TOY_NPU_DRIVER": "absent"}),
    )
    left = json.loads(split.stdout)["left"]
    assert any("1000 channels (it takes 512)" in why for why in left.values()), split.stderr
    assert "npu-first" in listed.stdout
    assert listed.stderr == ""
    entry = json.loads(told.stdout)
    assert entry["provider"] == "hetsim-toy-npu"
    assert entry["needs"] == ["a device that is named cpu"]
    assert entry["options"] == [
        {
            "name": "npu",
            "type": "text",
            "default": "npu",
            "meaning": "The device that is asked first.",
        }
    ]
    assert "bitwise equal to the whole model: yes" in ran.stdout, ran.stderr
    # An unavailable device is an error that says what to do.
    assert (absent.returncode, absent.stdout) == (2, "")
    assert "device 'npu': the toy driver is not loaded; unset TOY_NPU_DRIVER" in absent.stderr


@pytest.mark.sweep
def test_two_claims_and_broken_packages_are_named_and_the_rest_goes_on(
    installed: Path, tmp_path: Path
) -> None:
    info = tmp_path / "second-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(SECOND)
    (info / "entry_points.txt").write_text(
        "[hetsim.strategies]\nnpu-first = nothing:Here\nbroken = nothing:Here\nheft = x:Y\n"
    )
    words = ["simulate", "zoo:squeezenet", "--platform", "laptop", "--strategy"]
    listed, clash, other = commands(
        installed,
        (["compare", "--strategies"], {}),
        ([*words, "npu-first"], {}),
        ([*words, "heft"], {}),
        path=f"{installed}{os.pathsep}{tmp_path}",
    )
    assert listed.returncode == 0
    assert "heft" in listed.stdout
    warnings = listed.stderr.splitlines()
    assert len(warnings) == 3
    assert "package 'second': 'broken' of hetsim.strategies cannot be imported" in listed.stderr
    assert (
        "package 'second' adds 'heft' to hetsim.strategies, which hetsim itself defines"
        in listed.stderr
    )
    assert "two packages add 'npu-first'" in listed.stderr
    assert clash.returncode == 2
    assert "package 'hetsim-toy-npu' and package 'second'" in clash.stderr
    assert other.returncode == 0
