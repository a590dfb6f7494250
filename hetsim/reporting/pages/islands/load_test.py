"""What the report of a workload that was served for real shows: measured beside simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hetsim.reporting.pages.island import Island, Section, Tile, Verdict, table
from hetsim.reporting.pages.islands.load import latency_text
from hetsim.reporting.pages.islands.service import (
    binds_text,
    latency_section,
    lean,
    queue_sections,
    requests_sections,
    use_pictures,
    uses_section,
)
from hetsim.reporting.pages.islands.shared import Found, provenance_section, seconds
from hetsim.reporting.words.text import ABSENT, big, percent

PERCENTILES = (50, 90, 99)
TIMES = 2.0
"""From which a difference is told as how many times as much."""

LATE = {"mean_s": "on average", "p99_s": "at p99", "max_s": "at most"}


def load_test_island(record: Found, command: Sequence[str], pictures: Mapping[str, Any]) -> Island:
    """Return what a run under load's record shows.

    Parameters
    ----------
    record : mapping
        As ``load_test_record`` gives it and JSON holds it.
    command : sequence of str
    pictures : mapping
        ``timeline``: requests one by one by both clocks, as ``timelines_of_requests`` gives them.
    """
    record = {**record, **{side: lean(record[side]) for side in ("simulated", "measured")}}
    real = record["measured"]
    return Island(
        kind="run",
        title="A run under load of " + ", ".join(str(one["model"]) for one in real["served"]),
        command=tuple(command),
        record=record,
        verdict=Verdict(_say(record), binds_text(real), (), _sure(record)),
        tiles=tuple(_tiles(record)),
        sections=(
            _beside(record),
            replace(latency_section(real), title="Latencies, measured"),
            *requests_sections(pictures),
            replace(uses_section(real), title="Use, measured"),
            *(replace(one, title="Queues, measured") for one in queue_sections(real)),
            _host(record),
            provenance_section(record["problem"]),
        ),
        pictures={**pictures, **use_pictures(real)},
    )


def _say(record: Found) -> str:
    real = record["measured"]
    found = []
    for stream, off in zip(real["streams"], record["off_by"], strict=True):
        known = {one["percentile"]: one for one in stream["percentiles"]}
        of = f" of {stream['name']}" if len(real["streams"]) > 1 else ""
        if 99 in known:
            share = _shares(off).get(99)
            beyond = "" if share is None else f", {_off(share)} beside the simulation"
            found.append(f"p99{of} is {latency_text(known[99])}{beyond}")
        else:
            found.append(f"{stream['name']} has no p99: it is {real['state']}")
    return f"{'; '.join(found)}. {_outputs(record)}."


def _outputs(record: Found) -> str:
    outputs = record["outputs"]
    if outputs is None:
        return "Outputs were not compared"
    wrong = outputs["mismatches"]
    if wrong:
        return f"Outputs differ from the whole model's: {'; '.join(map(str, wrong[:4]))}"
    text = (
        f"Outputs of {outputs['alone']} of {outputs['compared']} requests equal the whole model's "
        "on the request alone, bit by bit"
    )
    if outputs["batches"]:
        text += f"; {outputs['batches']} batches of the others do on the batch"
    left = outputs["answered"] - outputs["compared"]
    return f"{text}; {left} were not kept to compare" if left > 0 else text


def _sure(record: Found) -> str:
    if record["emulated"]:
        return "Devices are emulated: each call and transfer takes its modelled time at least."
    return (
        "Devices are this machine's kernels, each as fast as it is here: what another machine's "
        "would do is simulated, not measured."
    )


def _tiles(record: Found) -> list[Tile]:
    real, host = record["measured"], record["host"]
    ran = f"in {seconds(host['wall_s'])} on {record['executor']}"
    outputs = record["outputs"]
    found = [Tile("requests", big(real["requests"]), ran)]
    if outputs is not None:
        right = not outputs["mismatches"]
        found.append(Tile("outputs", "right" if right else "differ", "beside the whole model's"))
    found.append(Tile("it is", str(real["state"]), f"simulated: {record['simulated']['state']}"))
    late = f"at p99; dispatching took {percent(host['dispatcher'])} of a core"
    found.append(Tile("sent late by", seconds(host["sent"]["p99_s"]), late))
    return found


def _beside(record: Found) -> Section:
    told, real = record["simulated"], record["measured"]
    several = len(real["streams"]) > 1
    rows = [
        (str(other["name"]), *row)[not several :]
        for one, other, off in zip(told["streams"], real["streams"], record["off_by"], strict=True)
        for row in _figures(one, other, off)
    ]
    busy = []
    for kind in ("devices", "links"):
        for name, use in told[kind].items():
            there = real[kind][name]
            if use["busy_s"] or there["busy_s"]:
                measured = record["emulated"] or kind == "devices"
                shares = percent(use["utilization"]), percent(there["utilization"])
                busy.append((f"{kind[:-1]} {name}", shares[0], shares[1] if measured else ABSENT))
    names = ("stream", "what", "#simulated", "#measured", "#measured is off by")[not several :]
    return Section(
        "beside",
        "Measured and simulated",
        "The same arrivals by the wall clock and by the virtual one, in seconds of the workload.",
        (
            table("Latencies, waiting and rates", names, rows),
            table("Busy", ("what", "#simulated", "#measured"), busy),
        ),
        open=True,
        order=5,
    )


def _figures(told: Found, real: Found, off: Found) -> list[tuple[str, str, str, str]]:
    sides = (told, real)
    a, b = (seconds(side["latency_mean_s"]) for side in sides)
    rows = [("mean", a, b, _off(off["latency_mean"]))]
    known = [{one["percentile"]: one for one in side["percentiles"]} for side in sides]
    shares = _shares(off)
    for at in PERCENTILES:
        if at in shares:
            a, b = (_known(each[at]) for each in known)
            rows.append((f"p{at}", a, b, _off(shares[at])))
    for what, part in (("waited", "queue"), ("served", "service")):
        a, b = (seconds(side[part]["mean_s"]) for side in sides)
        rows.append((f"{what}, mean", a, b, _off(off[f"{part}_mean"])))
    a, b = (_number(side["throughput_per_s"]) for side in sides)
    rows.append(("answers a second", a, b, _off(off["throughput"])))
    for one, other in zip(told["objectives"], real["objectives"], strict=True):
        a, b = (f"{percent(side['on_time'])}, {side['verdict']}" for side in (one, other))
        rows.append((f"within {seconds(one['latency_s'])}", a, b, ABSENT))
    return rows


def _shares(off: Found) -> dict[float, float | None]:
    """By percentile by what share the measured one is off."""
    return {one["percentile"]: one["latency"] for one in off["percentiles"]}


def _off(share: float | None) -> str:
    """By which share, or how many times as much."""
    if share is None:
        return ABSENT
    return percent(share, sign=True) if share < TIMES else f"{1 + share:.3g}x"


def _known(one: Found) -> str:
    return latency_text(one) if one["enough"] else seconds(one["latency_s"])


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.4g}"


def _host(record: Found) -> Section:
    host = record["host"]
    rows = [
        (f"{what} late, {word}", seconds(host[key][part]))
        for what, key in (("requests sent", "sent"), ("answers noted", "answered"))
        for part, word in LATE.items()
    ]
    rows.append(("calls of devices", big(host["calls"])))
    if host["modelled_s"]:
        rows.append(("calls longer than modelled", big(host["overran"])))
        rows.append(("by how much at most", seconds(host["longest_overrun_s"])))
    rows.append(("dispatching, of a core", percent(host["dispatcher"])))
    rows.append(("until devices were ready", seconds(record["start_s"])))
    if record["time_scale"] != 1:
        rows.append(("a second of the workload lasted", seconds(record["time_scale"])))
    return Section(
        "host",
        "This machine",
        "How it kept up, in real seconds: what it adds to latencies itself.",
        (table("How this machine kept up", ("what", "#how much"), rows),),
        open=True,
        order=48,
    )
