"""Strategies without search: ``single``, ``multi``, ``hetero`` and ``pipeline``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.errors import Infeasible, UnsupportedNode, UsageError, all_refused
from hetsim.partitioning.deconflict import default_priority, device_order, parse_priority
from hetsim.partitioning.flow import partition
from hetsim.partitioning.regions import annotate
from hetsim.placement.constraints import Constrained, only_devices
from hetsim.placement.objective import check_room
from hetsim.placement.replicas import fitting, whole_models
from hetsim.placement.starts import plan_alone
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import once


@dataclass(frozen=True, slots=True)
class Single:
    """One subgraph on one device; the baseline of every comparison.

    Attributes
    ----------
    device : str
        Empty: the device that is fastest alone.
    """

    device: str = ""

    @classmethod
    def parse(cls, argument: str) -> Single:
        """Read ``single`` or ``single:DEVICE``."""
        return cls(argument.strip())

    def solve(self, problem: Problem) -> Plan:
        """Return the plan; O(n P) and one simulation a device."""
        if self.device:
            return plan_alone(problem, problem.device_index(self.device))
        plans: list[tuple[float, int, Plan]] = []
        failures: list[Infeasible] = []
        for device in range(len(problem.devices)):
            try:
                plan = plan_alone(problem, device)
                check_room(plan)
                plans.append((once(plan).latency_s, device, plan))
            except Infeasible as error:
                failures.append(error)
        if not plans:
            raise all_refused(
                "no device can run the whole model: " + "; ".join(map(str, failures)), failures
            )
        return min(plans, key=lambda entry: entry[:2])[2]


@dataclass(frozen=True, slots=True)
class Multi(Constrained):
    """Replica of the whole model on each device; minimizes the busiest device's load.

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

    devices: tuple[str, ...] = ()

    # What ``within`` closes devices by; ``compare`` has nothing to set.
    objective = "throughput"

    @classmethod
    def parse(cls, argument: str) -> Multi:
        """Read ``multi`` or ``multi:DEVICE,DEVICE,...``."""
        return cls(devices=parse_priority(argument) if argument.strip() else ())

    def solve(self, problem: Problem) -> Plan:
        """Return the plan; O(n P), a simulation a device, and the deal."""
        return self.within(problem, self._solve)

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
class Hetero(Constrained):
    """Each node on the first device of a list that supports it; costs do not matter.

    Attributes
    ----------
    priority : tuple of str
        Device names; empty: all devices of the platform in its order, the host last.
    method : str
        Merge method that makes groups of nodes on one device.

    Source: OpenVINO, HETERO execution (query by priority, then split by affinity).
    """

    priority: tuple[str, ...] = ()
    method: str = "compact"

    @classmethod
    def parse(cls, argument: str) -> Hetero:
        """Read ``hetero`` or ``hetero:DEVICE,DEVICE,...``."""
        names = tuple(name.strip() for name in argument.split(",")) if argument.strip() else ()
        if any(not name for name in names):
            raise UsageError(
                f"empty device name in 'hetero:{argument}'", hint="write e.g. hetero:npu,gpu,cpu"
            )
        if len(set(names)) != len(names):
            raise UsageError(
                f"a device appears twice in 'hetero:{argument}'", hint="name each once"
            )
        return cls(priority=names)

    def solve(self, problem: Problem) -> Plan:
        """Return the plan; O(n P) and the merge method."""
        return self.within(problem, self._solve)

    def open_to(self, problem: Problem) -> Problem:
        """Return the problem on the devices of the list, where there is one."""
        return only_devices(problem, self.priority)

    def _solve(self, problem: Problem) -> Plan:
        order = self.priority or default_priority(problem)
        groups = partition(problem, self.method, priority=order).groups
        name = f"hetero:{','.join(self.priority)}" if self.priority else "hetero"
        return Plan(problem, name, groups, f"first of {' > '.join(order)} that supports each node")


HEADROOM = 1.2
"""Memory that a device needs for the weights it gets, over their bytes."""

LEAST, MOST = 0.95, 1.05
"""A cut may be looked for where this part of the wanted bytes is placed."""


@dataclass(frozen=True, slots=True)
class Pipeline(Constrained):
    """Contiguous stages from the front, one per device, by its share of memory.

    Attributes
    ----------
    priority : tuple of str
        Device names; empty: all devices of the platform in its order, the host last.

    Source: OpenVINO, HETERO execution, model distribution policy PIPELINE_PARALLEL.
    """

    priority: tuple[str, ...] = ()

    @classmethod
    def parse(cls, argument: str) -> Pipeline:
        """Read ``pipeline`` or ``pipeline:DEVICE,DEVICE,...``."""
        return cls(priority=parse_priority(argument) if argument.strip() else ())

    def solve(self, problem: Problem) -> Plan:
        """Return the plan; O(P (V + E)) and the merge."""
        return self.within(problem, self._solve)

    def open_to(self, problem: Problem) -> Problem:
        """Return the problem on the devices of the list, where there is one."""
        return only_devices(problem, self.priority)

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
        raise UnsupportedNode(
            "none of the listed devices supports it: "
            + "; ".join(regions.reason(left[0], d) for d in order),
            where=f"node '{problem.node_names[left[0]]}' ({problem.op_types[left[0]]})",
            hint="end the list of devices with one that supports all nodes, such as the host",
            nodes=tuple(problem.node_names[v] for v in left),
            ops=tuple(dict.fromkeys(problem.op_types[v] for v in left)),
            devices=tuple(problem.devices[d] for d in order),
        )
    return assignment


def _placed(problem: Problem, nodes: Sequence[int]) -> list[int]:
    """Bytes of constants that are placed with each of `nodes`, those before it included."""
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
    """How many of `left` to take; `placed` is by that number."""
    inside = [k for k, n in enumerate(placed) if LEAST * wanted <= n <= MOST * wanted]
    if not inside:
        return max(k for k, n in enumerate(placed) if n <= wanted)
    crossing = _crossing(problem, left)
    return min(inside, key=lambda k: (crossing[k], k))


def _crossing(problem: Problem, left: Sequence[int]) -> list[int]:
    """Bytes that lead from the first k of `left` to the rest, by k."""
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
