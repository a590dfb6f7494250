"""A long life of one session: small requests, eight in flight, what it holds at intervals.

Two devices to and fro on a tiny model. Every output must be its own request's, in order. What
all processes hold together is taken a hundred times: of memory the last tenth may be at most 5 %
above the second one, of threads 2 %; processes, descriptors and objects in Ray's store may not be
more. JSON lines on stdout, one a time and one in sum; exit code 1 where something was wrong:

    python benchmarks/soak.py [--requests N] [--executor threads|ray]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

import hetsim
from held import Held, growth, held
from hetsim.execution.dispatch.requests import Request

DEVICES = ("cpu", "gpu")
IN_FLIGHT = 8
SAMPLES = 100
ALLOWED = {"memory_bytes": 0.05, "own_bytes": 0.05, "store_bytes": 0.05, "threads": 0.02}


def plan_of(folder: Path) -> hetsim.Plan:
    """Plan three short subgraphs on two devices, with a value that waits on the first."""
    nodes = [
        helper.make_node("Neg", ["x"], ["a"], name="first"),
        helper.make_node("Abs", ["a"], ["b"], name="second"),
        helper.make_node("Sub", ["b", "a"], ["y"], name="third"),
    ]
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [16]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "soak", ends[:1], ends[1:])
    path = folder / "soak.onnx"
    opsets = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    model = hetsim.load_model(str(path), canonical="none")
    problem = hetsim.Problem.from_arrays(
        np.ones((3, 2)),
        tensors=[(0, 64, (1, 2)), (1, 64, (2,)), (2, 64, ())],
        devices=DEVICES,
        host=0,
    )
    groups = tuple(hetsim.Group(DEVICES[node % 2], (node,)) for node in range(3))
    return hetsim.Plan(replace(problem, model=model), "by hand", groups)


def main() -> int:
    """Run the benchmark; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--executor", choices=["threads", "ray"], default="ray")
    options = parser.parse_args()
    wrong = 0
    done = 0
    samples: list[Held] = []
    pending: deque[tuple[Request, float]] = deque()

    def take() -> None:
        nonlocal wrong, done
        request, x = pending.popleft()
        found = request.result(60)["y"]
        wrong += request.request_id != done or not np.array_equal(found, np.full(16, abs(x) + x))
        done += 1
        if done % max(options.requests // SAMPLES, 1) == 0:
            samples.append(held())
            print(json.dumps({"done": done, **samples[-1].line()}), flush=True)

    with tempfile.TemporaryDirectory(prefix="hetsim-") as folder:
        plan = plan_of(Path(folder))
        with hetsim.Session(plan, options.executor, max_in_flight=IN_FLIGHT) as session:
            began = time.perf_counter()
            for number in range(options.requests):
                x = float(number % 1000 - 500)
                pending.append((session.run_async({"x": np.full(16, x, np.float32)}), x))
                if len(pending) == IN_FLIGHT:
                    take()
            while pending:
                take()
            spent = time.perf_counter() - began
    grown = {
        name: growth([getattr(sample, name) for sample in samples])
        for name in Held.__dataclass_fields__
    }
    summary = {
        "executor": options.executor,
        "requests": done,
        "wrong": wrong,
        "requests_per_s": round(done / spent, 1),
        "growth": {name: round(share, 4) for name, share in grown.items()},
    }
    flat = all(share <= ALLOWED.get(name, 0.0) for name, share in grown.items())
    print(json.dumps(summary))
    return 1 if wrong or done != options.requests or not flat else 0


if __name__ == "__main__":
    sys.exit(main())
