"""Datasheets of chips: peaks of threads, and what is said of each chip once."""

from __future__ import annotations

import pytest

from catalog.measured import measured_folder, read_rows
from catalog.points import Series, of_cores, points_of, read_chips
from hetsim.hardware.datasheet import CORES, FAMILIES

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


def test_names_of_chips_are_those_of_rows_and_each_belongs_to_one():
    chips = read_chips(measured_folder())
    points = points_of(read_rows(measured_folder()))
    told = {series.chip for series in points.series}
    assert set(chips.called) <= told
    assert not set(chips.called) & set(chips.called.values())
    units = {(chips.name(series.chip), series.unit) for series in points.series}
    assert set(chips.units) <= units
    for figures in chips.units.values():
        assert figures["status"] in ("estimate", "derived", "secondary", "datasheet")
        assert figures["source"]
        assert {core for _, _, core in figures.get("clusters", ())} <= set(CORES)
        assert figures.get("family") in (None, *FAMILIES)
    # One name for each die: no chip is the same as one that is the same as another.
    named = {chips.name(one) for one in told}
    assert set(chips.silicon) <= named
    assert not set(chips.silicon) & set(chips.silicon.values())
