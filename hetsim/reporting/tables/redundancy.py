"""Objectives with lost devices: the worst losses, and availability."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from hetsim.core.text import fields, plain
from hetsim.core.units import format_seconds
from hetsim.provisioning.rates.answer import (
    Availability,
    Choice,
    Loss,
    State,
    Survived,
    nearest_miss,
)
from hetsim.reporting.words.console import bold, stack, table, table_of
from hetsim.reporting.words.like_devices import fold_rows, folded
from hetsim.reporting.words.text import ABSENT, count, latency_text, share_text
from hetsim.simulation.service.service import Service

CHOICES_SHOWN = 3
"""Choices of what is down that a line has room for."""


def choice_text(choice: Choice) -> str:
    """Return a choice of lost devices such as ``2 of gpu.0-7 and cpu``, or ``none``."""
    parts = [
        plain(", ".join(folded(names)))
        if count == len(names)
        else f"{count} of {plain(', '.join(folded(names)))}"
        for count, names in choice
    ]
    return " and ".join(parts) or "none"


def choices_text(choices: Sequence[Choice]) -> str:
    """Return several choices of lost devices."""
    shown = [choice_text(one) for one in choices[:CHOICES_SHOWN]]
    if len(choices) > CHOICES_SHOWN:
        shown.append(f"{len(choices) - CHOICES_SHOWN} more")
    return "; or ".join(shown)


SHOWN = 12
"""Losses that are listed."""


def surviving_report(found: Survived) -> RenderableType:
    """Return a row a loss, the worst first, notes, and the answer."""
    made = table_of(
        (found.intact, *found.losses[:SHOWN]),
        ("without", lambda one: choices_text(one.sets)),
        "answer=answer",
        ("tightest objective", lambda one: nearest_text(one.service)),
        ("bottleneck", lambda one: ABSENT if one.service is None else one.service.bottleneck),
    )
    left = len(found.losses) - SHOWN
    more = [Text(f"{left} more losses are less severe.")] * (left > 0)
    told = [Text(line) for line in _notes(found)]
    return stack(made, [*more, *told, bold(surviving_sentence(found))])


def nearest_text(service: Service | None) -> str:
    """Return the percentile that is nearest to its limit, or furthest beyond it."""
    if service is None:
        return "cannot be served"
    nearest = nearest_miss(service)
    if nearest is None:
        return service.state
    slo, one = nearest
    return f"p{slo.percentile:g} {latency_text(one.estimate_s)} of {format_seconds(slo.latency_s)}"


def _notes(found: Survived) -> list[str]:
    notes = []
    if found.unused:
        names = plain(", ".join(folded(found.unused)))
        notes.append(f"No model runs on {names}: losing one of them changes nothing.")
    for one in found.losses[:SHOWN]:
        if one.anew and one.refused is None:
            models = plain(", ".join(one.anew))
            notes.append(f"Without {choices_text(one.sets)}, {models} is replanned.")
    return [*notes, "A lost device loses its work; its links and the host's data stay."]


def surviving_sentence(found: Survived) -> str:
    """Return the answer, and the worst loss, in one sentence."""
    lost = f"any {'one device' if found.most == 1 else count(found.most, 'device')} lost"
    if found.intact.answer == "misses":
        return f"It misses with all devices: {nearest_text(found.intact.service)}."
    worst = found.worst
    if worst.lost:
        case = f"worst case without {choices_text(worst.sets)}: {_worst_text(worst)}"
    else:
        case = f"no loss changes anything: {nearest_text(worst.service)}"
    if found.answer == "meets":
        return f"The objectives hold with {lost}; {case}."
    if found.answer == "undecided":
        return f"It is undecided whether the objectives hold with {lost}; {case}."
    proof = f" ({plain(found.impossible)})" if found.impossible is not None else ""
    return f"The objectives do not hold with {lost}{proof}; {case}."


def _worst_text(one: Loss) -> str:
    if one.refused is not None:
        return f"it cannot be served: {plain(one.refused.what)}"
    return f"{one.answer}, {nearest_text(one.service)}"


def surviving_record(found: Survived) -> dict[str, Any]:
    """Return the record for ``to_json``."""
    return {
        **fields(found, "most answer worst=worst.lost impossible unused"),
        "losses": [_loss_record(one) for one in (found.intact, *found.losses)],
    }


def _loss_record(one: Loss) -> dict[str, Any]:
    nearest = None if one.service is None else nearest_miss(one.service)
    return {
        "without": list(one.lost),
        "stands_for": choices_record(one.sets),
        **fields(one, "choices answer"),
        "percentile": None if nearest is None else nearest[0].percentile,
        "latency_s": None if nearest is None else nearest[1].estimate_s,
        "limit_s": None if nearest is None else nearest[0].latency_s,
        **(
            {"bottleneck": None, "state": None, "requests": 0}
            if one.service is None
            else fields(one.service, "bottleneck state requests")
        ),
        "planned_again": list(one.anew),
        "refused": None if one.refused is None else str(one.refused),
    }


def choices_record(sets: Sequence[Choice]) -> list[list[dict[str, Any]]]:
    """Return choices of what is down as a record."""
    return [[{"down": down, "of": list(names)} for down, names in one] for one in sets]


STATES_SHOWN = 12
"""States, and devices, that are listed."""

HOW = {
    "refused": "cannot be served",
    "not asked": "too rare to simulate",
}


def availability_report(found: Availability) -> RenderableType:
    """Return the states, the likeliest first, the devices, and the answer."""

    def rare(one: State) -> str:
        chance = one.chance
        return share_text(chance) if chance > Fraction(1, 2) else f"{100 * float(chance):.3g} %"

    def why(one: State) -> str:
        return HOW[one.how] if one.service is None else nearest_text(one.service)

    states = table_of(
        found.states[:STATES_SHOWN],
        ("down", lambda one: choices_text(one.sets)),
        ("#of the time", rare),
        "answer=answer",
        ("tightest objective", why),
    )
    rows = fold_rows(found.devices, lambda one: one.device, lambda one: (one.share, one.source))
    devices = table(
        ("device", "#up", "source"),
        ((name, share_text(one.share), one.source) for name, one in rows[:STATES_SHOWN]),
    )
    left = len(found.states) - STATES_SHOWN
    more = [Text(f"{left} more states are rarer.")] * (left > 0)
    text = "Devices are assumed to fail independently, and each state to last."
    return stack(states, [*more, devices], [Text(text), *map(bold, availability_lines(found))])


def _digits(minutes: float) -> str:
    return f"{minutes:.0f}" if minutes >= 100 else f"{minutes:.3g}"


def availability_lines(found: Availability) -> list[str]:
    """Return availability and whether its target is met, in a sentence."""
    low, high = found.low, found.high
    between = share_text(low)
    least, most = found.minutes_a_month
    lost = _digits(most)
    if low != high:
        between += f" to {share_text(high)}"
        lost = f"{_digits(least)} to {lost}"
    answer = {"meets": "met", "misses": "missed", "undecided": "undecided"}[found.answer]
    proof = f": {plain(found.impossible)}" if found.impossible is not None else ""
    return [
        f"The objectives hold {between} of the time and fail {lost} minutes a month; the target "
        f"of {float(100 * found.target):.12g} % is {answer}{proof}."
    ]


def availability_record(found: Availability) -> dict[str, Any]:
    """Return the record for ``to_json``; shares are fractions, as text, and floats beside."""
    return {
        "target": _share(found.target),
        "answer": found.answer,
        "low": _share(found.low),
        "high": _share(found.high),
        **fields(found, "missed_minutes_a_month=minutes_a_month impossible"),
        "states": [
            {
                "down": list(one.lost),
                "stands_for": choices_record(one.sets),
                "chance": _share(one.chance),
                **fields(one, "answer how planned_again=anew"),
                "p99_s": one.service and [stream.p99_s for stream in one.service.streams],
            }
            for one in found.states
        ],
        "devices": [
            {"device": one.device, "up": _share(one.share), "source": one.source}
            for one in found.devices
        ],
    }


def _share(share: Fraction) -> dict[str, Any]:
    return {"exact": str(share), "share": float(share)}
