"""Which inputs a request has: a few sets of each model and shape, that requests have in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetsim.errors import WorkloadError
from hetsim.execution.inputs_outputs import given_inputs, model_of
from hetsim.execution.serving.batches import Batching, batching_of

if TYPE_CHECKING:
    from hetsim.graph.inputs.files import Inputs
    from hetsim.graph.model import Model
    from hetsim.service.layout import Setup
    from hetsim.service.resolving import Resolved

SETS = 8
"""Different requests of each model and shape: what comes is not to be the same over and over."""


@dataclass(frozen=True, slots=True, eq=False)
class Sort:
    """Requests of one model and binding of its dimensions.

    Attributes
    ----------
    about : str
        For messages.
    alone : Model
        Bound to one request.
    sets : tuple of mapping
        Inputs that requests have in turn.
    """

    about: str
    alone: Model
    sets: tuple[Mapping[str, Any], ...]

    def of(self, request: int) -> Mapping[str, Any]:
        """Return the inputs of a request."""
        return self.sets[request % len(self.sets)]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """What a template runs.

    Attributes
    ----------
    sort : Sort
    batching : Batching
    """

    sort: Sort
    batching: Batching


def runs_of(
    resolved: Sequence[Resolved], setup: Setup, inputs: Inputs | None, seed: int
) -> tuple[Runs, ...]:
    """Return, by template, whose requests it runs, and how many at a time.

    `inputs`: what all requests have, of the one model that is served; absent: random ones.

    Raises
    ------
    WorkloadError
        Where a model cannot be run in the sizes that it is planned for.
    """
    number = {id(one.plan): at for at, one in enumerate(setup.plan_tasks.templates)}
    found: dict[int, Runs] = {}
    for one in resolved:
        sizes = one.served.sizes
        if sizes[0] != 1:
            raise WorkloadError(
                f"batch_sizes begin at {sizes[0]}: what a request alone has as inputs, and should "
                "give, is known of a size of 1 only",
                where=one.served.model,
                hint="add 1 to batch_sizes",
            )
        for variant in range(len(one.variants)):
            alone = model_of(one.plans[0][variant][0])
            models = [model_of(plan) for plan in one.plans[0][variant]]
            each = [batching_of(alone, model, b) for model, b in zip(models, sizes, strict=True)]
            sort = Sort(one.served.model, alone, sets_of(alone, each, inputs, seed))
            for rows in one.plans:
                for plan, batching in zip(rows[variant], each, strict=True):
                    found[number[id(plan)]] = Runs(sort, batching)
    return tuple(found[at] for at in range(len(setup.plan_tasks.templates)))


def sets_of(
    alone: Model, each: Sequence[Batching], inputs: Inputs | None, seed: int
) -> tuple[Mapping[str, Any], ...]:
    """Return the inputs that requests have in turn; `each`: how these are put into batches.

    What all requests of a batch share is the same in all sets.
    """
    if inputs is not None:
        return (given_inputs(alone, inputs, seed),)
    first = given_inputs(alone, None, seed)
    shared = {name for one in each for name, axis in one.inputs.items() if axis is None}
    sets = [first]
    for at in range(1, SETS):
        other = given_inputs(
            alone, None, int(np.random.SeedSequence([seed, at]).generate_state(1)[0])
        )
        sets.append({name: first[name] if name in shared else other[name] for name in first})
    return tuple(sets)
