"""Size rules: groups too small for a device are offered to the next one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hetsim.core import checks
from hetsim.core.units import format_bytes
from hetsim.errors import OutOfMemory, UsageError
from hetsim.partitioning.regions import Quotient, Regions
from hetsim.problem.groups import by_label, components, order_groups
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class SizeRules:
    """Sizes of groups that a device keeps. Groups on the default device are never dropped.

    Attributes
    ----------
    min_nodes : int
        Fewest nodes of a group.
    max_groups : int or None
        Most groups of a device; those with the largest modelled gain are kept.
    max_nodes_per_group : int or None
        Larger groups are cut in graph order.
    fit_weights : bool
        Whether the weights on each device must fit its memory: groups are filled in by
        falling gain, and what no longer fits is dropped.
    """

    min_nodes: int = 1
    max_groups: int | None = None
    max_nodes_per_group: int | None = None
    fit_weights: bool = False

    def check(self) -> None:
        """Raise UsageError for an invalid number."""
        checks.flag(self.fit_weights, "fit_weights")
        for name in ("min_nodes", "max_groups", "max_nodes_per_group"):
            value = getattr(self, name)
            if value is not None or name == "min_nodes":
                checks.whole()(value, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}", hint="use 1 or more")
        if self.max_nodes_per_group is not None and self.max_nodes_per_group < self.min_nodes:
            raise UsageError(
                f"max_nodes_per_group {self.max_nodes_per_group} is below "
                f"min_nodes {self.min_nodes}: no group could be kept"
            )


@dataclass(frozen=True, slots=True)
class Drop:
    """Nodes that a device must give up, and the reason."""

    device: int
    nodes: tuple[int, ...]
    why: str


def drops(
    rules: SizeRules,
    regions: Regions,
    order: Sequence[int],
    assignment: Sequence[int],
    labels: Sequence[int],
    quotient: Quotient,
    pinned: Collection[int] = (),
) -> list[Drop]:
    """Return the nodes that the first device of `order` to break a rule must give up.

    Later devices may get these nodes, and are checked afterwards with their larger groups. A group
    stays if one of its nodes is pinned or not supported individually by a later device; of a group
    too large for the memory, only such nodes stay.

    Complexity: O(n P + V log V + E).
    """
    problem = regions.problem
    if rules.min_nodes == 1 and rules.max_groups is None and not rules.fit_weights:
        return []
    later = _later(regions, order, assignment, pinned)
    by_device: dict[int, list[list[int]]] = {}
    for nodes in by_label(labels).values():
        by_device.setdefault(assignment[nodes[0]], []).append(nodes)
    for device in order[:-1]:
        groups = by_device.get(device, [])
        movable = [nodes for nodes in groups if all(later[v] >= 0 for v in nodes)]
        small = [
            Drop(
                device,
                tuple(nodes),
                f"a group of {len(nodes)} nodes is below min_nodes {rules.min_nodes}",
            )
            for nodes in movable
            if len(nodes) < rules.min_nodes
        ]
        if small:
            return small
        if rules.max_groups is None and not rules.fit_weights:
            continue
        gain = {
            nodes[0]: gain_s(problem, device, nodes, [later[v] for v in nodes]) for nodes in movable
        }
        # Groups that must stay come first.
        ranked = sorted(
            groups, key=lambda nodes: (nodes[0] in gain, -gain.get(nodes[0], 0.0), nodes[0])
        )
        found: list[Drop] = []
        if rules.max_groups is not None and len(ranked) > rules.max_groups:
            why = (
                f"{len(ranked)} groups exceed max_groups {rules.max_groups}, and the others save "
                "more time"
            )
            found += [
                Drop(device, tuple(nodes), why)
                for nodes in ranked[rules.max_groups :]
                if nodes[0] in gain
            ]
            ranked = ranked[: rules.max_groups]
        if rules.fit_weights and problem.capacity_bytes is not None:
            found += _too_heavy(problem, device, ranked, quotient, later)
        if found:
            return found
    return []


def check_weights(problem: Problem, assignment: Sequence[int]) -> None:
    """Raise OutOfMemory if the weights on a device exceed its memory. O(weights)."""
    if problem.capacity_bytes is None:
        return
    for device, capacity in enumerate(problem.capacity_bytes):
        held = [c for c in problem.constants if any(assignment[v] == device for v in c.consumers)]
        total = sum(constant.nbytes for constant in held)
        if total > capacity:
            largest = max(held, key=lambda constant: constant.nbytes)
            total, capacity, most = (
                problem.held_bytes(device, nbytes) for nbytes in (total, capacity, largest.nbytes)
            )
            first = next(v for v in largest.consumers if assignment[v] == device)
            raise OutOfMemory(
                f"its remaining weights need {format_bytes(total)} ({total} bytes) and it has "
                f"{format_bytes(capacity)} ({capacity} bytes); the largest, {format_bytes(most)}, "
                f"is '{largest.name}' of node '{problem.node_names[first]}'",
                where=f"device '{problem.devices[device]}'",
                hint="add a device to the priority list, or memory to the platform",
                device=problem.devices[device],
                needed_bytes=total,
                held_bytes=capacity,
            )


def gain_s(problem: Problem, device: int, nodes: Sequence[int], elsewhere: Sequence[int]) -> float:
    """Return the seconds saved by a group on `device` over each node's device in `elsewhere`.

    The group's dispatch and transfers are deducted.
    """
    inside = set(nodes)
    other_s = sum(
        float(problem.shared_seconds[v, d]) for v, d in zip(nodes, elsewhere, strict=True)
    )
    moved_s = 0.0
    home = elsewhere[0]
    for index in _touched(problem, nodes):
        value = problem.values[index]
        made_here = value.producer in inside
        leaves = value.is_output or any(v not in inside for v in value.consumers)
        if home != device and made_here and leaves:
            moved_s += problem.routes[device][home].seconds(value.nbytes)
        elif home != device and not made_here and value.producer != GRAPH_INPUT:
            moved_s += problem.routes[home][device].seconds(value.nbytes)
    return other_s - problem.group_seconds(device, nodes) - moved_s


def cut(quotient: Quotient, labels: Sequence[int], most: int, *, connected: bool) -> list[int]:
    """Return labels with groups cut in graph order into pieces of at most `most` nodes.

    Regions stay whole. Pieces of a group only feed later ones, so no cycle closes. If groups must
    be connected, unconnected pieces are split further. O(V log V + E).
    """
    filled: dict[int, tuple[int, int]] = {}
    pieces: dict[tuple[int, int], int] = {}
    cuts: list[int] = []
    for index, nodes in enumerate(quotient.members):
        label = labels[nodes[0]]
        piece, held = filled.get(label, (0, 0))
        if held + len(nodes) > most:
            piece, held = piece + 1, 0
        filled[label] = (piece, held + len(nodes))
        cuts.append(pieces.setdefault((label, piece), index))
    if connected:
        cuts = components(quotient.dag, cuts)
    if order_groups(quotient.dag, cuts) is None:
        raise AssertionError("parts of valid groups form a cycle")
    return quotient.spread(cuts)


def _later(
    regions: Regions,
    order: Sequence[int],
    assignment: Sequence[int],
    pinned: Collection[int],
) -> list[int]:
    """Return the next device of `order` that supports each node individually; -1 for none."""
    rank = {device: place for place, device in enumerate(order)}
    table = regions.alone[:, list(order)].tolist()
    found: list[int] = []
    for node, row in enumerate(table):
        start = rank.get(assignment[node], len(order))
        following = (order[p] for p in range(start + 1, len(order)) if row[p])
        found.append(-1 if node in pinned else next(following, -1))
    return found


def _too_heavy(
    problem: Problem,
    device: int,
    groups: Iterable[Sequence[int]],
    quotient: Quotient,
    later: Sequence[int],
) -> list[Drop]:
    """Return the nodes that do not fit when groups fill the memory in turn, in graph order."""
    if problem.capacity_bytes is None:
        return []
    capacity = problem.capacity_bytes[device]
    reads = problem.constants_of
    resident: set[int] = set()
    used = 0
    found: list[Drop] = []
    for group in groups:
        full = False
        out: list[int] = []
        for place in dict.fromkeys(quotient.place[v] for v in group):
            nodes = quotient.members[place]
            added = {c for v in nodes for c in reads[v]} - resident
            more = sum(problem.constants[c].nbytes for c in added)
            full = full or used + more > capacity
            if full and all(later[v] >= 0 for v in nodes):
                out.extend(nodes)
            else:
                resident |= added
                used += more
        if out:
            memory = format_bytes(problem.held_bytes(device, capacity))
            why = f"its weights no longer fit the {memory} of memory"
            found.append(Drop(device, tuple(sorted(out)), why))
    return found


def _touched(problem: Problem, nodes: Sequence[int]) -> list[int]:
    """Return the values that any of `nodes` produces or reads, ascending."""
    return sorted({index for node in nodes for index in problem.values_of[node]})
