"""Which instances of models stand while devices fail, and which get batches.

An instance is *gone* where some of its plans run on a device that never comes back, *down* where
on one that is to come back, and *stands* otherwise. Batches go to those that stand; where none of
a model does, to those that are down, and wait there for their devices; where all are gone, they
are planned again on what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hetsim.plans.plan import Plan
from hetsim.problem.parts import Contention
from hetsim.simulation.failures.remaining import Version
from hetsim.simulation.serving.setup import Model

Replan = Callable[[Plan, tuple[str, ...]], Plan]


class Standing:
    """The instances of all models, and what their batches run.

    Parameters
    ----------
    plans : sequence of Plan
        By template of `models`.
    models : sequence of Model
    contention : "fifo" or "none"
    replan : callable
        Gives a plan without the devices that it is told.

    Attributes
    ----------
    versions : list of Version
        By template: what runs in its place from now on.
    instances : list of list of int
        By model, its instances, numbered over all models.
    stopped, down : list of bool
        By device: whether it runs nothing; whether that is known.
    lost : list of str
        Devices that never come back.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        models: Sequence[Model],
        contention: Contention,
        replan: Replan,
    ) -> None:
        self._plans = plans
        self._contention: Contention = contention
        self._replan = replan
        self._names = plans[0].problem.devices
        self.versions = [Version(plan, 0, contention) for plan in plans]
        self._replanned = 0
        self._templates: list[list[int]] = []
        self.instances: list[list[int]] = []
        for model in models:
            mine = [
                np.unique(model.template[:, instance]).tolist()
                for instance in range(model.template.shape[1])
            ]
            first = len(self._templates)
            self.instances.append(list(range(first, first + len(mine))))
            self._templates += mine
        self._uses = [self._used(instance) for instance in range(len(self._templates))]
        self.stopped = [False] * len(self._names)
        self.down = [False] * len(self._names)
        self.lost: list[str] = []

    def gone(self, instance: int) -> bool:
        """Whether an instance never works again as it is."""
        return any(self._names[device] in self.lost for device in self._uses[instance])

    def lose(self, device: int) -> list[int]:
        """Take a device for lost; return templates that run by other plans from now on.

        Raises
        ------
        Infeasible
            Where no device is left that can do the work.
        """
        self.lost.append(self._names[device])
        changed: list[int] = []
        for instances in self.instances:
            if not all(self.gone(instance) for instance in instances):
                continue
            for instance in instances:
                for template in self._templates[instance]:
                    if self._lacks(template):
                        plan = self._replan(self._plans[template], tuple(self.lost))
                        self._replanned += 1
                        self.versions[template] = Version(plan, self._replanned, self._contention)
                        changed.append(template)
                self._uses[instance] = self._used(instance)
        return changed

    def taking(self, model: int) -> list[int]:
        """Return the instances of a model that get batches."""
        alive = [instance for instance in self.instances[model] if not self.gone(instance)]
        up = [instance for instance in alive if not self._meets(instance, self.down)]
        return up or alive

    def serves(self, model: int) -> bool:
        """Whether some instance of a model works."""
        return any(
            not self.gone(instance) and not self._meets(instance, self.stopped)
            for instance in self.instances[model]
        )

    def whole(self, model: int) -> bool:
        """Whether all instances of a model work that it still has."""
        return all(
            not self._meets(instance, self.stopped)
            for instance in self.instances[model]
            if not self.gone(instance)
        )

    def _lacks(self, template: int) -> bool:
        used = self._devices_of(template)
        return any(self._names[device] in self.lost for device in used)

    def _meets(self, instance: int, which: Sequence[bool]) -> bool:
        return any(which[device] for device in self._uses[instance])

    def _used(self, instance: int) -> set[int]:
        return {
            device
            for template in self._templates[instance]
            for device in self._devices_of(template)
        }

    def _devices_of(self, template: int) -> set[int]:
        tasks = self.versions[template].plan_tasks
        return {device for one in tasks.templates for device in one.group_device}
