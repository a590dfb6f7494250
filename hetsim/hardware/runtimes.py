"""Devices by the figures of one runtime, of those that they were measured in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetsim.errors import UsageError, nearest
from hetsim.hardware.spec import DeviceSpec, Platform, standing_for

EVERY = "*"
"""The name that stands for every device of a platform that was measured in a runtime."""


def by_runtime(spec: DeviceSpec, runtime: str, where: str) -> DeviceSpec:
    """Return the device by its figures of `runtime`; that of its figures now is the other one's.

    Raises UsageError where it was not measured in that runtime, with those that it was.
    """
    if runtime == spec.runtime:
        return spec
    if runtime not in spec.runtimes:
        known = runtimes_of(spec)
        raise UsageError(
            f"{spec.name} has no figures by runtime '{runtime}'",
            where=where,
            hint=nearest(runtime, known) if known else "it has figures of no runtime",
        )
    others = {name: kernels for name, kernels in spec.runtimes.items() if name != runtime}
    if spec.runtime:
        others[spec.runtime] = spec.kernels
    return replace(spec, kernels=spec.runtimes[runtime], runtime=runtime, runtimes=others)


def runtimes_of(spec: DeviceSpec) -> tuple[str, ...]:
    """Return the runtimes that a device has figures by, the one of its figures now first."""
    return (*((spec.runtime,) if spec.runtime else ()), *sorted(spec.runtimes))


def platform_by_runtime(platform: Platform, runtime: Mapping[str, str]) -> Platform:
    """Return the platform with devices by the figures of the runtimes that `runtime` names.

    ``gpu`` stands for all of ``gpu.0``, ``gpu.1``, and `EVERY` for all devices that have figures by
    the runtime. The platform stays the one that was read: its digest is kept.

    Raises
    ------
    UsageError
        For an unknown device, and a runtime that it has no figures by.
    """
    devices = dict(platform.devices)
    for name, wanted in runtime.items():
        if name == EVERY:
            chosen = tuple(one for one in devices if wanted in runtimes_of(devices[one]))
            if not chosen:
                known = sorted({each for spec in devices.values() for each in runtimes_of(spec)})
                raise UsageError(
                    f"no device of platform '{platform.name}' has figures by runtime '{wanted}'",
                    hint=nearest(wanted, known) if known else "leave --runtime out",
                )
        else:
            chosen = standing_for(name, devices, f" on platform '{platform.name}'")
        for one in chosen:
            devices[one] = by_runtime(devices[one], wanted, f"device '{one}'")
    by = {**platform.runtime, **runtime}
    return replace(platform, devices=devices, runtime=by)
