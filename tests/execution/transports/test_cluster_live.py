"""Three nodes on this machine: looked at, measured, run on, crowded, and with one of them lost."""

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

from hetsim.execution.cluster import own_versions
from hetsim.execution.transports.processes import descendants, end_all

pytestmark = [pytest.mark.slow, pytest.mark.sweep, pytest.mark.group("own_ray")]

DEADLINE_S = 1200.0

# The tests' own process may be connected to another Ray, so the story is played in a child.
STORY = """
import json, os, sys, threading, time
import hetsim
import ray
from click.testing import CliRunner
from ray.cluster_utils import Cluster
from hetsim.cli.main import main
from hetsim.errors import ExecutionError, HetsimError
from hetsim.execution import weights as node_weights
from hetsim.execution.transports import live_cluster
from hetsim.execution.transports import ray_actor as ray_loading
from hetsim.execution.transports.live_cluster import Probe, measure_links
from hetsim.execution.transports.live_cluster import look_at, refuse_unplaceable
from hetsim.execution.transports.ray_connection import ray_connection
from hetsim.hardware.catalog import load_platform

# A busy machine takes long to start actors.
live_cluster.PROBE_S = 400.0
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

def error_of(work):
    try:
        work()
    except HetsimError as error:
        return str(error)
    return ""

def by_hand(*devices):
    # Equal parts of the model, one after the other.
    nodes, parts = len(problem.model.graph.nodes), len(devices)
    return hetsim.Plan(problem, "by hand", tuple(
        hetsim.Group(device, tuple(range(k * nodes // parts, (k + 1) * nodes // parts)))
        for k, device in enumerate(devices)))

def run(*devices):
    return hetsim.run(by_hand(*devices), address=address, verify=False)

def same(outputs):
    return all(outputs[name].tobytes() == array.tobytes() for name, array in wanted.items())

sent = []
send, facts = node_weights._send, ray_loading.file_facts

def noted(store, weights_dir, extent, wait_for):
    sent.append([store._actor_id.hex(), extent.location, extent.offset])
    send(store, weights_dir, extent, wait_for)

class Where:
    def node(self):
        return ray.get_runtime_context().get_node_id()

cluster = Cluster(initialize_head=True, head_node_args={
    **NODE, "resources": {"hetsim_cpu": 1}, "_system_config": HEALTH})
gpu = cluster.add_node(**NODE, resources={"hetsim_gpu": 1}, labels={"hetsim_tpu": "1"})
os.environ["PYTHONPATH"] = sys.argv[1]
npu = cluster.add_node(**NODE, resources={"hetsim_npu": 1}, labels={"hetsim_dsp": "1"})
ids = {"cpu": cluster.head_node.node_id, "gpu": gpu.node_id, "npu": npu.node_id}
address = cluster.address
platform = load_platform(sys.argv[3])
problem = hetsim.Problem.of(hetsim.load_model("zoo:squeezenet"), platform)
wanted = hetsim.run(by_hand("cpu"), executor="threads", verify=False).outputs
try:
    tell("ids", **ids)
    true, ray.__version__ = ray.__version__, "0.0.1"
    tell("join", error=error_of(lambda: ray_connection(address).__enter__()), version=true)
    ray.__version__ = true
    ray.init(address=address, log_to_driver=False, configure_logging=False)
    tell("foreign", **told(look_at(address, ("npu",))), error=error_of(lambda: run("cpu", "npu")))
    call("--platform", "laptop", "--address", address)
    ray.shutdown()
    with ray_connection(address):
        tell("whole", **told(look_at(address, ALL)))
        tell("unknown", **told(look_at(address, ("cpu", "vpu"))))
        call("--address", address, "--json")
        # As if no node had the files: no file of a folder is like that of no facts.
        ray_loading.file_facts = lambda folder, names: dict.fromkeys(names)
        node_weights._send = noted
        with hetsim.Session(by_hand("cpu", "gpu", "tpu"), address=address) as session:
            actors = session._loop._transport._actors
            homes = {name: ray.get(actor.handle.hello.remote())[0]
                     for name, actor in actors.items()}
            tell("run", equal=same(session.run()), homes=homes, sent=sent)
        ray_loading.file_facts = facts
        tell("refused", error=error_of(lambda: run("cpu", "npu")))
        cut = load_platform(sys.argv[2])
        tell("links", transfers=[[t.source, t.target, t.source_node, t.target_node, t.way,
                                  t.nbytes, t.measured_s, t.modelled_s]
                                 for t in measure_links(address, cut, (1000, 300_000), repeats=2)])
        holder = ray.remote(Where).options(num_cpus=0, resources={"hetsim_gpu": 1}).remote()
        ray.get(holder.node.remote())
        while ray.available_resources().get("hetsim_gpu"):
            time.sleep(0.1)
        ray_loading._FULL_S = 1.0
        tell("crowded", **told(look_at(address, ("cpu", "gpu"))),
             before=refused("gpu", False), after=refused("gpu", True), label=refused("dsp", False),
             error=error_of(lambda: run("cpu", "gpu")))
        session = hetsim.Session(hetsim.plan(problem, "hetero:tpu,cpu"), address=address)
        used = session.plan.devices_used
        # Not to be told that the resource is used up before the node is lost.
        ray_loading._FULL_S = 1e9
        pending = []
        looked = threading.Event()
        ray_loading.refuse_unplaceable = lambda device, started: (
            looked.set(), refuse_unplaceable(device, started=started))
        waits = threading.Thread(target=lambda: pending.append(error_of(lambda: run("cpu", "gpu"))))
        waits.start()
        looked.wait()
        cluster.remove_node(gpu, allow_graceful=False)
        while "hetsim_gpu" in ray.cluster_resources():
            time.sleep(0.1)
        tell("lost", **told(look_at(address, ("cpu", "gpu"))),
             before=refused("gpu", False), after=refused("gpu", True))
        waits.join()
        with session:
            tell("survived", pending=pending, used=used, equal=same(session.run()),
                 recoveries=[[r.device, r.how] for r in session.recoveries],
                 error=error_of(lambda: run("cpu", "gpu")))
        call("--platform", sys.argv[2], "--address", address, "--measure", "--json")
finally:
    cluster.shutdown()
"""


def platform(*others: str) -> str:
    """A host and devices of one kind, each with a link of its own."""
    devices = "".join(f"  {name}: intel-core-ultra-155h-igpu\n" for name in others)
    how = "latency_us: 5, bandwidth_gbytes_s: 10"
    links = "".join(f"  - {{between: [cpu, {name}], {how}}}\n" for name in others)
    return f"host: cpu\ndevices:\n  cpu: intel-core-ultra-155h-cpu\n{devices}links:\n{links}"


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
    smaller, larger = folder / "two.yaml", folder / "four.yaml"
    smaller.write_text(platform("gpu"))
    larger.write_text(platform("gpu", "tpu", "npu"))
    settings = {
        "RAY_TMPDIR": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "ORT_DISABLE_TELEMETRY": "1",
    }
    with subprocess.Popen(
        [sys.executable, "-c", STORY, str(other), str(smaller), str(larger)],
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
    (ids,), (whole,), (foreign,) = story["ids"], story["whole"], story["foreign"]
    for seen, differing in (
        (foreign, [["hetsim", "9.9"], ["onnxruntime", "0.0.1"]]),
        # A run brings its hetsim along.
        (whole, [["onnxruntime", "0.0.1"]]),
    ):
        assert seen["nodes"][ids["cpu"]] == [True, True, "", []]
        assert seen["nodes"][ids["gpu"]] == [True, True, "", []]
        assert seen["nodes"][ids["npu"]] == [True, False, "", differing]


def test_a_run_is_refused_where_versions_differ(story: Told) -> None:
    (refused,), (foreign,) = story["refused"], story["foreign"]
    versions = own_versions()
    assert refused["error"].startswith(
        f"device 'npu': onnxruntime is 0.0.1 there, {versions.onnxruntime} here"
    )
    assert f"pip install 'onnxruntime=={versions.onnxruntime}' there" in refused["error"]
    # Another hetsim, on a Ray that the caller has joined without this one.
    assert foreign["error"].startswith("device 'npu': its Ray actor did not start: ")
    assert "install this hetsim on every node" in foreign["error"]


def test_a_ray_of_another_version_is_named_with_both(story: Told) -> None:
    (join,) = story["join"]
    assert "cannot connect: Version mismatch" in join["error"]
    assert join["version"] in join["error"]
    assert "0.0.1" in join["error"]


def test_a_device_that_no_node_offers(story: Told) -> None:
    (unknown,) = story["unknown"]
    assert unknown["seats"]["cpu"][0] == "node"
    assert unknown["seats"]["vpu"] == ["none", []]


def test_the_command_line_refuses_other_versions(story: Told) -> None:
    (ids,) = story["ids"]
    without_platform = story["--address"][0]
    assert without_platform["code"] == 3
    record = json.loads(without_platform["out"])
    assert record["live"]["here"]["code"] == own_versions().code
    states = {entry["device"]: entry["state"] for entry in record["live"]["devices"]}
    assert states == {"cpu": "node", "gpu": "node", "npu": "node", "dsp": "node", "tpu": "node"}
    named = next(node for node in record["live"]["nodes"] if node["id"] == ids["npu"])
    assert named["offers"] == {"dsp": "label", "npu": "resource"}
    assert named["resources"]["hetsim_npu"] == 1
    assert named["labels"]["hetsim_dsp"] == "1"
    shown = story["--platform"][0]
    assert shown["code"] == 3
    assert "hetsim is 9.9 there" in shown["err"]
    assert ids["npu"][:8] in shown["out"]


def test_a_run_goes_by_resource_and_label(story: Told) -> None:
    (ids,), (run,) = story["ids"], story["run"]
    assert run["homes"] == {"cpu": ids["cpu"], "gpu": ids["gpu"], "tpu": ids["gpu"]}
    assert run["equal"] is True


def test_weights_go_once_to_each_node(story: Told) -> None:
    (run,) = story["run"]
    sent = [tuple(entry) for entry in run["sent"]]
    assert len(sent) == len(set(sent)) > 10
    # Three devices on two nodes.
    assert len({store for store, *_ in sent}) == 2


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
    assert crowded["before"] == "other jobs use 'hetsim_gpu' on every node that offers it"
    assert crowded["after"] == crowded["label"] == ""
    assert crowded["error"].startswith(crowded["before"])
    assert crowded["seats"] == {"cpu": ["node", [ids["cpu"]]], "gpu": ["full", [ids["gpu"]]]}


def test_a_lost_node_is_an_error_and_no_wait(story: Told) -> None:
    (ids,), (lost,) = story["ids"], story["lost"]
    assert lost["seats"]["gpu"] == ["none", []]
    assert lost["before"] == lost["after"] == "no node of the Ray cluster offers 'hetsim_gpu'"
    assert lost["nodes"][ids["gpu"]][:3] == [False, False, "it is dead"]
    (survived,) = story["survived"]
    assert len(survived["pending"]) == 1
    for error in (*survived["pending"], survived["error"]):
        assert error.startswith(lost["before"])
    last = story["--platform"][1]
    assert last["code"] == 4
    assert "no node offers 'hetsim_gpu'" in last["err"]
    record = json.loads(last["out"])
    assert "transfers" not in record
    assert record["live"]["devices"][1] == {"device": "gpu", "state": "none", "nodes": []}


def test_a_session_goes_on_without_a_lost_node(story: Told) -> None:
    (survived,) = story["survived"]
    assert survived["used"] == ["tpu"]
    assert survived["equal"] is True
    assert survived["recoveries"] == [["tpu", "replanned"]]
