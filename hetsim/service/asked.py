"""How the models of a deployment are read, priced and planned for, where nothing else says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hetsim.cost.default import DEFAULT_COST
from hetsim.placement.objective import Objective
from hetsim.problem.parts import Contention


@dataclass(frozen=True, slots=True)
class Asked:
    """What holds for every model that is served.

    Attributes
    ----------
    canonical, extensions, freeze
        As ``load_model`` takes them.
    contention, cost, execute, pessimistic
        As ``Problem.of`` takes them.
    objective : "latency" or "throughput", optional
        What plans are for.
    options : mapping
        Of strategies, as ``plan`` takes them.
    """

    canonical: Literal["none", "basic", "extended"] = "basic"
    extensions: tuple[Any, ...] = ()
    freeze: Mapping[str, object] = field(default_factory=dict, hash=False)
    contention: Contention = "fifo"
    cost: str = DEFAULT_COST
    execute: Mapping[str, str] = field(default_factory=dict, hash=False)
    pessimistic: bool = False
    objective: Objective | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
