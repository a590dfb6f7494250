"""What a script prints, in this process and in one with a hash seed of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

SEEDS = range(5)
"""Those of the sweep; one of them each time, beside this process, whose seed is drawn."""
QUICK = SEEDS[:1]


@cache
def printed_here(script: str) -> str:
    """What it prints in this process."""
    with redirect_stdout(StringIO()) as printed:
        exec(script, {})
    return printed.getvalue()


def printed_under(seed: int, script: str) -> str:
    """What it prints in a process of its own; it may import what tests share."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "PYTHONHASHSEED": str(seed),
            "PYTHONPATH": str(Path(__file__).parent),
        },
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout
