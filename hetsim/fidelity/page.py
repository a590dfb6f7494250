"""``docs/fidelity.md``: predicted against measured, told from the points alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetsim.fidelity.orders import best, pairs
from hetsim.fidelity.points import FidelityPoint, Predicted, grouped
from hetsim.fidelity.shipped import device_of
from hetsim.fidelity.summary import Choose, Summary, spread
from hetsim.fidelity.worst import worst_section
from hetsim.hardware.catalog import device_names
from hetsim.hardware.kernel_figures import BATCHES, batch_range


def page_text(points: Sequence[FidelityPoint]) -> str:
    """Return the document, the same text for the same points and catalog."""
    sections = [
        _top(points),
        _provenance(points),
        _orders(points),
        worst_section(points),
        _devices(points),
        _unmeasured(points),
        _networks(points),
    ]
    return "\n".join(sections)


def roofline(point: FidelityPoint) -> Predicted | None:
    """Return what the cost model ``roofline`` predicts; it states no interval."""
    return None if point.roofline_s is None else Predicted(point.roofline_s, 1.0)


def _top(points: Sequence[FidelityPoint]) -> str:
    devices = {point.device for point in points}
    networks = {point.network for point in points}
    rows = sum(point.rows for point in points)
    return f"""\
# Fidelity: predicted against measured

Written by `make fidelity` out of `data/fidelity/points.csv`, which `make fit` writes.
{len(points)} points: {len(networks)} networks on {len(devices)} devices of the catalog, at the
batches and in the precisions in which others measured and published them; {rows} rows in all
(`data/measured/README.md`). A point is the median of comparable rows: one chip, runtime, precision
and setting. Errors are those of the predicted time as a share of the measured one.

A point is predicted three times:

- *shipped*: by the figures of the catalog. **In sample**: they were fitted to these points, so
  this says how well the formula can follow, not how well it foretells.
- *left out*: by figures fitted without any device's rows of the network: what to expect of a
  network that nobody has measured, on a device that was.
- *datasheet*: by what other chips of its kin teach, at the device's datasheet, without any row of
  the chip: what to expect of a device that nobody has measured.

Intervals hold 80 %: those of *left out* and *datasheet* are as wide as the misses of other
networks and other chips say. The *spread* is how far the largest of repeated measurements is above
the least: below it no prediction can go.

![Predicted against measured, by kind of device](fidelity.svg)

![Predicted over measured, by device](fidelity-devices.svg)
"""


_WAYS: Sequence[tuple[str, Choose, bool]] = (
    ("fitted, the network left out", lambda point: point.unseen, True),
    ("prior: datasheet and kin, the chip left out", lambda point: point.datasheet, True),
    ("roofline alone, batch 1", roofline, False),
    ("fitted, shipped (in sample)", lambda point: point.shipped, True),
)


def _provenance(points: Sequence[FidelityPoint]) -> str:
    lines = [
        "## Errors by provenance\n",
        "| figures | batch | points | median | 90th percentile | within 2 times | 80 % intervals "
        "cover |",
        "|---|---|---|---|---|---|---|",
    ]
    for words, predicted, intervals in _WAYS:
        for batch in (*BATCHES, "all"):
            chosen = [p for p in points if batch in ("all", batch_range(p.batch))]
            found = Summary.of(chosen, predicted)
            if found is None or (not intervals and batch == "all"):
                continue
            covered = share(found.covered) if intervals else "-"
            lines.append(
                f"| {words} | {batch} | {found.count} | {percent(found.median)} | "
                f"{percent(found.p90)} | {share(found.within_twice)} | {covered} |"
            )
    known = [p for p in points if p.rows > 1]
    between = spread(known)
    lines.append("")
    if between is not None:
        lines.append(
            f"Of {len(known)} points with several rows the largest is {percent(between)} above the "
            "least, by the median."
        )
    whole = [p for p in points if p.priced_s is not None and p.shipped is not None]
    if whole:
        found = Summary.of(whole, lambda p: Predicted(p.priced_s or 0.0, 1.0))
        same = Summary.of(whole, lambda p: p.shipped)
        assert found is not None
        assert same is not None
        lines.append(
            "\nA problem of the whole network on the device alone, as `simulate` plays it, is off "
            f"by {percent(found.median)} and {percent(found.p90)} on {found.count} points at "
            f"batch 1, where the table of kernels is by {percent(same.median)} and "
            f"{percent(same.p90)} (shipped): as if in int8 it also prices conversions, and ops "
            "that stay in floats."
        )
    return "\n".join(lines) + "\n"


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
    for words, predicted, _ in _WAYS:
        for among, of_a_chip in (("all devices", False), ("units of one chip", True)):
            lines.append(_order(words, among, points, _seconds_of(predicted), of_a_chip))
    for words, among in (("floats", "float"), ("int8", "int8")):
        chosen = [p for p in points if among in p.precision]
        told = f"units of one chip, {words} alone"
        lines.append(_order(_WAYS[0][0], told, chosen, _seconds_of(_WAYS[0][1]), True))
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
    apart = pairs(points, seconds, of_a_chip)
    taken = best(points, seconds, of_a_chip)
    in_order = share(apart.right / apart.count) if apart.count else "-"
    cells = ["-"] * 3
    if taken.count:
        mean = sum(taken.regrets) / taken.count
        one_in_ten = taken.regrets[min(int(0.9 * taken.count), taken.count - 1)]
        cells = [share(taken.right / taken.count), percent(mean), percent(one_in_ten)]
    return (
        f"| {words} | {among} | {apart.count} | {in_order} | {taken.count} | {' | '.join(cells)} |"
    )


def _seconds_of(predicted: Choose) -> Callable[[FidelityPoint], float | None]:
    def seconds(point: FidelityPoint) -> float | None:
        found = predicted(point)
        return None if found is None else found.seconds

    return seconds


def _devices(points: Sequence[FidelityPoint]) -> str:
    lines = [
        "## Devices\n",
        "Median error / 90th percentile. *Covered*: by the 80 % intervals of *left out*.\n",
        "| device | precision | kin | networks | rows | spread | shipped (in sample) | left out | "
        "covered | datasheet |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (device, precision), found in grouped(points, lambda p: (p.device, p.precision)).items():
        unseen = Summary.of(found, lambda p: p.unseen)
        between = spread(found)
        cells = [
            device,
            precision,
            found[0].kin,
            str(len({p.network for p in found})),
            str(sum(p.rows for p in found)),
            "-" if between is None else percent(between),
            _errors(Summary.of(found, lambda p: p.shipped)),
            _errors(unseen),
            "-" if unseen is None else share(unseen.covered),
            _errors(Summary.of(found, lambda p: p.datasheet)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _unmeasured(points: Sequence[FidelityPoint]) -> str:
    measured = {(point.device, point.precision) for point in points}
    lines = [
        "## Without rows of their own\n",
        "What these devices take in these precisions nobody has published, or not comparably. A "
        "*prior* is what devices of its kin have, at its datasheet; its error is that over chips "
        "that were left out. What has no kin is priced by the roofline.\n",
        "| device | precision | figures | median / 90th percentile at batch 1 |",
        "|---|---|---|---|",
    ]
    for name in device_names():
        kernels = device_of(name).kernels
        for precision, figures in sorted(kernels.items()):
            if (name, precision) not in measured:
                error = figures.error()
                told = f"{percent(error.median)} / {percent(error.p90)}" if error else "-"
                lines.append(
                    f"| {name} | {precision} | {figures.standing}, {figures.kin} | {told} |"
                )
        if not kernels:
            lines.append(f"| {name} | all | roofline | - |")
    return "\n".join(lines) + "\n"


def _networks(points: Sequence[FidelityPoint]) -> str:
    lines = [
        "## Networks\n",
        "Milliseconds a batch: measured (least to largest where they differ); *left out* and its "
        "80 % interval in times, in bold where it does not hold; shipped.\n",
    ]
    ordered = sorted(points, key=lambda p: (p.network, p.batch, p.device, p.precision))
    for network, found in grouped(ordered, lambda p: p.network).items():
        told = _errors(Summary.of(found, lambda p: p.unseen))
        lines += [
            f"<details><summary>{network}: {len(found)} points, left out {told}</summary>\n",
            "| device | precision | batch | measured | left out | within | shipped |",
            "|---|---|---|---|---|---|---|",
            *map(_line, found),
            "\n</details>\n",
        ]
    return "\n".join(lines)


def _line(point: FidelityPoint) -> str:
    measured = _ms(point.measured_s)
    if point.highest_s > point.lowest_s * 1.001:
        measured += f" ({_ms(point.lowest_s)} to {_ms(point.highest_s)})"
    unseen, within = "-", "-"
    if point.unseen is not None:
        unseen, within = _ms(point.unseen.seconds), f"{point.unseen.within:.2f}"
        if not point.unseen.covers(point.measured_s):
            unseen = f"**{unseen}**"
    shipped = "-" if point.shipped is None else _ms(point.shipped.seconds)
    cells = [point.device, point.precision, str(point.batch), measured, unseen, within, shipped]
    return f"| {' | '.join(cells)} |"


def _errors(found: Summary | None) -> str:
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


def _ms(seconds: float) -> str:
    ms = seconds * 1e3
    return f"{ms:.3g}" if ms < 1000 else f"{ms:.0f}"
