"""What the report of ``hetsim compare`` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetsim.reporting.pages.figures import GREEN, ORANGE, Bar, bars
from hetsim.reporting.pages.island import Island, Section, Tile, Verdict, table
from hetsim.reporting.pages.islands.shared import (
    Found,
    between,
    memory_section,
    nbytes,
    occupation_section,
    path_text,
    provenance_section,
    seconds,
    sensitivity_levers,
    speeds_sections,
)
from hetsim.reporting.pages.islands.what_if import changes_section
from hetsim.reporting.pages.subgraphs import subgraphs_section
from hetsim.reporting.pages.timeline import timeline_section
from hetsim.reporting.tables.beside import SAME
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.text import ABSENT, percent, ratio


def comparison_island(record: Found, command: Sequence[str], pictures: Mapping[str, Any]) -> Island:
    """Return what a comparison's record shows.

    Parameters
    ----------
    record : mapping
        As ``comparison_record`` gives it and JSON holds it, with what the verb adds.
    command : sequence of str
    pictures : mapping
        What the record does not hold: timelines, memory, subgraphs.
    """
    best = record["rows"][0]
    sections = [_strategies(record)]
    if best["timeline"] is not None:
        whose = str(best["strategy"])
        clock = "the virtual clock of the simulation"
        sections += timeline_section(pictures, f"What each device and link did, by {clock}.")
        sections += [occupation_section(best["timeline"], whose),
                     memory_section(best["timeline"], whose)]  # fmt: skip
    return Island(
        kind="compare",
        title=f"Strategies for {record['problem']['name']}",
        command=tuple(command),
        record=record,
        verdict=Verdict(
            record["verdict"]["say"],
            _binds(record),
            tuple(_levers(record)),
            record["verdict"]["sure"] or "",
        ),
        tiles=tuple(_tiles(record)),
        sections=(
            *sections,
            *speeds_sections(pictures),
            *subgraphs_section(pictures),
            *changes_section(record),
            provenance_section(record["problem"]),
        ),
        pictures={**pictures, **_figures(record)},
    )


def _figures(record: Found) -> dict[str, Any]:
    """Strategies by their cost with its interval, and the bound that no plan is left of."""
    counted, bound = _counted(record), record["lower_bound_s"]
    rows = [
        Bar(
            row["strategy"],
            row["cost_s"],
            seconds(row["cost_s"]),
            ORANGE if row["strategy"].startswith("single:") else GREEN if place else "--strong",
            low=row["sure"] and row["sure"]["cost_s"]["p10"],
            high=row["sure"] and row["sure"]["cost_s"]["p90"],
        )
        for place, row in enumerate(record["rows"])
    ]
    told = "" if bound is None else f"lower bound {seconds(bound)}"
    return {"strategies": bars(rows, axis=counted, unit="seconds", line=bound, line_text=told)}


def _counted(record: Found) -> str:
    return "latency" if record["objective"] == "latency" else "time a request"


def _tiles(record: Found) -> list[Tile]:
    best = record["rows"][0]
    if best["cost_s"] is None:
        return []
    sure = best["sure"]
    tiles = [
        Tile(
            f"{_counted(record)} of {best['strategy']}",
            seconds(best["cost_s"]),
            "" if sure is None else f"{between(sure['cost_s'])} in 80 % of samples",
        )
    ]
    single = record["best_single"]
    if single is not None:
        note = f"{single} alone, {seconds(record['single_s'][single])}"
        if sure is not None:
            note += f"; no slower in {percent(sure['pays'])} of samples"
        tiles.append(Tile("over the best device", ratio(best["speedup_over_best_single"]), note))
    if best["gap"] is not None:
        bound = f"{seconds(record['lower_bound_s'])}: no plan is faster"
        tiles.append(Tile("above the bound", percent(best["gap"], sign=True), bound))
    if record["speedup_ceiling"] is not None:
        note = "the most that any plan gains over it"
        tiles.append(Tile("ceiling", ratio(record["speedup_ceiling"]), note))
    if sure is not None:
        note = f"of {record['draws']} Monte Carlo samples"
        tiles.append(Tile("best in", percent(sure["best"]), note))
    return tiles


def _binds(record: Found) -> str:
    best = record["rows"][0]
    if best["timeline"] is None:
        return str(best["reason"] or "")
    if record["objective"] == "latency":
        return path_text(best["timeline"]["critical_path"])
    busy = best["busy"]
    links = {name: one["busy_s"] for name, one in best["timeline"]["links"].items()}
    requests = best["timeline"]["requests"]
    link = max(links, key=lambda name: links[name], default=None)
    every = f"no request comes sooner than every {seconds(best['cost_s'])}"
    if link is not None and links[link] / requests >= (1 - SAME) * best["cost_s"]:
        return f"The link {link} always carries something, and {every}."
    name = max(busy, key=lambda one: busy[one])
    return f"{name} is busy {percent(busy[name])} of the time, and {every}."


def _levers(record: Found) -> list[str]:
    best, found = record["rows"][0], []
    gap = best["gap"]
    if gap is not None:
        if percent(gap) == "0 %":
            found.append("No plan on this platform is faster: other devices, links, or less work.")
        else:
            found.append(
                f"Another plan on this platform: saves {percent(gap / (1 + gap))} at the most, by "
                "the lower bound."
            )
    explanation = record.get("explanation")
    if explanation is not None:
        found += [
            f"{change['what']}: {seconds(change['cost_s'])}, saves {percent(change['gain'])} "
            f"(planned by {change['strategy']})."
            for change in explanation["changes"]
        ]
        if not explanation["changes"]:
            found.append(f"None of {explanation['changes_tried']} changes tried makes it faster.")
    found += [f"{text}." for text in sensitivity_levers(record)]
    if best["timeline"] is not None and explanation is None and "sensitivities" not in record:
        found.append("Not asked: --explain tries changes, --sensitivities each device and link.")
    return found


def _strategies(record: Found) -> Section:
    drawn = any(row["sure"] is not None for row in record["rows"])
    counted = _counted(record)
    names = [
        "strategy", f"#{counted}", *(["#80 % of samples"] if drawn else []), "#over best device",
        "#above bound", *(["#best in"] if drawn else []), "#subgraphs", "#moved", "#peak memory",
        "busy",
    ]  # fmt: skip
    rows = [_row(row, drawn) for row in record["rows"]]
    refused = [(row["strategy"], row["reason"] or "") for row in record["rows"] if row["reason"]]
    planned = [
        (row["strategy"], row["plan"]["reason"] or ABSENT)
        for row in record["rows"]
        if row["plan"] is not None
    ]
    tables = [table(f"Strategies by {counted}, best first", names, rows, marked=(0,))]
    if refused:
        tables.append(table("Strategies without a plan", ("strategy", "why"), refused))
    if any(why != ABSENT for _, why in planned):
        tables.append(table("What each strategy did", ("strategy", "reason"), planned))
    told = f"Each strategy's {counted} by the virtual clock, best first, devices alone in orange"
    told += (
        ", with what 80 % of the Monte Carlo samples of what figures may be off by are between"
        * drawn
    )
    return Section("strategies", "Strategies", f"{told}.", tuple(tables), open=True, order=10)


def _alike(busy: Found, used: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Devices that are used by how busy they are, numbered siblings that are alike as one."""
    found: list[tuple[str, list[str]]] = []
    for name in used:
        share = percent(busy[name])
        if found and found[-1][0] == share and len(folded([*found[-1][1], name])) == 1:
            found[-1][1].append(name)
        else:
            found.append((share, [name]))
    return found


def _row(row: Found, drawn: bool) -> tuple[str, ...]:
    timeline = row["timeline"]
    if timeline is None:
        return (row["strategy"], "no plan", *[ABSENT] * (8 if drawn else 6))
    sure = row["sure"]
    peaks = [
        one["peak_memory_bytes"]
        for one in timeline["devices"].values()
        if one["peak_memory_bytes"] is not None
    ]
    busy = [
        f"{folded(names)[0]} {share}"
        for share, names in _alike(row["busy"], row["plan"]["devices_used"])
    ]
    interval = [between(None if sure is None else sure["cost_s"])] if drawn else []
    best = [percent(None if sure is None else sure["best"])] if drawn else []
    return (
        row["strategy"],
        seconds(row["cost_s"]),
        *interval,
        ratio(row["speedup_over_best_single"]),
        percent(row["gap"], sign=True),
        *best,
        str(row["subgraphs"]),
        nbytes(timeline["transferred_bytes"]),
        nbytes(max(peaks, default=None)),
        ", ".join(busy) or ABSENT,
    )
