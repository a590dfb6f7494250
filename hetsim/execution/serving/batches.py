"""Requests as arrays: put together to a batch, and taken apart again.

A batch of b requests runs as the least planned size that holds it; what is missing is the last
request again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetsim.errors import WorkloadError

if TYPE_CHECKING:
    from hetsim.graph.model import Model

Values = Mapping[str, Any]
Axis = tuple[int, int]
"""Along which dimension, and how many entries of it are of one request."""


@dataclass(frozen=True, slots=True)
class Batching:
    """How arrays of one size of batch are made of those of requests.

    Attributes
    ----------
    size : int
    inputs : mapping of str to Axis or None
        None: all requests share it.
    outputs : mapping of str to Axis or None
        None: it is of the batch as a whole.
    """

    size: int
    inputs: Mapping[str, Axis | None]
    outputs: Mapping[str, Axis | None]

    def joined(self, requests: Sequence[Values]) -> dict[str, Any]:
        """Return the inputs of a batch of these requests, 1 to `size` of them."""
        if self.size == 1:
            return dict(requests[0])
        filled = [*requests, *[requests[-1]] * (self.size - len(requests))]
        return {
            name: requests[0][name]
            if axis is None
            else np.concatenate([one[name] for one in filled], axis=axis[0])
            for name, axis in self.inputs.items()
        }

    def split(self, outputs: Values, count: int) -> list[dict[str, Any]]:
        """Return the outputs of each of `count` requests; those of the whole are of none."""
        if self.size == 1:
            return [dict(outputs)]
        found: list[dict[str, Any]] = [{} for _ in range(count)]
        for name, axis in self.outputs.items():
            if axis is None:
                continue
            for at, one in enumerate(found):
                place: list[slice] = [slice(None)] * axis[0]
                place.append(slice(at * axis[1], (at + 1) * axis[1]))
                one[name] = outputs[name][tuple(place)]
        return found


def batching_of(alone: Model, batch: Model, size: int) -> Batching:
    """Return how a model bound to batches of `size` takes what `alone`, bound to 1, takes.

    Raises WorkloadError where an input or output is no array whose shape tells.
    """
    if size == 1:
        return Batching(1, {}, {})
    return Batching(
        size,
        {name: _axis(alone, batch, name, size, "input") for name in batch.graph.inputs},
        {name: _axis(alone, batch, name, size, "output") for name in batch.graph.outputs},
    )


def _axis(alone: Model, batch: Model, name: str, size: int, what: str) -> Axis | None:
    one, many = alone.graph.tensors[name], batch.graph.tensors[name]
    shapes = one.shape, many.shape
    known = all(
        shape is not None and all(isinstance(dim, int) for dim in shape) for shape in shapes
    )
    if not known or one.measured or many.measured or len(shapes[0] or ()) != len(shapes[1] or ()):
        raise WorkloadError(
            f"{what} '{name}' has no fixed shape, so that batches of it cannot be put together "
            "or taken apart",
            where=batch.source,
            hint="leave dynamic_batching and batch_sizes out",
        )
    a, b = one.static_shape, many.static_shape
    different = [axis for axis in range(len(a)) if a[axis] != b[axis]]
    if not different:
        return None
    if len(different) > 1 or b[different[0]] != size * a[different[0]]:
        raise WorkloadError(
            f"{what} '{name}' is {list(a)} of one request and {list(b)} of {size}, which is not "
            "that many side by side",
            where=batch.source,
            hint="leave dynamic_batching and batch_sizes out, or name another batch_dim",
        )
    return different[0], a[different[0]]
