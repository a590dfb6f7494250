"""Whole float networks as kernel tables, with times and gradients in machine code.

Prices and fits use the same rows: the kernels that ``hetsim.cost.prices`` prices individually on a
device that runs the whole network, here without a device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core.machine_code import machine_code
from hetsim.cost.kernels.formula import (
    COLUMN,
    FEATURES,
    FORMS,
    LEAST_STREAMED,
    PRODUCTS,
    kernel_parts,
    row_of,
    streamed_share,
)
from hetsim.cost.kernels.fusion import Uses, epilogues, joined_kernel
from hetsim.cost.model import Kernel
from hetsim.graph.graph import ITEM_BITS, Graph
from hetsim.graph.work import Work, graph_work
from hetsim.graph.work.control import ways
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS
from hetsim.hardware.spec import FLOATS

_OF_ACTIVATIONS = [
    COLUMN[name] for name in ("read_bytes", "write_bytes", "exp_bytes", "largest_read_bytes")
]
_OF_WEIGHTS = COLUMN["weight_bytes"]
_SIZED = (*PRODUCTS, "pooling")
_IN_GROUPS = [FORMS.index(form) for form in ("batched", "attention")]
_IN_ROWS = [FORMS.index(form) for form in _SIZED if form not in ("batched", "attention")]


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Kernels of a network at the batch of its graph, with equal ones merged.

    - `elements` [k, FEATURES]: rows as in ``features``, except that columns of bytes count elements
    of floats.
    - `stored` [k, FEATURES]: bytes of integers and booleans, which are not converted; 0 in all
    other columns.
    - `counts` [k]: number of runs of each kernel.
    - `io_elements`, `io_stored`: float elements of its inputs and outputs, and bytes of others.
    """

    elements: NDArray[np.float64]
    stored: NDArray[np.float64]
    counts: NDArray[np.float64]
    io_elements: int
    io_stored: int

    def at(
        self, batch: float, item_bytes: float, weight_item_bytes: float | None = None
    ) -> NDArray[np.float64]:
        """Return the rows of `batch` times as many samples: float64 [k, FEATURES], cached.

        Products of two activations and attention get more groups, other products more rows.
        `item_bytes` are those of a float in storage, `weight_item_bytes` those of a stored weight,
        if different. O(k).
        """
        rows = self.elements.copy()
        rows[:, _OF_ACTIVATIONS] *= item_bytes
        rows[:, _OF_WEIGHTS] *= item_bytes if weight_item_bytes is None else weight_item_bytes
        rows += self.stored
        _take_batch(rows, batch)
        return rows

    def weight_bytes(self, weight_item_bytes: float) -> float:
        """Return the bytes of weights of all kernels at this width of a float."""
        each = self.elements[:, _OF_WEIGHTS] * weight_item_bytes + self.stored[:, _OF_WEIGHTS]
        return float(self.counts @ each)

    def io_bytes(self, batch: float, item_bytes: float) -> float:
        """Return the bytes of inputs and outputs at this width of a float."""
        return batch * (self.io_elements * item_bytes + self.io_stored)

    def laid(
        self, batch: float, item_bytes: float, weight_item_bytes: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float, float]:
        """Return arguments of ``Networks.of``: rows, counts, bytes of weights and of the rest.

        Arguments as in ``at``. O(k).
        """
        return (
            self.at(batch, item_bytes, weight_item_bytes),
            self.counts,
            self.weight_bytes(weight_item_bytes),
            self.io_bytes(batch, item_bytes),
        )


def network_table(graph: Graph) -> KernelTable:
    """Return the kernels of a float network run whole by a device with kernel figures.

    Data-dependent work has its maximum, as in prices; of branches the one with most work, where
    prices have the slowest on the device. Views have no row.

    Raises UnboundDimension if a shape is not known in numbers.

    Complexity: O(V + E), and sorting.
    """
    width = len(FEATURES)
    found: dict[Kernel, float] = {}
    for kernel, count in _kernels(graph, 1.0):
        found[kernel] = found.get(kernel, 0.0) + count
    both = np.array([*map(_rows, found)], dtype=np.float64).reshape(-1, 2 * width)
    counts = np.array([*found.values()], dtype=np.float64)
    unique, place = np.unique(both, axis=0, return_inverse=True)
    ends = [graph.tensors[name] for name in (*graph.inputs, *graph.outputs)]
    return KernelTable(
        elements=unique[:, :width],
        stored=unique[:, width:],
        counts=np.bincount(place.reshape(-1), counts, len(unique)).astype(np.float64),
        io_elements=sum(tensor.elements for tensor in ends if tensor.dtype in FLOATS),
        io_stored=sum(tensor.nbytes for tensor in ends if tensor.dtype not in FLOATS),
    )


def of_batch(rows: NDArray[np.float64], batch: float) -> NDArray[np.float64]:
    """Return the rows of `batch` times as many samples, or of a fraction of them. O(k)."""
    found = rows.copy()
    _take_batch(found, batch)
    return found


def _take_batch(rows: NDArray[np.float64], batch: float) -> None:
    rows[:, [*_OF_ACTIVATIONS, COLUMN["flops"]]] *= batch
    form = rows[:, COLUMN["form"]]
    rows[np.isin(form, _IN_GROUPS), COLUMN["groups"]] *= batch
    rows[np.isin(form, _IN_ROWS), COLUMN["rows"]] *= batch


def _kernels(graph: Graph, turns: float) -> Iterator[tuple[Kernel, float]]:
    """Yield the launched kernels with their counts, including graphs inside nodes."""
    works, uses = graph_work(graph), Uses.of(graph)
    sets = epilogues(graph, works, (True,) * len(works))
    within = {v for members in sets for v in members}
    for members in sets:
        yield joined_kernel(uses, members), turns
    for node, work in zip(graph.nodes, works, strict=True):
        inside = ways(graph, node)
        if inside is not None and inside.runs:
            body, count = max(inside.runs, key=lambda run: run[1] * _size(graph_work(run[0])))
            yield from _kernels(body, turns * count)
        elif node.id not in within and _does(work):
            yield Kernel((work,)), turns


def _rows(kernel: Kernel) -> NDArray[np.float64]:
    """Return a row of float elements, followed by a row of bytes of the rest."""
    works = kernel.works
    elements = row_of(works, lambda work: 8 / ITEM_BITS[work.dtype] if _float(work) else 0.0, 0.0)
    stored = row_of(works, lambda work: 0.0 if _float(work) else 1.0, 1.0)
    bytes_alone = np.zeros_like(stored)
    at = [*_OF_ACTIVATIONS, _OF_WEIGHTS]
    bytes_alone[at] = stored[at]
    return np.concatenate([elements, bytes_alone])


def _float(work: Work) -> bool:
    return work.dtype in FLOATS


def _does(work: Work) -> bool:
    return bool(work.flops or work.read_bytes or work.write_bytes or work.weight_bytes)


def _size(works: Sequence[Work]) -> int:
    return sum(w.flops + w.read_bytes + w.write_bytes + w.weight_bytes for w in works)


_PARAMETERS = len(PARAMETERS)
_WEIGHTS, _ON_CHIP = INDEX["weights_gbytes_s"], INDEX["weights_on_chip_mib"]
_DISPATCH, _IO = INDEX["dispatch_us"], INDEX["io_gbytes_s"]


def kernels_seconds(
    values: Sequence[float] | NDArray[np.float64], rows: NDArray[np.float64], streamed: float
) -> NDArray[np.float64]:
    """Return the seconds of each of many kernels, float array [n]; `rows` is [n, FEATURES]."""
    given = np.ascontiguousarray(values, dtype=np.float64)
    seconds: NDArray[np.float64] = _compiled()[0](given, np.ascontiguousarray(rows), streamed)
    return seconds


@dataclass(frozen=True, slots=True)
class Networks:
    """Kernels of many networks, concatenated, for predictions and fits.

    - `rows` [k, FEATURES]: kernels; those of network i are ``rows[first[i]:first[i + 1]]``.
    - `counts` [k]: number of occurrences of each.
    - `first` [n + 1]
    - `weight_bytes`, `io_bytes` [n]: all weights of a network, and its inputs and outputs.
    """

    rows: NDArray[np.float64]
    counts: NDArray[np.float64]
    first: NDArray[np.int64]
    weight_bytes: NDArray[np.float64]
    io_bytes: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        networks: Iterable[tuple[NDArray[np.float64], NDArray[np.float64], float, float]],
    ) -> Networks:
        """Concatenate networks, each given as (rows, counts, weight_bytes, io_bytes). O(k)."""
        given = list(networks)
        rows = [np.asarray(one[0], dtype=np.float64).reshape(-1, len(FEATURES)) for one in given]
        return cls(
            rows=np.concatenate([np.empty((0, len(FEATURES))), *rows]),
            counts=np.concatenate([np.empty(0), *(one[1] for one in given)]).astype(np.float64),
            first=np.cumsum([0, *(len(each) for each in rows)]).astype(np.int64),
            weight_bytes=np.array([one[2] for one in given], dtype=np.float64),
            io_bytes=np.array([one[3] for one in given], dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.weight_bytes)


def log_total_and_gradient(
    log_values: NDArray[np.float64],
    networks: Networks,
    which: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log of the seconds of networks, and its derivatives by the log of parameters.

    - `log_values` [PARAMETERS] or [sets, PARAMETERS]: logarithms of figures in SI units.
    - `which` [n]: index of the set of figures of each network; absent: the first.

    Returns
    -------
    float array [n], float array [n, PARAMETERS]

    O(k) with 33 parameters: 0.2 s for 12,000 networks of 60 kernels.
    """
    sets = np.exp(np.atleast_2d(np.asarray(log_values, dtype=np.float64)))
    if which is None:
        which = np.zeros(len(networks), dtype=np.int64)
    found: tuple[NDArray[np.float64], NDArray[np.float64]] = _compiled()[1](
        np.ascontiguousarray(sets),
        np.asarray(which, dtype=np.int64),
        networks.rows,
        networks.counts,
        networks.first,
        networks.weight_bytes,
        networks.io_bytes,
    )
    return found


def log_total(
    log_values: NDArray[np.float64],
    networks: Networks,
    which: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return the log of the seconds of networks; as ``log_total_and_gradient`` without slopes."""
    return log_total_and_gradient(log_values, networks, which)[0]


def _each(values, rows, streamed):  # type: ignore[no-untyped-def]
    seconds = np.empty(len(rows))
    for k in range(len(rows)):
        seconds[k] = kernel_parts(values, rows[k], streamed, None, 1.0)[0]
    return seconds


def _totals_and_slopes(sets, which, rows, counts, first, weight_bytes, io_bytes):  # type: ignore[no-untyped-def]
    logs = np.empty(len(which))
    slopes = np.zeros((len(which), _PARAMETERS))
    for i in range(len(which)):
        values = sets[which[i]]
        streamed = streamed_share(values[_ON_CHIP], weight_bytes[i])
        moving = io_bytes[i] / values[_IO]
        total = values[_DISPATCH] + moving
        slopes[i, _DISPATCH] = values[_DISPATCH]
        slopes[i, _IO] = -moving
        for k in range(first[i], first[i + 1]):
            total += counts[k] * kernel_parts(values, rows[k], streamed, slopes[i], counts[k])[0]
        if streamed > LEAST_STREAMED and weight_bytes[i] > 0.0:
            # Streaming less is equivalent to a higher bandwidth.
            held = values[_ON_CHIP] / weight_bytes[i]
            slopes[i, _ON_CHIP] = slopes[i, _WEIGHTS] * held / streamed
        logs[i] = np.log(total)
        slopes[i] /= total
    return logs, slopes


@functools.cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (
        machine_code(_each, kernel_parts),
        machine_code(_totals_and_slopes, kernel_parts, streamed_share),
    )
