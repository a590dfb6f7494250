"""Requests of a workload that is served for real: their inputs, batches and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetsim.errors import WorkloadError
from hetsim.execution.inputs_outputs import given_inputs, model_of

if TYPE_CHECKING:
    from hetsim.graph.inputs.arrays import Inputs
    from hetsim.graph.model import Model
    from hetsim.simulation.service.layout import Setup
    from hetsim.simulation.service.resolving import Resolved

Values = Mapping[str, Any]
Axis = tuple[int, int]
"""Along which dimension, and how many entries of it are of one request."""


@dataclass(frozen=True, slots=True)
class Batching:
    """How arrays of one size of batch are made of those of requests."""

    size: int
    inputs: Mapping[str, Axis | None]
    outputs: Mapping[str, Axis | None]

    def joined(self, requests: Sequence[Values]) -> dict[str, Any]:
        """Return the inputs of a batch of these requests, 1 to `size` of them."""
        if self.size == 1:
            return dict(requests[0])
        filled = [*requests, *[requests[-1]] * (self.size - len(requests))]
        return {
            name: requests[0][name]
            if axis is None
            else np.concatenate([one[name] for one in filled], axis=axis[0])
            for name, axis in self.inputs.items()
        }

    def split(self, outputs: Values, count: int) -> list[dict[str, Any]]:
        """Return the outputs of each of `count` requests; those of the whole are of none."""
        if self.size == 1:
            return [dict(outputs)]
        found: list[dict[str, Any]] = [{} for _ in range(count)]
        for name, axis in self.outputs.items():
            if axis is None:
                continue
            for at, one in enumerate(found):
                place: list[slice] = [slice(None)] * axis[0]
                place.append(slice(at * axis[1], (at + 1) * axis[1]))
                one[name] = outputs[name][tuple(place)]
        return found


def batching_of(alone: Model, batch: Model, size: int) -> Batching:
    """Return how a model bound to batches of `size` takes what `alone`, bound to 1, takes."""
    if size == 1:
        return Batching(1, {}, {})
    return Batching(
        size,
        {name: _axis(alone, batch, name, size, "input") for name in batch.graph.inputs},
        {name: _axis(alone, batch, name, size, "output") for name in batch.graph.outputs},
    )


def _axis(alone: Model, batch: Model, name: str, size: int, what: str) -> Axis | None:
    one, many = alone.graph.tensors[name], batch.graph.tensors[name]
    shapes = one.shape, many.shape
    known = all(
        shape is not None and all(isinstance(dim, int) for dim in shape) for shape in shapes
    )
    if not known or one.measured or many.measured or len(shapes[0] or ()) != len(shapes[1] or ()):
        raise WorkloadError(
            f"{what} '{name}' has no fixed shape, so that batches of it cannot be put together "
            "or taken apart",
            where=batch.source,
            hint="leave dynamic_batching and batch_sizes out",
        )
    a, b = one.static_shape, many.static_shape
    different = [axis for axis in range(len(a)) if a[axis] != b[axis]]
    if not different:
        return None
    if len(different) > 1 or b[different[0]] != size * a[different[0]]:
        raise WorkloadError(
            f"{what} '{name}' is {list(a)} of one request and {list(b)} of {size}, which is not "
            "that many side by side",
            where=batch.source,
            hint="leave dynamic_batching and batch_sizes out, or name another batch_dim",
        )
    return different[0], a[different[0]]


ROOM_BYTES = 1 << 28


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """A batch that is over."""

    number: int
    template: int
    requests: tuple[int, ...]
    outputs: Mapping[str, Any]


class Kept:
    """Every batch as long as there is room, then every second of all, every fourth, ..."""

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        self._room = room_bytes
        self._bytes = 0
        self._every = 1
        self.batches: list[Batch] = []

    def offer(self, batch: Batch) -> None:
        """Keep a batch, or not."""
        if batch.number % self._every:
            return
        self.batches.append(batch)
        self._bytes += _bytes(batch)
        while self._bytes > self._room and len(self.batches) > 1:
            self._every *= 2
            self.batches = [one for one in self.batches if one.number % self._every == 0]
            self._bytes = sum(map(_bytes, self.batches))


def _bytes(batch: Batch) -> int:
    return sum(
        value.nbytes if isinstance(value, np.ndarray) else 1 for value in batch.outputs.values()
    )


SETS = 8
"""Different requests of each model and shape: what comes is not to be the same over and over."""


@dataclass(frozen=True, slots=True, eq=False)
class Sort:
    """Requests of one model and binding of its dimensions."""

    about: str
    alone: Model
    sets: tuple[Mapping[str, Any], ...]

    def of(self, request: int) -> Mapping[str, Any]:
        """Return the inputs of a request."""
        return self.sets[request % len(self.sets)]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """What a template runs."""

    sort: Sort
    batching: Batching


def runs_of(
    resolved: Sequence[Resolved], setup: Setup, inputs: Inputs | None, seed: int
) -> tuple[Runs, ...]:
    """Return, by template, whose requests it runs, and how many at a time."""
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
    """Return the inputs that requests have in turn; `each`: how these are put into batches."""
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
