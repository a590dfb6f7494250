"""Devices as their datasheets alone tell of them: for closed forms of the roofline."""

from __future__ import annotations

from dataclasses import replace

from hetsim.hardware.spec import DeviceSpec, Platform


def by_datasheet(spec: DeviceSpec) -> DeviceSpec:
    """Return a device without its figures of kernels: it is priced by the roofline."""
    return replace(spec, kernels={})


def all_by_datasheet(platform: Platform) -> Platform:
    """Return a platform of such devices."""
    devices = {name: by_datasheet(spec) for name, spec in platform.devices.items()}
    return replace(platform, devices=devices)
