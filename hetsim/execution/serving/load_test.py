"""Load test: requests, batches, correctness of answers, and lateness of this machine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetsim.core.result import Result
from hetsim.core.units import format_seconds
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.device.kernels.precision import Rounding
from hetsim.device.support.rules import is_static
from hetsim.errors import WorkloadError
from hetsim.execution.program import given_inputs, model_of, tolerance_of
from hetsim.execution.run import compared_outputs, deviations, differences, whole_model
from hetsim.graph.inputs.arrays import Inputs
from hetsim.graph.model import Model
from hetsim.problem.plan import Plan
from hetsim.simulation.service.layout import EngineArguments
from hetsim.simulation.service.resolution import Resolved
from hetsim.simulation.service.service import Service

Values = Mapping[str, Any]

SETS = 8
"""Distinct inputs per model and shape, so that requests vary."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Batches of a template: `size` requests of the model `alone` at a time.

    Requests have the inputs of `sets` in turn. `inputs` and `outputs`: dimension along which
    requests are stacked in a batch; None: shared, or belonging to the whole batch.
    """

    about: str
    alone: Model
    sets: tuple[Values, ...]
    size: int = 1
    inputs: Mapping[str, int | None] = field(default_factory=dict)
    outputs: Mapping[str, int | None] = field(default_factory=dict)

    def joined(self, requests: Sequence[int]) -> dict[str, Any]:
        """Return the inputs of a batch of these requests, 1 to `size` of them."""
        filled = [*requests, *[requests[-1]] * (self.size - len(requests))]
        given = [self.sets[request % len(self.sets)] for request in filled]
        return {
            name: value
            if (axis := self.inputs.get(name)) is None
            else np.concatenate([one[name] for one in given], axis=axis)
            for name, value in given[0].items()
        }

    def split(self, outputs: Values, count: int) -> list[dict[str, Any]]:
        """Return the outputs of each of `count` requests; all get those of the whole batch."""
        found = [dict(outputs) for _ in range(count)]
        for name, axis in self.outputs.items():
            if axis is not None:
                pieces = np.split(outputs[name], self.size, axis)
                for one, piece in zip(found, pieces, strict=False):
                    one[name] = piece
        return found


def _axis(alone: Model, batch: Model, name: str, size: int, what: str) -> int | None:
    """Return the dimension along which a batch's value stacks requests, each as in `alone`."""
    one, many = alone.graph.tensors[name], batch.graph.tensors[name]
    fixed = is_static(one) and is_static(many)
    if not fixed or len(one.shape or ()) != len(many.shape or ()):
        raise WorkloadError(
            f"{what} '{name}' has no fixed shape, so its batches cannot be joined or split",
            where=batch.source,
            hint="remove --batching, or dynamic_batching and batch_sizes",
        )
    a, b = one.static_shape, many.static_shape
    different = [axis for axis in range(len(a)) if a[axis] != b[axis]]
    if not different:
        return None
    if len(different) > 1 or b[different[0]] != size * a[different[0]]:
        raise WorkloadError(
            f"{what} '{name}' has shape {list(a)} for one request and {list(b)} for {size}, which "
            "is not that many side by side",
            where=batch.source,
            hint="remove dynamic_batching and batch_sizes, or use another batch_dim",
        )
    return different[0]


def runs_of(
    resolved: Sequence[Resolved], setup: EngineArguments, inputs: Inputs | None, seed: int
) -> tuple[Runs, ...]:
    """Return, by template, its batches: the model of its requests, and how many at a time.

    `inputs`: those of all requests, for a single served model; absent: random ones.
    """
    number = {id(one.plan): at for at, one in enumerate(setup.plan_tasks.templates)}
    found: dict[int, Runs] = {}
    for one in resolved:
        sizes, about = one.served.sizes, one.served.model
        if sizes[0] != 1:
            raise WorkloadError(
                f"batch_sizes begin at {sizes[0]}: reference inputs and outputs need size 1",
                where=about,
                hint="add 1 to batch_sizes",
            )
        for variant in range(len(one.variants)):
            alone = model_of(one.plans[0][variant][0])
            axes = []
            for plan, size in zip(one.plans[0][variant][1:], sizes[1:], strict=True):
                graph = model_of(plan).graph
                ways = (("input", graph.inputs), ("output", graph.outputs))
                axes.append(
                    [
                        {name: _axis(alone, model_of(plan), name, size, what) for name in names}
                        for what, names in ways
                    ]
                )
            shared = {name for ins, _ in axes for name, axis in ins.items() if axis is None}
            sets = sets_of(alone, inputs, seed, shared)
            each = [Runs(about, alone, sets)]
            each += [
                Runs(about, alone, sets, size, *pair)
                for size, pair in zip(sizes[1:], axes, strict=True)
            ]
            for rows in one.plans:
                for plan, runs in zip(rows[variant], each, strict=True):
                    found[number[id(plan)]] = runs
    return tuple(found[at] for at in range(len(setup.plan_tasks.templates)))


def sets_of(
    alone: Model, inputs: Inputs | None, seed: int, shared: Container[str] = ()
) -> tuple[Values, ...]:
    """Return the inputs used by requests in turn; those shared by batches are all the same."""
    if inputs is not None:
        return (given_inputs(alone, inputs, seed),)
    first = given_inputs(alone, None, seed)
    sets = [first]
    for at in range(1, SETS):
        drawn = int(np.random.SeedSequence([seed, at]).generate_state(1)[0])
        other = given_inputs(alone, None, drawn)
        sets.append({name: first[name] if name in shared else other[name] for name in first})
    return tuple(sets)


ROOM_BYTES = 1 << 28


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Finished batch."""

    number: int
    template: int
    requests: tuple[int, ...]
    outputs: Mapping[str, Any]


class KeptBatches:
    """Sample of batches: all while there is room, then every second, every fourth, ..."""

    def __init__(self, room_bytes: float = ROOM_BYTES) -> None:
        self._room = room_bytes
        self._bytes = 0
        self._every = 1
        self.batches: list[Batch] = []

    def offer(self, batch: Batch) -> None:
        """Keep a batch, or skip it."""
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


@dataclass(frozen=True, slots=True)
class Late:
    """Lateness in real seconds."""

    mean_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Host:
    """Lateness of this machine, in real seconds.

    Lateness of sending requests (`sent`) and of noting answers (`answered`) after they were due. Of
    `calls`, `overran` exceeded their modelled time, by `overrun_s` in total and `longest_overrun_s`
    at most, where all should have taken `modelled_s`; 0 without emulation. `dispatcher`: share of
    the run in which the sending thread was busy.
    """

    sent: Late
    answered: Late
    calls: int
    overran: int
    overrun_s: float
    longest_overrun_s: float
    modelled_s: float
    dispatcher: float
    wall_s: float

    def behind(self, latency_s: float, allowed: float) -> str | None:
        """Return the reason why this run's figures are invalid, in one line, or None.

        `latency_s`: the measured mean, in real seconds; `allowed`: maximum share of it, and of
        devices' modelled time, that may be lateness of this machine.
        """
        if self.overrun_s > allowed * self.modelled_s:
            return (
                f"device calls took {self.overrun_s / self.modelled_s:.0%} longer than modelled, "
                f"up to {format_seconds(self.longest_overrun_s)}"
            )
        # Emulated work continues from when it was due, however late it was sent.
        late_s = self.answered.mean_s + (0.0 if self.modelled_s else self.sent.mean_s)
        if late_s > allowed * latency_s:
            return (
                f"requests were sent {format_seconds(self.sent.mean_s)} late on average, and "
                f"answers were noted {format_seconds(self.answered.mean_s)} late, with a latency "
                f"of {format_seconds(latency_s)}"
            )
        return None


def late(seconds: np.ndarray[Any, np.dtype[np.float64]]) -> Late:
    """Return the statistics of latenesses in real seconds."""
    if not len(seconds):
        return Late(0.0, 0.0, 0.0)
    p99_s = float(np.percentile(seconds, 99, method="inverted_cdf"))
    return Late(float(seconds.mean()), p99_s, float(seconds.max()))


WHOLE_BATCHES = 32
"""Maximum batches of a template on which the whole model is run."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Compared requests among those `answered`, and the reference.

    `compared` requests had their outputs kept and compared with the whole model's on the single
    request; `alone` of them are bitwise equal. The others are off by up to `off` of an output's
    largest magnitude, None where anything but floats differs. Outputs of their `batches` were
    compared with the whole model's on the same batch, as kernels of other shapes may add in another
    order.
    """

    answered: int
    compared: int
    alone: int
    batches: int
    mismatches: tuple[str, ...]
    off: float | None = 0.0


def compared(
    batches: Sequence[Batch],
    runs: Sequence[Runs],
    plans: Sequence[tuple[Plan, Model]],
    answered: int,
    roundings: Sequence[Rounding] | None = None,
) -> Outputs:
    """Compare outputs of batches with those of the whole model.

    A request should equal the whole model's answer; otherwise its batch should equal the whole
    model's on the batch, within the tolerance of its devices. `plans`: by template, each with its
    model as it was cut; `roundings`: the type of each node's arithmetic. The whole model runs once
    per set of inputs, and up to WHOLE_BATCHES times for batches of each template.
    """
    opened: dict[int, CompiledSubgraph] = {}
    answers: dict[tuple[int, int], dict[str, Any]] = {}

    def whole(model: Model, inputs: Values) -> dict[str, Any]:
        if id(model) not in opened:
            opened[id(model)] = whole_model(model, roundings)
        return opened[id(model)].run(inputs)

    models = {id(plan.problem.model): model for plan, model in plans}
    count = alone = again = 0
    off = 0.0
    seen: Counter[int] = Counter()
    mismatches = []
    for batch in batches:
        one, (plan, model) = runs[batch.template], plans[batch.template]
        equal = True
        parts = one.split(batch.outputs, len(batch.requests))
        for request, found in zip(batch.requests, parts, strict=True):
            key = id(one.sets), request % len(one.sets)
            if key not in answers:
                answers[key] = whole(models[id(one.alone)], one.sets[key[1]])
            same = not differences(found, answers[key])
            count += 1
            alone += same
            if not same:
                equal, off = False, max(off, _off(found, answers[key]))
        if equal:
            continue
        if one.size == 1:
            wanted = answers[id(one.sets), batch.requests[0] % len(one.sets)]
        elif seen[batch.template] >= WHOLE_BATCHES:
            continue
        else:
            seen[batch.template] += 1
            again += 1
            wanted = whole(model, one.joined(batch.requests))
        told = compared_outputs(batch.outputs, wanted, tolerance_of(plan)).mismatches
        if told:
            where = f"{one.about}, batch {batch.number} of {len(batch.requests)}"
            mismatches.append(f"{where}: {'; '.join(told)}")
    most = off if math.isfinite(off) else None
    return Outputs(answered, count, alone, again, tuple(mismatches), most)


def _off(found: Values, wanted: Values) -> float:
    """Return the largest relative deviation of floats; infinite where anything else differs."""
    floats = {one.output: np.inf if one.lost else one.max_rel for one in deviations(found, wanted)}
    others = [{n: v for n, v in side.items() if n not in floats} for side in (found, wanted)]
    return np.inf if differences(*others) else max(floats.values(), default=0.0)


LATE_SHARE = 0.05
"""Maximum share of latencies, and of devices' time, that may be lateness of this machine."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoadTest(Result):
    """Result of a real workload with the simulation of the same arrivals.

    `measured` and `simulated` are in seconds of the workload, each of which lasted `time_scale`
    real ones. A measured latency is from the due time of a request to the arrival of its outputs;
    unless `emulated`, service is the time of a batch alone before the run, and links took no
    additional time. `host`: whether this machine kept up; `outputs`: whether answers are right;
    `start_s`: real seconds until every device was ready.
    """

    measured: Service = field(repr=False)
    simulated: Service = field(repr=False)
    emulated: bool
    time_scale: float
    host: Host
    outputs: Outputs | None
    executor: str
    start_s: float
