"""CPU seconds and memory to load models of 1,000 to 100,000 nodes, beside ONNX Runtime's own.

Two kinds of graphs, made here. `chain`: MatMul, Add and Relu in turn, two small weights to three
nodes. `llm`: decoder layers of 53 nodes as exporters write them, norms and rotary embeddings
spelled out in single ops, with a constant to most of them. Weights are small, so that what grows is
the number of nodes and constants; `--wide` makes one more, of few nodes and many bytes. Each is
loaded by a process of its own: by hetsim (`load_model` at level basic, at level none, and as it is
by default), and by ONNX Runtime (a session of one thread, at its level basic and at none).
`memory_of_file` is what the process grew by at most, over the bytes of the file. `growth` is the
exponent of the seconds from the size before. JSON lines on stdout:

    python benchmarks/loading.py [--nodes 1000 3000 10000] [--kinds chain llm] [--wide MEGABYTES]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx

WIDTH = 16
HEADS = 2
TOKENS = 8


class Writer:
    """Nodes and weights of a graph, as they are written."""

    def __init__(self, width: int = WIDTH) -> None:
        self.width = width
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.drawn = np.random.Generator(np.random.SFC64(1))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Write a node of one output; return that."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        node = onnx.helper.make_node(kind, list(inputs), [f"{name}/out"], name=name, **attributes)
        self.nodes.append(node)
        return f"{name}/out"

    def weight(self, *shape: int) -> str:
        """Store random numbers; return their name."""
        drawn = self.drawn.random(shape, dtype=np.float32) - np.float32(0.5)
        return self.constant(drawn)

    def constant(self, value: object, kind: type = np.float32) -> str:
        """Store numbers; return their name."""
        name = f"constant_{len(self.weights)}"
        array: np.ndarray[Any, Any] = np.asarray(value, dtype=kind)
        self.weights.append(onnx.numpy_helper.from_array(array, name))
        return name

    def save(self, path: Path, given: str, shape: list[int], made: str) -> None:
        """Write the model to `path`."""
        kind = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            self.nodes,
            "made",
            [onnx.helper.make_tensor_value_info(given, kind, shape)],
            [onnx.helper.make_tensor_value_info(made, kind, shape)],
            self.weights,
        )
        opset = [onnx.helper.make_opsetid("", 17)]
        path.write_bytes(
            onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
        )


def chain(path: Path, nodes: int, width: int = WIDTH) -> None:
    """Write MatMul, Add and Relu in turn."""
    writer, value = Writer(), "x"
    while len(writer.nodes) < nodes:
        value = writer.op("MatMul", value, writer.weight(width, width))
        value = writer.op("Add", value, writer.weight(width))
        value = writer.op("Relu", value)
    writer.save(path, "x", [TOKENS, width], value)


def llm(path: Path, nodes: int, width: int = WIDTH) -> None:
    """Write decoder layers until there are so many nodes."""
    writer, value = Writer(width), "x"
    while len(writer.nodes) < nodes:
        value = _layer(writer, value)
    writer.save(path, "x", [1, TOKENS, width], value)


def _layer(writer: Writer, value: str) -> str:
    op, constant, width = writer.op, writer.constant, writer.width
    within = width // HEADS

    def norm(value: str) -> str:
        square = op("Pow", value, constant(2.0))
        mean = op("ReduceMean", square, axes=[-1])
        scale = op("Reciprocal", op("Sqrt", op("Add", mean, constant(1e-6))))
        return op("Mul", op("Mul", value, scale), writer.weight(width))

    def heads(value: str) -> str:
        made = op("MatMul", value, writer.weight(width, width))
        apart = op("Reshape", made, constant([1, TOKENS, HEADS, within], np.int64))
        return op("Transpose", apart, perm=[0, 2, 1, 3])

    def turned(value: str) -> str:
        half = within // 2
        near, far = (
            op("Slice", value, *(constant([n], np.int64) for n in (start, end, 3)))
            for start, end in ((0, half), (half, within))
        )
        swapped = op("Concat", op("Neg", far), near, axis=-1)
        cosine = op("Mul", value, writer.weight(TOKENS, within))
        return op("Add", cosine, op("Mul", swapped, writer.weight(TOKENS, within)))

    before = norm(value)
    query, key, held = turned(heads(before)), turned(heads(before)), heads(before)
    score = op("MatMul", query, op("Transpose", key, perm=[0, 1, 3, 2]))
    score = op("Add", op("Div", score, constant(math.sqrt(within))), writer.weight(TOKENS, TOKENS))
    seen = op("MatMul", op("Softmax", score, axis=-1), held)
    seen = op("Reshape", op("Transpose", seen, perm=[0, 2, 1, 3]),
              constant([1, TOKENS, width], np.int64))  # fmt: skip
    value = op("Add", value, op("MatMul", seen, writer.weight(width, width)))
    before = norm(value)
    gate = op("MatMul", before, writer.weight(width, 2 * width))
    gate = op("Mul", gate, op("Sigmoid", gate))
    up = op("Mul", gate, op("MatMul", before, writer.weight(width, 2 * width)))
    return op("Add", value, op("MatMul", up, writer.weight(2 * width, width)))


KINDS: dict[str, Callable[..., None]] = {"chain": chain, "llm": llm}

HETSIM = """
import hetsim
from hetsim.graph.preparation import prepare
import onnxruntime
before()
model = hetsim.load_model(path{})
nodes = model.graph.n if hasattr(model.graph, "n") else len(model.graph.nodes)
"""
RUNTIME = """
import onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_{}
options.log_severity_level = 4
before()
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
nodes = 0
"""
WAYS = {
    "hetsim": HETSIM.format(""),
    "hetsim basic": HETSIM.format(", canonical='basic'"),
    "hetsim none": HETSIM.format(", canonical='none'"),
    "onnxruntime basic": RUNTIME.format("ENABLE_BASIC"),
    "onnxruntime none": RUNTIME.format("DISABLE_ALL"),
}
AROUND = """
import json, resource, sys
path = sys.argv[1]
begun = []
def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
def most():
    # What getrusage tells is at least what the parent had.
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
def before():
    begun.extend((seconds(), most()))
{}
print(json.dumps([seconds() - begun[0], most() - begun[1], nodes]))
"""


def loaded(path: Path, way: str, limit_s: float) -> tuple[float, int, int] | None:
    """CPU seconds, bytes it grew by at most, and nodes; None where it takes too long."""
    words = [sys.executable, "-c", AROUND.format(WAYS[way]), str(path)]
    try:
        done = subprocess.run(
            words, check=True, capture_output=True, text=True, timeout=limit_s,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    cpu_s, nbytes, nodes = json.loads(done.stdout)
    return cpu_s, nbytes, nodes


def files(folder: Path, asked: argparse.Namespace) -> Iterator[tuple[str, int, Path]]:
    """Write each model, and give its kind, nodes and path."""
    number = count()
    for kind in asked.kinds:
        for nodes in asked.nodes:
            path = folder / f"{next(number)}.onnx"
            KINDS[kind](path, nodes)
            yield kind, nodes, path
    if asked.wide:
        path = folder / f"{next(number)}.onnx"
        chain(path, 30, math.isqrt(asked.wide * 2**20 // 4 // 10))
        yield "wide", 30, path


def main() -> None:
    """Print a line for each model and way to load it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 3000, 10_000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--wide", type=int, default=200, metavar="MEGABYTES")
    parser.add_argument("--limit", type=float, default=300.0, metavar="SECONDS")
    asked = parser.parse_args()
    last: dict[tuple[str, str], tuple[int, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, nodes, path in files(Path(folder), asked):
            size = path.stat().st_size
            for way in asked.ways:
                found = loaded(path, way, asked.limit)
                record: dict[str, object] = {
                    "benchmark": "loading", "graph": kind, "way": way, "nodes": nodes,
                    "file_mib": round(size / 2**20, 2),
                }  # fmt: skip
                if found is None:
                    record["cpu_s_above"] = asked.limit
                else:
                    cpu_s, nbytes, left = found
                    record["cpu_s"] = round(cpu_s, 3)
                    record["memory_mib"] = round(nbytes / 2**20, 1)
                    record["memory_of_file"] = round(nbytes / size, 2)
                    if left:
                        record["canonical_nodes"] = left
                    if before := last.get((kind, way)):
                        slope = math.log(cpu_s / before[1]) / math.log(nodes / before[0])
                        record["growth"] = round(slope, 2)
                    last[kind, way] = nodes, cpu_s
                print(json.dumps(record), flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
