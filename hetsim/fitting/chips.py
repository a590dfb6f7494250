"""What datasheets say of the chips that rows name, and what each is called."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from hetsim.base.units import GIGA, TERA
from hetsim.fitting.points import Series
from hetsim.fitting.priors import COVARIATES

_FILE = "chips.yaml"
_SLOWER = {"int8": 4.0, "float16": 2.0, "bfloat16": 2.0, "w8a16": 2.0, "tf32": 2.0}
"""How many times float32's a peak is, where the one of the precision is not told."""


@dataclass(frozen=True, slots=True)
class Datasheet:
    """What a series had at its disposal; None where nobody says.

    Attributes
    ----------
    flops_per_s : float or None
        Peak of the unit, or of the threads that ran.
    bytes_per_s : float or None
    threads : int or None
        Of a processor.
    """

    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Chips:
    """The chips of the measurements.

    Attributes
    ----------
    called : mapping of str to str
        Name of a chip by what rows call it.
    units : mapping of (str, str) to mapping
        What the file says, by chip and unit.
    """

    called: Mapping[str, str]
    units: Mapping[tuple[str, str], Mapping[str, Any]]

    def name(self, told: str) -> str:
        """Return what the chip that rows call `told` is called."""
        return self.called.get(told, told)

    def datasheet(self, series: Series) -> Datasheet:
        """Return what is known of the unit that a series ran on."""
        told = self.units.get((series.chip, series.unit))
        if told is None:
            return Datasheet()
        if "clusters" in told:
            where = dict(series.where)
            threads = int(where["threads"]) if "threads" in where else None
            return processor(told["clusters"], threads, where.get("powersave") == "1")
        bandwidth = told.get("bandwidth_gbytes_s")
        return Datasheet(
            flops_per_s=peak_of(
                {name: value * TERA for name, value in told["peak_tflops"].items()},
                series.precision,
            ),
            bytes_per_s=None if bandwidth is None else bandwidth * GIGA,
        )


def read_chips(folder: Path) -> Chips:
    """Read the file of chips in the folder of the measurements."""
    told = yaml.safe_load((folder / _FILE).read_text(encoding="utf-8"))["chips"]
    called, units = {}, {}
    for name, entry in told.items():
        called.update(dict.fromkeys(entry.get("rows", ()), name))
        for unit, figures in entry.items():
            if unit != "rows":
                units[name, unit] = figures
    return Chips(called, units)


def processor(
    clusters: Iterable[tuple[int, float, float]], threads: int | None, slowest: bool = False
) -> Datasheet:
    """Return the peak of `threads` on cores as [cores, GHz, FLOP a cycle], the fastest first.

    Parameters
    ----------
    threads : int or None
        As many as there are cores where nobody says.
    slowest : bool
        Whether they run on the last cluster alone.
    """
    found = list(clusters)
    if slowest:
        found = found[-1:]
    cores = sum(cluster[0] for cluster in found)
    left = cores if threads is None else threads
    total = 0.0
    for count, clock_ghz, flops in found:
        used = min(left, count)
        total += used * clock_ghz * GIGA * flops
        left -= used
    return Datasheet(total, None, cores if threads is None else threads)


def peak_of(peaks: Mapping[str, float], precision: str) -> float | None:
    """Return the peak in a precision, or what that of another one suggests."""
    wanted = "float32" if precision == "float" else precision
    if wanted in peaks:
        return peaks[wanted]
    known = next((name for name in ("float16", "int8", "float32") if name in peaks), None)
    if known is None:
        return None
    return peaks[known] * _SLOWER.get(wanted, 1.0) / _SLOWER.get(known, 1.0)


def raw_covariates(sheet: Datasheet) -> NDArray[np.float64]:
    """Return the logs of a datasheet's figures, in the order of `COVARIATES`; NaN: unknown."""
    known = {
        "peak": sheet.flops_per_s,
        "bandwidth": sheet.bytes_per_s,
        "threads": sheet.threads,
        "beyond_8_threads": None if sheet.threads is None else max(sheet.threads / 8, 1.0),
    }
    logs = [math.nan if known[name] is None else math.log(known[name] or 1) for name in COVARIATES]
    return np.array(logs)


def centre(raw: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the mean of each covariate over those that know it; 0 where none does."""
    every = np.array(list(raw))
    known = ~np.isnan(every)
    total = np.where(known, every, 0.0).sum(axis=0)
    mean: NDArray[np.float64] = total / np.maximum(known.sum(axis=0), 1)
    return mean


def about(middle: NDArray[np.float64], raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return covariates about `middle`; what is unknown is as usual."""
    found: NDArray[np.float64] = np.where(np.isnan(raw), 0.0, raw - middle)
    return found
