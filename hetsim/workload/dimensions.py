"""Dimensions of a model that differ from request to request, as a trace says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from hetsim.core.checks import one_of, sequence, text, whole
from hetsim.errors import InvalidInput, WorkloadError
from hetsim.workload.traces.reading import MAX_VALUE
from hetsim.workload.traces.trace import Trace

Above = Literal["error", "truncate"]
ABOVES: tuple[Above, ...] = ("error", "truncate")
MAX_VARIANTS = 256
"""Bindings of one model: each is priced and planned."""


@dataclass(frozen=True, slots=True)
class Follows:
    """A dimension that is as large as a column of the trace says, up to the next bucket.

    Attributes
    ----------
    column : str
    buckets : tuple of int
        Sizes that the model is prepared for, ascending; a request takes the least that holds it.
    above : "error" or "truncate"
        Of a request that none holds: whether it is refused or cut to the largest.
    """

    column: str
    buckets: tuple[int, ...]
    above: Above = "error"

    def __post_init__(self) -> None:
        text(self.column, "column")
        one_of(*ABOVES)(self.above, "above")
        sequence(whole(1, MAX_VALUE))(self.buckets, "buckets")
        pairs = zip(self.buckets, self.buckets[1:], strict=False)
        if not self.buckets or any(a >= b for a, b in pairs):
            raise InvalidInput("buckets do not ascend", hint="write e.g. [128, 512, 2048]")

    def bucket_of(self, trace: Trace) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return which bucket each request takes, int64[requests].

        Raises WorkloadError where one fits none and is not to be cut.
        """
        sizes = trace.columns[self.column]
        which = np.searchsorted(np.asarray(self.buckets), sizes)
        if self.above == "error":
            over = np.flatnonzero(which == len(self.buckets))
            if over.size:
                raise WorkloadError(
                    f"'{self.column}' is above the largest bucket, {self.buckets[-1]}, in "
                    f"{over.size} of {len(sizes)} requests, up to {sizes.max()}",
                    hint="add a bucket, or write above: truncate",
                )
        return np.minimum(which, len(self.buckets) - 1)


Dims = Mapping[str, "int | Follows"]
"""By dimension: a size, or what it follows."""


def variants(dims: Dims) -> tuple[dict[str, int], ...]:
    """Return every binding of the dimensions that may occur; the last one differs fastest.

    Raises InvalidInput where there are more than MAX_VARIANTS.
    """
    choices: list[Sequence[int]] = [
        given.buckets if isinstance(given, Follows) else (given,) for given in dims.values()
    ]
    count = int(np.prod([len(one) for one in choices], dtype=np.float64))
    if count > MAX_VARIANTS:
        raise InvalidInput(
            f"{count} bindings of the dimensions, above {MAX_VARIANTS}", hint="write fewer buckets"
        )
    return tuple(dict(zip(dims, sizes, strict=True)) for sizes in product(*choices))


def variant_of(dims: Dims, trace: Trace) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return which of ``variants(dims)`` each request of a trace is, int64[requests]."""
    found = np.zeros(len(trace.arrival_s), dtype=np.int64)
    for given in dims.values():
        if isinstance(given, Follows):
            found = found * len(given.buckets) + given.bucket_of(trace)
    return found
