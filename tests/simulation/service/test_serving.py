"""Workloads served on the clock: what comes, what is answered when, and what is said of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import hetsim
from deployments import alone_s, deployed, model_at, poisson
from hetsim.core.text import to_json
from hetsim.errors import WorkloadError
from hetsim.reporting.formatting import on_time_text
from hetsim.reporting.tables.service_record import service_record
from hetsim.simulation.service.resolution import ModelOptions, resolve
from hetsim.simulation.service.service import stability_of
from hetsim.simulation.service.serving import at_pessimistic_end, serve
from hetsim.simulation.serving.setup import Outcomes
from hetsim.statistics.verdict import FIRST_LOOK
from hetsim.workload.arrivals import Closed, Constant, Mmpp, Poisson, Replay
from hetsim.workload.deployment import DynamicBatching, Instances, QueuePolicy, Served
from hetsim.workload.workload import Follows, Slo
from onnx_builders import make_model, op, value
from queues import latency_at, sojourns
from sweeps import sweep


def test_it_is_what_pessimistic_figures_give(open_: str, platform: hetsim.Platform) -> None:
    """A device alone: the plan that pessimistic figures lead to is the same."""
    deployment = deployed(
        open_, batch_sizes=(1, 4), dynamic_batching=DynamicBatching(4, max_queue_delay_us=100)
    )
    workload = poisson(open_, 2000.0, 3000, slos=(Slo(0.9, 0.002),))
    service = serve(deployment, workload, platform)
    worse = at_pessimistic_end(service, platform)
    assert worse is not None
    told = serve(deployment, workload, platform, asked=ModelOptions(pessimistic=True))
    assert worse.streams == told.streams
    assert worse.devices == told.devices
    [before], [after] = service.streams, worse.streams
    assert after.requests == before.requests
    assert after.mean_s > before.mean_s
    assert at_pessimistic_end(told, platform) is None


def test_what_does_not_keep_up_at_the_bad_end_is_played_until_that_shows(
    fixed: str, platform: hetsim.Platform
) -> None:
    took_s = alone_s(fixed, platform)
    workload = poisson(fixed, 0.7 / took_s, 300_000, slos=(Slo(0.99, 100 * took_s),))
    service = serve(deployed(fixed), workload, platform)
    assert service.state == "stable"
    worse = at_pessimistic_end(service, platform)
    assert worse is not None
    # Its times are more than 1 / 0.7 times as long.
    assert worse.state == "overloaded"
    assert worse.requests < 100_000
    assert worse.streams[0].percentiles == ()
    assert worse.streams[0].objectives[0].verdict.answer == "misses"


@pytest.mark.parametrize("machine_code", [False, True])
def test_a_run_with_clients_lasts_until_the_last_answer(
    fixed: str, platform: hetsim.Platform, *, machine_code: bool
) -> None:
    took_s = alone_s(fixed, platform)
    clients = hetsim.Stream("clients", fixed, Closed(2, 3 * took_s, "exponential"))
    others = replace(poisson(fixed, 0.3 / took_s, 1).streams[0], name="others")
    for streams in ((clients, others), (clients,)):
        workload = hetsim.Workload(streams, requests=2000)
        service = serve(
            deployed(fixed), workload, platform, keep=workload.requests, machine_code=machine_code
        )
        assert service.kept is not None
        arrival_s, finish_s = (service.kept.outcomes[k] for k in (0, 3))
        assert len(arrival_s) == workload.requests
        assert service.duration_s == pytest.approx(finish_s.max())
        inside = (finish_s - arrival_s).sum() / service.duration_s
        assert service.models[0].queue.mean_inside == pytest.approx(inside)


def run(load: float, requests: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrivals of an M/D/1 with a service time of 1, their ends, and where it was empty."""
    latency_s, fresh = sojourns("M/D/1", load, requests, seed)
    arrival_s = np.cumsum(np.random.default_rng([seed, 1]).standard_exponential(requests) / load)
    return arrival_s, arrival_s + latency_s, fresh


@sweep("seed", quick=[0], full=range(5))
@pytest.mark.parametrize(
    ("load", "state"),
    [(0.5, "stable"), (0.95, "stable"), (1.05, "overloaded"), (1.5, "overloaded")],
)
def test_loads_that_are_known(load: float, state: str, seed: int) -> None:
    assert stability_of(*run(load, 20_000, seed), load).state == state


@sweep("seed", quick=[0], full=range(5))
def test_a_load_just_below_one_is_never_overloaded(seed: int) -> None:
    # Relaxation takes a million requests here: most runs do not catch up in their second half.
    assert stability_of(*run(0.999, 20_000, seed), 0.999).state != "overloaded"


def test_constant_arrivals_that_are_too_many_leave_nothing_to_chance() -> None:
    arrival_s = np.arange(1000) / 1.01
    finish_s = np.arange(1, 1001, dtype=np.float64)
    fresh = np.arange(1000) == 0
    assert stability_of(arrival_s, finish_s, fresh, 1.01).state == "overloaded"
    exact = np.arange(1000, dtype=np.float64)
    assert stability_of(exact, exact + 1, np.ones(1000, bool), 1.0).state == "stable"


def test_what_came_before_the_first_answer_is_served_at_the_rate_of_the_answers() -> None:
    arrival_s, finish_s = np.arange(1000) / 1e6, np.arange(1, 1001) / 2.0
    state = stability_of(arrival_s, finish_s, np.arange(1000) == 0, 1e6)
    assert (state.state, state.carried_per_s) == ("overloaded", 2.0)


def test_a_burst_is_a_backlog() -> None:
    arrival_s = np.concatenate([np.arange(0, 1000, 2.0), np.full(500, 1000.0), [1400.0]])
    finish_s = np.empty_like(arrival_s)
    end = -np.inf
    for at, came in enumerate(arrival_s):
        end = finish_s[at] = max(end, came) + 1
    fresh = np.arange(len(arrival_s)) < 500
    assert stability_of(arrival_s[:-1], finish_s[:-1], fresh[:-1], 0.5).state == "stable"
    late = np.concatenate([np.zeros(500), np.linspace(1, 450, 300)])
    ends = np.arange(1, 801, dtype=np.float64)
    behind = np.arange(800) == 0
    found = stability_of(late, ends, behind, 0.6)
    assert (found.state, found.caught_up_s) == ("backlogged", 0.0)
    assert found.backlog == np.count_nonzero(ends > 450)


LAST = QueuePolicy(default_timeout_us=10**9, timeout_action="delay")


def test_the_same_seed_gives_the_same_bytes_compiled_or_not(
    open_: str, platform: hetsim.Platform
) -> None:
    batching = DynamicBatching(4, (2,), 300)
    deployment = deployed(open_, dynamic_batching=batching, instances=(Instances(2),))
    workload = poisson(open_, 4000, 3000, seed=3, slos=(Slo(0.9, 0.01),))
    told = {
        to_json(service_record(serve(deployment, workload, platform, machine_code=machine_code)))
        for machine_code in (True, True, False)
    }
    assert len(told) == 1
    other = serve(deployment, replace(workload, seed=4), platform)
    assert to_json(service_record(other)) not in told


def test_what_comes_faster_than_it_is_answered_is_overloaded(
    fixed: str, platform: hetsim.Platform
) -> None:
    took_s = alone_s(fixed, platform)
    slos = (Slo(0.99, 20 * took_s),)
    said = serve(deployed(fixed), poisson(fixed, 1.2 / took_s, 20_000, slos=slos), platform)
    assert said.state == "overloaded"
    stability = said.models[0].stability
    assert stability is not None
    assert stability.offered_per_s == pytest.approx(1.2 / took_s)
    assert stability.carried_per_s == pytest.approx(1 / took_s, rel=0.01)
    assert said.streams[0].percentiles == ()
    assert said.streams[0].objectives[0].verdict.answer == "misses"


@pytest.mark.parametrize("shared", [False, True])
def test_a_trace_that_has_ended_comes_no_more(
    shared: bool, fixed: str, platform: hetsim.Platform, tmp_path: Path
) -> None:
    took_s = alone_s(fixed, platform)
    (tmp_path / "trace.csv").write_text("".join(f"{k / 1.5 * took_s!r}\n" for k in range(1000)))
    replay = Replay(str(tmp_path / "trace.csv"))
    given = {"share": 1.0} if shared else {"arrivals": replay}
    streams = (
        hetsim.Stream("trace", fixed, **given),  # type: ignore[arg-type]
        hetsim.Stream("always", fixed, Constant(0.1 / took_s)),
    )
    for end, state, offered in ((650, "overloaded", 1.6), (900, "backlogged", 0.1)):
        workload = hetsim.Workload(
            streams, duration_s=end * took_s, arrivals=replay if shared else None
        )
        kept = serve(deployed(fixed), workload, platform).models[0].stability
        assert kept is not None
        assert kept.state == state
        assert kept.offered_per_s == pytest.approx(offered / took_s, rel=0.01)
        assert kept.carried_per_s == pytest.approx(1 / took_s, rel=0.01)


@pytest.mark.parametrize(("load", "answer"), [(0.5, "meets"), (0.9, "misses")])
def test_a_run_goes_on_until_it_is_answered(
    load: float, answer: str, fixed: str, platform: hetsim.Platform
) -> None:
    took_s = alone_s(fixed, platform)
    limit_s = latency_at("M/D/1", 0.8, 99) * took_s
    workload = poisson(fixed, load / took_s, 1_000_000, slos=(Slo(0.99, limit_s),))
    said = hetsim.simulate(deployed(fixed), workload, platform=platform, until_answered=True)
    assert said.end == "answered"
    assert said.requests < 1_000_000
    assert said.streams[0].objectives[0].verdict.answer == answer


@pytest.mark.parametrize(
    ("most_tasks", "requests"), [(math.inf, 70_000), (1.0, FIRST_LOOK), (4.0 * 40_000, 40_000)]
)
def test_a_run_that_tells_nothing_ends_after_so_many_task_events(
    most_tasks: float, requests: int, fixed: str, platform: hetsim.Platform
) -> None:
    took_s = alone_s(fixed, platform)
    # At the percentile itself no run tells whether it is met.
    limit_s = latency_at("M/D/1", 0.8, 99) * took_s
    workload = poisson(fixed, 0.8 / took_s, 70_000, slos=(Slo(0.99, limit_s),))
    said = serve(deployed(fixed), workload, platform, until_answered=True, most_tasks=most_tasks)
    assert (said.end, said.requests) == ("budget", requests)


@sweep("slos", quick=[()], full=[(), (Slo(0.9, 1.0), Slo(0.95, 1.0))])
def test_a_run_goes_on_until_its_percentiles_are_known_closely(
    slos: tuple[Slo, ...], fixed: str, platform: hetsim.Platform
) -> None:
    took_s = alone_s(fixed, platform)
    workload = poisson(fixed, 0.6 / took_s, 1_000_000, slos=slos)
    said = hetsim.simulate(deployed(fixed), workload, platform=platform, within=0.05)
    assert said.end == "answered"
    assert said.requests < 200_000
    asked = {slo.percentile for slo in slos} or {99.0}
    narrow = [one for one in said.streams[0].percentiles if one.percentile in asked]
    assert len(narrow) == len(asked)
    assert all(one.half_width <= 0.05 for one in narrow)
    few = replace(workload, requests=20_000)
    assert hetsim.simulate(deployed(fixed), few, platform=platform, within=0.001).end == "budget"
    much = poisson(fixed, 1.5 / took_s, 1_000_000, slos=slos[:1])
    drowned = hetsim.simulate(deployed(fixed), much, platform=platform, within=0.05)
    assert drowned.state == "overloaded"


def test_percentiles_that_are_to_be_close_are_those_of_all_runs(
    fixed: str, platform: hetsim.Platform
) -> None:
    """By the gaps, where those are independent and nothing depends on what comes later."""
    took_s = alone_s(fixed, platform)
    rate_per_s = 0.6 / took_s
    workload = poisson(fixed, rate_per_s, 2_000_000)
    said = serve(deployed(fixed), workload, platform, within=0.05)
    assert said.end == "answered"
    [at] = [one for one in said.streams[0].percentiles if one.percentile == 99.0]
    assert at.late.luck != 0.0
    assert at.low_s <= latency_at("M/D/1", 0.6, 99.0) * took_s <= at.high_s
    as_it_was = serve(deployed(fixed), replace(workload, requests=20_000), platform)
    assert all(one.late.luck == 0.0 for one in as_it_was.streams[0].percentiles)
    short = replace(workload, requests=20_000)
    uneven = Mmpp((rate_per_s / 2, rate_per_s), (took_s, took_s))
    for stream, deployment in (
        (replace(short.streams[0], arrivals=uneven), deployed(fixed)),
        (short.streams[0], deployed(fixed, queue_policy=LAST)),
    ):
        other = serve(deployment, replace(short, streams=(stream,)), platform, within=0.05)
        assert all(one.late.luck == 0.0 for one in other.streams[0].percentiles)


def test_what_is_rejected_is_late(fixed: str, platform: hetsim.Platform) -> None:
    took_s = alone_s(fixed, platform)
    policy = QueuePolicy(max_queue_size=2)
    workload = poisson(fixed, 0.9 / took_s, 5000, slos=(Slo(0.9, 1.0),))
    said = serve(deployed(fixed, queue_policy=policy), workload, platform)
    [stream] = said.streams
    assert said.state == "stable"
    assert stream.full > 200
    assert stream.answered + stream.full == stream.requests == 5000
    assert stream.objectives[0].on_time == pytest.approx(stream.answered / 5000)
    assert stream.percentiles[-1].estimate_s == np.inf
    assert (
        json.loads(to_json(service_record(said)))["streams"][0]["percentiles"][-1]["latency_s"]
        is None
    )


def test_what_is_carried_bounds_what_is_on_time(fixed: str, platform: hetsim.Platform) -> None:
    took_s = alone_s(fixed, platform)
    policy = QueuePolicy(max_queue_size=50)
    slos = (Slo(0.99, 1.0), Slo(0.4, 1.0))
    workload = poisson(fixed, 2 / took_s, 5000, slos=slos)
    said = serve(deployed(fixed, queue_policy=policy), workload, platform)
    assert said.state == "overloaded"
    first, second = said.streams[0].objectives
    assert first.on_time == pytest.approx(0.5, abs=0.02)
    assert first.verdict.answer == "misses"
    assert second.verdict.answer != "misses"


def test_dimensions_follow_the_trace_and_those_of_clients_their_own(
    platform: hetsim.Platform, tmp_path: Path, seen: list[Outcomes]
) -> None:
    rng = np.random.default_rng(0)
    weight = {"w": rng.standard_normal((256, 256)).astype(np.float32)}
    shape = ("batch", "seq", 256)
    made = make_model([op("MatMul", "x w", "y")], [value("x", shape)], [value("y", shape)], weight)
    model = str(tmp_path / "seq.onnx")
    onnx.save(made, model)
    trace = tmp_path / "trace.csv"
    trace.write_text("time,length\n" + "".join(f"{at},{100 * (at % 4 + 1)}\n" for at in range(8)))
    streams = (
        hetsim.Stream(
            "trace",
            model,
            Replay(str(trace), column="time"),
            dims={"seq": Follows("length", (128, 512))},
        ),
        hetsim.Stream("clients", model, Closed(2, 0.5), dims={"seq": 1024}),
        hetsim.Stream("steady", model, Constant(3), dims={"seq": 512}),
    )
    deployment = deployed(model, dynamic_batching=DynamicBatching(2, (), 10))
    workload = hetsim.Workload(streams, duration_s=9)
    [found] = resolve(deployment, workload, platform)
    assert found.variants == ({"seq": 128}, {"seq": 512}, {"seq": 1024})
    assert found.of_stream == {0: (0, 1), 1: (2,), 2: (1,)}
    serve(deployment, workload, platform)
    [outcomes] = seen
    for stream, variants in ((0, [0, 1, 1, 1, 0, 1, 1, 1]), (1, [2] * 34), (2, [1] * 27)):
        of_it = outcomes.variant[outcomes.stream == stream]
        assert of_it.tolist()[: len(variants)] == variants
        assert set(of_it.tolist()) == set(variants)


def test_the_warm_up_is_played_and_not_counted(fixed: str, platform: hetsim.Platform) -> None:
    workload = hetsim.Workload(
        (hetsim.Stream("all", fixed, Constant(100)),), duration_s=2.0, warm_up_s=0.5
    )
    said = serve(deployed(fixed), workload, platform)
    assert (said.requests, said.streams[0].requests) == (200, 150)
    late = replace(workload, duration_s=None, requests=3)
    with pytest.raises(WorkloadError, match="within the warm-up; use a shorter warm_up_s"):
        serve(deployed(fixed), late, platform)


def test_a_rate_of_nothing_is_refused(fixed: str, platform: hetsim.Platform) -> None:
    with pytest.raises(WorkloadError, match="the workload has no requests"):
        serve(deployed(fixed), poisson(fixed, 0, 10), platform)


def test_two_models_share_a_device(folder: Path, platform: hetsim.Platform) -> None:
    models = [model_at(folder, 1, width) for width in (512, 768)]
    took = [alone_s(model, platform) for model in models]
    workload = hetsim.Workload(
        tuple(
            hetsim.Stream(name, model, Constant(0.4 / seconds))
            for name, model, seconds in zip("ab", models, took, strict=True)
        ),
        duration_s=1000 * max(took),
    )
    deployment = hetsim.Deployment(tuple(Served(model, "single:cpu") for model in models))
    said = serve(deployment, workload, platform)
    assert said.devices["cpu"].utilization == pytest.approx(0.8, rel=0.01)
    assert said.bottleneck == "device cpu"
    assert all(one.queue.mean_s > 0 for one in said.streams)


def test_a_stream_that_has_not_come_yet_is_not_answered(
    fixed: str, platform: hetsim.Platform
) -> None:
    slos = (Slo(0.5, 1.0),)
    streams = (
        hetsim.Stream("often", fixed, Poisson(1000), slos=slos),
        hetsim.Stream("never", fixed, Poisson(1e-9), slos=slos),
    )
    workload = hetsim.Workload(streams, requests=20_000)
    said = hetsim.simulate(
        hetsim.Deployment((Served(fixed, "single:cpu"),)),
        workload,
        platform=platform,
        until_answered=True,
    )
    assert said.end == "budget"
    assert said.streams[1].requests == 0
    [never] = said.streams[1].objectives
    assert never.verdict.answer == "undecided"
    assert on_time_text(never.on_time) == "-"
    assert said.streams[1].percentiles == ()


def test_a_whole_trace_is_told_as_it_was(
    fixed: str, platform: hetsim.Platform, tmp_path: Path
) -> None:
    """Nothing is drawn: nine of ten on time are not nine and a half, whatever the seed."""
    took_s = alone_s(fixed, platform)
    trace = tmp_path / "trace.csv"
    # The tenth comes together with the ninth, and waits for it.
    at_s = [3 * turn * took_s for turn in range(9)]
    trace.write_text("".join(f"{one!r}\n" for one in [*at_s, at_s[-1]]))
    stream = hetsim.Stream(
        "all",
        fixed,
        Replay(str(trace)),
        slos=(hetsim.Slo(0.9, 1.5 * took_s), hetsim.Slo(0.95, 1.5 * took_s)),
    )

    def said(**changes: object) -> list[str]:
        workload = hetsim.Workload((stream,), **changes)  # type: ignore[arg-type]
        [told] = serve(deployed(fixed), workload, platform).streams
        return [one.verdict.answer for one in told.objectives]

    assert said() == ["meets", "misses"]
    # A part of the trace is a sample of it, and too short.
    assert said(duration_s=4 * took_s) == ["undecided", "undecided"]
    faster = hetsim.Workload((stream,)).faster(2.0)
    assert not faster.drawn
    # It waits ever longer, but comes no more: its latencies are known.
    at_once = serve(deployed(fixed), faster.faster(1000.0), platform)
    assert at_once.state == "backlogged"
    p90 = next(one for one in at_once.streams[0].percentiles if one.percentile == 90)
    assert p90.estimate_s == pytest.approx(9 * took_s, rel=0.01)
    assert hetsim.Workload(
        (stream,), failures=hetsim.Failing(mtbf_s={"*": 1.0}, mttr_s={"*": 1.0})
    ).drawn


def test_what_comes_without_chance_is_known(fixed: str, platform: hetsim.Platform) -> None:
    """An even stream goes on as it came, as long as it is kept up with."""
    took_s = alone_s(fixed, platform)
    for rate, limit, answer in (
        (0.5 / took_s, 1.1 * took_s, "meets"),
        (0.5 / took_s, 0.9 * took_s, "misses"),
        (1.5 / took_s, 5 * took_s, "misses"),
    ):
        stream = hetsim.Stream("all", fixed, Constant(rate), slos=(hetsim.Slo(0.99, limit),))
        workload = hetsim.Workload((stream,), requests=60)
        found = serve(deployed(fixed), workload, platform)
        assert found.streams[0].objectives[0].verdict.answer == answer
