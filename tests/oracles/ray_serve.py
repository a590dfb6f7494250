"""Ray Serve's own functions, as it has them, and random settings of its autoscaler."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import ray

from hetsim.workload.autoscaling import Autoscaling

SERVE = "ray.serve"


class RayServe:
    """What decides in Ray Serve, at times that are given."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._config = import_module(f"{SERVE}.config")
        self._merge = import_module(f"{SERVE}._private.autoscaling_metrics_merge")
        self._state = import_module(f"{SERVE}._private.autoscaling_state")
        self._metrics = import_module(f"{SERVE}._private.metrics_utils")
        policy = import_module(f"{SERVE}.autoscaling_policy")
        policy.time = SimpleNamespace(time=lambda: self.now_s)
        self.decide = policy._apply_autoscaling_config(policy.default_autoscaling_policy)
        self.counters = policy.SERVE_AUTOSCALING_DECISION_COUNTERS_KEY
        self.since = policy.SERVE_AUTOSCALING_DECISION_TIMESTAMP_KEY

    def config(self, given: Autoscaling) -> Any:
        """Its own record of the same settings."""
        own = self._config.AutoscalingConfig.model_fields
        said = {name: getattr(given, name) for name in own if hasattr(given, name)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._config.AutoscalingConfig(**said)

    def target(
        self, config: Any, total: float, running: int, target: int, state: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """What its policy and its bounds make of a state."""
        bounds = self._state.DeploymentAutoscalingState.__new__(
            self._state.DeploymentAutoscalingState
        )
        bounds._config, bounds._target_capacity = config, None
        bounds._target_capacity_direction = None
        asked = self._config.AutoscalingContext(
            deployment_id=None,
            deployment_name="",
            app_name="",
            current_num_replicas=running,
            target_num_replicas=target,
            running_replicas=[],
            total_num_requests=total,
            total_queued_requests=None,
            aggregated_metrics=None,
            raw_metrics=None,
            capacity_adjusted_min_replicas=config.min_replicas,
            capacity_adjusted_max_replicas=config.max_replicas,
            policy_state=state,
            last_scale_up_time=None,
            last_scale_down_time=None,
            current_time=self.now_s,
            config=config,
        )
        decision, state = self.decide(asked)
        return bounds.apply_bounds(math.ceil(decision)), state

    def store(self) -> Any:
        """What its router keeps of what it counts."""
        return self._metrics.InMemoryMetricsStore()

    def points(self, series: list[tuple[float, int]]) -> list[Any]:
        """Counts as it keeps them."""
        return [self._metrics.TimeStampedValue(time_s, count) for time_s, count in series]

    def total(self, series: list[list[tuple[float, int]]], now_s: float, function: str) -> float:
        """What its controller makes of what was counted."""
        times = np.array([time for one in series for time, _ in one], dtype=np.float64)
        counts = np.array([count for one in series for _, count in one], dtype=np.float64)
        offsets = np.cumsum([0, *(len(one) for one in series)])
        found = self._merge.merge_and_aggregate_arrays(times, counts, offsets, now_s, function)
        return float(found)


@contextmanager
def loaded() -> Iterator[RayServe]:
    """Its modules without what ``import ray.serve`` starts: web servers, and what they need."""
    own = ModuleType(SERVE)
    own.__path__ = [str(Path(ray.__file__).parent / "serve")]
    before = {name for name in sys.modules if name.startswith(SERVE)}
    assert not before
    sys.modules[SERVE] = own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = RayServe()
    yield found
    for name in [name for name in sys.modules if name.startswith(SERVE)]:
        del sys.modules[name]


def settings(rng: np.random.Generator) -> Autoscaling:
    """Any bounds, targets, factors and delays."""
    least = int(rng.choice([0, 1, 1, 2, 5]))
    most = max(least + int(rng.integers(0, 12)), 1)

    def sometimes(*choices: float) -> float | None:
        return float(rng.choice(choices)) if rng.random() < 0.4 else None

    return Autoscaling(
        min_replicas=least,
        max_replicas=most,
        initial_replicas=int(rng.integers(least, most + 1)) if rng.random() < 0.5 else None,
        target_ongoing_requests=float(rng.choice([0.1, 1, 2, 2.5, 7, rng.uniform(0.1, 20)])),
        upscale_delay_s=float(rng.choice([0, 0.3, 30])),
        downscale_delay_s=float(rng.choice([0, 0.7, 60])),
        downscale_to_zero_delay_s=sometimes(0, 0.2, 100),
        upscaling_factor=sometimes(0.3, 1, 2.5),
        downscaling_factor=sometimes(0.05, 0.5, 1),
        smoothing_factor=float(rng.choice([1, 0.6])),
        upscale_smoothing_factor=sometimes(0.7, 1.5),
        downscale_smoothing_factor=sometimes(0.7, 0.1),
    )
