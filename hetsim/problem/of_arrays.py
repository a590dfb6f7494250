"""Problems from arrays: published instances and experiments without a model file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetsim.core import checks
from hetsim.errors import InvalidInput
from hetsim.hardware.spec import Route
from hetsim.problem.parts import (
    GRAPH_INPUT,
    Contention,
    Evidence,
    FusedKernel,
    ProblemData,
    Staging,
    StoredConstant,
    Value,
    check_bytes,
    check_contention,
)

_NODE = checks.whole()


def _named(value: object, name: str) -> None:
    """Raise InvalidInput unless `value` is a non-empty text."""
    checks.text(value, name)
    if not value:
        raise InvalidInput(f"{name} is empty")


def build(
    seconds: ArrayLike,
    edges: Iterable[tuple[int, int, int]] | None,
    tensors: Iterable[tuple[int, int, Sequence[int]]] | None,
    devices: Sequence[str] | None,
    latency_s: ArrayLike,
    bytes_per_s: ArrayLike,
    weight_bytes: Sequence[int] | None,
    capacity_bytes: Sequence[int] | None,
    host: int | None,
    contention: Contention,
    dispatch_s: ArrayLike,
    streams: Sequence[int] | None,
    composites: Iterable[tuple[int, Sequence[int], float]],
    staging: Staging | None,
    sd: ArrayLike,
    name: str,
) -> ProblemData:
    """Check the arrays and build the problem; see ``Problem.from_arrays``. O(n P + E)."""
    times = checks.floats(seconds, "seconds")
    if times.ndim != 2 or times.shape[1] == 0:
        raise InvalidInput(f"seconds has shape {times.shape}", hint="give [nodes, devices]")
    if np.isnan(times).any() or (times < 0).any():
        raise InvalidInput("seconds has negative or NaN entries", hint="use inf where unsupported")
    n, count = times.shape
    if devices is not None:
        checks.sequence(_named)(devices, "devices")
    names = tuple(devices) if devices is not None else tuple(f"d{p}" for p in range(count))
    if len(names) != count or len(set(names)) != count:
        raise InvalidInput(f"{len(names)} device names for {count} columns, or not unique")
    if host is not None:
        checks.whole(0, count - 1)(host, "host")
    checks.text(contention, "contention")
    checks.text(name, "name")
    if edges is not None and tensors is not None:
        raise InvalidInput("both edges and tensors are given", hint="give one of them")
    values = (
        _from_tensors(n, tensors)
        if tensors is not None
        else _from_edges(n, () if edges is None else edges)
    )
    links, routes = _all_pairs(
        names,
        _matrix(latency_s, count, "latency_s"),
        _matrix(bytes_per_s, count, "bytes_per_s"),
    )
    dispatch = _by_device(dispatch_s, count, "dispatch_s")
    off_by = _by_device(sd, count, "sd")
    constants = _constants(n, weight_bytes)
    check_bytes((*values, *constants), f"problem '{name}'")
    if capacity_bytes is not None:
        checks.sequence(length=count)(capacity_bytes, "capacity_bytes")
    if streams is not None:
        checks.sequence(checks.whole(1), length=count)(streams, "streams")
    if staging is not None:
        checks.instance("hetsim.problem.parts:Staging")(staging, "staging")
        _check_staging(staging, count)
    called = tuple([f"n{v}" for v in range(n)])
    return ProblemData(
        name=name,
        devices=names,
        seconds=times,
        values=values,
        constants=constants,
        routes=routes,
        dispatch_s=tuple(dispatch),
        streams=tuple(int(s) for s in streams) if streams is not None else (1,) * count,
        host=None if host is None else int(host),
        contention=check_contention(contention),
        link_names=links,
        capacity_bytes=None
        if capacity_bytes is None
        else tuple(
            checks.whole_bytes(nbytes, f"the capacity of {device}")
            for device, nbytes in zip(names, capacity_bytes, strict=True)
        ),
        fused=_composites(n, count, composites),
        staging=staging,
        idle_w=(0.0,) * count,
        busy_w=(0.0,) * count,
        node_names=called,
        op_types=("Task",) * n,
        origins=tuple(zip(called, strict=True)),
        refusals=tuple(
            dict.fromkeys(np.flatnonzero(~np.isfinite(times[:, p])).tolist(), "inf in seconds")
            for p in range(count)
        ),
        evidence=tuple(
            Evidence(device, device, "estimate", off)
            for device, off in zip(names, off_by, strict=True)
            if any(off_by)
        ),
    )


def _by_device(given: ArrayLike, count: int, name: str) -> list[float]:
    """Return non-negative numbers per device, given per device or as one for all."""
    numbers = checks.floats(given, name)
    if numbers.shape not in ((), (count,)):
        raise InvalidInput(f"{name} has shape {numbers.shape}", hint=f"give a number or [{count}]")
    if not np.isfinite(numbers).all() or (numbers < 0).any():
        raise InvalidInput(f"{name} has negative or infinite entries")
    return [float(number) for number in np.broadcast_to(numbers, (count,))]


def _check_staging(staging: Staging, count: int) -> None:
    for name, figures in (
        ("fetch_s_per_byte", staging.fetch_s_per_byte),
        ("store_s_per_byte", staging.store_s_per_byte),
    ):
        checks.sequence(checks.number(least=0), length=count)(figures, f"staging.{name}")


def _from_edges(n: int, edges: Iterable[tuple[int, int, int]]) -> tuple[Value, ...]:
    if isinstance(edges, list | tuple):
        plain = _plain_edges(n, edges)
        if plain is not None:
            return plain
    merged: dict[tuple[int, int], int] = {}
    for u, v, nbytes in checks.rows(edges, "edges", "from, to, bytes"):
        _NODE(u, "the start of an edge")
        _NODE(v, "the end of an edge")
        if not 0 <= u < v < n:
            raise InvalidInput(f"edge ({u}, {v}) does not ascend within 0 .. {n - 1}")
        if (u, v) in merged:
            raise InvalidInput(f"edge ({u}, {v}) is given twice", hint="add their bytes")
        merged[int(u), int(v)] = checks.whole_bytes(nbytes, f"what edge ({u}, {v}) moves")
    return tuple(Value(f"n{u}:n{v}", nbytes, u, (v,)) for (u, v), nbytes in sorted(merged.items()))


def _plain_edges(n: int, edges: Sequence[tuple[int, int, int]]) -> tuple[Value, ...] | None:
    """Return the values of edges given as tuples of Python integers; None otherwise.

    None also for an invalid edge, as the slower check reports which.
    """
    if not edges or set(map(type, edges)) - {tuple} or set(map(len, edges)) - {3}:
        return None
    sources, targets, sizes = zip(*edges, strict=True)
    if any(set(map(type, column)) - {int} for column in (sources, targets, sizes)):
        return None
    if min(sources) < 0 or max(targets) >= n or min(sizes) < 0:
        return None
    u, v = np.array(sources, dtype=np.int64), np.array(targets, dtype=np.int64)
    keys = u * n + v
    order = np.argsort(keys, kind="stable")
    if (u >= v).any() or (np.diff(keys[order]) == 0).any():
        return None
    ordered = [edges[at] for at in order.tolist()]
    return tuple([Value(f"n{u}:n{v}", nbytes, u, (v,)) for u, v, nbytes in ordered])


def _from_tensors(n: int, tensors: Iterable[tuple[int, int, Sequence[int]]]) -> tuple[Value, ...]:
    values: list[Value] = []
    for index, (producer, nbytes, readers) in enumerate(
        checks.rows(tensors, "tensors", "producer, bytes, consumers")
    ):
        _NODE(producer, f"the producer of tensor {index}")
        checks.sequence(_NODE)(readers, f"the consumers of tensor {index}")
        consumers = tuple(sorted({int(v) for v in readers}))
        if not GRAPH_INPUT <= producer < n:
            raise InvalidInput(f"tensor {index} has producer {producer}", hint=f"use -1 .. {n - 1}")
        if any(not producer < v < n for v in consumers):
            raise InvalidInput(f"tensor {index}: consumers {consumers} do not follow {producer}")
        if producer == GRAPH_INPUT and not consumers:
            raise InvalidInput(f"tensor {index} is an input that nobody reads")
        size = checks.whole_bytes(nbytes, f"the size of tensor {index}")
        values.append(Value(f"t{index}", size, int(producer), consumers, is_output=not consumers))
    return tuple(values)


def _constants(n: int, weight_bytes: Sequence[int] | None) -> tuple[StoredConstant, ...]:
    if weight_bytes is None:
        return ()
    checks.sequence(length=n)(weight_bytes, "weight_bytes")
    sizes = [checks.whole_bytes(nbytes, f"weight {v}") for v, nbytes in enumerate(weight_bytes)]
    return tuple(StoredConstant(f"w{v}", nbytes, (v,)) for v, nbytes in enumerate(sizes) if nbytes)


def _composites(
    n: int, count: int, composites: Iterable[tuple[int, Sequence[int], float]]
) -> tuple[FusedKernel, ...]:
    found: list[FusedKernel] = []
    taken: set[tuple[int, int]] = set()
    for index, (device, nodes, seconds) in enumerate(
        checks.rows(composites, "composites", "device, nodes, seconds")
    ):
        where = f"composite {index}"
        checks.whole(0, count - 1)(device, f"{where}: its device")
        checks.sequence(_NODE)(nodes, f"{where}: its nodes")
        checks.number(least=0)(seconds, f"{where}: its seconds")
        members = tuple(sorted({int(v) for v in nodes}))
        if not members or not 0 <= members[0] <= members[-1] < n:
            raise InvalidInput(f"nodes {members} are not among 0 .. {n - 1}", where=where)
        for node in members:
            if (device, node) in taken:
                raise InvalidInput(
                    f"node {node} is in two composites of device {device}",
                    where=where,
                    hint="composites of one device must not overlap",
                )
            taken.add((device, node))
        found.append(FusedKernel(int(device), members, float(seconds), f"composite{index}"))
    return tuple(found)


def _matrix(value: ArrayLike, count: int, name: str) -> NDArray[np.float64]:
    array = checks.floats(value, name)
    if array.ndim not in (0, 2) or (array.ndim == 2 and array.shape != (count, count)):
        raise InvalidInput(
            f"{name} has shape {array.shape}", hint=f"give a number or [{count}, {count}]"
        )
    return np.broadcast_to(array, (count, count))


def _all_pairs(
    names: tuple[str, ...], latency_s: NDArray[np.float64], bytes_per_s: NDArray[np.float64]
) -> tuple[tuple[str, ...], tuple[tuple[Route, ...], ...]]:
    links: list[str] = []
    routes: list[tuple[Route, ...]] = []
    for p, source in enumerate(names):
        row: list[Route] = []
        for q, target in enumerate(names):
            if p == q:
                row.append(Route(0.0, float("inf")))
                continue
            latency, bandwidth = float(latency_s[p, q]), float(bytes_per_s[p, q])
            if not 0 <= latency < float("inf"):
                raise InvalidInput(
                    f"latency {latency} from {source} to {target}", hint="use 0 or more"
                )
            if not bandwidth > 0:
                raise InvalidInput(
                    f"bandwidth {bandwidth} from {source} to {target}", hint="above 0"
                )
            row.append(Route(latency, bandwidth, (len(links),)))
            links.append(f"{source}>{target}")
        routes.append(tuple(row))
    return tuple(links), tuple(routes)
