"""How far device models fitted to published measurements are from those that were left out.

One JSON line a kin, and one for all. `network`: left out of all devices of the kin. `on_chip`:
left out of one chip alone. `chip`: all of a chip left out, its datasheet kept. `donor`: one factor
on the best other chip, which has run the network.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from hetsim.fitting import judging
from hetsim.fitting.kin_fits import Measurements
from hetsim.fitting.leaving_out import Unseen, without_network_on_chip
from hetsim.fitting.measured import measured_folder


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
            "on_chip": judging.worth_judging(
                without_network_on_chip(data, fitted.prior, fitted.fit)
            ),
            "chip": fitted.chips_out,
        }
        donor = judging.donors(data) if len(data.series) < 60 else []
        line: dict[str, Any] = {"kin": kin, "series": len(data.series), "keys": len(data.keys)}
        for way, unseen in found.items():
            every[way] += unseen
            line[way] = _by_batch(unseen)
        line["donor"] = judging.record(judging.judged(donor))
        line["repeats"] = judging.repeats(found["network"])
        line["coverage"] = round(judging.coverage(found["network"]), 3)
        donated += donor
        print(json.dumps(line), flush=True)
    line = {"kin": "all", **{way: _by_batch(unseen) for way, unseen in every.items()}}
    line["donor"] = judging.record(judging.judged(donated))
    for way, unseen in every.items():
        total, right = judging.orders(unseen)
        units, best, regret = judging.best_units(unseen)
        line[f"order_{way}"] = {
            "pairs": total,
            "right": right / max(total, 1),
            "units": units,
            "best": best / max(units, 1),
            "regret": regret,
        }
    print(json.dumps(line))


def _by_batch(unseen: list[Unseen]) -> dict[str, Any]:
    return {
        batch: judging.record(judging.judged(one.total for one in found))
        for batch, found in judging.by_batch(unseen).items()
    }


if __name__ == "__main__":
    main(sys.argv[1:])
