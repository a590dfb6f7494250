"""Ctrl-C while the solver of `exact` works, and after it: Python's, as everywhere else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("ortools", reason="needs the extra 'exact'")

SCRIPT = """
import os, signal, sys, threading
import numpy as np
from ortools.sat.python import cp_model
import hetsim

signal.signal(signal.SIGINT, signal.default_int_handler)
rng = np.random.default_rng(0)
n, during = int(sys.argv[1]), sys.argv[2] == "during"
problem = hetsim.Problem.from_arrays(
    rng.integers(1, 99, (n, 4)).astype(float),
    edges=[(u, v, 8) for v in range(1, n) for u in rng.choice(v, min(v, 2), replace=False)],
    bytes_per_s=1.0,
)
solve = cp_model.CpSolver.solve

def interrupted(*words):
    # A second after it began, however long it took to come there.
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    return solve(*words)

if during:
    cp_model.CpSolver.solve = interrupted
try:
    hetsim.plan(problem, "exact", time_limit_s=3600.0)
    print("planned", flush=True)
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(("n", "when"), [(4, "after"), (50, "during")])
def test_an_interrupt_is_an_exception(n: int, when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(n), when],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("planned\n" if when == "after" else "") + "interrupted\n"
