"""Verb ``partition``: annotate, resolve conflicts, merge, apply the size rules, and check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hetsim.core import checks
from hetsim.errors import InvalidInput, UsageError
from hetsim.graph.dag import Contraction
from hetsim.partitioning.affinity import Affinity, Exclusion, ResolvedAffinity, with_wishes
from hetsim.partitioning.deconflict import Choose, Resolution, device_order, resolve
from hetsim.partitioning.housekeeping import Housekeeping, follow, strip
from hetsim.partitioning.methods.registry import MethodInfo, merge, method_named
from hetsim.partitioning.partition import Partition
from hetsim.partitioning.regions import Quotient, Regions, annotate, unsupported
from hetsim.partitioning.sizes import SizeRules, check_weights, cut, drops
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.parts import FusedKernel
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    method=checks.text,
    resolution=checks.instance("hetsim.partitioning.deconflict:Resolution"),
    regions=checks.instance("hetsim.partitioning.regions:Regions"),
    priority=checks.either(checks.text, checks.sequence(checks.text)),
    affinity=checks.instance("hetsim.partitioning.affinity:Affinity"),
    pins=checks.mapping(checks.text, checks.text),
    exclude=checks.sequence(checks.instance("hetsim.partitioning.affinity:Exclusion")),
    choose=checks.function,
    housekeeping=checks.instance("hetsim.partitioning.housekeeping:Housekeeping"),
    sizes=checks.instance("hetsim.partitioning.sizes:SizeRules"),
    rank=checks.sequence(checks.number()),
)
def partition(
    problem: Problem,
    method: str = "compact",
    *,
    assignment: Sequence[int] | None = None,
    resolution: Resolution | None = None,
    regions: Regions | None = None,
    priority: Sequence[str] | str | None = None,
    affinity: Affinity | None = None,
    pins: Mapping[str, str] | None = None,
    exclude: Sequence[Exclusion] = (),
    choose: Choose | None = None,
    housekeeping: Housekeeping | None = None,
    sizes: SizeRules | None = None,
    rank: Sequence[float] | None = None,
) -> Partition:
    """Return a partition of the graph into groups that each run on one device.

    Parameters
    ----------
    problem : Problem
    method : str
        One of ``methods()``.
    assignment : sequence of int, optional
        Device index by node: only merging remains.
    resolution : Resolution, optional
        Resolution from ``deconflict``: only merging remains.
    regions : Regions, optional
        Regions from ``annotate``, possibly reduced. Absent: all that devices support.
    priority : sequence of str or str, optional
        Device names, or a text as in ``deconflict.device_order``; a region goes to the first that
        supports it. Absent: that of `affinity`, else all devices, the host last.
    affinity : Affinity, optional
        Pins, exclusions, and a default device.
    pins : mapping of str to str, optional
        Device by node, as in an Affinity.
    exclude : sequence of Exclusion, optional
        Nodes that a device must not run, as in an Affinity.
    choose : callable, optional
        Function that selects one of several devices for a node; see ``deconflict``.
    housekeeping : Housekeeping, optional
        Treatment of nodes without compute. Absent: like all other nodes.
    sizes : SizeRules, optional
        Size rules; groups that break one are offered to the next device of `priority`.
    rank : sequence of float, optional
        Priority by node among groups that could run next, smaller first.

    Raises
    ------
    UsageError
        For an unknown method, device or node, or incompatible options.
    UnsupportedNode
        If a node's device does not support it, or no device does.
    OutOfMemory
        If weights must fit and do not.
    """
    info = method_named(method)
    given = {
        "regions": regions, "priority": priority, "affinity": affinity, "pins": pins,
        "exclude": exclude or None, "choose": choose,
        "housekeeping": housekeeping, "sizes": sizes,
    }  # fmt: skip
    if assignment is not None or resolution is not None:
        used = [name for name, value in given.items() if value is not None]
        if used or (assignment is not None and resolution is not None):
            raise UsageError(
                f"{' and '.join(used or ['resolution'])} cannot change a given assignment",
                hint="omit 'assignment' and 'resolution', or the others",
            )
    if rank is not None and len(rank) != problem.n:
        raise InvalidInput(f"rank has {len(rank)} entries for {problem.n} nodes")
    asked: ResolvedAffinity | None = None
    if assignment is not None:
        resolution = as_resolution(problem, assignment)
    elif resolution is not None:
        resolution.check(problem)
    if resolution is not None:
        quotient = Quotient.of(problem.dag, resolution.atoms)
        labels, told = merge(info, problem, quotient, resolution.assignment, resolution.order)
        made = _Made(resolution.assignment, labels, told, {}, {})
    else:
        wished = with_wishes(affinity, pins, exclude)
        asked = wished.on(problem) if wished is not None else None
        if priority is None and asked is not None:
            priority = asked.priority
        order = device_order(problem, priority)
        if asked is not None and asked.default is not None:
            order = (*(device for device in order if device != asked.default), asked.default)
        offered = annotate(problem) if regions is None else regions
        if offered.problem is not problem and offered.problem.fingerprint != problem.fingerprint:
            raise InvalidInput(
                f"the regions belong to another problem, '{offered.problem.name}'",
                hint="annotate this problem",
            )
        if asked is not None:
            offered = asked.restrict(offered, order[-1])
        if info.needs_default:
            _check_default(offered, order, method)
        made = _made(
            info,
            offered,
            order,
            asked.pins if asked else {},
            choose,
            housekeeping or Housekeeping(),
            sizes or SizeRules(),
        )
    parts = order_groups(problem.dag, made.labels, rank)
    if parts is None:
        raise AssertionError(f"method '{method}' returned a cyclic partition")
    groups = as_groups(parts, made.assignment, problem.devices)
    check(problem, groups, connected=info.connected, typed=True, where=f"method '{method}'")
    notes = (*made.notes, *asked.notes) if asked is not None else made.notes
    return Partition(groups, method, notes, made.left, problem, made.withdrawn)


def as_resolution(problem: Problem, assignment: Sequence[int]) -> Resolution:
    """Return an assignment as a resolution; composites that are whole on a device stay whole.

    Raises UnsupportedNode if a device supports a node neither individually nor in one of these.
    """
    device = checks.whole(0, len(problem.devices) - 1)
    checks.sequence(device, length=problem.n)(assignment, "assignment")
    assignment = [int(device) for device in assignment]
    state = Contraction(problem.dag)
    atoms: list[tuple[int, ...]] = []
    whole = [k for k in problem.composites if all(assignment[v] == k.device for v in k.nodes)]
    held = np.zeros(problem.n, dtype=np.bool_)
    for needed in (True, False):
        for kernel in whole:
            optional = bool(problem.supported[list(kernel.nodes), kernel.device].all())
            if optional != needed and not state.cycle(kernel.nodes):
                state.add(kernel.nodes)
                atoms.append(kernel.nodes)
                held[list(kernel.nodes)] = True
    alone = problem.supported[np.arange(problem.n), list(assignment)]
    for node in np.flatnonzero(~(alone | held)).tolist():
        reason = annotate(problem).reason(node, assignment[node])
        what = f"it is assigned to a device that does not support it: {reason}"
        raise unsupported(problem, what, (node,), (assignment[node],))
    used = set(assignment)
    order = tuple(device for device in device_order(problem) if device in used)
    return Resolution(order, tuple(assignment), tuple(sorted(atoms)))


@dataclass(frozen=True, slots=True)
class _Made:
    assignment: Sequence[int]
    labels: Sequence[int]
    notes: tuple[str, ...]
    left: Mapping[int, str]
    withdrawn: Mapping[tuple[int, int], str]


def _made(
    info: MethodInfo,
    regions: Regions,
    order: Sequence[int],
    pins: Mapping[int, int],
    choose: Choose | None,
    housekeeping: Housekeeping,
    sizes: SizeRules,
) -> _Made:
    """Return the groups after resolving conflicts and merging, repeated until no rule drops any.

    Terminates: a node is only ever where `regions` offers it, individually or in a composite, so
    each round that drops something withdraws a node or composite that was still offered. There are
    at most n P of the former and as many of the latter as pattern matches.
    """
    problem = regions.problem
    sizes.check()
    housekeeping.check(problem)
    idle = housekeeping.of(problem) if housekeeping.mode != "assigned" else frozenset[int]()
    too_large: list[FusedKernel] = []
    if sizes.max_nodes_per_group is not None:
        too_large = [k for k in regions.composites if len(k.nodes) > sizes.max_nodes_per_group]
        regions = regions.without_composites(too_large)
    while True:
        solved = resolve(regions, order, pins=pins, choose=choose)
        quotient = Quotient.of(problem.dag, solved.atoms)
        assignment: Sequence[int] = solved.assignment
        fixed = {v for atom in solved.atoms for v in atom}.union(pins)
        movable = idle.difference(fixed)
        reasons: dict[int, str] = {}
        if housekeeping.mode == "follow":
            assignment, reasons = follow(regions, assignment, order[-1], movable)
        labels, notes = merge(info, problem, quotient, assignment, order)
        while housekeeping.mode == "default":
            stripped = strip(regions, labels, assignment, order[-1], movable)
            if not stripped:
                break
            moved = list(assignment)
            for node in stripped:
                moved[node] = order[-1]
                reasons[node] = "housekeeping: at the edge of a group"
            assignment = moved
            labels, notes = merge(info, problem, quotient, assignment, order)
        if sizes.max_nodes_per_group is not None:
            labels = cut(quotient, labels, sizes.max_nodes_per_group, connected=info.connected)
        dropped = drops(sizes, regions, order, assignment, labels, quotient, pins)
        if not dropped:
            break
        regions = regions.without((drop.device, drop.nodes, drop.why) for drop in dropped)
    if sizes.fit_weights:
        check_weights(problem, assignment)
    return _Made(
        assignment,
        labels,
        (*notes, *_composite_notes(problem, too_large, solved)),
        _left(regions, solved, assignment, reasons, pins),
        {
            **regions.withdrawn,
            **{
                (node, device): f"pinned to {problem.devices[pin]}"
                for node, pin in pins.items()
                for device in range(len(problem.devices))
            },
        },
    )


def _left(
    regions: Regions,
    solved: Resolution,
    assignment: Sequence[int],
    reasons: Mapping[int, str],
    pins: Mapping[int, int],
) -> dict[int, str]:
    """Return the reason why each node on the default device is on no earlier one."""
    default = solved.order[-1]
    if len(solved.order) < 2:
        return {}
    lost: dict[int, list[str]] = {}
    for entry in solved.dropped:
        for node in entry.region.nodes:
            region = entry.region
            lost.setdefault(node, []).append(
                f"{region.device}: pattern '{region.pattern}' was dropped: {entry.reason}"
            )
    found: dict[int, str] = {}
    left = np.flatnonzero(np.asarray(assignment) == default)
    for device in solved.order[:-1]:
        nodes = left[~regions.alone[left, device]].tolist()
        told = dict(zip(nodes, regions.reasons(nodes, device), strict=True))
        for node in found.keys() & told:
            told[node] = f"{found[node]}; {told[node]}"
        found |= told
    for node, dropped in lost.items():
        if assignment[node] == default:
            found[node] = "; ".join([*([found[node]] if node in found else []), *dropped])
    found.update((node, why) for node, why in reasons.items() if assignment[node] == default)
    found.update((node, "pinned to it") for node in pins if assignment[node] == default)
    return {**dict.fromkeys(left.tolist(), "chosen for it"), **found}


def _composite_notes(
    problem: Problem, too_large: Sequence[FusedKernel], solved: Resolution
) -> tuple[str, ...]:
    notes = [
        f"{problem.devices[kernel.device]}: pattern '{kernel.pattern}' of {len(kernel.nodes)} "
        f"nodes at '{problem.node_names[kernel.nodes[0]]}' is above max_nodes_per_group"
        for kernel in too_large
    ]
    notes += [
        f"{entry.region.device}: pattern '{entry.region.pattern}' at "
        f"'{problem.node_names[entry.region.nodes[0]]}' was dropped: {entry.reason}"
        for entry in solved.dropped
    ]
    return tuple(notes)


def _check_default(regions: Regions, order: Sequence[int], method: str) -> None:
    default = order[-1]
    lacking = np.flatnonzero(~regions.alone[:, default])
    if lacking.size:
        problem = regions.problem
        node = int(lacking[0])
        more = f" (and {lacking.size - 1} more)" if lacking.size > 1 else ""
        raise unsupported(
            problem,
            f"method '{method}' needs a default device that supports every node; "
            f"'{problem.devices[default]}' does not: {regions.reason(node, default)}{more}",
            lacking.tolist(),
            (default,),
            hint="end the priority with a device that supports all nodes, such as the host",
        )
