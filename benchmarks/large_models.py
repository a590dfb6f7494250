"""CPU seconds and peak memory of commands on models with weights of real size; JSON lines out.

Decoders of 1,000, 10,000 and 20,000 nodes (those of ``benchmarks/loading.py``, wider), and a chain
of 1,000 convolutions, activations and sums, all weights in the file. Each question is a process of
its own; `cold` has an empty cache folder, `warm` the one that a first run has filled. Bytecode is
there either way, as installers leave it, and weights are in the system's page cache.
`memory_of_file` is the peak over the bytes of the file, for `load` less what the imports take.

    python benchmarks/large_models.py [--questions load compare ...] [--models decoder-1000 ...]
        [--cold] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from loading import Writer, llm, loaded

PLATFORM = "rock-5b"
CATALOG = "rock-5b,jetson-orin-nano,raspberry-pi-5,laptop"
LIMIT_S = 600.0


def cnn(path: Path, nodes: int, channels: int = 128) -> None:
    """Write residual blocks of a convolution, an activation and a sum."""
    writer, value = Writer(), "x"
    while len(writer.nodes) < nodes:
        bias = writer.constant(np.zeros(channels))
        made = writer.op("Conv", value, writer.weight(channels, channels, 3, 3), bias,
                         pads=[1, 1, 1, 1])  # fmt: skip
        value = writer.op("Add", value, writer.op("Relu", made))
    writer.save(path, "x", [1, channels, 14, 14], value)


MODELS: dict[str, Callable[[Path], None]] = {
    "decoder-1000": lambda path: llm(path, 1_000, 560),
    "decoder-10000": lambda path: llm(path, 10_000, 280),
    "decoder-20000": lambda path: llm(path, 20_000, 200),
    "cnn-1000": lambda path: cnn(path, 1_000),
}
SMALL = ("decoder-1000", "cnn-1000")
WORKLOAD = """seed: 1
duration_s: 200
streams:
  one:
    model: {path}
    arrivals: {{poisson: {{rate_per_s: 1}}}}
    slos: [p99=10s]
"""
QUESTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "compare": (SMALL, ("compare", "MODEL", "--platform", PLATFORM)),
    "compare --explain --sensitivities": (
        SMALL, ("compare", "MODEL", "--platform", PLATFORM, "--explain", "--sensitivities"),
    ),
    "inspect --lint": (SMALL, ("inspect", "MODEL", "--platform", PLATFORM, "--lint")),
    "recommend --platform": (
        SMALL, ("recommend", "--workload", "WORKLOAD", "--platform", PLATFORM),
    ),
    "recommend --catalog": (
        SMALL[:1], ("recommend", "--workload", "WORKLOAD", "--catalog", CATALOG,
         "--max-devices", "4", "--price", "laptop=900/3y"),
    ),
    "compare --objective throughput": (
        SMALL, ("compare", "MODEL", "--platform", PLATFORM, "--objective", "throughput"),
    ),
    "simulate --max-rate": (
        SMALL, ("simulate", "MODEL", "--platform", PLATFORM, "--slo", "p99=200ms", "--max-rate"),
    ),
    "compare --strategy auto": (
        ("decoder-20000",),
        ("compare", "MODEL", "--platform", PLATFORM, "--strategy", "auto"),
    ),
}  # fmt: skip
"""The models that a question is of, and its words."""


def asked(words: list[str], cache: Path, bytecode: Path) -> tuple[float, int, int]:
    """CPU seconds, most bytes and exit code of one command in a process of its own."""
    environment = {
        **os.environ,
        "HETSIM_CACHE_DIR": str(cache),
        "PYTHONPYCACHEPREFIX": str(bytecode),
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "hetsim", *words, "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=environment, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 4, 5, 6):
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}\n{said}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, process.returncode


def line(question: str, model: str, path: Path, cpu_s: float, nbytes: int, **more: object) -> None:
    """Print one measurement."""
    record = {
        "benchmark": "large_models", "question": question, "model": model,
        "file_mib": round(path.stat().st_size / 2**20, 1), "cpu_s": round(cpu_s, 2),
        "peak_mib": round(nbytes / 2**20, 1),
        "memory_of_file": round(nbytes / path.stat().st_size, 2), **more,
    }  # fmt: skip
    print(json.dumps(record), flush=True)


def measure(model: str, path: Path, questions: list[str], folder: Path, *, cold: bool) -> None:
    """Print a line for each question of a model; `folder` keeps the warm cache and bytecode."""
    if "load" in questions and (found := loaded(path, "hetsim", LIMIT_S)):
        line("load", model, path, found[0], found[1], canonical_nodes=found[2])
    workload = path.with_suffix(".yaml")
    workload.write_text(WORKLOAD.format(path=path.name))
    names = {"MODEL": str(path), "WORKLOAD": str(workload)}
    warm, bytecode = folder / "warm", folder / "bytecode"
    for question, (models, words) in QUESTIONS.items():
        if question in questions and model in models:
            given = [names.get(word, word) for word in words]
            asked(given, warm, bytecode)
            with tempfile.TemporaryDirectory(prefix="hetsim-cold-") as empty:
                caches = {"cold": Path(empty), "warm": warm} if cold else {"warm": warm}
                for state, cache in caches.items():
                    cpu_s, nbytes, code = asked(given, cache, bytecode)
                    line(question, model, path, cpu_s, nbytes, cache=state, exit_code=code)


def main() -> None:
    """Make each model, and ask."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    every = ["load", *QUESTIONS]
    parser.add_argument("--questions", nargs="+", choices=every, default=every)
    parser.add_argument("--cold", action="store_true", help="also with an empty cache folder")
    parser.add_argument("--folder", type=Path, help="keeps models, the warm cache and bytecode")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hetsim-large-") as made:
        folder = given.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        for model in given.models:
            path = folder / f"{model}.onnx"
            if not path.exists():
                # In a process of its own: the peak of a child is at least its parent's.
                code = f"import large_models as m; m.MODELS[{model!r}](m.Path({str(path)!r}))"
                here = str(Path(__file__).parent)
                subprocess.run([sys.executable, "-c", code], check=True, cwd=here)
            measure(model, path, given.questions, folder, cold=given.cold)


if __name__ == "__main__":
    main()
