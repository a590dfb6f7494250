"""What the report of ``hetsim recommend`` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hetsim.reporting.pages.island import Island, Section, Tile, Verdict, table
from hetsim.reporting.pages.islands.service import (
    latency_section,
    lean,
    load_sections,
    there,
    uses_section,
)
from hetsim.reporting.pages.islands.shared import Found, provenance_section, seconds
from hetsim.reporting.tables.recommendation import amount, counts_text
from hetsim.reporting.words.text import ABSENT, big, percent, ratio


def recommendation_island(
    record: Found,
    command: Sequence[str],
    pictures: Mapping[str, Any],
) -> Island:
    """Return what a recommendation's record shows.

    Parameters
    ----------
    record : mapping
        As ``recommendation_record`` gives it and JSON holds it.
    command : sequence of str
    pictures : mapping
        ``vectors``: what was tried, and the cheapest at other prices, as ``vectors_picture``
        gives it; ``rates``: the answer, as ``rates_picture`` gives it.
    """
    sections = [_front(record, pictures), *_prices(pictures), _excuses(record)]
    sections += [
        replace(one, order=8, title="The answer at other rates")
        for one in load_sections(pictures.get("rates", []))
    ]
    answer = record["answer"]
    if answer is not None:
        service = answer["service"]
        sections += [latency_section(service), uses_section(service, order=40)]
        sections.append(provenance_section(service["problem"]))
    if record.get("priced"):
        sections.append(_priced(record))
    if record["doubt"] is not None and record["doubt"].get("near", True):
        sections.append(_doubt(record))
    return Island(
        kind="recommend",
        title="The cheapest platform",
        command=tuple(command),
        record=_lean(record),
        verdict=Verdict(
            record["verdict"]["say"], _binds(record), tuple(_levers(record)), _sure(record)
        ),
        tiles=tuple(_tiles(record)),
        sections=tuple(sections),
        pictures=pictures,
    )


def _lean(record: Found) -> Found:
    """Return the record with fewer spans of queue lengths."""
    answer = record["answer"]
    if answer is None:
        return record
    return {**record, "answer": {**answer, "service": lean(answer["service"])}}


def money(record: Found, cost: float) -> str:
    """Return a cost with its unit."""
    return amount(cost, record["unit"])


def _binds(record: Found) -> str:
    binding = record["binding"]
    if binding is None:
        return str(record["impossible"] or "")
    if binding["unit"] == "s":
        amounts = f"{seconds(binding['has'])}, {seconds(binding['needs'])} is asked"
    else:
        amounts = f"{binding['has']:.4g} of {binding['needs']:.4g} {binding['unit']}"
    return (
        f"Nearest that costs less: {counts_text(binding['counts'])}; {binding['what']}: {amounts}."
    )


def _levers(record: Found) -> list[str]:
    binding = record["binding"]
    if binding is None:
        return []
    return [
        f"{'Lets it in' if one['enough'] else 'At least'}: {one['what']}"
        for one in binding["levers"]
    ]


def _sure(record: Found) -> str:
    doubt = record["doubt"]
    undecided = len(record["undecided"])
    text = ""
    if undecided:
        text = f"{undecided} that cost less may meet it all the same. "
    if doubt is None:
        return text + "No Monte Carlo samples: what the figures may be off by is not looked at."
    if not doubt.get("near", True):
        return text + "What is near it was not asked: --draws N asks that, too."
    return (
        f"{text}Over {doubt['draws']} samples it is the cheapest near it that meets in "
        f"{percent(doubt['right'])}."
    )


def _priced(record: Found) -> Section:
    rows = [
        (
            one["model"],
            one["device"],
            (f"as if {one['precision']}" if one["as_if"] else one["precision"]) or ABSENT,
            one["status"],
            ratio(one["within_80"]),
        )
        for one in record["priced"]
    ]
    names = ("model", "device", "precision", "figures", "#80 % within")
    told = (
        "In which precision each model is priced on each device of the catalog that runs it, and "
    )
    told += 'what its figures rest on; "as if" is a precision that the model does not have.'
    if record["weakest"] is not None:
        told += f" The weakest figure of the answer: {record['weakest']}."
    return Section(
        "priced", "What it rests on", told, (table("Precisions and figures", names, rows),),
        open=True, order=45,
    )  # fmt: skip


def _tiles(record: Found) -> list[Tile]:
    answer, found = record["answer"], []
    if answer is not None:
        found.append(Tile("costs", money(record, answer["cost"]), counts_text(answer["counts"])))
        found += there(answer["service"], "asked")
        second = record["runner_up"]
        if second is not None:
            more = second["cost"] / answer["cost"] - 1 if answer["cost"] else 0.0
            found.append(
                Tile("the next costs", percent(more, sign=True), counts_text(second["counts"]))
            )
    proved = sum(one["vectors"] for one in record["excuses"] if one["proved"])
    found.append(Tile("platforms", big(record["vectors"]), f"{big(proved)} excluded by proof"))
    return found


def _front(record: Found, pictures: Mapping[str, Any]) -> Section:
    rows = [
        (
            counts_text(one["counts"]),
            f"{one['cost']:.4g}",
            str(one["devices"]),
            seconds(one["latency_s"]),
            seconds(one["limit_s"]),
            one["answer"] + (", the answer" if one["chosen"] else ""),
        )
        for one in pictures.get("vectors", {}).get("tried", [])
    ]
    marked = [k for k, row in enumerate(rows) if row[-1].endswith("the answer")]
    names = ("platform", f"#{record['unit']}", "#devices", "#latency", "#asked", "")
    return Section(
        "front",
        "Cost and latency",
        "Platforms that were tried, by what they cost and the latency of the objective that each "
        "comes nearest to missing, by its best policy. Filled where it meets, hollow where that "
        "is undecided, crossed where each policy misses. What is not drawn is excluded by proof, "
        "or costs more.",
        (table("Platforms that were tried", names, rows, marked=marked),),
        order=5,
    )


def _prices(pictures: Mapping[str, Any]) -> list[Section]:
    """The cheapest platform at other prices; nothing where none were tried."""
    rows = [
        (
            str(one["kind"]),
            f"{one['price']:.4g}",
            "not known: ask again at this price"
            if one["counts"] is None
            else counts_text(one["counts"]),
            ABSENT if one["cost"] is None else f"{one['cost']:.4g}",
        )
        for one in pictures.get("vectors", {}).get("prices", [])
    ]
    if not rows:
        return []
    return [
        Section(
            "prices",
            "Other prices",
            "The cheapest platform where one kind costs a quarter, half, twice or four times as "
            "much. `hetsim recommend --price KIND=PRICE/h` says the same.",
            (table("Other prices", ("kind", "#USD/h", "cheapest", "#USD/h of all"), rows),),
            open=True,
            order=12,
        )
    ]


def _excuses(record: Found) -> Section:
    proved = [
        (big(one["vectors"]), one["because"], "proved")
        for one in record["excuses"]
        if one["proved"]
    ]
    if record["dearer"]:
        dearer = "cost more" if record["answer"] is not None else "were not looked at"
        proved.append((big(record["dearer"]), dearer, "by their cost"))
    tried = [
        (counts_text(one["counts"] or {}), one["because"])
        for one in record["excuses"]
        if not one["proved"]
    ]
    tables = [
        table("Excluded together", ("#platforms", "because", "how it is known"), proved),
        table("Tried one by one: each stated policy was played", ("platform", "because"), tried),
        table("Policies", ("policy",), [(one,) for one in record["policies"]]),
    ]
    return Section(
        "excuses",
        "Why not the others",
        "Every platform of the catalog is here, is dearer, or is the answer: a bound excludes "
        "those that cannot meet it whatever is done on them, the rest were played.",
        tuple(tables),
        open=True,
        order=10,
    )


def _doubt(record: Found) -> Section:
    rows = [
        (
            counts_text(one["counts"]),
            f"{one['cost']:.4g}",
            percent(one["meets"]),
            percent(one["cheapest"]),
            f"{one['regret']:.3g}",
        )
        for one in record["doubt"]["candidates"]
    ]
    names = ("near it", f"#{record['unit']}", "#meets", "#cheapest", "#regret")
    return Section(
        "doubt",
        "How sure",
        "Asked again on Monte Carlo samples of what the figures may be off by, and on the "
        "demand that was told.",
        (table("What is near the answer", names, rows),),
        open=True,
        order=50,
    )
