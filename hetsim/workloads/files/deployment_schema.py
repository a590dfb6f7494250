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
from hetsim.workloads.autoscaling import (
    AGGREGATIONS,
    MAX_ONGOING,
    MAX_REPLICAS,
    NOT_MODELLED,
    Autoscaling,
)
from hetsim.workloads.deployment import (
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
from hetsim.workloads.files.paths import model_at
from hetsim.workloads.workload import MAX_PRIORITY

Batch = Annotated[StrictInt, Field(ge=1, le=MAX_BATCH)]
Micros = Annotated[StrictInt, Field(ge=0, le=MAX_US)]
Level = Annotated[StrictInt, Field(ge=0, le=MAX_PRIORITY)]


class InstancesModel(Strict):
    """One entry of ``instances:``."""

    count: Annotated[StrictInt, Field(ge=1, le=MAX_INSTANCES)] = 1
    devices: tuple[Name, ...] = ()
    strategy: Text | None = None
    plan: Text | None = None
    max_in_flight: Annotated[StrictInt, Field(ge=1, le=MAX_IN_FLIGHT)] | None = None

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
    default_timeout_us: Micros = 0
    timeout_action: Annotated[StrictStr, OneOf("action", TIMEOUT_ACTIONS)] = "reject"

    def to_record(self) -> QueuePolicy:
        """Return what it describes."""
        given: Any = self.model_dump()
        return QueuePolicy(**given)


class DynamicBatchingModel(Strict):
    """How requests that wait become one batch."""

    max_batch_size: Batch
    preferred_batch_size: tuple[Batch, ...] = ()
    max_queue_delay_us: Micros = 0

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
    max_replicas: Annotated[StrictInt, Field(ge=1, le=MAX_REPLICAS)] = 1
    initial_replicas: Annotated[StrictInt, Field(ge=0, le=MAX_REPLICAS)] | None = None
    target_ongoing_requests: Positive = 2.0
    max_ongoing_requests: Annotated[StrictInt, Field(ge=1, le=MAX_ONGOING)] | None = None
    metrics_interval_s: Positive = 10.0
    look_back_period_s: Positive = 30.0
    upscale_delay_s: NotNegative = 30.0
    downscale_delay_s: NotNegative = 600.0
    downscale_to_zero_delay_s: NotNegative | None = None
    upscaling_factor: Positive | None = None
    downscaling_factor: Positive | None = None
    smoothing_factor: Positive = 1.0
    upscale_smoothing_factor: Positive | None = None
    downscale_smoothing_factor: Positive | None = None
    aggregation_function: Annotated[StrictStr, OneOf("aggregation", AGGREGATIONS)] = "mean"
    control_loop_interval_s: Positive = 0.1
    graceful_shutdown_wait_loop_s: Positive = 2.0
    startup_s: NotNegative = 0.0

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
    strategy: Text = "auto"
    batch_sizes: tuple[Batch, ...] = ()
    batch_dim: Text | None = None
    instances: Annotated[tuple[InstancesModel, ...], Field(min_length=1)] = (InstancesModel(),)
    routing: Annotated[StrictStr, OneOf("routing", ROUTINGS)] = "shortest_queue"
    queue_policy: QueuePolicyModel = QueuePolicyModel()
    priority_levels: Level = 0
    default_priority_level: Level = 0
    dynamic_batching: DynamicBatchingModel | None = None
    loading: Annotated[StrictStr, OneOf("loading", LOADINGS)] = "resident"
    autoscaling: AutoscalingModel | None = None

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
