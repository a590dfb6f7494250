"""Models of your own through every verb, and their lower bound beside what ONNX Runtime takes.

For each model: inspect, partition, compare, run (on threads, equal bit for bit), compile, and a
run of what was compiled. Then the lower bound on a CPU whose rates are the ceilings of this
machine, measured here (float32 and int8 products, memory in the fastest cache, nothing for
launches), and the time of a plain ONNX Runtime session with its default optimisation on as many
threads: ``bound_holds`` is false where the bound is above. Dims that nobody binds are tried: 1
for the first of an input, and one size for the others. A JSON line a model on stdout:

    python benchmarks/public_models.py [MODEL.onnx|FOLDER|zoo:NAME ...] [--options FILE.json]
                                       [--platform NAME] [--threads N] [--rounds N]

``--options`` maps patterns of file names to flags: {"*silero*": ["--freeze", "sr=16000"]}.
Without a model it takes the zoo.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnxruntime
from click.testing import CliRunner
from onnx import TensorProto, helper

import hetsim
import hetsim.graph.loading as models
from hetsim.cli.main import main as command_line
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.shapes.open_shapes import open_dims
from hetsim.graph.zoo import models as zoo

SIZES = (64, 128, 32, 16, 320, 1, 512, 16000)
"""Sizes that open dims are tried with, in this order."""


def best(action: Callable[[], object], rounds: int) -> float:
    """Least seconds of one call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def session_of(content: bytes, threads: int, weights_dir: Path | None = None) -> Any:
    """A plain session: ONNX Runtime's defaults but for the threads."""
    ort: Any = onnxruntime
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if weights_dir is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(weights_dir)
        )
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def product_rate(threads: int, rounds: int, *, integer: bool) -> float:
    """Arithmetic a second of the fastest square product."""
    rates = []
    for size in (256, 512, 1024):
        kind = TensorProto.UINT8 if integer else TensorProto.FLOAT
        out = TensorProto.INT32 if integer else TensorProto.FLOAT
        op = "MatMulInteger" if integer else "MatMul"
        array = np.ones((size, size), np.uint8 if integer else np.float32)
        graph = helper.make_graph(
            [helper.make_node(op, ["a", "b"], ["c"])],
            "product",
            [helper.make_tensor_value_info("a", kind, [size, size])],
            [helper.make_tensor_value_info("c", out, None)],
            [helper.make_tensor("b", kind, [size, size], array.tobytes(), raw=True)],
        )
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        session = session_of(model.SerializeToString(), threads)
        seconds = best(lambda s=session, a=array: s.run(None, {"a": a}), rounds)  # type: ignore[misc]
        rates.append(2 * size**3 / seconds)
    return max(rates)


def memory_rate(threads: int, rounds: int) -> float:
    """Bytes a second that additions read and write, in the cache that is fastest."""
    rates = []
    for count in (2**12, 2**14, 2**16, 2**20):
        a, b, c = (np.ones(count, np.float32) for _ in range(3))
        seconds = best(lambda a=a, b=b, c=c: np.add(a, b, out=c), 20 * rounds)  # type: ignore[misc]
        rates.append(3 * a.nbytes / seconds)
    return threads * max(rates)


def calibrated(folder: Path, threads: int, rounds: int) -> tuple[hetsim.Platform, dict[str, float]]:
    """A platform of one CPU at the ceilings of this machine."""
    rates = {
        "float32": product_rate(threads, rounds, integer=False),
        "int8": product_rate(threads, rounds, integer=True),
        "memory": memory_rate(threads, rounds),
    }
    rates["int8"] = max(rates["int8"], rates["float32"])

    def figure(value: object) -> dict[str, object]:
        return {"value": value, "status": "derived", "source": "benchmarks/public_models.py"}

    device = {
        "kind": "cpu",
        "full_name": "this machine at its ceilings",
        "peak_tflops": {
            "float32": figure(rates["float32"] / 1e12),
            "float16": figure(rates["float32"] / 1e12),
            "int8": figure(rates["int8"] / 1e12),
        },
        "memory_bandwidth_gbytes_s": figure(rates["memory"] / 1e9),
        "memory_gib": figure(1024),
        "launch_us": figure(0),
        "dispatch_us": figure(0),
        "streams": figure(1),
        "idle_w": figure(0),
        "busy_w": figure(1),
        "efficiency": figure({"default": 1}),
        "memory_efficiency": figure(1),
    }
    (folder / "ceiling-cpu.yaml").write_text(json.dumps(device))
    platform = {"full_name": "calibrated", "host": "cpu", "devices": {"cpu": "ceiling-cpu.yaml"}}
    path = folder / "calibrated.yaml"
    path.write_text(json.dumps(platform))
    return hetsim.load_platform(str(path)), rates


def verb(arguments: Sequence[str]) -> str | None:
    """Run one command; None where it ends well, else what it said."""
    result = CliRunner().invoke(command_line, list(arguments), prog_name="hetsim")
    if result.exit_code == 0:
        return None
    said = [line for line in result.output.splitlines() if line.startswith("error:")]
    if not said and result.exception is not None:
        return f"exit code {result.exit_code}: {result.exception!r}"[:400]
    return (said or [f"exit code {result.exit_code}"])[-1][:400]


def load(path: str, flags: Sequence[str]) -> hetsim.Model:
    """The model as a verb reads it with these flags."""
    found: list[hetsim.Model] = []
    original = models.load_model

    def keep(*args: Any, **options: Any) -> hetsim.Model:
        found.append(original(*args, **options))
        return found[-1]

    with patch.object(models, "load_model", keep):
        said = verb(["inspect", path, *flags])
    if said is not None:
        raise ValueError(said)
    return found[-1]


def bound_flags(path: str, flags: Sequence[str]) -> list[str]:
    """Flags that bind what the given ones leave open, with which the model can be planned."""
    model = load(path, flags)
    dims = open_dims(model.graph)
    if not dims:
        return list(flags)
    first = set()
    for name in model.graph.inputs:
        shape = model.graph.tensors[name].shape or ()
        if shape and not isinstance(shape[0], int):
            first.add(shape[0] or f"{name}[0]")
    for size in SIZES:
        tried = [*flags]
        for dim in dims:
            tried += ["--dim", f"{dim}={1 if dim in first else size}"]
        try:
            bound = load(path, tried)
            session_of(bound.proto.SerializeToString(), 1, bound.weights_dir).run(
                None, random_inputs(bound)
            )
        except Exception:
            continue
        return tried
    return [*flags, "--dim", "*=1"]


def measured_s(model: hetsim.Model, threads: int, rounds: int) -> float:
    """Median seconds of one request in a plain session."""
    session = session_of(model.proto.SerializeToString(), threads, model.weights_dir)
    inputs = random_inputs(model)
    session.run(None, inputs)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def examine(
    path: str, flags: Sequence[str], platform: str, ceiling: hetsim.Platform, how: Any
) -> dict[str, Any]:
    """All that is asked of one model."""
    record: dict[str, Any] = {"model": path.rpartition("/")[2]}
    try:
        flags = bound_flags(path, flags)
        model = load(path, flags)
    except Exception as error:
        return {**record, "passed": [], "refused": {"inspect": str(error)[:400]}}
    on = ["--platform", platform]
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "compiled")
        verbs = {
            "inspect": ["inspect", path, *flags, *on],
            "partition": ["partition", path, *flags, *on],
            "compare": ["compare", path, *flags, *on],
            "run": ["run", path, *flags, *on, "--executor", "threads"],
            "compile": ["compile", path, *flags, *on, "-o", out],
            "run compiled": ["run", out, "--executor", "threads"],
        }
        said = {name: verb(arguments) for name, arguments in verbs.items()}
    record["flags"] = " ".join(flags)
    record["passed"] = [name for name, what in said.items() if what is None]
    record["refused"] = {name: what for name, what in said.items() if what is not None}
    record["nodes"] = len(model.graph.nodes)
    record["measured_shapes"] = 0 if model.observed is None else len(model.observed.shapes)
    try:
        problem = hetsim.Problem.of(model, ceiling)
        record["not_priced"] = sorted({problem.op_types[node] for node in problem.unpriced})
        record["bound_ms"] = None if problem.unpriced else 1e3 * hetsim.lower_bound(problem)
        record["measured_ms"] = 1e3 * measured_s(model, how.threads, how.rounds)
        if record["bound_ms"] is not None:
            record["bound_holds"] = record["bound_ms"] <= record["measured_ms"]
    except Exception as error:
        record["refused"]["bound"] = str(error)[:400]
    return record


def main() -> None:
    """Examine every model that the command line names."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--options", type=Path)
    parser.add_argument("--platform", default="laptop")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    how = parser.parse_args()
    options = {} if how.options is None else json.loads(how.options.read_text())
    paths: list[str] = []
    for name in how.models or [f"zoo:{entry}" for entry in zoo.names()]:
        folder = Path(name)
        paths += sorted(map(str, folder.glob("**/*.onnx"))) if folder.is_dir() else [name]
    with tempfile.TemporaryDirectory() as scratch:
        ceiling, rates = calibrated(Path(scratch), how.threads, how.rounds)
        print(json.dumps({"threads": how.threads, **{k: f"{v:.3g}" for k, v in rates.items()}}))
        for path in paths:
            file = path.rpartition("/")[2]
            flags = [
                flag
                for pattern, given in options.items()
                if fnmatch.fnmatch(file, pattern)
                for flag in given
            ]
            print(json.dumps(examine(path, flags, how.platform, ceiling, how)), flush=True)


if __name__ == "__main__":
    main()
