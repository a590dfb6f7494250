"""The rounds of ``greedy`` step by step, as a record and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hetsim.graph.dag import Dag
from hetsim.partitioning.growing.growth import Action, Growth, PathNodes, grow, neighbours
from hetsim.partitioning.growing.repair import Split, repair

_VERBS = {
    "select": "Select root",
    "merge": "Merge",
    "fail": "Failed to merge",
    "rollback": "Rollback",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a growth, and the state it left; nodes ascend in every tuple.

    Attributes
    ----------
    action : str
        ``select``, ``merge``, ``fail`` or ``rollback``.
    node : int
    subgraph, rejected : tuple of int
    through : tuple of int
        Rejected nodes on a path between two members: self-references, next is a rollback.
    possible : tuple of int
        Untried nodes on such a path: they will become self-references unless they merge.
    """

    action: Action
    node: int
    subgraph: tuple[int, ...]
    rejected: tuple[int, ...]
    through: tuple[int, ...]
    possible: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A subgraph grown from the first of the possible roots; its nodes ascend."""

    roots: tuple[int, ...]
    steps: tuple[Step, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """The candidates of one round, and the nodes of the largest, which was selected."""

    device: int
    candidates: tuple[Candidate, ...]
    selected: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """All rounds of all devices, and the groups that had to be split at the end."""

    rounds: tuple[Round, ...]
    repaired: tuple[Split, ...]


def trace(dag: Dag, device_of: Sequence[int]) -> Trace:
    """Play the published method round by round, every root anew, and note each step.

    The subgraphs are those of ``greedy.solve``. O(V^2) for every step: for graphs to look at.
    """
    around = neighbours(dag)
    rounds: list[Round] = []
    labels = [-1] * dag.n
    if dag.n:
        paths = PathNodes.of(dag, 0, dag.n - 1)
        for device in sorted(set(device_of)):
            free = bytearray(other == device for other in device_of)
            while any(free):
                candidates = _candidates(around, paths, free)
                # max keeps the first of equals.
                selected = max((candidate.nodes for candidate in candidates), key=len)
                for node in selected:
                    free[node] = False
                    labels[node] = selected[0]
                rounds.append(Round(device, candidates, selected))
    return Trace(tuple(rounds), repair(dag, labels)[1])


def _candidates(
    around: Sequence[tuple[int, ...]], paths: PathNodes, free: bytearray
) -> tuple[Candidate, ...]:
    candidates: list[Candidate] = []
    roots = [node for node, is_free in enumerate(free) if is_free]
    while roots:
        steps: list[Step] = []
        growth = grow(around, paths, roots[0], free, _recorder(steps))
        nodes = tuple(sorted(growth.members))
        candidates.append(Candidate(tuple(roots), tuple(steps), nodes))
        covered = set(nodes)
        roots = [root for root in roots if root not in covered]
    return tuple(candidates)


def _recorder(steps: list[Step]) -> Callable[[Action, int, Growth], None]:
    def record(action: Action, node: int, growth: Growth) -> None:
        nodes = growth.paths.nodes
        members = sum(1 << (member - growth.paths.low) for member in growth.members)
        outside = growth.between & ~members
        steps.append(
            Step(
                action,
                node,
                subgraph=tuple(sorted(growth.members)),
                rejected=nodes(growth.rejected),
                through=nodes(outside & growth.rejected),
                possible=nodes(outside & ~growth.rejected),
            )
        )

    return record


def explain(
    dag: Dag,
    device_of: Sequence[int],
    names: Sequence[str] | None = None,
    devices: Sequence[str] | None = None,
) -> str:
    """Print ``trace``: every round, candidate and step, the selections, and the groups.

    Parameters
    ----------
    names : sequence of str, optional
        Node names; absent: node ids.
    devices : sequence of str, optional
        Device names; absent: ``device 0``.
    """
    played = trace(dag, device_of)

    def listed(nodes: Iterable[int]) -> str:
        return "[" + ", ".join(names[v] if names is not None else str(v) for v in nodes) + "]"

    def called(device: int) -> str:
        return devices[device] if devices is not None else f"device {device}"

    lines: list[str] = []
    groups: dict[int, list[tuple[int, ...]]] = {}
    for current in played.rounds:
        chosen = groups.setdefault(current.device, [])
        lines.append(f"{called(current.device)}, round {len(chosen) + 1}")
        for candidate in current.candidates:
            lines.append(f"  Possible roots: {listed(candidate.roots)}")
            lines.extend(_lines_of(candidate, listed))
        found = ", ".join(listed(candidate.nodes) for candidate in current.candidates)
        lines.append("  Possible roots: []")
        lines.append(f"  Candidates: {found}")
        lines.append(f"  Largest: {listed(current.selected)}")
        chosen.append(current.selected)
    lines.append("Subgraphs")
    for device, subgraphs in groups.items():
        lines.append(f"  {called(device)}: " + ", ".join(map(listed, subgraphs)))
    lines.extend(
        f"Repaired: {listed(split.nodes)} depends on another subgraph that depends on it; "
        "split into " + ", ".join(map(listed, split.parts))
        for split in played.repaired
    )
    return "\n".join(lines) + "\n"


def _lines_of(candidate: Candidate, listed: Callable[[Iterable[int]], str]) -> list[str]:
    lines: list[str] = []
    for number, step in enumerate(candidate.steps, 1):
        if step.through:
            condition = f"broken by self-references through {listed(step.through)}"
        elif step.possible:
            condition = f"ok, self-references through {listed(step.possible)} possible"
        else:
            condition = "ok"
        lines.append(f"    {number}. {_VERBS[step.action]} {listed([step.node])}")
        lines.append(
            f"       subgraph {listed(step.subgraph)}, rejected {listed(step.rejected)}, "
            f"condition {condition}"
        )
    lines.append(f"    {len(candidate.steps) + 1}. No nodes left to merge")
    return lines
