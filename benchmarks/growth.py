"""CPU seconds and memory of every verb on models of 1,000 to 100,000 nodes: one JSON line each.

The models are those that ``benchmarks/loading.py`` makes (`llm`), the platform is `rock-5b`, three
unlike devices. Each line is a verb's first call in a process of its own, which has what it is
asked about and has imported all that there is. `loading_s` is what it took to load machine code,
which is once a process, and is not in `cpu_s`; `grew_mib` is what the process grew by at most.
What plays, checks, writes and explains a plan has that of `hetero`, which is of a quarter as many
subgraphs as there are nodes. `capacity`, `place` and `recommend` have the model's file, which they
load and price. A verb that a limit stops has `cpu_s_above` or `above_gib`, and is not asked of more
nodes; one that says why it does not answer has `refused`. By `requests` instead
of `nodes`: many requests to a plan of 1,000 nodes, and to a deployment of SqueezeNet.

torch.fx's partitioner and OpenVINO's HETERO plugin cut the same graph, at home where that plan puts
its nodes, and OpenVINO and ONNX Runtime read the same file; what is not installed has `absent`.

    python benchmarks/growth.py [--nodes 1000 10000 100000] [--verbs plan bound ...] [--limit 100]

`--verbs` are beginnings of names; ``--verbs requests`` asks for what has many of them.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from numba.core.event import Listener, register

import hetsim
from hetsim.core.plugins import Entry
from hetsim.device.registry import platform_devices
from hetsim.errors import HetsimError
from hetsim.execution.compiled.write import compile_plan
from hetsim.partitioning.onnx_export import save_all
from hetsim.problem.plan import Plan
from hetsim.reporting.trace import trace_pieces
from hetsim.simulation.service.resolution import PlanCache
from hetsim.simulation.service.serving import serve
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import Deployment, Served
from hetsim.workload.workload import Stream, Workload
from loading import llm, loaded
from peers import openvino_hetero, torch_fx

SIZES = (1_000, 10_000, 100_000)
REQUESTS = (1_000, 10_000, 100_000, 1_000_000)
PLATFORM = "rock-5b"
PLAYED = "hetero"
IMPORTED = ("numba", "onnx", "onnxruntime", "scipy.optimize", "scipy.sparse.csgraph", "pydantic")
READERS = {"load_model": "hetsim", "ONNX Runtime: a session": "onnxruntime none"}
LIMITED_GIB = 10
WALL = 10
"""Seconds by the clock on the wall to one of the limit, where others share the machine."""


@dataclass
class Given:
    """What verbs are asked about, each made when it is first needed."""

    path: Path

    @cached_property
    def model(self) -> hetsim.Model:
        return hetsim.load_model(self.path)

    @cached_property
    def platform(self) -> hetsim.Platform:
        return hetsim.load_platform(PLATFORM)

    @cached_property
    def problem(self) -> hetsim.Problem:
        return hetsim.Problem.of(self.model, self.platform)

    @cached_property
    def plan(self) -> Plan:
        return hetsim.plan(self.problem, PLAYED)

    @cached_property
    def timeline(self) -> hetsim.Timeline:
        return hetsim.simulate(self.plan)

    @cached_property
    def demand(self) -> Workload:
        """A request a second, each of which may take a minute."""
        within = (hetsim.Slo(share=0.99, latency_s=60.0),)
        stream = Stream("requests", str(self.path), Poisson(1.0), slos=within)
        return Workload((stream,), requests=1_000)

    @property
    def catalog(self) -> str:
        """The platform, to be had for a price."""
        price = {"usd": 150, "years": 3, "of": "2024-06", "source": "an example"}
        kinds = {"board": {"platform": PLATFORM, "most": 2, "price": price}}
        path = self.path.with_suffix(".catalog.yaml")
        path.write_text(json.dumps({"kinds": kinds}))
        return str(path)

    def at_home(self) -> list[int]:
        """By node: 0 on an accelerator, 1 on the host."""
        return [int(device == self.problem.host) for device in self.plan.assignment]


Call = Callable[[], object]


def _queried(given: Given) -> Call:
    devices = platform_devices(given.platform, ()).values()
    return lambda: [device.query_model(given.model.graph) for device in devices]


def _arrays(given: Given) -> Call:
    problem = given.problem
    tensors = [(v.producer, v.nbytes, v.consumers) for v in problem.values]
    made = partial(hetsim.Problem.from_arrays, problem.seconds, tensors=tensors)
    return partial(made, devices=problem.devices, host=problem.host, bytes_per_s=1e10)


def _in_folder(write: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "new")


def _traced(given: Given) -> int:
    return sum(map(len, trace_pieces(given.plan, given.timeline)))


def _of_problem(verb: Callable[..., object], info: Entry, given: Given) -> Call:
    return partial(verb, given.problem, info.name)


def _openvino(verb: str, given: Given) -> Call:
    core = importlib.import_module("openvino").Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": 1})
    if verb == "read_model":
        return lambda: core.read_model(given.path)
    model = core.read_model(given.path)
    return lambda: getattr(core, verb)(model, "CPU")


def _verbs() -> dict[str, tuple[str, Callable[[Given], Call]]]:
    """By name: what it needs of ``ProblemData``, and what makes its call."""
    verbs: dict[str, tuple[str, Callable[[Given], Call]]] = {
        "capability query": ("model", _queried),
        "Problem.of": ("model", lambda g: partial(hetsim.Problem.of, g.model, g.platform)),
        "Problem.from_arrays": ("problem", _arrays),
    }
    for info in hetsim.methods():
        verbs[f"partition {info.name}"] = "problem", partial(_of_problem, hetsim.partition, info)
    for info in hetsim.strategies():
        verbs[f"plan {info.name}"] = "problem", partial(_of_problem, hetsim.plan, info)
    return verbs | {
        "lower_bound": ("problem", lambda g: partial(hetsim.lower_bound, g.problem)),
        "compare": ("problem", lambda g: partial(hetsim.compare, g.problem)),
        "nodes": ("plan", lambda g: partial(hetsim.nodes, g.plan)),
        "simulate": ("plan", lambda g: partial(hetsim.simulate, g.plan)),
        "Plan.to_json": ("plan", lambda g: g.plan.to_json),
        "Plan.from_json": (
            "plan", lambda g: partial(Plan.from_json, g.plan.to_json(), g.problem)
        ),
        "check_timeline": (
            "timeline",
            lambda g: partial(hetsim.check_timeline, g.problem, g.plan, g.timeline, bound_s=0.0),
        ),
        "trace": ("timeline", lambda g: partial(_traced, g)),
        "explain": ("timeline", lambda g: partial(hetsim.explain, g.plan)),
        "lint": ("problem", lambda g: partial(hetsim.lint, g.problem)),
        "capacity": (
            "demand",
            lambda g: partial(
                hetsim.capacity, Deployment((Served(str(g.path)),)), g.demand, platform=g.platform
            ),
        ),
        "place": ("demand", lambda g: partial(hetsim.place, g.demand, g.platform)),
        "recommend": ("demand", lambda g: partial(
                hetsim.recommend, g.demand, g.catalog, tariff_usd_per_kwh=0.3
            )),
        "partition --out": (
            "plan",
            lambda g: partial(_in_folder, lambda to: save_all(g.problem, g.plan.groups, to)),
        ),
        "compile": ("plan", lambda g: partial(_in_folder, partial(compile_plan, g.plan))),
        **{
            f"OpenVINO: {verb}": ("model", partial(_openvino, verb))
            for verb in ("read_model", "query_model", "compile_model")
        },
        "OpenVINO: HETERO": (
            "plan", lambda g: partial(openvino_hetero.split, g.problem.dag, g.at_home())
        ),
        "torch.fx: partitioner": (
            "plan", lambda g: partial(torch_fx.split, g.problem.dag, g.at_home())
        ),
    }  # fmt: skip


PEERS = {"OpenVINO": "openvino", "torch.fx": "torch.fx.passes.infra.partitioner"}


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package.partition(".")[0]) is not None


def _grown() -> dict[str, int]:
    """Bytes that this process has, and has had at most."""
    status = Path("/proc/self/status").read_text()
    return {key: int(status.partition(key)[2].split()[0]) << 10 for key in ("VmRSS:", "VmHWM:")}


def _asked(make: Callable[[], Call], to: Connection) -> None:
    """Answer with a line; in a process of its own."""
    # A limit of CPU seconds is not set so: under one the clock goes on by 4 ms at a time.
    resource.setrlimit(resource.RLIMIT_AS, (LIMITED_GIB << 30, LIMITED_GIB << 30))
    line: dict[str, Any] = {}
    try:
        call = make()
        gc.collect()
        loads = _Loads()
        before, began = _grown(), time.process_time()
        result = call()
        cpu_s = time.process_time() - began
        if isinstance(result, tuple) and isinstance(result[0], float):
            cpu_s = result[0]  # a peer that has timed itself: its graph is made from ours
        if isinstance(result, float):
            line["answer"] = result
        line["cpu_s"] = round(cpu_s - loads.cpu_s, 4)
        if loads.cpu_s:
            line["loading_s"] = round(loads.cpu_s, 2)
        line["grew_mib"] = round((_grown()["VmHWM:"] - before["VmRSS:"]) / 2**20, 1)
    except HetsimError as error:
        line["refused"] = str(error).splitlines()[0][:200]
    except MemoryError:
        line["above_gib"] = LIMITED_GIB
    to.send(line)


class _Loads(Listener):
    """CPU seconds in which numba had its lock: it compiles, or loads what it had compiled."""

    def __init__(self) -> None:
        self.cpu_s, self._depth, self._since = 0.0, 0, 0.0
        listen: Callable[..., None] = register
        listen("numba:compiler_lock", self)

    def on_start(self, event: Any) -> None:
        """Note when the outermost one begins."""
        self._depth += 1
        if self._depth == 1:
            self._since = time.process_time()

    def on_end(self, event: Any) -> None:
        """Count what it took."""
        self._depth -= 1
        if self._depth == 0:
            self.cpu_s += time.process_time() - self._since


def measured(make: Callable[[], Call], limit_s: int) -> dict[str, Any]:
    """What a verb takes in a process that has all that this one has."""
    gc.collect()
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_asked, args=(make, there))
    process.start()
    there.close()
    while not here.poll(0.2):
        if _cpu_s(process.pid) > limit_s:
            process.kill()
            process.join()
            return {"cpu_s_above": limit_s}
    try:
        line: dict[str, Any] = here.recv()
    except EOFError:
        process.join()
        raise SystemExit(f"a process ended with {process.exitcode}") from None
    process.join()
    return line


def _cpu_s(pid: int | None) -> float:
    """CPU seconds of a process that has not been waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "growth", **record}), flush=True)


def of_nodes(folder: Path, asked: argparse.Namespace) -> None:
    """Print a line for each verb and size."""
    chosen = {
        name: verb
        for name, verb in _verbs().items()
        if any(name.startswith(beginning) for beginning in asked.verbs)
    }
    stopped = set[str]()
    for nodes in asked.nodes:
        path = folder / f"{nodes}.onnx"
        llm(path, nodes)
        for name, way in READERS.items():
            if any(name.startswith(beginning) for beginning in asked.verbs):
                line: dict[str, Any] = {"cpu_s_above": asked.limit}
                if (took := loaded(path, way, WALL * asked.limit)) is not None:
                    line = {"cpu_s": round(took[0], 3), "grew_mib": round(took[1] / 2**20, 1)}
                emit(verb=name, nodes=nodes, **line)
        given = Given(path)
        for name, (needed, make) in chosen.items():
            package = PEERS.get(name.partition(":")[0])
            if package is not None and not _installed(package):
                emit(verb=name, absent=f"pip install {package.partition('.')[0]}")
                continue
            if name not in stopped:
                getattr(given, needed)
                found = measured(partial(make, given), asked.limit)
                stopped.update([name] if "cpu_s_above" in found else [])
            else:
                found = {"cpu_s_above": asked.limit}
            emit(verb=name, nodes=nodes, **found)


def itself(call: Call) -> Call:
    """Make a call that is there."""
    return call


def of_requests(folder: Path, asked: argparse.Namespace) -> None:
    """Print a line for each number of requests to a plan, and to a deployment."""
    path = folder / "requests.onnx"
    llm(path, SIZES[0])
    given = Given(path)
    source, made = "zoo:squeezenet", PlanCache()
    deployment = Deployment((Served(source, strategy=PLAYED),))

    def workload(requests: int) -> Workload:
        return Workload((Stream("requests", source, Poisson(10.0)),), requests=requests)

    serve(deployment, workload(2), given.platform, made=made)
    for requests in REQUESTS:
        calls: dict[str, Call] = {
            "simulate": partial(hetsim.simulate, given.plan, requests, trace=False),
            "simulate under load": partial(
                serve, deployment, workload(requests), given.platform, made=made
            ),
        }
        for name, call in calls.items():
            emit(verb=name, requests=requests, **measured(partial(itself, call), asked.limit))


def main() -> None:
    """Print all lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--verbs", nargs="+", default=["", "requests"])
    parser.add_argument("--limit", type=int, default=100, metavar="SECONDS")
    asked = parser.parse_args()
    peers = filter(_installed, PEERS.values())
    for name in (*IMPORTED, *peers):
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        of_nodes(Path(folder), asked)
        if "requests" in asked.verbs:
            of_requests(Path(folder), asked)


if __name__ == "__main__":
    main()
