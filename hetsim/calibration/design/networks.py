"""The design: which networks are measured, in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from hetsim.calibration.design.attention import perceptron, transformer
from hetsim.calibration.design.convolutional import convolutional
from hetsim.calibration.design.single import KINDS, single

VERSION = 2
"""Raised whenever the networks change: measurements of another version are not gone on with."""

_FLOPS = (1e8, 2.5e9)
"""Of a network, about: from less than a millisecond to some ten on a core of a CPU."""

_KINDS = ("convolutional", "convolutional", "transformer", "convolutional", "single", "perceptron")


@dataclass(frozen=True, slots=True)
class Generated:
    """One network of the design; it is made when it is asked for."""

    index: int
    kind: str

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.index}"

    def build(self) -> onnx.ModelProto:
        """Return the network, the same every time."""
        rng = np.random.default_rng([VERSION, self.index])
        flops = float(np.exp(rng.uniform(np.log(_FLOPS[0]), np.log(_FLOPS[1]))))
        if self.kind == "single":
            return single(self.name, rng, (self.index // len(_KINDS) % len(KINDS),), 8)
        make: Callable[..., onnx.ModelProto] = {
            "convolutional": convolutional,
            "transformer": transformer,
            "perceptron": perceptron,
        }[self.kind]
        return make(self.name, rng, flops)


def networks(count: int) -> tuple[Generated, ...]:
    """Return the first `count` networks: any first part of them has all kinds in it."""
    return tuple(Generated(index, _KINDS[index % len(_KINDS)]) for index in range(count))
