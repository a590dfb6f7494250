"""The mixed fit: its steps against a dense solution, and figures that it was given back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from catalog import mixed
from catalog.kin_data import prior_of
from catalog.likeness import without_chip, without_family
from catalog.mixed import FAR, KinFit, common_mean, fit_kin
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS
from kin_builders import DEVICES, NETWORKS, NOISE


@pytest.fixture(scope="module")
def fit(made, prior) -> KinFit:
    return fit_kin(made, prior)


def test_a_step_is_that_of_the_dense_system(made, prior):
    """Devices are eliminated from the system one by one; here all unknowns are in one matrix."""
    rng = np.random.default_rng(0)
    size, keys = prior.mean.size, len(made.keys)
    state = replace(
        mixed._begin(made, prior),
        own=rng.normal(0, 0.05, (DEVICES, size)) * (prior.own_sd > 0.01),
        effects=rng.normal(0, 0.1, keys),
    )
    precision = np.linalg.inv(state.sigma)
    at = mixed._at(made, prior, state, precision)
    solved = mixed._solve(made, prior, state, at, precision, damping=0.0)

    left = at.residuals - state.effects[made.key]
    weight = np.minimum(1, mixed.HUBER * state.eps / np.abs(left)) / state.eps**2
    design = np.zeros((left.size, size + keys + DEVICES * size))
    design[:, :size] = at.slopes
    design[np.arange(left.size), size + made.key] = 1
    for index, device in enumerate(made.owner):
        start = size + keys + device * size
        design[index, start : start + size] = at.slopes[index]
    penalty = np.zeros((design.shape[1],) * 2)
    penalty[:size, :size] = np.diag(prior.mean_sd**-2.0)
    penalty[size : size + keys, size : size + keys] = mixed._effects_precision(made, state)
    for device in range(DEVICES):
        start = size + keys + device * size
        penalty[start : start + size, start : start + size] = precision
    now = np.concatenate([state.mean - prior.mean, state.effects, state.own.ravel()])
    matrix = design.T @ (design * weight[:, None]) + penalty
    # Unknowns differ by orders: scaled to a unit diagonal, the dense system is well posed.
    scale = np.diag(matrix) ** -0.5
    right = design.T @ (weight * left) - penalty @ now
    step = scale * np.linalg.solve(matrix * scale[:, None] * scale, scale * right)
    found = np.concatenate([solved.mean, solved.effects, solved.own.ravel()])
    assert found == pytest.approx(step, rel=1e-5, abs=1e-7)
    hat = (design * scale) @ np.linalg.solve(
        matrix * scale[:, None] * scale, (design * scale).T * weight
    )
    assert solved.spent == pytest.approx(np.trace(hat), rel=1e-5)
    assert solved.spent < left.size


def test_the_mean_is_where_averages_of_networks_and_the_prior_balance(made, prior):
    rng = np.random.default_rng(1)
    apart = rng.normal(0, 0.1, (DEVICES, prior.mean.size)) * (prior.own_sd > 0.01)
    tau, eps = 0.1, 0.05
    odd = replace(
        made,
        log_seconds=made.log_seconds + np.where(made.key == 3, 2.0, 0.0),
        weights=np.where(made.key == 7, 0.0, 1.0),
    )
    mean = prior.mean
    for _ in range(30):
        mean = common_mean(odd, prior, mean, apart, tau, eps)

    def objective(at):
        left = (odd.log_seconds - odd.logs(at + apart)).reshape(DEVICES, NETWORKS).mean(axis=0)
        far = np.abs(np.delete(left, 7)) / np.hypot(tau, eps / np.sqrt(DEVICES))
        huber = np.where(far < FAR, far**2 / 2, FAR * (far - FAR / 2))
        return huber.sum() + (((at - prior.mean) / prior.mean_sd) ** 2).sum() / 2

    least = objective(mean)
    assert least < objective(prior.mean)
    for parameter in np.flatnonzero(prior.mean_sd > 0.01):
        for step in (-0.02, 0.02):
            moved = mean.copy()
            moved[parameter] += step
            assert objective(moved) >= least - 1e-6, PARAMETERS[parameter].name


def test_times_that_follow_the_model_are_fitted_to_their_noise(made, fit):
    misses = made.log_seconds - made.logs(fit.theta(made.covariates))
    assert np.median(np.abs(misses - fit.effects[made.key])) < NOISE
    assert fit.eps < 3 * NOISE


def test_what_is_expected_of_a_new_device_is_what_devices_are_on_average(made, prior, fit):
    """However many turns are taken: the mean does not drift off with devices taking it back."""
    for found in (fit, fit_kin(made, prior, fit, rounds=6)):
        assert found.own.mean(axis=0) == pytest.approx(np.zeros(prior.mean.size), abs=1e-9)
        expected = np.broadcast_to(found.expected(made.covariates), found.own.shape)
        misses = made.logs(expected) - made.log_seconds
        assert abs(np.median(misses)) < 0.15


@pytest.mark.sweep
def test_networks_and_chips_that_were_left_out_are_predicted(made, prior, fit):
    networks = without_family(made, prior, fit)
    assert len(networks) == len(made.points)
    assert np.median([abs(one.miss) for one in networks]) < 0.1
    chips = without_chip(made, prior, fit)
    assert len(chips) == len(made.points)
    assert np.median([abs(one.miss) for one in chips]) < 0.5


def test_priors_are_of_all_parameters_for_any_kin():
    for name in ("tensorrt-int8", "aihub-npu-float16", "ncnn-cpu-float", "of no kind"):
        found = prior_of(name)
        assert found.mean.shape == (len(PARAMETERS),)
        assert np.isfinite(found.mean).all()
        assert (found.mean_sd > 0).all()
    assert prior_of("edgetpu-int8").mean[INDEX["weights_on_chip_mib"]] == pytest.approx(
        np.log(7.6e6)
    )
