"""Platforms that stand for the chips of the rows."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import yaml

import hetsim
from hetsim.hardware.spec import Platform

CATALOG = {
    "Intel Core Ultra 7 165H": "laptop",
    "NVIDIA Jetson AGX Orin": "jetson-agx-orin",
    "NVIDIA Jetson Orin NX": "jetson-orin-nx",
    "QCS6490": "rb3-gen-2",
    "QCS9075": "iq-9075",
    "Snapdragon 8 Gen 3": "snapdragon-phone",
    "Snapdragon X Elite": "snapdragon-laptop",
}
"""Platforms of the catalog, by what rows call the chip; of the 165H that of its sister 155H."""

OWN = {
    "NVIDIA Jetson AGX Xavier": (136.5, None, "nvidia-jetson-agx-xavier-{}", ("gpu", "dla")),
    "NVIDIA Jetson Xavier NX": (59.7, None, "nvidia-jetson-xavier-nx-{}", ("gpu", "dla")),
    "Intel i7-1185G7": (68.3, 28, "intel-core-i7-1185g7-{}", ("cpu", "igpu")),
    "Intel i7-1360P": (83.2, 28, "intel-core-i7-1360p-{}", ("cpu", "igpu")),
}
"""Chips whose units are in the catalog: GB/s of their memory, watts of the package where its
maker states them, and devices; the first is the host."""


@cache
def platform_of(chip: str) -> Platform | None:
    """Return the platform that stands for a chip, or None."""
    if chip in CATALOG:
        return hetsim.load_platform(CATALOG[chip])
    if chip not in OWN:
        return None
    gbytes_s, watts, pattern, units = OWN[chip]
    names = [unit.replace("igpu", "gpu") for unit in units]
    written = {
        "host": names[0],
        **({} if watts is None else {"power_w": watts}),
        "devices": {n: pattern.format(unit) for n, unit in zip(names, units, strict=True)},
        # A copy within one memory, as the shared links of the catalog are.
        "memories": [{"devices": names, "bandwidth_gbytes_s": gbytes_s}],
        "links": [
            {
                "between": names,
                "latency_us": 0.5,
                "bandwidth_gbytes_s": gbytes_s / 2,
                "efficiency": 0.6,
                "duplex": False,
                "bus": "memory",
            }
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "platform.yaml")
        path.write_text(yaml.safe_dump(written), encoding="utf-8")
        return hetsim.load_platform(str(path))
