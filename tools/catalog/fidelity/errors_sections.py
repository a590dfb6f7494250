"""Errors of the points: by what was left out, against the best donor, and as orders of devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog.fidelity.orders import runs_of
from catalog.fidelity.points import FidelityPoint, Key, Predicted, grouped
from catalog.fidelity.summary import Choose, Summary, spread
from catalog.fidelity.words import errors_of, percent, share
from catalog.judging import LEAST_NETWORKS
from catalog.kins import is_pipelined
from catalog.orders import best, pairs
from hetsim.hardware.kernel_figures import batch_range


def errors_sections(points: Sequence[FidelityPoint]) -> list[str]:
    """Return the sections."""
    donated = [point for point in points if point.donor_s is not None and point.left_out]
    against = [_donors(donated)] if donated else []
    return [_provenance(points), *against, _orders(points)]


def _roofline(point: FidelityPoint) -> Predicted | None:
    """Return what the cost model ``roofline`` predicts; it states no interval."""
    return None if point.roofline_s is None else Predicted(point.roofline_s, 1.0)


_WAYS: Sequence[tuple[str, Choose, bool]] = (
    ("fitted, the network left out of the device", lambda point: point.left_out, True),
    ("fitted, the network left out of its kin", lambda point: point.unseen, True),
    ("prior: datasheet and kin, the chip left out", lambda point: point.datasheet, True),
    ("roofline alone, batch 1", _roofline, False),
    ("fitted, shipped (in sample)", lambda point: point.shipped, True),
)


_RANGES: Sequence[tuple[str, Callable[[FidelityPoint], bool]]] = (
    ("1", lambda point: batch_range(point.batch) == "1"),
    ("2-16", lambda point: batch_range(point.batch) == "2-16"),
    ("2-16, latencies", lambda p: batch_range(p.batch) == "2-16" and not is_pipelined(p.kin)),
    ("2-16, rates of a pipeline", lambda point: is_pipelined(point.kin)),
    ("17+", lambda point: batch_range(point.batch) == "17+"),
    ("all", lambda point: True),
)
"""What errors are told of: ranges of batch sizes, and what of one is no latency."""


def _provenance(points: Sequence[FidelityPoint]) -> str:
    enough = _of_enough_networks(points)
    lines = [
        "## Errors by provenance\n",
        "Median and 90th percentile of the errors; the same over devices and precisions with "
        f"{LEAST_NETWORKS} networks or more. Rates of a pipeline are those of Hailo at batch 8: "
        "their inverse is no latency, so they are told with the others and apart.\n",
        "| figures | batch | points | median | 90 % | within 2 times | 80 % intervals cover "
        f"| of {LEAST_NETWORKS} networks or more |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for words, predicted, intervals in _WAYS:
        for batch, wanted in _RANGES:
            chosen = [point for point in points if wanted(point)]
            found = Summary.of(chosen, predicted)
            if found is None or (not intervals and batch == "all"):
                continue
            covered = share(found.covered) if intervals else "-"
            of_enough = Summary.of([p for p in chosen if p.key in enough], predicted)
            lines.append(
                f"| {words} | {batch} | {found.count} | {percent(found.median)} | "
                f"{percent(found.p90)} | {share(found.within_twice)} | {covered} | "
                f"{errors_of(of_enough)} |"
            )
    known = [p for p in points if p.rows > 1]
    between = spread(known)
    lines.append("")
    if between is not None:
        lines.append(
            f"Of {len(known)} points with several rows the largest is {percent(between)} above the "
            "least, by the median."
        )
    of_one = [p for p in points if p.batch == 1 and p.shipped is not None]
    found = Summary.of(of_one, lambda p: None if p.priced_s is None else Predicted(p.priced_s, 1.0))
    if found is not None:
        lines.append(
            f"\nShipped is at batch 1 what `simulate` says of the whole network on the device "
            f"alone, on {found.count} of {len(of_one)} points: off by {percent(found.median)} and "
            f"{percent(found.p90)}."
            + (
                " The others are of networks that the device does not take whole, and predicted "
                "by the table of their kernels."
                if found.count < len(of_one)
                else ""
            )
        )
    return "\n".join(lines) + "\n"


def _of_enough_networks(points: Sequence[FidelityPoint]) -> set[Key]:
    """Keys of the points of devices and precisions that `LEAST_NETWORKS` were measured of."""
    by_device = grouped(points, lambda point: (point.device, point.precision))
    return {
        point.key
        for found in by_device.values()
        if len({point.network for point in found}) >= LEAST_NETWORKS
        for point in found
    }


def _donors(donated: Sequence[FidelityPoint]) -> str:
    """Against one factor on the times of another device that has run the network."""
    lines = [
        "## Against the best donor\n",
        "A strong baseline: the times of another chip, times the one factor that fits the networks "
        "that both have run, but for the one in question; the chip is the one where that fits "
        "best. It has run the network, as others of the kin may have for *left out of the device*. "
        "Median and 90th percentile over the points that have a donor.\n",
        "| kin | points | left out of the device | donor | better |",
        "|---|---|---|---|---|",
    ]
    by_kin = grouped(sorted(donated, key=lambda point: point.kin), lambda point: point.kin)
    for kin, found in [*by_kin.items(), ("all", donated)]:
        ours = Summary.of(found, lambda point: point.left_out)
        theirs = Summary.of(found, _donor)
        if ours is None or theirs is None:
            continue
        better = [
            name
            for name, own, other in (
                ("median", ours.median, theirs.median),
                ("90 %", ours.p90, theirs.p90),
            )
            if own <= other
        ]
        told = {2: "in both", 1: f"by {better[0]} alone" if better else "", 0: "**no**"}
        lines.append(
            f"| {kin} | {ours.count} | {errors_of(ours)} | {errors_of(theirs)} | "
            f"{told[len(better)]} |"
        )
    return "\n".join(lines) + "\n"


def _donor(point: FidelityPoint) -> Predicted | None:
    """Return what the best donor predicts; it states no interval."""
    return None if point.donor_s is None else Predicted(point.donor_s, 1.0)


def _orders(points: Sequence[FidelityPoint]) -> str:
    lines = [
        "## Which device is faster\n",
        "Pairs of devices that were measured more than 1.3 times apart on one network and batch, "
        "and how many are predicted in that order. *Best*: of the devices (or units of one chip, "
        "each in every precision that was measured) the one that is predicted fastest is the one "
        "that was measured fastest; *regret*: what taking it costs beyond that.\n",
        "| figures | among | pairs | in order | choices | best | regret, mean | 1 in 10 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ways = [way for way in _WAYS if any(way[1](point) for point in points)]
    for words, predicted, _ in ways:
        for among, of_a_chip in (("all devices", False), ("units of one chip", True)):
            lines.append(_order(words, among, points, _seconds_of(predicted), of_a_chip))
    for way, predicted, _ in [way for way in ways if way in _WAYS[:2]]:
        for words, among in (("floats", "float"), ("int8", "int8")):
            chosen = [p for p in points if among in p.precision]
            told = f"units of one chip, {words} alone"
            lines.append(_order(way, told, chosen, _seconds_of(predicted), True))
    lines.append(
        "\nRows of several units at once are not among these points: what a split takes is no "
        "error of one device."
    )
    return "\n".join(lines) + "\n"


def _order(
    words: str,
    among: str,
    points: Sequence[FidelityPoint],
    seconds: Callable[[FidelityPoint], float | None],
    of_a_chip: bool,
) -> str:
    runs = runs_of(points, seconds, of_a_chip)
    apart, taken = pairs(runs), best(runs)
    in_order = share(apart.right / apart.count) if apart.count else "-"
    cells = ["-"] * 3
    if taken.count:
        one_in_ten = taken.regrets[min(int(0.9 * taken.count), taken.count - 1)]
        cells = [share(taken.right / taken.count), percent(taken.mean_regret), percent(one_in_ten)]
    return (
        f"| {words} | {among} | {apart.count} | {in_order} | {taken.count} | {' | '.join(cells)} |"
    )


def _seconds_of(predicted: Choose) -> Callable[[FidelityPoint], float | None]:
    def seconds(point: FidelityPoint) -> float | None:
        found = predicted(point)
        return None if found is None else found.seconds

    return seconds
