"""Corrections of kernels timed one by one, and the ops that join them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from hetsim.core.units import significant
from hetsim.cost.calibration.fit import Fit, NetworkPoint, matched_nodes, undisturbed
from hetsim.cost.calibration.measurements import NetworkRun
from hetsim.cost.kernels.formula import COLUMN, FORMS, bell, coordinates, streamed_share
from hetsim.cost.kernels.fusion import joints
from hetsim.cost.kernels.layouts import COPIES, copies_of
from hetsim.cost.kernels.networks import kernels_seconds
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work
from hetsim.hardware.kernel_figures import COORDINATES, INDEX, Coordinate, Correction

_FEWEST = 12
_LEARNT = 300
_CENTRES = 120
_NOISE, _TOGETHER = 0.03, 0.2
_CLOCK_S = 0.5e-6
_ITERATIONS = 50
_SLOPE = 0.03
"""Prior deviation of the log factor's slope along a coordinate, per deviation of that."""

_HEIGHT, _HEIGHT_OFF = 0.25, 0.4
"""Prior height of bells, as a log factor, and the deviation of its logarithm."""

_FAR = 1.0
_REWEIGHTED = 4


def corrections(networks: Sequence[NetworkPoint], fitted: Fit) -> tuple[Correction, ...]:
    """Return a correction for each form with enough individually timed kernels."""
    rows: list[NDArray[np.float64]] = []
    logs: list[float] = []
    off: list[float] = []
    weights: list[float] = []
    values = np.exp(fitted.log_values)
    for network in networks:
        streamed = streamed_share(values[INDEX["weights_on_chip_mib"]], network.weight_bytes)
        for point, alone_s in undisturbed(network, fitted.overheads):
            formula_s = float(kernels_seconds(values, point.rows, streamed).sum())
            # Kernels timed together share their residual, with less weight.
            noise = _NOISE if len(point.rows) == 1 else _TOGETHER
            for row in point.rows:
                rows.append(row)
                weights.append(network.weight_bytes)
                logs.append(float(np.log(alone_s / formula_s)))
                off.append(float(np.hypot(noise, _CLOCK_S / alone_s)))
    if not rows:
        return ()
    table, target, trusted = np.array(rows), np.array(logs), np.array(off)
    places = coordinates(table, np.array(weights))
    forms = table[:, COLUMN["form"]].astype(np.int64)
    found = []
    for index, form in enumerate(FORMS):
        chosen = forms == index
        if int(chosen.sum()) >= _FEWEST:
            found.append(_learnt(form, places[chosen], target[chosen], trusted[chosen]))
    return tuple(found)


def _learnt(
    form: str, places: NDArray[np.float64], target: NDArray[np.float64], noise: NDArray[np.float64]
) -> Correction:
    varying = np.flatnonzero(places.std(axis=0) > 1e-6)
    used = places[:, varying]
    some = _spread_out(len(target), _LEARNT)
    offset = float(np.average(target, weights=1.0 / (noise**2 + 0.04)))
    if not len(varying):
        return Correction(form, significant(offset), (), (), ())
    slopes_off = _slopes(varying)
    scales, height, extra = _likely(used[some], target[some] - offset, noise[some], slopes_off)
    spans = used.std(axis=0)
    placed = used / scales
    chosen = _telling(placed, _CENTRES)
    bells = bell(placed, placed[chosen])
    middle = used.mean(axis=0)
    terms = np.concatenate([bells, (used - middle) / spans], axis=1)
    ridge = np.zeros((terms.shape[1], terms.shape[1]))
    ridge[: len(chosen), : len(chosen)] = bell(placed[chosen], placed[chosen]) / height**2
    ridge[len(chosen) :, len(chosen) :] = np.diag(1.0 / slopes_off**2)
    ridge += 1e-6 * np.eye(terms.shape[1])
    off2 = noise**2 + extra**2
    trust = 1.0 / off2
    solved: NDArray[np.float64] = np.zeros(terms.shape[1])
    for _ in range(_REWEIGHTED):
        gram = terms.T @ (terms * trust[:, None]) + ridge
        solved = np.asarray(np.linalg.solve(gram, terms.T @ (trust * (target - offset))))
        # Distant kernels are often affected by other runtime behaviour, so they count less.
        left = target - offset - terms @ solved
        trust = 1.0 / (off2 + (left / _FAR) ** 2)
    weights, slopes = solved[: len(chosen)], solved[len(chosen) :] / spans
    return Correction(
        form=form,
        offset=significant(offset - float(slopes @ middle)),
        coordinates=tuple(
            Coordinate(
                COORDINATES[index],
                significant(float(used[:, j].min())),
                significant(float(used[:, j].max())),
                significant(float(scales[j])),
                significant(float(slopes[j])),
            )
            for j, index in enumerate(varying)
        ),
        centres=tuple(tuple(significant(float(x)) for x in used[index]) for index in chosen),
        weights=tuple(significant(float(weight)) for weight in weights),
    )


def _slopes(varying: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the prior deviations of slopes along coordinates, per deviation of each."""
    told = np.array([COORDINATES[index] == "exponential" for index in varying])
    return np.where(told, 1.0, _SLOPE)


def _likely(
    places: NDArray[np.float64],
    target: NDArray[np.float64],
    noise: NDArray[np.float64],
    slopes_off: NDArray[np.float64],
) -> tuple[NDArray[np.float64], float, float]:
    """Return the maximum-likelihood scales, height and extra noise, under a prior on scales."""
    spans = places.std(axis=0) + 1e-3
    usual = np.log(4.0 * spans)
    count = places.shape[1]
    line = (places - places.mean(axis=0)) / spans
    line = line * slopes_off
    sloping = line @ line.T

    def cost(p: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scales, height, extra = np.exp(p[:count]), np.exp(2 * p[count]), np.exp(2 * p[count + 1])
        placed = places / scales
        alike = height * bell(placed, placed)
        whole = alike + sloping + np.diag(noise**2 + extra)
        factor = cho_factor(whole, lower=True)
        inverse = cho_solve(factor, np.eye(len(target)))
        alpha = inverse @ target
        value = 0.5 * float(target @ alpha) + float(np.log(np.diag(factor[0])).sum())
        pull = np.outer(alpha, alpha) - inverse
        pulled = pull * alike
        slopes = np.empty_like(p)
        for j in range(count):
            apart = (placed[:, j][:, None] - placed[:, j][None, :]) ** 2
            slopes[j] = -0.5 * float((pulled * apart).sum())
        slopes[count] = -float(pulled.sum())
        slopes[count + 1] = -float(np.trace(pull)) * extra
        value += 0.5 * float(((p[:count] - usual) ** 2).sum())
        slopes[:count] += p[:count] - usual
        low = (p[count] - np.log(_HEIGHT)) / _HEIGHT_OFF
        value += 0.5 * float(low * low)
        slopes[count] += low / _HEIGHT_OFF
        return value, slopes

    start = np.concatenate([np.log(3.0 * spans), [np.log(0.3), np.log(0.06)]])
    bounds = [(low, low + 6.0) for low in np.log(0.2 * spans)]
    bounds += [(np.log(0.03), np.log(2.0)), (np.log(0.01), np.log(1.0))]
    solved = minimize(
        cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _ITERATIONS}
    )
    scales = np.exp(solved.x[:count])
    return scales, float(np.exp(solved.x[count])), float(np.exp(solved.x[count + 1]))


def _telling(placed: NDArray[np.float64], most: int) -> list[int]:
    """Return the most informative rows by a pivoted Cholesky factor, until little remains."""
    left = np.ones(len(placed))
    columns: list[NDArray[np.float64]] = []
    chosen: list[int] = []
    while len(chosen) < min(most, len(placed)):
        pivot = int(np.argmax(left))
        if left[pivot] < 1e-3:
            break
        column = bell(placed, placed[pivot : pivot + 1])[:, 0]
        for earlier in columns:
            column = column - earlier * earlier[pivot]
        column = column / np.sqrt(left[pivot])
        columns.append(column)
        left = np.maximum(left - column**2, 0.0)
        chosen.append(pivot)
    return chosen


def _spread_out(count: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` indices below `count`, sampled with a fixed seed."""
    order = np.random.default_rng(count).permutation(count)
    return np.sort(order[:most])


def learnt_joins(
    measured: Iterable[tuple[Model, NetworkRun]],
) -> Mapping[str, frozenset[str]] | None:
    """Return by form the ops that join kernels in most possible places."""
    tries: dict[tuple[str, str], list[bool]] = {}
    told = False
    for model, taken in measured:
        if not taken.kernels:
            continue
        told = True
        _, nodes = matched_nodes(model, taken)
        kernels: dict[int, set[int]] = {}
        for index, each in enumerate(nodes):
            for v in each:
                kernels.setdefault(v, set()).add(index)
        for joint in joints(model.graph, graph_work(model.graph)):
            root = kernels.get(joint.root, set())
            within = all(kernels.get(v, root) & root for v in joint.nodes)
            tries.setdefault((joint.form, joint.word), []).append(within)
    if not told:
        return None
    found: dict[str, set[str]] = {}
    for (form, word), often in sorted(tries.items()):
        if 2 * sum(often) > len(often):
            found.setdefault(form, set()).add(word)
    return {form: frozenset(words) for form, words in found.items()}


_BLOCKS = (4, 8, 16, 32)
"""Floats in the vectors of a CPU, of which a block has one or two."""


def learnt_block(measured: Iterable[tuple[Model, NetworkRun]]) -> int | None:
    """Return the channel block size of the runtime's images; see ``layouts``."""
    found = dict.fromkeys(_BLOCKS, 0)
    for model, taken in measured:
        made = Counter(
            kernel.elements for kernel in taken.kernels if kernel.op in COPIES and kernel.elements
        )
        if made:
            for block in _BLOCKS:
                told = Counter(copy.elements for copy in copies_of(model.graph, block))
                found[block] += (told & made).total()
    most = max(found.values())
    return None if most == 0 else max(block for block in _BLOCKS if found[block] == most)
