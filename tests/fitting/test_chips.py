"""Datasheets of chips: peaks of threads, and what is said of each chip once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hetsim.fitting.chips import about, centre, peak_of, processor, raw_covariates, read_chips
from hetsim.fitting.measured import measured_folder, read_rows
from hetsim.fitting.points import points_of

CLUSTERS = [(4, 2.0, 32), (4, 1.0, 16)]


def test_threads_take_the_fastest_cores_first():
    assert processor(CLUSTERS, 2).flops_per_s == pytest.approx(2 * 64e9)
    assert processor(CLUSTERS, 6).flops_per_s == pytest.approx(4 * 64e9 + 2 * 16e9)
    assert processor(CLUSTERS, 4, slowest=True).flops_per_s == pytest.approx(4 * 16e9)
    whole = processor(CLUSTERS, None)
    assert (whole.flops_per_s, whole.threads) == (pytest.approx(320e9), 8)


def test_a_peak_that_is_not_told_follows_from_one_that_is():
    assert peak_of({"int8": 8e12}, "int8") == 8e12
    assert peak_of({"int8": 8e12}, "float16") == 4e12
    assert peak_of({"float32": 1e12}, "float") == 1e12
    assert peak_of({}, "int8") is None


def test_covariates_are_about_the_mean_of_those_that_are_known():
    raw = [raw_covariates(processor(CLUSTERS, threads)) for threads in (1, 4)]
    raw.append(np.full(4, math.nan))
    middle = centre(raw)
    found = [about(middle, one) for one in raw]
    assert found[0] == pytest.approx(-found[1])
    assert not found[2].any()


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
