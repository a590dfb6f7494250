"""What was measured, as points to fit: kernels of hetsim's with the seconds that they took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hetsim.cost.calibration.record import Taken
from hetsim.cost.joined import Uses, joined_kernel
from hetsim.cost.kernels.epilogues import epilogues
from hetsim.cost.kernels.features import COLUMN, row_of
from hetsim.cost.kernels.layouts import COPIES, copies_of, copy_work
from hetsim.cost.profiles.matching import match
from hetsim.cost.profiles.names import Names
from hetsim.cost.profiles.record import TimedKernel
from hetsim.graph.graph import Graph
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work

_WORK = [COLUMN[name] for name in ("flops", "read_bytes", "write_bytes", "weight_bytes")]


@dataclass(frozen=True, slots=True)
class Point:
    """Kernels that were measured together: mostly one.

    Attributes
    ----------
    rows : float array [kernels, FEATURES]
    seconds : float
    launches : int
        Kernels of the runtime behind it.
    """

    rows: NDArray[np.float64]
    seconds: float
    launches: int


@dataclass(frozen=True, slots=True)
class Network:
    """A network as kernels, with what it took.

    Attributes
    ----------
    name : str
    rows : float array [kernels, FEATURES]
    weight_bytes, io_bytes : float
        All weights; inputs and outputs.
    seconds : float
        Of a run.
    spread : float
        As ``Taken`` has it.
    launches : int
        Kernels of the runtime that were timed; 0 where none were.
    timed_s : float
        Of these together.
    points : tuple of Point
        Its kernels one by one, where the runtime tells their times.
    """

    name: str
    rows: NDArray[np.float64]
    weight_bytes: float
    io_bytes: float
    seconds: float
    spread: float
    launches: int
    timed_s: float
    points: tuple[Point, ...]


def lowered(
    graph: Graph, joins: Mapping[str, frozenset[str]] | None = None
) -> tuple[tuple[tuple[int, ...], ...], NDArray[np.float64]]:
    """Return the kernels of a float graph, as devices with figures are priced, views left out.

    `joins` says what joins a kernel on the device, as ``epilogues`` takes it.

    Returns
    -------
    tuple of tuple of int
        The nodes of each.
    float array [kernels, FEATURES]

    O(V + E).
    """
    works, uses = graph_work(graph), Uses.of(graph)
    sets = epilogues(graph, works, [True] * len(graph.nodes), joins=joins)
    joined = {v for members in sets for v in members}
    alone = [(node.id,) for node in graph.nodes if node.id not in joined]
    kernels = sorted((*sets, *alone))
    rows = [
        row_of(joined_kernel(uses, members).works, lambda work: 1.0, 1.0) for members in kernels
    ]
    kept = [index for index, row in enumerate(rows) if row[_WORK].any()]
    return (
        tuple(kernels[index] for index in kept),
        np.array([rows[index] for index in kept]).reshape(len(kept), -1),
    )


def network_of(
    model: Model,
    taken: Taken,
    joins: Mapping[str, frozenset[str]] | None = None,
    block: int | None = None,
) -> Network:
    """Put what a network took beside its kernels.

    `joins` and `block` are what ``learnt_joins`` and ``learnt_block`` say of the runtime.
    """
    graph = model.graph
    kernels, rows = lowered(graph, joins)
    points: tuple[Point, ...] = ()
    if taken.kernels:
        points = _points(model, kernels, rows, taken, block)
    if block is not None:
        copies = [copy_row(one.elements, block) for one in copies_of(graph, block)]
        rows = np.array([*rows, *copies]).reshape(len(rows) + len(copies), -1)
    return Network(
        name=taken.network,
        rows=rows,
        weight_bytes=float(rows[:, COLUMN["weight_bytes"]].sum()),
        io_bytes=float(sum(graph.tensors[name].nbytes for name in (*graph.inputs, *graph.outputs))),
        seconds=taken.seconds,
        spread=taken.spread,
        launches=len(taken.kernels),
        timed_s=sum(kernel.seconds for kernel in taken.kernels),
        points=points,
    )


def copy_row(elements: int, block: int) -> NDArray[np.float64]:
    """Return the row of a copy between orders of channels: float64 [FEATURES]."""
    return row_of((copy_work(elements, block),), lambda work: 1.0, 1.0)


def matched_nodes(model: Model, taken: Taken) -> tuple[list[TimedKernel], list[tuple[int, ...]]]:
    """Return the kernels that the runtime ran, and the nodes of the graph that each did."""
    graph = model.graph
    timed = [
        TimedKernel(k.name, k.seconds, k.seconds, k.seconds, op=k.op, elements=k.elements)
        for k in taken.kernels
    ]
    classes = [work.op_class for work in graph_work(graph)]
    found = match(graph, classes, Names.of(model), timed, [True] * len(timed), ordered=True)
    return timed, found.nodes


def _points(
    model: Model,
    kernels: Sequence[Sequence[int]],
    rows: NDArray[np.float64],
    taken: Taken,
    block: int | None,
) -> tuple[Point, ...]:
    """Kernels here and kernels there, put together where they share nodes."""
    copies: list[Point] = []
    if block is not None:
        copies += [
            Point(copy_row(one.elements, block)[None], one.seconds, 1)
            for one in taken.kernels
            if one.op in COPIES and one.elements
        ]
        others = tuple(one for one in taken.kernels if one.op not in COPIES)
        taken = replace(taken, kernels=others)
    timed, nodes = matched_nodes(model, taken)
    owner = {v: index for index, members in enumerate(kernels) for v in members}
    group = list(range(len(kernels)))

    def leader(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    owners = [sorted({owner[v] for v in each if v in owner}) for each in nodes]
    for each in owners:
        for other in each[1:]:
            a, b = sorted((leader(each[0]), leader(other)))
            group[b] = a
    seconds: dict[int, float] = {}
    launches: dict[int, int] = {}
    for each, kernel in zip(owners, timed, strict=True):
        if each:
            first = leader(each[0])
            seconds[first] = seconds.get(first, 0.0) + kernel.seconds
            launches[first] = launches.get(first, 0) + 1
    members: dict[int, list[int]] = {}
    for index in range(len(kernels)):
        members.setdefault(leader(index), []).append(index)
    found = [
        Point(rows[indices], seconds[first], launches[first])
        for first, indices in members.items()
        if first in seconds
    ]
    return (*found, *copies)
