"""Autoscaling of replicas: Ray Serve's policy, in its terms.

Names, meanings and defaults are those of Ray Serve's ``AutoscalingConfig``
(https://docs.ray.io/en/latest/serve/advanced-guides/advanced-autoscaling.html).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetsim.core.checks import number, one_of, whole
from hetsim.errors import WorkloadError

Aggregation = Literal["mean", "max", "min"]
AGGREGATIONS: tuple[Aggregation, ...] = ("mean", "max", "min")

MAX_REPLICAS = 2**12
MAX_ONGOING = 2**16

DEFAULT_ONGOING = 5
"""Ray Serve's default maximum of ongoing requests per replica."""

NOT_MODELLED = {
    "policy": "only Ray Serve's own policy, by ongoing requests, is simulated: remove it",
    "graceful_shutdown_timeout_s": "a replica that stops finishes its requests, however long that "
    "takes: remove it",
    "num_replicas": "use min_replicas: and max_replicas:, or remove autoscaling: and use "
    "instances:",
    "max_queued_requests": "add queue_policy: {max_queue_size: ...} beside autoscaling:",
    "target_num_ongoing_requests_per_replica": "Ray Serve's name for it is target_ongoing_requests",
    "max_concurrent_queries": "Ray Serve's name for it is max_ongoing_requests",
}
"""Ray Serve options that are not supported, and alternatives."""


@dataclass(frozen=True, slots=True)
class Autoscaling:
    """Rules by which replicas of a model start and stop.

    Every `control_loop_interval_s`, the queued and running requests, aggregated over the last
    `look_back_period_s`, determine the wanted number of replicas: one for each
    `target_ongoing_requests`. ``hetsim.simulation.autoscaling`` has the rules.

    The run starts with `initial_replicas`, loaded; absent: `min_replicas`. `max_ongoing_requests`
    of a replica, absent: 5, is not for models with batches, whose limit is the ``max_in_flight`` of
    instances. Requests are counted five times within a look-back period, or every
    `metrics_interval_s` if that is shorter, which is the interval of reports to the controller.
    More, fewer or no replicas must be wanted for the time of a delay before the change. A factor
    applies to the difference between wanted and running replicas; absent, an older name:
    `upscale_smoothing_factor`, `downscale_smoothing_factor`, `smoothing_factor`. A replica takes
    `startup_s` seconds to start before its weights are loaded over the links; a stopping one takes
    no new requests, and checks every `graceful_shutdown_wait_loop_s` whether all its own are done.
    """

    min_replicas: int = 1
    max_replicas: int = 1
    initial_replicas: int | None = None
    target_ongoing_requests: float = 2.0
    max_ongoing_requests: int | None = None
    metrics_interval_s: float = 10.0
    look_back_period_s: float = 30.0
    upscale_delay_s: float = 30.0
    downscale_delay_s: float = 600.0
    downscale_to_zero_delay_s: float | None = None
    upscaling_factor: float | None = None
    downscaling_factor: float | None = None
    smoothing_factor: float = 1.0
    upscale_smoothing_factor: float | None = None
    downscale_smoothing_factor: float | None = None
    aggregation_function: Aggregation = "mean"
    control_loop_interval_s: float = 0.1
    graceful_shutdown_wait_loop_s: float = 2.0
    startup_s: float = 0.0

    def __post_init__(self) -> None:
        whole(0, MAX_REPLICAS)(self.min_replicas, "min_replicas")
        whole(1, MAX_REPLICAS)(self.max_replicas, "max_replicas")
        if self.initial_replicas is not None:
            whole(0, MAX_REPLICAS)(self.initial_replicas, "initial_replicas")
        if self.max_ongoing_requests is not None:
            whole(1, MAX_ONGOING)(self.max_ongoing_requests, "max_ongoing_requests")
        one_of(*AGGREGATIONS)(self.aggregation_function, "aggregation_function")
        for name in (*OFTEN, *FACTORS, *DELAYS):
            value = getattr(self, name)
            if value is None:
                continue
            check = number(least=0) if name in DELAYS else number(above=0)
            check(value, name)
            if name in OFTEN and value < LEAST_S:
                raise WorkloadError(
                    f"{name} is {value:g} s, below {LEAST_S:g} s", hint="use a longer one"
                )
        if self.target_ongoing_requests < LEAST_ONGOING:
            raise WorkloadError(
                f"target_ongoing_requests is {self.target_ongoing_requests:g}, below "
                f"{LEAST_ONGOING:g}",
                hint="use the number of requests that each replica should have",
            )
        if self.look_back_period_s > MOST_COUNTS * self.metrics_interval_s:
            raise WorkloadError(
                f"look_back_period_s is {self.look_back_period_s:g} s, more than {MOST_COUNTS:,} "
                f"times metrics_interval_s, {self.metrics_interval_s:g} s",
                hint="use a shorter one, or a longer interval",
            )
        if self.min_replicas > self.max_replicas:
            raise WorkloadError(
                f"min_replicas is {self.min_replicas}, above max_replicas {self.max_replicas}",
                hint="use a smaller one, or a larger maximum",
            )
        first = self.initial
        if not self.min_replicas <= first <= self.max_replicas:
            raise WorkloadError(
                f"initial_replicas is {first}, not from {self.min_replicas} to "
                f"{self.max_replicas}, min_replicas to max_replicas",
                hint="use one in this range, or remove it",
            )

    @property
    def initial(self) -> int:
        """Number of replicas at the start."""
        return self.min_replicas if self.initial_replicas is None else self.initial_replicas

    @property
    def ongoing(self) -> int:
        """Maximum ongoing requests of a replica without batching."""
        return self.max_ongoing_requests or DEFAULT_ONGOING

    @property
    def up(self) -> float:
        """Factor on missing replicas."""
        return self.upscaling_factor or self.upscale_smoothing_factor or self.smoothing_factor

    @property
    def down(self) -> float:
        """Factor on surplus replicas."""
        return self.downscaling_factor or self.downscale_smoothing_factor or self.smoothing_factor

    @property
    def to_zero_delay_s(self) -> float:
        """Time without demand after which the last replica stops."""
        if self.downscale_to_zero_delay_s is None:
            return self.downscale_delay_s
        return self.downscale_to_zero_delay_s

    @property
    def record_interval_s(self) -> float:
        """Interval at which requests are counted."""
        return min(self.look_back_period_s * RECORDS, self.metrics_interval_s)


RECORDS = 0.2
"""Interval of counting requests, as a share of the look-back period."""

LEAST_S = 1e-6
LEAST_ONGOING = 1e-9
MOST_COUNTS = 100_000
OFTEN = (
    "metrics_interval_s",
    "look_back_period_s",
    "control_loop_interval_s",
    "graceful_shutdown_wait_loop_s",
)
"""Options that are intervals."""

FACTORS = (
    "target_ongoing_requests",
    "upscaling_factor",
    "downscaling_factor",
    "smoothing_factor",
    "upscale_smoothing_factor",
    "downscale_smoothing_factor",
)
DELAYS = ("upscale_delay_s", "downscale_delay_s", "downscale_to_zero_delay_s", "startup_s")
