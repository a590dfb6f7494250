"""Kernel time by a device's figures: one formula of physical terms.

A kernel does arithmetic, moves activations and reads weights, partly at once, and is launched::

    seconds = (arithmetic^p + activations^p + weights^p)^(1/p) + launch         p: overlap

- *Arithmetic*, of products alone: FLOP over the rate of a dense convolution that fills the device,
  times the relative rate of the kernel's form, times what Winograd's algorithm gains on 3x3
  convolutions of stride 1 (less with few channels and few positions, as its transforms are paid by
  them). The relative rate of matrix products is to the power ``rows / (rows + half)``, as one with
  a vector waits for its weights; that of grouped convolutions to ``32 / (32 + columns)``, as a
  group of many channels is a dense convolution. A product that does not fill the device is slower
  by ``1 + half / size`` for each of its sizes: half of the rate at ``size = half``, all of it far
  beyond. ``columns``: lanes of output channels. ``depth``: pipelines that fill and drain for each
  sum. ``rows``: weights that are loaded for few rows, the matrix times one vector. ``outputs``:
  cores that wait as there are fewer tiles than cores; this one is what tells batch 1 from bulk.
  ``channel_granule``: input channels that are padded. Depthwise convolutions have one channel a
  sum: of these only rows and outputs are for them, the rest is in their relative rate. Units that
  hold maps in tiles of 8 x 8 positions and 32 channels also compute what pads the last ones:
  ``padding ^ tile``, where padding is the positions of one image, square, times the channels in and
  out, each up to whole tiles over what it is, and tile 0 where that costs nothing, 1 where it costs
  as much.
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
``nhwc-8h8w32c`` in Apache TVM's ``topi/hexagon``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.cost.model import Kernel
from hetsim.cost.roofline import scale
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.work import Work
from hetsim.graph.work.rule import FORMS as FORMS
from hetsim.graph.work.rule import Product
from hetsim.hardware.kernel_figures import COORDINATES, INDEX, PARAMETERS, Correction
from hetsim.hardware.spec import DeviceSpec

PRODUCTS = FORMS[: FORMS.index("normalization")]
"""Forms whose ``flops`` are those of a product of ``rows``, ``columns`` and ``depth``."""

FEATURES = (
    "form",  # index into FORMS
    "flops",  # of products alone, 1 MAC = 2 FLOP, of several the sum; 0 for other forms. Attention
    # and recurrent layers count whole
    "rows",  # M: positions that share weights, batch included
    "columns",  # N: results at each of them, a group
    "depth",  # K: terms of each sum
    "groups",  # G: products of that size; for batched ones batch included
    "window_h", "window_w", "stride", "dilation",  # of a convolution or pooling, else 1
    "read_bytes",  # activations read, in the device's storage
    "write_bytes",  # and written
    "weight_bytes",  # constants read
    "exp_bytes",  # bytes of elements that pass a function like exp on their way
    "largest_read_bytes",  # the rows' operand of a product, else all inputs
    "steps",  # sequential launches: the length of a recurrent sequence, else 1
    "positions",  # of a convolution the rows of one sample, else 1
)  # fmt: skip
"""Names of a row's columns, in order. Sizes that a form lacks are 1, bytes and FLOP 0."""

COLUMN = {name: index for index, name in enumerate(FEATURES)}
"""Index of a feature in a row, by name."""

_WHOLE = frozenset({"recurrent", "attention"})


def features(kernel: Kernel, device: DeviceSpec) -> NDArray[np.float64]:
    """Return the row of a kernel on a device: float64 [len(FEATURES)], by `COLUMN`."""
    row = row_of(kernel.works, lambda work: scale(device, work), 1.0)
    row[COLUMN["rows"]] *= _served(kernel.works, row, lambda work: scale(device, work))
    return row


def _served(
    works: Sequence[Work], row: NDArray[np.float64], held: Callable[[Work], float]
) -> float:
    """Return the bytes in the arithmetic's type per stored byte of weights."""
    if not any(work.integer_bytes for work in works):
        return 1.0
    main = max(works, key=_weight)
    if main.form not in PRODUCTS or "float" not in main.dtype:
        return 1.0
    weights = row[COLUMN["columns"]] * row[COLUMN["depth"]] * row[COLUMN["groups"]]
    loaded = row[COLUMN["weight_bytes"]]
    wide = weights * _item_bytes(main) * held(main)
    return float(max(1.0, wide / loaded)) if loaded else 1.0


def row_of(
    works: Sequence[Work], held: Callable[[Work], float], integers: float
) -> NDArray[np.float64]:
    """Return a row with `held` bytes per byte of a work, and `integers` per byte of integers."""
    read = written = weights = exps = flops = 0.0
    for work in works:
        each = held(work)
        read += work.read_bytes * each
        written += work.write_bytes * each
        weights += (work.weight_bytes - work.integer_bytes) * each + work.integer_bytes * integers
        exps += work.exp_elements * _item_bytes(work) * each
        flops += _product_flops(work)
    main = max(works, key=_weight) if works else _NOTHING
    sizes = main.product if main.product is not None else _NO_SIZES
    operand = read
    if main.form in PRODUCTS:
        operand = sizes.operand_elements * _item_bytes(main) * held(main)
    window = (1, 1, *sizes.window)
    return np.array(
        (
            _FORM_INDEX[main.form],
            flops,
            max(1, sizes.rows),
            max(1, sizes.columns),
            max(1, sizes.depth),
            max(1, sizes.groups),
            window[-2],
            window[-1],
            sizes.strides[0] if sizes.strides else 1,
            sizes.dilations[0] if sizes.dilations else 1,
            read,
            written,
            weights,
            exps,
            operand,
            sizes.steps,
            max(1, sizes.positions),
        ),
        dtype=np.float64,
    )


_FORM_INDEX = {name: float(index) for index, name in enumerate(FORMS)}
_NO_SIZES = Product("other", 1, 1, 1, 1)
_NOTHING = Work(0, 0, 0, 0, "other", "float32", True)


def _weight(work: Work) -> tuple[int, bool, int, int]:
    moved = work.read_bytes + work.write_bytes + work.weight_bytes
    return _product_flops(work), work.form != "elementwise", work.flops, moved


def _product_flops(work: Work) -> int:
    if work.form in _WHOLE:
        return work.flops
    return 2 * work.product.macs if work.form in PRODUCTS and work.product is not None else 0


def _item_bytes(work: Work) -> float:
    return ITEM_BITS.get(work.dtype, 8) / 8


LEAST_STREAMED = 0.03
"""Share of the weights that is read at every run even if all of them stay on the chip."""

TILE_SIDE, TILE_CHANNELS = 8.0, 32.0
"""Positions along each side of a tile, and its channels, on units with tiled maps."""

GROUP_CHANNELS = 32.0
"""Output channels of a group at which a grouped convolution is halfway to a dense one."""

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
"""Parameter of each form's rate relative to others of its sort; dense and transposed have none.
That of concat multiplies movement."""
_RELATIVE_OF = tuple(INDEX[RELATIVE[form]] if form in RELATIVE else -1 for form in FORMS)

_PRODUCTS = len(PRODUCTS)
_DENSE, _DEPTHWISE = FORMS.index("dense"), FORMS.index("depthwise")
_GROUPED, _MATMUL = FORMS.index("grouped"), INDEX["matmul"]
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
"""Number of terms from which libraries use Winograd; channels and positions at which its gain is
half; exponent of the gain where both are large."""

Parts = tuple[float, float, float, float, float]
"""Seconds of a kernel: total, arithmetic, activations, weights, launch."""


def kernel_parts(
    values: Sequence[float] | NDArray[np.float64],
    row: Sequence[float] | NDArray[np.float64],
    streamed: float,
    slopes: Any = None,
    count: float = 1.0,
) -> Parts:
    """Return the seconds of one kernel and its components."""
    form = int(row[_FORM])
    product = form < _PRODUCTS
    relative = _RELATIVE_OF[form]
    granule = values[_GRANULE]

    arithmetic = 0.0
    columns = depth = channels = rows = outputs = winograd = 0.0
    inputs = shares = 1.0
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
            if form == _GROUPED:
                shares = GROUP_CHANNELS / (GROUP_CHANNELS + row[_COLUMNS])
            elif relative == _MATMUL:
                shares = 1.0 / (1.0 + rows)
            rate *= values[relative] ** shares
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
            # Octaves of padding to whole tiles.
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
            # Doubling multiplies the seconds by a power of two with the parameter as exponent.
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
            # Derivatives of busy by the logarithm of each of its three parts, which sum to it.
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
                    slopes[relative] -= of_arithmetic * shares
                if relative == _MATMUL:
                    slopes[_FILL_ROWS] += (
                        of_arithmetic * shares * (1.0 - shares) * math.log(values[relative])
                    )
                slopes[_WINOGRAD] -= of_arithmetic * winograd
                slopes[_FILL_COLUMNS] += of_arithmetic * columns / (1.0 + columns)
                slopes[_FILL_DEPTH] += of_arithmetic * depth / (1.0 + depth)
                slopes[_FILL_ROWS] += of_arithmetic * rows / (1.0 + rows)
                slopes[_FILL_OUTPUTS] += of_arithmetic * outputs / (1.0 + outputs)
                slopes[_GRANULE] += of_arithmetic * channels / (1.0 + channels)
                slopes[_TILE_COMPUTE] += of_arithmetic * tile_work
            slopes[_BANDWIDTH] -= of_activations
            if activations > 0.0:
                # Derivatives of activations by the logarithms of passed and of through: shares.
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
    """Return the share of a model's weights that every run reads from memory.

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


_ITEM_BYTES = 4.0
_LEAST_WEIGHTS = 2.0**18
"""Weight bytes below which all weights are in the nearest cache."""

_LIMIT = np.log(100.0)
"""Maximum log factor of a correction."""


def coordinates(
    rows: NDArray[np.float64], weight_bytes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the coordinates of kernels: float array [kernels, `COORDINATES`], mostly octaves."""

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
    # The channels of all groups are adjacent and padded together.
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
    """Return the factors on the seconds of kernels: float array [kernels], 1 without any."""
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
