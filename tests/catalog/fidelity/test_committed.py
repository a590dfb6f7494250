"""The guard: what the catalog predicts of all committed points is no worse than it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catalog.fidelity import judged
from catalog.fidelity.judged import alone_s, platform_of, read_tables, with_shipped
from catalog.fidelity.points import FidelityPoint, Predicted, losses, read_points
from catalog.fidelity.sections import Summary
from catalog.fidelity.server.points import read_server
from catalog.fidelity.writing import CHECKOUT, POINTS, SERVER, TABLES, told
from catalog.kin_fits import catalog_asks
from catalog.measured import ITEM_BYTES
from catalog.points import Chips, Graphs, points_of
from hetsim.cost.kernels.networks import KernelTable, network_table
from hetsim.hardware.kernel_figures import BATCHES, INDEX, batch_range
from hetsim.hardware.spec import DeviceSpec
from sweeps import sweep

COMMITTED = read_points(CHECKOUT / POINTS)
NAMES = sorted({point.network for point in COMMITTED})
MEANT = "Where this is meant, 'make fidelity ACCEPT=1' writes the points anew: see CONTRIBUTING.md."


PREDICTED = {point.key for point in COMMITTED if point.shipped is not None}


def same(was: Predicted | None, now: Predicted | None) -> bool:
    if was is None or now is None:
        return was is now
    ratios = (was.seconds / now.seconds, was.within / now.within)
    return all(abs(ratio - 1) < 1e-3 for ratio in ratios)


@pytest.fixture(scope="module")
def tables() -> dict[str, KernelTable]:
    return read_tables(CHECKOUT / TABLES)


@pytest.fixture(scope="module")
def today(tables: dict[str, KernelTable]) -> list[FidelityPoint]:
    return with_shipped(COMMITTED, tables)


def test_no_point_is_worse_than_it_was(today: list[FidelityPoint]) -> None:
    lost = losses(COMMITTED, today)
    assert not lost, f"{lost.text()}\n{MEANT}"


def test_points_are_what_the_catalog_predicts(today: list[FidelityPoint]) -> None:
    """What is told of the catalog is told of it as it is now."""
    changed = [
        f"{was}: {was.shipped} is now {now.shipped}"
        for was, now in zip(COMMITTED, today, strict=True)
        if not same(was.shipped, now.shipped)
    ]
    told_of = "\n".join(changed[:20])
    assert not changed, f"{len(changed)} predictions moved: make fidelity\n{told_of}"


def test_the_document_is_that_of_the_points() -> None:
    for path, text in told(COMMITTED, read_server(CHECKOUT / SERVER)).items():
        assert (CHECKOUT / path).read_text(encoding="utf-8") == text, f"{path}: make fidelity"


def test_networks_are_left_out_of_the_device_and_of_its_kin() -> None:
    """One way without the other is where a device or kin ran nothing else."""
    known = {point.key for point in COMMITTED if point.left_out is not None}
    assert known == {point.key for point in COMMITTED if point.unseen is not None}


@pytest.mark.parametrize("batch", BATCHES)
def test_intervals_of_what_was_left_out_hold_what_they_say(batch: str) -> None:
    found = [point for point in COMMITTED if batch_range(point.batch) == batch]
    for way in ("left_out", "unseen"):
        told = Summary.of(found, lambda point, way=way: getattr(point, way))  # type: ignore[misc]
        assert told is not None
        assert 0.75 <= told.covered <= 0.88, way


@pytest.mark.sweep
def test_all_that_was_measured_of_the_catalog_is_there(
    rows: list[dict[str, Any]], chips: Chips
) -> None:
    points = points_of(rows, chips.called)
    measured = {
        (asked.name, asked.precision, Path(one.network).stem, one.batch): (one.rows, one.seconds)
        for asked in catalog_asks(points, chips)
        if asked.series is not None
        for one in points.series[asked.series]
    }
    assert {point.key for point in COMMITTED} == set(measured), "make fit"
    for point in COMMITTED:
        rows, seconds = measured[point.key]
        assert (point.rows, point.measured_s) == (rows, pytest.approx(seconds, rel=1e-4)), point


@pytest.mark.skipif(
    not any(key[0] == "nvidia-t4" for key in PREDICTED), reason="no figures are in the catalog"
)
def test_a_changed_figure_is_named_point_by_point(
    today: list[FidelityPoint],
    tables: dict[str, KernelTable],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = judged.device_of

    def slower(name: str) -> DeviceSpec:
        spec = device(name)
        if name != "nvidia-t4":
            return spec
        figures = spec.kernels["int8"]
        values = list(figures.values)
        for parameter in ("rate_tflops", "bandwidth_gbytes_s", "weights_gbytes_s"):
            values[INDEX[parameter]] /= 20
        kernels = {**spec.kernels, "int8": replace(figures, values=tuple(values))}
        return replace(spec, kernels=kernels)

    monkeypatch.setattr(judged, "device_of", slower)
    lost = losses(today, with_shipped(COMMITTED, tables))
    assert not lost.gone
    assert lost.uncovered
    assert all("on nvidia-t4 in int8: measured" in line for line in lost.uncovered)
    assert lost.flipped
    assert all("nvidia-t4 in int8" in line for line in lost.flipped)


def test_points_without_figures_or_a_table_are_lost(
    today: list[FidelityPoint], tables: dict[str, KernelTable]
) -> None:
    for found in (with_shipped(COMMITTED, tables, lambda _: None), with_shipped(COMMITTED, {})):
        assert len(losses(today, found).gone) == len(PREDICTED) > 0


@sweep("network", quick=NAMES[::80], full=NAMES)
def test_tables_that_are_kept_are_those_of_the_graphs(
    network: str, tables: dict[str, KernelTable], graphs: Graphs
) -> None:
    made, kept = network_table(graphs.load(f"{network}.onnx").graph), tables[network]
    for field in ("elements", "stored", "counts"):
        np.testing.assert_array_equal(getattr(made, field), getattr(kept, field), "make fit")
    assert (made.io_elements, made.io_stored) == (kept.io_elements, kept.io_stored)


PRICED = [point for point in COMMITTED if point.priced_s is not None and point.key in PREDICTED]


@sweep("point", quick=PRICED[::900], full=PRICED[::5], ids=str)
def test_points_are_priced_as_users_have_them_priced(
    point: FidelityPoint, today: list[FidelityPoint], tables: dict[str, KernelTable], graphs: Graphs
) -> None:
    """The whole network on the device alone, and its input and output as they moved."""
    (now,) = [one for one in today if one.key == point.key]
    figures = judged.figures_of(point.device, point.precision)
    assert figures is not None
    assert now.shipped is not None
    model, platform = graphs.load(f"{point.network}.onnx"), platform_of(point.device)
    seconds = alone_s(model, platform, point.precision, "fitted")
    assert seconds is not None
    nbytes = tables[point.network].io_bytes(1, ITEM_BYTES[point.precision])
    seconds += nbytes / figures.value("io_gbytes_s")
    assert seconds == pytest.approx(now.shipped.seconds, rel=1e-3)
