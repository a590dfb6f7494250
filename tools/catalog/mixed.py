"""Mixed model of a kin: its mean, what datasheets add, each device's own, and the fit of all."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from catalog.kin_data import KinData, Prior
from hetsim.hardware.datasheet import COVARIATES, FAMILIES
from hetsim.hardware.kernel_figures import PARAMETERS
from hetsim.hardware.kin import BANDWIDTH, BEYOND, OF_RATE, RATE, Limits

FAR = 0.8
"""Standard deviations from which a network's pull on the mean no longer grows."""
_STEPS = 3
_LONGEST, _SETTLED = 0.8, 0.02
_DAMPING = 1e-3


def common_mean(
    kin: KinData, prior: Prior, mean: Floats, apart: Floats, tau: float, eps: float
) -> Floats:
    """Return the mean [parameters] of a kin whose devices lie `apart` from it."""
    seen = kin.weights > 0
    keys = len(kin.keys)
    devices = np.bincount(kin.key[seen], minlength=keys).astype(np.float64)
    ran = devices > 0
    batches = np.bincount(kin.network[ran], minlength=int(kin.network.max()) + 1)[kin.network]
    each = np.maximum(devices, 1.0)
    # Batches of one network are no independent networks.
    sd = np.sqrt((tau**2 + eps**2 / each) * np.sqrt(np.maximum(batches, 1)))
    pull = prior.mean_sd**-2.0
    for _ in range(_STEPS):
        logs, slopes = kin.logs_and_slopes(mean + apart)
        left = np.bincount(kin.key[seen], (kin.log_seconds - logs)[seen], keys) / each
        average = np.zeros((keys, mean.size))
        np.add.at(average, kin.key[seen], slopes[seen])
        average /= each[:, None]
        weight = np.minimum(1.0, FAR / np.maximum(np.abs(left / sd), 1e-9)) / sd**2
        weight = np.where(ran, weight, 0.0)
        system = average.T @ (average * weight[:, None]) + np.diag(pull)
        right = average.T @ (weight * left) - pull * (mean - prior.mean)
        step = np.linalg.solve(system + _DAMPING * np.diag(np.diag(system)), right)
        longest = float(np.abs(step).max())
        mean = mean + step * min(1.0, _LONGEST / max(longest, 1e-12))
        if longest < _SETTLED:
            break
    return mean


_NUMBERS = len(COVARIATES) - len(FAMILIES)
_SLOPE_SD = 0.25

_TIMES = {
    "rate_tflops": -1.0, "bandwidth_gbytes_s": -1.0, "weights_gbytes_s": -1.0,
    "io_gbytes_s": -1.0, "launch_us": 1.0, "dispatch_us": 1.0,
}  # fmt: skip
SLOWER = np.array([_TIMES.get(one.name, 0.0) for one in PARAMETERS])
"""What logs of parameters gain where all seconds are e times as long."""

_ROUNDS = 12
USUAL, USUAL_CHIPS = 0.35, 4.0
"""Usual deviation of chips from what their datasheets say, and how many chips it counts for."""


def slopes_of(kin: KinData, prior: Prior, mean: Floats) -> tuple[Floats, Floats]:
    """Return slopes [covariates, parameters] of a kin, and how much its series [series] count."""
    left = kin.log_seconds - kin.logs(mean + kin.covariates @ prior.slopes)
    seen = kin.weights > 0
    ran = np.bincount(kin.owner, seen, len(kin.series)) > 0
    late = np.zeros(len(kin.series))
    for index, part in enumerate(kin.slices()):
        if ran[index]:
            late[index] = np.median(left[part][seen[part]])
    settings = Counter(one for one, is_so in zip(kin.silicon, ran, strict=True) if is_so)
    once = np.array([1 / max(settings[one], 1) for one in kin.silicon]) * ran
    pace, trust = _regressed(kin.covariates, late, once, prior.pace_sd)
    return prior.slopes + np.outer(pace, SLOWER), trust


def slopes_of_parameters(covariates: Floats, own: Floats, trust: Floats, prior: Prior) -> Floats:
    """Return slopes [covariates, parameters] of what devices differ by [series, parameters]."""
    found = np.zeros((covariates.shape[1], own.shape[1]))
    if not trust.any():
        return found
    numbers = covariates[:, :_NUMBERS]
    square = numbers.T @ (numbers * trust[:, None])
    apart = own - np.average(own, axis=0, weights=trust)
    for parameter, sd in enumerate(prior.own_sd):
        pull = (sd / min(_SLOPE_SD, 5 * sd)) ** 2 * np.eye(_NUMBERS)
        right = numbers.T @ (trust * apart[:, parameter])
        found[:_NUMBERS, parameter] = np.linalg.solve(square + pull, right)
    return found


def _regressed(covariates: Floats, late: Floats, once: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Return slopes [covariates] of `late` [series], and the weights that they were found by."""
    trust = once.copy()
    if not once.any():
        return np.zeros(covariates.shape[1]), trust
    design = np.column_stack([np.ones(len(late)), covariates])
    scale = 2 * USUAL
    found = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        square = design.T @ (design * trust[:, None])
        inverse = np.linalg.inv(square + np.diag([1e-9, *(scale / sd) ** 2]))
        found = inverse @ (design.T @ (trust * late))
        far = np.abs(late - design @ found)
        clipped = np.minimum(far, HUBER * scale)
        # What the slopes take of the chips is no freedom: four chips and two slopes fit anything.
        freedom = max(float(once.sum() - np.trace(inverse @ square)), 0.0)
        usual = USUAL_CHIPS * USUAL**2
        scale = float(np.sqrt((once @ clipped**2 + usual) / (freedom + USUAL_CHIPS)))
        trust = once * np.minimum(1.0, HUBER * scale / np.maximum(far, 1e-9))
    return found[1:], trust


Floats = NDArray[np.float64]

HUBER = 1.5
T_FREEDOM = 4.0
ALIKE = 0.7
"""Correlation of the misses of one network at two batch sizes."""
PRIOR_DEVICES = 8.0
"""How many devices the prior of Sigma stands for."""
TAU_USUAL, TAU_NETWORKS = 0.2, 6.0
"""Scale of network effects over all kins, and how many networks it counts for: few networks do
not hold it."""
TAU_BOUNDS = (0.04, 0.5)
EPS_LEAST = 0.05
_HELD = 1e-4
"""Deviation of a mean that stays."""
_AT_LIMIT, _NO_MOVE = 1e-9, 1e12
"""How near to a limit is at it; the precision of what does not move."""
FREEDOM_LEAST = 0.1
"""Share of the points that is left to noise at the least, however many unknowns there are."""


@dataclass(frozen=True, slots=True)
class KinFit:
    """A fitted kin; arrays of logs.

    - `mean` [parameters]
    - `slopes` [covariates, parameters]: B: what a covariate adds.
    - `own` [series, parameters]: delta.
    - `sigma` [parameters, parameters]
    - `effects` [keys]: eta.
    - `trust` [series]: how much a series counts for where the mean of the devices lies.
    """

    mean: Floats
    slopes: Floats
    own: Floats
    sigma: Floats
    effects: Floats
    tau: float
    eps: float
    trust: Floats

    def theta(self, covariates: Floats) -> Floats:
        """Log values [series, parameters] of the series that were fitted."""
        return self.expected(covariates) + self.own

    def expected(self, covariates: Floats) -> Floats:
        """Log values that the datasheet alone gives, for covariates [..., covariates]."""
        found: Floats = self.mean + covariates @ self.slopes
        return found


@dataclass(frozen=True, slots=True)
class _At:
    """The model about a state."""

    residuals: Floats  # [points]
    slopes: Floats  # [points, parameters]
    objective: float


@dataclass(frozen=True, slots=True)
class _Solved:
    """A step, and the posterior covariances of the linear model."""

    mean: Floats
    effects: Floats
    own: Floats
    own_covariance: Floats  # [series, parameters, parameters]
    effects_variance: Floats  # [keys]
    spent: float  # points' worth of freedom that all unknowns together take


def fit_kin(kin: KinData, prior: Prior, start: KinFit | None = None, rounds: int = 8) -> KinFit:
    """Fit a kin."""
    state = _begin(kin, prior) if start is None else start
    for _ in range(rounds):
        state, solved = _turn(kin, prior, state, 3)
        state = _variances(kin, prior, state, solved)
    return _turn(kin, prior, state, 3)[0]


def refit(kin: KinData, prior: Prior, state: KinFit, steps: int = 2) -> KinFit:
    """Fit mean, devices and effects anew with the variances and slopes of `state`."""
    for _ in range(steps):
        state, _ = _turn(kin, prior, state, 2)
    return state


def _turn(kin: KinData, prior: Prior, state: KinFit, steps: int) -> tuple[KinFit, _Solved]:
    """Take the mean of networks, then steps of devices and effects about it."""
    apart = state.theta(kin.covariates) - state.mean
    mean = common_mean(kin, prior, state.mean, apart, state.tau, state.eps)
    held = replace(prior, mean=mean, mean_sd=np.full_like(mean, _HELD))
    state, solved = _steps(kin, held, _within(kin, replace(state, mean=mean)), steps)
    if not state.trust.any():
        return state, solved
    middle = np.average(state.own, axis=0, weights=state.trust)
    return replace(state, mean=state.mean + middle, own=state.own - middle), solved


def _within(kin: KinData, state: KinFit) -> KinFit:
    """Return the state with no device beyond what its chip can do."""
    theta = state.theta(kin.covariates)
    return replace(state, own=state.own + kin.limits.within(theta) - theta)


def _begin(kin: KinData, prior: Prior) -> KinFit:
    """Fit each device alone about the prior's mean; the mean of them is where the kin begins."""
    state = KinFit(
        mean=prior.mean.copy(),
        slopes=prior.slopes.copy(),
        own=np.zeros((len(kin.series), prior.mean.size)),
        sigma=np.diag(prior.first_sd**2),
        effects=np.zeros(len(kin.keys)),
        tau=0.2,
        eps=0.15,
        trust=np.ones(len(kin.series)),
    )
    for _ in range(2):
        state, _ = _steps(kin, prior, state, 12, alone=True)
        middle = state.own.mean(axis=0)
        state = replace(state, mean=state.mean + middle, own=state.own - middle)
    return state


def _steps(
    kin: KinData, prior: Prior, state: KinFit, steps: int, alone: bool = False
) -> tuple[KinFit, _Solved]:
    """Take damped Gauss-Newton steps; one that makes the objective worse is cut, then left."""
    precision = _inverse(state.sigma)
    at = _at(kin, prior, state, precision)
    damping = 1e-3
    for _ in range(steps):
        solved = _solve(kin, prior, state, at, precision, damping, alone)
        share = 1.0
        for _ in range(4):
            tried = _within(kin, _moved(state, solved, share))
            logs = kin.logs(tried.theta(kin.covariates))
            if _objective(kin, prior, tried, kin.log_seconds - logs, precision) <= at.objective:
                state, damping = tried, max(damping / 5, 1e-6)
                at = _at(kin, prior, state, precision)
                break
            share, damping = share / 3, damping * 3
    return state, _solve(kin, prior, state, at, precision, 0.0)


def _moved(state: KinFit, solved: _Solved, share: float) -> KinFit:
    largest = max(float(np.abs(solved.mean).max()), float(np.abs(solved.own).max(initial=0.0)))
    scale = share * min(1.0, 1.2 / max(largest, 1e-12))
    return replace(
        state,
        mean=state.mean + scale * solved.mean,
        own=state.own + scale * solved.own,
        effects=state.effects + scale * solved.effects,
    )


def _t_weights(kin: KinData, state: KinFit) -> Floats:
    """Weights [keys] by which a network far off counts less for the scale of effects."""
    count = int(kin.network.max()) + 1
    of_each = np.maximum(np.bincount(kin.network, minlength=count), 1)
    square = np.bincount(kin.network, state.effects**2, count) / of_each
    weights: Floats = ((T_FREEDOM + 1) / (T_FREEDOM + square / state.tau**2))[kin.network]
    return weights


def _effects_precision(kin: KinData, state: KinFit) -> Floats:
    """Inverse covariance of eta: t by network, batches of a network alike."""
    same = kin.network[:, None] == kin.network[None, :]
    covariance = np.where(same, ALIKE, 0.0) + (1 - ALIKE) * np.eye(len(kin.keys))
    scale = state.tau / np.sqrt(_t_weights(kin, state))
    return _inverse(covariance * scale[:, None] * scale[None, :])


def _at(kin: KinData, prior: Prior, state: KinFit, precision: Floats) -> _At:
    logs, slopes = kin.logs_and_slopes(state.theta(kin.covariates))
    residuals = kin.log_seconds - logs
    return _At(residuals, slopes, _objective(kin, prior, state, residuals, precision))


def _objective(
    kin: KinData, prior: Prior, state: KinFit, residuals: Floats, precision: Floats
) -> float:
    far = np.abs(residuals - state.effects[kin.key]) / state.eps
    cost = np.where(far < HUBER, far**2 / 2, HUBER * (far - HUBER / 2))
    off = (state.mean - prior.mean) / prior.mean_sd
    effects = state.effects @ _effects_precision(kin, state) @ state.effects
    own = np.einsum("sp,pq,sq->", state.own, precision, state.own)
    return float(kin.weights @ cost + (own + off @ off + effects) / 2)


def _along(limits: Limits, pushed: NDArray[np.bool_]) -> Floats:
    """Return the joint directions of parameters [devices, parameters, parameters] at limits.

    A relative factor that is `pushed` [devices, parameters] against a product's limit decreases
    as the other factor increases.
    """
    found = np.tile(np.eye(pushed.shape[1]), (len(pushed), 1, 1))
    free = np.isnan(limits.held)
    for whole, parts in ((RATE, OF_RATE), (BANDWIDTH, [BEYOND])):
        for part in parts:
            tied = pushed[:, part] & ~pushed[:, whole] & free[:, part]
            found[tied, part, whole] = -1.0
    return found


def _solve(
    kin: KinData,
    prior: Prior,
    state: KinFit,
    at: _At,
    precision: Floats,
    damping: float,
    alone: bool = False,
) -> _Solved:
    """Solve the linear model for changes of mean, effects and devices."""
    parameters, keys = prior.mean.size, len(kin.keys)
    size = parameters + keys
    effects = _effects_precision(kin, state)
    system: Floats = np.zeros((size, size))
    system[:parameters, :parameters] = np.diag(prior.mean_sd**-2.0)
    system[parameters:, parameters:] = effects
    right = np.zeros(size)
    right[:parameters] = -(state.mean - prior.mean) / prior.mean_sd**2
    right[parameters:] = -effects @ state.effects
    left = at.residuals - state.effects[kin.key]
    far = np.abs(left) / state.eps
    weight = kin.weights * np.minimum(1.0, HUBER / np.maximum(far, 1e-9)) / state.eps**2
    raw = at.slopes * weight[:, None]
    alone_gradients: Floats = np.add.reduceat(raw * left[:, None], kin.first[:-1], axis=0)
    pushed = _pushed(kin, state, alone_gradients - state.own @ precision)
    # What is at a limit together with another parameter moves against it: along the limit.
    along = _along(kin.limits, pushed)
    slopes = np.einsum("ip,ipq->iq", at.slopes, along[kin.owner])
    weighted = slopes * weight[:, None]
    # Rows of the common unknowns for each series: the mean, and the effects of its keys.
    crosses = np.zeros((len(kin.series), size, parameters))
    np.add.at(crosses, (kin.owner, parameters + kin.key), weighted)
    squares = np.zeros((len(kin.series), parameters, parameters))
    for index, part in enumerate(kin.slices()):
        crosses[index, :parameters] = at.slopes[part].T @ weighted[part]
        squares[index] = slopes[part].T @ weighted[part]
    gradients: Floats = np.add.reduceat(slopes * (weight * left)[:, None], kin.first[:-1], axis=0)
    system[:parameters, :parameters] += at.slopes.T @ raw
    both = np.zeros((keys, parameters))
    np.add.at(both, kin.key, raw)
    system[parameters:, :parameters] += both
    system[:parameters, parameters:] += both.T
    at_key = parameters + np.arange(keys)
    system[at_key, at_key] += np.bincount(kin.key, weight, keys)
    right[:parameters] += alone_gradients.sum(axis=0)
    right[parameters:] += np.bincount(kin.key, weight * left, keys)
    back = np.swapaxes(along, 1, 2)
    gradients -= np.einsum("ipq,iq->ip", back, state.own @ precision)
    inner = squares + back @ precision @ along
    diagonal = np.arange(parameters)
    damped = inner.copy()
    damped[:, diagonal, diagonal] *= 1 + damping
    # What a device is pushed beyond its chip's limits in stays there, and the others take it up.
    series, parameter = np.nonzero(pushed)
    gradients[series, parameter] = 0.0
    crosses[series, :, parameter] = 0.0
    damped[series, :, parameter] = damped[series, parameter, :] = 0.0
    damped[series, parameter, parameter] = _NO_MOVE
    inverses = _inverse(damped)
    spreads = crosses @ inverses  # [series, size, parameters]
    system -= np.tensordot(spreads, crosses, axes=([0, 2], [0, 2]))
    right -= np.einsum("ijp,ip->j", spreads, gradients)
    common = _inverse(system + damping * np.diag(np.diag(system)))
    change = np.zeros(size) if alone else common @ right
    own = np.einsum("ipq,iq->ip", inverses, gradients) - np.einsum("ijp,j->ip", spreads, change)
    own = np.einsum("ipq,iq->ip", along, own)
    covariance = along @ (inverses + np.swapaxes(spreads, 1, 2) @ common @ spreads) @ back
    spent = 0.0
    for index, part in enumerate(kin.slices()):
        # What a point shares with the others, less what its device takes over of that.
        shared = -slopes[part] @ spreads[index].T
        shared[:, :parameters] += at.slopes[part]
        shared[np.arange(len(shared)), parameters + kin.key[part]] += 1.0
        variance = np.einsum("ip,pq,iq->i", slopes[part], inverses[index], slopes[part])
        variance += np.einsum("ip,pq,iq->i", shared, common, shared)
        spent += float(weight[part] @ variance)
    return _Solved(
        change[:parameters],
        change[parameters:],
        own,
        covariance,
        np.diag(common)[parameters:],
        spent,
    )


def _pushed(kin: KinData, state: KinFit, gradients: Floats) -> NDArray[np.bool_]:
    """Whether a device [series, parameters] is at a limit of its chip and would go beyond it."""
    theta = state.theta(kin.covariates)
    least, most = kin.limits.bounds(theta)
    above, below = theta >= most - _AT_LIMIT, theta <= least + _AT_LIMIT
    pushed: NDArray[np.bool_] = (above & (gradients > 0)) | (below & (gradients < 0))
    return pushed


def _variances(kin: KinData, prior: Prior, state: KinFit, solved: _Solved) -> KinFit:
    """Take one step of EM in Sigma, tau, eps and the slopes."""
    state = with_slopes(kin, prior, state)
    own = state.own
    scatter = own.T @ own + solved.own_covariance.sum(axis=0)
    count = len(kin.series)
    sigma = (PRIOR_DEVICES * np.diag(prior.own_sd**2) + scatter) / (PRIOR_DEVICES + count)
    weights = _t_weights(kin, state)
    raw = float(np.sqrt((weights * state.effects**2 + solved.effects_variance).mean()))
    networks = int(kin.network.max()) + 1
    pooled = networks * math.log(raw) + TAU_NETWORKS * math.log(TAU_USUAL)
    tau = math.exp(pooled / (networks + TAU_NETWORKS))
    misses = np.abs(
        kin.log_seconds - kin.logs(state.theta(kin.covariates)) - state.effects[kin.key]
    )
    seen = kin.weights > 0
    points = int(seen.sum())
    freedom = max(points - solved.spent, FREEDOM_LEAST * points)
    clipped = np.minimum(misses[seen], HUBER * state.eps)
    eps = float(np.sqrt(kin.weights[seen] @ clipped**2 / kin.weights[seen].mean() / freedom))
    return replace(
        state,
        sigma=sigma,
        tau=min(max(tau, TAU_BOUNDS[0]), TAU_BOUNDS[1]),
        eps=max(eps, EPS_LEAST),
    )


def _inverse(matrices: Floats) -> Floats:
    return np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def with_slopes(kin: KinData, prior: Prior, state: KinFit) -> KinFit:
    """Return the same devices by slopes of the datasheet that are found anew."""
    slopes, trust = slopes_of(kin, prior, state.mean)
    own = state.own + kin.covariates @ (state.slopes - slopes)
    more = slopes_of_parameters(kin.covariates, own, trust, prior)
    own = own - kin.covariates @ more
    return replace(state, slopes=slopes + more, own=own, trust=trust)
