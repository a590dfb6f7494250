"""Datasheets of processors and accelerators, for predicting figures of unmeasured chips."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hetsim.core.units import GIGA


@dataclass(frozen=True, slots=True)
class Core:
    """Processor core.

    - `family`: instruction set, for which libraries have specific kernels.
    - `float32`: FLOP per cycle of its vector units, a multiply-add counted twice; of scalar units
    if it has no others.
    - `float16`: the same in half precision; None if it converts them first.
    - `int8`: operations per cycle on products of bytes: dot products, else widening ones.
    - `matrices`: operations per cycle on bytes of a matrix unit, half as many on 16-bit numbers;
    None without one.
    - `in_order`: whether it issues in program order, so that a cache miss stalls it.
    """

    family: str
    float32: float
    float16: float | None
    int8: float
    matrices: float | None = None
    in_order: bool = False


CORES: Mapping[str, Core] = {
    # Arm's optimization guides: pipes of 64 or 128 bit, half precision and dot products from
    # Armv8.2 on (Cortex-A75 and A55), matrix products (I8MM) from Armv8.6 on.
    "cortex-a5": Core("arm", 2, None, 4, in_order=True),
    "cortex-a7": Core("arm", 2, None, 4, in_order=True),
    "cortex-a9": Core("arm", 4, None, 8),
    "cortex-a17": Core("arm", 8, None, 16),
    "cortex-a35": Core("arm", 4, None, 8, in_order=True),
    "cortex-a53": Core("arm", 8, None, 16, in_order=True),
    "cortex-a55": Core("arm", 8, 16, 32, in_order=True),
    "cortex-a57": Core("arm", 8, None, 16),
    "cortex-a72": Core("arm", 8, None, 16),
    "cortex-a73": Core("arm", 8, None, 16),
    "cortex-a75": Core("arm", 16, 32, 64),
    "cortex-a76": Core("arm", 16, 32, 64),
    "cortex-a77": Core("arm", 16, 32, 64),
    "cortex-a78": Core("arm", 16, 32, 64),
    "cortex-x1": Core("arm", 32, 64, 128),
    "cortex-x3": Core("arm", 32, 64, 256),
    "cortex-x4": Core("arm", 32, 64, 256),
    "cortex-a715": Core("arm", 16, 32, 128),
    "cortex-a720": Core("arm", 16, 32, 128),
    "cortex-a510": Core("arm", 8, 16, 64, in_order=True),
    "cortex-a520": Core("arm", 8, 16, 64, in_order=True),
    "neoverse-n1": Core("arm", 16, 32, 64),
    "neoverse-n2": Core("arm", 16, 32, 128),
    "taishan-v110": Core("arm", 16, 32, 64),
    "carmel": Core("arm", 16, 32, 32),
    "kryo": Core("arm", 8, None, 16),
    "oryon": Core("arm", 32, 64, 256),
    "firestorm": Core("arm", 32, 64, 128),
    "icestorm": Core("arm", 16, 32, 64),
    "cyclone": Core("arm", 16, None, 32),
    "ftc66x": Core("arm", 8, None, 16),
    # x86: two multiply-adds per vector; bytes are widened before VNNI.
    "zen": Core("x86", 16, None, 16),
    "zen2": Core("x86", 32, None, 32),
    "zen3": Core("x86", 32, None, 32),
    "zen4": Core("x86", 32, None, 128),
    "zen5": Core("x86", 64, None, 256),
    "airmont": Core("x86", 4, None, 4),
    "yonah": Core("x86", 4, None, 4),
    "tremont": Core("x86", 8, None, 8),
    "gracemont": Core("x86", 16, None, 64),
    "skymont": Core("x86", 32, None, 128),
    "haswell": Core("x86", 32, None, 32),
    "skylake": Core("x86", 32, None, 32),
    "skylake-x": Core("x86", 64, None, 64),
    "cascade-lake": Core("x86", 64, None, 256),
    "ice-lake-sp": Core("x86", 64, None, 256),
    "tiger-lake": Core("x86", 32, None, 128),
    "golden-cove": Core("x86", 32, None, 128),
    "lion-cove": Core("x86", 32, None, 128),
    "sapphire-rapids": Core("x86", 64, None, 256, matrices=2048),
    # Its vectors differ from those of other processors, and libraries have no kernels for them.
    "knights-corner": Core("x86", 2, None, 2, in_order=True),
    "gs264": Core("mips", 4, None, 4),
    "gs464e": Core("mips", 4, None, 4),
    "gs464v": Core("mips", 16, None, 32),
    "la264": Core("loongarch", 8, None, 16),
    "la464": Core("loongarch", 32, None, 64),
    "la664": Core("loongarch", 32, None, 64),
    "u74": Core("risc-v", 2, None, 2, in_order=True),
    "c906": Core("risc-v", 4, 8, 8, in_order=True),
    "c910": Core("risc-v", 8, 16, 16),
    "x60": Core("risc-v", 16, 32, 32, in_order=True),
    "sw26": Core("sunway", 4, None, 4, in_order=True),
    "sw3231": Core("sunway", 8, None, 8),
}


FAMILIES = (
    "arm", "x86", "risc-v", "mips", "loongarch", "sunway",
    "adreno", "apple", "intel", "mali", "nvidia", "powervr", "radeon", "videocore",
)  # fmt: skip
"""Instruction sets of processors, and makes of graphics units: members of one share compilers and
drivers."""

COVARIATES = ("peak", "bandwidth", "threads", "beyond_8_threads", "in_order", *FAMILIES)
"""Logs of FLOP/s of the threads or the unit, of bytes/s, of threads, and of threads / 8 if above
eight; share of threads on in-order cores; 1 for the family."""

_SLOWER = {"int8": 4.0, "float16": 2.0, "bfloat16": 2.0, "w8a16": 2.0, "tf32": 2.0}
"""Ratio of a precision's peak to float32's, if the peak is not stated."""

Cluster = tuple[int, float, str]
"""Identical cores: number, GHz, name in `CORES`."""


@dataclass(frozen=True, slots=True)
class Datasheet:
    """Resources of a unit, or of the threads that ran on it; None where unknown.

    - `flops_per_s`: peak of the unit, or of the threads that ran.
    - `threads`: number of threads on a processor.
    - `in_order`: share of these on in-order cores.
    - `family`: one of `FAMILIES`.
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
) -> Datasheet:
    """Return the resources of `threads` on the cores of `clusters`, fastest first, in a precision.

    - `precision`: ``float``: in half precision if the core supports it.
    - `threads`: by default the number of cores; more are no faster.
    - `matrices`: whether the library has kernels for matrix units.
    - `slowest`: whether they run only on the last cluster.
    - `vector_share`: share of the vector width that a build uses.
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
    return Datasheet(total, None, ran, in_order / ran, CORES[found[0][2]].family)


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
    """Whether a device family's runtime has kernels for matrix units."""
    return not kin.startswith(("ncnn", "tflite", "phone"))


def peak_of(peaks: Mapping[str, float], precision: str) -> float | None:
    """Return the peak in a precision, or its estimate from another one."""
    wanted = "float32" if precision == "float" else precision
    if wanted in peaks:
        return peaks[wanted]
    known = next((name for name in ("float16", "int8", "float32") if name in peaks), None)
    if known is None:
        return None
    return peaks[known] * _SLOWER.get(wanted, 1.0) / _SLOWER.get(known, 1.0)


def doubtful_peaks(peaks: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Yield types whose peak may count sparse weights or a narrower type, each with a sentence.

    Dense int8 is at most 4 times a 16-bit type and that 16 times float32, on chips of the catalog.
    """
    half = next((one for one in ("float16", "bfloat16") if one in peaks), None)
    pairs = (("int8", half, 4), (half, "float32", 16)) if half else (("int8", "float32", 8),)
    for dtype, wider, most in pairs:
        times = peaks[dtype] / peaks[wider] if dtype in peaks and wider in peaks else 0.0
        if times > 1.05 * most:
            yield (
                dtype,
                f"peak_tflops: {dtype} is {times:.3g} times {wider}, and dense rates differ by "
                f"{most} times at most; check that the figure counts no sparse weights and no int4",
            )


def covariates(sheet: Datasheet) -> tuple[float, ...]:
    """Return a datasheet as a vector in the order of `COVARIATES`; NaN: unknown."""
    threads = sheet.threads
    known = {
        "peak": _log(sheet.flops_per_s),
        "bandwidth": _log(sheet.bytes_per_s),
        "threads": _log(threads),
        "beyond_8_threads": math.nan if threads is None else math.log(max(threads / 8, 1.0)),
        "in_order": math.nan if sheet.in_order is None else sheet.in_order,
    }
    return tuple(known.get(name, float(name == sheet.family)) for name in COVARIATES)


def centred_covariates(middle: Iterable[float], found: Iterable[float]) -> tuple[float, ...]:
    """Return covariates relative to `middle`; 0 for unknown ones."""
    return tuple(
        0.0 if math.isnan(value) else value - usual
        for value, usual in zip(found, middle, strict=True)
    )


def _log(value: float | None) -> float:
    return math.nan if value is None else math.log(value)
