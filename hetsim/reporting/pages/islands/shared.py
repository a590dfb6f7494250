"""Parts of reports that several kinds have, made of records alone."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import join
from typing import Any

from hetsim.core.units import format_bytes, format_seconds
from hetsim.reporting.pages.island import Section, Table, table
from hetsim.reporting.tables.beside import SAME
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.text import ABSENT, count, percent, ratio

Found = Mapping[str, Any]
"""A record, or a part of one."""

STATUSES = {
    "measured": "measured on the device itself",
    "datasheet": "its maker's word",
    "fitted": "fitted to published measurements of the device",
    "secondary": "another's word",
    "derived": "computed of other figures",
    "prior": "what devices of its kin have",
    "estimate": "a guess",
    "what if": "supposed by the one who asked",
}
"""What a status says of the figures that have it."""


def seconds(value: float | None) -> str:
    """Return a time, or a dash."""
    return ABSENT if value is None else format_seconds(value)


def nbytes(value: float | None) -> str:
    """Return an amount of memory, or a dash."""
    return ABSENT if value is None else format_bytes(value)


def between(interval: Found | None) -> str:
    """Return ``3.96 ms to 13.2 ms`` of an interval's record, or a dash."""
    if interval is None:
        return ABSENT
    low, high = seconds(interval["p10"]), seconds(interval["p90"])
    return low if low == high else f"{low} to {high}"


def question_table(problem: Found) -> Table:
    """Return what was asked: the model, the platform, and the digests that tell them apart."""
    model, platform = problem["model"], problem["platform"]
    rows = [("problem", str(problem["name"]), f"fingerprint {problem['fingerprint']}")]
    if model is not None:
        dims = ", ".join(f"{name}={size}" for name, size in model["dims"].items())
        told = f"{model['source']}, {count(problem['nodes'], 'node')}"
        rows.append(("model", f"{told}, {dims}" if dims else told, f"sha256 {model['sha256']}"))
    if platform is not None:
        supposed = [*platform.get("what_if", ()), *(platform.get("without", ()))]
        more = f", supposed: {'; '.join(map(str, supposed))}" if supposed else ""
        rows.append(("platform", f"{platform['source']}{more}", f"sha256 {platform['sha256']}"))
    host = "" if problem["host"] is None else f"; host {problem['host']}"
    rows.append(("devices", f"{', '.join(folded(problem['devices']))}{host}", ""))
    links = {"fifo": "first come, first served", "none": "without contention"}
    rows.append(("links", links.get(problem["contention"], str(problem["contention"])), ""))
    if problem["cost"]:
        rows.append(("cost model", str(problem["cost"]), ""))
    for device, precision in problem["execute"].items():
        rows.append(("as if", f"{device} executes in {precision}", "times alone"))
    for device, share in problem["profiles"].items():
        told = f"{percent(share['measured_share'])} measured by {share['source']}"
        rows.append(("profile", f"{device}: {told}", f"sha256 {share['sha256']}"))
    if problem["unpriced"]:
        rows.append(("not priced", count(len(problem["unpriced"]), "node"), "in no figure here"))
    return table("What was asked", ("what", "which", "known by"), rows)


def provenance_section(problem: Found) -> Section:
    """Return where each figure is from, how sure it is, and by how much times may be off."""
    asked = question_table(problem)
    figures = problem["figures"]
    if figures is None:
        return Section(
            "provenance",
            "Provenance",
            "All figures were given as arrays: nothing is known of where they are from.",
            (asked,),
            open=True,
            order=90,
        )
    rows = [("device", name, *_evidence(one)) for name, one in figures["devices"].items()]
    rows += [("link", name, *_evidence(one)) for name, one in figures["links"].items()]
    meant = [
        (status, meaning)
        for status, meaning in STATUSES.items()
        if any(status in row[3].split(", else ") for row in rows)
    ]
    return Section(
        "provenance",
        "Provenance",
        "What each device's and link's times rest on, and by how much they may be off: about eight "
        f"of ten are within the factor that is told. The weakest: {figures['weakest']}.",
        (
            table(
                "Figures of devices and links",
                ("what", "name", "figures of", "status", "precision", "measured with",
                 "#median error", "over", "this model", "#80 % within"),
                rows,
            ),
            table("What a status says", ("status", "means"), meant),
            asked,
        ),
        open=True,
        order=90,
    )  # fmt: skip


def _evidence(one: Found) -> tuple[str, ...]:
    error, likely = one["error"], one["likely"]
    median = over = ABSENT
    if error is not None:
        known = likely is not None and likely["same"]
        unseen = error["unseen_median"]
        median = percent(error["median"] if known or unseen is None else unseen)
        over = f"{count(error['rows'], 'row')} of {count(error['networks'], 'network')}"
    known_as = ABSENT
    if likely is not None:
        names = ", ".join(likely["networks"])
        alike = f"{'as' if likely['same'] else 'like'} {names}"
        known_as = f"{alike}: {100 * (likely['factor'] - 1):+.0f} %"
        known_as = known_as if likely["networks"] else "like no network of its kin"
    if one["measured_share"]:
        known_as = f"{percent(one['measured_share'])} measured by a profile; {known_as}"
    return (
        str(one["of"]),
        f"{one['status']}, else {one['before']}" if "before" in one else str(one["status"]),
        one["precision"] or ABSENT,
        one["runtime"] or ABSENT,
        median,
        over,
        known_as,
        ratio(one["within_80"]),
    )


def occupation_section(timeline: Found, whose: str) -> Section:
    """Return how busy devices and links were, and what they held."""
    devices = [
        (name, seconds(one["busy_s"]), percent(one.get("busy_share")), percent(one["utilization"]))
        for name, one in timeline["devices"].items()
    ]
    links = [
        (name, seconds(one["busy_s"]), percent(one["utilization"]))
        for name, one in timeline["links"].items()
    ]
    tables = [
        table(
            f"Devices of {whose}", ("device", "#busy", "#of the time", "#of its streams"), devices
        )
    ]
    if links:
        tables.append(table(f"Links of {whose}", ("link", "#busy", "#of the time"), links))
    return Section(
        "utilization",
        "Utilization",
        "How much of each span of time a device computed, or a link carried something; virtual "
        "time, by the clock of the simulation.",
        tuple(tables),
        order=40,
    )


def memory_section(timeline: Found, whose: str) -> Section:
    """Return the most that devices held."""
    rows = [
        (name, nbytes(one["weight_bytes"]), nbytes(one["peak_memory_bytes"]))
        for name, one in timeline["devices"].items()
    ]
    return Section(
        "memory",
        "Memory",
        "What each device holds: weights, which stay, and activations from when they exist to "
        "their last use. The dashed line is what the device has, where that is in sight.",
        (table(f"Memory of {whose}", ("device", "#weights", "#peak"), rows),),
        order=45,
    )


def path_text(path: Found | None) -> str:
    """Return what a critical path is made of, the largest part first; empty where there is none."""
    if path is None:
        return ""
    whole = path["compute_s"] + path["transfer_s"]
    if whole <= 0:
        return ""
    parts = sorted(path["shares_s"].items(), key=lambda item: -item[1])
    told = [f"{name} {percent(of / whole)} ({seconds(of)})" for name, of in parts[:4]]
    more = f", and {len(parts) - 4} more" if len(parts) > 4 else ""
    return f"The critical path is {', '.join(told)}{more}."


def sensitivity_levers(record: Found, most: int = 3) -> list[str]:
    """Return the changes that move the figure most; none where they were not asked for."""
    found = []
    for one in record.get("sensitivities", ()):
        value = one["value_s"]
        for change in one["changes"]:
            known = [change["plan_kept"], change["planned_anew"]]
            best = min((share for share in known if share is not None), default=0.0)
            if best < -SAME:
                then = f"{percent(best, sign=True)}, {seconds(value * (1 + best))}"
                found.append((best, f"{change['change']}: {one['figure']} {then}"))
    return [text for _, text in sorted(found, key=lambda pair: pair[0])[:most]]


def speeds_sections(pictures: Mapping[str, Any]) -> list[Section]:
    """Latency of the plan on devices of other speeds; nothing where it was not simulated."""
    speeds = pictures.get("speeds")
    if not speeds:
        return []
    stops = [f"#x{stop:g}" for stop in speeds["stops"]]
    rows = [(one["name"], *map(seconds, one["latency_s"])) for one in speeds["devices"]]
    leave = "" if speeds["leave"] is None else f"`{join(speeds['leave'])}` leaves the plan; "
    return [
        Section(
            "speeds",
            "Other speeds",
            "The plan as it is, with one device so many times as fast. A new plan may do better. "
            f"{leave}`{join(speeds['play'])} --what-if 'device NAME.speed xF'` says the same.",
            (table("Latency by device and speed", ("device", *stops), rows),),
            open=True,
            order=15,
        )
    ]
