"""What datasheets say of the chips that rows name, and what each is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from catalog.points import Series
from hetsim.base.units import GIGA, TERA
from hetsim.hardware.datasheet import (
    COVARIATES,
    FAMILIES,
    Datasheet,
    has_matrices,
    peak_of,
    processor,
)

_FILE = "chips.yaml"
_OF_A_CHIP = ("rows", "silicon")
"""Keys that are no unit's."""
_HALF_OF_VECTORS = "Without AVX512"
"""What a row's build says where it leaves the wide half of the vectors alone."""


@dataclass(frozen=True, slots=True)
class Chips:
    """The chips of the measurements.

    Attributes
    ----------
    called : mapping of str to str
        Name of a chip by what rows call it.
    units : mapping of (str, str) to mapping
        What the file says, by chip and unit.
    silicon : mapping of str to str
        The chip that another one is the same silicon as, at another clock or on another board.
    """

    called: Mapping[str, str]
    units: Mapping[tuple[str, str], Mapping[str, Any]]
    silicon: Mapping[str, str] = field(default_factory=dict)

    def name(self, told: str) -> str:
        """Return what the chip that rows call `told` is called."""
        return self.called.get(told, told)

    def bandwidth(self, series: Series) -> float | None:
        """Return the bytes/s of the memory of the unit that a series ran on, where it is known."""
        told = self.units.get((series.chip, series.unit), {})
        bandwidth = told.get("bandwidth_gbytes_s")
        return None if bandwidth is None else bandwidth * GIGA

    def datasheet(self, series: Series) -> Datasheet:
        """Return what is known of the unit that a series ran on."""
        told = self.units.get((series.chip, series.unit))
        if told is None:
            return Datasheet()
        if "clusters" in told:
            return of_cores(told["clusters"], series)
        bandwidth = told.get("bandwidth_gbytes_s")
        return Datasheet(
            flops_per_s=peak_of(
                {name: value * TERA for name, value in told["peak_tflops"].items()},
                series.precision,
            ),
            bytes_per_s=None if bandwidth is None else bandwidth * GIGA,
            family=told.get("family"),
        )


def read_chips(folder: Path) -> Chips:
    """Read the file of chips in the folder of the measurements."""
    told = yaml.safe_load((folder / _FILE).read_text(encoding="utf-8"))["chips"]
    called, units, silicon = {}, {}, {}
    for name, entry in told.items():
        called.update(dict.fromkeys(entry.get("rows", ()), name))
        if "silicon" in entry:
            silicon[name] = entry["silicon"]
        for unit, figures in entry.items():
            if unit not in _OF_A_CHIP:
                units[name, unit] = figures
    return Chips(called, units, silicon)


def of_cores(clusters: Iterable[Any], series: Series) -> Datasheet:
    """Return what the threads of a series have of the cores of a processor."""
    where = dict(series.where)
    return processor(
        [(count, clock_ghz, core) for count, clock_ghz, core in clusters],
        series.precision,
        int(where["threads"]) if "threads" in where else None,
        matrices=has_matrices(series.kin),
        slowest=where.get("powersave") == "1",
        vector_share=0.5 if _HALF_OF_VECTORS in where.get("build", "") else 1.0,
    )


def centre(raw: Iterable[Iterable[float]]) -> NDArray[np.float64]:
    """Return the mean of each covariate over those that know it; 0 where none does.

    0 of families: a device of none is as usual otherwise.
    """
    every = np.array(list(raw))
    known = ~np.isnan(every)
    total = np.where(known, every, 0.0).sum(axis=0)
    mean: NDArray[np.float64] = total / np.maximum(known.sum(axis=0), 1)
    mean[[COVARIATES.index(name) for name in FAMILIES]] = 0.0
    return mean
