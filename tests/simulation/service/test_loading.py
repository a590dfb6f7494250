"""Models of one deployment whose weights do not fit together: infeasible, or loaded by turns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import hetsim
from deployments import deployed, model_at
from hetsim.core.units import MIB
from hetsim.provisioning.rates.capacity import capacity
from hetsim.simulation.service.layout import held
from hetsim.simulation.service.resolution import Resolved, resolve
from hetsim.simulation.service.service import Service
from hetsim.workload.arrivals import Replay
from hetsim.workload.deployment import Deployment, Served
from hetsim.workload.workload import Slo, Stream, Workload

NPU = 1


@pytest.fixture(scope="module")
def models(folder: Path) -> tuple[str, str]:
    return model_at(folder, 1), model_at(folder, 1, width=640)


def of(models: tuple[str, ...], **changes: object) -> Deployment:
    given: dict[str, object] = {"strategy": "single:npu", "loading": "on_demand", **changes}
    return Deployment(tuple(Served(model, **given) for model in models))  # type: ignore[arg-type]


def in_turn(models: tuple[str, ...], requests: int) -> Workload:
    """A request a second, of each model in turn, but for the first, which come at once."""
    streams = []
    for at, name in enumerate(models):
        path = Path(name).with_suffix(f".{at}_{len(models)}_{requests}.csv")
        times = [0, *range(at, requests, len(models))[1:]]
        path.write_text("".join(f"{second}.0\n" for second in times))
        streams.append(Stream(name, name, Replay(str(path))))
    return Workload(tuple(streams))


def with_memory(platform: hetsim.Platform, nbytes: int, name: str = "npu") -> hetsim.Platform:
    devices = {**platform.devices, name: replace(platform.devices[name], memory_bytes=nbytes)}
    return replace(platform, devices=devices)


def resolved(models: tuple[str, ...], platform: hetsim.Platform) -> tuple[Resolved, ...]:
    return resolve(of(models), in_turn(models, 4), platform)


def needs(models: tuple[str, ...], platform: hetsim.Platform) -> list[int]:
    return [one.whole[NPU] for one in map(held, resolved(models, platform))]


def latencies(service: Service) -> list[float]:
    return [one.mean_s for one in service.streams]


def test_each_turn_is_paid_for_over_the_link(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    sizes = needs(models, platform)
    small = with_memory(platform, max(sizes))
    service = hetsim.simulate(of(models), in_turn(models, 20), platform=small)
    found = resolved(models, small)
    [[[first_s]]] = found[0].seconds
    for at, (one, held_by) in enumerate(zip(found, map(held, found), strict=True)):
        [[[alone_s]]] = one.seconds
        # The link of the platform: 5 us, 10 GB/s.
        load_s = 5e-6 + held_by.weights[NPU] / 10e9
        said, stream = service.loading[at], service.streams[at]
        # The first was there when the run began.
        assert said.loads == 10 - (at == 0)
        assert said.nbytes == held_by.weights[NPU]
        assert said.alone_s == pytest.approx(load_s)
        assert said.seconds == pytest.approx(said.loads * load_s)
        assert stream.loading.mean_s == pytest.approx(load_s * said.loads / 10)
        assert stream.loading.max_s == pytest.approx(load_s)
        assert stream.service.mean_s == pytest.approx(alone_s)
        # The second of those that come at once waits for the first to end.
        waited_s = first_s if at else 0.0
        assert (stream.queue.p50_s, stream.queue.max_s) == (0, pytest.approx(waited_s))
        assert stream.mean_s == pytest.approx(alone_s + (load_s * said.loads + waited_s) / 10)
    assert service.memory_bytes["npu"] == max(sizes)
    assert sum(one.resident for one in service.loading) == pytest.approx(1)
    loads_s = sum(one.seconds for one in service.loading)
    together = hetsim.simulate(of(models), in_turn(models, 20), platform=platform)
    more_s = service.links["cpu>npu"].busy_s - together.links["cpu>npu"].busy_s
    assert more_s == pytest.approx(loads_s)


def test_where_there_is_room_nobody_pays(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    fits = with_memory(platform, sum(needs(models, platform)))
    turns, resident = (
        hetsim.simulate(of(models, loading=loading), in_turn(models, 20), platform=fits)
        for loading in ("on_demand", "resident")
    )
    assert latencies(turns) == latencies(resident)
    assert [one.loads for one in turns.loading] == [0, 0]
    assert turns.memory_bytes["npu"] == resident.memory_bytes["npu"]
    assert resident.loading == ()
    # The weights to be loaded stay in the host's memory.
    copies = sum(one.copy for one in map(held, resolved(models, fits)))
    assert turns.memory_bytes["cpu"] == resident.memory_bytes["cpu"] + copies


def test_who_stays_leaves_the_others_the_rest(
    models: tuple[str, str], platform: hetsim.Platform, folder: Path
) -> None:
    third = model_at(folder, 1, width=576)
    sizes = needs((*models, third), platform)
    small = with_memory(platform, sizes[0] + max(sizes[1:]))
    stays = deployed(models[0], strategy="single:npu").models
    mixed = Deployment((*stays, *of((models[1], third)).models))
    workload = in_turn((models[1], third), 20)
    service = hetsim.simulate(mixed, workload, platform=small)
    assert [(one.model, one.loads) for one in service.loading] == [(models[1], 9), (third, 10)]
    assert service.memory_bytes["npu"] == sizes[0] + max(sizes[1:])


def test_what_never_fits_is_infeasible(
    models: tuple[str, str], platform: hetsim.Platform, folder: Path
) -> None:
    sizes = needs(models, platform)
    workload = in_turn(models, 4)
    small = with_memory(platform, sum(sizes) - 1)
    with pytest.raises(hetsim.errors.OutOfMemory, match="together") as refused:
        hetsim.simulate(of(models, loading="resident"), workload, platform=small)
    assert "they take turns" in str(refused.value)
    assert (refused.value.device, refused.value.needed_bytes) == ("npu", sum(sizes))
    mixed = Deployment((*of(models[:1], loading="resident").models, *of(models[1:]).models))
    with pytest.raises(hetsim.errors.OutOfMemory, match="at once") as refused:
        hetsim.simulate(mixed, workload, platform=small)
    assert (refused.value.device, refused.value.needed_bytes) == ("npu", sum(sizes))
    # Weights that are not in the host's memory cannot be loaded from it.
    roomy = with_memory(platform, MIB, "cpu")
    with pytest.raises(hetsim.errors.OutOfMemory, match="to be loaded from there") as refused:
        hetsim.simulate(of(models), workload, platform=roomy)
    assert refused.value.device == "cpu"


def test_a_model_on_the_host_is_loaded_never(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    on_cpu = of(models, strategy="single:cpu")
    service = hetsim.simulate(on_cpu, in_turn(models, 20), platform=platform)
    assert service.loading == ()
    resident = hetsim.simulate(
        of(models, strategy="single:cpu", loading="resident"),
        in_turn(models, 20),
        platform=platform,
    )
    assert latencies(service) == latencies(resident)
    assert service.memory_bytes == resident.memory_bytes


@pytest.mark.sweep
def test_turns_count_in_what_a_platform_carries(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    sizes = needs(models, platform)
    [first, second] = in_turn(models, 40).streams
    slo = (Slo(0.9, 0.002),)
    workload = Workload((replace(first, slos=slo), replace(second, slos=slo)))
    apart, together = (
        capacity(of(models), workload, platform=with_memory(platform, nbytes)).rows[0]
        for nbytes in (max(sizes), sum(sizes))
    )
    assert apart.one_span == together.one_span == "models take turns in memory"
    assert apart.answer == together.answer == "meets"
    assert apart.highest_per_s < together.highest_per_s
