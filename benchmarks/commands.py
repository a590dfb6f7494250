"""CPU seconds and modules of whole commands beside bare interpreter start-up; JSON lines out."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys

RUNS = 5
COMMANDS: dict[str, list[str]] = {
    "python -c pass": ["-c", "pass"],
    "import hetsim": ["-c", "import hetsim"],
    "import numpy": ["-c", "import numpy"],
    "import onnx, onnxruntime": ["-c", "import onnx, onnxruntime"],
    "hetsim --help": ["-m", "hetsim", "--help"],
    **{
        f"hetsim compare zoo:{name}": ["-m", "hetsim", "compare", f"zoo:{name}"]
        for name in ("inception_v1", "densenet121")
    },
    "hetsim compare zoo:squeezenet --platform laptop": [
        "-m", "hetsim", "compare", "zoo:squeezenet", "--platform", "laptop",
    ],
    "hetsim compare zoo:squeezenet --platform rock-5b": [
        "-m", "hetsim", "compare", "zoo:squeezenet", "--platform", "rock-5b",
    ],
    "hetsim compare zoo:resnet50 --platform laptop": [
        "-m", "hetsim", "compare", "zoo:resnet50", "--platform", "laptop",
    ],
    "hetsim compare zoo:bert_small --platform rock-5b": [
        "-m", "hetsim", "compare", "zoo:bert_small", "--platform", "rock-5b",
    ],
}  # fmt: skip


def modules(arguments: list[str]) -> int:
    """How many modules a run of the interpreter loads."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    return sum(line.startswith("import time:") for line in done.stderr.splitlines()) - 1


def cpu_seconds(arguments: list[str]) -> float:
    """User and system CPU seconds of one run of the interpreter and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print seconds of each command, after one warm-up run, and how many modules it loads."""
    for name, arguments in COMMANDS.items():
        cpu_seconds(arguments)
        samples = [cpu_seconds(arguments) for _ in range(RUNS)]
        record = {
            "benchmark": "commands",
            "command": name,
            "cpu_s_min": round(min(samples), 3),
            "cpu_s_median": round(statistics.median(samples), 3),
            "cpu_s_max": round(max(samples), 3),
            "runs": RUNS,
            "modules": modules(arguments),
        }
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
