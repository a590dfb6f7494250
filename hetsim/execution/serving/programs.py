"""What devices are given so that any batch may come: the subgraphs of every plan at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hetsim.execution.devices.program import Program, assemble
from hetsim.execution.devices.weights import staged
from hetsim.execution.inputs_outputs import constants_among_outputs, model_of

if TYPE_CHECKING:
    from hetsim.graph.model import Model
    from hetsim.plans.plan import Plan


@dataclass(frozen=True, slots=True)
class Loadable:
    """One plan, ready to be loaded beside others.

    Attributes
    ----------
    plan : Plan
        Of one replica.
    model : Model
        Its large weights lie in files.
    program : Program
        One step a subgraph.
    constants : mapping of str to value
        Outputs of the model that are stored values.
    """

    plan: Plan
    model: Model
    program: Program
    constants: dict[str, Any]


@contextmanager
def loadable(plans: Sequence[Plan]) -> Iterator[tuple[Loadable, ...]]:
    """Give each plan as it is loaded; weights that were put in files are gone afterwards."""
    with ExitStack() as stack:
        models: dict[int, tuple[Model, dict[str, Any]]] = {}
        found = []
        for plan in plans:
            plan.validate()
            own = model_of(plan)
            if id(own) not in models:
                model = stack.enter_context(staged(own))
                models[id(own)] = model, constants_among_outputs(model)
            model, constants = models[id(own)]
            # Seconds of holding, none here, are what makes each subgraph a step of its own.
            program = assemble(plan, model, hold_s=[0.0] * len(plan.groups))
            found.append(Loadable(plan, model, replace(program, beside=True), constants))
        yield tuple(found)
