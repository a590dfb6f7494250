"""Donors and sisters in a kin that is made: what is one factor off, and what is the same chip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from catalog import kin_data
from catalog.judging import donors
from catalog.kin_data import KinData, Prior, chip_groups
from catalog.likeness import without_network_on_chip
from catalog.mixed import fit_kin
from kin_builders import DEVICES, NETWORKS


def with_times(data: KinData, times: np.ndarray) -> KinData:
    """The kin with log seconds [devices, networks]."""
    return replace(data, log_seconds=times.ravel())


def test_a_device_that_is_another_times_a_factor_is_told_by_it(made: KinData) -> None:
    times = made.log_seconds.reshape(DEVICES, NETWORKS).copy()
    times[1] = times[4] + np.log(1.7)
    data = with_times(made, times)
    found = donors(data, data.series[1])
    assert list(found) == list(range(NETWORKS, 2 * NETWORKS))
    assert list(found.values()) == pytest.approx(times[1].tolist())


def test_a_donor_has_run_the_network_and_is_no_part_of_its_own_factor(made: KinData) -> None:
    times = made.log_seconds.reshape(DEVICES, NETWORKS).copy()
    times[1] = times[4] + np.log(1.7)
    times[1, 5] += 3.0
    data = with_times(made, times)
    found = donors(data, data.series[1])
    assert found[NETWORKS + 5] == pytest.approx(times[4, 5] + np.log(1.7))
    without = np.delete(np.arange(len(data.key)), 4 * NETWORKS + 5)
    fewer = replace(
        data,
        points=tuple(data.points[at] for at in without),
        owner=data.owner[without],
        log_seconds=data.log_seconds[without],
        key=data.key[without],
    )
    assert donors(fewer, data.series[1])[NETWORKS + 5] != pytest.approx(times[4, 5] + np.log(1.7))


@pytest.mark.sweep
def test_one_chip_under_two_names_is_no_donor_and_is_left_out_with_it(
    made: KinData, prior: Prior, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kin_data, "LEAST_NETWORKS", NETWORKS)
    times = made.log_seconds.reshape(DEVICES, NETWORKS).copy()
    times[1] = times[4] + np.where(np.arange(NETWORKS) % 2, 0.01, -0.01)
    data = with_times(made, times)
    assert chip_groups(made).tolist() == list(range(DEVICES))
    assert chip_groups(data).tolist() == [0, 1, 2, 3, 1, 4]
    found = donors(data, data.series[1])
    # Its sister would tell it to 0.02.
    assert max(abs(log - times[1, at - NETWORKS]) for at, log in found.items()) > 0.1
    # The odd one of both is known to neither.
    times[[1, 4], 7] += 2.0
    fit = fit_kin(data, prior)
    told = {
        (one.series, one.point.network): one
        for one in without_network_on_chip(with_times(data, times), prior, fit)
    }
    for device in (1, 4):
        one = told[data.series[device], data.keys[7][0]]
        assert one.miss + one.effect < -1.5
