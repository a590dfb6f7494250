"""Verb ``serve``: a real workload on a deployment, with its simulation on the virtual clock."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hetsim.core import checks
from hetsim.core.units import format_seconds, significant
from hetsim.errors import ExecutionError, UsageError
from hetsim.execution.program import check_how
from hetsim.execution.serving.load_test import LATE_SHARE, Host, LoadTest, compared, late, runs_of
from hetsim.execution.serving.on_session import serve_on
from hetsim.execution.serving.player import (
    HEADROOM,
    BatchTimeAlone,
    Loadable,
    Player,
    loadable,
    outside,
    ready,
    roomy,
)
from hetsim.execution.session import Session
from hetsim.graph.inputs.arrays import Inputs
from hetsim.hardware.spec import Platform
from hetsim.simulation.clock.metrics import busy_seconds
from hetsim.simulation.service.layout import EngineArguments, check_together, set_up
from hetsim.simulation.service.resolution import ModelOptions, Resolved, resolve
from hetsim.simulation.service.run import ServiceRun, blocks_of, until_s
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import keeping, played, service_of
from hetsim.simulation.serving.real_time import RealTime
from hetsim.simulation.serving.setup import Outcomes
from hetsim.simulation.serving.tables import SERVED
from hetsim.workload.deployment import Deployment
from hetsim.workload.workload import Workload


@checks.takes(
    deployment=checks.instance(
        "hetsim.workload.deployment:Deployment", "hetsim.execution.session:Session"
    ),
    workload=checks.instance("hetsim.workload.workload:Workload"),
    platform=checks.instance("hetsim.hardware.spec:Platform"),
    emulate=checks.flag,
    executor=checks.text,
    address=checks.text,
    time_scale=checks.real,
    timeout_s=checks.real,
    verify=checks.flag,
    seed=checks.whole(0),
)
def serve(
    deployment: Deployment | Session,
    workload: Workload,
    platform: Platform | None = None,
    *,
    emulate: bool | None = None,
    inputs: Mapping[str, NDArray[Any]] | None = None,
    executor: Literal["ray", "threads"] | None = None,
    address: str | None = None,
    time_scale: float | None = None,
    timeout_s: float | None = None,
    verify: bool = True,
    seed: int = 0,
) -> LoadTest:
    """Serve a workload in real time, and simulate it too.

    Requests arrive by the wall clock; routing, queues and batchers use the same code as
    ``simulate(deployment, workload, platform=platform)``.

    Parameters
    ----------
    deployment : Deployment or Session
        Server: devices that are started for it and end with it, or an open session, whose plan
        serves unchanged, on devices that may fail and recover. A session's queue is in front of it,
        with ``max_in_flight`` requests under way.
    workload : Workload
    platform : Platform
        Platform of a deployment; a session has its own, and defines all that follows except
        `inputs`, `verify` and `seed`.
    emulate : bool
        Whether devices and links take their modelled time; otherwise, devices are as fast as this
        machine's kernels.
    inputs : mapping of str to array, optional
        Inputs of every request, for a single model; absent: a few random ones in turn.
    executor, address : str
        As in ``hetsim.run``.
    time_scale : float, optional
        With `emulate`: real seconds per second of the workload. Absent: 1.
    timeout_s : float
        Maximum seconds for devices to compile a plan, and for one batch of a subgraph. Absent: 600.
    verify : bool
        Whether to compare outputs with the whole model's.
    seed : int
        Seed of the random inputs; the workload has its own.

    Raises
    ------
    UsageError
        If options are incompatible.
    WorkloadError, UnsupportedNode, Infeasible
        As ``simulate``; and if batches of a model cannot be formed from requests.
    ExecutionError
        If a device fails or does not answer in time, or this machine does not keep up, so that
        figures would be invalid.
    """
    if isinstance(deployment, Session):
        given = {
            "platform": platform,
            "emulate": emulate,
            "executor": executor,
            "address": address,
            "time_scale": time_scale,
            "timeout_s": timeout_s,
        }
        for name, value in given.items():
            if value is not None:
                raise UsageError(
                    f"{name} of a session", hint=f"leave {name} out: the session is open as it is"
                )
        return serve_on(deployment, workload, inputs=inputs, verify=verify, seed=seed)
    if platform is None:
        raise UsageError(
            "serving a deployment needs a platform",
            hint="call serve(deployment, workload, platform)",
        )
    return load_test(
        deployment,
        workload,
        platform,
        emulate=bool(emulate),
        inputs=inputs,
        executor="ray" if executor is None else executor,
        address=address,
        time_scale=time_scale,
        timeout_s=600.0 if timeout_s is None else timeout_s,
        verify=verify,
        seed=seed,
    )


def load_test(
    deployment: Deployment,
    workload: Workload,
    platform: Platform,
    *,
    asked: ModelOptions | None = None,
    emulate: bool = False,
    inputs: Inputs | None = None,
    executor: Literal["ray", "threads"] = "ray",
    address: str | None = None,
    time_scale: float | None = None,
    timeout_s: float = 600.0,
    verify: bool = True,
    seed: int = 0,
    late_share: float = LATE_SHARE,
    keep: int = 0,
) -> LoadTest:
    """Serve a workload as ``serve`` does, with further options.

    `asked`: options for reading, pricing and planning models; `late_share`: maximum share of
    latencies, and of devices' modelled time, that this machine may add before figures are invalid;
    `keep`: number of first requests to keep one by one, of both services.
    """
    check_how(executor, address, timeout_s)
    if time_scale is not None and not emulate:
        raise UsageError(
            "time_scale needs emulate",
            hint=("without emulation, kernels run at this machine's speed"),
        )
    scale = 1.0 if time_scale is None else time_scale
    if not (scale > 0 and math.isfinite(scale)):
        raise UsageError(f"time_scale is {scale:g}", hint="use a positive number")
    if inputs is not None and len(deployment.models) > 1:
        raise UsageError("inputs are given for several models", hint="omit inputs")
    if workload.failures is not None:
        raise UsageError(
            "failures of a workload are only simulated",
            hint="remove failures: from the workload, or let devices fail in a run of one plan",
        )
    deployment.check_steady("not served for real")
    for served in deployment.models:
        if served.loading == "on_demand":
            raise UsageError(
                "loading on_demand is only simulated",
                where=served.model,
                hint="load all models at the start: omit loading, or use resident",
            )
    resolved = resolve(deployment, workload, platform, asked)
    setup = set_up(resolved, workload, check_together(resolved, platform))
    simulated = played(workload, resolved, setup, keep=keep)
    templates = setup.plan_tasks.templates
    runs = runs_of(resolved, setup, inputs, seed)
    widths = dict(zip(platform.devices, setup.plan_tasks.plan.problem.streams, strict=True))
    began_s = time.monotonic()
    with loadable([one.plan for one in templates]) as plans:
        with ready(plans, runs, executor, address, widths, timeout_s) as devices:
            start_s = devices.at_s - began_s
            if emulate:
                _check_pace(devices.took, plans, setup, scale, late_share)
            player = Player(
                _engine(workload, setup, emulate),
                setup.plan_tasks,
                setup.duration.tolist() if emulate else None,
                devices,
                scale,
            )
            began_s = time.monotonic()
            player.play()
            wall_s = time.monotonic() - began_s
        outcomes = player.engine.outcomes()
        real = player.really(outcomes)
        host = _host(player, outcomes, real, scale, wall_s)
        measured = _measured(player, real, resolved, setup, workload, devices.took, emulate)
        measured = keeping(measured, real, keep)
        mean_s = float(np.nanmean(real.latency_s)) if (real.why == SERVED).any() else math.nan
        behind = host.behind(mean_s * scale, late_share)
        if behind is not None:
            raise ExecutionError(
                f"this machine is too slow: {behind}", hint=_slower(emulate, scale)
            )
        outputs = None
        if verify:
            answered = int(np.count_nonzero(real.why == SERVED))
            cut = [(one.plan, one.model) for one in plans]
            outputs = compared(player.kept.batches, runs, cut, answered)
    return LoadTest(measured, simulated, emulate, scale, host, outputs, executor, start_s)


def _engine(workload: Workload, setup: EngineArguments, emulate: bool) -> RealTime:
    """Return the engine; transfers take their modelled time, or their real time within devices'."""
    alone = setup.duration if emulate else np.zeros(len(setup.duration))
    return RealTime(
        setup.layout,
        setup.duration,
        setup.models,
        setup.sources,
        setup.clients,
        lasts=outside(setup.plan_tasks, alone),
        blocks=((one.arrival_s, one.stream, one.variant) for one in blocks_of(workload, setup)),
        requests=workload.requests,
        until_s=until_s(workload),
    )


def _check_pace(
    took: Sequence[BatchTimeAlone],
    plans: Sequence[Loadable],
    setup: EngineArguments,
    scale: float,
    late_share: float,
) -> None:
    """Raise ExecutionError if kernels are slower here than modelled."""
    if math.isinf(late_share):
        return
    templates = setup.plan_tasks.templates
    needed = roomy(took, templates, scale, late_share)
    if needed == scale:
        return
    short = []
    for one, plan, template in zip(took, plans, templates, strict=True):
        for index, (took_s, held_s) in enumerate(zip(one.steps_s, template.duration, strict=False)):
            short.append((took_s - scale * float(held_s) / HEADROOM, index, took_s, held_s, plan))
    _, index, took_s, held_s, plan = max(short, key=lambda found: found[0])
    raise ExecutionError(
        f"this machine is too slow: subgraph g{index} of '{plan.plan.strategy}' on "
        f"{plan.program.steps[index].device} takes {format_seconds(took_s)} here alone, but "
        f"{format_seconds(scale * float(held_s))} as modelled",
        hint=f"use --time-scale {significant(needed * 1.05, 2):g}, or a slower platform",
    )


def _slower(emulate: bool, scale: float) -> str:
    if emulate:
        return f"use --time-scale {significant(2 * scale, 2):g}, or close other programs"
    return "use a lower rate, or close other programs"


def _host(player: Player, due: Outcomes, real: Outcomes, scale: float, wall_s: float) -> Host:
    answered = due.why == SERVED
    return Host(
        sent=late(scale * (player.really_s(due.arrival_s) - due.arrival_s)),
        answered=late(scale * (real.finish_s - due.finish_s)[answered]),
        calls=player.calls,
        overran=player.overran,
        overrun_s=scale * player.overrun_s,
        longest_overrun_s=scale * player.longest_overrun_s,
        modelled_s=scale * player.asked_s,
        dispatcher=player.working_s / wall_s if wall_s > 0 else 0.0,
        wall_s=wall_s,
    )


def _measured(
    player: Player,
    real: Outcomes,
    resolved: Sequence[Resolved],
    setup: EngineArguments,
    workload: Workload,
    took: Sequence[BatchTimeAlone],
    emulate: bool,
) -> Service:
    links = busy_seconds(setup.plan_tasks, player.engine.ran.tolist())[1]
    if not emulate:
        links = [0.0] * len(links)
        seconds = np.array([one.seconds for one in took])
        own = tuple(seconds[model.template] for model in setup.models)
        setup = replace(setup, alone_s=own)
    run = ServiceRun(workload, setup, player.engine)
    run.keep(real)
    run.look()
    return service_of(run, resolved, "ended", (player.busy_s, links))
