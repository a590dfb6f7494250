"""Result of a load test: outcomes, outputs, and how late this machine was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hetsim.core.units import format_seconds
from hetsim.execution.devices.program import tolerance_of
from hetsim.execution.equality import differences, judged
from hetsim.execution.run import whole_model
from hetsim.execution.serving.requests import Batch, Runs
from hetsim.simulation.service.service import Service

if TYPE_CHECKING:
    from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
    from hetsim.device.kernels.precision import Rounding
    from hetsim.graph.model import Model
    from hetsim.problem.plan import Plan


@dataclass(frozen=True, slots=True)
class Late:
    """How late something was, in real seconds."""

    mean_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Host:
    """How this machine kept up, in real seconds.

    Attributes
    ----------
    sent : Late
        Requests, against when they were due: the dispatcher was busy, or its timer slack.
    answered : Late
        Answers, against when they were due: when the last task of a batch should have ended, and
        did on its device.
    calls : int
        Of devices.
    overran : int
        Calls that took longer than their modelled time.
    overrun_s, longest_overrun_s : float
        By how much in all, and at most; 0 where nothing is emulated.
    modelled_s : float
        What all calls should have taken; 0 where nothing is emulated.
    dispatcher : float
        Share of the run in which the thread that sends requests was at work.
    wall_s : float
        Of the run.
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
        """Return in one line why figures of this run mean nothing; None where they do.

        `latency_s`: the measured mean, in real seconds; `allowed`: the share of it, and of what
        devices should have taken, that may be this machine's lateness.
        """
        if self.overrun_s > allowed * self.modelled_s:
            return (
                f"calls of devices took {self.overrun_s / self.modelled_s:.0%} longer than "
                f"modelled, {format_seconds(self.longest_overrun_s)} at most"
            )
        # What is emulated goes on from when it was due, however late it was sent.
        late_s = self.answered.mean_s + (0.0 if self.modelled_s else self.sent.mean_s)
        if late_s > allowed * latency_s:
            return (
                f"requests were sent {format_seconds(self.sent.mean_s)} late on average and "
                f"answers noted {format_seconds(self.answered.mean_s)} late, of a latency of "
                f"{format_seconds(latency_s)}"
            )
        return None


def late(seconds: np.ndarray[Any, np.dtype[np.float64]]) -> Late:
    """Return how late things were, each by so many real seconds."""
    if not len(seconds):
        return Late(0.0, 0.0, 0.0)
    p99_s = float(np.percentile(seconds, 99, method="inverted_cdf"))
    return Late(float(seconds.mean()), p99_s, float(seconds.max()))


WHOLE_BATCHES = 32
"""Batches of a template at most that the whole model is run on."""


class Loaded(Protocol):
    """A plan, and the model as its parts were cut from it."""

    @property
    def plan(self) -> Plan:
        """Of one replica."""

    @property
    def model(self) -> Model:
        """Its large weights lie in files."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """How many answers were compared, and with what.

    Attributes
    ----------
    answered : int
        Requests.
    compared : int
        Of these, those whose outputs were kept and compared with the whole model's on the request
        alone.
    alone : int
        Those of them that are equal to it, bit for bit.
    batches : int
        Batches that were not, and whose outputs were compared with the whole model's on the same
        batch: kernels of other shapes may add in another order.
    mismatches : tuple of str
        What differs from the whole model's on the same inputs, each batch once.
    """

    answered: int
    compared: int
    alone: int
    batches: int
    mismatches: tuple[str, ...]


def compared(
    batches: Sequence[Batch],
    runs: Sequence[Runs],
    plans: Sequence[Loaded],
    answered: int,
    roundings: Sequence[Rounding] | None = None,
) -> Outputs:
    """Compare what batches gave with what the whole model gives.

    A request is to equal the whole model's answer; else its batch the whole model's on the batch,
    as far as the tolerance of its devices. `roundings`: what each node computes in. The whole model
    runs once for each set of inputs, and up to WHOLE_BATCHES times for batches of each template.
    """
    opened: dict[int, CompiledSubgraph] = {}
    answers: dict[tuple[int, int], dict[str, Any]] = {}

    def whole(model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
        if id(model) not in opened:
            opened[id(model)] = whole_model(model, roundings)
        return opened[id(model)].run(inputs)

    models = {id(one.plan.problem.model): one.model for one in plans}
    count = alone = again = 0
    seen: dict[int, int] = {}
    mismatches = []
    for batch in batches:
        one, how = runs[batch.template], runs[batch.template].batching
        model = models[id(one.sort.alone)]
        equal = True
        for request, found in zip(
            batch.requests, how.split(batch.outputs, len(batch.requests)), strict=True
        ):
            at = request % len(one.sort.sets)
            key = id(one.sort), at
            if key not in answers:
                answers[key] = whole(model, one.sort.sets[at])
            wanted = {name: value for name, value in answers[key].items() if name in found}
            same = not differences(found, wanted)
            count += 1
            alone += same
            equal = equal and same
        if equal and None not in how.outputs.values():
            continue
        tolerance = tolerance_of(plans[batch.template].plan)
        if how.size == 1:
            wanted = answers[id(one.sort), batch.requests[0] % len(one.sort.sets)]
        else:
            if seen.get(batch.template, 0) >= WHOLE_BATCHES:
                continue
            seen[batch.template] = seen.get(batch.template, 0) + 1
            again += 1
            inputs = how.joined([one.sort.of(request) for request in batch.requests])
            wanted = whole(plans[batch.template].model, inputs)
        told = judged(batch.outputs, wanted, tolerance).mismatches
        if told:
            where = f"{one.sort.about}, batch {batch.number} of {len(batch.requests)}"
            mismatches.append(f"{where}: {'; '.join(told)}")
    return Outputs(answered, count, alone, again, tuple(mismatches))


LATE_SHARE = 0.05
"""Of latencies, and of devices' time: what of it may be this machine's own lateness."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadTest:
    """What became of a workload for real, beside what was simulated of the same arrivals.

    Attributes
    ----------
    measured, simulated : Service
        In seconds of the workload. A measured latency is from when a request was due until its
        outputs were here; of what is not emulated, service is what a batch took alone before the
        run, and links took no time of their own.
    emulated : bool
        Whether devices and links took their modelled time; else devices took what this
        machine's kernels take.
    time_scale : float
        Real seconds that a second of the workload lasted.
    host : Host
        How this machine kept up.
    outputs : Outputs or None
        Whether answers are right; None where not asked for.
    executor : str
        ``ray`` or ``threads``.
    start_s : float
        Real seconds until every device was ready.
    """

    measured: Service = field(repr=False)
    simulated: Service = field(repr=False)
    emulated: bool
    time_scale: float
    host: Host
    outputs: Outputs | None
    executor: str
    start_s: float
