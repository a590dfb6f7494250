"""A platform whose devices get a part of their bandwidth, as others draw on the same memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hetsim.hardware.spec import DeviceSpec, Platform


def at_bandwidth(platform: Platform, names: Collection[str], share: float) -> Platform:
    """Return the platform with devices that have a share of their bandwidth, in (0, 1].

    That of activations and of weights by the figures of kernels, and that of the datasheet. What
    stays in caches is slowed down alike: figures do not tell it apart. The digest is kept. O(P).
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
