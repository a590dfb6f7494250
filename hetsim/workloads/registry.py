"""The kinds of arrivals, by the name that files give them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from hetsim.workloads.arrivals.burst import Burst
from hetsim.workloads.arrivals.closed import Closed
from hetsim.workloads.arrivals.constant import Constant
from hetsim.workloads.arrivals.gamma import Gamma
from hetsim.workloads.arrivals.mmpp import Mmpp
from hetsim.workloads.arrivals.poisson import Poisson
from hetsim.workloads.arrivals.replay import Replay

Open: TypeAlias = Constant | Poisson | Gamma | Mmpp | Burst | Replay
"""Arrivals that do not ask what became of the requests before; each is an ``Arrivals``."""

KINDS: Mapping[str, type[Open] | type[Closed]] = MappingProxyType(
    {kind.kind: kind for kind in (Constant, Poisson, Gamma, Mmpp, Burst, Replay, Closed)}
)
