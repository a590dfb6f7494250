"""The answer: which instances of which model on which devices, and what becomes of requests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hetsim.core.result import Result
from hetsim.errors import Infeasible, ObjectiveMissed, Undecided
from hetsim.hardware.spec import Platform
from hetsim.provisioning.instances.candidates import Instance, Refused
from hetsim.provisioning.instances.search import gap_of
from hetsim.simulation.service.service import Service, StreamService
from hetsim.statistics.intervals import percentile_at
from hetsim.statistics.verdict import Answer
from hetsim.workload.deployment import Deployment, DynamicBatching
from hetsim.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Sought:
    """Search under one way to batch.

    Of the instances that were `offered` the best set that fits carries `factor` times the demand, 0
    where none fits; no set exceeds `bound`, nor `relaxed` with instances in parts. A better one may
    exceed it by the part `gap`; `proved`: none does.
    """

    batching: DynamicBatching | None
    offered: int
    refused: tuple[Refused, ...]
    factor: float
    bound: float
    relaxed: float
    gap: float
    proved: bool


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """One placement, and what becomes of the workload's requests there.

    It carries `factor` times the demand, each request where it suits best; then `binds` is busy all
    the time, a device, a link, or an instance's places, and each of them for a part `use` of its
    time. `memory_bytes` are held of each device. `answer` is of all objectives together;
    "undecided", and `service` None, where it was not simulated.
    """

    instances: tuple[Instance, ...]
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
        """Model, devices and strategy of each instance: what tells one set from another."""
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
        """Largest of its percentiles over their limits; infinite where one is not known."""
        if self.service is None:
            return math.inf
        near = [0.0]
        for stream in self.service.streams:
            for slo in (objective.slo for objective in stream.objectives):
                known = percentile_at(stream.percentiles, slo.percentile)
                near.append((math.inf if known is None else known.estimate_s) / slo.latency_s)
        return max(near)


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """One stream alone on the same instances, and together with the other models."""

    stream: str
    model: str
    alone: StreamService
    together: StreamService

    @property
    def others_s(self) -> float:
        """Mean seconds that a request takes longer for the other models' work; NaN: not known."""
        return self.together.mean_s - self.alone.mean_s


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Placement(Result):
    """Best placement of a workload's models, and the others that were simulated.

    `rate_per_s` is of all streams: what factors are on. `rows` were simulated, the best first;
    empty where nothing fits. `sought` is by way to batch; `apart` of the best, by stream, empty of
    one model. `impossible` is why nothing meets what is asked, whatever instances, plans and
    batches, None where that is not proved.
    """

    workload: Workload
    platform: Platform
    rate_per_s: float
    rows: tuple[Placed, ...]
    sought: tuple[Sought, ...]
    apart: tuple[Apart, ...]
    impossible: str | None

    @property
    def best(self) -> Placed:
        """Best placement. Raises what ``require`` does where nothing fits."""
        if not self.rows:
            self.require()
        return self.rows[0]

    @property
    def deployment(self) -> Deployment:
        """Best placement as ``simulate`` takes it."""
        return self.best.deployment

    @property
    def factor(self) -> float:
        """Largest multiple of the demand that was found; 0 where nothing fits."""
        return max(one.factor for one in self.sought)

    @property
    def bound(self) -> float:
        """Multiple of the demand that no set of the replicas tried exceeds."""
        return max(one.bound for one in self.sought)

    @property
    def gap(self) -> float:
        """Part of the factor by which a better set may exceed it."""
        return gap_of(self.factor, self.bound)

    def require(self) -> Placed:
        """Best placement, which meets every objective.

        Raises
        ------
        Infeasible
            Where it is proved that nothing does, whatever instances, plans and batches.
        ObjectiveMissed
            Where each placement that was tried misses one, or none of what was tried fits.
        Undecided
            Where one of them may meet all.
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
        """Requests until about when one of the undecided placements is decided."""
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
