"""The question: a DAG, who can run what in how long, what moves where, and what must fit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetsim import checks
from hetsim.errors import InvalidInput, UsageError
from hetsim.graph.dag import Dag
from hetsim.hardware.spec import Route, numbered

if TYPE_CHECKING:
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import Platform

Contention = Literal["none", "fifo"]
GRAPH_INPUT = -1
"""Producer of a value that the caller provides."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that may have to move between devices.

    Attributes
    ----------
    name : str
    nbytes : int
    producer : int
        Node id, or GRAPH_INPUT for an input of the model.
    consumers : tuple of int
        Node ids, ascending, unique; empty for a value that is only an output.
    is_output : bool
        Whether it must end on the host.
    """

    name: str
    nbytes: int
    producer: int
    consumers: tuple[int, ...]
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """Weights: resident on every device that runs one of its consumers, once each."""

    name: str
    nbytes: int
    consumers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """Nodes that one device runs as one kernel when they are in one subgraph.

    Attributes
    ----------
    device : int
    nodes : tuple of int
        Ascending; the kernels of one device are disjoint.
    seconds : float
        Replaces the sum of the nodes' own times.
    pattern : str
        The pattern by which the device supports these nodes as a whole, even those that it
        does not support alone. ``""``: a fusion that saves time and nothing else.
    """

    device: int
    nodes: tuple[int, ...]
    seconds: float
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Staging:
    """Tensors that go through the host's memory at the expense of the device that moves them.

    A subgraph fetches each tensor that it reads from outside once, and puts each tensor that is
    needed outside there once, however many subgraphs read it. Both are part of its time, before
    and after its kernels. Inputs and outputs of the model count where there is a host.

    Attributes
    ----------
    fetch_s_per_byte, store_s_per_byte : tuple of float
        By device; 0 for a device that computes in that memory.
    """

    fetch_s_per_byte: tuple[float, ...]
    store_s_per_byte: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Problem:
    """One model on one platform, free of ONNX.

    Attributes
    ----------
    name : str
    devices : tuple of str
    seconds : float array [n, P]
        Time of node v alone on device p, kernel launch included; inf where unsupported.
    values : tuple of Value
    constants : tuple of Constant
    routes : tuple of tuple of Route
        ``routes[p][q]`` for p != q; the diagonal is free and of no meaning.
    dispatch_s : tuple of float
        Cost of starting one subgraph, by device.
    streams : tuple of int
        Subgraphs that run at once, by device.
    host : int or None
        Device on which inputs start and outputs end; None: inputs and outputs are free.
    contention : "none" or "fifo"
        Whether a link carries one transfer at a time.
    link_names : tuple of str
        The resources that ``Route.resources`` points to.
    capacity_bytes : tuple of int, or None
        Memory by device; None: memory is not modelled.
    fused : tuple of FusedKernel
    staging : Staging or None
        What subgraphs pay for tensors that go through the host's memory; None: nothing, the
        routes alone say what a transfer costs.
    idle_w, busy_w : tuple of float
        Power by device; all zero where energy is not modelled.
    node_names, op_types : tuple of str
    origins : tuple of tuple of str
        Names in the user's file that each node stands for.
    refusals : tuple of mapping of int to str
        By device: why it does not support a node.
    unpriced : mapping of int to str
        Nodes of which it is not known what they do, and why: `seconds` has what is known of
        them, which is no bound. Nothing is claimed of any plan where there are any.
    least_s : mapping of int to tuple of float
        By node, then device: the time of nodes that may take less than `seconds` says, such as
        an If of which it is not known which branch it takes. Bounds count on it; all else
        counts on `seconds`.
    model, platform : Model, Platform or None
        Where the problem came from; None for instances given as arrays.
    """

    name: str
    devices: tuple[str, ...]
    seconds: NDArray[np.float64] = field(repr=False)
    values: tuple[Value, ...] = field(repr=False)
    constants: tuple[Constant, ...] = field(repr=False)
    routes: tuple[tuple[Route, ...], ...] = field(repr=False)
    dispatch_s: tuple[float, ...] = field(repr=False)
    streams: tuple[int, ...] = field(repr=False)
    host: int | None = None
    contention: Contention = "fifo"
    link_names: tuple[str, ...] = field(default=(), repr=False)
    capacity_bytes: tuple[int, ...] | None = field(default=None, repr=False)
    fused: tuple[FusedKernel, ...] = field(default=(), repr=False)
    staging: Staging | None = None
    idle_w: tuple[float, ...] = field(default=(), repr=False)
    busy_w: tuple[float, ...] = field(default=(), repr=False)
    node_names: tuple[str, ...] = field(default=(), repr=False)
    op_types: tuple[str, ...] = field(default=(), repr=False)
    origins: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    refusals: tuple[Mapping[int, str], ...] = field(default=(), repr=False)
    unpriced: Mapping[int, str] = field(default_factory=dict, repr=False)
    least_s: Mapping[int, tuple[float, ...]] = field(default_factory=dict, repr=False)
    model: Model | None = field(default=None, repr=False)
    platform: Platform | None = field(default=None, repr=False)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.seconds.shape[0])

    @cached_property
    def dag(self) -> Dag:
        """Who feeds whom."""
        return Dag.from_edges(
            self.n,
            (
                (value.producer, consumer)
                for value in self.values
                if value.producer != GRAPH_INPUT
                for consumer in value.consumers
            ),
        )

    @cached_property
    def values_of(self) -> tuple[tuple[int, ...], ...]:
        """By node: the indices of the values that it makes or reads, ascending."""
        found: list[list[int]] = [[] for _ in range(self.n)]
        for index, value in enumerate(self.values):
            if value.producer != GRAPH_INPUT:
                found[value.producer].append(index)
            for consumer in value.consumers:
                found[consumer].append(index)
        return tuple(tuple(indices) for indices in found)

    @cached_property
    def constants_of(self) -> tuple[tuple[int, ...], ...]:
        """By node: the indices of the constants that it reads, ascending."""
        found: list[list[int]] = [[] for _ in range(self.n)]
        for index, constant in enumerate(self.constants):
            for consumer in constant.consumers:
                found[consumer].append(index)
        return tuple(tuple(indices) for indices in found)

    @cached_property
    def supported(self) -> NDArray[np.bool_]:
        """Bool array [n, P]: whether device p can run node v alone."""
        return np.isfinite(self.seconds)

    @cached_property
    def runnable(self) -> NDArray[np.bool_]:
        """Bool array [n, P]: whether device p can run node v alone or within a composite."""
        return np.isfinite(self.shared_seconds)

    @cached_property
    def composites(self) -> tuple[FusedKernel, ...]:
        """The kernels that stand for a pattern: supported whole, or not at all."""
        return tuple(kernel for kernel in self.fused if kernel.pattern)

    @cached_property
    def shared_seconds(self) -> NDArray[np.float64]:
        """Float array [n, P]: time of node v on device p with its fused kernel's time shared out.

        A fused kernel's seconds are split over its members in proportion to their own
        times, so that a sum over whole kernels is exact; members that are not supported
        alone get what the others leave, in equal parts. Never above `seconds`, and hence
        what list schedulers weigh nodes by.
        """
        shared = self.seconds.copy()
        for kernel in self.fused:
            nodes = np.array(kernel.nodes)
            alone = self.seconds[nodes, kernel.device]
            finite = np.isfinite(alone)
            total = float(alone[finite].sum())
            if total > kernel.seconds:
                shared[nodes[finite], kernel.device] = alone[finite] * (kernel.seconds / total)
            rest = max(0.0, kernel.seconds - total)
            shared[nodes[~finite], kernel.device] = rest / max(1, int((~finite).sum()))
        return shared

    @cached_property
    def least_seconds(self) -> NDArray[np.float64]:
        """Float array [n, P]: the least time of node v on device p, in any plan and any run.

        `shared_seconds`, less in the proportion in which `least_s` is below `seconds`; inf where
        not runnable.
        """
        if not self.least_s:
            return self.shared_seconds
        least = self.shared_seconds.copy()
        for node, few in self.least_s.items():
            for p, alone in enumerate(self.seconds[node].tolist()):
                if few[p] < alone < np.inf:
                    least[node, p] *= few[p] / alone
        return least

    @cached_property
    def _kernel_of(self) -> tuple[dict[int, FusedKernel], ...]:
        by_device: tuple[dict[int, FusedKernel], ...] = tuple({} for _ in self.devices)
        for kernel in self.fused:
            for node in kernel.nodes:
                by_device[kernel.device][node] = kernel
        return by_device

    def kernels(self, device: int, nodes: Sequence[int]) -> list[tuple[tuple[int, ...], float]]:
        """List what `device` launches for a subgraph of `nodes`: (members, seconds) a kernel.

        A fused kernel appears where all its members are among `nodes` and fusing does not
        cost more than the members alone; every other node is a kernel of its own.
        Complexity: O(len(nodes)).
        """
        inside = set(nodes)
        fused_here = self._kernel_of[device]
        launched: list[tuple[tuple[int, ...], float]] = []
        for node in nodes:
            kernel = fused_here.get(node)
            if kernel is not None and inside.issuperset(kernel.nodes):
                alone = float(sum(self.seconds[member, device] for member in kernel.nodes))
                if kernel.seconds <= alone:
                    if node == kernel.nodes[0]:
                        launched.append((kernel.nodes, kernel.seconds))
                    continue
            launched.append(((node,), float(self.seconds[node, device])))
        return launched

    def unsupported(self, device: int, nodes: Sequence[int]) -> list[int]:
        """List which of `nodes` `device` cannot run as members of one subgraph of them. O(nodes).

        A node is supported alone, or as a member of a composite that is there whole.
        """
        return [
            members[0]
            for members, seconds in self.kernels(device, nodes)
            if seconds == float("inf")
        ]

    def group_seconds(self, device: int, nodes: Sequence[int]) -> float:
        """Time of `nodes` as one subgraph on `device`; inf if unsupported.

        Dispatch is included, and so is what it fetches and stores where tensors are staged.
        """
        compute_s = self.dispatch_s[device] + sum(s for _, s in self.kernels(device, nodes))
        return compute_s if self.staging is None else compute_s + self.staged_seconds(device, nodes)

    def staged_seconds(self, device: int, nodes: Sequence[int]) -> float:
        """Time that `device` spends on fetching and storing tensors for a subgraph of `nodes`.

        0 where tensors are not staged. O(values of the nodes and their consumers).
        """
        if self.staging is None:
            return 0.0
        inside = set(nodes)
        fetched = stored = 0
        for index in sorted({index for node in nodes for index in self.values_of[node]}):
            value = self.values[index]
            if value.producer in inside:
                leaves = value.is_output and self.host is not None
                if leaves or not inside.issuperset(value.consumers):
                    stored += value.nbytes
            elif value.producer != GRAPH_INPUT or self.host is not None:
                fetched += value.nbytes
        return (
            fetched * self.staging.fetch_s_per_byte[device]
            + stored * self.staging.store_s_per_byte[device]
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that a plan depends on, in hex."""
        digest = hashlib.sha256()
        plain: dict[str, Any] = {
            "name": self.name,
            "devices": self.devices,
            "values": [
                (v.name, v.nbytes, v.producer, v.consumers, v.is_output) for v in self.values
            ],
            "constants": [(c.name, c.nbytes, c.consumers) for c in self.constants],
            "routes": [
                [(r.latency_s, r.bytes_per_s, r.resources) for r in row] for row in self.routes
            ],
            "dispatch_s": self.dispatch_s,
            "streams": self.streams,
            "host": self.host,
            "contention": self.contention,
            "links": self.link_names,
            "capacity_bytes": self.capacity_bytes,
            "fused": [(k.device, k.nodes, k.seconds, k.pattern) for k in self.fused],
            "node_names": self.node_names,
        }
        if self.staging is not None:
            plain["staging"] = (self.staging.fetch_s_per_byte, self.staging.store_s_per_byte)
        if self.unpriced or self.least_s:
            plain["unpriced"] = sorted(self.unpriced.items())
            plain["least_s"] = sorted(self.least_s.items())
        digest.update(json.dumps(plain, sort_keys=True).encode())
        digest.update(np.ascontiguousarray(self.seconds).tobytes())
        return digest.hexdigest()

    @checks.takes(name=checks.text)
    def device_index(self, name: str) -> int:
        """Index of the device called `name`; ``gpu`` is the first of ``gpu.0``, ``gpu.1``.

        Raises UsageError with the nearest name.
        """
        from hetsim.errors import nearest

        try:
            return self.devices.index(name)
        except ValueError:
            alike = numbered(name, self.devices)
            if alike:
                return self.devices.index(alike[0])
            raise UsageError(
                f"no device '{name}' in {self.name}", hint=nearest(name, self.devices)
            ) from None

    @staticmethod
    @checks.takes(
        model=checks.instance("hetsim.graph.model:Model"),
        platform=checks.instance("hetsim.hardware.spec:Platform"),
        cost=checks.text,
        contention=checks.text,
    )
    def of(
        model: Model,
        platform: Platform,
        *,
        cost: str = "roofline",
        contention: Contention = "fifo",
    ) -> Problem:
        """Build the problem of running `model` on `platform`.

        Parameters
        ----------
        model : Model
            From ``hetsim.load_model``.
        platform : Platform
            From ``hetsim.load_platform``.
        cost : str
            Name of a registered cost model.
        contention : "fifo" or "none"
            How links behave.

        Raises
        ------
        UnboundDimension
            Where a cost needs a dimension that is not bound.
        UsageError
            Where the cost model is unknown.
        """
        from hetsim.pricing import price

        return price(model, platform, cost=cost, contention=contention)

    @staticmethod
    def from_arrays(
        seconds: ArrayLike,
        edges: Iterable[tuple[int, int, int]] | None = None,
        tensors: Iterable[tuple[int, int, Sequence[int]]] | None = None,
        devices: Sequence[str] | None = None,
        latency_s: ArrayLike = 0.0,
        bytes_per_s: ArrayLike = np.inf,
        weight_bytes: Sequence[int] | None = None,
        capacity_bytes: Sequence[int] | None = None,
        host: int | None = None,
        contention: Contention = "none",
        dispatch_s: ArrayLike = 0.0,
        streams: Sequence[int] | None = None,
        composites: Iterable[tuple[int, Sequence[int], float]] = (),
        staging: Staging | None = None,
        name: str = "instance",
    ) -> Problem:
        """Build a problem without a model file; node ids are in topological order.

        Parameters
        ----------
        seconds : array [n, P]
            inf where the device cannot run the node.
        edges : (u, v, nbytes) triples, optional
            One transfer an edge.
        tensors : (producer, nbytes, consumers) triples, optional
            One transfer a destination device; producer -1 is an input that starts on the
            host, and empty consumers an output that ends there. Give `edges` or `tensors`.
        devices : sequence of str
            Default ``d0, d1, ...``.
        latency_s, bytes_per_s : number or array [P, P]
            Of the route from row to column. With contention every pair has a link of its
            own in each direction.
        weight_bytes, capacity_bytes : [n], [P]
            Absent: memory is not modelled.
        host : int, optional
            None: inputs and outputs are free.
        contention : "none" or "fifo"
        dispatch_s : number or array [P]
        streams : [P], default 1 each
        composites : (device, nodes, seconds) triples, optional
            Nodes that the device can run as one kernel, even those with inf in `seconds`.
        staging : Staging, optional
            Absent: transfers cost what the routes say.

        Raises
        ------
        InvalidInput
            Where shapes, ids, or signs do not fit.
        """
        from hetsim.instances import build

        return build(
            seconds, edges, tensors, devices, latency_s, bytes_per_s, weight_bytes,
            capacity_bytes, host, contention, dispatch_s, streams, composites, staging, name,
        )  # fmt: skip


def check_contention(contention: str) -> Contention:
    """Return `contention` where it is known. Raises InvalidInput otherwise."""
    if contention == "none":
        return "none"
    if contention == "fifo":
        return "fifo"
    raise InvalidInput(f"unknown contention '{contention}'", hint="use 'fifo' or 'none'")
