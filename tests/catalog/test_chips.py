"""Chips by their settings and datasheets, and those that the catalog states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from catalog.points import Chips, Series, of_cores
from hetsim.hardware.datasheet import CORES, FAMILIES
from hetsim.hardware.files.catalog_files import catalog_folder

CLUSTERS = [[4, 2.0, "cortex-a76"], [4, 1.0, "cortex-a55"]]


def series(kin: str = "ncnn-cpu-float", precision: str = "float", **where: str) -> Series:
    return Series(kin, "a chip", "cpu", precision, tuple(sorted(where.items())))


def test_a_series_has_what_its_settings_leave_it():
    assert of_cores(CLUSTERS, series(threads="2")).flops_per_s == pytest.approx(2 * 64e9)
    slow = of_cores(CLUSTERS, series(threads="4", powersave="1"))
    assert slow.flops_per_s == pytest.approx(4 * 16e9)
    wide = [[1, 2.0, "zen5"]]
    whole, half = (
        of_cores(wide, series(build=f"Results ({used} AVX512)")).flops_per_s
        for used in ("With", "Without")
    )
    assert whole == 2 * half


def test_libraries_without_kernels_for_matrices_have_vectors():
    xeon = [[1, 2.0, "sapphire-rapids"]]
    vectors = of_cores(xeon, series("ncnn-cpu-int8", "int8")).flops_per_s
    matrices = of_cores(xeon, series("openvino-cpu-int8", "int8")).flops_per_s
    assert (vectors, matrices) == (pytest.approx(512e9), pytest.approx(4096e9))


def test_names_of_chips_are_those_of_rows_and_each_belongs_to_one(chips, points):
    told = {series.chip for series in points.series}
    assert set(chips.called) <= told
    assert not set(chips.called) & set(chips.called.values())
    units = {(chips.name(series.chip), series.unit) for series in points.series}
    assert set(chips.units) <= units
    for (chip, unit), figures in chips.units.items():
        assert figures["status"] in ("estimate", "derived", "secondary", "datasheet")
        assert len(figures["source"]) >= 8, (chip, unit)
        if figures["source"].startswith("devices/"):
            name = figures["source"].removeprefix("devices/").split(".yaml")[0]
            assert (catalog_folder() / f"{name}.yaml").is_file(), (chip, unit)
        assert {core for _, _, core in figures.get("clusters", ())} <= set(CORES)
        assert figures.get("family") in (None, *FAMILIES)
    # One name for each die: no chip is the same as one that is the same as another.
    named = {chips.name(one) for one in told}
    assert set(chips.silicon) <= named
    assert not set(chips.silicon) & set(chips.silicon.values())


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
OTHERWISE = {
    ("nvidia-rtx-4090", "float16"): "the device has sums in float32, TensorRT has them in float16",
    ("nvidia-a100-sxm4-80g", "bandwidth"): "a series that it stands on is of the card of 40 GB",
    ("intel-core-ultra-155h-igpu", "bandwidth"): "rows are of a 165H with other memory",
    ("rockchip-rk3566-npu", "int8"): "rows are of the RK3568, too, whose clock is higher",
    ("rockchip-rk3566-npu", "bandwidth"): "rows are of the RK3568, too, whose memory is faster",
    ("rockchip-rk3568-gpu", "bandwidth"): "it stands on rows of an RK3566, whose memory is slower",
}


def both(chips: Chips) -> Iterator[tuple[str, str, float, float]]:
    """Device, figure, what the catalog says, and what the file of chips says of its rows' chip."""
    for path in sorted(catalog_folder().glob("*.yaml")):
        device: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), LOADER)
        for entry in device.get("measured", {}).values():
            if "chip" not in entry:
                continue
            for (chip, unit), told in chips.units.items():
                if chip != chips.name(entry["chip"]) or unit == "cpu":
                    continue
                if (unit == "gpu") != (device["kind"] == "gpu") or device["kind"] == "cpu":
                    continue
                for dtype, peak in told["peak_tflops"].items():
                    if dtype in device["peak_tflops"]:
                        yield path.stem, dtype, device["peak_tflops"][dtype]["value"], peak
                if "bandwidth_gbytes_s" in told:
                    of_device = device["memory_bandwidth_gbytes_s"]["value"]
                    yield path.stem, "bandwidth", of_device, told["bandwidth_gbytes_s"]


def test_catalog_and_chips_agree_but_for_exceptions_that_are_needed(chips: Chips) -> None:
    apart = {
        (name, figure)
        for name, figure, catalog, chip in both(chips)
        if chip != pytest.approx(catalog, rel=0.03)
    }
    assert apart == set(OTHERWISE)
