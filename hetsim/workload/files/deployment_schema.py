"""What a deployment file may say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr
from pydantic import model_validator as validated

from hetsim.errors import InvalidInput
from hetsim.hardware.files.figures import (
    Name,
    NotNegative,
    OneOf,
    Positive,
    Strict,
    Text,
    refusal,
    refusals,
)
from hetsim.workload.autoscaling import (
    AGGREGATIONS,
    MAX_ONGOING,
    MAX_REPLICAS,
    NOT_MODELLED,
    Autoscaling,
)
from hetsim.workload.deployment import (
    LOADINGS,
    MAX_BATCH,
    MAX_IN_FLIGHT,
    MAX_INSTANCES,
    MAX_QUEUE,
    MAX_US,
    ROUTINGS,
    TIMEOUT_ACTIONS,
    Deployment,
    DynamicBatching,
    Instances,
    QueuePolicy,
    Served,
)
from hetsim.workload.files.paths import model_at
from hetsim.workload.workload import MAX_PRIORITY

Batch = Annotated[StrictInt, Field(ge=1, le=MAX_BATCH)]
Micros = Annotated[StrictInt, Field(ge=0, le=MAX_US)]
Level = Annotated[StrictInt, Field(ge=0, le=MAX_PRIORITY)]


class InstancesModel(Strict):
    """One entry of ``instances:``."""

    count: Annotated[StrictInt, Field(ge=1, le=MAX_INSTANCES)] = 1
    """How many of them are alike."""
    devices: tuple[Name, ...] = ()
    """Those that each may use; absent: all."""
    strategy: Text | None = None
    """What plans them; absent: that of the model."""
    plan: Text | None = None
    """A saved plan, in the place of a strategy."""
    max_in_flight: Annotated[StrictInt, Field(ge=1, le=MAX_IN_FLIGHT)] | None = None
    """Batches that each has under way at most; absent: one where requests are batched, have
    priorities or wait by a policy, else as many as its plan takes."""

    @validated(mode="after")
    def _fits(self) -> InstancesModel:
        try:
            self.to_record(Path())
        except InvalidInput as error:
            raise refusal(error.what, error.hint or "") from None
        return self

    def to_record(self, base: Path) -> Instances:
        """Return the instances; paths start from the folder `base`."""
        plan = None if self.plan is None else str(base / self.plan)
        return Instances(self.count, self.devices, self.strategy, plan, self.max_in_flight)


class QueuePolicyModel(Strict):
    """How requests wait."""

    max_queue_size: Annotated[StrictInt, Field(ge=0, le=MAX_QUEUE)] = 0
    """Requests that may wait; a further one is rejected. 0: any number."""
    default_timeout_us: Micros = 0
    """How long a request may wait, in microseconds. 0: for ever."""
    timeout_action: Annotated[StrictStr, OneOf("action", TIMEOUT_ACTIONS)] = "reject"
    """Of one that waited longer: rejected, or after all that did not."""

    def to_record(self) -> QueuePolicy:
        """Return what it describes."""
        given: Any = self.model_dump()
        return QueuePolicy(**given)


class DynamicBatchingModel(Strict):
    """How requests that wait become one batch."""

    max_batch_size: Batch
    """The most requests of one batch."""
    preferred_batch_size: tuple[Batch, ...] = ()
    """Ascending sizes; a batch of one of them goes at once."""
    max_queue_delay_us: Micros = 0
    """How long the oldest waits for others, in microseconds."""

    @validated(mode="after")
    def _fits(self) -> DynamicBatchingModel:
        try:
            self.to_record()
        except InvalidInput as error:
            raise refusal(error.what, error.hint or "", ("preferred_batch_size",)) from None
        return self

    def to_record(self) -> DynamicBatching:
        """Return what it describes."""
        return DynamicBatching(**self.model_dump())


class AutoscalingModel(Strict):
    """When replicas start and stop."""

    min_replicas: Annotated[StrictInt, Field(ge=0, le=MAX_REPLICAS)] = 1
    """The fewest that there are."""
    max_replicas: Annotated[StrictInt, Field(ge=1, le=MAX_REPLICAS)] = 1
    """The most; instances: has as many or more."""
    initial_replicas: Annotated[StrictInt, Field(ge=0, le=MAX_REPLICAS)] | None = None
    """Of which it begins; absent: min_replicas."""
    target_ongoing_requests: Positive = 2.0
    """Requests, queued or under way, for each replica."""
    max_ongoing_requests: Annotated[StrictInt, Field(ge=1, le=MAX_ONGOING)] | None = None
    """That a replica has under way at most; absent: 5."""
    metrics_interval_s: Positive = 10.0
    """How often what was counted is told, in seconds."""
    look_back_period_s: Positive = 30.0
    """How far back it is aggregated, in seconds."""
    upscale_delay_s: NotNegative = 30.0
    """How long more must have been wanted, in seconds."""
    downscale_delay_s: NotNegative = 600.0
    """How long fewer must have been wanted, in seconds."""
    downscale_to_zero_delay_s: NotNegative | None = None
    """The same of the last one; absent: downscale_delay_s."""
    upscaling_factor: Positive | None = None
    """On the replicas that are lacking; absent: smoothing_factor."""
    downscaling_factor: Positive | None = None
    """On those that are too many; absent: smoothing_factor."""
    smoothing_factor: Positive = 1.0
    """An older name: both factors, where they are absent."""
    upscale_smoothing_factor: Positive | None = None
    """An older name of upscaling_factor."""
    downscale_smoothing_factor: Positive | None = None
    """An older name of downscaling_factor."""
    aggregation_function: Annotated[StrictStr, OneOf("aggregation", AGGREGATIONS)] = "mean"
    """Of what was counted."""
    control_loop_interval_s: Positive = 0.1
    """How often it is decided, in seconds."""
    graceful_shutdown_wait_loop_s: Positive = 2.0
    """How often a replica that is to go looks whether it has ended all that it had, in seconds."""
    startup_s: NotNegative = 0.0
    """Seconds that a replica takes to start, before its weights are loaded."""

    @validated(mode="before")
    @classmethod
    def _modelled(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            found = [
                (f"KEY has {key}, which is not played", hint, ())
                for key, hint in NOT_MODELLED.items()
                if key in given
            ]
            if found:
                raise refusals(found)
        return given

    @validated(mode="after")
    def _fits(self) -> AutoscalingModel:
        try:
            self.to_record()
        except InvalidInput as error:
            raise refusal(error.what, error.hint or "", _key(type(self), error)) from None
        return self

    def to_record(self) -> Autoscaling:
        """Return what it describes."""
        given: Any = self.model_dump()
        return Autoscaling(**given)


def _key(model: type[Strict], error: InvalidInput) -> tuple[str, ...]:
    """The key that an error begins with, where it is one of the model's."""
    key = error.what.partition(" ")[0]
    return (key,) if key in model.model_fields else ()


class ServedModel(Strict):
    """One entry of ``models:``."""

    model: Text
    """Path of an ONNX file, from the folder of this one, or zoo:NAME."""
    strategy: Text = "auto"
    """What plans its instances, as --strategy takes it."""
    batch_sizes: tuple[Batch, ...] = ()
    """Ascending sizes that it is planned for; a batch runs as the least that holds it. Absent:
    every size."""
    batch_dim: Text | None = None
    """The open dimension that is the batch; absent: the first of the first input."""
    instances: Annotated[tuple[InstancesModel, ...], Field(min_length=1)] = (InstancesModel(),)
    """Its replicas; absent: one on all devices."""
    routing: Annotated[StrictStr, OneOf("routing", ROUTINGS)] = "shortest_queue"
    """Which instance gets a batch."""
    queue_policy: QueuePolicyModel = QueuePolicyModel()
    """How requests wait."""
    priority_levels: Level = 0
    """Levels of priority, 1 the first; 0: requests have none."""
    default_priority_level: Level = 0
    """Of requests that say none."""
    dynamic_batching: DynamicBatchingModel | None = None
    """How requests that wait become one batch; absent: they do not."""
    loading: Annotated[StrictStr, OneOf("loading", LOADINGS)] = "resident"
    """Whether its weights are in memory all along, or loaded where batches need it."""
    autoscaling: AutoscalingModel | None = None
    """When replicas start and stop, as Ray Serve does it; absent: all instances are there all
    along."""

    @validated(mode="after")
    def _fits(self) -> ServedModel:
        try:
            self.to_record(Path())
        except InvalidInput as error:
            raise refusal(error.what, error.hint or "", _key(type(self), error)) from None
        return self

    def to_record(self, base: Path) -> Served:
        """Return how the model is served; paths start from the folder `base`."""
        given: Any = {
            **dict(self),
            "model": model_at(self.model, base),
            "instances": tuple(one.to_record(base) for one in self.instances),
            "queue_policy": self.queue_policy.to_record(),
            "dynamic_batching": self.dynamic_batching and self.dynamic_batching.to_record(),
            "autoscaling": self.autoscaling and self.autoscaling.to_record(),
        }
        return Served(**given)


class DeploymentModel(Strict):
    """A deployment file."""

    models: Annotated[tuple[ServedModel, ...], Field(min_length=1)]
    """What is served, each model once."""

    @validated(mode="after")
    def _fits(self) -> DeploymentModel:
        try:
            self.to_record(Path())
        except InvalidInput as error:
            raise refusal(error.what, error.hint or "", ("models",)) from None
        return self

    def to_record(self, base: Path) -> Deployment:
        """Return the deployment; paths start from the folder `base`."""
        return Deployment(tuple(served.to_record(base) for served in self.models))
