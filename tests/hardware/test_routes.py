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
from hetsim.hardware.spec import Link, Platform, Route
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


def route(platform: Platform, start: str, end: str) -> tuple[Route, tuple[str, ...]]:
    names, routes = build_routes(platform)
    order = list(platform.devices)
    found = routes[order.index(start)][order.index(end)]
    return found, tuple(names[index] for index in found.resources)


def test_duplex_link_is_one_resource_a_direction() -> None:
    platform = platform_of("ab", link("a", "b"))
    assert build_routes(platform)[0] == ("a>b", "b>a")
    assert route(platform, "a", "b")[1] == ("a>b",)
    assert route(platform, "b", "a")[1] == ("b>a",)


def test_half_duplex_link_is_one_resource_for_both_directions() -> None:
    platform = platform_of("ab", link("a", "b", duplex=False))
    assert build_routes(platform)[0] == ("a<>b",)
    assert route(platform, "a", "b")[1] == route(platform, "b", "a")[1] == ("a<>b",)


def test_bus_is_one_resource_for_all_its_links_and_held_once() -> None:
    platform = platform_of("abc", link("a", "b", bus="mem"), link("b", "c", bus="mem"))
    names, routes = build_routes(platform)
    assert names == ("bus:mem",)
    assert all(routes[p][q].resources == (0,) for p, q in itertools.permutations(range(3), 2))


def test_parallel_links_carry_their_names() -> None:
    platform = platform_of(
        "ab", link("a", "b", name="pcie"), link("b", "a", name="usb", duplex=False)
    )
    assert build_routes(platform)[0] == ("pcie:a>b", "pcie:b>a", "usb:b<>a")


def test_route_adds_latencies_and_takes_the_narrowest_bandwidth() -> None:
    platform = platform_of("abc", link("a", "b", 1e-6, 4e9), link("b", "c", 2e-6, 3e9))
    found, held = route(platform, "a", "c")
    assert found.latency_s == 3e-6
    assert found.bytes_per_s == 3e9
    assert held == ("a>b", "b>c")


def test_wide_detour_is_taken_for_the_reference_size() -> None:
    platform = platform_of(
        "abc", link("a", "c", 0.0, 1e9), link("a", "b", 1e-5, 1e11), link("b", "c", 1e-5, 1e11)
    )
    assert route(platform, "a", "c")[0].bytes_per_s == 1e11


def test_prefix_of_the_best_path_need_not_be_best() -> None:
    # Behind a narrow last link, what counts is latency: a>b goes one way, a>b>c the other.
    wide, quick = (
        link("a", "b", 1e-4, 1e11, name="wide"),
        link("a", "b", 1e-6, 2e9, name="quick"),
    )
    platform = platform_of("abc", wide, quick, link("b", "c", 0.0, 1e9))
    assert route(platform, "a", "b")[1] == ("wide:a>b",)
    assert route(platform, "a", "c")[1] == ("quick:a>b", "b>c")


def test_ties_go_to_fewer_hops_then_to_names() -> None:
    direct = platform_of("abc", link("a", "b", 0.0), link("b", "c", 0.0), link("a", "c", 0.0))
    assert route(direct, "a", "c")[1] == ("a>c",)
    diamond = platform_of(
        "azbc", *(link(x, y, 0.0) for x, y in (("a", "z"), ("z", "c"), ("a", "b"), ("b", "c")))
    )
    assert route(diamond, "a", "c")[1] == ("a>b", "b>c")
    # Both take 1 s: the wide way by latency, the direct one by its bandwidth.
    wide = [link(x, y, 0.25, REFERENCE_BYTES * 2.0) for x, y in ("ab", "bc")]
    even = platform_of("abc", *wide, link("a", "c", 0.0, REFERENCE_BYTES * 1.0))
    assert route(even, "a", "c")[1] == ("a>c",)
    twins = platform_of("ab", link("a", "b", name="y"), link("a", "b", name="x"))
    assert route(twins, "a", "b")[1] == ("x:a>b",)


def test_sums_that_only_rounding_tells_apart_are_told_apart() -> None:
    # 0.1 + 0.2 rounds to just above 0.3, but is also more than 0.3 as exact binary numbers.
    platform = platform_of(
        "abc", link("a", "b", 0.1), link("b", "c", 0.2), link("a", "c", 0.1 + 0.2)
    )
    exact = Fraction(0.1) + Fraction(0.2)
    expected = ("a>b", "b>c") if exact < Fraction(0.1 + 0.2) else ("a>c",)
    assert route(platform, "a", "c")[1] == expected


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


@examples(quick=60, full=200)
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
