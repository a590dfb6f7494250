"""Networks measured one after the other, within a budget of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hetsim.base.machine import memory_bytes
from hetsim.calibration.journal import Journal
from hetsim.calibration.record import Setting, taken
from hetsim.calibration.tasks import Task
from hetsim.device.kernels.timing import provider_of, time_network
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.model import Model

RUNS = 15
_MOST_S = 0.35
_MOST_JUDGED_S = 1.0
_PART_OF_MEMORY = 0.2


@dataclass(frozen=True, slots=True)
class Progress:
    """How far measuring is: what is measured now, how many are, and seconds left."""

    network: str
    measured: int
    left_s: float


def measure(
    tasks: Iterable[tuple[int, Task]],
    journal: Journal,
    setting: Setting,
    budget_s: float,
    report: Callable[[Progress], None],
    *,
    fewest: int,
) -> bool:
    """Measure what the journal does not have yet, until the budget is used up or all is there.

    Parameters
    ----------
    tasks : iterable of (round, Task)
    journal : Journal
        Each measurement is added to it at once.
    setting : Setting
    budget_s : float
        Of this call, by the wall clock. It ends no earlier than `fewest` measurements in all.
    report : callable

    Returns
    -------
    bool
        Whether all tasks were done.
    """
    provider = provider_of(setting.provider)
    begin = time.monotonic()
    for round_, task in tasks:
        left_s = budget_s - (time.monotonic() - begin)
        if left_s <= 0 and len(journal) >= fewest:
            return False
        if (task.name, round_) in journal:
            continue
        report(Progress(task.name, len(journal), max(left_s, 0.0)))
        model = task.load()
        if _weight_bytes(model) > _PART_OF_MEMORY * memory_bytes():
            continue
        timed = time_network(
            model.proto.SerializeToString(),
            random_inputs(model),
            provider,
            setting.threads,
            runs=RUNS,
            most_s=_MOST_S if task.fitted else _MOST_JUDGED_S,
            weights_dir=None if model.weights_dir is None else str(model.weights_dir),
            profiled=setting.clock == "cpu" and task.fitted,
        )
        journal.add(taken(task.name, round_, timed, setting))
    return True


def _weight_bytes(model: Model) -> int:
    return sum(model.graph.tensors[name].nbytes for name in model.graph.constants)
