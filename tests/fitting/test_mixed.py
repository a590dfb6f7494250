"""The mixed fit: its steps against a dense solution, and figures that it was given back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetsim.cost.kernels.features import COLUMN, FEATURES, FORMS
from hetsim.cost.kernels.form import Networks, log_total
from hetsim.fitting import mixed
from hetsim.fitting.common_mean import FAR, common_mean
from hetsim.fitting.leaving_out import without_chip, without_network
from hetsim.fitting.mixed import KinFit, fit_kin
from hetsim.fitting.observing import KinData
from hetsim.fitting.points import Point, Series
from hetsim.fitting.priors import COVARIATES, Prior, prior_of
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS

KIN = "rknn-int8"
NETWORKS, DEVICES, NOISE = 12, 6, 0.02


def network(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Twenty kernels of all kinds, as rows, with counts, weights and ends in bytes."""
    rows = np.zeros((20, len(FEATURES)))
    for at, row in enumerate(rows):
        form = FORMS[at % 12]
        size, inputs, outputs = (
            4 ** rng.integers(3, 6),
            2 ** rng.integers(4, 9),
            2 ** rng.integers(4, 9),
        )
        told = {
            "form": FORMS.index(form), "rows": size, "columns": outputs, "depth": inputs,
            "groups": 1, "window_h": 1, "window_w": 1, "stride": 1, "dilation": 1, "steps": 1,
            "flops": 2.0 * size * inputs * outputs if at % 12 < 8 else 0.0,
            "read_bytes": size * inputs, "write_bytes": size * outputs,
            "weight_bytes": inputs * outputs, "largest_read_bytes": size * inputs,
        }  # fmt: skip
        for name, value in told.items():
            row[COLUMN[name]] = value
    weights = float(rows[:, COLUMN["weight_bytes"]].sum())
    return rows, np.ones(20), weights, 150528.0


def kin(rng: np.random.Generator, prior: Prior) -> tuple[KinData, np.ndarray]:
    """Devices that follow the model, and the log values they were given."""
    nets = [network(rng) for _ in range(NETWORKS)]
    covariates = rng.normal(0, 0.5, (DEVICES, len(COVARIATES)))
    covariates -= covariates.mean(axis=0)
    theta = (
        prior.mean
        + rng.normal(0, 0.3, prior.mean.size) * (prior.mean_sd > 0.01)
        + covariates @ prior.slopes
        + rng.normal(0, 0.2, (DEVICES, prior.mean.size)) * (prior.own_sd > 0.01)
    )
    kernels = Networks.of(nets * DEVICES)
    owner = np.repeat(np.arange(DEVICES), NETWORKS)
    logs = log_total(theta, kernels, owner) + rng.normal(0, NOISE, owner.size)
    keys = tuple((f"{index:02}.onnx", 1) for index in range(NETWORKS))
    points = tuple(
        Point(keys[index % NETWORKS][0], 1, float(np.exp(log)), 1, 0.0, 0.0, None)
        for index, log in enumerate(logs)
    )
    data = KinData(
        name=KIN,
        series=tuple(Series(KIN, f"chip {d}", "npu", "int8") for d in range(DEVICES)),
        points=points,
        first=np.arange(0, owner.size + 1, NETWORKS),
        owner=owner,
        kernels=kernels,
        log_seconds=logs,
        weights=np.ones(owner.size),
        keys=keys,
        key=np.tile(np.arange(NETWORKS), DEVICES),
        network=np.arange(NETWORKS),
        covariates=covariates,
        middle=np.zeros(len(COVARIATES)),
    )
    return data, theta


@pytest.fixture(scope="module")
def prior() -> Prior:
    return prior_of(KIN)


@pytest.fixture(scope="module")
def made(prior):
    data, _ = kin(np.random.default_rng(3), prior)
    return data


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


def test_networks_and_chips_that_were_left_out_are_predicted(made, prior, fit):
    networks = without_network(made, prior, fit)
    assert len(networks) == len(made.points)
    assert np.median([abs(one.miss) for one in networks]) < 0.1
    chips = without_chip(made, prior, fit)
    assert len(chips) == len(made.points)
    assert np.median([abs(one.miss) for one in chips]) < 0.5


def test_what_is_left_out_is_not_looked_at(made, prior, fit):
    """A network measured a thousand times too slow changes nothing in its own prediction."""
    gone = made.network[made.key] == 5
    wrong = replace(made, log_seconds=made.log_seconds + np.where(gone, np.log(1000), 0))
    told = {(one.series, one.point): one.miss for one in without_network(made, prior, fit)}
    for one in without_network(wrong, prior, fit):
        if one.point.network == made.keys[5][0]:
            assert one.miss + np.log(1000) == pytest.approx(told[one.series, one.point], abs=1e-9)


def test_the_same_fit_twice(made, prior, fit):
    again = fit_kin(made, prior)
    assert again.mean.tobytes() == fit.mean.tobytes()
    assert again.own.tobytes() == fit.own.tobytes()


def test_priors_are_of_all_parameters_for_any_kin():
    for name in ("tensorrt-int8", "aihub-npu-float16", "ncnn-cpu-float", "of no kind"):
        found = prior_of(name)
        assert found.mean.shape == (len(PARAMETERS),)
        assert np.isfinite(found.mean).all()
        assert (found.mean_sd > 0).all()
    assert prior_of("edgetpu-int8").mean[INDEX["weights_on_chip_mib"]] == pytest.approx(
        np.log(7.6e6)
    )
