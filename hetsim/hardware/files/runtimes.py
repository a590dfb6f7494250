"""Figures of a device by another runtime: measured, or by a factor of those that were."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from hetsim.core.units import in_si
from hetsim.errors import UsageError, nearest
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.kernel_figures import KernelFigures, RuntimeFactor
from hetsim.hardware.spec import DeviceSpec, Platform, standing_for
from hetsim.hardware.variants import EVERY, that_can

ALIASES = {
    "ort": "onnxruntime", "torch": "pytorch", "tf": "tensorflow", "trt": "tensorrt",
    "litert": "tflite",
}  # fmt: skip
"""Short names of runtimes."""

_FALLS_BACK = {"onnxruntime": frozenset({"Gemm", "MatMul"})}
"""Op types that NPUs of Qualcomm leave to the host by another runtime than QNN. Of 42 networks and
precisions of AI Hub that ONNX Runtime ran quantized on six chips (``data/measured``), all 12 with
linear layers left two to twelve ops a layer to the cores (ViT 72 of 1,302), and none of the 30
convolutional ones did."""

_KEPT_IN = ("fitted", "runtimes.csv")


def runtimes_of(spec: DeviceSpec) -> tuple[str, ...]:
    """Return the runtimes that a device has figures for, the current one first."""
    return (*((spec.runtime,) if spec.runtime else ()), *sorted(spec.runtimes))


def runtimes_by_factor(spec: DeviceSpec) -> tuple[str, ...]:
    """Return the runtimes that figures of a device follow for by a factor, sorted. O(factors)."""
    own = runtimes_of(spec)
    known = _measured(spec)
    return tuple(sorted({one.runtime for one in _factors(spec.kind, known)} - {*own}))


def _measured(spec: DeviceSpec) -> dict[str, Mapping[str, KernelFigures]]:
    """Return the figures of a device that are no other runtime's by a factor, by runtime."""
    known = dict(spec.runtimes)
    if spec.runtime and not any(figures.factor for figures in spec.kernels.values()):
        known[spec.runtime] = spec.kernels
    return known


def _factors(
    kind: str, known: Mapping[str, Mapping[str, KernelFigures]]
) -> Iterator[RuntimeFactor]:
    """Yield the factors on some of the figures, by runtime, of a kind of device."""
    for one in runtime_factors():
        kernels = known.get(one.base, {})
        if one.unit == kind and any(_alike(one.precision, precision) for precision in kernels):
            yield one


def _alike(precision: str, other: str) -> bool:
    return ("float" in precision) == ("float" in other)


def has_runtime(spec: DeviceSpec, runtime: str) -> bool:
    """Whether the device has figures by this runtime, measured or by a factor."""
    runtime = ALIASES.get(runtime, runtime)
    return runtime in runtimes_of(spec) or runtime in runtimes_by_factor(spec)


def by_runtime(spec: DeviceSpec, runtime: str, where: str) -> DeviceSpec:
    """Return the device with its figures of `runtime`; its current figures become an alternative.

    Where it was not measured in that runtime, they are those of the nearest one that it was, times
    a factor learned from chips that ran both.

    Raises UsageError where there is no such factor either, with the runtimes that there are.
    """
    runtime = ALIASES.get(runtime, runtime)
    if runtime == spec.runtime:
        return spec
    others = {name: own for name, own in _measured(spec).items() if name != runtime}
    kernels = spec.runtimes.get(runtime) or _by_factor(spec, runtime, others, where)
    left = _FALLS_BACK.get(runtime, frozenset()) if spec.kind == "npu" and "qnn" in others else ()
    return replace(
        spec, kernels=kernels, runtime=runtime, runtimes=others, falls_back=frozenset(left)
    )


def _by_factor(
    spec: DeviceSpec, runtime: str, known: Mapping[str, Mapping[str, KernelFigures]], where: str
) -> dict[str, KernelFigures]:
    """Return the figures of the base from which the factor is surest, by the factor.

    A precision takes its own, a float else that of another float.
    """
    factors = [one for one in _factors(spec.kind, known) if one.runtime == runtime]
    if not factors:
        raise _unknown(spec, runtime, where)
    base = min(factors, key=lambda one: (one.sd, one.base)).base
    own = {one.precision: one for one in factors if one.base == base}
    return {
        precision: figures.by_runtime(own[min(alike, key=lambda one: (one != precision, one))])
        for precision, figures in known[base].items()
        if (alike := [one for one in own if _alike(one, precision)])
    }


def _unknown(spec: DeviceSpec, runtime: str, where: str) -> UsageError:
    own, more = runtimes_of(spec), runtimes_by_factor(spec)
    what = f"{spec.name} has no figures for runtime '{runtime}'"
    every = {name for one in runtime_factors() for name in (one.base, one.runtime)}
    if own and runtime in every:
        what += f": no chip ran it beside {' or '.join(own)} on a {spec.kind}"
    if not own:
        return UsageError(what, where=where, hint="it has figures for no named runtime")
    hint = f"measured: {', '.join(own)}"
    if more:
        hint += f"; by a factor: {', '.join(more)}"
    return UsageError(what, where=where, hint=hint)


def platform_by_runtime(platform: Platform, runtime: Mapping[str, str]) -> Platform:
    """Return the platform with devices by the figures of the runtimes in `runtime`.

    ``gpu`` stands for all of ``gpu.0``, ``gpu.1``, and `EVERY` for all devices that have figures by
    the runtime, measured or by a factor. The platform stays the one that was read: its digest is
    kept.

    Raises UsageError for an unknown device, and a runtime that it has no figures by.
    """
    devices = dict(platform.devices)
    for name, wanted in runtime.items():
        if name == EVERY:
            chosen = tuple(that_can(platform, {EVERY: wanted}, has_runtime))
            if not chosen:
                known = sorted({each for spec in devices.values() for each in every_runtime(spec)})
                raise UsageError(
                    f"no device of platform '{platform.name}' has figures for runtime '{wanted}'",
                    hint=nearest(wanted, known) if known else "omit --runtime",
                )
        else:
            chosen = standing_for(name, devices, f" on platform '{platform.name}'")
        for one in chosen:
            devices[one] = by_runtime(devices[one], wanted, f"device '{one}'")
    by = {**platform.runtime, **runtime}
    return replace(platform, devices=devices, runtime=by)


def every_runtime(spec: DeviceSpec) -> tuple[str, ...]:
    """Return the runtimes that a device has figures for, then those by a factor."""
    return (*runtimes_of(spec), *runtimes_by_factor(spec))


@lru_cache(maxsize=1)
def runtime_factors() -> tuple[RuntimeFactor, ...]:
    """Return the catalog's factors between runtimes; read once."""
    path = catalog_folder().joinpath(*_KEPT_IN)
    if not path.is_file():
        return ()
    with path.open(encoding="utf-8", newline="") as lines:
        return tuple(
            RuntimeFactor(
                unit=row["unit"],
                precision=row["precision"],
                base=row["base"],
                runtime=row["runtime"],
                factor=float(row["factor"]),
                sd=float(row["sd"]),
                launch_s=in_si(float(row["launch_us"]), 1e-6),
                chips=int(row["chips"]),
                networks=int(row["networks"]),
            )
            for row in csv.DictReader(lines)
        )
