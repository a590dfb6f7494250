"""Files of fitted devices: read back as what was written, the same bytes for the same rows."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
import yaml

from catalog.fit import figures_of, fitted_text, write_fitted
from catalog.kin_fits import Measurements, picked
from catalog.measured import measured_folder
from catalog.widths import Bases
from hetsim.errors import PlatformError
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.files.kernels_schema import FittedModel
from hetsim.hardware.kernel_figures import KernelFigures

DEVICE, CHIP = "rockchip-rk3588-npu", "RK3588"


def fitted(folder: Path, devices: Path) -> KernelFigures:
    measurements = Measurements.read(folder, devices)
    (asked,) = (one for one in measurements.asks if one.precision == "int8")
    return figures_of(measurements, Bases.of(measurements), asked)


@pytest.fixture(scope="module")
def devices(tmp_path_factory) -> Path:
    """A catalog of one device."""
    folder = tmp_path_factory.mktemp("devices")
    shutil.copy(catalog_folder() / f"{DEVICE}.yaml", folder)
    return folder


def rows_of_kin(folder: Path, *, times: float = 1.0) -> Path:
    """Write what was measured of the device's kin into a folder, its own chip this much faster."""
    for name in ("chips.yaml", "graphs.tar.gz"):
        shutil.copy(measured_folder() / name, folder)
    with gzip.open(measured_folder() / "rows.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    kin = [row for row in rows if row["kind"] == "rknn"]
    for row in kin:
        if row["chip"] == CHIP and "throughput_per_s" in row:
            row["throughput_per_s"] *= times
    with gzip.open(folder / "rows.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in kin)
    return folder


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    return rows_of_kin(tmp_path_factory.mktemp("measured"))


@pytest.fixture(scope="module")
def figures(devices, measured) -> KernelFigures:
    return fitted(measured, devices)


@pytest.mark.sweep
def test_what_is_written_is_read_back(figures):
    text = fitted_text(DEVICE, [("", figures)])
    read = FittedModel.model_validate(yaml.safe_load(text)).kernels["int8"].to_figures("int8")
    assert read.values == pytest.approx(figures.values, rel=1e-12)
    assert (read.kin, read.runtime, read.provenance) == (
        figures.kin,
        figures.runtime,
        figures.provenance,
    )
    assert (read.errors, read.basis) == (figures.errors, figures.basis)
    own = figures.basis.device
    assert (own.networks, own.sources, own.dies) == (5, 1, 1)
    assert figures.basis.family.dies == 6


@pytest.mark.sweep
def test_the_same_rows_give_the_same_bytes_and_changed_ones_others(
    figures, devices, measured, tmp_path
):
    assert fitted_text(DEVICE, [("", fitted(measured, devices))]) == fitted_text(
        DEVICE, [("", figures)]
    )
    faster = fitted(rows_of_kin(tmp_path, times=2.0), devices)
    assert faster.value("rate_tflops") > figures.value("rate_tflops")


@pytest.mark.sweep
def test_all_rows_give_the_same_bytes_twice(devices):
    one, other = (fitted(measured_folder(), devices) for _ in range(2))
    assert fitted_text(DEVICE, [("", one)]) == fitted_text(DEVICE, [("", other)])


@pytest.mark.sweep
def test_files_of_devices_that_stand_on_nothing_are_deleted(figures, tmp_path):
    (tmp_path / "old.yaml").write_text("kernels: {}\n")
    assert write_fitted(tmp_path, {DEVICE: [("", figures)]}, [], all_of_them=False) == [
        tmp_path / f"{DEVICE}.yaml"
    ]
    assert write_fitted(tmp_path, {DEVICE: [("", figures)]}, []) == [tmp_path / "old.yaml"]
    assert write_fitted(tmp_path, {DEVICE: [("", figures)]}, []) == []


@pytest.mark.sweep
def test_settings_that_pick_no_series_or_several_are_refused(devices):
    points = Measurements.read(measured_folder(), devices).points
    with pytest.raises(PlatformError, match="RK3588"):
        picked(points, "rknn-int8", "RK3588B", {}, "here")
    with pytest.raises(PlatformError, match="threads"):
        picked(points, "ncnn-cpu-float", "RK3588", {"powersave": "0"}, "here")
    one = picked(points, "ncnn-cpu-float", "RK3588", {"powersave": "2", "threads": "4"}, "here")
    assert dict(one.where) == {"powersave": "2", "threads": "4"}
