"""Routes of transfers between devices, and the links that they occupy."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from hetsim.core.units import MIB
from hetsim.errors import PlatformError
from hetsim.hardware.spec import Link, Platform, Route

REFERENCE_BYTES = MIB
"""Transfer size for which the fastest route is chosen."""

_Hop = tuple[str, str]
"""Target device and link of a hop, by which ties are broken."""


def build_routes(platform: Platform) -> tuple[tuple[str, ...], tuple[tuple[Route, ...], ...]]:
    """Return the resources occupied by transfers, and the route between each two devices.

    A route is the path that moves 1 MiB first: its latencies add up, its narrowest link sets the
    bandwidth. Ties go to the path with fewer hops, then to the first by names of devices and links.

    - Resources: a duplex link gives one per direction, ``cpu>gpu`` and ``gpu>cpu``; another link
    gives one, ``cpu<>gpu``; all links of a bus share one, ``bus:NAME``. If two links join the same
    devices, they are prefixed with the link's name: ``pcie:cpu>gpu``.
    - Routes: ``routes[p][q]`` from device p to device q, in the order of ``platform.devices``; the
    diagonal is free.

    Raises PlatformError if no links lead from one device to another.

    Notes
    -----
    The best path with narrowest bandwidth B is a path of least latency among the links of
    bandwidth B or more, so one search of least latency for each different bandwidth finds
    it: O(P * W * (P + L) log P) for P devices, L links of W different bandwidths. Times are
    compared exactly, as rational numbers, so that ties are ties.
    """
    resources, held = _resources(platform.links)
    search = _RouteSearch(platform)
    names = tuple(platform.devices)
    rows: list[tuple[Route, ...]] = []
    for start in names:
        paths = search.fastest_paths(start)
        row: list[Route] = []
        for end in names:
            if end == start:
                row.append(Route(0.0, math.inf))
            elif end in paths:
                row.append(_route(start, paths[end], search.links, held))
            else:
                raise PlatformError(
                    f"no link connects '{start}' to '{end}'",
                    where=platform.source,
                    hint="add a link between them",
                )
        rows.append(tuple(row))
    return resources, tuple(rows)


def unreached(host: str, devices: Iterable[str], links: Iterable[Link]) -> list[str]:
    """Return the devices that no chain of links connects to the host, in order. O(P + L)."""
    neighbours: dict[str, list[str]] = {}
    for link in links:
        neighbours.setdefault(link.a, []).append(link.b)
        neighbours.setdefault(link.b, []).append(link.a)
    reached = {host}
    pending = [host]
    while pending:
        for other in neighbours.get(pending.pop(), ()):
            if other not in reached:
                reached.add(other)
                pending.append(other)
    return [name for name in devices if name not in reached]


def _resources(links: Sequence[Link]) -> tuple[tuple[str, ...], dict[tuple[str, str], int]]:
    """Return the resources, and the index held by each link in the direction from a device."""
    joined: dict[frozenset[str], int] = {}
    for link in links:
        if link.bus is None:
            ends = frozenset((link.a, link.b))
            joined[ends] = joined.get(ends, 0) + 1
    index: dict[str, int] = {}
    held: dict[tuple[str, str], int] = {}
    for link in links:
        parallel = joined.get(frozenset((link.a, link.b)), 0) > 1
        prefix = f"{link.name}:" if parallel else ""
        for start, end in ((link.a, link.b), (link.b, link.a)):
            if link.bus is not None:
                name = f"bus:{link.bus}"
            elif link.duplex:
                name = f"{prefix}{start}>{end}"
            else:
                name = f"{prefix}{link.a}<>{link.b}"
            held[link.name, start] = index.setdefault(name, len(index))
    return tuple(index), held


def _route(
    start: str,
    hops: Sequence[_Hop],
    links: Mapping[str, Link],
    held: Mapping[tuple[str, str], int],
) -> Route:
    taken = [links[name] for _, name in hops]
    left = [start, *(device for device, _ in hops[:-1])]
    resources = {held[link.name, device] for link, device in zip(taken, left, strict=True)}
    return Route(
        latency_s=math.fsum(link.latency_s for link in taken),
        bytes_per_s=min(link.bytes_per_s for link in taken),
        resources=tuple(sorted(resources)),
        links=tuple(link.name for link in taken),
    )


class _RouteSearch:
    """Search for fastest paths over a platform's links, with latencies in integer ticks."""

    def __init__(self, platform: Platform) -> None:
        self.links = {link.name: link for link in platform.links}
        self.bandwidths = sorted({link.bytes_per_s for link in platform.links})
        exact = {name: Fraction(link.latency_s) for name, link in self.links.items()}
        self.ticks_per_s = math.lcm(*(latency.denominator for latency in exact.values()))
        ticks = {name: int(latency * self.ticks_per_s) for name, latency in exact.items()}
        self.neighbours: dict[str, list[tuple[str, str, int, float]]] = {
            name: [] for name in platform.devices
        }
        for link in platform.links:
            for start, end in ((link.a, link.b), (link.b, link.a)):
                self.neighbours[start].append((end, link.name, ticks[link.name], link.bytes_per_s))

    def fastest_paths(self, start: str) -> dict[str, tuple[_Hop, ...]]:
        """Return the hops of the fastest path from `start` to each device it can reach."""
        best: dict[str, tuple[Fraction, int, tuple[_Hop, ...]]] = {}
        for least in self.bandwidths:
            for end, (ticks, hops) in self._least_latency(start, least).items():
                if not hops:
                    continue
                narrowest = min(self.links[name].bytes_per_s for _, name in hops)
                moving = Fraction(REFERENCE_BYTES) / Fraction(narrowest)
                rank = (Fraction(ticks, self.ticks_per_s) + moving, len(hops), hops)
                if end not in best or rank < best[end]:
                    best[end] = rank
        return {end: hops for end, (_, _, hops) in best.items()}

    def _least_latency(self, start: str, least: float) -> dict[str, tuple[int, tuple[_Hop, ...]]]:
        """Return (latency, hops) by device, by Dijkstra over links of bandwidth `least` or more."""
        done: dict[str, tuple[int, tuple[_Hop, ...]]] = {}
        pending: list[tuple[int, int, tuple[_Hop, ...], str]] = [(0, 0, (), start)]
        while pending:
            ticks, count, hops, here = heapq.heappop(pending)
            if here in done:
                continue
            done[here] = (ticks, hops)
            for end, name, step, bandwidth in self.neighbours[here]:
                if bandwidth >= least and end not in done:
                    further = (*hops, (end, name))
                    heapq.heappush(pending, (ticks + step, count + 1, further, end))
        return done
