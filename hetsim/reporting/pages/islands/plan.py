"""What the reports of one plan show: ``hetsim simulate`` and ``hetsim run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.text import ABSENT, count, joules, percent


def simulation_island(record: Found, command: Sequence[str], pictures: Mapping[str, Any]) -> Island:
    """Return what a simulation's record shows; see ``comparison_island``."""
    timeline, plan, problem = record["timeline"], record["plan"], record["problem"]
    say = f"{plan['strategy']} takes {_taken(timeline)} on the virtual clock"
    target = record.get("target_s")
    if target is not None:
        met = timeline["latency_max_s"] <= target
        say += f", {'within' if met else 'beyond'} the {seconds(target)} that are asked"
    failed = record.get("failures")
    if failed is not None:
        without = seconds(failed["latency_without_s"])
        say += f", with {count(len(failed['injected']), 'failure')}; without, {without}"
    return Island(
        kind="simulate",
        title=f"{plan['strategy']} for {problem['name']}",
        command=tuple(command),
        record=record,
        verdict=Verdict(f"{say}.", _binds(timeline), tuple(_levers(record)), _sure(record)),
        tiles=tuple(_tiles(record)),
        sections=(
            *_sections(record, pictures),
            *speeds_sections(pictures),
            *subgraphs_section(pictures),
        ),
        pictures=pictures,
    )


def run_island(
    record: Found,
    command: Sequence[str],
    pictures: Mapping[str, Any],
    *,
    wall_s: float | None = None,
) -> Island:
    """Return what a run's record shows, and how long it took by the wall clock."""
    timeline, plan, problem = record["timeline"], record["plan"], record["problem"]
    wrong = record["mismatches"]
    if record["precision"] == "device":
        right = "outputs rounded as the devices compute" if not wrong else "outputs differ"
    else:
        right = (
            "its outputs are those of the whole model, bit by bit"
            if record["bitwise_equal"]
            else "its outputs are those of the whole model, within the tolerance"
            if not wrong
            else f"{count(len(wrong), 'output')} differ from the whole model's"
        )
    ran = f"{plan['strategy']} ran on {record['executor']}"
    ran += "" if wall_s is None else f" in {seconds(wall_s)} by the wall clock"
    checked = [
        (
            str(name),
            str(one.get("dtype", ABSENT)) if isinstance(one, Mapping) else ABSENT,
            " x ".join(map(str, one["shape"]))
            if isinstance(one, Mapping) and "shape" in one
            else ABSENT,
            str(one.get("sha256", ABSENT)) if isinstance(one, Mapping) else ABSENT,
        )
        for name, one in record["outputs"].items()
    ]
    tables = [table("Outputs", ("output", "type", "shape", "sha256"), checked)]
    if wrong:
        tables.insert(0, table("What differs", ("what",), [(str(one),) for one in wrong]))
    if record["deviations"]:
        off = [
            (one["output"], f"{one['max_abs']:.3g}", percent(one["max_rel"]), str(one["lost"]))
            for one in record["deviations"]
        ]
        heads = ("output", "#at most off by", "#of its largest value", "#out of range")
        tables.append(table("By how much outputs are off", heads, off))
    outputs = Section(
        "outputs",
        "Outputs",
        "What the run gave, by the digest of its bytes, beside the whole model in one session of "
        "ONNX Runtime.",
        tuple(tables),
        open=True,
        order=12,
    )
    tiles = _tiles(record)
    if wall_s is not None:
        tiles.insert(
            1, Tile("wall clock", seconds(wall_s), f"on {record['executor']}, this machine")
        )
    tiles.append(
        Tile("outputs", "differ" if wrong else "right", "" if wrong else "as the whole model's")
    )
    return Island(
        kind="run",
        title=f"A run of {plan['strategy']} for {problem['name']}",
        command=tuple(command),
        record=record,
        verdict=Verdict(
            f"{ran}: {right}. {_taken(timeline)} on the virtual clock.",
            _binds(timeline),
            tuple(_levers(record)),
            _sure(record),
        ),
        tiles=tuple(tiles),
        sections=(outputs, *_sections(record, pictures), *subgraphs_section(pictures)),
        pictures=pictures,
    )


def _taken(timeline: Found) -> str:
    if timeline["requests"] == 1:
        return seconds(timeline["latency_s"])
    mean, most = seconds(timeline["latency_mean_s"]), seconds(timeline["latency_max_s"])
    return f"{mean} a request on average and {most} at most, of {timeline['requests']} requests,"


def _binds(timeline: Found) -> str:
    if timeline["critical_path"] is not None:
        return path_text(timeline["critical_path"])
    busy = {name: one.get("busy_share") or 0.0 for name, one in timeline["devices"].items()}
    busy |= {name: one["utilization"] for name, one in timeline["links"].items()}
    name = max(busy, key=lambda one: busy[one])
    return f"{name} is busy the longest: {percent(busy[name])} of the time."


def _levers(record: Found) -> list[str]:
    found = [f"{text}." for text in sensitivity_levers(record)]
    if not found and "sensitivities" not in record and record["schema"] == "hetsim-simulation/1":
        found.append("Not asked: --sensitivities says what each device and link would change.")
    found.append("Other strategies, and the bound that none can beat: hetsim compare.")
    return found


def _sure(record: Found) -> str:
    sure = record["sure"]
    if sure is None:
        return ""
    told = f"{between(sure['latency_mean_s'])} in 80 % of {sure['draws']} Monte Carlo samples "
    told += "of what the figures may be off by"
    if record["timeline"]["requests"] > 1:
        told = f"On average {told}; all are answered in {between(sure['makespan_s'])}"
    return f"{told}."


def _tiles(record: Found) -> list[Tile]:
    timeline, sure = record["timeline"], record["sure"]
    note = "" if sure is None else f"{between(sure['latency_mean_s'])} in 80 % of samples"
    if timeline["requests"] == 1:
        tiles = [Tile("latency, virtual clock", seconds(timeline["latency_s"]), note)]
    else:
        spread = f"99 % within {seconds(timeline['latency_p99_s'])}"
        tiles = [
            Tile("mean latency", seconds(timeline["latency_mean_s"]), note or spread),
            Tile("requests", str(timeline["requests"]), f"in {seconds(timeline['makespan_s'])}"),
        ]
        if timeline["requests_per_s"] is not None:
            tiles.append(Tile("rate", f"{timeline['requests_per_s']:.4g}/s", "answered"))
    used = folded(record["plan"]["devices_used"])
    tiles.append(Tile("subgraphs", str(record["plan"]["subgraphs"]), f"on {', '.join(used)}"))
    moved = f"in {count(timeline['transfers'], 'transfer')}"
    tiles.append(Tile("moved", nbytes(timeline["transferred_bytes"]), moved))
    if timeline["energy_j"]:
        tiles.append(Tile("energy", joules(timeline["energy_j"]), "of the devices"))
    return tiles


def _sections(record: Found, pictures: Mapping[str, Any]) -> tuple[Section, ...]:
    timeline, plan = record["timeline"], record["plan"]
    rows = [("strategy", str(plan["strategy"])), ("reason", plan["reason"] or ABSENT)]
    rows += [(f"option {name}", str(value)) for name, value in plan["options"].items()]
    rows += [
        ("subgraphs", str(plan["subgraphs"])),
        ("devices", ", ".join(folded(plan["devices_used"])) or "none"),
        ("first request", seconds(timeline["latency_s"])),
    ]
    if timeline["requests"] > 1:
        rows += [
            (f"latency, {name}", seconds(timeline[f"latency_{key}_s"]))
            for name, key in (("mean", "mean"), ("median", "p50"), ("90th percentile", "p90"),
                              ("99th percentile", "p99"), ("largest", "max"))
        ]  # fmt: skip
    rows += [
        ("until the last ends", seconds(timeline["makespan_s"])),
        ("transfers", f"{timeline['transfers']}, {nbytes(timeline['transferred_bytes'])}"),
    ]
    clock = "the virtual clock of the simulation"
    if record["schema"] != "hetsim-simulation/1":
        clock += " or the wall clock of the run"
    told = table("The plan, and what it takes", ("what", "which"), rows)
    return (
        *timeline_section(pictures, f"What each device and link did, by {clock}.", told),
        occupation_section(timeline, str(plan["strategy"])),
        memory_section(timeline, str(plan["strategy"])),
        *changes_section(record),
        provenance_section(record["problem"]),
    )
