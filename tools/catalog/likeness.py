"""What a kin's fit leaves of each network, as predictions of other networks take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from catalog.graphs import kin_bytes
from catalog.kin_data import KinData, dies
from catalog.mixed import Floats, KinFit
from catalog.points import runtime_of
from hetsim.cost.calibration.calibrate import MOST_NETWORKS
from hetsim.cost.kernels.likeness import LENGTH, Likeness, Placed, covariance, traits
from hetsim.cost.kernels.networks import of_batch
from hetsim.hardware.kin import Kin, KnownNetwork

SHARED = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
"""Parts of an effect that networks that are alike may share; the likeliest holds."""
FAR = 3.0
"""Scales of effects beyond which one counts no more for their variance."""
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


def traits_of_keys(data: KinData, fit: KinFit) -> Placed:
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
    return Placed(np.array(found), np.array(alone), np.log(batches))


def kin_of(data: KinData, fit: KinFit, places: Placed) -> Kin:
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

    Attributes
    ----------
    effects : array [keys]
        Logs of factors, by the network itself too, where it was run.
    by_others : array [keys]
        The same by networks of other names alone.
    surer : array [keys]
        Variance of `effects` relative to the usual one of a network that was not run.
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
    places = Placed.of(kin.networks)
    noise = kin.noise**2 / np.array([one.devices for one in kin.networks])
    together = kin.sd**2 * covariance(places, places, kin.shared, kin.length)
    together += np.diag(noise + 1e-9)
    most = FAR * np.sqrt(np.diag(together))
    effects = np.clip([one.effect for one in kin.networks], -most, most)
    root = np.linalg.cholesky(together)
    half = np.linalg.solve(root, effects)
    return float(-half @ half / 2 - np.log(np.diag(root)).sum())
