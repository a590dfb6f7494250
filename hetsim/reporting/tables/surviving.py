"""Whether objectives hold without some devices, as a table: the worst loss first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from hetsim.core.text import plain
from hetsim.core.units import format_seconds
from hetsim.provisioning.rates.answer import Choice, nearest_miss
from hetsim.provisioning.rates.redundancy.answer import Loss, Survived
from hetsim.reporting.words.console import cell, new_table
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.losses import choices_text
from hetsim.reporting.words.text import ABSENT, count, latency_text
from hetsim.simulation.service.service import Service

SHOWN = 12
"""Losses that are listed."""


def surviving_report(found: Survived) -> RenderableType:
    """Return a row a loss, the worst first, what is not lost with a device, and the answer."""
    table = new_table()
    for name in ("without", "answer", "nearest to its limit", "busiest"):
        table.add_column(name, overflow="fold")
    for one in (found.intact, *found.losses[:SHOWN]):
        table.add_row(
            cell(choices_text(one.sets)),
            cell(one.answer),
            cell(nearest_text(one.service)),
            cell(ABSENT if one.service is None else one.service.bottleneck),
        )
    parts: list[RenderableType] = [table, ""]
    if len(found.losses) > SHOWN:
        parts.append(Text(f"{len(found.losses) - SHOWN} more losses are less bad."))
    parts += [Text(line) for line in _notes(found)]
    parts.append(Text(surviving_sentence(found), style="bold"))
    return Stack(*parts)


def nearest_text(service: Service | None) -> str:
    """Return the percentile that is nearest to its limit, or beyond it."""
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
        notes.append(f"Nothing runs on {names}: to lose one of them changes nothing.")
    for one in found.losses[:SHOWN]:
        if one.anew and one.refused is None:
            models = plain(", ".join(one.anew))
            notes.append(f"Without {choices_text(one.sets)} {models} is planned again.")
    notes.append(
        "What is lost of a device is what runs there; its links stay, and what the host holds."
    )
    return notes


def surviving_sentence(found: Survived) -> str:
    """Return the answer, and the worst loss, in one sentence."""
    of = "one device" if found.most == 1 else count(found.most, "device")
    if found.intact.answer == "misses":
        return f"Missed with all devices: {nearest_text(found.intact.service)}."
    worst = found.worst
    if not worst.lost:
        same = f"which leaves as much as with all: {nearest_text(worst.service)}"
        if found.answer == "meets":
            return f"The objectives hold without any {of}, {same}."
        return f"Whether the objectives hold without any {of}, {same}, is undecided."
    named = f"without {choices_text(worst.sets)} {_worst_text(worst)}"
    if found.answer == "meets":
        return f"The objectives hold without any {of}; worst {named}."
    if found.answer == "undecided":
        return f"Whether the objectives hold without any {of} is undecided; worst {named}."
    proof = f": {plain(found.impossible)}" if found.impossible is not None else ""
    return f"The objectives do not hold without any {of}: {named}{proof}."


def _worst_text(one: Loss) -> str:
    if one.refused is not None:
        return f"it cannot be served: {plain(one.refused.what)}"
    return f"{one.answer}, {nearest_text(one.service)}"


def surviving_record(found: Survived) -> dict[str, Any]:
    """Return the record for ``to_json``."""
    return {
        "most": found.most,
        "answer": found.answer,
        "worst": list(found.worst.lost),
        "impossible": found.impossible,
        "unused": list(found.unused),
        "losses": [_loss_record(one) for one in (found.intact, *found.losses)],
    }


def _loss_record(one: Loss) -> dict[str, Any]:
    nearest = None if one.service is None else nearest_miss(one.service)
    return {
        "without": list(one.lost),
        "stands_for": choices_record(one.sets),
        "choices": one.choices,
        "answer": one.answer,
        "percentile": None if nearest is None else nearest[0].percentile,
        "latency_s": None if nearest is None else nearest[1].estimate_s,
        "limit_s": None if nearest is None else nearest[0].latency_s,
        "bottleneck": None if one.service is None else one.service.bottleneck,
        "state": None if one.service is None else one.service.state,
        "requests": 0 if one.service is None else one.service.requests,
        "planned_again": list(one.anew),
        "refused": None if one.refused is None else str(one.refused),
    }


def choices_record(sets: Sequence[Choice]) -> list[list[dict[str, Any]]]:
    """Return choices of what is down as a record."""
    return [[{"down": down, "of": list(names)} for down, names in one] for one in sets]
