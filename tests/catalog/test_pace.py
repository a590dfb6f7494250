"""Slopes of datasheets: what devices are slower by as a whole, whoever is far off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from catalog.kin_data import KinData, Prior
from catalog.likeness import without_chip
from catalog.mixed import SLOWER, fit_kin, slopes_of
from hetsim.cost.kernels.networks import log_total
from hetsim.hardware.datasheet import COVARIATES
from kin_builders import NETWORKS, kin

IN_ORDER, ARM = COVARIATES.index("in_order"), COVARIATES.index("arm")


@pytest.fixture(scope="module")
def made(prior: Prior) -> KinData:
    return kin(np.random.default_rng(5), prior)[0]


def exact(made: KinData, prior: Prior, late: np.ndarray, covariates: np.ndarray) -> KinData:
    """The kin with times that follow the prior, each device late by so much."""
    theta = prior.mean + covariates @ prior.slopes
    logs = log_total(theta, made.kernels, made.owner.astype(np.int64))
    return replace(made, covariates=covariates, log_seconds=logs + late[made.owner])


def pace(slopes: np.ndarray, prior: Prior) -> np.ndarray:
    return ((slopes - prior.slopes) @ SLOWER) / (SLOWER @ SLOWER)


def test_slower_is_what_makes_all_seconds_longer(made: KinData, prior: Prior) -> None:
    theta = np.tile(prior.mean, (len(made.series), 1))
    assert made.logs(theta + 0.3 * SLOWER) == pytest.approx(made.logs(theta) + 0.3)


def test_what_a_datasheet_says_beyond_physics_is_found_and_one_far_off_counts_less(
    made: KinData, prior: Prior
) -> None:
    covariates = np.zeros_like(made.covariates)
    covariates[:, IN_ORDER] = [0, 0, 0, 1, 1, 1]
    late = 0.8 * covariates[:, IN_ORDER]
    slopes, trust = slopes_of(exact(made, prior, late, covariates), prior, prior.mean)
    found = pace(slopes, prior)
    # Ridge: drawn to none, the more the fewer devices there are.
    assert 0.4 < found[IN_ORDER] < 0.8
    assert np.delete(found, IN_ORDER) == pytest.approx(0, abs=1e-9)
    assert trust == pytest.approx(1)
    odd = late + np.array([5.0, 0, 0, 0, 0, 0])
    slopes, trust = slopes_of(exact(made, prior, odd, covariates), prior, prior.mean)
    assert trust[0] < 0.5
    assert trust[1:].min() > trust[0]
    assert pace(slopes, prior)[IN_ORDER] > 0


@pytest.mark.sweep
def test_chips_of_one_silicon_are_left_out_together(made: KinData, prior: Prior) -> None:
    data = replace(made, silicon=("a", "a", "b", "c", "d", "e"))
    found = without_chip(data, prior, fit_kin(data, prior, rounds=1))
    assert len(found) == len(data.points)
    # Were the first alone left out, the second one's times would tell of it.
    far = np.where(data.owner <= 1, 2.0, 0.0)
    late = replace(data, log_seconds=data.log_seconds + far)
    misses = {
        one.series: one.miss for one in without_chip(late, prior, fit_kin(late, prior, rounds=1))
    }
    assert all(misses[series] < -1 for series in data.series[:2]), NETWORKS
