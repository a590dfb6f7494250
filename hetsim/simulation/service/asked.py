"""How the models of a deployment are read, priced and planned for, where nothing else says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hetsim.cost import DEFAULT_COST
from hetsim.graph.shapes.observed import Observed
from hetsim.placement.objective import Objective
from hetsim.problem.parts import Contention
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Asked:
    """What holds for every model that is served.

    Attributes
    ----------
    canonical, extensions, freeze, shapes, inputs, observed
        As ``load_model`` takes them. Whole shapes and inputs fix the batch, too.
    contention, cost, execute, pessimistic
        As ``Problem.of`` takes them.
    profiles : mapping of str to path
        As ``Problem.of`` takes them: of the one model that is served, in one shape.
    objective : "latency" or "throughput", optional
        What plans are for.
    options : mapping
        Of strategies, as ``plan`` takes them.
    constraints : callable, optional
        Gives further options for a problem: what of it is to run where.
    """

    canonical: Literal["none", "basic", "extended"] | None = None
    extensions: tuple[Any, ...] = ()
    freeze: Mapping[str, object] = field(default_factory=dict, hash=False)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict, hash=False)
    inputs: Mapping[str, Any] | str | None = field(default=None, hash=False)
    observed: Observed | None = field(default=None, hash=False)
    contention: Contention = "fifo"
    cost: str = DEFAULT_COST
    execute: Mapping[str, str] = field(default_factory=dict, hash=False)
    pessimistic: bool = False
    profiles: Mapping[str, str] = field(default_factory=dict, hash=False)
    objective: Objective | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    constraints: Callable[[Problem], Mapping[str, Any]] | None = None

    def options_for(self, problem: Problem) -> dict[str, Any]:
        """Return the options of a strategy that plans for `problem`."""
        more = {} if self.constraints is None else self.constraints(problem)
        return {**self.options, **more}

    @property
    def shaped(self) -> bool:
        """Whether the shapes of all inputs are given, that of the batch among them."""
        return bool(self.shapes) or self.inputs is not None
