"""What a kernel is, in numbers: one row of features, from which the form tells its seconds."""

from __future__ import annotations

FORMS = (
    "dense", "pointwise", "depthwise", "grouped", "transposed", "matmul", "batched", "recurrent",
    "attention", "normalization", "softmax", "pooling", "reduction", "elementwise", "movement",
    "transpose", "resize", "gather", "other",
)  # fmt: skip
"""What kernels are told apart by. The first are products, as ``graph.work.geometry`` has them:
convolutions with a window, without one (1x1), one input channel a group, several of them, and
transposed; matrix products by weights, and of two activations; recurrent layers, step by step;
attention as one op. The others are bound by what they move: normalization over channels, softmax,
pooling, reductions, elementwise ops, copies (Concat, Slice, Split, Pad, Expand), copies in another
order (Transpose, DepthToSpace), resampling, indexed reads, and the rest."""

PRODUCTS = FORMS[: FORMS.index("normalization")]
"""Forms whose ``flops`` are those of a product of ``rows``, ``columns`` and ``depth``."""

FEATURES = (
    "form",  # index into FORMS
    "flops",  # of the product alone, 1 MAC = 2 FLOP; 0 for other forms
    "rows",  # M: positions that share weights, batch included
    "columns",  # N: results at each of them, a group
    "depth",  # K: terms of each sum
    "groups",  # G: products of that size; for batched ones batch included
    "window_h", "window_w", "stride", "dilation",  # of a convolution or pooling, else 1
    "read_bytes",  # activations read, as the device holds them
    "write_bytes",  # and written
    "weight_bytes",  # constants read
    "exp_bytes",  # bytes of elements that pass a function like exp on their way
    "largest_read_bytes",  # the largest of the activations that are read
    "steps",  # launches one after the other: the length of a recurrent sequence, else 1
)  # fmt: skip
"""Names of a row's columns, in order. Sizes that a form does not have are 1, bytes and FLOP 0."""

COLUMN = {name: index for index, name in enumerate(FEATURES)}
"""Index of a feature in a row, by its name."""
