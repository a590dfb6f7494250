"""Routes: the fastest of all paths, what they hold, and in which order ties go."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import PlatformError
from hetsim.hardware.catalog import load_device, load_platform, platform_names
from hetsim.hardware.routes import REFERENCE_BYTES, build_routes
from hetsim.hardware.spec import Link, Platform
from sweeps import examples

SPEC = load_device("nvidia-l4")


def platform_of(devices: str, *links: Link) -> Platform:
    names = dict.fromkeys(devices, SPEC)
    return Platform("made", names, links, devices[0], "made.yaml", "")


def link(
    a: str,
    b: str,
    latency_s: float = 1e-6,
    bytes_per_s: float = 1e9,
    *,
    name: str | None = None,
    duplex: bool = True,
    bus: str | None = None,
) -> Link:
    return Link(name or f"{a}-{b}", a, b, latency_s, bytes_per_s, duplex, bus)


def test_parallel_links_carry_their_names() -> None:
    platform = platform_of(
        "ab", link("a", "b", name="pcie"), link("b", "a", name="usb", duplex=False)
    )
    assert build_routes(platform)[0] == ("pcie:a>b", "pcie:b>a", "usb:b<>a")


def test_devices_that_nothing_joins_are_an_error() -> None:
    with pytest.raises(PlatformError, match=r"made\.yaml: no link connects 'a' to 'c'"):
        build_routes(platform_of("abc", link("a", "b")))


@pytest.mark.parametrize("name", platform_names())
def test_platforms_of_the_catalog_have_routes_both_ways(name: str) -> None:
    platform = load_platform(name)
    names, routes = build_routes(platform)
    assert len(set(names)) == len(names)
    for p, q in itertools.permutations(range(len(platform.devices)), 2):
        there, back = routes[p][q], routes[q][p]
        assert (there.latency_s, there.bytes_per_s) == (back.latency_s, back.bytes_per_s)
        assert there.resources == tuple(sorted(set(there.resources)))
        assert 0 < there.seconds(1) < 1e-3


def all_paths(
    platform: Platform, start: str, end: str, seen: frozenset[str] = frozenset()
) -> Iterator[tuple[tuple[str, Link], ...]]:
    """Every simple path from start to end, as (device it leads to, link) hops."""
    if start == end:
        yield ()
        return
    for one in platform.links:
        if start not in (one.a, one.b):
            continue
        other = one.b if one.a == start else one.a
        if other not in seen and other != start:
            for rest in all_paths(platform, other, end, seen | {start}):
                yield ((other, one), *rest)


@st.composite
def platforms(draw: st.DrawFn) -> Platform:
    names = "abcde"[: draw(st.integers(2, 5))]
    # Few and simple figures, so that ties are common; the last latencies tie but for rounding.
    latency = st.sampled_from([0.0, 1e-4, 2e-4, 3e-4, 1e-3, 0.1, 0.2, 0.3])
    width = st.sampled_from([REFERENCE_BYTES * 1.0, REFERENCE_BYTES * 10.0, 1e9, 3e9, 1e10])
    pairs = [(names[draw(st.integers(0, i - 1))], names[i]) for i in range(1, len(names))]
    pair = st.tuples(st.sampled_from(names), st.sampled_from(names)).filter(lambda p: p[0] != p[1])
    pairs += draw(st.lists(pair, max_size=5))
    ids = draw(st.permutations(range(len(pairs))))
    bus = st.sampled_from([None, None, "m", "n"])
    links = (
        Link(f"l{i}", a, b, draw(latency), draw(width), draw(st.booleans()), draw(bus))
        for i, (a, b) in zip(ids, pairs, strict=True)
    )
    return platform_of("".join(draw(st.permutations(names))), *links)


@examples(quick=35, full=200)
@given(platforms())
def test_routes_are_the_fastest_of_all_paths(platform: Platform) -> None:
    names, routes = build_routes(platform)
    order = list(platform.devices)
    for (p, start), (q, end) in itertools.permutations(enumerate(order), 2):

        def rank(path: tuple[tuple[str, Link], ...]) -> tuple[object, ...]:
            latency = sum(Fraction(one.latency_s) for _, one in path)
            narrowest = min(Fraction(one.bytes_per_s) for _, one in path)
            seconds = latency + REFERENCE_BYTES / narrowest
            return (seconds, len(path), [(device, one.name) for device, one in path])

        best = min(all_paths(platform, start, end), key=rank)
        found = routes[p][q]
        assert found.bytes_per_s == min(one.bytes_per_s for _, one in best)
        exact = sum(Fraction(one.latency_s) for _, one in best)
        assert found.latency_s == float(exact)
        assert {names[index] for index in found.resources} == set(held_by(platform, start, best))
        assert found.resources == tuple(sorted(set(found.resources)))


def held_by(platform: Platform, start: str, path: tuple[tuple[str, Link], ...]) -> Iterator[str]:
    """What a transfer on the path holds, from the definition of the resources' names."""
    here = start
    for device, one in path:
        ends = {one.a, one.b}
        twins = [other for other in platform.links if not other.bus and {other.a, other.b} == ends]
        prefix = f"{one.name}:" if len(twins) > 1 else ""
        if one.bus is not None:
            yield f"bus:{one.bus}"
        elif one.duplex:
            yield f"{prefix}{here}>{device}"
        else:
            yield f"{prefix}{one.a}<>{one.b}"
        here = device
