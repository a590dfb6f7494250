"""Rates of servers: batch times, arrivals in batches, systems, points and guard."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.fidelity.points import Losses
from catalog.fidelity.server import rates as serving
from catalog.fidelity.server.points import (
    LIMITS_S,
    ServerSystem,
    missed,
    read_server,
    server_systems,
    server_text,
)
from catalog.fidelity.server.rates import (
    GRID,
    MOST,
    OF_CHIPS,
    RateErrors,
    anchored,
    batch_times,
    best_carried,
    by_others,
    carried,
    each_once,
    late_of,
    naive,
    sizing,
)
from catalog.measured import BULK_BATCH
from catalog.points import Chips
from hetsim.errors import UsageError
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.files.schema import read_file
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from known_queues import layout
from oracles.queueing.one_server import beyond_constant
from server_builders import served
from sweeps import examples


def played(takes: np.ndarray, servers: int, arrival: np.ndarray) -> np.ndarray:
    """Latencies of one queue before so many devices that each take a batch at a time."""
    most = len(takes) - 1
    template = np.arange(servers * most).reshape(1, servers, most)
    model = ModelSetup(template, (1,) * servers)
    serving = Serving(
        layout(most, (1,) * servers),
        np.tile(takes[1:], servers),
        [model],
        [RequestSource(0)],
        machine_code=False,
    )
    zeros = np.zeros(len(arrival), dtype=np.int64)
    outcomes = Outcomes.joined([serving.serve(arrival, zeros, zeros), serving.close()])
    return np.asarray(outcomes.latency_s)


@examples(quick=12, full=400)
@given(
    seed=st.integers(0, 2**32 - 1),
    servers=st.integers(1, 3),
    most=st.integers(1, 5),
    load=st.sampled_from([0.3, 0.8, 1.0, 1.5]),
)
def test_as_many_are_late_as_the_engine_says(
    seed: int, servers: int, most: int, load: float
) -> None:
    rng = np.random.default_rng(seed)
    # Eighths, so that what ends and what comes meet at one instant as well.
    takes = np.append(0.0, np.cumsum(rng.integers(1, 12, most)) / 8)
    rate = load * servers * float((np.arange(1, most + 1) / takes[1:]).max())
    arrival = np.cumsum(rng.integers(0, 16, 200)) / 8
    latency = played(takes, servers, arrival / rate)
    for limit_s in (float(takes[1]), float(np.median(latency)), float(latency.max())):
        late = int((latency > limit_s).sum())
        assert late_of(arrival, takes, servers, limit_s, len(arrival), rate) == late
        if late:
            assert late_of(arrival, takes, servers, limit_s, late - 1, rate) == late


@pytest.mark.parametrize("limit", [3.0, 10.0])
def test_one_server_without_batches_is_that_of_erlang(limit: float) -> None:
    rate = carried(np.array([0.0, 1.0]), 1, limit)
    low, high = (beyond_constant(rate * by, limit) for by in (0.97, 1.03))
    assert low < 0.01 < high


def test_a_lone_request_that_is_late_leaves_no_rate() -> None:
    seconds = np.arange(MOST + 1) / 10
    assert carried(seconds[:5], 3, 0.09) == 0.0
    assert best_carried(seconds, 3, 0.09).rate_per_s == 0.0


def test_the_best_setting_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "QUERIES", serving.LOOK)
    # Half of a batch of 8 is there for one: batches pay, until they take too long.
    seconds = np.append(0.0, (7.0 + np.arange(1, MOST + 1)) / 1000)
    limit_s = 0.06
    rates = {
        (instances, batch): carried(
            seconds[: instances * batch + 1 : instances],
            2 * instances,
            limit_s,
            serving.LOOK,
        )
        for instances in (1, 2, 4, 8, 16, 32)
        for batch in (1, 2, 4, 8, 16, 32)
        if seconds[instances * batch] <= limit_s
    }
    best = best_carried(seconds, 2, limit_s)
    assert best.rate_per_s == pytest.approx(max(rates.values()), rel=2e-4)
    assert rates[best.instances, best.batch] == pytest.approx(best.rate_per_s, rel=2e-4)


SHAPE = 0.5 + 0.25 * np.array(GRID, dtype=float)


@pytest.mark.parametrize(("bulk_s", "alone_s"), [(20.0, 0.6), (33.0, 2.0), (8.0, 1.5)])
def test_both_anchors_are_met(bulk_s: float, alone_s: float) -> None:
    seconds = batch_times(SHAPE, bulk_s, alone_s)
    assert seconds[0] == 0.0
    assert seconds[1] == pytest.approx(alone_s)
    assert seconds[BULK_BATCH] == pytest.approx(bulk_s)
    assert (np.diff(seconds) >= 0).all()
    assert len(seconds) == MOST + 1
    assert seconds[4 * BULK_BATCH] == pytest.approx(4 * bulk_s)


def test_one_anchor_moves_all_alike_and_none_leaves_the_shape() -> None:
    grid = np.array(GRID)
    for anchors, factor in (((None, None), 1.0), ((2 * SHAPE[-1], None), 2.0), ((None, 1.5), 2.0)):
        np.testing.assert_allclose(batch_times(SHAPE, *anchors)[grid], factor * SHAPE)


def test_without_a_shape_there_is_a_line() -> None:
    np.testing.assert_allclose(batch_times(None, 64.0, 10.0)[[1, 64, 128]], [10.0, 64.0, 128.0])
    np.testing.assert_allclose(np.diff(batch_times(None, 64.0, None)), 1.0)
    # One alone cannot take longer than bulk, which it may be filled up to.
    assert batch_times(None, 64.0, 100.0)[1] == pytest.approx(64.0)


def test_a_larger_batch_takes_no_less_than_a_smaller_one() -> None:
    shape = SHAPE.copy()
    shape[3] = 1.5 * shape[4]
    shape[6] = 3 * shape[-1]
    seconds = batch_times(shape, None, None)
    assert seconds[GRID[4]] == pytest.approx(shape[3])
    assert seconds[GRID[6]] == pytest.approx(shape[-1])
    assert (np.diff(seconds) >= 0).all()


def test_devices_stand_for_the_chips_that_their_files_name(chips: Chips) -> None:
    for chip, device in OF_CHIPS.items():
        model, _ = read_file(
            DeviceModel, catalog_folder() / f"{device}.yaml", f"{device}.yaml", catalog=True
        )
        assert model is not None
        every = (model.measured, *(one.measured for one in model.runtimes.values()))
        named = {chips.name(t.chip) for told in every for t in told.values() if t.chip}
        assert chip in named


def test_a_file_says_what_was_written(tmp_path: Path) -> None:
    points = [served("a", 1234.5), served("b", None)]
    points[0] = replace(
        points[0], system=replace(points[0].system, altered=True, alone_s=0.001, alone_of="chip")
    )
    path = tmp_path / "server.csv"
    path.write_text(server_text(reversed(points)))
    assert read_server(path) == points
    path.write_text("other,columns\n1,2\n")
    with pytest.raises(UsageError, match="other columns"):
        read_server(path)
    with pytest.raises(UsageError, match="no points"):
        read_server(tmp_path / "none.csv")


def test_what_was_near_and_is_no_longer_is_named() -> None:
    old = [served("a", 1100), served("b", 1190), served("c", 1300), served("d", 900)]
    new = [served("a", None), served("b", 1250), served("c", 1900)]
    assert missed(old, old) == ()
    lines = missed(old, new)
    assert lines == (
        "resnet50 on a of Somebody, v1.0: no rate",
        "resnet50 on b of Somebody, v1.0: off by +25%, was +19%",
        "resnet50 on d of Somebody, v1.0: no rate",
    )
    lost = Losses((), (), (), lines)
    assert lost
    assert "3 served rates are no longer predicted as near:" in lost.text()


def test_errors_are_shares_of_what_was_measured() -> None:
    points = [served("a", 1100), served("b", 900), served("c", 1300), served("d", None)]
    found = RateErrors.of(points, anchored)
    assert found is not None
    assert (found.count, found.middle) == (3, pytest.approx(1.1))
    assert found.median == pytest.approx(0.1)
    assert found.within_goal == pytest.approx(2 / 3)
    assert RateErrors.of(points[3:], anchored) is None
    assert sizing(points[3:], anchored) is None


def test_a_chip_counts_once() -> None:
    points = [served(str(n), 1500) for n in range(9)] + [served("b", 1000, chip="other")]
    found = each_once(points, anchored)
    assert found is not None
    assert (found.count, found.median) == (2, pytest.approx(0.25))


def test_a_factor_is_fitted_on_others_alone() -> None:
    """Of two submitters each is judged by the other's: the better known does not help itself."""
    points = [served("a", 1200, submitter="A"), served("b", 1500, submitter="B")]
    found = by_others(points, anchored, lambda point: point.system.submitter)
    assert found is not None
    assert found.low == pytest.approx(0.8 + 0.1 * (1.25 - 0.8))
    assert found.high == pytest.approx(1.25 - 0.1 * (1.25 - 0.8))
    assert by_others(points[:1], anchored, lambda point: point.system.submitter) is None


def test_sizing_by_a_rate_that_is_too_high_buys_too_few() -> None:
    found = sizing([served("a", 1000), served("b", 2000)], naive)
    assert found is not None
    # Offline is 1.5 times what is served.
    assert (found.low, found.middle, found.high, found.short) == (67, 67, 67, 1.0)


CHIPS = Chips({"Chip, other name": "Chip"}, {})


def row(scenario: str, figure: float, **how: Any) -> dict[str, Any]:
    """A row of MLPerf, with what differs from a plain one."""
    config = {
        "submitter": how.pop("submitter", "Somebody"),
        "system": how.pop("system", "box"),
        "accelerators": how.pop("accelerators", 1),
        "cores": how.pop("cores", None),
        "latency_ms": {"p99": 14.0},
    }
    told = {"latency_ms": figure} if scenario == "SingleStream" else {"throughput_per_s": figure}
    return {
        "kind": "mlperf",
        "metric": f"(MLPerf {scenario})",
        "source": f"github:mlcommons/inference_results_{how.pop('round', 'v1.0')}@0:closed",
        "config": config,
        "chip": "Chip",
        "unit": "gpu",
        "graphs": [{"file": "resnet50.onnx"}],
        "precision": "int8",
        "runtime": "TensorRT 8.0",
        **told,
        **how,
    }


def test_offline_is_of_the_same_system_and_division() -> None:
    altered = {"note": "open division: the network may be altered (pruned or searched)"}
    found = server_systems(
        [
            row("Server", 100),
            row("Server", 300, **altered),
            row("Server", 500, round="v1.1"),
            row("Offline", 200),
            row("Offline", 400, **altered),
            row("Offline", 600, system="another"),
        ],
        CHIPS,
    )
    assert [(one.server_per_s, one.offline_per_s) for one in found] == [
        (100, 200),
        (300, 400),
        (500, None),
    ]


def test_single_stream_is_its_own_else_of_its_chip() -> None:
    others = [
        row("SingleStream", 3.0, system="beside", chip="Chip, other name"),
        row("SingleStream", 9.0, system="elsewhere", submitter="Else"),
        row("SingleStream", 90.0, system="weak MaxQ"),
        row("SingleStream", 90.0, system="floats", precision="fp32"),
        row("SingleStream", 90.0, system="by another", runtime="ONNX Runtime"),
        row("SingleStream", 90.0, system="of another", chip="Other"),
    ]
    (one,) = server_systems([row("Server", 100), *others], CHIPS)
    assert (one.alone_s, one.alone_of) == (0.003, "chip")
    (one,) = server_systems([row("Server", 100, submitter="Third"), *others], CHIPS)
    assert (one.alone_s, one.alone_of) == (0.006, "chip")
    own = row("SingleStream", 2.0)
    (one,) = server_systems([row("Server", 100), *others, own], CHIPS)
    assert (one.alone_s, one.alone_of) == (0.002, "system")
    (one,) = server_systems([row("Server", 100), *others[2:]], CHIPS)
    assert (one.alone_s, one.alone_of) == (None, "")


@pytest.mark.parametrize(
    ("accelerators", "cores", "devices"),
    [(1, None, 1), (0, "2 x 28", 2), (0, "8 x 28", 8), (4, "2 x 28", 4), (0, None, 1)],
)
def test_devices_are_accelerators_or_sockets(
    accelerators: int, cores: str | None, devices: int
) -> None:
    (one,) = server_systems(
        [row("Server", 100, accelerators=accelerators, cores=cores)],
        CHIPS,
    )
    assert one.devices == devices


@pytest.mark.parametrize(
    ("told", "system", "meant"),
    [
        ("int8", "box", "int8"),
        ("No change.", "box-bf16", "bfloat16"),
        ("No change.", "box-INT8", "int8"),
        ("FP32 + Int8", "box", "int8"),
        ("int8 or fp16 (not said)", "box", ""),
    ],
)
def test_a_precision_that_is_left_open_is_read_from_the_name(
    told: str, system: str, meant: str
) -> None:
    (one,) = server_systems([row("Server", 100, precision=told, system=system)], CHIPS)
    assert one.precision == meant


def test_no_published_run_was_beyond_its_limit(systems: list[ServerSystem]) -> None:
    """As rules have it; and of each network that many ran some came near."""
    assert len({one.key for one in systems}) == len(systems)
    for network, limit_s in LIMITS_S.items():
        p99_s = [one.p99_s for one in systems if one.network == network]
        assert max(p99_s) <= limit_s
        assert len(p99_s) < 10 or max(p99_s) > 0.95 * limit_s
