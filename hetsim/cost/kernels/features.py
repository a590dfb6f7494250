"""What a kernel is, in numbers: one row of features, from which the form tells its seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.cost.model import Kernel
from hetsim.cost.roofline import scale
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.work import Work
from hetsim.graph.work.rule import FORMS as FORMS
from hetsim.graph.work.rule import Product
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
    "read_bytes",  # activations read, as the device holds them
    "write_bytes",  # and written
    "weight_bytes",  # constants read
    "exp_bytes",  # bytes of elements that pass a function like exp on their way
    "largest_read_bytes",  # of a product the operand that its rows are from, else all that is read
    "steps",  # launches one after the other: the length of a recurrent sequence, else 1
    "positions",  # of a convolution the rows of one sample, else 1
)  # fmt: skip
"""Names of a row's columns, in order. Sizes that a form does not have are 1, bytes and FLOP 0."""

COLUMN = {name: index for index, name in enumerate(FEATURES)}
"""Index of a feature in a row, by its name."""

_WHOLE = frozenset({"recurrent", "attention"})


def features(kernel: Kernel, device: DeviceSpec) -> NDArray[np.float64]:
    """Return the row of a kernel on a device: float64 [len(FEATURES)], by `COLUMN`.

    The kernel is what its member with most products is; else what is no elementwise op, and of
    several the heaviest by FLOP, then by bytes, the first of equals. Bytes are those of the types
    in which the device holds tensors, as ``hetsim.cost.roofline.scale`` has it; stored integers
    stay as they are. A kernel that moves and computes nothing, a view, is a row without bytes
    and FLOP. O(members).
    """
    row = row_of(kernel.works, lambda work: scale(device, work), 1.0)
    row[COLUMN["rows"]] *= _served(kernel.works, row, lambda work: scale(device, work))
    return row


def _served(
    works: Sequence[Work], row: NDArray[np.float64], held: Callable[[Work], float]
) -> float:
    """By how many bytes of weights, were they of the arithmetic's type, one stands that is stored.

    A product of few rows waits for its weights: figures say so by the rows and outputs at which
    it reaches its rate. With weights of fewer bits each byte that is loaded serves more.
    """
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
    """Return a row where each byte of a work counts `held`, each of stored integers `integers`.

    For `features` these are bytes on the device; a table counts elements of floats by them.
    """
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
            _FORM[main.form],
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


_FORM = {name: float(index) for index, name in enumerate(FORMS)}
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
