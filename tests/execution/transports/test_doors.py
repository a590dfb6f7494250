"""Files of the working directory that are named as modules: no process that hetsim starts runs one.

The folder is a compiled one, with a file for every module that a worker has loaded, that Python
comes with, or that is installed; each says that it was run. The names are those of a real worker.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

import hetsim
from builders import BOX
from hetsim.core.process import own_environment
from hetsim.execution.compiled.write import compile_plan
from hetsim.execution.transports.ray_connection import RayConnection

DEADLINE_S = 500
NOT_INSTALLED = ("pyarrow", "uvloop", "cupy", "torch", "pandas", "sitecustomize", "usercustomize")
"""What is looked for where it may not be there."""

SAYS = """\
import posix
with open({hits!r}, "a") as hits:
    hits.write(f"{{posix.getpid()}} {name}\\n")
raise ImportError("planted")
"""

GRID = "models: zoo:squeezenet\nplatforms: laptop\nstrategies: [single:cpu, heft]\n"
WORKLOAD = """\
seed: 1
requests: 4
streams:
  only: {model: zoo:squeezenet, arrivals: {constant: {rate_per_s: 50}}}
"""

STORY = """
import json, os, sys
from click.testing import CliRunner
import hetsim
from hetsim.cli.main import main
from hetsim.execution.transports.ray_connection import ray_connection
# As the environment may have it: this folder by three names.
os.environ["PYTHONPATH"] = os.pathsep.join(("", os.curdir, os.getcwd()))
def call(*words):
    done = CliRunner().invoke(main, list(words))
    print(json.dumps([words[0], done.exit_code, done.output, os.getpid()]), flush=True)
"""

ALONE = """
with ray_connection(cpus=2):
    call("run", sys.argv[1], "--platform", sys.argv[2], "--strategy", "hetero:npu,dsp,cpu")
    call("run", ".")
    call("sweep", "grid.yaml", "-o", sys.argv[3])
    call("run", "--workload", "workload.yaml", "--platform", sys.argv[2])
"""


def loaded_by_a_worker() -> set[str]:
    """The top-level modules of a worker that has all that hetsim has it do."""

    # Only a function within a function is pickled with its code.
    def look() -> set[str]:
        import sys

        import hetsim.execution.transports.ray_actor
        import hetsim.sweeping.evaluation  # noqa: F401

        return {name.partition(".")[0] for name in sys.modules}

    found: set[str] = ray.get(ray.remote(num_cpus=0)(look).remote())
    return found


@pytest.fixture(scope="module")
def planted(
    ray_connection: RayConnection, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A compiled folder with a file for each module, and the file that these write to when run."""
    folder = tmp_path_factory.mktemp("planted") / "compiled"
    problem = hetsim.Problem.of(hetsim.load_model("zoo:squeezenet"), hetsim.load_platform(BOX))
    compile_plan(hetsim.plan(problem, "hetero:npu,dsp,cpu"), folder)
    (folder / "grid.yaml").write_text(GRID)
    (folder / "workload.yaml").write_text(WORKLOAD)
    hits = folder.with_name("hits")
    loaded = loaded_by_a_worker()
    assert {"hetsim", "numpy", "ray", "json"} < loaded
    installed = importlib.metadata.packages_distributions()
    names = {*loaded, *sys.stdlib_module_names, *installed, *NOT_INSTALLED}
    planted = {name for name in names if name.isidentifier()}
    assert len(planted) > 300
    for name in planted:
        (folder / f"{name}.py").write_text(SAYS.format(hits=str(hits), name=name))
    return folder, hits


def plain() -> dict[str, str]:
    """The environment without what the Ray of the tests has in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**kept, "PYTHONPATH": "", "RAY_AUTH_MODE": "disabled"}


def told(story: str, folder: Path, *words: str) -> Iterator[tuple[str, int, str, int]]:
    """What a process in the folder told of each command; it does not itself look there."""
    command = [sys.executable, "-P", "-c", STORY + story, *words]
    done = subprocess.run(
        command, cwd=folder, env=plain(), capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        if line.startswith("["):
            verb, code, output, pid = json.loads(line)
            yield verb, code, output, pid


def run_by_others(hits: Path, pid: int) -> list[str]:
    """The planted modules that other processes than that of the story ran."""
    if not hits.exists():
        return []
    lines = [line.split() for line in hits.read_text().splitlines()]
    return sorted({name for by, name in lines if int(by) != pid})


@pytest.mark.sweep
def test_a_planted_module_says_that_it_was_run(planted: tuple[Path, Path]) -> None:
    folder, hits = planted
    code = "import sys; sys.path.insert(0, sys.argv[1]); import pydantic"
    subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True)
    assert run_by_others(hits, os.getpid()) == ["pydantic"]


@pytest.mark.slow
@pytest.mark.sweep
def test_no_module_of_the_working_directory_is_run(
    planted: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, hits = planted
    hits.unlink(missing_ok=True)
    calls = list(told(ALONE, folder, "zoo:squeezenet", str(BOX), str(tmp_path / "rows")))
    assert run_by_others(hits, calls[0][3]) == []
    assert [(verb, code) for verb, code, *_ in calls] == [
        ("run", 0), ("run", 0), ("sweep", 0), ("run", 0)
    ], [output for *_, output, _ in calls]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("", ""),
        (":", ""),
        (".::/opt/x", "/opt/x"),
        ("src:/opt/x:", "{here}/src:/opt/x"),
        ("{here}:{here}/src:{link}", "{here}/src"),
    ],
)
def test_the_working_directory_is_on_no_path_by_any_name(
    given: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, link = tmp_path / "here", tmp_path / "link"
    (here / "src").mkdir(parents=True)
    link.symlink_to(here)
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", given.format(here=here, link=link))
    environment = own_environment()
    assert environment["PYTHONPATH"] == left.format(here=here, link=link)
    assert environment["PYTHONSAFEPATH"] == "1"
