"""Whether the answers of a run under load are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hetsim.execution.devices.program import tolerance_of
from hetsim.execution.equality import differences, judged
from hetsim.execution.run import whole_model
from hetsim.execution.serving.kept import Batch
from hetsim.execution.serving.requests import Runs

if TYPE_CHECKING:
    from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
    from hetsim.device.kernels.precision import Rounding
    from hetsim.graph.model import Model
    from hetsim.plans.plan import Plan

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

    A request that ran alone is to be equal to the whole model's answer; one in a batch to that,
    or else the batch to the whole model's on the batch, as far as the kernels of its devices are
    ONNX Runtime's own. `roundings`: what each node computes in; absent: the types of the graph.

    Complexity: the whole model once for each set of inputs, and up to WHOLE_BATCHES times for
    batches of each template.
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
