"""What datasheets say of a device, as the figures of a chip that nobody measured follow from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hetsim.core.units import GIGA
from hetsim.hardware.cores import CORES, Core

FAMILIES = (
    "arm", "x86", "risc-v", "mips", "loongarch", "sunway",
    "adreno", "apple", "intel", "mali", "nvidia", "powervr", "radeon", "videocore",
)  # fmt: skip
"""Instruction sets of processors, and makes of graphics: those of one have compilers and drivers
in common."""

COVARIATES = ("peak", "bandwidth", "threads", "beyond_8_threads", "in_order", *FAMILIES)
"""Logs of FLOP/s of the threads or of the unit, of bytes/s, of threads, and of by how much there
are more than eight; the share of threads on cores that issue in order; 1 for the family."""

_SLOWER = {"int8": 4.0, "float16": 2.0, "bfloat16": 2.0, "w8a16": 2.0, "tf32": 2.0}
"""How many times float32's a peak is, where the one of the precision is not told."""

Cluster = tuple[int, float, str]
"""Cores of one sort: how many, GHz, name in `CORES`."""


@dataclass(frozen=True, slots=True)
class Datasheet:
    """What a unit, or the threads that ran on it, had at its disposal; None where nobody says.

    Attributes
    ----------
    flops_per_s : float or None
        Peak of the unit, or of the threads that ran.
    bytes_per_s : float or None
    threads : int or None
        Of a processor.
    in_order : float or None
        Share of these that is on cores that issue in order.
    family : str or None
        One of `FAMILIES`.
    """

    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    threads: int | None = None
    in_order: float | None = None
    family: str | None = None


def processor(
    clusters: Iterable[Cluster],
    precision: str,
    threads: int | None = None,
    *,
    matrices: bool = False,
    slowest: bool = False,
    vector_share: float = 1.0,
    bytes_per_s: float | None = None,
) -> Datasheet:
    """Return what `threads` on the cores of `clusters`, the fastest first, have in a precision.

    Parameters
    ----------
    clusters : iterable of Cluster
    precision : str
        ``float``: in halves where the core computes in them.
    threads : int, optional
        As many as there are cores where nobody says; more are no faster.
    matrices : bool
        Whether the library has kernels for units for products of matrices.
    slowest : bool
        Whether they run on the last cluster alone.
    vector_share : float
        How much of the vectors a build uses.
    bytes_per_s : float, optional
    """
    found = list(clusters)
    if slowest:
        found = found[-1:]
    cores = sum(count for count, _, _ in found)
    left = ran = cores if threads is None else min(threads, cores)
    total, in_order = 0.0, 0
    for count, clock_ghz, name in found:
        core, used = CORES[name], min(left, count)
        total += used * clock_ghz * GIGA * _a_cycle(core, precision, matrices) * vector_share
        in_order += used if core.in_order else 0
        left -= used
    return Datasheet(total, bytes_per_s, ran, in_order / ran, CORES[found[0][2]].family)


def _a_cycle(core: Core, precision: str, matrices: bool) -> float:
    if matrices and core.matrices is not None:
        if precision in ("int8", "w8a16"):
            return core.matrices
        if precision in ("float16", "bfloat16"):
            return core.matrices / 2
    if precision in ("int8", "w8a16"):
        return core.int8
    return core.float32 if precision == "float32" else core.float16 or core.float32


def has_matrices(kin: str) -> bool:
    """Whether the runtime of a kin has kernels for units for products of matrices."""
    return not kin.startswith(("ncnn", "tflite", "phone"))


def peak_of(peaks: Mapping[str, float], precision: str) -> float | None:
    """Return the peak in a precision, or what that of another one suggests."""
    wanted = "float32" if precision == "float" else precision
    if wanted in peaks:
        return peaks[wanted]
    known = next((name for name in ("float16", "int8", "float32") if name in peaks), None)
    if known is None:
        return None
    return peaks[known] * _SLOWER.get(wanted, 1.0) / _SLOWER.get(known, 1.0)


def covariates(sheet: Datasheet) -> tuple[float, ...]:
    """Return what a datasheet says in the order of `COVARIATES`; NaN: unknown."""
    threads = sheet.threads
    known = {
        "peak": _log(sheet.flops_per_s),
        "bandwidth": _log(sheet.bytes_per_s),
        "threads": _log(threads),
        "beyond_8_threads": math.nan if threads is None else math.log(max(threads / 8, 1.0)),
        "in_order": math.nan if sheet.in_order is None else sheet.in_order,
    }
    return tuple(known.get(name, float(name == sheet.family)) for name in COVARIATES)


def about(middle: Iterable[float], found: Iterable[float]) -> tuple[float, ...]:
    """Return covariates about `middle`; what is unknown is as usual."""
    return tuple(
        0.0 if math.isnan(value) else value - usual
        for value, usual in zip(found, middle, strict=True)
    )


def _log(value: float | None) -> float:
    return math.nan if value is None else math.log(value)
