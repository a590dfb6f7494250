"""What a split costs: plain ONNX Runtime, threads and Ray, a request and eight at once.

A model in parts on four devices, neighbouring parts a device; then a row of additions whose
tensor has a given size, so that little but dispatch and transfers is left. Medians of wall
seconds a request, one thread each for kernels, all in one run. JSON lines on stdout:

    python benchmarks/execute.py [--model NAME] [--parts N ...] [--bytes N ...] [--rounds N]
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import hetsim
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.graph.inputs.samples import random_inputs
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan

DEVICES = 4
IN_FLIGHT = 8
ADDITIONS = 8


def in_parts(model: hetsim.Model, parts: int) -> Plan:
    """Cut the model into consecutive parts, neighbours on one device of four alike."""
    platform = hetsim.load_platform("gpu-server-8")
    names = [name for name in platform.devices if name.startswith("gpu.")][:DEVICES]
    problem = hetsim.Problem.of(model, platform)
    bounds = np.linspace(0, problem.n, parts + 1).astype(int)
    groups = tuple(
        Group(names[part * DEVICES // parts], tuple(range(bounds[part], bounds[part + 1])))
        for part in range(parts)
        if bounds[part] < bounds[part + 1]
    )
    return Plan(problem, f"{parts} parts", groups)


def medians(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Time every way in turn, `rounds` times over, so that all see the same machine."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
    return {name: statistics.median(times[1:]) for name, times in found.items()}


@contextmanager
def sessions(plan: Plan) -> Iterator[dict[str, hetsim.Session]]:
    """The plan kept ready on threads and on Ray."""
    with (
        hetsim.Session(plan, "threads", max_in_flight=IN_FLIGHT) as threads,
        hetsim.Session(plan, "ray", max_in_flight=IN_FLIGHT) as ray,
    ):
        yield {"threads": threads, "ray": ray}


def measure(model: hetsim.Model, parts: int, rounds: int) -> list[dict[str, Any]]:
    """Return the lines of a number of parts."""
    plan = in_parts(model, parts)
    inputs = dict(random_inputs(model))
    folder = None if model.weights_dir is None else str(model.weights_dir)
    plain = CompiledSubgraph(model.proto.SerializeToString(), folder, model.graph.outputs)

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        def way() -> float:
            began = time.perf_counter()
            work()
            return time.perf_counter() - began

        return way

    def crowd(session: hetsim.Session) -> Callable[[], float]:
        def way() -> float:
            began = time.perf_counter()
            flights = [session.run_async(inputs) for _ in range(IN_FLIGHT)]
            for flight in flights:
                flight.result()
            return (time.perf_counter() - began) / IN_FLIGHT

        return way

    with sessions(plan) as opened:
        wanted = plain.run(inputs)
        for session in opened.values():
            found = session.run(inputs)
            assert all(found[name].tobytes() == wanted[name].tobytes() for name in wanted)
        ways = {"plain": timed(lambda: plain.run(inputs))}
        for name, session in opened.items():
            ways[name] = timed(lambda session=session: session.run(inputs))  # type: ignore[misc]
            ways[f"{name}, {IN_FLIGHT} in flight"] = crowd(session)
        found_s = medians(ways, rounds)
    return [
        {
            "model": model.name,
            "parts": parts,
            "way": name,
            "seconds_a_request": seconds,
            "over_plain": seconds / found_s["plain"],
            "more_a_part_s": (seconds - found_s["plain"]) / parts,
        }
        for name, seconds in found_s.items()
    ]


def additions(nbytes: int) -> hetsim.Model:
    """A row of ADDITIONS nodes, each of which reads the same tensor and the one before."""
    shape = [max(nbytes // 4, 1)]
    names = ["x", *(f"y{index}" for index in range(ADDITIONS))]
    graph = helper.make_graph(
        [
            helper.make_node("Add", [before, "x"], [after])
            for before, after in itertools.pairwise(names)
        ],
        "additions",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, shape)],
    )
    opset = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return hetsim.model_of(proto, name=f"{ADDITIONS} additions of {nbytes} bytes")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line a way and number of parts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--parts", nargs="*", type=int, default=[1, 8, 32])
    parser.add_argument("--bytes", nargs="*", type=int, default=[4 << 10, 256 << 10, 4 << 20])
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args(arguments)
    model = hetsim.load_model(f"zoo:{chosen.model}")
    for parts in chosen.parts:
        for line in measure(model, parts, chosen.rounds):
            print(json.dumps(line), flush=True)
    for nbytes in chosen.bytes:
        for line in measure(additions(nbytes), ADDITIONS, chosen.rounds):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
