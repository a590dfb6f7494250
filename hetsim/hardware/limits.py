"""What a chip cannot exceed: its peak in arithmetic, its memory's bandwidth beyond the caches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.kernel_figures import INDEX, PARAMETERS

Floats = NDArray[np.float64]

_RATE, _BANDWIDTH = INDEX["rate_tflops"], INDEX["bandwidth_gbytes_s"]
_BEYOND, _WEIGHTS = INDEX["beyond_cache"], INDEX["weights_gbytes_s"]
_OF_RATE = [INDEX[name] for name in ("pointwise", "depthwise", "grouped", "matmul", "batched")]
"""Rates relative to that of a dense convolution. Winograd's algorithm saves products: what it gains
is no rate of the unit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of devices, as logarithms; infinite where nothing is known.

    Attributes
    ----------
    flops, nbytes : array [devices]
        Peak in FLOP/s, and the memory's bytes/s.
    held : array [devices, parameters]
        Values that are known from elsewhere; NaN where the parameter is free.
    """

    flops: Floats
    nbytes: Floats
    held: Floats

    @classmethod
    def of(cls, flops_per_s: float | None, bytes_per_s: float | None) -> Limits:
        """Return those of one device."""
        known = (math.inf if one is None else math.log(one) for one in (flops_per_s, bytes_per_s))
        flops, nbytes = (np.array([one]) for one in known)
        return cls(flops, nbytes, np.full((1, len(PARAMETERS)), np.nan))

    def bounds(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the least and the most logs [devices, parameters] about `theta`.

        What is bounded as a product, the rate of a form and bandwidth beyond the caches, is bounded
        by its relative part.
        """
        most = np.full(theta.shape, np.inf)
        most[:, _RATE] = self.flops
        rate = np.minimum(theta[:, _RATE], self.flops)
        most[:, _OF_RATE] = (self.flops - rate)[:, None]
        most[:, _BEYOND] = self.nbytes - theta[:, _BANDWIDTH]
        most[:, _WEIGHTS] = self.nbytes
        known = ~np.isnan(self.held)
        least = np.where(known, self.held, -np.inf)
        return least, np.where(known, self.held, most)

    def along(self, pushed: NDArray[np.bool_]) -> Floats:
        """Return how parameters move together [devices, parameters, parameters] at limits.

        A relative part that is `pushed` [devices, parameters] against a limit of a product gives
        way as the other part of the product grows.
        """
        found = np.tile(np.eye(pushed.shape[1]), (len(pushed), 1, 1))
        free = np.isnan(self.held)
        for whole, parts in ((_RATE, _OF_RATE), (_BANDWIDTH, [_BEYOND])):
            for part in parts:
                tied = pushed[:, part] & ~pushed[:, whole] & free[:, part]
                found[tied, part, whole] = -1.0
        return found

    def within(self, theta: Floats) -> Floats:
        """Return logs [devices, parameters] as near as may be."""
        least, most = self.bounds(theta)
        return np.clip(theta, least, most)


def together(limits: Iterable[Limits]) -> Limits:
    """Return the limits of several devices as one."""
    every = list(limits)
    return Limits(
        np.concatenate([one.flops for one in every]),
        np.concatenate([one.nbytes for one in every]),
        np.concatenate([one.held for one in every]),
    )
