"""Devices as if they computed float models in another precision: quantized, or in half."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetsim.errors import UsageError, nearest
from hetsim.hardware.spec import FLOATS, DeviceSpec, Platform, standing_for

PRECISIONS = ("float16", "bfloat16", "float32", "int8")
"""What floats can be computed in: the floats, and symmetric 8-bit integers scaled by tensor."""

INT8 = "int8"


def executing(spec: DeviceSpec, precision: str, where: str) -> DeviceSpec:
    """Return the device as it computes float models in `precision`.

    In a float type all floats are computed and held in it. In int8 the ops of
    ``spec.quantized`` are; the others stay in the float type that is the device's own, where it
    has one.

    Raises
    ------
    UsageError
        For an unknown precision, one without a peak, or int8 without integer kernels.
    """
    if precision not in PRECISIONS:
        raise UsageError(
            f"models cannot be executed in '{precision}'",
            where=where,
            hint=nearest(precision, PRECISIONS),
        )
    if precision not in spec.flops_per_s:
        rated = [name for name in PRECISIONS if name in spec.flops_per_s]
        raise UsageError(
            f"it has no rate for {precision} ({spec.name} has {', '.join(spec.flops_per_s)})",
            where=where,
            hint=f"choose from: {', '.join(rated)}" if rated else "leave it in its own precision",
        )
    if precision != INT8:
        types = {name: precision for name in FLOATS if name != precision}
        return replace(spec, executes=precision, execution_dtype=types)
    if not spec.quantized:
        raise UsageError(
            f"it computes no op in integers: 'quantized' of {spec.name} is empty",
            where=where,
            hint="name them in its description",
        )
    return replace(spec, executes=INT8)


def platform_executing(platform: Platform, execute: Mapping[str, str]) -> Platform:
    """Return the platform whose devices named in `execute` compute float models so.

    ``gpu`` stands for all of ``gpu.0``, ``gpu.1``. The platform stays the one that was read: its
    digest is kept. Raises UsageError for an unknown device, and as ``executing`` does.
    """
    devices = dict(platform.devices)
    for name, precision in execute.items():
        where = f" on platform '{platform.name}' to execute in {precision}"
        for one in standing_for(name, devices, where):
            devices[one] = executing(devices[one], precision, f"device '{one}'")
    return replace(platform, devices=devices)


def executed(platform: Platform) -> dict[str, str]:
    """Return the precision, by device, that float models are executed in as if; others are out."""
    return {
        name: spec.executes for name, spec in platform.devices.items() if spec.executes is not None
    }
