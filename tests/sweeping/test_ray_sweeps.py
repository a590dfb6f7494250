"""A sweep on Ray: killed again and again, and on three nodes of which one is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import hetsim
from hetsim.execution.transports.processes import INSIDE, OWNER, owned
from hetsim.sweeping import store

THOUSAND = """\
models: [zoo:squeezenet, zoo:mobilenet_v2, zoo:resnet50, zoo:alexnet, zoo:inception_v1]
platforms: [laptop, rock-5b, snapdragon-phone, desktop, jetson-agx-orin]
what_ifs: [{}, "device *.speed +10%", "link *.bandwidth x2", "platform.power =20W"]
strategies: [heft, single:cpu, single:gpu, hetero, pipeline]
precisions: [{}, {gpu: float16}]
"""

# The tests' own process may be connected to another Ray, so the nodes are another's.
NODES = """
import sys
from ray.cluster_utils import Cluster

health = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300,
          "health_check_timeout_ms": 2000, "health_check_failure_threshold": 3}
node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args={
    **node, "_system_config": health})
cluster.add_node(**node)
third = cluster.add_node(**node)
print(cluster.address, flush=True)
sys.stdin.readline()
cluster.remove_node(third, allow_graceful=False)
print("lost", flush=True)
sys.stdin.readline()
cluster.shutdown()
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the grid, and its rows as one process answers them."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "grid.yaml").write_text(THOUSAND)
    found = hetsim.sweep(
        hetsim.load_grid(folder / "grid.yaml"), folder / "here", executor="threads"
    )
    assert (len(found.rows), found.failed) == (1000, 0)
    return folder


def started(grid: Path, out: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "hetsim",
        "--quiet",
        "sweep",
        str(grid),
        "-o",
        str(out),
        *words,
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def rows_there(out: Path) -> int:
    journal = out / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def wait_for(rows: int, out: Path, sweep: subprocess.Popen[bytes]) -> None:
    while sweep.poll() is None and rows_there(out) < rows:
        time.sleep(0.02)


@pytest.mark.sweep
@pytest.mark.slow
def test_a_sweep_that_is_killed_five_times_has_the_same_bytes(here: Path) -> None:
    out = here / "killed"
    for kill in range(5):
        sweep = started(here / "grid.yaml", out)
        wait_for(rows_there(out) + 150, out, sweep)
        assert sweep.poll() is None, f"it was over before kill {kill}"
        sweep.send_signal(signal.SIGKILL)
        sweep.wait()
    assert 700 < rows_there(out) < 1000
    assert started(here / "grid.yaml", out).wait() == 0
    assert (out / "rows.jsonl").read_bytes() == (here / "here/rows.jsonl").read_bytes()
    assert sorted(path.name for path in out.iterdir()) == ["rows.jsonl"]


@pytest.mark.sweep
@pytest.mark.slow
def test_a_node_that_is_lost_loses_no_row(here: Path) -> None:
    out = here / "nodes"
    # Paths of sockets are short.
    files = tempfile.mkdtemp(prefix="hs-", dir="/tmp")
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": files}
    cluster = subprocess.Popen(
        [sys.executable, "-c", NODES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert cluster.stdin is not None
    assert cluster.stdout is not None
    try:
        address = cluster.stdout.readline().strip()
        sweep = started(here / "grid.yaml", out, "--address", address)
        wait_for(200, out, sweep)
        assert sweep.poll() is None
        cluster.stdin.write("\n")
        cluster.stdin.flush()
        assert cluster.stdout.readline().strip() == "lost"
        assert sweep.wait() == 0
    finally:
        cluster.communicate("\n", timeout=120)
        shutil.rmtree(files, ignore_errors=True)
    assert (out / "rows.jsonl").read_bytes() == (here / "here/rows.jsonl").read_bytes()


def test_what_a_killed_sweep_left_is_cleared(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="other-") as other:
        files = Path(tempfile.mkdtemp(prefix="hetsim-"))
        (files / INSIDE / "sockets").mkdir(parents=True)
        store.note_ray_files(tmp_path, files)
        # That of a Ray that lives, whoever wrote the note.
        with owned(files):
            store.clear_files(tmp_path / store.RUNNING)
            assert files.exists()
        assert (files / OWNER).exists()
        store.note_ray_files(tmp_path, None)
        with store.leftovers_removed(tmp_path):
            assert not files.exists()
            # Whatever a note says, nothing else is removed.
            store.note_ray_files(tmp_path, Path(other))
        assert not list(tmp_path.iterdir())
        for text in (f'{{"files": "{other}"}}', "[]", "no", '{"files": 3}'):
            (tmp_path / store.RUNNING).write_text(text)
            with store.leftovers_removed(tmp_path):
                assert Path(other).exists()
