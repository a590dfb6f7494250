"""Sessions on private Rays, one after another: what each leaves behind.

Each opens a Ray of its own, runs a request, and closes it. After each no process is below this
one, there is no folder of Ray's, nothing more in shared memory, and no more descriptors of files
than after the first. Sockets and threads that stay in this process are counted, and told in sum.
JSON lines on stdout, one a session and one in sum; exit code 1 where something was left:

    python benchmarks/sessions.py [--sessions N]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import hetsim
from held import Held, growth, held, of_ray
from soak import plan_of

GROWTH = 0.05
"""Of memory, from the second tenth to the last."""


def sockets_open() -> int:
    """Sockets that this process has."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += descriptor.readlink().name.startswith("socket:")
    return found


def main() -> int:
    """Run the benchmark; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=50)
    count = parser.parse_args().sessions
    x = np.arange(-8, 8, dtype=np.float32)
    samples: list[Held] = []
    sockets: list[int] = []
    failed = 0
    with tempfile.TemporaryDirectory(prefix="hetsim-") as folder:
        plan = plan_of(Path(folder))
        # Rays of others come and go in the folder of all.
        tempfile.tempdir = folder
        before = of_ray()
        for number in range(count):
            with hetsim.Session(plan, "ray") as session:
                right = np.array_equal(session.run({"x": x})["y"], np.abs(x) + x)
                pids = len(session.processes())
            samples.append(now := held())
            sockets.append(sockets_open())
            left = sorted(of_ray() - before)
            files = now.descriptors - sockets[-1]
            more = files > samples[0].descriptors - sockets[0]
            wrong = not right or pids != 2 or now.processes > 1 or bool(left) or more
            failed += wrong
            line = {"session": number, "right": bool(right), **now.line(), "sockets": sockets[-1]}
            print(json.dumps({**line, "left": left}), flush=True)
    grown = growth([sample.own_bytes for sample in samples])
    summary = {
        "sessions": count,
        "failed": failed,
        "memory_growth": round(grown, 4),
        "threads_more": samples[-1].threads - samples[0].threads,
        "sockets_more": sockets[-1] - sockets[0],
    }
    print(json.dumps(summary))
    return 1 if failed or (count >= 20 and grown > GROWTH) else 0


if __name__ == "__main__":
    sys.exit(main())
