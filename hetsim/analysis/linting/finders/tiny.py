"""Subgraphs whose start and transfers take longer than their work."""

from __future__ import annotations

from collections.abc import Iterator

from hetsim.analysis.linting.change import Change
from hetsim.analysis.linting.finders.borders import Border, borders_of, elsewhere
from hetsim.analysis.linting.seen import Seen, Suspect

KIND = "tiny"
MOST = 8
"""Subgraphs that are tried one by one: those whose start and transfers take longest."""


def tiny(seen: Seen) -> Iterator[Suspect]:
    """Yield a suspect for each subgraph of the plan that costs more than it does, and one for all.

    The changes pin its nodes to one of the devices that it reads from or writes to. O(V + E).
    """
    problem = seen.problem
    found: list[tuple[float, Border, tuple[int, ...]]] = []
    for template in seen.templates:
        all_borders = borders_of(problem, template)
        for border in all_borders:
            overhead_s = border.dispatch_s + border.moves_s
            if len(all_borders) > 1 and overhead_s > border.work_s:
                found.append((overhead_s, border, _neighbours(border)))
    found.sort(key=lambda entry: (-entry[0], entry[1].group))
    for overhead_s, border, near in found[:MOST]:
        changes = tuple(
            Change(f"on {problem.devices[q]}, by pins", pins=pins)
            for q in near
            if (pins := elsewhere(problem, border.nodes, q))
        )
        if changes:
            here = problem.devices[border.device]
            yield Suspect(
                KIND, here, f"g{border.group} on {here} takes longer to start than to run",
                border.nodes, overhead_s, changes,
            )  # fmt: skip
    together: dict[str, str] = {}
    ids: set[int] = set()
    for _, border, near in found:
        first = next((pins for q in near if (pins := elsewhere(problem, border.nodes, q))), ())
        together |= dict(first)
        ids |= set(border.nodes if first else ())
    if len(found) > 1 and together:
        overheads_s = sum(overhead_s for overhead_s, _, _ in found)
        change = Change("each on a device next to it, by pins", pins=tuple(together.items()))
        yield Suspect(
            KIND, "", f"{len(found)} subgraphs take longer to start than to run",
            tuple(sorted(ids)), overheads_s, (change,),
        )  # fmt: skip


def _neighbours(border: Border) -> tuple[int, ...]:
    """The devices next to it, the one first that it exchanges most seconds with."""
    near = border.reads_from | border.writes_to
    return tuple(
        sorted(near, key=lambda q: (-border.reads.get(q, 0.0) - border.writes.get(q, 0.0), q))
    )
