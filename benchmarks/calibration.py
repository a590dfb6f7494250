"""How far predictions by a calibrated device file are from this machine.

Measures this machine on one thread for as long as it is given, fits, and prints a JSON line for
each zoo model and each of their parts, none of which is fitted to, and one with the medians and
90th percentiles. Seconds are CPU time of the process, the typical one of 15 runs in each of two
rounds some time apart: the mean of those between the 10th and the 35th percentile. Wants a
machine with nothing else to do:

    python benchmarks/calibration.py [--budget SECONDS] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hetsim.cost.calibration.calibrate import Calibration, calibrate
from hetsim.cost.calibration.fit import median_and_p90
from hetsim.reporting.tables.devices import calibration_record

BUDGET_S = 480.0


def show(done: Calibration) -> None:
    """Print the lines."""
    record = calibration_record(done)
    for line in record["judged"]:
        print(json.dumps({"benchmark": "calibration", **line}), flush=True)
    whole = median_and_p90([one for one in done.judged if not one.part])
    parts = median_and_p90([one for one in done.judged if one.part])
    summary = {
        "benchmark": "calibration",
        "machine": done.setting.machine["processor"],
        "runtime": done.setting.runtime,
        "networks": done.networks,
        "complete": done.complete,
        "spread": done.spread,
        "waited": done.waited,
        "whole_median_p90": whole,
        "parts_median_p90": parts,
    }
    print(json.dumps(summary), flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds of measuring")
    parser.add_argument("--keep", type=Path, help="folder for the device file and its journal")
    given = parser.parse_args()
    with TemporaryDirectory() as scratch:
        folder = scratch if given.keep is None else given.keep
        path = Path(folder) / "this-cpu.yaml"
        done = calibrate(
            "cpu",
            path,
            budget_s=given.budget,
            report=lambda progress: print(progress, file=sys.stderr, flush=True),
        )
        show(done)


if __name__ == "__main__":
    main()
