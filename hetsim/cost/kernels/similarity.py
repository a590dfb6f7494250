"""Similarity of networks: families, traits, and predictions from a device family's networks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.cost.kernels.float_equivalent import as_floats
from hetsim.cost.kernels.formula import COLUMN, FORMS, kernel_seconds, streamed_share
from hetsim.cost.kernels.networks import KernelTable, network_table
from hetsim.errors import UnboundDimension
from hetsim.graph.graph import Graph
from hetsim.hardware.catalog import load_kin
from hetsim.hardware.kernel_figures import INDEX, KernelFigures, batch_range
from hetsim.hardware.kin import TRAITS, Kin, KnownNetwork, Likely

_FAMILIES = (
    ("bert", "bert|electra"),
    ("clip text and gpt", "clip_text|gpt"),
    ("mobilevit and hybrids", "mobilevit|efficientformer|fastvit|levit|segformer"),
    ("vit", "vit_|deit|beit|vision_transformer"),
    ("swin", "swin"),
    ("efficientnet", "efficientnet|mixnet"),
    ("mobilenet", "mobilenet|mnasnet|proxylessnas"),
    ("shufflenet", "shufflenet|nanodet"),
    ("resnet", "resnet|resnext|regnet"),
    ("vgg", "(?<!rep)vgg|alexnet"),
    ("repvgg", "repvgg"),
    ("inception", "inception|googlenet"),
    ("squeezenet", "squeezenet"),
    ("densenet", "densenet|vovnet"),
    ("ghostnet", "ghostnet"),
    ("convnext", "convnext"),
    ("yolo", "yolo"),
    ("unet", "unet"),
    ("super resolution", "espcn|quicksrnet|esrgan"),
    ("whisper", "whisper"),
)
_PATTERNS = tuple((family, re.compile(pattern)) for family, pattern in _FAMILIES)


def family_of(network: str) -> str:
    """Return the family of the network called `network`; the name itself if it has none.

    >>> family_of("bert_large_384"), family_of("ncnn_mobilenet_yolo"), family_of("hrnet_w18")
    ('bert', 'mobilenet', 'hrnet_w18')
    """
    return next((family for family, named in _PATTERNS if named.search(network)), network)


def groups_of(networks: Iterable[str]) -> dict[str, str]:
    """Return the networks that are left out together: a family, or one network.

    >>> groups_of(["bert_base_384", "bert_large_384"])
    {'bert_base_384': 'bert_base_384', 'bert_large_384': 'bert_large_384'}
    """
    families = {name: family_of(name) for name in networks}
    if len(set(families.values())) > 1:
        return families
    return {name: name for name in families}


Floats = NDArray[np.float64]

LENGTH = 0.45
"""Distance of traits at which the similarity of networks is exp(-1/2). Chosen by predicting
networks left out of 12 device families; between 0.3 and 0.6 it makes little difference."""

SAME = 0.1
"""Such distance for exports of one network: four networks exported by different frameworks are 0.02
to 0.09 apart. Different networks of a device family are at least 0.1 apart."""

BATCHES = 1.5
"""Log ratio of batches at which the correlation of a network's own effects is exp(-1): between the
most likely value for 8 device families that ran networks at several batches, 3, and the best
predictor of their larger batches from batch 1, 1."""

CLIPPED_AT = 2.5
"""Standard deviations above which an effect is attributed to its own network only, so that an
outlier does not affect its neighbours."""

_SHARE_OF = {
    "dense": "dense", "pointwise": "pointwise", "depthwise": "depthwise", "grouped": "grouped",
    "transposed": "transposed", "matmul": "matmul", "batched": "matmul", "attention": "matmul",
    "softmax": "matmul", "normalization": "normalization", "pooling": "elementwise",
    "elementwise": "elementwise", "reduction": "elementwise", "movement": "movement",
    "concat": "movement", "transpose": "movement", "gather": "movement", "resize": "resize",
    "recurrent": "recurrent",
}  # fmt: skip
"""Trait that the time of each form counts for."""

_TRAIT_OF = np.array([TRAITS.index(_SHARE_OF.get(form, TRAITS[-1])) for form in FORMS])
_COUNTED = np.array([form in _SHARE_OF for form in FORMS])
_SHARES = TRAITS.index("seconds")
_NAMED, _NAMED_FROM, _UNLIKE = 3, 0.4, 0.1


def traits_of(table: KernelTable, batch: float, kin: Kin) -> Floats:
    """Return the traits of a network for `batch` times as many samples, [TRAITS]. O(kernels)."""
    rows = table.at(batch, kin.activation_bytes, kin.weight_bytes)
    return traits(rows, table.counts, table.weight_bytes(kin.weight_bytes), kin.mean)


def traits(rows: Floats, counts: Floats, weight_bytes: float, mean: Sequence[float]) -> Floats:
    """Return the traits of a network by the mean figures of a device family, [TRAITS].

    - `rows` [k, FEATURES]
    - `counts` [k]: number of launches of each.
    - `weight_bytes`: all weights.
    """
    if not len(rows):
        return np.zeros(len(TRAITS))
    streamed = streamed_share(mean[INDEX["weights_on_chip_mib"]], weight_bytes)
    each = [kernel_seconds(mean, row, streamed) for row in rows.tolist()]
    seconds = counts * np.array(each)
    total = max(float(seconds.sum()), 1e-12)
    share = seconds / total
    form = rows[:, COLUMN["form"]].astype(np.int64)
    weights = np.where(_COUNTED[form], share, 0.0)
    of_forms = np.bincount(_TRAIT_OF[form], weights, len(TRAITS))[:_SHARES]
    columns, positions = (np.log(rows[:, COLUMN[name]]) for name in ("columns", "rows"))
    launches = float(counts.sum())
    read_s = weight_bytes / mean[INDEX["weights_gbytes_s"]]
    usual = (
        0.25 * math.log(total * 1e3),
        0.25 * math.log(max(launches, 1.0)),
        0.35 * float(share @ columns),
        0.25 * float(share @ positions),
        math.sqrt(mean[INDEX["launch_us"]] * launches / total),
        0.7 * math.sqrt(min(read_s / total, 1.5)),
    )
    return np.concatenate([2.0 * np.sqrt(of_forms), usual])


def alike(a: Floats, b: Floats, length: float) -> Floats:
    """Return ``exp(-d^2 / 2 length^2)`` of all pairs of networks: float array [len(a), len(b)]."""
    apart = ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)
    return np.asarray(np.exp(-apart / (2 * length**2)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class NetworkPositions:
    """Positions of networks in the space of traits.

    - `traits`, `alone` [n, TRAITS]: at their batches, and for one sample.
    - `log_batch` [n]
    """

    traits: Floats
    alone: Floats
    log_batch: Floats

    @classmethod
    def of(cls, networks: Sequence[KnownNetwork]) -> NetworkPositions:
        """Return the positions of a device family's networks."""
        return cls(
            np.array([one.traits for one in networks]).reshape(-1, len(TRAITS)),
            np.array([one.alone for one in networks]).reshape(-1, len(TRAITS)),
            np.log([float(one.batch) for one in networks]),
        )


def own_part(a: NetworkPositions, b: NetworkPositions) -> Floats:
    """Return the correlation of pairs as the same network at similar batches: [len(a), len(b)]."""
    apart = np.abs(a.log_batch[:, None] - b.log_batch[None, :])
    return alike(a.alone, b.alone, SAME) * np.exp(-apart / BATCHES)


def covariance(a: NetworkPositions, b: NetworkPositions, shared: float, length: float) -> Floats:
    """Return the covariance of effects of variance 1: float array [len(a), len(b)]."""
    return shared * alike(a.traits, b.traits, length) + (1 - shared) * own_part(a, b)


@dataclass(frozen=True, slots=True)
class Likeness:
    """Networks of a device family, prepared for predictions.

    - `weights` [n]: weight of each network's covariance with another in that one's effect.
    - `beyond` [n]: clipped part of each network's effect.
    - `inverse` [n, n]: inverse covariance of the measurements.
    - `told`, `left_out` [n]: prediction of each effect from networks of other families, and its
    variance.
    """

    kin: Kin
    places: NetworkPositions
    weights: Floats
    beyond: Floats
    inverse: Floats
    told: Floats
    left_out: Floats

    @classmethod
    def of(cls, kin: Kin) -> Likeness:
        """Return the prepared networks of a device family. O(networks^3)."""
        networks = (*kin.networks, *(one.network for one in kin.heard))
        places = NetworkPositions.of(networks)
        # Noise is as large as its share of the variance if nothing else is known.
        unsure = [kin.sd**2 * (1 / one.share - 1) for one in kin.heard]
        ran = [kin.noise**2 / one.devices for one in kin.networks]
        noise = np.array([*ran, *unsure], dtype=np.float64)
        together = kin.sd**2 * covariance(places, places, kin.shared, kin.length) + np.diag(noise)
        # Numbers rounded for writing may coincide when noise is almost zero.
        inverse = np.asarray(
            np.linalg.inv(together + 1e-9 * np.eye(len(networks))), dtype=np.float64
        )
        most = CLIPPED_AT * np.sqrt(np.diag(together))
        effects = np.array([one.effect for one in networks])
        clipped = np.clip(effects, -most, most)
        effects[len(kin.networks) :] = clipped[len(kin.networks) :]
        weights = inverse @ clipped
        group = groups_of(one.name for one in networks)
        names = np.array([group[one.name] for one in networks])
        told, left_out = np.zeros(len(networks)), np.zeros(len(networks))
        for name in sorted(set(names.tolist())):
            own = np.flatnonzero(names == name)
            apart = np.linalg.inv(inverse[np.ix_(own, own)])
            told[own] = clipped[own] - apart @ weights[own]
            left_out[own] = np.maximum(np.diag(apart) - noise[own], 0.0)
        return cls(
            kin=kin,
            places=places,
            weights=weights,
            beyond=effects - clipped,
            inverse=inverse,
            told=told,
            left_out=left_out,
        )

    def of_table(self, table: KernelTable, batch: int, at: int = 1) -> Likely:
        """Return the prediction for a network at `batch`, whose `table` has `at` samples."""
        traits = traits_of(table, batch / at, self.kin)
        alone = traits if batch == 1 else traits_of(table, 1 / at, self.kin)
        return self.predict(traits, batch, alone)

    def predict(self, traits: Floats, batch: int, alone: Floats) -> Likely:
        """Return the prediction for another network.

        - `traits` [TRAITS]
        - `batch`: batch size of the network.
        - `alone` [TRAITS]: traits of one sample.

        O(networks^2).
        """
        kin = self.kin
        variance = kin.sd**2
        usual = math.sqrt(self._usual_variance(batch))
        if not len(self.told):
            return Likely(0.0, kin.sd, usual, kin.noise, False, (), math.inf)
        at = NetworkPositions(traits[None, :], alone[None, :], np.log([float(batch)]))
        near = variance * covariance(at, self.places, kin.shared, kin.length)[0]
        left = variance - float(near @ self.inverse @ near)
        own = own_part(at, self.places)[0]
        same = alike(at.alone, self.places.alone, SAME)[0]
        known = bool(same.max() > 0.5)
        ran = known and int(same.argmax()) < len(kin.networks)
        nearby = np.zeros_like(same)
        if kin.shared:
            nearby = alike(at.traits, self.places.traits, kin.length)[0]
        ran_at = self.places.traits[: len(kin.networks)]
        return Likely(
            effect=float(near @ self.weights + own @ self.beyond / max(own.sum(), 1.0)),
            sd=math.sqrt(max(left, 0.0)),
            usual_sd=usual,
            noise=kin.noise,
            same=ran,
            networks=self._names(same if known else nearby),
            apart=float(np.linalg.norm(ran_at - traits, axis=1).min(initial=math.inf)),
        )

    def _usual_variance(self, batch: int) -> float:
        """Return the mean of `left_out` in the batch's range, or of all if the range has none."""
        if not self.kin.networks:
            return self.kin.sd**2
        own = batch_range(batch)
        within = [
            told
            for told, one in zip(self._ran.tolist(), self.kin.networks, strict=True)
            if batch_range(one.batch) == own
        ]
        return float(np.mean(within if within else self._ran))

    @property
    def _ran(self) -> Floats:
        """Return `left_out` of the networks that the device family itself ran."""
        return self.left_out[: len(self.kin.networks)]

    def _names(self, by: Floats) -> tuple[str, ...]:
        """Return the names of the most similar networks: those nearly as similar as the first."""
        order = np.argsort(-by, kind="stable").tolist()
        least = max(_NAMED_FROM * float(by[order[0]]), _UNLIKE)
        every = (*self.kin.networks, *(one.network for one in self.kin.heard))
        names = (every[index].name for index in order if by[index] >= least)
        return tuple(dict.fromkeys(names))[:_NAMED]


_KEPT = "kernel table"


def predicted_by_family(graph: Graph, figures: KernelFigures, batch: int) -> Likely | None:
    """Return the prediction for `graph` by the networks of the device family of `figures`."""
    if not figures.likeness:
        return None
    known = likeness_of(figures.kin, figures.likeness)
    try:
        table = table_of(graph)
    except UnboundDimension:
        return None
    return known.of_table(table, batch, at=batch)


@lru_cache(maxsize=64)
def likeness_of(kin: str, sha256: str) -> Likeness:
    """Return the contents of a device family's file; `sha256` identifies its version."""
    return Likeness.of(load_kin(kin))


def table_of(graph: Graph) -> KernelTable:
    """Return the kernels of a graph, cached. Raises UnboundDimension."""
    known: Any = graph.kept.get(_KEPT)
    if known is None:
        known = graph.kept[_KEPT] = network_table(as_floats(graph))
    table: KernelTable = known
    return table
