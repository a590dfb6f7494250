"""Strategies without search: ``single``, ``multi``, ``hetero`` and ``pipeline``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from hetsim.errors import UnsupportedNode, UsageError, all_refused
from hetsim.partitioning.deconflict import default_priority, device_order, parse_priority
from hetsim.partitioning.flow import partition
from hetsim.partitioning.regions import annotate, unsupported
from hetsim.placement.constraints import Constrained, only_devices
from hetsim.placement.initial_plans import plan_alone, whole_models
from hetsim.placement.objective import latency_of
from hetsim.placement.replicas import fitting
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Single:
    """The whole model on one device: the named one, or the fastest.

    Attributes
    ----------
    device : str
        Empty: the device that is fastest alone.
    """

    promises: ClassVar = ("latency",)
    argument: ClassVar = "[:DEVICE]"

    device: str = ""

    @classmethod
    def parse(cls, argument: str) -> Single:
        """Read ``single`` or ``single:DEVICE``."""
        return cls(argument.strip())

    def solve(self, problem: Problem) -> Plan:
        """Return the plan; O(n P) and one simulation a device."""
        if self.device:
            return plan_alone(problem, problem.device_index(self.device))
        plans, refused = whole_models(problem, range(len(problem.devices)), "latency")
        if not plans:
            raise all_refused(
                "no device can run the whole model: " + "; ".join(map(str, refused)), refused
            )
        return min(plans, key=latency_of)


@dataclass(frozen=True, slots=True)
class Multi(Constrained):
    """For throughput: a replica of the whole model on each of several devices.

    Shares are those of ``replicas.best_counts``: with unlike devices the faster one gets more, and
    one that is too slow to help gets none. With one request in flight the copies do nothing
    for latency.

    Attributes
    ----------
    devices : tuple of str
        Device names; ``gpu`` stands for all of ``gpu.0``, ``gpu.1``. Empty: all devices that
        can run the whole model.

    Source: OpenVINO, the MULTI device plugin, which deals by whoever is idle; here the deal is
    part of the plan.
    """

    promises: ClassVar = ("throughput", "replicas")
    argument: ClassVar = "[:DEVICE,DEVICE,...]"

    devices: tuple[str, ...] = ()

    # What ``within`` closes devices by; ``compare`` has nothing to set.
    objective = "throughput"

    @classmethod
    def parse(cls, argument: str) -> Multi:
        """Read ``multi`` or ``multi:DEVICE,DEVICE,...``."""
        return cls(devices=parse_priority(argument) if argument.strip() else ())

    def _solve(self, problem: Problem) -> Plan:
        order = device_order(problem, self.devices) if self.devices else range(len(problem.devices))
        copies, refused = whole_models(problem, order)
        if refused and (self.devices or not copies):
            raise refused[0]
        if not copies:
            raise UnsupportedNode("there is no device", where=problem.name)
        name = f"multi:{','.join(self.devices)}" if self.devices else "multi"
        return fitting(copies, strategy=name, what="a copy of the whole model on each of")


@dataclass(frozen=True, slots=True)
class Listed(Constrained):
    """Strategy over a priority list of devices.

    Attributes
    ----------
    priority : tuple of str
        Device names; empty: all devices of the platform in its order, the host last.
    """

    argument: ClassVar = "[:DEVICE,DEVICE,...]"

    priority: tuple[str, ...] = ()

    @classmethod
    def parse(cls, argument: str) -> Self:
        """Read ``NAME`` or ``NAME:DEVICE,DEVICE,...``."""
        return cls(priority=parse_priority(argument) if argument.strip() else ())

    def open_to(self, problem: Problem) -> Problem:
        """Return the problem on the devices of the list, where there is one."""
        return only_devices(problem, self.priority)


@dataclass(frozen=True, slots=True)
class Hetero(Listed):
    """Each node on the first device of a priority list that supports it.

    Attributes
    ----------
    method : str
        Merge method that makes groups of nodes on one device.

    Source: OpenVINO, HETERO execution (query by priority, then split by affinity).
    """

    method: str = "compact"

    def _solve(self, problem: Problem) -> Plan:
        order = self.priority or default_priority(problem)
        groups = partition(problem, self.method, priority=order).groups
        name = f"hetero:{','.join(self.priority)}" if self.priority else "hetero"
        return Plan(problem, name, groups, f"first of {' > '.join(order)} that supports each node")


HEADROOM = 1.2
"""Ratio of a device's memory to the weights placed on it."""

LEAST, MOST = 0.95, 1.05
"""Shares of the wanted bytes between which a cut is searched."""


@dataclass(frozen=True, slots=True)
class Pipeline(Listed):
    """Stages from the front of the model, each as large as its device's memory allows.

    Source: OpenVINO, HETERO execution, model distribution policy PIPELINE_PARALLEL.
    """

    needs: ClassVar = ("memory capacities of the devices",)

    def _solve(self, problem: Problem) -> Plan:
        order = device_order(problem, self.priority or None)
        assignment = split(problem, order)
        groups = partition(problem, assignment=assignment).groups
        name = f"pipeline:{','.join(self.priority)}" if self.priority else "pipeline"
        stages = " > ".join(problem.devices[device] for device in order)
        return Plan(problem, name, groups, f"stages by memory over {stages}")


def split(problem: Problem, order: Sequence[int]) -> list[int]:
    """Return the device of each node."""
    capacity = problem.capacity_bytes
    if capacity is None:
        raise UsageError(f"{problem.name} has no memory capacities to split by")
    discrete = [device for device in order if device != problem.host]
    room = sum(capacity[device] for device in discrete)
    assignment = [-1] * problem.n
    left = list(range(problem.n))
    for place, device in enumerate(order):
        placed = [0, *_placed(problem, left)]
        need = HEADROOM * placed[-1]
        taken = len(left)
        if place < len(order) - 1 and capacity[device] < need:
            enough = room >= need or problem.host in order[place:]
            wanted = placed[-1] * capacity[device] / (need if enough else max(room, 1))
            taken = _cut(problem, left, placed, min(wanted, float(placed[-1])))
        chosen = [v for v in left[:taken] if problem.supported[v, device]]
        for v in chosen:
            assignment[v] = device
        left = [v for v in left if assignment[v] < 0]
        room -= capacity[device] if device in discrete else 0
    if left:
        regions = annotate(problem)
        raise unsupported(
            problem,
            "none of the listed devices supports it: "
            + "; ".join(regions.reason(left[0], d) for d in order),
            left,
            order,
            hint="end the list of devices with one that supports all nodes, such as the host",
        )
    return assignment


def _placed(problem: Problem, nodes: Sequence[int]) -> list[int]:
    """Return by number of leading `nodes` the total bytes of their constants."""
    seen: set[int] = set()
    total = 0
    found: list[int] = []
    for node in nodes:
        fresh = [c for c in problem.constants_of[node] if c not in seen]
        seen.update(fresh)
        total += sum(problem.constants[c].nbytes for c in fresh)
        found.append(total)
    return found


def _cut(problem: Problem, left: Sequence[int], placed: Sequence[int], wanted: float) -> int:
    """Return how many of `left` to take; `placed` gives bytes by that number."""
    inside = [k for k, n in enumerate(placed) if LEAST * wanted <= n <= MOST * wanted]
    if not inside:
        return max(k for k, n in enumerate(placed) if n <= wanted)
    crossing = _crossing(problem, left)
    return min(inside, key=lambda k: (crossing[k], k))


def _crossing(problem: Problem, left: Sequence[int]) -> list[int]:
    """Return by k the bytes of tensors from the first k of `left` to the rest."""
    place = {node: index for index, node in enumerate(left)}
    change = [0] * (len(left) + 2)
    for value in problem.values:
        if value.producer == GRAPH_INPUT or value.producer not in place:
            continue
        last = max((place[v] for v in value.consumers if v in place), default=-1)
        if last > place[value.producer]:
            change[place[value.producer] + 1] += value.nbytes
            change[last + 1] -= value.nbytes
    total, found = 0, []
    for step in change[: len(left) + 1]:
        total += step
        found.append(total)
    return found
