"""A cluster of three nodes on this machine, looked at, measured, crowded, and with a node lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from hetsim.execution.processes import descendants, end_all
from hetsim.execution.versions import own_versions

pytestmark = pytest.mark.slow

DEADLINE_S = 400.0

# The tests' own process may be connected to another Ray, so the story is played in a child.
STORY = """
import json, os, sys, time
import ray
from click.testing import CliRunner
from ray.cluster_utils import Cluster
from hetsim.cli.main import main
from hetsim.errors import ExecutionError
from hetsim.execution.link_probe import Probe, measure_links
from hetsim.execution.node_offers import actor_options, nodes_of
from hetsim.execution.ray_nodes import look_at, refuse_unplaceable
from hetsim.execution.ray_session import ray_session
from hetsim.execution.shipped_code import code_environment
from hetsim.hardware.catalog import load_platform

HEALTH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300,
          "health_check_timeout_ms": 2000, "health_check_failure_threshold": 3}
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
ALL = ("cpu", "gpu", "npu")

def tell(about, **facts):
    print(json.dumps({"about": about, **facts}), flush=True)

def told(live):
    return {
        "seats": {seat.device: [seat.state, list(seat.nodes)] for seat in live.seats},
        "nodes": {report.node.id: [report.node.alive, report.usable, report.failure,
                  [[entry.name, entry.there] for entry in report.differences]]
                  for report in live.nodes},
    }

def call(*words):
    result = CliRunner().invoke(main, ["cluster", "check", *words])
    tell(words[0], code=result.exit_code, out=result.stdout, err=result.stderr)

def refused(device, started):
    try:
        refuse_unplaceable(device, started=started)
    except ExecutionError as error:
        return error.what
    return ""

class Where:
    def node(self):
        return ray.get_runtime_context().get_node_id()

cluster = Cluster(initialize_head=True, head_node_args={
    **NODE, "resources": {"hetsim_cpu": 1}, "_system_config": HEALTH})
gpu = cluster.add_node(**NODE, resources={"hetsim_gpu": 1})
os.environ["PYTHONPATH"] = sys.argv[1]
npu = cluster.add_node(**NODE, resources={"hetsim_npu": 1}, labels={"hetsim_dsp": "1"})
ids = {"cpu": cluster.head_node.node_id, "gpu": gpu.node_id, "npu": npu.node_id}
address = cluster.address
try:
    tell("ids", **ids)
    with ray_session(address):
        tell("whole", **told(look_at(address, ALL)))
        tell("unknown", **told(look_at(address, ("cpu", "tpu"))))
        call("--address", address, "--json")
        call("--platform", "laptop", "--address", address)
        options = actor_options(("cpu", "gpu", "dsp"), nodes_of(ray.nodes()))
        placed = {name: ray.remote(Where).options(num_cpus=0, **how).remote()
                  for name, how in options.items()}
        tell("placed", **{name: ray.get(actor.node.remote()) for name, actor in placed.items()})
        del placed
        cut = load_platform(sys.argv[2])
        tell("links", transfers=[[t.source, t.target, t.source_node, t.target_node, t.way,
                                  t.nbytes, t.measured_s, t.modelled_s]
                                 for t in measure_links(address, cut, (1000, 300_000), repeats=2)])
        holder = ray.remote(Where).options(num_cpus=0, resources={"hetsim_gpu": 1}).remote()
        ray.get(holder.node.remote())
        while ray.available_resources().get("hetsim_gpu"):
            time.sleep(0.1)
        tell("crowded", **told(look_at(address, ("cpu", "gpu"))),
             before=refused("gpu", False), after=refused("gpu", True), label=refused("dsp", False))
        cluster.remove_node(gpu, allow_graceful=False)
        while "hetsim_gpu" in ray.cluster_resources():
            time.sleep(0.1)
        tell("lost", **told(look_at(address, ("cpu", "gpu"))),
             before=refused("gpu", False), after=refused("gpu", True))
        call("--platform", sys.argv[2], "--address", address, "--measure", "--json")
    ray.init(address=address, log_to_driver=False, configure_logging=False,
             runtime_env=code_environment())
    tell("shipped", **told(look_at(address, ("npu",))))
    ray.shutdown()
finally:
    cluster.shutdown()
"""

PLATFORM = """\
host: cpu
devices:
  cpu: intel-core-ultra-155h-cpu
  gpu: intel-core-ultra-155h-igpu
links:
  - {between: [cpu, gpu], latency_us: 5, bandwidth_gbytes_s: 10}
"""

Told = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def story() -> Told:
    """What the child told, by what it is about."""
    # Sockets lie below it, and their paths must be short.
    folder = Path(tempfile.mkdtemp(prefix="ht", dir="/tmp"))
    other = folder / "other"
    (other / "hetsim").mkdir(parents=True)
    (other / "hetsim" / "__init__.py").write_text("__version__ = '9.9'")
    info = other / "onnxruntime-0.0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime\nVersion: 0.0.1\n")
    platform = folder / "two.yaml"
    platform.write_text(PLATFORM)
    settings = {
        "RAY_TMPDIR": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "ORT_DISABLE_TELEMETRY": "1",
    }
    with subprocess.Popen(
        [sys.executable, "-c", STORY, str(other), str(platform)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Ray puts the driver's folder before all others on every node.
        cwd=folder,
        env={**os.environ, **settings},
    ) as child:
        try:
            out, err = child.communicate(timeout=DEADLINE_S)
        finally:
            end_all(descendants(child.pid), 5.0)
            child.kill()
            shutil.rmtree(folder, ignore_errors=True)
    assert child.returncode == 0, err
    told: Told = {}
    for line in out.splitlines():
        if line.startswith("{"):
            facts = json.loads(line)
            told.setdefault(facts.pop("about"), []).append(facts)
    return told


def test_every_device_has_its_node(story: Told) -> None:
    (ids,), (whole,) = story["ids"], story["whole"]
    assert whole["seats"] == {device: ["node", [node]] for device, node in ids.items()}


def test_a_node_with_other_versions_is_told_apart(story: Told) -> None:
    (ids,), (whole,) = story["ids"], story["whole"]
    assert whole["nodes"][ids["cpu"]] == [True, True, "", []]
    assert whole["nodes"][ids["gpu"]] == [True, True, "", []]
    alive, usable, failure, differing = whole["nodes"][ids["npu"]]
    assert (alive, usable, failure) == (True, False, "")
    assert differing == [["hetsim", "9.9"], ["onnxruntime", "0.0.1"]]


def test_a_device_that_no_node_offers(story: Told) -> None:
    (unknown,) = story["unknown"]
    assert unknown["seats"]["cpu"][0] == "node"
    assert unknown["seats"]["tpu"] == ["none", []]


def test_the_command_line_refuses_other_versions(story: Told) -> None:
    (ids,) = story["ids"]
    without_platform = story["--address"][0]
    assert without_platform["code"] == 3
    record = json.loads(without_platform["out"])
    assert record["live"]["here"]["code"] == own_versions().code
    states = {entry["device"]: entry["state"] for entry in record["live"]["devices"]}
    assert states == {"cpu": "node", "gpu": "node", "npu": "node", "dsp": "node"}
    named = next(node for node in record["live"]["nodes"] if node["id"] == ids["npu"])
    assert named["offers"] == {"dsp": "label", "npu": "resource"}
    assert named["resources"]["hetsim_npu"] == 1
    assert named["labels"]["hetsim_dsp"] == "1"
    shown = story["--platform"][0]
    assert shown["code"] == 3
    assert "hetsim is 9.9 there" in shown["err"]
    assert ids["npu"][:8] in shown["out"]


def test_actors_go_by_resource_or_label(story: Told) -> None:
    (ids,), (placed,) = story["ids"], story["placed"]
    assert placed == {"cpu": ids["cpu"], "gpu": ids["gpu"], "dsp": ids["npu"]}


def test_transfers_are_timed_between_the_nodes(story: Told) -> None:
    (ids,), (links,) = story["ids"], story["links"]
    seen = [entry[:6] for entry in links["transfers"]]
    assert seen == [
        [source, target, ids[source], ids[target], "one machine", nbytes]
        for source, target in (("cpu", "gpu"), ("gpu", "cpu"))
        for nbytes in (1000, 300_000)
    ]
    for *_, nbytes, measured, modelled in links["transfers"]:
        assert measured > 0
        assert modelled == pytest.approx(5e-6 + nbytes / 10e9)


def test_a_node_that_others_fill_is_full(story: Told) -> None:
    (ids,), (crowded,) = story["ids"], story["crowded"]
    assert crowded["before"] == "others have used up 'hetsim_gpu' on every node that offers it"
    assert crowded["after"] == crowded["label"] == ""
    assert crowded["seats"] == {"cpu": ["node", [ids["cpu"]]], "gpu": ["full", [ids["gpu"]]]}


def test_a_lost_node_is_an_error_and_no_wait(story: Told) -> None:
    (ids,), (lost,) = story["ids"], story["lost"]
    assert lost["seats"]["gpu"] == ["none", []]
    assert lost["before"] == lost["after"] == "no node of the Ray cluster offers 'hetsim_gpu'"
    assert lost["nodes"][ids["gpu"]][:3] == [False, False, "it is dead"]
    last = story["--platform"][1]
    assert last["code"] == 4
    assert "no node offers 'hetsim_gpu'" in last["err"]
    record = json.loads(last["out"])
    assert "transfers" not in record
    assert record["live"]["devices"][1] == {"device": "gpu", "state": "none", "nodes": []}


def test_the_code_reaches_a_node_that_has_another(story: Told) -> None:
    (ids,), (shipped,) = story["ids"], story["shipped"]
    assert shipped["nodes"][ids["cpu"]] == [True, True, "", []]
    assert shipped["nodes"][ids["npu"]][3] == [["onnxruntime", "0.0.1"]]
