"""The kinds of arrivals, by the name that files give them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from hetsim.workload.arrivals.burst import Burst
from hetsim.workload.arrivals.closed import Closed
from hetsim.workload.arrivals.constant import Constant
from hetsim.workload.arrivals.gamma import Gamma
from hetsim.workload.arrivals.mmpp import Mmpp
from hetsim.workload.arrivals.poisson import Poisson
from hetsim.workload.arrivals.replay import Replay

Open: TypeAlias = Constant | Poisson | Gamma | Mmpp | Burst | Replay
"""Arrivals that do not ask what became of the requests before; each is an ``Arrivals``."""

KINDS: Mapping[str, type[Open] | type[Closed]] = MappingProxyType(
    {kind.kind: kind for kind in (Constant, Poisson, Gamma, Mmpp, Burst, Replay, Closed)}
)
