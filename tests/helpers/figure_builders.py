"""Figures of kernels, as a file has them and as records; round numbers of no device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.files.kernels_schema import KernelsModel, KinModel
from hetsim.hardware.kernel_figures import PARAMETERS, KernelFigures
from hetsim.hardware.kin import TRAITS, Kin

VALUES: dict[str, float] = {
    "rate_tflops": 2.0, "pointwise": 0.8, "depthwise": 0.2, "grouped": 0.4, "matmul": 0.9,
    "batched": 0.5, "winograd": 1.3, "fill_columns": 4.0, "fill_depth": 16.0, "fill_rows": 2.0,
    "fill_outputs": 3000.0, "channel_granule": 4.0, "tile_compute": 1.6, "tile_traffic": 1.3,
    "bandwidth_gbytes_s": 50.0, "movement": 1.2, "concat": 0.6,
    "normalization": 2.0, "softmax": 2.5, "transpose": 1.6, "pooling": 1.4, "elementwise": 1.0,
    "resize": 2.7, "exponential": 1.5, "cache_mib": 2.0, "beyond_cache": 0.5,
    "weights_gbytes_s": 40.0, "weights_on_chip_mib": 0.125, "overlap": 2.0, "launch_us": 4.0,
    "launch_other": 0.5, "dispatch_us": 30.0, "io_gbytes_s": 3.0,
}  # fmt: skip
"""In the units of their keys."""
assert tuple(VALUES) == tuple(one.name for one in PARAMETERS)

ERROR: dict[str, Any] = {
    "batch": "1", "networks": 9, "rows": 120, "median": 0.11, "p90": 0.31, "spread": 0.03,
    "sd": 0.17, "common": 0.12,
}  # fmt: skip


def kernels_block(**values: float) -> dict[str, Any]:
    """What stands under one precision of ``kernels:``; `values` replace those of VALUES."""
    return {
        "kin": "test-kin",
        "runtime": "a runtime of tests",
        "source": "made up",
        "parameters": {
            "value": {**VALUES, **values},
            "status": "fitted",
            "source": "made up for tests",
        },
        "errors": [dict(ERROR)],
    }


def figured_card(folder: Path) -> Path:
    """A platform of one device with figures of its kernels, as a file."""
    own = yaml.safe_load((catalog_folder() / "nvidia-t4.yaml").read_text("utf-8"))
    own["kernels"] = {"float32": kernels_block()}
    path = folder / "figured.yaml"
    path.write_text(yaml.safe_dump({"host": "card", "devices": {"card": {"device": own}}}), "utf-8")
    return path


def kernel_figures(precision: str = "float32", **values: float) -> KernelFigures:
    """The same as a record; `values` are in the units of their keys."""
    return KernelsModel.model_validate(kernels_block(**values)).to_figures(precision)


Told = Sequence[tuple[str, int, int, float, Sequence[float]]]
"""Networks of a kin: name, batch, devices, effect, traits."""

NETWORKS: Told = (
    ("anet", 1, 4, 0.3, [0.1 * index for index in range(len(TRAITS))]),
    ("bnet", 8, 1, -0.2, [1.0] * len(TRAITS)),
)


def kin_block(networks: Told = NETWORKS, **likeness: float) -> dict[str, Any]:
    """What the file of a kin has; `likeness` replaces numbers of that entry."""
    # Of networks at larger batches nobody asks here: those of one sample are the same.
    lines = (
        " ".join(
            map(str, (name, batch, devices, float(effect), *map(float, traits)))
            if batch == 1
            else map(str, (name, batch, devices, float(effect), *map(float, (*traits, *traits))))
        )
        for name, batch, devices, effect, traits in networks
    )
    return {
        "runtime": "a runtime of tests",
        "source": "made up",
        "activation_bytes": 4.0,
        "weight_bytes": 4.0,
        "mean": {"value": dict(VALUES), "status": "fitted", "source": "made up for tests"},
        "likeness": {
            "sd": 0.25, "shared": 0.6, "length": 0.45, "noise": 0.1, **likeness,
            "networks": "\n".join(lines),
        },
    }  # fmt: skip


def kin_record(networks: Told = NETWORKS, **likeness: float) -> Kin:
    """The same as a record."""
    return KinModel.model_validate(kin_block(networks, **likeness)).to_kin("test-kin")
