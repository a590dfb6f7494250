"""Tensors that leave a device and come back: a subgraph between two of another device."""

from __future__ import annotations

from collections.abc import Iterator

from hetsim.analysis.linting.change import Change
from hetsim.analysis.linting.finders.borders import borders_of, elsewhere
from hetsim.analysis.linting.finders.links import wider
from hetsim.analysis.linting.seen import Seen, Suspect

KIND = "to-and-fro"
MOST = 8
"""Subgraphs that are tried one by one: those whose transfers to and fro take longest."""


def to_and_fro(seen: Seen) -> Iterator[Suspect]:
    """Yield a suspect for each subgraph that reads from a device and writes to it again.

    And one for all that do so between the same two. The changes pin them to that device, where it
    takes them, or double the bandwidth of the links between. O(V + E).
    """
    problem = seen.problem
    found: list[tuple[float, int, int, int, tuple[int, ...]]] = []
    for template in seen.templates:
        for border in borders_of(problem, template):
            for other in sorted(border.reads_from & border.writes_to):
                seconds = border.reads.get(other, 0.0) + border.writes.get(other, 0.0)
                found.append((seconds, border.group, other, border.device, border.nodes))
    found.sort(key=lambda entry: (-entry[0], *entry[1:4]))
    for seconds, group, other, device, nodes in found[:MOST]:
        there, here = problem.devices[other], problem.devices[device]
        pins = elsewhere(problem, nodes, other)
        changes = [] if pins is None else [Change(f"on {there}, by pins", pins=pins)]
        changes += wider(problem, other, device)
        yield Suspect(
            KIND, f"{there} and {here}", f"g{group}: {there} to {here} and back", nodes, seconds,
            tuple(changes),
        )  # fmt: skip
    for other, device in sorted({(entry[2], entry[3]) for entry in found}):
        those = [entry for entry in found if (entry[2], entry[3]) == (other, device)]
        there, here = problem.devices[other], problem.devices[device]
        pinned = [elsewhere(problem, entry[4], other) for entry in those]
        pins = tuple(dict(pin for pins in pinned if pins for pin in pins).items())
        if len(those) > 1 and pins:
            yield Suspect(
                KIND, f"{there} and {here}", f"{len(those)} subgraphs: {there} to {here} and back",
                tuple(sorted({node for entry in those for node in entry[4]})),
                sum(entry[0] for entry in those),
                (Change(f"on {there} where it takes them, by pins", pins=pins),),
            )  # fmt: skip
