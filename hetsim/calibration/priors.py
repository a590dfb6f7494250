"""What is known of a processor before it is measured: each parameter, and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.kernel_figures import INDEX, PARAMETERS

_COMMON: Mapping[str, tuple[float, float]] = {
    "rate_tflops": (0.1, 1.5),
    "pointwise": (1.0, 0.4),
    "depthwise": (0.3, 0.8),
    "grouped": (0.5, 0.7),
    "matmul": (1.0, 0.5),
    "batched": (0.7, 0.7),
    "winograd": (1.0, 0.25),
    "fill_columns": (4.0, 1.2),
    "fill_depth": (8.0, 1.2),
    "fill_rows": (2.0, 1.2),
    "fill_outputs": (200.0, 1.2),
    "channel_granule": (1.0, 1.0),
    "bandwidth_gbytes_s": (30.0, 0.7),
    "movement": (1.3, 0.7),
    "concat": (1.0, 0.5),
    "normalization": (2.0, 0.5),
    "softmax": (2.0, 0.8),
    "transpose": (1.6, 0.8),
    "pooling": (1.3, 0.8),
    "elementwise": (1.0, 0.6),
    "resize": (4.0, 1.0),
    "exponential": (2.0, 0.7),
    "cache_mib": (4.0, 1.2),
    "beyond_cache": (0.5, 0.5),
    "weights_gbytes_s": (20.0, 0.7),
    "weights_on_chip_mib": (4.0, 1.2),
    "overlap": (1.8, 0.4),
    "launch_us": (2.0, 1.0),
    "launch_other": (0.8, 0.8),
    "dispatch_us": (8.0, 1.0),
    "io_gbytes_s": (20.0, 1.0),
}
"""In the units of the YAML keys: the middle, and the deviation of its logarithm."""

_LEFT_OUT = 0.01

_ACCELERATOR: Mapping[str, tuple[float, float]] = {
    "rate_tflops": (5.0, 2.5),
    "fill_outputs": (20000.0, 2.0),
    "bandwidth_gbytes_s": (200.0, 2.0),
    "weights_gbytes_s": (200.0, 2.0),
    "launch_us": (4.0, 1.5),
    "dispatch_us": (40.0, 1.5),
    "io_gbytes_s": (6.0, 1.5),
}


def prior(provider: str, threads: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middles and the deviations of the logarithms of all parameters, in SI units."""
    given = dict(_COMMON)
    if provider not in ("cpu", "xnnpack"):
        given |= _ACCELERATOR
    mean, deviation = np.zeros(len(PARAMETERS)), np.zeros(len(PARAMETERS))
    for one in PARAMETERS:
        # What processors have none of stays as if it were left out.
        middle, off = given.get(one.name, (one.neutral or 1.0, _LEFT_OUT))
        mean[INDEX[one.name]] = math.log(one.si(middle))
        deviation[INDEX[one.name]] = off
    if provider in ("cpu", "xnnpack"):
        mean[INDEX["rate_tflops"]] += math.log(threads)
    return mean, deviation
