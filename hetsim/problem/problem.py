"""Problem: node times by device, values to move, memory limits, and sums over them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetsim.core import checks
from hetsim.core.result import short
from hetsim.cost import DEFAULT_COST
from hetsim.graph.dag import Dag
from hetsim.hardware.spec import standing_for
from hetsim.hardware.variants import executed
from hetsim.problem.parts import (
    GRAPH_INPUT,
    Z80,
    Contention,
    FusedKernel,
    ProblemData,
    Staging,
    Uncertainty,
    ValueArrays,
    distributed_seconds,
    scaled,
    uncertainty_of,
)

if TYPE_CHECKING:
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import Platform
    from hetsim.problem.measured import Asked


@dataclass(frozen=True, eq=False, repr=False)
class Problem(ProblemData):
    """Problem of running one model on one platform, independent of ONNX.

    The fields are those of ``hetsim.problem.parts.ProblemData``; the members are derived from them.
    """

    def __repr__(self) -> str:
        counts = f"nodes: {self.n}, tensors: {len(self.values)}"
        return short(f"Problem: {self.name}", f"{counts}, devices: {', '.join(self.devices)}")

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.seconds.shape[0])

    @cached_property
    def value_arrays(self) -> ValueArrays:
        """Arrays of `values`."""
        return ValueArrays.of(self.values)

    @cached_property
    def dag(self) -> Dag:
        """DAG of nodes."""
        readers = self.value_arrays.readers
        source = self.value_arrays.producer[readers.owner]
        made = source != GRAPH_INPUT
        return Dag.from_arrays(self.n, source[made], readers.node[made])

    @cached_property
    def values_of(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the values that each node produces or reads, ascending, by node."""
        found: list[list[int]] = [[] for _ in range(self.n)]
        for index, value in enumerate(self.values):
            if value.producer != GRAPH_INPUT:
                found[value.producer].append(index)
            for consumer in value.consumers:
                found[consumer].append(index)
        return tuple(tuple(indices) for indices in found)

    @cached_property
    def constants_of(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the constants that each node reads, ascending, by node."""
        found: list[list[int]] = [[] for _ in range(self.n)]
        for index, constant in enumerate(self.constants):
            for consumer in constant.consumers:
                found[consumer].append(index)
        return tuple(tuple(indices) for indices in found)

    @cached_property
    def weight_bytes(self) -> tuple[int, ...]:
        """Bytes of the constants that each node reads, by node."""
        each = [constant.nbytes for constant in self.constants]
        return tuple(sum(each[index] for index in own) for own in self.constants_of)

    @cached_property
    def supported(self) -> NDArray[np.bool_]:
        """Bool array [n, P]: whether device p can run node v individually."""
        return np.isfinite(self.seconds)

    @cached_property
    def runnable(self) -> NDArray[np.bool_]:
        """Bool array [n, P]: whether device p can run node v individually or within a composite."""
        return np.isfinite(self.shared_seconds)

    @cached_property
    def composites(self) -> tuple[FusedKernel, ...]:
        """Kernels of patterns that are supported only as a whole."""
        return tuple(kernel for kernel in self.fused if kernel.pattern)

    @cached_property
    def shared_seconds(self) -> NDArray[np.float64]:
        """Float array [n, P]: seconds of node v on device p, with fused kernels' times distributed.

        See ``distributed_seconds``. Never above `seconds`; list schedulers weigh nodes by it.
        """
        shared = self.seconds.copy()
        alike: dict[tuple[int, int], list[FusedKernel]] = {}
        for kernel in self.fused:
            alike.setdefault((kernel.device, len(kernel.nodes)), []).append(kernel)
        for (device, _), kernels in alike.items():
            nodes = np.array([kernel.nodes for kernel in kernels])
            whole_s = np.array([kernel.seconds for kernel in kernels])
            shared[nodes, device] = distributed_seconds(whole_s, self.seconds[nodes, device])
        return shared

    @cached_property
    def least_seconds(self) -> NDArray[np.float64]:
        """Float array [n, P]: least seconds of node v on device p over all plans and runs.

        `shared_seconds`, reduced by the ratio of `least_s` to `seconds`; inf if not runnable.
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

    @cached_property
    def _alone(self) -> tuple[tuple[float, ...], ...]:
        """Seconds of each node alone, by device: as tuples, faster than arrays for single reads."""
        return tuple(tuple(column) for column in self.seconds.T.tolist())

    def kernels(self, device: int, nodes: Sequence[int]) -> list[tuple[tuple[int, ...], float]]:
        """Return the kernels that `device` launches for a subgraph of `nodes`: (members, seconds).

        A fused kernel is used if all its members are among `nodes` and it costs no more than the
        members alone; every other node is a kernel of its own. Complexity: O(len(nodes)).
        """
        fused_here, alone_s = self._kernel_of[device], self._alone[device]
        if not fused_here:
            return [((node,), alone_s[node]) for node in nodes]
        inside = set(nodes)
        launched: list[tuple[tuple[int, ...], float]] = []
        for node in nodes:
            kernel = fused_here.get(node)
            if kernel is not None and inside.issuperset(kernel.nodes):
                alone = 0.0
                for member in kernel.nodes:
                    alone += alone_s[member]
                if kernel.seconds <= alone:
                    if node == kernel.nodes[0]:
                        launched.append((kernel.nodes, kernel.seconds))
                    continue
            launched.append(((node,), alone_s[node]))
        return launched

    def unsupported(self, device: int, nodes: Sequence[int]) -> list[int]:
        """Return those of `nodes` that `device` cannot run as members of one subgraph. O(nodes).

        A node is supported individually, or as a member of a complete composite.
        """
        return [
            members[0]
            for members, seconds in self.kernels(device, nodes)
            if seconds == float("inf")
        ]

    def compute_seconds(self, device: int, nodes: Sequence[int]) -> float:
        """Return the seconds of the `kernels` that `device` launches for a subgraph of `nodes`."""
        if self._kernel_of[device]:
            return sum(s for _, s in self.kernels(device, nodes))
        alone_s = self._alone[device]
        return sum([alone_s[node] for node in nodes])

    def group_seconds(self, device: int, nodes: Sequence[int]) -> float:
        """Return the seconds of `nodes` as one subgraph on `device`; inf if unsupported.

        Includes dispatch, and fetching and storing if tensors are staged.
        """
        compute_s = self.compute_seconds(device, nodes) + self.dispatch_s[device]
        return compute_s if self.staging is None else compute_s + self.staged_seconds(device, nodes)

    def staged_seconds(self, device: int, nodes: Sequence[int]) -> float:
        """Return the seconds that `device` spends on staging tensors for a subgraph of `nodes`.

        0 if tensors are not staged. O(values of the nodes and their consumers).
        """
        if self.staging is None:
            return 0.0
        inside = set(nodes)
        ends = self.staging.ends and self.host is not None
        fetched = stored = 0
        for index in sorted({index for node in nodes for index in self.values_of[node]}):
            value = self.values[index]
            if value.producer in inside:
                if (value.is_output and ends) or not inside.issuperset(value.consumers):
                    stored += value.nbytes
            elif value.producer != GRAPH_INPUT or ends:
                fetched += value.nbytes
        return (
            fetched * self.staging.fetch_s_per_byte[device]
            + stored * self.staging.store_s_per_byte[device]
        )

    def held_bytes(self, device: int, stated: int) -> int:
        """Return the bytes on `device` of tensors of `stated` bytes in the graph's own types."""
        return self.held[device].nbytes(stated) if self.held else stated

    def room_bytes(self, device: int, nbytes: int) -> int:
        """Return the bytes in the graph's own types that fit in `nbytes` of memory of `device`."""
        return self.held[device].room(nbytes) if self.held else nbytes

    @property
    def executed(self) -> dict[str, str]:
        """Assumed precision of float models by device, if it differs from the model's."""
        return {} if self.platform is None else executed(self.platform)

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """Errors of the times of devices and routes, with their common parts."""
        count = len(self.devices)
        if not self.evidence:
            return Uncertainty((), np.zeros((count, 0)), np.zeros((count, count, 0)))
        weights = np.zeros((count, count, 0))
        if self.platform is not None:
            from hetsim.problem.of_model import link_weights

            weights = link_weights(self.platform, self.routes)
        return uncertainty_of(self.evidence, self.link_evidence, weights)

    @property
    def certain(self) -> bool:
        """Whether there is nothing to sample: times are exact, or already pessimistic."""
        return self.pessimistic or self.uncertainty.certain

    def at_bad_end(self) -> Problem:
        """Return the problem with every time at the upper end of its own 80 % interval.

        10 % of the samples of a device's factor are above that end; all devices and routes are
        there at once, so that plans on one and on several are judged alike. Returns itself if
        already there.
        """
        if self.pessimistic:
            return self
        known = self.uncertainty
        worse = scaled(self, np.exp(Z80 * known.device_sd), np.exp(Z80 * known.route_sd))
        return replace(worse, pessimistic=True)

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
            if not self.staging.ends:
                plain["staging of ends"] = False
        if self.unpriced or self.least_s:
            plain["unpriced"] = sorted(self.unpriced.items())
            plain["least_s"] = sorted(self.least_s.items())
        digest.update(json.dumps(plain, sort_keys=True).encode())
        digest.update(np.ascontiguousarray(self.seconds).tobytes())
        return digest.hexdigest()

    @checks.takes(name=checks.text)
    def device_index(self, name: str) -> int:
        """Return the index of the device `name`; ``gpu`` is the first of ``gpu.0``, ``gpu.1``.

        Raises UsageError with the nearest name.
        """
        return self.devices.index(standing_for(name, self.devices, f" in {self.name}")[0])

    @staticmethod
    @checks.takes(
        model=checks.instance("hetsim.graph.model:Model"),
        platform=checks.instance("hetsim.hardware.spec:Platform"),
        cost=checks.text,
        contention=checks.text,
        profiles=checks.mapping(checks.text, checks.path),
        execute=checks.mapping(checks.text, checks.text),
        pessimistic=checks.flag,
        measured=checks.mapping(checks.text),
    )
    def of(
        model: Model,
        platform: Platform,
        *,
        cost: str = DEFAULT_COST,
        contention: Contention = "fifo",
        profiles: Mapping[str, str | os.PathLike[str]] | None = None,
        execute: Mapping[str, str] | None = None,
        pessimistic: bool = False,
        measured: Asked | None = None,
    ) -> Problem:
        """Return the problem of running `model` on `platform`.

        Parameters
        ----------
        model : Model
            From ``hetsim.load_model``.
        platform : Platform
            From ``hetsim.load_platform``.
        cost : str
            Name of a registered cost model.
        contention : "fifo" or "none"
            Link contention.
        profiles : mapping of str to path, optional
            By device: a profile of this model on it, which prices the nodes that it has times for
            (``hetsim.cost.profiles``). ``gpu`` stands for ``gpu.0``, ``gpu.1`` and so on. The
            problem's ``profiles`` record its share.
        execute : mapping of str to str
            By device (``gpu`` is all of ``gpu.0``, ``gpu.1``): ``int8``, ``float16``, ... to price
            the model quantized to that, or in that precision. Tensors cross links in the model's
            own types; a device in int8 pays for the conversions.
        pessimistic : bool
            Whether to price every device and link at the upper end of its 80 % interval, see
            ``at_bad_end``.

        measured : mapping of str to measurements, optional
            By device: latencies of networks that you measured on it, as
            ``"resnet50.onnx:4.1ms:int8"``, a file of them (``"latencies.csv"``), or the output of
            a tool for a model (``"resnet50.onnx:trtexec.txt"``), one or a sequence; see
            ``hetsim.cost.profiles.latencies``. They adjust the device's times and narrow their
            intervals; those in a device's own file count as well. The problem's ``measured``
            records the result.

        Raises
        ------
        UnboundDimension
            If a cost needs a dimension that is not bound.
        UsageError
            For an unknown cost model, device (of a profile, measurements or `execute`) or
            precision; or a device that cannot run a whole measured network.
        InvalidInput
            If a profile cannot be read, or is of another model or other shapes; or if `execute`
            requests int8 for a quantized model.
        """
        from hetsim.problem.of_model import price

        given = price(
            model,
            platform,
            cost=cost,
            contention=contention,
            profiles=profiles,
            execute=execute,
            measured=measured,
        )
        problem = Problem(**vars(given))
        return problem.at_bad_end() if pessimistic else problem

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
        sd: ArrayLike = 0.0,
        name: str = "instance",
    ) -> Problem:
        """Return a problem without a model file; node ids are in topological order.

        Parameters
        ----------
        seconds : array [n, P]
            inf if the device cannot run the node.
        edges : (u, v, nbytes) triples, optional
            One transfer per edge.
        tensors : (producer, nbytes, consumers) triples, optional
            One transfer per destination device; producer -1 is an input that starts on the host,
            and empty consumers an output that ends there. Use `edges` or `tensors`.
        devices : sequence of str
            Default ``d0, d1, ...``.
        latency_s, bytes_per_s : number or array [P, P]
            Route from row to column. With contention every pair has a link of its own in each
            direction.
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
        sd : number or array [P]
            Standard deviation of the logarithm of the error factor of times on a device,
            independent between devices; 0: exact, as routes are.

        Raises
        ------
        InvalidInput
            For invalid shapes, ids, or signs.
        """
        from hetsim.problem.of_arrays import build

        given = build(
            seconds, edges, tensors, devices, latency_s, bytes_per_s, weight_bytes,
            capacity_bytes, host, contention, dispatch_s, streams, composites, staging, sd, name,
        )  # fmt: skip
        return Problem(**vars(given))


def same_hardware(problem: Problem, *, links: bool = False) -> Callable[[int, int], bool]:
    """Return the test whether two devices, by index, have the same hardware.

    They are not the host; they have equally many streams and equal memory; all routes to and from
    both are equally fast, and with `links` share their links with the same other routes. A test is
    O(P), with `links` O(P^2).
    """
    held = problem.capacity_bytes or problem.streams
    ways = [[(route.latency_s, route.bytes_per_s) for route in row] for row in problem.routes]
    ends: dict[int, list[tuple[int, int]]] = {}
    for source, row in enumerate(problem.routes if links else ()):
        for target, route in enumerate(row):
            for link in route.resources:
                ends.setdefault(link, []).append((source, target))
    shared = sorted(ends.values())

    def change_places(a: int, b: int) -> bool:
        if problem.host in (a, b):
            return False
        if (problem.streams[a], held[a]) != (problem.streams[b], held[b]):
            return False
        if ways[a][b] != ways[b][a] or any(
            (ways[a][p], ways[p][a]) != (ways[b][p], ways[p][b])
            for p in range(len(ways))
            if p not in (a, b)
        ):
            return False
        to = {a: b, b: a}
        return shared == sorted(
            sorted((to.get(p, p), to.get(q, q)) for p, q in each) for each in shared
        )

    return change_places


def interchangeable(problem: Problem, *, links: bool = False) -> Callable[[int, int], bool]:
    """Return the test whether two devices, by index, can be exchanged.

    They have the ``same_hardware``, and nodes, kernels and staging cost the same on both. A test is
    O(n + P), with `links` O(n + P^2).
    """
    own = [_own(problem, device) for device in range(len(problem.devices))]
    hardware = same_hardware(problem, links=links)

    def change_places(a: int, b: int) -> bool:
        return (
            own[a] == own[b]
            and np.array_equal(problem.seconds[:, a], problem.seconds[:, b])
            and np.array_equal(problem.least_seconds[:, a], problem.least_seconds[:, b])
            and hardware(a, b)
        )

    return change_places


def kinds_of(problem: Problem, devices: Iterable[int]) -> list[list[int]]:
    """Return `devices` grouped by kind, in order: each is exchangeable with its kind's first.

    O(P^2) tests of ``interchangeable``.
    """
    change_places = interchangeable(problem)
    kinds: list[list[int]] = []
    for device in devices:
        for kind in kinds:
            if change_places(kind[0], device):
                kind.append(device)
                break
        else:
            kinds.append([device])
    return kinds


def _own(problem: Problem, device: int) -> object:
    """Return the costs on a device that involve neither one node nor other devices."""
    staging = problem.staging
    return (
        problem.dispatch_s[device],
        None
        if staging is None
        else (staging.fetch_s_per_byte[device], staging.store_s_per_byte[device]),
        sorted((k.nodes, k.seconds, k.pattern) for k in problem.fused if k.device == device),
    )
