"""How far device models fitted to published measurements are from those that were left out.

One JSON line a kin, and one for all. `network`: left out of all devices of the kin. `on_chip`:
left out of one chip alone. `chip`: all of a chip left out, its datasheet kept. `donor`: one factor
on the best other chip, which has run the network.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from catalog import judging
from catalog.judging import best, donors, left_out, pairs
from catalog.kin_fits import Measurements
from catalog.likeness import Unseen
from catalog.measured import measured_folder


def main(kins: list[str]) -> None:
    """Judge the kins that devices of the catalog stand on, or those of `kins`."""
    measurements = Measurements.read(measured_folder())
    every: dict[str, list[Unseen]] = {"network": [], "on_chip": [], "chip": []}
    donated: list[float] = []
    for kin in kins or sorted({asked.kin for asked in measurements.asks}):
        fitted = measurements.fitted(kin)
        data = fitted.data
        found = {
            "network": judging.worth_judging(fitted.networks_out),
            "on_chip": judging.worth_judging(fitted.of_chip_out),
            "chip": fitted.chips_out,
        }
        donor = [
            log - float(data.log_seconds[at])
            for series in data.series
            for at, log in donors(data, series).items()
        ]
        line: dict[str, Any] = {"kin": kin, "series": len(data.series), "keys": len(data.keys)}
        for way, unseen in found.items():
            every[way] += unseen
            line[way] = _by_batch(unseen)
        line["donor"] = judging.record(judging.judged(donor))
        line["repeats"] = judging.repeats(found["network"])
        for way, of_device in (("network", False), ("on_chip", True)):
            every_way = left_out(fitted, with_rows=True)
            covered = judging.coverage(every_way, of_device, fitted.fit.eps)
            line[f"coverage_{way}"] = round(covered, 3)
        donated += donor
        print(json.dumps(line), flush=True)
    line = {"kin": "all", **{way: _by_batch(unseen) for way, unseen in every.items()}}
    line["donor"] = judging.record(judging.judged(donated))
    for way, unseen in every.items():
        apart = pairs(judging.runs_of_kins(unseen))
        taken = best(judging.runs_of_units(unseen))
        line[f"order_{way}"] = {
            "pairs": apart.count,
            "right": apart.right / max(apart.count, 1),
            "units": taken.count,
            "best": taken.right / max(taken.count, 1),
            "regret": taken.mean_regret,
        }
    print(json.dumps(line))


def _by_batch(unseen: list[Unseen]) -> dict[str, Any]:
    return {
        batch: judging.record(judging.judged(one.total for one in found))
        for batch, found in judging.by_batch(unseen).items()
    }


if __name__ == "__main__":
    main(sys.argv[1:])
