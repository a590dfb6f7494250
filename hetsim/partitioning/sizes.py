"""Size rules: groups that are not worth a device go back, and are offered to the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hetsim.errors import UsageError
from hetsim.partitioning.partition import components, order_groups
from hetsim.problem import GRAPH_INPUT, Problem

Merge = Callable[[Sequence[int]], tuple[list[int], tuple[str, ...]]]
"""Each node's device in; a group label a node and notes for the user out."""


@dataclass(frozen=True, slots=True)
class SizeRules:
    """Which groups a device keeps. Groups on the last device of the order are never dropped.

    Attributes
    ----------
    min_nodes : int
        Fewest nodes of a group.
    max_groups : int or None
        Most groups of a device; those with the largest modelled gain are kept.
    max_nodes_per_group : int or None
        Larger groups are cut in graph order.
    fit_weights : bool
        Whether a device's groups, by falling gain, must hold their weights in its memory.
    """

    min_nodes: int = 1
    max_groups: int | None = None
    max_nodes_per_group: int | None = None
    fit_weights: bool = False

    def check(self) -> None:
        """Raise UsageError where a number makes no sense."""
        for name in ("min_nodes", "max_groups", "max_nodes_per_group"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}", hint="give 1 or more")
        if self.max_nodes_per_group is not None and self.max_nodes_per_group < self.min_nodes:
            raise UsageError(
                f"max_nodes_per_group {self.max_nodes_per_group} is below "
                f"min_nodes {self.min_nodes}: no group could be kept"
            )


def apply(
    problem: Problem, order: Sequence[int], rules: SizeRules, merge: Merge, *, connected: bool
) -> tuple[list[int], tuple[str, ...], list[int], dict[int, str]]:
    """Assign by `order`, merge, drop what the rules forbid, and offer it on, until all is kept.

    Parameters
    ----------
    problem : Problem
    order : sequence of int
        Device indices by priority. Each node goes to the first that supports it and has
        not dropped it; a node that no later device supports stays where it is.
    rules : SizeRules
    merge : Merge
    connected : bool
        Whether groups that are cut must stay connected.

    Returns
    -------
    Labels, notes, device index by node, and why nodes were dropped, by node.

    Complexity: one merge a round; every round but the last drops a group for good.
    """
    rules.check()
    choices = [[d for d in order if problem.supported[v, d]] for v in range(problem.n)]
    place = [0] * problem.n
    reasons: dict[int, str] = {}
    while True:
        assigned = [choices[v][place[v]] for v in range(problem.n)]
        labels, notes = merge(assigned)
        if rules.max_nodes_per_group is not None:
            labels = _cut(problem, labels, rules.max_nodes_per_group, connected=connected)
        movable: dict[int, list[list[int]]] = {}
        for nodes in _members(labels):
            if all(place[v] + 1 < len(choices[v]) for v in nodes):
                movable.setdefault(assigned[nodes[0]], []).append(nodes)
        for device in order[:-1]:
            kept = movable.get(device, [])
            dropped = _too_many(problem, rules, device, kept, choices, place)
            for nodes, why in dropped:
                for v in nodes:
                    place[v] += 1
                    reasons[v] = f"{problem.devices[device]}: {why}"
            if dropped:
                # A later device may get these nodes, and its groups grow: it is judged then.
                break
        else:
            return labels, notes, assigned, reasons


def gain_s(problem: Problem, device: int, nodes: Sequence[int], elsewhere: Sequence[int]) -> float:
    """Seconds that a group saves on `device` over each node's other device in `elsewhere`.

    Its dispatch and the transfers that it causes count against it.
    """
    inside = set(nodes)
    other_s = sum(
        float(problem.shared_seconds[v, d]) for v, d in zip(nodes, elsewhere, strict=True)
    )
    moved_s = 0.0
    home = elsewhere[0]
    for value in problem.values:
        made_here = value.producer in inside
        read_here = any(v in inside for v in value.consumers)
        leaves = value.is_output or any(v not in inside for v in value.consumers)
        if home != device and made_here and leaves:
            moved_s += problem.routes[device][home].seconds(value.nbytes)
        elif home != device and read_here and not made_here and value.producer != GRAPH_INPUT:
            moved_s += problem.routes[home][device].seconds(value.nbytes)
    return other_s - problem.group_seconds(device, nodes) - moved_s


def _too_many(
    problem: Problem,
    rules: SizeRules,
    device: int,
    groups: Sequence[list[int]],
    choices: Sequence[Sequence[int]],
    place: Sequence[int],
) -> list[tuple[list[int], str]]:
    """The groups that `device` must give up, and why."""
    found = [
        (nodes, f"a group of {len(nodes)} nodes is below min_nodes {rules.min_nodes}")
        for nodes in groups
        if len(nodes) < rules.min_nodes
    ]
    if found or (rules.max_groups is None and not rules.fit_weights):
        # What is dropped changes the groups around it: these are counted in the next round.
        return found

    def worth(nodes: list[int]) -> tuple[float, int]:
        elsewhere = [choices[v][place[v] + 1] for v in nodes]
        return -gain_s(problem, device, nodes, elsewhere), nodes[0]

    ranked = sorted(groups, key=worth)
    if rules.max_groups is not None and len(ranked) > rules.max_groups:
        why = f"{len(ranked)} groups exceed max_groups {rules.max_groups}, and others gain more"
        found = [(nodes, why) for nodes in ranked[rules.max_groups :]]
        ranked = ranked[: rules.max_groups]
    if rules.fit_weights and problem.capacity_bytes is not None:
        capacity = problem.capacity_bytes[device]
        resident: set[int] = set()
        for nodes in ranked:
            inside = set(nodes)
            added = {
                index
                for index, constant in enumerate(problem.constants)
                if index not in resident and not inside.isdisjoint(constant.consumers)
            }
            total = sum(problem.constants[index].nbytes for index in resident | added)
            if total > capacity:
                found.append((nodes, f"its weights exceed the capacity of {capacity} bytes"))
            else:
                resident |= added
    return found


def _members(labels: Sequence[int]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for node, label in enumerate(labels):
        found.setdefault(label, []).append(node)
    return list(found.values())


def _cut(problem: Problem, labels: Sequence[int], most: int, *, connected: bool) -> list[int]:
    """Cut groups in graph order: pieces of one group only feed later pieces of it."""
    count: dict[int, int] = {}
    pieces: dict[tuple[int, int], int] = {}
    cut: list[int] = []
    for node, label in enumerate(labels):
        at = count.get(label, 0)
        count[label] = at + 1
        cut.append(pieces.setdefault((label, at // most), node))
    if connected:
        cut = components(problem.dag, cut)
    if order_groups(problem.dag, cut) is None:
        raise AssertionError("pieces of valid groups depend on each other in a circle")
    return cut
