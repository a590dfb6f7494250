"""Served rates in ``docs/fidelity.md``: told from their points alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from catalog.fidelity.points import grouped
from catalog.fidelity.sections import errors_of, percent, share
from catalog.fidelity.server.points import GOAL, Alone, ServerPoint
from catalog.fidelity.server.rates import (
    NEEDED,
    QUERIES,
    SHORT,
    Rate,
    RateErrors,
    anchored,
    by_others,
    each_once,
    naive,
    reason,
    sizing,
)

_WORST = 12
_ERRORS = f"| results | median | 90 % | within {percent(GOAL)} | over measured | naive |"

_BASES = (
    ("system", "Offline and SingleStream of the system"),
    ("chip", "Offline of the system, SingleStream of others with its chip"),
    ("shape", "Offline; the shape of the catalog's device"),
    ("near", "Offline; the shape of a device near to the chip"),
    ("rate", "Offline, of a chip that nothing else is known of"),
)
_ALONE: Sequence[tuple[str, Callable[[ServerPoint], Alone | None]]] = (
    ("the network left out of the device", lambda point: point.left_out),
    ("the network left out of its kin", lambda point: point.unseen),
    ("datasheet and kin, the chip left out", lambda point: point.datasheet),
)


def server_section(points: Sequence[ServerPoint]) -> str:
    """Return the section."""
    told = [point for point in points if point.anchored_per_s]
    parts = (_top(points, told), _lines(told), _sizing(told), _by(told), _worst(told), _all(points))
    return "\n".join(parts)


def _top(points: Sequence[ServerPoint], told: Sequence[ServerPoint]) -> str:
    rounds = {point.system.round for point in points}
    networks = {point.system.network for point in points}
    machines = {(p.system.round, p.system.submitter, p.system.system) for p in points}
    own = sum(point.basis == "system" for point in told)
    of_chip = sum(point.basis == "chip" for point in told)
    return f"""\
## Rates within a limit: MLPerf's Server

What a platform serves is less than what it does in bulk: requests come when they like, and 99 of
100 are to be answered within a limit. MLPerf's Server scenario measures it: the highest rate of
Poisson arrivals at which they are. {len(points)} results of {len(networks)} networks on
{len(machines)} submitted systems of {len(rounds)} rounds are lines of `data/fidelity/server.csv`.
Limits: {_limits(points)}.
The devices of a system are its cards or sockets; no Server result is in any fit.

*Predicted* is the highest rate at which instances and a batcher answer 99 of 100 within the limit,
over {QUERIES:,} Poisson arrivals, by the instances a device and the largest batch that carry most.
Times of batches have the shape that the device's figures give them, and go through what else was
measured of the system: Offline, which is bulk, and SingleStream, which is batch 1. Of the results
{len(told)} have Offline, {own} of these SingleStream of their own and {of_chip} that of others with
the chip. *Naive* takes Offline's rate to be served. The goal is a median error below
{percent(GOAL)}.
"""


def _limits(points: Sequence[ServerPoint]) -> str:
    ordered = sorted(points, key=lambda point: point.system.limit_s)
    parts = [
        f"{limit_s * 1e3:.0f} ms ({', '.join(sorted({p.system.network for p in found}))})"
        for limit_s, found in grouped(ordered, lambda p: p.system.limit_s).items()
    ]
    return ", ".join(parts)


def _lines(told: Sequence[ServerPoint]) -> str:
    lines = [
        "Errors as shares of the measured rate; *over measured*: predicted over measured, of 10, "
        "50 and 90 in 100; *naive*: median and 90th percentile of the same results, for the "
        "catalog alone by its own rate of bulk.\n",
        f"| predicted by {_ERRORS}",
        "|---|---|---|---|---|---|---|",
        _row("**anchored, all**", told, anchored),
    ]
    for basis, words in _BASES:
        lines.append(_row(words, [p for p in told if p.basis == basis], anchored))
    lines.append(
        _row(
            "anchored, where the run came within a tenth of its limit",
            [p for p in told if p.system.p99_s > 0.9 * p.system.limit_s],
            anchored,
        )
    )
    once, once_naive = each_once(told, anchored), each_once(told, naive)
    lines.append(_cells("anchored, each chip, network and precision once", once, once_naive))
    for whose, group in (
        ("submitters", lambda point: point.system.submitter.lower()),
        ("chips", lambda point: point.system.chip),
    ):
        words = f"anchored, over one factor fitted on other {whose}"
        naive_of = by_others(told, naive, group)
        lines.append(_cells(words, by_others(told, anchored, group), naive_of))
    lines.append(_row("Offline and the queue, without a device", told, _no_shape))
    for words, alone in _ALONE:
        found, bulk = (RateErrors.of(told, rate) for rate in _served_and_bulk(alone))
        lines.append(_cells(f"the catalog alone: {words}", found, bulk))
    return "\n".join(line for line in lines if line) + "\n"


def _served_and_bulk(alone: Callable[[ServerPoint], Alone | None]) -> tuple[Rate, Rate]:
    """The rates within the limit and of bulk by a line of the catalog alone."""

    def served(point: ServerPoint) -> float | None:
        found = alone(point)
        return None if found is None else found.served_per_s

    def bulk(point: ServerPoint) -> float | None:
        found = alone(point)
        return None if found is None else found.bulk_per_s

    return served, bulk


def _no_shape(point: ServerPoint) -> float | None:
    return point.no_shape_per_s


def _row(words: str, points: Sequence[ServerPoint], rate: Rate) -> str:
    return _cells(words, RateErrors.of(points, rate), RateErrors.of(points, naive))


def _cells(words: str, found: RateErrors | None, beside: RateErrors | None) -> str:
    if found is None:
        return ""
    cells = [
        words,
        str(found.count),
        percent(found.median),
        percent(found.p90),
        share(found.within_goal),
        f"{found.low:.2f}, {found.middle:.2f}, {found.high:.2f}",
        errors_of(beside),
    ]
    return f"| {' | '.join(cells)} |"


def _sizing(told: Sequence[ServerPoint]) -> str:
    lines = [
        f"Bought for {NEEDED} times each measured rate, by `ceil(rate / predicted rate)`, where "
        f"{NEEDED} systems are needed; *short*: more than {percent(SHORT)} too few.\n",
        "| sized by | results | 10 in 100 | half | 90 in 100 | short |",
        "|---|---|---|---|---|---|",
    ]
    ways: Sequence[tuple[str, Rate]] = (
        ("predicted, anchored", anchored),
        ("naive", naive),
        *(
            (f"the catalog alone{what}: {words}", rate)
            for words, alone in _ALONE
            for what, rate in zip(("", ", naive"), _served_and_bulk(alone), strict=True)
        ),
    )
    for words, rate in ways:
        found = sizing(told, rate)
        if found is not None:
            lines.append(
                f"| {words} | {found.count} | {found.low:.0f} | {found.middle:.0f} | "
                f"{found.high:.0f} | {share(found.short)} |"
            )
    return "\n".join(lines) + "\n"


_PARTS: Sequence[tuple[str, Callable[[ServerPoint], str]]] = (
    ("network", lambda p: f"{p.system.network} on {_kind(p)}"),
    ("devices", lambda p: f"{p.system.devices} {_devices(p)}"),
    ("round", lambda p: p.system.round),
)


def _kind(point: ServerPoint) -> str:
    return "processors" if point.system.unit == "cpu" else "accelerators"


def _devices(point: ServerPoint) -> str:
    word = "socket" if point.system.unit == "cpu" else "card"
    return word if point.system.devices == 1 else f"{word}s"


def _by(told: Sequence[ServerPoint]) -> str:
    lines = [
        f"| of {_ERRORS}",
        "|---|---|---|---|---|---|---|",
    ]
    for _, part in _PARTS:
        of_part = grouped(sorted(told, key=part), part)
        lines += [_row(words, found, anchored) for words, found in of_part.items()]
    return "\n".join(lines) + "\n"


def _worst(told: Sequence[ServerPoint]) -> str:
    lines = [
        f"The {_WORST} that are furthest off:\n",
        "| result | chip | measured | predicted | naive | p99 of the limit | why |",
        "|---|---|---|---|---|---|---|",
    ]
    for point in sorted(told, key=lambda p: (-abs(p.off(p.anchored_per_s) or 0.0), p.key))[:_WORST]:
        of = point.system
        cells = [
            str(of),
            of.chip,
            _rate(of.server_per_s),
            _rate(point.anchored_per_s),
            _rate(of.offline_per_s),
            share(of.p99_s / of.limit_s),
            reason(point),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _all(points: Iterable[ServerPoint]) -> str:
    ordered = sorted(points, key=lambda p: (p.system.network, p.system.chip, p.key))
    lines = []
    for network, found in grouped(ordered, lambda p: p.system.network).items():
        told = errors_of(RateErrors.of(found, anchored))
        lines += [
            f"<details><summary>Server, {network}: {len(found)} results, anchored {told}, naive "
            f"{errors_of(RateErrors.of(found, naive))}</summary>\n",
            "| round | submitter | system | chip | devices | Offline | SingleStream, ms | measured "
            "| anchored | instances x batch | of the device | of its kin | datasheet |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
            *map(_line, found),
            "\n</details>\n",
        ]
    return "\n".join(lines)


def _line(point: ServerPoint) -> str:
    of = point.system
    alone = "-" if of.alone_s is None else f"{of.alone_s * 1e3:.3g}"
    if of.alone_of == "chip":
        alone += " (chip's)"
    off = point.off(point.anchored_per_s)
    predicted = _rate(point.anchored_per_s)
    cells = [
        of.round,
        of.submitter,
        of.system + (" (open)" if of.altered else ""),
        of.chip,
        str(of.devices),
        _rate(of.offline_per_s),
        alone,
        _rate(of.server_per_s),
        f"**{predicted}**" if off is not None and abs(off) > GOAL else predicted,
        f"{point.instances} x {point.batch}" if point.instances else "-",
        *(_rate(_served_and_bulk(alone)[0](point)) for _, alone in _ALONE),
    ]
    return f"| {' | '.join(cells)} |"


def _rate(per_s: float | None) -> str:
    if per_s is None:
        return "-"
    return f"{per_s:,.0f}" if per_s >= 1000 else f"{per_s:.3g}"
