"""What the report of a workload that was played on a deployment shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetsim.core.text import Record
from hetsim.reporting.pages.figures import (
    BLUE,
    COLOURS,
    GREEN,
    ORANGE,
    SECONDS,
    Bar,
    bars,
    figure,
    label,
)
from hetsim.reporting.pages.island import Island, Section, Tile, Verdict, table
from hetsim.reporting.pages.islands.load import (
    interval_text,
    latency_text,
    load_picture,
    load_sections,
)
from hetsim.reporting.pages.islands.shared import (
    Found,
    provenance_section,
    seconds,
    sensitivity_levers,
)
from hetsim.reporting.pages.timeline import timeline_section
from hetsim.reporting.words.text import ABSENT, big, joules, percent
from hetsim.workload import workload

PARTS = {"queue": "waiting", "loading": "loading", "service": "service"}
MOMENTS = ("mean_s", "p50_s", "p99_s", "max_s")
"""Parts of a latency, and what is said of each."""

MOST_SPANS = 256
"""Spans of time of which a page has queue lengths; a verb's own record has all."""


def service_island(record: Found, command: Sequence[str], pictures: Mapping[str, Any]) -> Island:
    """Return what a service's record shows.

    Parameters
    ----------
    record : mapping
        As ``service_record`` gives it and JSON holds it, with what the verb adds.
    command : sequence of str
    pictures : mapping
        ``rates``: a row a deployment, as ``rates_picture`` gives them;
        ``timeline``: requests one by one, as ``timelines_of_requests`` gives them.
    """
    record = lean(record)
    rates = pictures.get("rates", [])
    return Island(
        kind="simulate",
        title="Requests for " + ", ".join(str(one["model"]) for one in record["served"]),
        command=tuple(command),
        record=record,
        verdict=Verdict(
            _say(record),
            " ".join((binds_text(record), *_ceilings(rates))),
            tuple(_levers(record)),
            _sure(record),
        ),
        tiles=tuple(_tiles(record)),
        sections=(
            *load_sections(rates),
            latency_section(record),
            *requests_sections(pictures),
            uses_section(record),
            *queue_sections(record),
            provenance_section(record["served"][0]["problem"]),
        ),
        pictures={**pictures, **load_picture(rates), **use_pictures(record)},
    )


def binds_text(service: Found) -> str:
    """Return what is used the most."""
    uses = {f"device {name}": one for name, one in service["devices"].items()}
    uses |= {f"link {name}": one for name, one in service["links"].items()}
    name = service["bottleneck"]
    share = uses[name]["utilization"] if name in uses else None
    if share is None:
        return f"{name} are used the most."
    return f"{name} is used the most: {percent(share)} of the time."


def nearest(service: Found) -> tuple[Found, Found, Found | None] | None:
    """Return the objective whose percentile is largest beside its limit: stream, it, percentile."""
    found = []
    for stream in service["streams"]:
        known = {one["percentile"]: one for one in stream["percentiles"]}
        for objective in stream["objectives"]:
            one = known.get(percentile_of(objective))
            value = float("inf") if one is None or one["latency_s"] is None else one["latency_s"]
            found.append((value / objective["latency_s"], stream, objective, one))
    if not found:
        return None
    _, stream, objective, one = max(found, key=lambda row: row[0])
    return stream, objective, one


def there(service: Found, asked: str) -> list[Tile]:
    """Return the percentile that comes nearest to its limit, which is `asked`; none without one."""
    near = nearest(service)
    if near is None:
        return []
    _, objective, one = near
    if one is None:
        return []
    label = f"p{percentile_of(objective):g} there"
    return [Tile(label, seconds(one["latency_s"]), f"{slo_text(objective)} {asked}")]


def percentile_of(objective: Found) -> float:
    """Return the percentile that an objective's share stands for."""
    return workload.percentile_of(float(objective["share_on_time"]))


def slo_text(objective: Found) -> str:
    """Return ``p99 <= 20.0 ms``."""
    return f"p{percentile_of(objective):g} <= {seconds(objective['latency_s'])}"


def _say(record: Found) -> str:
    near = nearest(record)
    if near is None:
        answered = sum(one["answered"] for one in record["streams"])
        came = f"{big(answered)} of {big(record['requests'])} requests"
        return f"{came} were answered; it is {record['state']}."
    stream, objective, one = near
    text = f"{_whether(record).capitalize()}: {stream['name']}, {slo_text(objective)} asked"
    if record["state"] == "overloaded":
        return f"{text}; more comes than is carried, so that latency grows without end."
    if one is None:
        return f"{text}."
    return f"{text}, p{percentile_of(objective):g} is {latency_text(one)}."


def _whether(service: Found) -> str:
    """Whether all that is asked of the streams together is met."""
    answers = {each["verdict"] for row in service["streams"] for each in row["objectives"]}
    return "missed" if "misses" in answers else "met" if answers == {"meets"} else "undecided"


def _sure(record: Found) -> str:
    text = "Intervals of 95 % are of chance in what comes, not of what the figures may be off by"
    worse = record["bad_end"]
    if worse is None:
        return f"{text}."
    asked = any(row["objectives"] for row in worse["streams"])
    told = _whether(worse) if asked else worse["state"]
    return f"{text}; with each device and link at its bad end it is {told}."


def _ceilings(rates: Sequence[Found]) -> list[str]:
    return [
        f"From {one['ceiling_per_s']:.4g} requests a second on more comes than "
        f"{one['ceiling_binds']} can do, however long it goes on."
        for one in rates
        if one.get("ceiling_per_s") is not None
    ]


def _levers(record: Found) -> list[str]:
    found = [f"{text}." for text in sensitivity_levers(record)]
    if "sensitivities" not in record:
        found.append("Not asked: --sensitivities tries each device and link 10 % better.")
    return found


def _tiles(record: Found) -> list[Tile]:
    found = [
        Tile("requests", big(record["requests"]), f"in {seconds(record['duration_s'])} virtual")
    ]
    near = nearest(record)
    if near is not None:
        stream, objective, one = near
        if one is not None:
            label = f"p{percentile_of(objective):g} of {stream['name']}"
            asked = f"{seconds(objective['latency_s'])} is asked"
            found.append(Tile(label, seconds(one["latency_s"]), asked))
        found.append(Tile("on time", percent(objective["on_time"]), slo_text(objective)))
    found.append(Tile("it is", str(record["state"]), "whether it keeps up with what comes"))
    energy = record["energy_per_1000_on_time_j"]
    if energy is not None:
        found.append(Tile("energy", joules(energy), "for 1000 requests on time"))
    cost = record["cost"]
    if cost is not None and cost["usd_per_1000_on_time"] is not None:
        usd = f"{cost['usd_per_1000_on_time']:.3g} USD"
        found.append(Tile("price", usd, "for 1000 requests on time"))
    return found


def use_pictures(service: Found) -> Record:
    """Return ``uses`` and ``queues`` of a service, as far as there is anything to draw."""
    kinds = {"device": (BLUE, ""), "link": (ORANGE, "/"), "instance": (GREEN, "x")}
    rows = [("device", name, one) for name, one in service["devices"].items()]
    rows += [("link", name, one) for name, one in service["links"].items()]
    rows += [
        ("instance", f"{k} of {model['model']}", one)
        for model in service["models"]
        for k, one in enumerate(model["instances"])
    ]
    drawn = [
        Bar(
            f"{kind} {name}",
            one["utilization"],
            percent(one["utilization"]),
            *kinds[kind],
            *_ends(one["utilization_interval"]),
        )
        for kind, name, one in rows
    ]
    found = {"uses": bars(drawn, axis="of the time", unit="share"), "queues": _queues(service)}
    return {view: figures for view, figures in found.items() if figures}


def _ends(interval: Found | None) -> tuple[float | None, float | None]:
    if interval is None or not interval["enough"]:
        return None, None
    return interval["low"], interval["high"]


def _queues(service: Found) -> list[Record]:
    traces: list[Record] = []
    for at, model in enumerate(service["models"]):
        queue = model["queue"]
        x = [(k + 0.5) * queue["window_s"] for k in range(len(queue["inside"]))]
        for key, what, dash in (("inside", "waiting or served", "solid"),
                                ("waiting", "waiting", "dot")):  # fmt: skip
            line = {"color": COLOURS[at % len(COLOURS)], "width": 2, "dash": dash}
            name = label(f"{model['model']}: {what}", 50)
            traces.append({"type": "scatter", "mode": "lines", "x": x, "y": queue[key],
                           "line": line, "name": name})  # fmt: skip
    if not any(trace["x"] for trace in traces):
        return []
    layout = {
        "showlegend": True,
        "margin": {"t": 40},
        "xaxis": {"title": {"text": "virtual time"}, **SECONDS},
        "yaxis": {"title": {"text": "requests"}, "rangemode": "tozero"},
    }
    alt = "Requests that wait, over time; the table has its figures"
    return [figure(traces, layout, alt=alt, height=360)]


def requests_sections(pictures: Mapping[str, Any]) -> list[Section]:
    """Return the view of requests one by one; none where none are drawn."""
    caption = (
        "Which batch of which instance served each request, and who waited: pick a request, or "
        "point at one. A batch is drawn once for each of its requests."
    )
    return timeline_section(pictures, caption)


def latency_section(record: Found) -> Section:
    """Return the percentiles of each stream, and what was asked of them."""
    streams = record["streams"]
    asked = [(each["name"], *_asked(one)) for each in streams for one in each["objectives"]]
    rows = [
        (each["name"], f"p{one['percentile']:g}", seconds(one["latency_s"]), interval_text(one))
        for each in streams
        for one in each["percentiles"]
    ]
    parts = [
        (each["name"], word, *(seconds(each[part][key]) for key in MOMENTS))
        for each in streams
        for part, word in PARTS.items()
        if each[part]["mean_s"]
    ]
    of_asked = ["stream", "objective", "#on time", "verdict", "#more would tell", "MLPerf"]
    of_rows = ["stream", "percentile", "#latency", "#95 % interval"]
    of_parts = ["stream", "part", "#mean", "#median", "#p99", "#most"]
    tables = [table("What was asked", of_asked, asked)] if asked else []
    tables.append(table("Percentiles", of_rows, rows))
    tables.append(table("What latency is made of", of_parts, parts))
    return Section(
        "percentiles",
        "Latencies",
        "From a request's arrival to its answer. Intervals hold in queues: batches of whole busy "
        "periods say how far a percentile may be off.",
        tuple(tables),
        open=True,
        order=20,
    )


def _asked(one: Found) -> tuple[str, ...]:
    more = big(one["more_requests"]) if one["more_requests"] else ABSENT
    valid = "valid" if one["mlperf"]["valid"] else "invalid"
    return slo_text(one), percent(one["on_time"]), one["verdict"], more, valid


def uses_section(record: Found) -> Section:
    """Return how much devices, links and instances were used."""
    rows = []
    for kind in ("devices", "links"):
        for name, one in record[kind].items():
            rows.append((f"{kind[:-1]} {name}", *_use(one)))
    for model in record["models"]:
        for k, one in enumerate(model["instances"]):
            if one["utilization"] is not None:
                rows.append((f"instance {k} of {model['model']}", *_use(one)))
    return Section(
        "uses",
        "Use",
        "How much of the run each device computed, each link carried something, and each instance "
        "had a batch under way.",
        (table("Use", ("what", "#busy", "#used", "#95 % interval", "#energy"), rows),),
        order=40,
    )


def _use(one: Found) -> tuple[str, ...]:
    interval = one["utilization_interval"]
    between = ABSENT
    if interval is not None and interval["enough"] and interval["high"] is not None:
        between = f"{percent(interval['low'])} to {percent(interval['high'])}"
    energy = ABSENT if one["energy_j"] is None else joules(one["energy_j"])
    return seconds(one["busy_s"]), percent(one["utilization"]), between, energy


def queue_sections(record: Found) -> list[Section]:
    """Return how many requests waited, over time; none where nothing came."""
    tables = []
    for model in record["models"]:
        queue = model["queue"]
        if not queue["inside"]:
            continue
        pairs = zip(queue["waiting"], queue["inside"], strict=True)
        rows = [
            (seconds(k * queue["window_s"]), f"{waiting:.3g}", f"{inside:.3g}")
            for k, (waiting, inside) in enumerate(pairs)
        ]
        tables.append(
            table(
                f"Requests of {model['model']}", ("#from", "#waiting", "#waiting or served"), rows
            )
        )
    if not tables:
        return []
    return [
        Section(
            "queues",
            "Queues",
            "How many requests wait before an instance takes them, and how many are waiting or "
            "served: means over spans of time.",
            tuple(tables),
            order=45,
        )
    ]


def service_sections(service: Found) -> list[Section]:
    """Return latencies, use and queues of a service that is part of another answer."""
    return [latency_section(service), uses_section(service), *queue_sections(service)]


def lean(service: Found, most: int = MOST_SPANS) -> Found:
    """Return a service's record with queue lengths of so many spans of time at most."""
    return {**service, "models": [_lean_model(one, most) for one in service["models"]]}


def _lean_model(model: Found, most: int) -> Found:
    queue = model["queue"]
    each = -(-len(queue["inside"]) // most) if most else 0
    spans = range(0, len(queue["inside"]), each) if each else ()
    means = {key: [_mean(queue[key][k : k + each]) for k in spans] for key in ("waiting", "inside")}
    return {**model, "queue": {**queue, **means, "window_s": queue["window_s"] * max(each, 1)}}


def _mean(values: Sequence[float]) -> float:
    return float(f"{sum(values) / len(values):.6g}")
