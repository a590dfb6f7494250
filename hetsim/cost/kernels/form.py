r"""The seconds of a kernel by a device's figures: one formula, every term of it something physical.

A kernel does arithmetic, moves activations and reads weights, partly at once, and is launched::

    seconds = (arithmetic^p + activations^p + weights^p)^(1/p) + launch         p: overlap

- *Arithmetic*, of products alone: FLOP over the rate of a dense convolution that fills the
  device, times the relative rate of the kernel's form, times what Winograd's algorithm gains on
  3x3 convolutions of stride 1 (less with few channels and few positions, as its transforms are
  paid by them). A product that does not fill the device is slower by ``1 + half / size`` for each
  of its sizes: half of the rate at ``size = half``, all of it far beyond. ``columns``: lanes of
  output channels. ``depth``: pipelines that fill and drain for each sum. ``rows``: weights that
  are loaded for few rows, the matrix times one vector. ``outputs``: cores that wait as there are
  fewer tiles than cores; this one is what tells batch 1 from bulk. ``channel_granule``: input
  channels that are padded. Depthwise convolutions have one channel a sum: of these only rows and
  outputs are for them, the rest is in their relative rate. Units that hold maps in tiles of 8 x 8
  positions and 32 channels also compute what pads the last ones: ``padding ^ tile``, where
  padding is the positions of one image, square, times the channels in and out, each up to whole
  tiles over what it is, and tile 0 where that costs nothing, 1 where it costs as much.
- *Activations*: bytes read and written, and those that padding of channels adds, times the
  traffic of the form relative to its bytes (1 for products), times ``padding ^ tile`` with a tile
  of its own and the root of the padding of channels, over the bandwidth of near memory;
  dearer by the part that does not stay there, ``bytes / (bytes + cache)``. Elements that pass a
  function like exp cost as ``exponential`` bytes each.
- *Weights*: bytes over their bandwidth, times the share that is streamed at every run: of a model
  whose weights stay on the chip little is.
- *Launch*: a fixed cost, in relation smaller for what is no product; for each step of a
  recurrent layer.

A network takes ``dispatch + io_bytes / io_bandwidth`` and its kernels one after the other.

What the terms were chosen by is told in ``docs/decisions/20-one-formula-for-kernels.md``. Sums of
p-th powers in place of the maximum of a roofline: Williams, Waterman, Patterson, CACM 52(4), 2009,
take p to infinity; p = 1 is one after the other. Half of the rate at a size: R. W. Hockney,
C. R. Jesshope, Parallel Computers 2, 1988, section 1.3.2 (n_1/2). Winograd: A. Lavin, S. Gray,
Fast Algorithms for Convolutional Neural Networks, CVPR 2016. Tiles: Hexagon's layout of bytes,
``nhwc-8h8w32c`` in Apache TVM's ``topi/hexagon``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.cost.kernels.features import COLUMN, FORMS, PRODUCTS
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS

LEAST_STREAMED = 0.03
"""Share of the weights that is read at every run even where all of them stay on the chip."""

TILE_SIDE, TILE_CHANNELS = 8.0, 32.0
"""Positions along each side of a tile, and channels of it, on units that hold maps in tiles."""

_PARAMETERS = len(PARAMETERS)
_RATE, _WINOGRAD = INDEX["rate_tflops"], INDEX["winograd"]
_FILL_COLUMNS, _FILL_DEPTH = INDEX["fill_columns"], INDEX["fill_depth"]
_FILL_ROWS, _FILL_OUTPUTS = INDEX["fill_rows"], INDEX["fill_outputs"]
_GRANULE, _BANDWIDTH, _EXPONENTIAL = (
    INDEX["channel_granule"], INDEX["bandwidth_gbytes_s"], INDEX["exponential"],
)  # fmt: skip
_TILE_COMPUTE, _TILE_TRAFFIC = INDEX["tile_compute"], INDEX["tile_traffic"]
_MOVEMENT = INDEX["movement"]
_CACHE, _BEYOND, _OVERLAP = INDEX["cache_mib"], INDEX["beyond_cache"], INDEX["overlap"]
_WEIGHTS, _ON_CHIP = INDEX["weights_gbytes_s"], INDEX["weights_on_chip_mib"]
_LAUNCH, _LAUNCH_OTHER = INDEX["launch_us"], INDEX["launch_other"]
_DISPATCH, _IO = INDEX["dispatch_us"], INDEX["io_gbytes_s"]

RELATIVE = {
    "pointwise": "pointwise", "depthwise": "depthwise", "grouped": "grouped", "matmul": "matmul",
    "batched": "batched", "recurrent": "matmul", "attention": "batched",
    "normalization": "normalization", "softmax": "softmax", "pooling": "pooling",
    "reduction": "normalization", "elementwise": "elementwise", "movement": "movement",
    "concat": "concat", "transpose": "transpose", "resize": "resize", "gather": "movement",
    "other": "elementwise",
}  # fmt: skip
"""The parameter that tells a form from others of its sort; dense and transposed have none. That
of concat comes on top of movement."""
_RELATIVE_OF = tuple(INDEX[RELATIVE[form]] if form in RELATIVE else -1 for form in FORMS)

_PRODUCTS = len(PRODUCTS)
_DENSE, _DEPTHWISE = FORMS.index("dense"), FORMS.index("depthwise")
_TRANSPOSED, _CONCAT = FORMS.index("transposed"), FORMS.index("concat")
TILED = ("dense", "pointwise", "depthwise", "grouped")
"""Forms whose maps are padded, by granules of channels and by tiles."""
_CONVOLUTION = tuple(form in TILED for form in FORMS)

_FORM, _FLOPS, _ROWS, _COLUMNS = (COLUMN[name] for name in ("form", "flops", "rows", "columns"))
_DEPTH, _GROUPS = COLUMN["depth"], COLUMN["groups"]
_WINDOW_H, _WINDOW_W = COLUMN["window_h"], COLUMN["window_w"]
_STRIDE, _DILATION = COLUMN["stride"], COLUMN["dilation"]
_READ, _WRITE, _WEIGHT = (
    COLUMN["read_bytes"], COLUMN["write_bytes"], COLUMN["weight_bytes"],
)  # fmt: skip
_EXP, _LARGEST, _STEPS = COLUMN["exp_bytes"], COLUMN["largest_read_bytes"], COLUMN["steps"]
_POSITIONS = COLUMN["positions"]

_WINOGRAD_DEPTH, _WINOGRAD_CHANNELS, _WINOGRAD_ROWS, _WINOGRAD_FULL = 72.0, 24.0, 64.0, 1.6
"""Terms of a sum from which libraries use it; channels and positions at which it gains half; the
exponent that it comes to where both are many."""

Parts = tuple[float, float, float, float, float]
"""Seconds of a kernel: the whole, arithmetic, activations, weights, launch."""


def kernel_parts(
    values: Sequence[float] | NDArray[np.float64],
    row: Sequence[float] | NDArray[np.float64],
    streamed: float,
    slopes: Any = None,
    count: float = 1.0,
) -> Parts:
    """Return the seconds of one kernel and what they are made of.

    One source serves two ways: called as it stands on lists and tuples for prices, compiled by
    numba on arrays for fits.

    Parameters
    ----------
    values : sequence of float [PARAMETERS]
        Figures in SI units.
    row : sequence of float [FEATURES]
    streamed : float
        Share of the weights that is read at this run; see ``streamed_share``.
    slopes : float array [PARAMETERS], optional
        `count` times the derivatives of the whole by the logarithm of each parameter are added
        to it, that by ``weights_on_chip_mib`` apart, which is in `streamed`.
    count : float
    """
    form = int(row[_FORM])
    product = form < _PRODUCTS
    relative = _RELATIVE_OF[form]
    granule = values[_GRANULE]

    arithmetic = 0.0
    columns = depth = channels = rows = outputs = winograd = 0.0
    inputs = 1.0
    if product and row[_FLOPS] > 0.0:
        rows = values[_FILL_ROWS] / row[_ROWS]
        outputs = values[_FILL_OUTPUTS] / (row[_ROWS] * row[_COLUMNS] * row[_GROUPS])
        slow = (1.0 + rows) * (1.0 + outputs)
        inputs = row[_DEPTH]
        if form != _TRANSPOSED:
            inputs /= row[_WINDOW_H] * row[_WINDOW_W]
        if form != _DEPTHWISE:
            columns = values[_FILL_COLUMNS] / row[_COLUMNS]
            depth = values[_FILL_DEPTH] / row[_DEPTH]
            channels = granule / inputs
            slow *= (1.0 + columns) * (1.0 + depth) * (1.0 + channels)
        rate = values[_RATE]
        if relative >= 0:
            rate *= values[relative]
        if (
            form == _DENSE
            and row[_WINDOW_H] == 3.0
            and row[_WINDOW_W] == 3.0
            and row[_STRIDE] == 1.0
            and row[_DILATION] == 1.0
            and row[_DEPTH] >= _WINOGRAD_DEPTH
        ):
            winograd = (
                _WINOGRAD_FULL
                / (1.0 + _WINOGRAD_CHANNELS / inputs)
                / (1.0 + _WINOGRAD_CHANNELS / row[_COLUMNS])
                / (1.0 + _WINOGRAD_ROWS / row[_ROWS])
            )
            rate *= values[_WINOGRAD] ** winograd
        arithmetic = row[_FLOPS] / rate * slow

    padding = 0.0
    tile_work = tile_bytes = 0.0
    if _CONVOLUTION[form]:
        if slopes is not None or values[_TILE_COMPUTE] != 1.0 or values[_TILE_TRAFFIC] != 1.0:
            # Octaves by which whole tiles are more.
            own = 1.0
            if form == _DEPTHWISE:
                own = row[_GROUPS]
            side = math.sqrt(row[_POSITIONS])
            whole = TILE_SIDE * math.ceil(side / TILE_SIDE)
            of_positions = 0.0
            if side > 1.0:
                of_positions = 2.0 * math.log2(whole / side)
            made = row[_COLUMNS] * own
            of_made = math.log2(TILE_CHANNELS * math.ceil(made / TILE_CHANNELS) / made)
            taken = inputs * own
            of_taken = math.log2(TILE_CHANNELS * math.ceil(taken / TILE_CHANNELS) / taken)
            tile_work = of_positions + of_made
            if form != _DEPTHWISE:
                tile_work += of_taken
            tile_bytes = of_positions + 0.5 * (of_made + of_taken)
            # Twice as much is so many times the seconds: a power of two of the parameter's own.
            arithmetic *= values[_TILE_COMPUTE] ** tile_work
        # Bytes of one channel of the input, and of one of the output.
        padding = granule * (
            row[_LARGEST] / max(inputs * row[_GROUPS], 1.0)
            + row[_WRITE] / max(row[_COLUMNS] * row[_GROUPS], 1.0)
        )
    moved = row[_READ] + row[_WRITE] + padding
    beyond = 0.0
    if moved > 0.0:
        beyond = moved / (moved + values[_CACHE])
    away = 1.0 / values[_BEYOND] - 1.0
    traffic = 1.0
    if not product:
        traffic = values[relative]
        if form == _CONCAT:
            traffic *= values[_MOVEMENT]
    elif tile_bytes > 0.0:
        traffic = values[_TILE_TRAFFIC] ** tile_bytes
    passed = moved * traffic * (1.0 + beyond * away)
    through = row[_EXP] * values[_EXPONENTIAL]
    activations = (passed + through) / values[_BANDWIDTH]

    weights = row[_WEIGHT] * streamed / values[_WEIGHTS]

    overlap = values[_OVERLAP]
    most = max(arithmetic, activations, weights)
    busy = part_1 = part_2 = part_3 = total = 0.0
    if most > 0.0:
        part_1 = (arithmetic / most) ** overlap
        part_2 = (activations / most) ** overlap
        part_3 = (weights / most) ** overlap
        total = part_1 + part_2 + part_3
        busy = most * total ** (1.0 / overlap)
    launch = values[_LAUNCH] * row[_STEPS]
    if not product:
        launch *= values[_LAUNCH_OTHER]

    if slopes is not None:
        slopes[_LAUNCH] += count * launch
        if not product:
            slopes[_LAUNCH_OTHER] += count * launch
        if most > 0.0:
            # Of busy by the logarithm of each of its three parts; they add up to it.
            scale = count * busy / total
            of_arithmetic, of_activations = scale * part_1, scale * part_2
            slopes[_WEIGHTS] -= scale * part_3
            mixed = 0.0
            if part_1 > 0.0:
                mixed += part_1 * math.log(arithmetic / most)
            if part_2 > 0.0:
                mixed += part_2 * math.log(activations / most)
            if part_3 > 0.0:
                mixed += part_3 * math.log(weights / most)
            slopes[_OVERLAP] += count * busy * (mixed / total - math.log(total) / overlap)
            if product:
                slopes[_RATE] -= of_arithmetic
                if relative >= 0:
                    slopes[relative] -= of_arithmetic
                slopes[_WINOGRAD] -= of_arithmetic * winograd
                slopes[_FILL_COLUMNS] += of_arithmetic * columns / (1.0 + columns)
                slopes[_FILL_DEPTH] += of_arithmetic * depth / (1.0 + depth)
                slopes[_FILL_ROWS] += of_arithmetic * rows / (1.0 + rows)
                slopes[_FILL_OUTPUTS] += of_arithmetic * outputs / (1.0 + outputs)
                slopes[_GRANULE] += of_arithmetic * channels / (1.0 + channels)
                slopes[_TILE_COMPUTE] += of_arithmetic * tile_work
            slopes[_BANDWIDTH] -= of_activations
            if activations > 0.0:
                # Of activations by the logarithm of passed and of through: their shares.
                of_passed = of_activations * passed / (passed + through)
                slopes[_EXPONENTIAL] += of_activations - of_passed
                if product:
                    slopes[_TILE_TRAFFIC] += of_passed * tile_bytes
                else:
                    slopes[relative] += of_passed
                    if form == _CONCAT:
                        slopes[_MOVEMENT] += of_passed
                dear = beyond * away / (1.0 + beyond * away)
                slopes[_CACHE] -= of_passed * dear * (1.0 - beyond)
                slopes[_BEYOND] -= of_passed * beyond / values[_BEYOND] / (1.0 + beyond * away)
                if padding > 0.0:
                    slopes[_GRANULE] += of_passed * (1.0 + dear * (1.0 - beyond)) * padding / moved
    return busy + launch, arithmetic, activations, weights, launch


def streamed_share(on_chip_bytes: float, weight_bytes: float) -> float:
    """Return the share of a model's weights that is read at every run.

    Parameters
    ----------
    on_chip_bytes : float
        Weights that stay on the chip between runs, ``weights_on_chip_mib`` in bytes.
    weight_bytes : float
        All weights of the model, as the device holds them.

    >>> streamed_share(6e6, 24e6), streamed_share(6e6, 4e6)
    (0.75, 0.03)
    """
    if weight_bytes <= 0.0:
        return 1.0
    return max(1.0 - on_chip_bytes / weight_bytes, LEAST_STREAMED)


def kernel_seconds(
    values: Sequence[float] | NDArray[np.float64],
    row: Sequence[float] | NDArray[np.float64],
    streamed: float,
) -> float:
    """Return the seconds of one kernel, launch included; arguments as ``kernel_parts``."""
    return kernel_parts(values, row, streamed)[0]
