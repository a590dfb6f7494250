"""Parts of a Problem: values, constants, fused kernels, staging."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import InvalidInput, nearest
from hetsim.graph.dag import Ints, NodeRows
from hetsim.hardware.kernel_figures import Basis, FigureError
from hetsim.hardware.kin import Likely
from hetsim.hardware.spec import Route

Contention = Literal["none", "fifo"]
GRAPH_INPUT = -1
"""Producer of a value that the caller provides."""


@dataclass(frozen=True, slots=True)
class Value:
    """Tensor that may move between devices.

    - `producer`: node id, or GRAPH_INPUT for an input of the model.
    - `consumers`: node ids, ascending, unique; empty for a value that is only an output.
    - `is_output`: whether it must end on the host.
    """

    name: str
    nbytes: int
    producer: int
    consumers: tuple[int, ...]
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class StoredConstant:
    """Weights, stored once on every device that runs one of their consumers."""

    name: str
    nbytes: int
    consumers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Slowdown of devices while other devices are busy.

    - `power`: factor of all devices, as their clocks fall.
    - `memory`: factor by device, as others use its memory bandwidth.
    """

    power: float
    memory: tuple[float, ...]

    @property
    def factors(self) -> tuple[float, ...]:
        """Slowdown factors by device."""
        return tuple(self.power * factor for factor in self.memory)


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """Nodes that one device runs as one kernel when they are in one subgraph.

    - `nodes`: ascending; the kernels of one device are disjoint.
    - `seconds`: replaces the sum of the nodes' own times.
    - `pattern`: pattern by which the device supports these nodes as a whole, even if not
    individually. ``""``: a fusion that only saves time.
    """

    device: int
    nodes: tuple[int, ...]
    seconds: float
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class StorageWidth:
    """Storage of tensors on a device in another width than in the model.

    - `wide_bits`, `bits`: bits of an element in the graph, and on the device.
    - `kept_bytes`: maximum bytes of tensors stored in the graph's width.
    """

    wide_bits: int = 1
    bits: int = 1
    kept_bytes: int = 0

    @classmethod
    def within(cls, capacity: int, wide_bits: int, bits: int, kept_bytes: int) -> StorageWidth:
        """Return the record for a memory of `capacity` bytes.

        Without conversion if the unconverted tensors leave no room to gain.
        """
        made = cls(wide_bits, bits, kept_bytes if wide_bits > bits else 0)
        return cls() if wide_bits > bits and made.room(capacity) <= capacity else made

    def room(self, nbytes: int) -> int:
        """Return the bytes in the graph's types, at least, that fit `nbytes` of the device."""
        kept = (self.wide_bits - self.bits) * self.kept_bytes
        return max(0, (nbytes * self.wide_bits - kept) // self.bits)

    def nbytes(self, stated: int) -> int:
        """Return the bytes on the device, at most, for `stated` bytes in the graph's types."""
        kept = (self.wide_bits - self.bits) * min(self.kept_bytes, stated)
        return -(-(stated * self.bits + kept) // self.wide_bits)


@dataclass(frozen=True, slots=True)
class Staging:
    """Cost of each tensor that a device moves, e.g. through the host's memory.

    Or that it converts, if it computes in another precision than tensors are moved in.

    A subgraph fetches each of its outside inputs once, and stores each tensor needed outside once,
    for any number of readers. Both count to its time, before and after its kernels.

    - `fetch_s_per_byte`, `store_s_per_byte`: seconds per byte by device; 0 for a device that
    computes in that memory.
    - `ends`: whether inputs and outputs of the model count, if there is a host, or only tensors
    between subgraphs.
    """

    fetch_s_per_byte: tuple[float, ...]
    store_s_per_byte: tuple[float, ...]
    ends: bool = True


def distributed_seconds(
    seconds: float | NDArray[np.float64], alone: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Distribute `seconds` [...] of fused kernels over members that take `alone` [..., members].

    Shares are proportional to those times and never above them, so a sum over whole kernels is
    exact; members not supported individually (inf) get equal parts of the remainder.
    """
    finite = np.isfinite(alone)
    shares = np.where(finite, alone, 0.0)
    total = shares.sum(axis=-1)
    part = np.divide(seconds, total, out=np.ones_like(total), where=total > seconds)
    left = np.maximum(0.0, seconds - total) / np.maximum(1, (~finite).sum(axis=-1))
    return np.where(finite, shares * part[..., None], np.asarray(left)[..., None])


def check_contention(contention: str) -> Contention:
    """Return `contention` if it is valid. Raises InvalidInput otherwise."""
    if contention == "none":
        return "none"
    if contention == "fifo":
        return "fifo"
    raise InvalidInput(
        f"unknown contention '{contention}'", hint=nearest(str(contention), ("fifo", "none"))
    )


@dataclass(frozen=True, eq=False, slots=True)
class ValueArrays:
    """Values by index; read-only.

    - `producer`: int array [values]. Node id, or GRAPH_INPUT.
    - `nbytes`: float array [values].
    - `readers`: node ids, ascending.
    - `leaves`: bool array [values]. Whether it must end on the host, if there is one.
    """

    producer: Ints
    nbytes: NDArray[np.float64]
    readers: NodeRows
    leaves: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Sequence[Value]) -> ValueArrays:
        """Return the arrays of the values. Linear in values and readers."""
        count = len(values)
        return cls(
            np.fromiter([value.producer for value in values], np.int64, count),
            np.fromiter([value.nbytes for value in values], np.float64, count),
            NodeRows.of([value.consumers for value in values]),
            np.fromiter([value.is_output for value in values], np.bool_, count),
        )


PROFILED_SD = 0.05
"""Error of measured times: their variation from one run to another."""

Z80 = 1.2815515655446004
"""Standard deviations from the mean to either end of a normal 80 % interval."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of networks by the user on a device, and the resulting factor for the model.

    - `sha256`: digest of each network's file.
    - `predicted_s`: prediction for each network, without the measurements.
    - `factor`: factor on the predicted times of the model in question.
    - `left_out`: for each measurement, measured over predicted with the factor of the others; empty
    if there is only one.
    """

    measurements: tuple[Measurement, ...]
    sha256: tuple[str, ...]
    predicted_s: tuple[float, ...]
    factor: float
    left_out: tuple[float, ...]

    @property
    def networks(self) -> int:
        """Number of measured networks."""
        return len(set(self.sha256))


@dataclass(frozen=True, slots=True)
class Floor:
    """Component of an uncertainty that cross-validation does not cover.

    - `reason`: ``sources``, the user's machine is another one; ``batch``, no such batch size was
      measured; ``dies``, few chips stand behind the family; ``unlike``, the family ran no network
      like this one; ``peaks``, the datasheet's peaks may not be dense rates.
    - `sd`: standard deviation of the logarithm of its factor.
    """

    reason: str
    sd: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence behind the figures of one device or link.

    The factor on their times is lognormal with median 1: its logarithm is `common` times a normal
    variable shared by all of the same `kin`, plus the rest times one shared by all of the same
    `of`.

    - `name`: name of the device in plans, or of the link.
    - `of`: owner of the figures: devices or links with the same owner share the factor.
    - `status`: weakest status of the figures in use, see ``hetsim.hardware.kernel_figures``.
    - `sd`: standard deviation of the logarithm of the factor; 0: exact.
    - `common`: part of it that is shared with the device family, from 0 to `sd`.
    - `kin`: device family, whose errors on a network are correlated.
    - `precision`: precision of the figures that price the model; empty if not distinguished.
    - `error`: errors of predictions against measurements, if there are some.
    - `runtime`: runtime of the measurements.
    - `measured`: share of its time that comes from a profile of this model, from 0 to 1.
    - `likely`: adjustment to this model from the device family, included in the prices.
    - `by_kernel`: share of the variance independent for each kernel, from 0 to 1: the additional
    error of a part of the model, see ``hetsim.analysis.confidence``. 0: none; above 1 if the whole
    was measured.
    - `before`: status before hypothetical changes, see ``hetsim.what_if``; empty: none. Errors of
    times stay those of the original figures.
    - `measured_here`: measurements by the user on the device, whose factor is included in the
    prices.
    - `basis`: measurements behind the figures; None if not stated.
    - `floors`: components of `sd` that are not shared with the device family.
    """

    name: str
    of: str
    status: str
    sd: float
    common: float = 0.0
    kin: str = ""
    precision: str = ""
    error: FigureError | None = None
    runtime: str = ""
    measured: float = 0.0
    likely: Likely | None = None
    by_kernel: float = 0.0
    before: str = ""
    measured_here: Measured | None = None
    basis: Basis | None = None
    floors: tuple[Floor, ...] = ()

    @property
    def of_device(self) -> float:
        """Part of `sd` from `floors` that is one factor of the device for all networks."""
        return sqrt(sum(floor.sd**2 for floor in self.floors if floor.reason != "unlike"))

    @property
    def own(self) -> float:
        """Part of `sd` that is not shared with its device family."""
        return sqrt(max(self.sd**2 - self.common**2, 0.0))


@dataclass(frozen=True, eq=False, slots=True)
class Uncertainty:
    """Logarithms of the errors of times, as sums of independent sources.

    The log factor of device p is ``devices[p] @ z``, with z independent standard normal variables,
    one per source; that of the route from p to q is ``routes[p, q] @ z``.

    - `devices`: float array [P, S].
    - `routes`: float array [P, P, S].
    """

    sources: tuple[str, ...]
    devices: NDArray[np.float64]
    routes: NDArray[np.float64]

    @property
    def device_sd(self) -> NDArray[np.float64]:
        """Standard deviation of the log by device, [P]."""
        return np.asarray(np.sqrt((self.devices**2).sum(axis=-1)))

    @property
    def route_sd(self) -> NDArray[np.float64]:
        """Standard deviation of the log by route, [P, P]."""
        return np.asarray(np.sqrt((self.routes**2).sum(axis=-1)))

    @property
    def certain(self) -> bool:
        """Whether all times count as exact."""
        return not self.sources


def uncertainty_of(
    devices: Sequence[Evidence], links: Sequence[Evidence], weights: NDArray[np.float64]
) -> Uncertainty:
    """Return the error sources stated for devices and links. O((P + P^2 L) S)."""
    index: dict[str, int] = {}
    for prefix, those in (("device", devices), ("link", links)):
        for one in those:
            if one.common > 0:
                index.setdefault(f"kin {one.kin}", len(index))
            if one.own > 0:
                index.setdefault(f"{prefix} {one.of}", len(index))

    def loads(prefix: str, those: Sequence[Evidence]) -> NDArray[np.float64]:
        found = np.zeros((len(those), len(index)))
        for row, one in zip(found, those, strict=True):
            if one.common > 0:
                row[index[f"kin {one.kin}"]] = one.common
            if one.own > 0:
                row[index[f"{prefix} {one.of}"]] = one.own
        return found

    return Uncertainty(
        tuple(index), loads("device", devices), np.asarray(weights @ loads("link", links))
    )


if TYPE_CHECKING:
    from hetsim.cost.profiles.prices import MeasuredShare
    from hetsim.graph.model import Model
    from hetsim.hardware.measurement import Measurement
    from hetsim.hardware.spec import Platform


MOST_BYTES = 2**62
"""Maximum of values and weights in all, so that their sum fits in 64 bits."""


def check_bytes(sized: Iterable[Value | StoredConstant], where: str) -> None:
    """Raise InvalidInput if values and weights together exceed MOST_BYTES."""
    if sum(one.nbytes for one in sized) > MOST_BYTES:
        raise InvalidInput(
            f"values and weights take more than {MOST_BYTES:.3g} bytes in all",
            where=where,
            hint="check the dimensions, or the numbers of bytes",
        )


@dataclass(frozen=True, eq=False)
class ProblemData:
    """Defining data of a Problem, from which everything else is derived.

    - `seconds`: float array [n, P]. Time of node v alone on device p, kernel launch included; inf
    where unsupported.
    - `routes`: ``routes[p][q]`` for p != q; the diagonal is free and of no meaning.
    - `dispatch_s`: seconds to start one subgraph, by device.
    - `streams`: number of concurrent subgraphs, by device.
    - `host`: device on which inputs start and outputs end; None: inputs and outputs are free.
    - `contention`: whether a link carries one transfer at a time.
    - `link_names`: resources indexed by ``Route.resources``.
    - `capacity_bytes`: memory by device, in bytes of the graph's own types; None: memory is not
    modelled.
    - `held`: by device: storage of the graph's own types; empty: unconverted.
    - `staging`: cost to subgraphs of tensors that go through the host's memory; None: only routes
    have a cost.
    - `idle_w`, `busy_w`: power by device; all zero if energy is not modelled.
    - `origins`: names in the user's file that each node stands for.
    - `refusals`: by device: reason why it does not support a node.
    - `unpriced`: nodes of unknown work, and why: `seconds` covers the known part, which is not a
    bound. With any, no claim is made about a plan.
    - `unsized`: nodes whose product sizes are unknown, and why, if kernel figures need them: these
    are priced by FLOP alone, with a larger error.
    - `least_s`: by node, then device: least time of nodes that may take less than `seconds`, such
    as an If with an unknown branch. Only bounds use it.
    - `profiles`: by device with a profile: the profile, and the share of prices from it.
    - `measured`: by device: the user's measurements of networks, whose factor is included in the
    prices.
    - `evidence`, `link_evidence`: by device, and by link of the platform: source of their figures,
    and error of their times. Empty for instances given as arrays, which are exact.
    - `pessimistic`: whether every time is at the upper end of its 80 % interval.
    - `slower`: slowdown by power and memory shared with other devices in a plan
    (``hetsim.analysis.sustained_speed``); None: each device has its full speed.
    - `cost`: name of the cost model of the times; empty for instances given as arrays.
    - `model`, `platform`: origin of the problem; None for instances given as arrays.
    """

    name: str
    devices: tuple[str, ...]
    seconds: NDArray[np.float64] = field(repr=False)
    values: tuple[Value, ...] = field(repr=False)
    constants: tuple[StoredConstant, ...] = field(repr=False)
    routes: tuple[tuple[Route, ...], ...] = field(repr=False)
    dispatch_s: tuple[float, ...] = field(repr=False)
    streams: tuple[int, ...] = field(repr=False)
    host: int | None = None
    contention: Contention = "fifo"
    link_names: tuple[str, ...] = field(default=(), repr=False)
    capacity_bytes: tuple[int, ...] | None = field(default=None, repr=False)
    held: tuple[StorageWidth, ...] = field(default=(), repr=False)
    fused: tuple[FusedKernel, ...] = field(default=(), repr=False)
    staging: Staging | None = None
    idle_w: tuple[float, ...] = field(default=(), repr=False)
    busy_w: tuple[float, ...] = field(default=(), repr=False)
    node_names: tuple[str, ...] = field(default=(), repr=False)
    op_types: tuple[str, ...] = field(default=(), repr=False)
    origins: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    refusals: tuple[Mapping[int, str], ...] = field(default=(), repr=False)
    unpriced: Mapping[int, str] = field(default_factory=dict, repr=False)
    unsized: Mapping[int, str] = field(default_factory=dict, repr=False)
    least_s: Mapping[int, tuple[float, ...]] = field(default_factory=dict, repr=False)
    profiles: Mapping[str, MeasuredShare] = field(default_factory=dict, repr=False)
    measured: Mapping[str, Measured] = field(default_factory=dict, repr=False)
    evidence: tuple[Evidence, ...] = field(default=(), repr=False)
    link_evidence: tuple[Evidence, ...] = field(default=(), repr=False)
    pessimistic: bool = False
    slower: Slowdown | None = None
    cost: str = ""
    model: Model | None = field(default=None, repr=False)
    platform: Platform | None = field(default=None, repr=False)


G = TypeVar("G", bound=ProblemData)


def scaled(given: G, devices: NDArray[np.float64], routes: NDArray[np.float64]) -> G:
    """Return the problem with all times of devices and routes multiplied.

    All work of device p (kernels, their launches, subgraph starts, fetching and storing) takes
    ``devices[p]`` times as long, a transfer from p to q ``routes[p, q]`` times.

    - `devices`: float array [P].
    - `routes`: float array [P, P].

    Complexity: O(n P + P^2).
    """
    factors = devices.tolist()
    staging = given.staging
    return replace(
        given,
        seconds=given.seconds * devices,
        fused=tuple(replace(k, seconds=k.seconds * factors[k.device]) for k in given.fused),
        dispatch_s=tuple(s * f for s, f in zip(given.dispatch_s, factors, strict=True)),
        least_s={
            node: tuple(s * f for s, f in zip(least, factors, strict=True))
            for node, least in given.least_s.items()
        },
        staging=None
        if staging is None
        else Staging(
            tuple(s * f for s, f in zip(staging.fetch_s_per_byte, factors, strict=True)),
            tuple(s * f for s, f in zip(staging.store_s_per_byte, factors, strict=True)),
            staging.ends,
        ),
        routes=tuple(
            tuple(_slower(route, factor) for route, factor in zip(row, along, strict=True))
            for row, along in zip(given.routes, routes.tolist(), strict=True)
        ),
    )


def _slower(route: Route, factor: float) -> Route:
    return replace(
        route, latency_s=route.latency_s * factor, bytes_per_s=route.bytes_per_s / factor
    )
