"""Which figures of a device price which element type, and which of them most of a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hetsim.cost.kernels.as_fitted import mostly_integers
from hetsim.cost.roofline import instead
from hetsim.graph.graph import ITEM_BITS, Graph
from hetsim.graph.work import Work
from hetsim.hardware.executing import INT8
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.spec import DeviceSpec


def figures_for(device: DeviceSpec, dtype: str) -> tuple[KernelFigures, str]:
    """Return the figures that price arithmetic in `dtype`, and what had to be assumed.

    Those of the type; where the device has no peak for it those of the type in which it is
    computed instead; else those of the nearest type, with the rate by the ratio of the peaks: of
    floats for floats and of integers for integers where there are some, then by size, then the
    wider. On a device that executes in another precision, integers are priced by the figures of
    that precision. The device has figures of one precision at least. O(precisions).
    """
    known = device.kernels
    if dtype in known:
        return known[dtype], ""
    asked = device.executes
    if asked is not None and asked in known and "float" not in dtype:
        # Fitted to whole networks in that precision, whose indices and masks are in them.
        return known[asked], ""
    used = dtype if dtype in device.flops_per_s else instead(device, dtype)
    if used in known:
        return known[used], f"no {dtype} peak, taken as {used}"
    bits = ITEM_BITS.get(used, 32)
    nearest = min(
        known,
        key=lambda name: (
            ("float" in name) != ("float" in used),
            abs(math.log2(ITEM_BITS[name] / bits)),
            -ITEM_BITS[name],
            name,
        ),
    )
    peak = device.flops_per_s.get(nearest)
    if peak is None:
        return known[nearest], f"no {dtype} figures, taken as {nearest}"
    how = f"rate of {nearest} by the ratio of the datasheet's peaks"
    return with_rate(known[nearest], device.flops_per_s[used] / peak, how), (
        f"no {dtype} figures, those of {nearest} with the rate by the datasheet's peaks"
    )


def with_rate(figures: KernelFigures, ratio: float, how: str) -> KernelFigures:
    """Return the figures with the rate times `ratio`, which `how` says where from."""
    return replace(
        figures.times(ratio, "rate_tflops"),
        provenance={**figures.provenance, "rate_tflops": ("derived", how)},
    )


def executed_dtype(device: DeviceSpec, works: Sequence[Work]) -> str:
    """Return the type in which a device does most of the arithmetic of `works`, by FLOP.

    Where there is none, that of the first. Of equals the first. O(members).
    """
    flops: dict[str, int] = {}
    for work in works:
        flops[work.dtype] = flops.get(work.dtype, 0) + work.flops
    dtype = max(flops, key=flops.__getitem__, default="float32")
    return device.execution_dtype.get(dtype, dtype)


def model_figures(device: DeviceSpec, graph: Graph, works: Sequence[Work]) -> KernelFigures | None:
    """Return the figures by which a device does most of a graph; None where it has none at all.

    Those of int8 where it executes so, or computes quantized ops and most of the graph's products
    are in integers. O(V + E).
    """
    if not device.kernels:
        return None
    integers = device.executes == INT8 or mostly_integers(graph, device)
    return figures_for(device, INT8 if integers else executed_dtype(device, works))[0]
