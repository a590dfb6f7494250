"""What the formula leaves of measured kernels: a smooth factor by their geometry.

A device that was measured kernel by kernel (``hetsim calibrate``) says, beside its parameters, how
far kernels of each form were from the formula: a runtime's tiles, layouts and thresholds, which
no parameter stands for. The logarithm of the factor is linear in those of sizes, plus a sum of
bells around kernels that were measured; beyond where any were it stays as it is at the end.

Source: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006,
section 8.3.1 (subset of regressors).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.cost.kernels.features import COLUMN, FORMS
from hetsim.hardware.kernel_correction import COORDINATES, Correction

_ITEM_BYTES = 4.0
_LEAST_WEIGHTS = 2.0**18
"""Below, all weights are in the nearest cache."""

_LIMIT = np.log(100.0)
"""Of the logarithm of a factor: what is beyond is no correction."""


def coordinates(
    rows: NDArray[np.float64], weight_bytes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return where kernels lie: float array [kernels, `COORDINATES`], most in octaves.

    Parameters
    ----------
    rows : float array [kernels, FEATURES]
    weight_bytes : float array [kernels]
        All weights of the model that each is a kernel of.
    """

    def column(name: str) -> NDArray[np.float64]:
        return np.maximum(rows[:, COLUMN[name]], 0.0)

    def octaves(size: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.log2(np.maximum(size, 1.0)), dtype=np.float64)

    def padding(size: NDArray[np.float64], granule: int) -> NDArray[np.float64]:
        least = np.maximum(size, 1.0)
        return np.asarray(4 * np.log2(np.ceil(least / granule) * granule / least), dtype=np.float64)

    window = np.maximum(column("window_h") * column("window_w"), 1.0)
    channels = np.maximum(column("depth") / window, 1.0)
    groups = np.maximum(column("groups"), 1.0)
    # The channels of all groups lie side by side, and are padded together.
    own = rows[:, COLUMN["form"]] == FORMS.index("depthwise")
    columns = column("columns") * np.where(own, groups, 1.0)
    inner = channels * np.where(own, groups, 1.0)
    written = np.maximum(column("write_bytes"), _ITEM_BYTES)
    others = column("read_bytes") - column("largest_read_bytes")
    found = {
        "rows": octaves(column("rows")),
        "columns": octaves(column("columns")),
        "channels": octaves(channels),
        "window": octaves(window),
        "tallness": octaves(column("window_h")) - octaves(column("window_w")),
        "groups": octaves(groups),
        "stride": octaves(column("stride")),
        "dilation": octaves(column("dilation")),
        "columns_by_64": padding(columns, 64),
        "columns_by_16": padding(columns, 16),
        "channels_by_16": padding(inner, 16),
        "channels_by_4": padding(inner, 4),
        "exponential": 4 * np.log2(1 + column("exp_bytes") / written),
        "others": 2 * np.log2(1 + others / written),
        "read": octaves(column("largest_read_bytes")),
        "written": octaves(written),
        "weights": octaves(column("weight_bytes")),
        "model": octaves(np.maximum(weight_bytes, _LEAST_WEIGHTS)),
        "steps": octaves(column("steps")),
    }
    return np.stack([found[name] for name in COORDINATES], axis=1)


def factors(
    corrections: Sequence[Correction], rows: NDArray[np.float64], weight_bytes: float
) -> NDArray[np.float64]:
    """Return by what the seconds of kernels are multiplied: float array [kernels], 1 without any.

    `weight_bytes` are all weights of the model that they are kernels of.

    O(kernels * centres).
    """
    found = np.ones(len(rows))
    if not corrections:
        return found
    forms = rows[:, COLUMN["form"]].astype(np.int64)
    for one in corrections:
        chosen = np.flatnonzero(forms == FORMS.index(one.form))
        if len(chosen):
            found[chosen] = np.exp(
                np.clip(_log_factor(one, rows[chosen], weight_bytes), -_LIMIT, _LIMIT)
            )
    return found


def _log_factor(
    one: Correction, rows: NDArray[np.float64], weight_bytes: float
) -> NDArray[np.float64]:
    used = [COORDINATES.index(axis.name) for axis in one.coordinates]
    scales = np.array([axis.scale for axis in one.coordinates])
    places = coordinates(rows, np.full(len(rows), weight_bytes))[:, used]
    places = np.clip(
        places,
        [axis.low for axis in one.coordinates],
        [axis.high for axis in one.coordinates],
    )
    found = one.offset + places @ np.array([axis.slope for axis in one.coordinates])
    if one.centres:
        found = found + bell(places / scales, np.array(one.centres) / scales) @ np.array(
            one.weights
        )
    return np.asarray(found, dtype=np.float64)


def bell(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``exp(-|a - b|^2 / 2)`` of all pairs: float array [len(a), len(b)]."""
    apart = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2.0 * (a @ b.T)
    return np.asarray(np.exp(-0.5 * np.maximum(apart, 0.0)), dtype=np.float64)
