"""Variants of a device: another precision, reduced bandwidth; its figures rescaled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from hetsim.errors import UsageError, nearest
from hetsim.hardware.kernel_figures import LEAST_S, KernelFigures
from hetsim.hardware.spec import FLOATS, DeviceSpec, Platform, standing_for, unnumbered

PRECISIONS = ("float16", "bfloat16", "float32", "int8")
"""Precisions of float arithmetic: float types, and symmetric 8-bit integers scaled per tensor."""

INT8 = "int8"
ALIASES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "w8a8": "int8"}
"""Short names of precisions."""

_WIDE_ACTIVATIONS = "w8a16"

EVERY = "*"
"""Name that stands for every device of a platform with the requested capability."""


def executing(spec: DeviceSpec, precision: str, where: str) -> DeviceSpec:
    """Return the device with float models executed in `precision`.

    In a float type all floats are computed and stored in it. In int8 the ops of ``spec.quantized``
    are; others stay in the device's own float type, if it has one.

    Raises UsageError for an unknown precision, one without a peak, or int8 without integer kernels.
    """
    precision = ALIASES.get(precision, precision)
    if precision == _WIDE_ACTIVATIONS:
        # Medians of 38 and 154 pairs of data/measured, by QNN.
        raise UsageError(
            "weights of 8 bits with activations of 16 (w8a16) are not priced",
            where=where,
            hint="price int8 and float16: on 13 NPUs w8a16 took 1.7 times as long as int8, and "
            "0.75 of float16, in the median",
        )
    if precision not in PRECISIONS:
        raise UsageError(
            f"models cannot be executed in '{precision}'",
            where=where,
            hint=nearest(precision, PRECISIONS),
        )
    if precision not in spec.flops_per_s:
        rated = [name for name in PRECISIONS if name in spec.flops_per_s]
        raise UsageError(
            f"it has no peak rate for {precision} ({spec.name} has {', '.join(spec.flops_per_s)})",
            where=where,
            hint=f"choose from: {', '.join(rated)}" if rated else "use its own precision",
        )
    if precision != INT8:
        types = {name: precision for name in FLOATS if name != precision}
        return replace(spec, executes=precision, execution_dtype=types)
    if not spec.quantized:
        raise UsageError(
            f"it computes no op in integers: 'quantized' of {spec.name} is empty",
            where=where,
            hint="list the ops in its description",
        )
    return replace(spec, executes=INT8)


def can_execute(spec: DeviceSpec, precision: str) -> bool:
    """Return whether ``executing`` accepts this precision for the device."""
    precision = ALIASES.get(precision, precision)
    return precision in spec.flops_per_s and (precision != INT8 or bool(spec.quantized))


def that_can(
    platform: Platform, asked: Mapping[str, str], can: Callable[[DeviceSpec, str], bool]
) -> dict[str, str]:
    """Return the choice of `asked` for each device of the platform that supports it.

    `EVERY` stands for all devices, ``gpu`` for all of ``gpu.0``, ``gpu.1``; later entries override
    earlier ones. O(devices).
    """
    found = {}
    for name, word in asked.items():
        for one, spec in platform.devices.items():
            if name in (EVERY, one, unnumbered(one)) and can(spec, word):
                found[one] = word
    return found


def platform_executing(platform: Platform, execute: Mapping[str, str]) -> Platform:
    """Return the platform with float models run in the given precision on devices of `execute`.

    ``gpu`` stands for all of ``gpu.0``, ``gpu.1``, and `EVERY` for all devices that can. The
    platform's digest is kept.

    Raises UsageError for an unknown device, a precision that no device of `EVERY` can execute,
    and as ``executing`` does.
    """
    devices = dict(platform.devices)
    for name, precision in execute.items():
        where = f" on platform '{platform.name}' to execute in {precision}"
        if name == EVERY:
            chosen = tuple(that_can(platform, {EVERY: precision}, can_execute)) or (*devices,)
        else:
            chosen = standing_for(name, devices, where)
        for one in chosen:
            devices[one] = executing(devices[one], precision, f"device '{one}'")
    return replace(platform, devices=devices)


def executed(platform: Platform) -> dict[str, str]:
    """Return the assumed precision of float models by device; others are absent."""
    return {
        name: spec.executes for name, spec in platform.devices.items() if spec.executes is not None
    }


def at_bandwidth(platform: Platform, names: Collection[str], share: float) -> Platform:
    """Return the platform whose devices have a share of their bandwidth, in (0, 1].

    Scales that of activations and of weights in kernel figures, and that of the datasheet,
    including cached data, which figures do not separate. The digest is kept. O(P).
    """
    devices = {
        name: _slower(spec, share) if name in names else spec
        for name, spec in platform.devices.items()
    }
    return replace(platform, devices=devices)


def _slower(spec: DeviceSpec, share: float) -> DeviceSpec:
    kernels = {
        precision: own.times(share, "bandwidth_gbytes_s", "weights_gbytes_s")
        for precision, own in spec.kernels.items()
    }
    return replace(spec, bytes_per_s=spec.bytes_per_s * share, kernels=kernels)


def rescaled(spec: DeviceSpec, base: DeviceSpec, overrides: Collection[str]) -> DeviceSpec:
    """Return `spec`, which is `base` with some keys overridden, with consistent figures."""
    if "kernels" in overrides or not spec.kernels:
        return spec

    def follow(kernels: Mapping[str, KernelFigures]) -> dict[str, KernelFigures]:
        return {
            precision: _follows(figures, precision, spec, base, overrides)
            for precision, figures in kernels.items()
        }

    runtimes = {name: follow(kernels) for name, kernels in spec.runtimes.items()}
    return replace(spec, kernels=follow(spec.kernels), runtimes=runtimes)


def _follows(
    figures: KernelFigures,
    precision: str,
    spec: DeviceSpec,
    base: DeviceSpec,
    overrides: Collection[str],
) -> KernelFigures:
    changes: dict[str, tuple[float, str]] = {}
    peak, was = spec.flops_per_s.get(precision), base.flops_per_s.get(precision)
    if peak is not None and was is not None and peak != was:
        rate = figures.value("rate_tflops") * peak / was
        changes["rate_tflops"] = (
            rate,
            ("scaled by the ratio of the peaks, as the platform overrides it"),
        )
    reached = (
        spec.bytes_per_s * spec.memory_efficiency / (base.bytes_per_s * base.memory_efficiency)
    )
    if reached != 1.0:
        how = "scaled by the ratio of the bandwidths, as the platform overrides it"
        for name in ("bandwidth_gbytes_s", "weights_gbytes_s"):
            changes[name] = figures.value(name) * reached, how
    for name, stated_s in (("launch_us", spec.launch_s), ("dispatch_us", spec.dispatch_s)):
        if name in overrides:
            changes[name] = max(stated_s, LEAST_S), "as the platform overrides it"
    if not changes:
        return figures
    derived = {
        name: ("derived", f"{figures.provenance[name][1]}; {how}")
        for name, (_, how) in changes.items()
    }
    changed = figures.having({name: value for name, (value, _) in changes.items()})
    return replace(changed, provenance={**figures.provenance, **derived})
