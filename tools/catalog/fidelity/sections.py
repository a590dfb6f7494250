"""Sections of the document of fidelity: errors, right orders, the worst points."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import numpy as np

from catalog.fidelity.points import FidelityPoint, Key, Predicted, grouped
from catalog.judging import LEAST_NETWORKS, Run, best, pairs
from catalog.points import is_pipelined
from hetsim.hardware.kernel_figures import batch_range


class Errors(Protocol):
    """Errors of many predictions: of times, of rates, or as the catalog states them."""

    @property
    def median(self) -> float:
        """Of all of them, as a share."""
        ...

    @property
    def p90(self) -> float:
        """That nine of ten are not above."""
        ...


def errors_of(found: Errors | None) -> str:
    """Return the median and the 90th percentile of errors; a dash where there are none."""
    return "-" if found is None else f"{percent(found.median)} / {percent(found.p90)}"


def percent(part: float) -> str:
    """Return a share as an error in percent, with two digits.

    >>> percent(0.0123), percent(0.5)
    ('1.2 %', '50 %')
    """
    return f"{100 * part:.1f} %" if part < 0.0995 else f"{100 * part:.0f} %"


def share(part: float) -> str:
    """Return a share in percent, as precise as it is far from all."""
    return f"{100 * part:.1f} %" if part > 0.9 else f"{100 * part:.0f} %"


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds, with three digits."""
    ms = seconds * 1e3
    return f"{ms:.3g}" if ms < 1000 else f"{ms:.0f}"


Choose = Callable[[FidelityPoint], Predicted | None]


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors of predictions that there are.

    - `median`, `p90`: of relative errors, 0.1 for 10 %.
    - `within_twice`: share between half and twice the measured time.
    - `covered`: share of measured times inside the interval.
    """

    count: int
    median: float
    p90: float
    within_twice: float
    covered: float

    @classmethod
    def of(cls, points: Iterable[FidelityPoint], predicted: Choose) -> Summary | None:
        """Summarise; None where nothing is predicted."""
        found = [(point, one) for point in points if (one := predicted(point)) is not None]
        if not found:
            return None
        errors = np.array([one.error(point.measured_s) for point, one in found])
        logs = np.log([one.seconds / point.measured_s for point, one in found])
        return cls(
            count=len(found),
            median=float(np.median(errors)),
            p90=float(np.quantile(errors, 0.9)),
            within_twice=float((np.abs(logs) <= np.log(2)).mean()),
            covered=float(np.mean([one.covers(point.measured_s) for point, one in found])),
        )


def spread(points: Iterable[FidelityPoint]) -> float | None:
    """Return how far the largest of repeated measurements is above the least, by the median."""
    found = [point.highest_s / point.lowest_s - 1 for point in points if point.rows > 1]
    return float(np.median(found)) if found else None


SecondsOf = Callable[[FidelityPoint], float | None]

_UNITS = ("cpu", "gpu", "npu", "igpu", "dla")


def chip_of(device: str) -> str:
    """Return the chip that a device of the catalog is a unit of.

    >>> chip_of("rockchip-rk3588-npu"), chip_of("nvidia-t4")
    ('rockchip-rk3588', 'nvidia-t4')
    """
    name = device.partition(":")[0]
    chip, _, unit = name.rpartition("-")
    return chip if unit in _UNITS else name


def runs_of(points: Iterable[FidelityPoint], predicted: SecondsOf, of_a_chip: bool) -> list[Run]:
    """Return what can be chosen among on each network and batch; `of_a_chip`: its units alone."""
    return [
        Run(
            case=(point.network, point.batch, chip_of(point.device) if of_a_chip else ""),
            name=point.device,
            setting=point.precision,
            measured_s=point.measured_s,
            predicted_s=seconds,
        )
        for point in points
        if (seconds := predicted(point)) is not None
    ]


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


LEAST = 3
"""Points of a network or device that make it worth a line."""
MOST = 12
OF_A_KIND = 3
"""Lines of one runtime, so that others are seen."""
FEW = 4
"""Networks of a device below which its figures are hardly its own."""

_WHY: Sequence[tuple[str, str, str]] = (
    ("googlenet", "aihub-npu", "branches run at once there, and are priced one after the other"),
    ("inception", "aihub-npu", "branches run at once there, and are priced one after the other"),
    ("shufflenet", "", "shuffles of channels cost one runtime much and another nothing"),
    ("sequencer2d", "", "the one recurrent network: left out, nothing tells what steps take"),
    ("mobilebert", "", "many small products: what launches cost among them is all"),
    ("vision_transformer", "ncnn", "the kin's one network of large matrix products: left out, "
     "their rate is a belief"),
    ("vgg", "", "nothing else has so much work a kernel: fast algorithms for it differ"),
    ("alexnet", "", "weights of fully connected layers, of which no other network has as many"),
    ("efficientnetv2", "ncnn-gpu", "drivers of graphics differ in what large windows cost them"),
    ("segformer", "", "its one measured source falls back inside, and does not say where"),
    ("", "hailort", "rates of a pipeline: its slowest stage and the loading of contexts, which "
     "the compiler decides, are not in the formula"),
    ("", "edgetpu", "weights on the chip decide, and few networks are measured"),
    ("", "rknn", "five networks a device: most of the figures are beliefs"),
    ("", "sophon", "one or two networks: most of the figures are beliefs"),
    ("", "mlperf", "few networks, each by its maker's own compiler"),
    ("", "ncnn-cpu-int8", "five networks a device: most of the figures are beliefs"),
    ("", "ncnn-gpu", "Vulkan drivers: runs of one card differ by more than cards do"),
    ("", "openvino-cpu", "few networks, on servers with many cores, as rates whose batch and "
     "streams are not told"),
)  # fmt: skip


def worst_section(points: Sequence[FidelityPoint]) -> str:
    """Return the networks and devices that are missed by most when they are left out."""
    lines = [
        "## What is worst\n",
        f"By the median over points of what was left out of its kin, of {LEAST} points or more; at "
        f"most {OF_A_KIND} lines of a runtime. *Bias*: how many times as long as measured they are "
        "predicted to take.\n",
        "| what | points | median error | bias | why |",
        "|---|---|---|---|---|",
    ]
    lines += _lines(points, lambda p: (p.network, _runtime(p.kin)), "{0} on {1}")
    lines += _lines(points, lambda p: (p.device, p.precision), "{0} in {1}")
    return "\n".join(lines) + "\n"


def _runtime(kin: str) -> str:
    return kin.rpartition("-")[0]


def _lines(
    points: Sequence[FidelityPoint],
    key: Callable[[FidelityPoint], tuple[str, str]],
    words: str,
) -> list[str]:
    groups: defaultdict[tuple[str, str], list[FidelityPoint]] = defaultdict(list)
    for point in points:
        if point.unseen is not None:
            groups[key(point)].append(point)
    told = []
    for names, found in groups.items():
        if len(found) >= LEAST:
            error = median(p.unseen.error(p.measured_s) for p in found if p.unseen)
            bias = median(p.unseen.seconds / p.measured_s for p in found if p.unseen)
            told.append((error, names, bias, found))
    told.sort(key=lambda each: (-each[0], each[1]))
    lines: Counter[str] = Counter()
    shown = []
    for each in told:
        kin = _runtime(each[3][0].kin)
        lines[kin] += 1
        if lines[kin] <= OF_A_KIND:
            shown.append(each)
    return [
        f"| {words.format(*names)} | {len(found)} | {100 * error:.0f} % | {bias:.2f} | "
        f"{_why(found)} |"
        for error, names, bias, found in shown[:MOST]
    ]


def _why(found: Sequence[FidelityPoint]) -> str:
    networks = {point.network for point in found}
    for network, kin, why in _WHY:
        of_it = not network or (len(networks) == 1 and network in found[0].network)
        if of_it and found[0].kin.startswith(kin):
            return why
    devices = {(point.device, point.precision) for point in found}
    few = len(devices) == 1 and len(networks) < FEW
    return f"networks that were measured on it: {len(networks)}" if few else "not known"
