"""Networks of kin: effects, likeness, and what is predicted of those that were left out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from catalog.kin_data import KinData, Prior, chip_groups, dies
from catalog.mixed import Floats, KinFit, refit, with_slopes
from catalog.points import Point, Series, Tables, kin_bytes, runtime_of
from hetsim.cost.kernels.networks import of_batch
from hetsim.cost.kernels.similarity import (
    LENGTH,
    Likeness,
    NetworkPositions,
    covariance,
    groups_of,
    traits,
    traits_of,
)
from hetsim.hardware.files.kernels_schema import MOST_NETWORKS
from hetsim.hardware.kin import Kin, KnownNetwork, RelatedNetwork

SHARED = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
"""Parts of an effect that networks that are alike may share; the likeliest holds."""
FAR = 3.0
"""Scales of effects, and median misses, beyond which one counts no more."""
SD_LEAST = 0.03
OF_ONE_SOURCE = 0.1
"""How far one chip may move the logarithm of a network's effect."""


def agreed(effects: Sequence[float]) -> float:
    """Return what independent sources say of an effect, as far as they agree.

    >>> agreed([0.7]), agreed([0.02, 0.7]), agreed([0.7, 0.72, 0.7, 0.71, 0.69, 0.7, 0.7, 0.7])
    (0.1, 0.02, 0.69)
    """
    count = len(effects)
    drawn = (OF_ONE_SOURCE * (count - 2 * j) for j in range(count + 1))
    return float(np.median([*effects, *drawn]))


def traits_of_keys(data: KinData, fit: KinFit) -> NetworkPositions:
    """Return where networks and batches lie, [keys], at the kin's mean figures."""
    mean = np.exp(fit.mean).tolist()
    found, alone = [], []
    for key, (_, batch) in enumerate(data.keys):
        part = slice(data.places.first[key], data.places.first[key + 1])
        rows, counts = data.places.rows[part], data.places.counts[part]
        weight_bytes = float(data.places.weight_bytes[key])
        found.append(traits(rows, counts, weight_bytes, mean))
        one = found[-1]
        if batch > 1:
            one = traits(of_batch(rows, 1 / batch), counts, weight_bytes, mean)
        alone.append(one)
    batches = np.array([float(batch) for _, batch in data.keys])
    return NetworkPositions(np.array(found), np.array(alone), np.log(batches))


def kin_of(data: KinData, fit: KinFit, places: NetworkPositions) -> Kin:
    """Return the record of a kin: its mean, and what its chips agree on of each network."""
    left = data.log_seconds - data.logs(fit.theta(data.covariates))
    chips = {series.chip for series in data.series}
    sources = dies(data)[data.owner]
    networks = []
    for key, (file, batch) in enumerate(data.keys):
        ran = (data.key == key) & (data.weights > 0)
        if ran.any():
            of_each = [
                float(np.median(left[ran & (sources == one)])) for one in np.unique(sources[ran])
            ]
            effect, devices = agreed(of_each), len(of_each)
            told = tuple(places.traits[key].tolist())
            alone = tuple(places.alone[key].tolist())
            networks.append(KnownNetwork(called(file), batch, devices, effect, told, alone))
    most = sorted(range(len(networks)), key=lambda at: (-networks[at].devices, at))
    networks = [networks[at] for at in sorted(most[:MOST_NETWORKS])]
    precision = data.series[0].precision
    activation_bytes, weight_bytes = kin_bytes(data.name, precision)
    effects = np.array([one.effect for one in networks])
    sd = max(float(np.sqrt(np.minimum(effects**2, (FAR * fit.tau) ** 2).mean())), SD_LEAST)
    kin = Kin(
        name=data.name,
        runtime=runtime_of(data.name),
        source=f"data/measured: {len(chips)} chips",
        activation_bytes=float(activation_bytes),
        weight_bytes=float(weight_bytes),
        mean=tuple(np.exp(fit.mean).tolist()),
        sd=sd,
        shared=0.0,
        length=LENGTH,
        noise=fit.eps,
        networks=tuple(networks),
    )
    return max((replace(kin, shared=shared) for shared in SHARED), key=_likelihood)


@dataclass(frozen=True, slots=True)
class Said:
    """What a kin's networks say of each of its keys.

    - `effects` [keys]: logs of factors, by the network itself too, where it was run.
    - `by_others` [keys]: the same by networks of other names alone.
    - `surer` [keys]: variance of `effects` relative to the usual one of a network that was not run.
    """

    effects: Floats
    by_others: Floats
    surer: Floats


def said(data: KinData, fit: KinFit) -> Said:
    """Return what those networks say that are left in `data`, of all that it names."""
    places = traits_of_keys(data, fit)
    known = Likeness.of(kin_of(data, fit, places))
    index = {(one.name, one.batch): at for at, one in enumerate(known.kin.networks)}
    effects, by_others, surer = (np.zeros(len(data.keys)) for _ in range(3))
    for key, (file, batch) in enumerate(data.keys):
        likely = known.predict(places.traits[key], batch, places.alone[key])
        effects[key] = by_others[key] = likely.effect
        at = index.get((called(file), batch))
        if at is not None:
            by_others[key] = known.told[at]
        surer[key] = likely.surer
    return Said(effects, by_others, surer)


def called(file: str) -> str:
    """Return what reports call the network of a file."""
    return file.removesuffix(".onnx")


def _likelihood(kin: Kin) -> float:
    """Log of the density of a kin's effects, but for a constant."""
    places = NetworkPositions.of(kin.networks)
    noise = kin.noise**2 / np.array([one.devices for one in kin.networks])
    together = kin.sd**2 * covariance(places, places, kin.shared, kin.length)
    together += np.diag(noise + 1e-9)
    most = FAR * np.sqrt(np.diag(together))
    effects = np.clip([one.effect for one in kin.networks], -most, most)
    root = np.linalg.cholesky(together)
    half = np.linalg.solve(root, effects)
    return float(-half @ half / 2 - np.log(np.diag(root)).sum())


STEPS = 6
"""Of a fit without a part, from where the whole fit stands. Two would leave some of it in."""
CHIPS_AT_ONCE = 12
"""How many parts the chips of a kin are left out in."""
NETWORK_PARTS = 20
"""How many parts the networks of a chip are left out in at most, where kin keep them."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A measured point and what was predicted for it without it.

    - `miss`: log of predicted over measured, by the form and the device's figures alone.
    - `effect`: what networks of the kin add to the log of the prediction: the network itself among
      them where other chips ran it.
    - `by_others`: the same by other networks alone.
    - `surer`: variance of `effect` relative to the usual one of networks that no device of the kin
      ran.
    """

    series: Series
    point: Point
    miss: float
    effect: float = 0.0
    by_others: float = 0.0
    surer: float = 1.0

    @property
    def total(self) -> float:
        """Log of what is predicted in all over measured."""
        return self.miss + self.effect

    @property
    def predicted_s(self) -> float:
        """Seconds that are predicted in all."""
        return self.point.seconds * math.exp(self.total)


def without_family(kin: KinData, prior: Prior, fit: KinFit) -> list[Unseen]:
    """Predict each family of networks for every device from a fit without its rows."""
    of_key = [called(file) for file, _ in kin.keys]
    group = groups_of(of_key)
    groups = np.array([group[name] for name in of_key])
    names = sorted(set(group.values()))
    found = []
    for name in names:
        gone = (groups == name)[kin.key]
        left = _left(kin, gone)
        state = refit(left, prior, fit, STEPS)
        theta = state.theta(kin.covariates)
        found += _predicted(kin, theta, gone, said(left, state) if len(names) > 1 else None)
    return found


def without_chip(kin: KinData, prior: Prior, fit: KinFit) -> list[Unseen]:
    """Predict each chip from its datasheet, by a fit that none of its rows were in."""
    chips = dies(kin)
    names = sorted(set(chips.tolist()))
    found = []
    for part in range(min(len(names), CHIPS_AT_ONCE)):
        gone = np.isin(chips, names[part::CHIPS_AT_ONCE])
        if gone.all():
            continue
        left = _left(kin, gone[kin.owner])
        state = with_slopes(left, prior, fit)
        state = replace(state, own=np.where(gone[:, None], 0.0, state.own))
        state = with_slopes(left, prior, refit(left, prior, state, STEPS))
        theta = kin.limits.within(state.expected(kin.covariates))
        found += _predicted(kin, theta, gone[kin.owner], said(left, state))
    return found


def without_network_on_chip(kin: KinData, prior: Prior, fit: KinFit) -> list[Unseen]:
    """Predict each network on each chip from a fit without the chip's rows of it."""
    chip = chip_groups(kin)[kin.owner]
    network = kin.network[kin.key]
    parts = min(max(int(network.max()) + 1, 2), NETWORK_PARTS)
    found = []
    for part in range(parts):
        gone = (network + chip) % parts == part
        left = _left(kin, gone)
        if (left.weights > 0).any():
            state = refit(left, prior, fit, STEPS)
            found += _predicted(kin, state.theta(kin.covariates), gone, said(left, state))
    return found


def _left(kin: KinData, gone: NDArray[np.bool_]) -> KinData:
    return replace(kin, weights=np.where(gone, 0.0, kin.weights))


def _predicted(
    kin: KinData, theta: Floats, gone: NDArray[np.bool_], known: Said | None
) -> list[Unseen]:
    misses = kin.logs(theta) - kin.log_seconds
    found = []
    for at in np.flatnonzero(gone):
        one = Unseen(kin.series[kin.owner[at]], kin.points[at], float(misses[at]))
        if known is not None:
            key = kin.key[at]
            one = replace(
                one,
                effect=float(known.effects[key]),
                by_others=float(known.by_others[key]),
                surer=float(known.surer[key]),
            )
        found.append(one)
    return found


Key = tuple[str, int]

LEAST_COMMON = 5
"""Networks that two kins must both have run for one to hear of the other."""
USUAL_ALIKE, USUAL_SQUARES = 0.5, 0.04
"""Correlation of misses that is taken before any is known, and squares that it counts for."""
SHARES = (0.15, 0.7)
"""Below the first nothing is heard; no more than the second is believed, of few networks."""


def misses(unseen: Iterable[Unseen]) -> dict[Key, float]:
    """Return by network's file and batch what was missed of it: log of measured over predicted."""
    found: defaultdict[Key, list[float]] = defaultdict(list)
    for one in unseen:
        found[one.point.network, one.point.batch].append(-one.miss)
    return {key: float(np.median(found[key])) for key in sorted(found)}


def are_relatives(kin: str, other: str) -> bool:
    """Whether two kins are of one maker's runtimes.

    >>> are_relatives("ncnn-cpu-float", "ncnn-gpu-float"), are_relatives("ncnn-cpu-int8", "rknn")
    (True, False)
    """
    return kin != other and kin.partition("-")[0] == other.partition("-")[0]


def heard_of(own: Mapping[Key, float], other: Mapping[Key, float]) -> tuple[float, float]:
    """Return how `own` misses follow from those of `other`: a factor, and the share explained."""
    common = sorted(own.keys() & other.keys())
    if len({network for network, _ in common}) < LEAST_COMMON:
        return 0.0, 0.0
    mine, theirs = (_without_far(np.array([each[key] for key in common])) for each in (own, other))
    squares, of_theirs = (float(each @ each) + USUAL_SQUARES for each in (mine, theirs))
    both = float(mine @ theirs) + USUAL_ALIKE * USUAL_SQUARES
    share = both**2 / squares / of_theirs
    if both <= 0 or share < SHARES[0]:
        return 0.0, 0.0
    return both / of_theirs, min(share, SHARES[1])


def _without_far(missed: NDArray[np.float64]) -> NDArray[np.float64]:
    most = FAR * float(np.median(np.abs(missed)))
    return np.clip(missed, -most, most)


def with_heard(
    kin: Kin, own: Mapping[Key, float], others: Sequence[Mapping[Key, float]], tables: Tables
) -> Kin:
    """Return the record of a kin with what it hears of networks that none of its devices ran."""
    ran = {network for network, _ in own}
    best: dict[Key, tuple[float, float]] = {}
    for theirs in others:
        factor, share = heard_of(own, theirs)
        for key, missed in theirs.items():
            if key[0] not in ran and share > best.get(key, (0.0, 0.0))[0]:
                # So that its share of it, which is what remains, is what follows.
                best[key] = share, missed * factor / share
    surest = sorted(best, key=lambda key: (-best[key][0], key))[:MOST_NETWORKS]
    heard = []
    for file, batch in sorted(surest):
        table = tables.table(file)
        traits, alone = (tuple(traits_of(table, at, kin).tolist()) for at in (batch, 1))
        share, missed = best[file, batch]
        heard.append(
            RelatedNetwork(KnownNetwork(called(file), batch, 1, missed, traits, alone), share)
        )
    return replace(kin, heard=tuple(heard))
