"""Answer of ``place``: instances of models on devices, and the results of the workload there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hetsim.core.result import Result
from hetsim.errors import Infeasible, ObjectiveMissed, Undecided
from hetsim.hardware.spec import Platform
from hetsim.provisioning.instances.candidates import InstanceKind, RefusedInstance
from hetsim.provisioning.instances.search import gap_of
from hetsim.simulation.service.service import Service, StreamService
from hetsim.statistics.intervals import percentile_at
from hetsim.statistics.verdict import Answer
from hetsim.workload.deployment import Deployment, DynamicBatching
from hetsim.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class BatchingSearch:
    """Search result for one way to batch.

    The best set of the `offered` instances that fits sustains `factor` times the demand, 0 if none
    fits; no set exceeds `bound`, nor `relaxed` with fractional instances. A better one exceeds it
    by at most the share `gap`; `proved`: none is better.
    """

    batching: DynamicBatching | None
    offered: int
    refused: tuple[RefusedInstance, ...]
    factor: float
    bound: float
    relaxed: float
    gap: float
    proved: bool


@dataclass(frozen=True, slots=True, eq=False)
class PlacementOutcome:
    """Placement with the results of the workload's requests there.

    It sustains `factor` times the demand with optimal routing; then `binds` (a device, link, or an
    instance's batches) is always busy, and each resource for the share `use` of its time.
    `memory_bytes` are held on each device. `answer` covers all objectives; "undecided" with
    `service` None if it was not simulated.
    """

    instances: tuple[InstanceKind, ...]
    deployment: Deployment
    batching: DynamicBatching | None
    factor: float
    binds: str
    use: Mapping[str, float]
    memory_bytes: Mapping[str, int]
    service: Service | None = field(repr=False)
    answer: Answer

    @property
    def places(self) -> tuple[tuple[str, tuple[str, ...], str], ...]:
        """Model, devices and strategy of each instance, which identify a set."""
        return tuple((one.model, one.devices, one.strategy) for one in self.instances)

    @property
    def waits(self) -> str:
        """Queue discipline of its instances."""
        served = self.deployment.models[0]
        if all(served.in_flight(entry) for entry in served.instances):
            return "in one line"
        return f"sent at once, {served.routing.replace('_', ' ')}"

    @property
    def near(self) -> float:
        """Largest ratio of its percentiles to their limits; infinite if one is unknown."""
        if self.service is None:
            return math.inf
        near = [0.0]
        for stream in self.service.streams:
            for slo in (objective.slo for objective in stream.objectives):
                known = percentile_at(stream.percentiles, slo.percentile)
                near.append((math.inf if known is None else known.estimate_s) / slo.latency_s)
        return max(near)


@dataclass(frozen=True, slots=True, eq=False)
class Interference:
    """Results of a stream without the other models on the same instances, and with them."""

    stream: str
    model: str
    alone: StreamService
    together: StreamService

    @property
    def others_s(self) -> float:
        """Mean seconds added to a request by the other models' work; NaN if unknown."""
        return self.together.mean_s - self.alone.mean_s


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Placement(Result):
    """Best placement of a workload's models, and the others that were simulated.

    `rate_per_s` is the rate of all streams that factors multiply. `rows` were simulated, best
    first; empty if nothing fits. `sought` is by way to batch; `apart` belongs to the best, by
    stream, empty for one model. `impossible` is the reason why no instances, plans or batches meet
    the objectives, None without a proof.
    """

    workload: Workload
    platform: Platform
    rate_per_s: float
    rows: tuple[PlacementOutcome, ...]
    sought: tuple[BatchingSearch, ...]
    apart: tuple[Interference, ...]
    impossible: str | None

    @property
    def best(self) -> PlacementOutcome:
        """Best placement. Raises as ``require`` if nothing fits."""
        if not self.rows:
            self.require()
        return self.rows[0]

    @property
    def deployment(self) -> Deployment:
        """Best placement in the form that ``simulate`` takes."""
        return self.best.deployment

    @property
    def factor(self) -> float:
        """Largest sustained multiple of the demand found; 0 if nothing fits."""
        return max(one.factor for one in self.sought)

    @property
    def bound(self) -> float:
        """Multiple of the demand that no set of the offered replicas exceeds."""
        return max(one.bound for one in self.sought)

    @property
    def gap(self) -> float:
        """Share of the factor by which a better set may exceed it."""
        return gap_of(self.factor, self.bound)

    def require(self) -> PlacementOutcome:
        """Return the best placement, which meets every objective.

        Raises
        ------
        Infeasible
            If it is proved that no instances, plans and batches meet them.
        ObjectiveMissed
            If each placement tried misses one, or none fits.
        Undecided
            If one of them may meet all.
        """
        if self.rows and self.rows[0].answer == "meets":
            return self.rows[0]
        if self.impossible is not None:
            raise Infeasible(self.impossible, hint="ask for less, or another platform")
        if not self.rows:
            raise ObjectiveMissed(
                self._nothing_fits(),
                hint="give smaller batches, other strategies, or another platform",
            )
        best = self.rows[0]
        if any(one.answer == "undecided" for one in self.rows):
            raise Undecided(
                f"whether a placement meets the objectives is undecided; the best sustains "
                f"{best.factor:.3g} times the demand",
                hint=f"give --requests {self.requests_to_tell}, about as many as a verdict takes",
            )
        raise ObjectiveMissed(
            f"each of {len(self.rows)} deployments misses an objective; the best sustains "
            f"{best.factor:.3g} times the demand, and no other of the instances tried more than "
            f"{self.bound:.3g}",
            hint="give other --batching or --strategy, a longer latency, or another platform",
        )

    @property
    def requests_to_tell(self) -> int:
        """Approximate number of requests until one of the undecided placements is decided."""
        services = [row.service for row in self.rows if row.answer == "undecided"]
        return min(one.requests_to_tell for one in services if one is not None)

    def _nothing_fits(self) -> str:
        told = [row for one in self.sought for row in one.refused]
        served = {stream.model for stream in self.workload.streams}
        for model in sorted(served):
            mine = [row for row in told if row.model == model]
            if mine and all(row.slow for row in mine):
                return f"no instance of {model} is quick enough alone: {mine[0].why}"
        whole = "no set of instances that serves every model fits the memory of the devices"
        return (
            f"{whole}; {told[0].model} on {', '.join(told[0].devices)}: {told[0].why}"
            if told
            else whole
        )
