"""Resolution of overlapping regions: one device for every node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hetsim.core import checks
from hetsim.errors import UnsupportedNode, UsageError, nearest
from hetsim.graph.dag import Contraction
from hetsim.hardware.spec import numbered
from hetsim.partitioning.regions import Region, Regions, unsupported
from hetsim.problem.parts import FusedKernel
from hetsim.problem.problem import Problem

Choose = Callable[[int, tuple[Region, ...]], str | None]
"""Function from a node and the regions of several devices that hold it to the device that gets it,
or None to decide by priority."""

BY_MEMORY = "by-memory"
"""Special priority: devices by descending memory capacity."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Composite region that its device did not get, and the reason."""

    region: Region
    reason: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """Disjoint regions that cover every node.

    Attributes
    ----------
    order : tuple of int
        Device indices in order of priority; the last one is the default device.
    assignment : tuple of int
        Device index by node.
    atoms : tuple of tuple of int
        Regions of several nodes that were kept, which no group may split. All of them can be
        contracted together without closing a cycle.
    dropped : tuple of Dropped
        Dropped regions in the order of trial.
    """

    order: tuple[int, ...]
    assignment: tuple[int, ...]
    atoms: tuple[tuple[int, ...], ...] = ()
    dropped: tuple[Dropped, ...] = ()

    def check(self, problem: Problem) -> None:
        """Raise InvalidInput unless it belongs to `problem` and places every node."""
        devices = checks.whole(0, len(problem.devices) - 1)
        node = checks.whole(0, problem.n - 1)
        checks.sequence(devices, length=problem.n)(self.assignment, "resolution.assignment")
        checks.sequence(checks.sequence(node))(self.atoms, "resolution.atoms")


def device_order(problem: Problem, priority: Sequence[str] | str | None = None) -> tuple[int, ...]:
    """Return the device indices of a priority, first to last.

    Parameters
    ----------
    problem : Problem
    priority : sequence of str, str or None
        Device names; or a text ``npu >> gpu >> cpu`` or ``npu,gpu,cpu``; or ``by-memory``: largest
        memory first. None: all devices in the platform's order, the host last. ``gpu`` stands for
        all of ``gpu.0``, ``gpu.1`` that are not named individually.

    Raises
    ------
    UsageError
        For an unknown, empty or repeated name, or ``by-memory`` without capacities.
    """
    if priority is None:
        return tuple(problem.device_index(name) for name in default_priority(problem))
    if priority == BY_MEMORY and BY_MEMORY not in problem.devices:
        capacity = problem.capacity_bytes
        if capacity is None:
            raise UsageError(f"{problem.name} has no memory capacities, which {BY_MEMORY} needs")
        own = [problem.held_bytes(device, nbytes) for device, nbytes in enumerate(capacity)]
        return tuple(sorted(range(len(own)), key=lambda device: (-own[device], device)))
    names = parse_priority(priority) if isinstance(priority, str) else _different(tuple(priority))
    found: dict[int, None] = {}
    for name in names:
        alike = () if name in problem.devices else numbered(name, problem.devices)
        others = (problem.devices.index(one) for one in alike if one not in names)
        found.update(dict.fromkeys(others if alike else (problem.device_index(name),)))
    return tuple(found)


def parse_priority(text: str, where: str | None = None) -> tuple[str, ...]:
    """Return the devices of ``npu >> gpu >> cpu`` or ``npu,gpu,cpu``.

    Raises UsageError for an empty name, or one that appears twice.
    """
    names = text.split(">>" if ">>" in text else ",")
    return _different(tuple(name.strip() for name in names), where)


def _different(names: tuple[str, ...], where: str | None = None) -> tuple[str, ...]:
    if not names or not all(names) or len(set(names)) != len(names):
        raise UsageError(
            f"'{', '.join(names)}' is not a list of different devices",
            where=where,
            hint="write e.g. npu,gpu,cpu or npu >> gpu >> cpu",
        )
    return names


def default_priority(problem: Problem) -> tuple[str, ...]:
    """Return all devices in the platform's order, the host last."""
    names = list(problem.devices)
    if problem.host is not None:
        names.append(names.pop(problem.host))
    return tuple(names)


@checks.takes(
    regions=checks.instance("hetsim.partitioning.regions:Regions"),
    priority=checks.either(checks.text, checks.sequence(checks.text)),
    choose=checks.function,
)
def deconflict(
    regions: Regions,
    priority: Sequence[str] | str | None = None,
    *,
    choose: Choose | None = None,
) -> Resolution:
    """Return the resolution that gives every node to the first device offering it; see ``resolve``.

    `priority` as in ``device_order``.
    """
    return resolve(regions, device_order(regions.problem, priority), choose=choose)


def resolve(
    regions: Regions,
    order: Sequence[int],
    *,
    pins: Mapping[int, int] | None = None,
    choose: Choose | None = None,
) -> Resolution:
    """Return the resolution of overlaps in favour of the first device in `order`.

    A composite region that loses a node, or that cannot be contracted together with those kept
    before it, is dropped; its members are then offered as single nodes.

    Parameters
    ----------
    regions : Regions
    order : sequence of int
        Device indices, first to last.
    pins : mapping of int to int, optional
        Device by node; takes precedence, also with devices not in `order`.
    choose : callable, optional
        Called for every node without a pin that is in regions of several devices of `order`. If its
        device cannot get the node in the end, priority decides.

    Raises
    ------
    UnsupportedNode
        For a node that its pin's device, or every device of `order`, does not support, with each
        device's reason.
    UsageError
        If `choose` returns a device that does not offer the node.

    Complexity: O(n P), and a bounded search per composite. Source: TVM RFC, An extended graph
    partitioning flow, step 2.
    """
    pinned = dict(pins or {})
    for node, device in pinned.items():
        if not regions.alone[node, device] and regions.composite_at(node, device) is None:
            raise _unpinned(regions, node, device, ())
    wished = dict(pinned)
    if choose is not None:
        wished.update(_chosen(regions, order, pinned, choose))
    state = _State(regions, wished)
    asked = [*order, *sorted(set(pinned.values()).difference(order))]
    composites = [[k for k in regions.composites if k.device == device] for device in asked]
    for device, kernels in zip(asked, composites, strict=True):
        for kernel in kernels:
            # Required and supported only by it: no other device may split it.
            if any(wished.get(v) == device and not regions.alone[v, device] for v in kernel.nodes):
                state.offer(kernel)
    for device, kernels in zip(asked, composites, strict=True):
        if device in order:
            for kernel in kernels:
                state.offer(kernel)
        state.offer_singles(device, listed=device in order)
    for node, device in pinned.items():
        if state.device_of[node] != device:
            raise _unpinned(regions, node, device, state.dropped)
    state.wished = {}
    for device in order:
        state.offer_singles(device, listed=True)
    left = np.flatnonzero(state.device_of < 0)
    if left.size:
        raise _unsupported(regions, order, int(left[0]), state.dropped)
    return Resolution(
        tuple(order),
        tuple(state.device_of.tolist()),
        tuple(sorted(state.atoms)),
        tuple(state.dropped),
    )


class _State:
    """Assignment state during resolution."""

    def __init__(self, regions: Regions, wished: Mapping[int, int]) -> None:
        self.regions = regions
        self.wished = wished
        self.device_of = np.full(regions.problem.n, -1, dtype=np.int64)
        self.atoms: list[tuple[int, ...]] = []
        self.dropped: list[Dropped] = []
        self._tried: set[FusedKernel] = set()
        self._contraction: Contraction | None = None

    def offer(self, kernel: FusedKernel) -> None:
        """Assign a composite to its device unless a member is taken or a cycle would close."""
        if kernel in self._tried:
            return
        self._tried.add(kernel)
        reason = self._loss(kernel)
        if reason is None:
            if self._contraction is None:
                self._contraction = Contraction(self.regions.problem.dag)
            path = self._contraction.cycle(kernel.nodes)
            if not path:
                self._contraction.add(kernel.nodes)
                self.atoms.append(kernel.nodes)
                self.device_of[list(kernel.nodes)] = kernel.device
                return
            names = " > ".join(self.regions.problem.node_names[node] for node in path)
            reason = f"as a whole it would depend on its own output through {names}"
        name = self.regions.problem.devices[kernel.device]
        self.dropped.append(Dropped(Region(name, kernel.nodes, kernel.pattern), reason))

    def offer_singles(self, device: int, *, listed: bool) -> None:
        """Assign to a device the free nodes that it supports individually and others do not claim.

        A device not in the list gets only the nodes chosen for it.
        """
        taken = self.regions.alone[:, device] & (self.device_of < 0)
        if listed:
            for node, wish in self.wished.items():
                taken[node] &= wish == device
        else:
            asked = [node for node, wish in self.wished.items() if wish == device and taken[node]]
            taken[:] = False
            taken[asked] = True
        self.device_of[taken] = device

    def _loss(self, kernel: FusedKernel) -> str | None:
        problem = self.regions.problem
        for node in kernel.nodes:
            holder = int(self.device_of[node])
            if holder < 0:
                holder = self.wished.get(node, kernel.device)
                if holder == kernel.device:
                    continue
            return f"'{problem.node_names[node]}' went to {problem.devices[holder]}"
        return None


def _chosen(
    regions: Regions, order: Sequence[int], pinned: Mapping[int, int], choose: Choose
) -> dict[int, int]:
    problem = regions.problem
    listed = set(order)
    composite: dict[int, list[FusedKernel]] = {}
    for kernel in regions.composites:
        if kernel.device in listed:
            for node in kernel.nodes:
                composite.setdefault(node, []).append(kernel)
    wishes: dict[int, int] = {}
    for node in range(problem.n):
        offers = tuple(
            Region(problem.devices[kernel.device], kernel.nodes, kernel.pattern)
            for kernel in composite.get(node, ())
        ) + tuple(
            Region(problem.devices[device], (node,))
            for device in order
            if regions.alone[node, device]
        )
        names = list(dict.fromkeys(region.device for region in offers))
        if node in pinned or len(names) < 2:
            continue
        name = choose(node, offers)
        if name is None:
            continue
        if name not in names:
            if not isinstance(name, str):
                raise checks.refused("what the de-conflict callable answers", name, "a device")
            raise UsageError(
                f"the de-conflict callable returns '{name}', which does not support "
                f"'{problem.node_names[node]}'",
                hint=nearest(name, names),
            )
        wishes[node] = problem.device_index(name)
    return wishes


def _unpinned(
    regions: Regions, node: int, device: int, dropped: Sequence[Dropped]
) -> UnsupportedNode:
    problem = regions.problem
    lost = _lost(regions, node, device, dropped)
    able = list(dict.fromkeys(region.device for region in regions.holding(node)))
    return unsupported(
        problem,
        f"it is pinned to '{problem.devices[device]}', which does not support it: "
        f"{regions.reason(node, device)}{lost}",
        (node,),
        (device,),
        hint=f"pin it to {' or '.join(able)}" if able else None,
    )


def _unsupported(
    regions: Regions, order: Sequence[int], node: int, dropped: Sequence[Dropped]
) -> UnsupportedNode:
    problem = regions.problem
    return unsupported(
        problem,
        f"no device of {', '.join(problem.devices[d] for d in order)} supports it: "
        + "; ".join(
            regions.reason(node, device) + _lost(regions, node, device, dropped) for device in order
        ),
        (node,),
        order,
        hint="add a device that supports it, such as the host, to the priority list",
    )


def _lost(regions: Regions, node: int, device: int, dropped: Sequence[Dropped]) -> str:
    name = regions.problem.devices[device]
    for entry in dropped:
        if entry.region.device == name and node in entry.region.nodes:
            return f" (pattern '{entry.region.pattern}': {entry.reason})"
    return ""
