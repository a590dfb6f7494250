"""Emulation: real execution of a plan with devices and links slowed to their modelled times."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hetsim.core.units import format_seconds
from hetsim.errors import ExecutionError, UsageError
from hetsim.execution.program import check_how, given_inputs, model_of, tolerance_of
from hetsim.execution.run import all_judged, run_whole
from hetsim.execution.serving.load_test import Runs
from hetsim.execution.serving.player import Player, Ready, loadable, outside, ready, roomy
from hetsim.graph.inputs.arrays import Inputs
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Timeline
from hetsim.simulation.clock.templates import PlanTasks, laid_out, tasks_of_plan
from hetsim.simulation.serving.real_time import RealTime
from hetsim.simulation.serving.setup import ModelSetup, RequestSource
from hetsim.simulation.simulate import simulate

_SHORTEST_RUN_S = 2.0
_SMALL = 0.01
_MESSAGE_S = 0.2
"""Real seconds per task of a request, of which messages to devices are a small part."""


@dataclass(frozen=True)
class Emulation:
    """Measured times of a plan with those of the virtual clock (`predicted`).

    `time_scale`: real seconds per virtual second; `wall_s`: by request, all arriving at once, real
    seconds until its last output is on the host; `overrun_s`: maximum real seconds by which a
    device was held longer than modelled. `bitwise_equal` and `mismatches` as in ``Run``.
    """

    predicted: Timeline = field(repr=False)
    time_scale: float
    wall_s: tuple[float, ...]
    overrun_s: float
    outputs: tuple[dict[str, NDArray[Any]], ...] = field(repr=False)
    bitwise_equal: bool | None
    mismatches: tuple[str, ...]

    @property
    def latency_s(self) -> float:
        """Measured latency of the first request, in virtual seconds."""
        return self.wall_s[0] / self.time_scale

    @property
    def makespan_s(self) -> float:
        """Measured time to the end of the last request, in virtual seconds."""
        return max(self.wall_s) / self.time_scale


def emulate(
    plan: Plan,
    inputs: Inputs | None = None,
    *,
    requests: int = 1,
    time_scale: float | None = None,
    executor: Literal["ray", "threads"] = "ray",
    address: str | None = None,
    timeout_s: float = 600.0,
    verify: bool = True,
    seed: int = 0,
) -> Emulation:
    """Run `plan` for real with every device and link as slow as modelled.

    `requests` arrive at once, with the same inputs, and are played like a workload
    (``hetsim.execution.serving.player``). Without `time_scale` one is chosen that leaves room for
    the kernels of this machine, and gives a run of at least two seconds. All else as in
    ``hetsim.run``.
    """
    check_how(executor, address, timeout_s)
    if time_scale is not None and not (time_scale > 0 and math.isfinite(time_scale)):
        raise UsageError(f"time_scale is {time_scale:g}", hint="use a positive number")
    model = model_of(plan)
    rule = plan.problem.contention
    predicted = simulate(plan, requests, trace=False)
    plan_tasks = tasks_of_plan(plan, rule)
    given = given_inputs(model, inputs, seed)
    runs = [Runs(model.source, model, (given,))] * len(plan_tasks.templates)
    widths = dict(zip(plan.problem.devices, plan.problem.streams, strict=True))
    with loadable(plan.replicas) as plans:
        with ready(plans, runs, executor, address, widths, timeout_s) as devices:
            scale = _roomy(plan_tasks, predicted, devices) if time_scale is None else time_scale
            if scale * predicted.makespan_s > timeout_s:
                raise ExecutionError(
                    f"the emulation takes {format_seconds(scale * predicted.makespan_s)}, longer "
                    f"than its timeout of {timeout_s:g} s",
                    hint="use a smaller --time-scale, fewer --requests or a longer --timeout",
                )
            player = _player(plan_tasks, requests, devices, scale)
            player.play()
        reference = run_whole(plans[0].model, given) if verify else None
    real = player.really(player.engine.outcomes())
    known = {**given, **plans[0].constants}
    made = {batch.number: batch.outputs for batch in player.kept.batches}
    outputs = [
        {name: {**known, **made.get(request, {})}[name] for name in model.graph.outputs}
        for request in range(requests)
    ]
    bitwise_equal, mismatches = all_judged(outputs, reference, tolerance_of(plan), "request")
    return Emulation(
        predicted=predicted,
        time_scale=scale,
        wall_s=tuple((scale * real.finish_s).tolist()),
        overrun_s=scale * player.longest_overrun_s,
        outputs=tuple(outputs),
        bitwise_equal=bitwise_equal,
        mismatches=mismatches,
    )


def _player(plan_tasks: PlanTasks, requests: int, devices: Ready, scale: float) -> Player:
    """Return a player of requests that arrive at once, distributed to replicas by the plan."""
    count, none = len(plan_tasks.templates), np.zeros(requests, dtype=np.int64)
    duration = np.concatenate([one.duration for one in plan_tasks.templates])
    model = ModelSetup(
        np.arange(count).reshape(1, -1, 1),
        (0,) * count,
        routing="round_robin",
        cycle=plan_tasks.plan.period,
    )
    engine = RealTime(
        laid_out(plan_tasks),
        duration,
        [model],
        [RequestSource(0)],
        lasts=outside(plan_tasks, duration),
        blocks=[(np.zeros(requests), none, none)],
    )
    return Player(engine, plan_tasks, duration.tolist(), devices, scale, math.inf)


def _roomy(plan_tasks: PlanTasks, predicted: Timeline, devices: Ready) -> float:
    """Return a time scale at which kernels and messages of this machine take a small share."""
    scale = _SHORTEST_RUN_S / predicted.makespan_s if predicted.makespan_s else 1.0
    if predicted.latency_s:
        scale = max(scale, plan_tasks.widest * _MESSAGE_S / predicted.latency_s)
    return roomy(devices.took, plan_tasks.templates, scale, _SMALL)
