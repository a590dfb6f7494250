"""How far prices by datasheet and roofline are from published measurements; JSON lines out.

Every device of the catalog that says which measurements stand behind it is priced as if it had
none, network by network at batch 1, in the precision of the measurements. What is printed last is
what ``hetsim/problem/of_model.py`` states of a device without figures: the standard
deviation of the logarithm by which 80 % of the points are covered, each series of points weighing
the same, and what two kinds of devices have in common on one network.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import hetsim
from catalog.measured import measured_folder, read_rows
from catalog.points import Series, points_of, read_graphs
from hetsim.errors import HetsimError
from hetsim.problem.parts import Z80

DEVICES = Path(__file__).parents[1] / "devices"
Found = dict[tuple[str, str, Series], dict[str, float]]


def stands_on(series: Series, precision: str, stated: Mapping[str, Any]) -> bool:
    """Whether a device that states this of a precision stands on a series of points."""
    asked = {(name, str(value)) for name, value in stated.get("where", {}).items()}
    return (
        series.kin == stated["kin"]
        and series.chip == stated.get("chip")
        and asked <= set(series.where)
    )


def logarithms(networks: int) -> Found:
    """Logs of measured over priced, by device, precision and series, then by network."""
    folder = measured_folder()
    series = points_of(read_rows(folder)).series
    wanted: dict[str, list[tuple[str, str, Series, float]]] = defaultdict(list)
    for path in sorted(DEVICES.glob("*.yaml")):
        for precision, stated in yaml.safe_load(path.read_text()).get("measured", {}).items():
            for one, points in series.items():
                if stands_on(one, precision, stated):
                    alone = [point for point in points if point.batch == 1]
                    for point in alone[:: max(1, len(alone) // networks)]:
                        wanted[point.network].append((path.stem, precision, one, point.seconds))
    graphs = read_graphs(folder)
    found: Found = defaultdict(dict)
    for network in sorted(wanted):
        model = graphs.load(network)
        for device, precision, one, seconds in wanted[network]:
            priced_s = priced(model, device, precision)
            if math.isfinite(priced_s):
                found[device, precision, one][network] = math.log(seconds / priced_s)
    return dict(found)


def priced(model: hetsim.Model, device: str, precision: str) -> float:
    """Seconds of a whole model by the datasheet, without links; inf where it does not run."""
    platform = hetsim.load_platform(device)
    name, spec = next(iter(platform.devices.items()))
    native = spec.execution_dtype.get("float32", "float32")
    try:
        problem = hetsim.Problem.of(
            model,
            platform,
            cost="roofline",
            execute={} if precision == native else {name: precision},
        )
    except HetsimError:
        return math.inf
    return problem.group_seconds(0, range(problem.n))


def covering(found: Found, share: float) -> float:
    """The absolute logarithm that this share of the points is below, by series."""
    weighed = sorted(
        (abs(off), 1.0 / len(points) / len(found))
        for points in found.values()
        for off in points.values()
    )
    reached = np.cumsum([weight for _, weight in weighed])
    return weighed[min(int(np.searchsorted(reached, share)), len(weighed) - 1)][0]


def common(found: Found) -> float:
    """Root of the mean product of two kinds' logarithms on one network; 0 where negative.

    The devices of a platform are of different kinds, which other software runs.
    """
    by_network: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (device, _, _), points in found.items():
        for network, off in points.items():
            by_network[network][hetsim.load_device(device).kind].append(off)
    products = [
        float(np.mean(mine) * np.mean(other))
        for kinds in by_network.values()
        for at, mine in enumerate(kinds.values())
        for other in list(kinds.values())[:at]
    ]
    return math.sqrt(max(0.0, float(np.mean(products))))


def main() -> None:
    """Print a line a series, and one over all of them."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--networks", type=int, default=8, help="of a series, at about the most")
    found = logarithms(asked.parse_args().networks)
    for (device, precision, series), points in found.items():
        logs = np.array(list(points.values()))
        record = {
            "benchmark": "datasheet_error",
            "device": device,
            "precision": precision,
            "series": str(series),
            "networks": len(logs),
            "measured_over_priced": round(float(np.exp(np.median(logs))), 3),
            "sd": round(float(logs.std()), 3),
        }
        print(json.dumps(record), flush=True)
    record = {
        "benchmark": "datasheet_error",
        "devices": len({device for device, _, _ in found}),
        "series": len(found),
        "networks": len({network for points in found.values() for network in points}),
        "points": sum(map(len, found.values())),
        "median_factor": round(math.exp(covering(found, 0.5)), 2),
        "factor_of_80_percent": round(math.exp(covering(found, 0.8)), 2),
        "factor_of_95_percent": round(math.exp(covering(found, 0.95)), 2),
        "sd": round(covering(found, 0.8) / Z80, 3),
        "common": round(common(found), 3),
    }
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
