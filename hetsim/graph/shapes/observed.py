"""Observations of one run of a model: shapes that inference cannot find, branches, trip counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core.text import fields

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of one run of the whole model, or the shapes of inputs if none was needed.

    A node of control flow is identified by its path: its name; within a body the path of the node
    with the body, the body's attribute, and the name, joined by ``/``
    (``outer/then_branch/inner``). The path of a body ends at the attribute. Nodes without a name
    are called ``{op_type}_{position in their body}``.

    `source` is ``random inputs``, ``the inputs given``, or their file; only if `given` are they
    representative. `inputs` has the shape of every tensor among them, `shapes` those of the graph's
    values that inference leaves open. `branches` has ``then_branch`` or ``else_branch``, the one
    taken more often, by path of each If that was run; `trips` the mean iterations of each Loop and
    Scan; `inner` by path of each body the shapes that its nodes write, the largest of all turns.
    """

    source: str
    given: bool
    inputs: Mapping[str, Shape]
    shapes: Mapping[str, Shape] = field(repr=False)
    branches: Mapping[str, str]
    trips: Mapping[str, float]
    inner: Mapping[str, Mapping[str, Shape]] = field(repr=False)


def shapes_of(inputs: Mapping[str, Any]) -> dict[str, Shape]:
    """Return the shapes of the arrays among `inputs`."""
    return {name: array.shape for name, array in inputs.items() if isinstance(array, np.ndarray)}


def observed_record(observed: Observed) -> dict[str, Any]:
    """Return `observed` for JSON, each shape as text ``1,3,224``."""
    return {
        **fields(observed, "source given"),
        "inputs": _texts(observed.inputs),
        "shapes": _texts(observed.shapes),
        "branches": dict(sorted(observed.branches.items())),
        "trips": dict(sorted(observed.trips.items())),
        "inner": {path: _texts(shapes) for path, shapes in sorted(observed.inner.items())},
    }


def read_observed(record: Mapping[str, Any]) -> Observed:
    """Return the result of parsing `observed_record`. Raises ValueError, KeyError, TypeError."""
    trips = {str(path): float(count) for path, count in record["trips"].items()}
    if not all(0 <= count < float("inf") for count in trips.values()):
        raise ValueError("a number of iterations is invalid")
    branches = {str(path): str(branch) for path, branch in record["branches"].items()}
    if not set(branches.values()) <= {"then_branch", "else_branch"}:
        raise ValueError("a branch is invalid")
    return Observed(
        source=str(record["source"]),
        given=bool(record["given"]),
        inputs=_shapes(record["inputs"]),
        shapes=_shapes(record["shapes"]),
        branches=branches,
        trips=trips,
        inner={str(path): _shapes(shapes) for path, shapes in record["inner"].items()},
    )


def array_record(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array for JSON, its values flat."""
    values = array if array.dtype.kind in "biufO" else array.astype(np.float64)
    return {"shape": ",".join(map(str, array.shape)), "values": values.reshape(-1).tolist()}


def read_array(record: Mapping[str, Any]) -> NDArray[Any]:
    """Return the array of an `array_record`; the reader chooses its type."""
    values = record["values"]
    kind = object if any(isinstance(value, str) for value in values) else None
    return np.array(values, kind).reshape(_shape(record["shape"]))


def _texts(shapes: Mapping[str, Shape]) -> dict[str, str]:
    return {name: ",".join(map(str, shape)) for name, shape in sorted(shapes.items())}


def _shapes(record: Mapping[str, str]) -> dict[str, Shape]:
    return {str(name): _shape(text) for name, text in record.items()}


def _shape(text: str) -> Shape:
    shape = tuple(int(size) for size in text.split(",")) if text else ()
    if any(size < 0 for size in shape):
        raise ValueError("a size is below 0")
    return shape
