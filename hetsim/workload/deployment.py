"""Deployment: the instances, queues and batching of each model.

Terms and rules are those of Triton's model configuration
(https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/batcher.html).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Literal

from hetsim.core.checks import instance, one_of, sequence, text, whole
from hetsim.errors import UsageError, WorkloadError, nearest
from hetsim.workload.autoscaling import Autoscaling
from hetsim.workload.workload import MAX_PRIORITY, Workload

Routing = Literal["round_robin", "shortest_queue", "least_finish"]
ROUTINGS: tuple[Routing, ...] = ("round_robin", "shortest_queue", "least_finish")
Loading = Literal["resident", "on_demand"]
LOADINGS: tuple[Loading, ...] = ("resident", "on_demand")
TimeoutAction = Literal["reject", "delay"]
TIMEOUT_ACTIONS: tuple[TimeoutAction, ...] = ("reject", "delay")

MAX_BATCH = 2**16
MAX_US = 10**12
MAX_INSTANCES = 2**12
MAX_IN_FLIGHT = 2**16
MAX_QUEUE = 10**11


@dataclass(frozen=True, slots=True)
class Instances:
    """Identical replicas of a model.

    Each may use the platform's `devices`; empty: all. It is planned by `strategy`, as in
    ``--strategy``, absent: that of the model; or by a saved `plan`. `max_in_flight` is the maximum
    of concurrent batches of each. Absent: one, as in Triton, if requests are batched, have
    priorities or a queue policy, or the model is loaded on demand; the ``max_ongoing_requests`` of
    an autoscaled model; else unlimited, with each device serving them in turn.
    """

    count: int = 1
    devices: tuple[str, ...] = ()
    strategy: str | None = None
    plan: str | None = None
    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        whole(1, MAX_INSTANCES)(self.count, "count")
        if self.max_in_flight is not None:
            whole(1, MAX_IN_FLIGHT)(self.max_in_flight, "max_in_flight")
        sequence(text)(self.devices, "devices")
        object.__setattr__(self, "devices", tuple(self.devices))
        for given, name in ((self.strategy, "strategy"), (self.plan, "plan")):
            if given is not None:
                text(given, name)
        for at, name in enumerate(self.devices):
            if name in self.devices[:at]:
                raise WorkloadError(f"the device '{name}' is named twice", hint="remove one")
        if self.strategy is not None and self.plan is not None:
            raise WorkloadError("both a strategy and a plan are given", hint="use one of them")


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """Queueing rules of requests.

    At most `max_queue_size` (0: unlimited) requests wait, further ones are rejected; for
    `default_timeout_us` microseconds (0: unlimited). A request that waited longer is rejected, or
    goes behind all that did not ("delay").
    """

    max_queue_size: int = 0
    default_timeout_us: int = 0
    timeout_action: TimeoutAction = "reject"

    def __post_init__(self) -> None:
        whole(0, MAX_QUEUE)(self.max_queue_size, "max_queue_size")
        whole(0, MAX_US)(self.default_timeout_us, "default_timeout_us")
        one_of(*TIMEOUT_ACTIONS)(self.timeout_action, "timeout_action")


@dataclass(frozen=True, slots=True)
class DynamicBatching:
    """Batching rules of waiting requests.

    A batch of a preferred size (ascending; empty: only the largest) goes at once; otherwise the
    oldest request waits `max_queue_delay_us` microseconds for others.
    """

    max_batch_size: int
    preferred_batch_size: tuple[int, ...] = ()
    max_queue_delay_us: int = 0

    def __post_init__(self) -> None:
        whole(1, MAX_BATCH)(self.max_batch_size, "max_batch_size")
        whole(0, MAX_US)(self.max_queue_delay_us, "max_queue_delay_us")
        sequence(whole(1, MAX_BATCH))(self.preferred_batch_size, "preferred_batch_size")
        sizes = tuple(self.preferred_batch_size)
        object.__setattr__(self, "preferred_batch_size", sizes)
        if list(sizes) != sorted(set(sizes)):
            raise WorkloadError("preferred_batch_size does not ascend", hint="write e.g. [4, 8]")
        if sizes and sizes[-1] > self.max_batch_size:
            raise WorkloadError(
                f"preferred_batch_size has {sizes[-1]}, above max_batch_size {self.max_batch_size}",
                hint="use a smaller one, or a larger maximum",
            )

    @property
    def powers(self) -> tuple[int, ...]:
        """Powers of two below the maximum, and the maximum; a batch runs at the least that fits."""
        most = self.max_batch_size
        return (*(1 << power for power in range(most.bit_length()) if 1 << power < most), most)


@dataclass(frozen=True, slots=True)
class Served:
    """Served model.

    Attributes
    ----------
    model : str
        Model as named by streams: the path of an ONNX file, or ``zoo:NAME``.
    strategy : str
        Strategy for its instances, unless they have their own.
    batch_sizes : tuple of int
        Planned sizes, ascending; a batch runs at the smallest that holds it. Empty: every possible
        size of a batch.
    batch_dim : str, optional
        Open dimension of the batch; absent: the first of the first input.
    routing : "round_robin", "shortest_queue" or "least_finish"
        Selection of the instance for a batch.
    priority_levels : int
        Number of priority levels, 1 the first; 0: none.
    default_priority_level : int
        Level of requests without one; 0 without levels.
    dynamic_batching : DynamicBatching, optional
        Absent: each request runs alone.
    loading : "resident" or "on_demand"
        Whether its weights are always in the memory of its devices, or loaded from the host when a
        batch needs them: such models share the remaining memory in turns.
    autoscaling : Autoscaling, optional
        Rules by which replicas start and stop, which use the instances in order; absent: all
        instances exist throughout.
    """

    model: str
    strategy: str = "auto"
    batch_sizes: tuple[int, ...] = ()
    batch_dim: str | None = None
    instances: tuple[Instances, ...] = (Instances(),)
    routing: Routing = "shortest_queue"
    queue_policy: QueuePolicy = QueuePolicy()
    priority_levels: int = 0
    default_priority_level: int = 0
    dynamic_batching: DynamicBatching | None = None
    loading: Loading = "resident"
    autoscaling: Autoscaling | None = None

    def __post_init__(self) -> None:
        text(self.model, "model")
        text(self.strategy, "strategy")
        one_of(*ROUTINGS)(self.routing, "routing")
        one_of(*LOADINGS)(self.loading, "loading")
        sequence(instance(f"{__name__}:Instances"))(self.instances, "instances")
        sequence(whole(1, MAX_BATCH))(self.batch_sizes, "batch_sizes")
        instance(f"{__name__}:QueuePolicy")(self.queue_policy, "queue_policy")
        if self.batch_dim is not None:
            text(self.batch_dim, "batch_dim")
        if self.dynamic_batching is not None:
            instance(f"{__name__}:DynamicBatching")(self.dynamic_batching, "dynamic_batching")
        object.__setattr__(self, "instances", tuple(self.instances))
        object.__setattr__(self, "batch_sizes", tuple(self.batch_sizes))
        whole(0, MAX_PRIORITY)(self.priority_levels, "priority_levels")
        whole(0, MAX_PRIORITY)(self.default_priority_level, "default_priority_level")
        if list(self.batch_sizes) != sorted(set(self.batch_sizes)):
            raise WorkloadError("batch_sizes do not ascend", hint="write e.g. [1, 4, 8]")
        if not self.instances:
            raise WorkloadError(f"'{self.model}' has no instance", hint="remove 'instances'")
        levels, default = self.priority_levels, self.default_priority_level
        if (default == 0) != (levels == 0) or default > levels:
            raise WorkloadError(
                f"default_priority_level is {default}, but there are {levels} levels",
                hint=f"write 1 to {levels}" if levels else "add priority_levels:",
            )
        largest = self.dynamic_batching.max_batch_size if self.dynamic_batching else 1
        if self.batch_sizes and self.batch_sizes[-1] < largest:
            raise WorkloadError(
                f"batch_sizes end at {self.batch_sizes[-1]}, but batches have up to {largest} "
                "requests",
                hint=f"add {largest}",
            )
        if self.autoscaling is not None:
            instance("hetsim.workload.autoscaling:Autoscaling")(self.autoscaling, "autoscaling")
            self._check_autoscaling(self.autoscaling)

    def _check_autoscaling(self, scaling: Autoscaling) -> None:
        """Raise WorkloadError if the replicas cannot be autoscaled as configured."""
        count = sum(entry.count for entry in self.instances)
        if scaling.max_replicas > count:
            raise WorkloadError(
                f"autoscaling has max_replicas {scaling.max_replicas}, but {count} instances",
                hint=f"use instances: [{{count: {scaling.max_replicas}}}], on the devices on "
                "which replicas may start, in that order",
            )
        if self.loading == "on_demand":
            raise WorkloadError(
                "autoscaling and loading on_demand cannot be combined",
                hint="remove one: a replica loads its weights when it starts",
            )
        if scaling.max_ongoing_requests is None:
            return
        if self.dynamic_batching is not None:
            raise WorkloadError(
                "autoscaling has max_ongoing_requests, but dynamic_batching makes batches",
                hint=(
                    "use max_in_flight: under instances:, the number of batches of a replica at a "
                    "time"
                ),
            )
        if any(entry.max_in_flight is not None for entry in self.instances):
            raise WorkloadError(
                "autoscaling has max_ongoing_requests, and instances has max_in_flight",
                hint="use one of them",
            )

    def in_flight(self, entry: Instances) -> int:
        """Return the limit of batches in flight on an instance of `entry`; 0: no limit."""
        if entry.max_in_flight is not None:
            return entry.max_in_flight
        if self.loading == "on_demand":
            return 1
        if self.autoscaling is not None:
            return 1 if self.dynamic_batching else self.autoscaling.ongoing
        waits = self.dynamic_batching or self.priority_levels or self.queue_policy != QueuePolicy()
        return 1 if waits else 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Planned batch sizes, ascending."""
        if self.batch_sizes:
            return self.batch_sizes
        batching = self.dynamic_batching
        return tuple(range(1, batching.max_batch_size + 1)) if batching else (1,)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Models that a platform serves.

    Attributes
    ----------
    models : tuple of Served
        Distinct models.
    """

    models: tuple[Served, ...]

    def __post_init__(self) -> None:
        sequence(instance(f"{__name__}:Served"))(self.models, "models")
        object.__setattr__(self, "models", tuple(self.models))
        names = [served.model for served in self.models]
        if not names:
            raise WorkloadError(
                "no model is served", hint="add one or more under 'models:'", key=("models",)
            )
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            raise WorkloadError(
                f"the model '{name}' is served twice", hint="use instances:", key=("models",)
            )

    def of(self, model: str) -> Served:
        """Return the served model with the given name. Raises WorkloadError without one."""
        for served in self.models:
            if served.model == model:
                return served
        names = [served.model for served in self.models]
        raise WorkloadError(
            f"no model '{model}' is served", hint=nearest(model, names), key=("models",)
        )

    def named_as(self, workload: Workload) -> Deployment:
        """Return the deployment with the workload's model names if both name one file."""
        names = {_file(stream.model): stream.model for stream in workload.streams}
        models = tuple(
            replace(served, model=names.get(_file(served.model), served.model))
            for served in self.models
        )
        return replace(self, models=models)

    def check_steady(self, what: str) -> None:
        """Raise UsageError if autoscaling is used, which `what` does not support."""
        for served in self.models:
            if served.autoscaling is not None:
                raise UsageError(
                    f"autoscaled replicas are only simulated, and {what}",
                    where=served.model,
                    hint=(
                        "remove autoscaling: from the deployment: all instances then exist from "
                        "the start"
                    ),
                )

    def check(self, workload: Workload) -> None:
        """Raise WorkloadError if a stream names a model or a priority that is not served."""
        for stream in workload.streams:
            levels = self.of(stream.model).priority_levels
            if stream.priority is not None and stream.priority > levels:
                raise WorkloadError(
                    f"the stream '{stream.name}' has priority {stream.priority}, and "
                    f"'{stream.model}' has {levels} levels",
                    hint="add priority_levels: to the deployment",
                    key=("models",),
                )


def _file(model: str) -> str:
    return model if model.startswith("zoo:") else os.path.abspath(model)
