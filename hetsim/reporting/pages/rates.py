"""Latencies of a deployment at several arrival rates: stops of a slider, and a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from shlex import join

from hetsim.core.text import Record, fields, plain
from hetsim.core.units import format_percentile
from hetsim.errors import HetsimError
from hetsim.hardware.spec import Platform
from hetsim.provisioning.rates.ceiling import rates_of
from hetsim.provisioning.rates.sustained_rate import RateQuestion
from hetsim.reporting.formatting import percent, time_text
from hetsim.reporting.pages.figures import (
    axis,
    colour,
    figure,
    label,
    limits_drawn,
    logarithmic,
    remark,
    rule,
    scatter,
)
from hetsim.reporting.pages.page import told as shown
from hetsim.reporting.tables.service import busiest
from hetsim.reporting.tables.verdicts import latency_text
from hetsim.simulation.service.layout import check_together, set_up
from hetsim.simulation.service.resolution import Resolved
from hetsim.simulation.service.run import expected
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import played
from hetsim.statistics.intervals import Percentile, percentile_at
from hetsim.workload.workload import Workload

FLAGS = ("--force", "--json", "--quiet", "-q", "--debug", "--sensitivities", "--wide", "--run",
         "--explain", "--max-rate")  # fmt: skip
"""Options without a value that do not affect an answer."""

VALUES = ("--report", "--out", "-o", "--trace", "--certificate")
"""Options with a value that only write files."""

RATE = ("--rate", "--requests", "--duration", "--within", "--slo", "--speedup", "--target-rate")
"""Options that a slider sets, or that set the length of a run."""


def without(command: Sequence[str], verb: str, options: Sequence[str] = ()) -> list[str]:
    """Return the command line, program first, with another verb and without these options.

    Options that write files, or only change how an answer is printed, are left out as well.
    """
    found = ["hetsim", verb]
    gone = (*VALUES, *options)
    words = iter(_after_verb(command))
    for word in words:
        if word in FLAGS:
            continue
        if word in gone:
            next(words, None)
            continue
        if any(word.startswith(f"{option}=") for option in gone):
            continue
        found.append(word)
    return found


def _after_verb(command: Sequence[str]) -> list[str]:
    words = list(command[1:])
    while words and words[0].startswith("-"):
        del words[0]
    return words[1:]


SHARES = (0.1, 0.3, 0.5, 0.65, 0.75, 0.82, 0.88, 0.93, 0.97, 1.05)
"""Simulated rates, as shares of the peak."""

USUAL = 99.0
"""Percentile of a stream without an objective."""

MOST = 1 << 14
"""Maximum number of requests that are simulated at each rate."""


def rates_picture(
    command: Sequence[str],
    verb: str,
    workload: Workload,
    resolved: Sequence[Resolved],
    platform: Platform,
    *,
    from_file: bool,
    options: Sequence[str] = (),
    gone: Sequence[str] = (),
    own: float = 1.0,
    name: str = "",
    answer: Service | None = None,
    tell: Callable[[str], None] | None = None,
) -> Record:
    """Return the latencies of one deployment at several rates: stops of a slider, and a figure.

    Only ``why_not`` if there are no other rates: devices fail, replicas are autoscaled, or clients
    wait for answers. `command` is the reader's own; `verb` replaces its verb, `options` are added,
    `gone` removed. `from_file`: arrivals are in a file, so that commands have factors on its rate,
    else rates. `own` is the factor at which the slider starts, `answer` the reader's own answer
    there; `name` is that of the deployment. O(rates) simulations.
    """
    if any(one.served.autoscaling for one in resolved) or workload.failures is not None:
        return {"name": name, "why_not": "devices fail or replicas are autoscaled"}
    setup = set_up(resolved, workload, check_together(resolved, platform))
    rates_per_s = rates_of(workload)
    rate_per_s = sum(rates_per_s)
    if not 0 < rate_per_s < math.inf:
        at_once = math.isinf(rate_per_s)
        none = "all requests arrive at once" if at_once else "clients wait for answers"
        return {"name": name, "why_not": none}
    first = first_of(workload, from_file=from_file)
    ceiling = RateQuestion(name, tuple(resolved), setup, first, rates_per_s).ceiling()
    base = [*without(command, verb, (*RATE, *gone)), *options]
    factors = factors_of(ceiling.factor, (own,))
    if not from_file:
        factors = tuple(
            factor if factor == own else short(factor * rate_per_s) / rate_per_s
            for factor in factors
        )
    # No command simulates only the first requests of a file.
    told = not from_file or first is workload
    mine = answer is not None and [verb] == [w for w in command[1:] if w[:1] != "-"][:1]
    known = answer if mine or not told else None
    services: list[Service] = []
    try:
        for number, factor in enumerate(factors):
            if tell is not None:
                tell(f"rate {number + 1} of {len(factors)}")
            own_answer = known if factor == own else None
            services.append(own_answer or played(first.faster(factor), resolved, setup))
    except HetsimError as error:
        return {"name": name, "why_not": str(error)}
    start = min(range(len(factors)), key=lambda k: abs(factors[k] - own))
    commands = [
        plain(join([*base, *_asked(first, factor, rate_per_s, from_file=from_file)]))
        if told
        else None
        for factor in factors
    ]
    if mine:
        commands[start] = plain(join(without(command, verb, gone)))
    rates = [factor * rate_per_s for factor in factors]
    return {
        "name": shown(name),
        "rates": rates,
        "start": start,
        "leave": None,
        "figure": _figure(first, rates, services, (ceiling.factor * rate_per_s, ceiling.binds)),
        "stops": [
            {
                "rate": f"{rate:.4g}/s",
                "say": f"At {rate:.4g} requests/s the service is {service.state}.",
                "figures": [[shown(what), shown(text)] for what, text in _stop(first, service)],
                "command": line,
            }
            for rate, service, line in zip(rates, services, commands, strict=True)
        ],
    }


def _at(workload: Workload, service: Service, stream: int) -> Percentile | None:
    """Percentile of a stream that its page shows; None if no requests are answered."""
    return percentile_at(service.streams[stream].percentiles, percentile_of(workload, stream))


def _verdicts(service: Service, stream: int) -> list[str]:
    return [one.verdict.answer for one in service.streams[stream].objectives]


def _stop(workload: Workload, service: Service) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for place, one in enumerate(workload.streams):
        of = f" of {one.name}" if len(workload.streams) > 1 else ""
        at = _at(workload, service, place)
        text = "grows without limit"
        if at is not None:
            text = latency_text(fields(at, "latency_s=estimate_s low_s high_s enough"))
        rows.append((f"{format_percentile(percentile_of(workload, place))}{of}", text))
        if verdicts := _verdicts(service, place):
            rows.append((f"objectives{of}", ", ".join(verdicts)))
    return [*rows, ("state", service.state), ("bottleneck", _busiest(service))]


def _busiest(service: Service) -> str:
    return f"{service.bottleneck}, {percent(busiest(service))}"


def _figure(
    workload: Workload,
    rates: Sequence[float],
    services: Sequence[Service],
    peak: tuple[float, str],
) -> Record:
    """Figure of latency over rate, one line per stream, with limits and the peak rate."""
    limits = [slo.latency_s for stream in workload.streams for slo in stream.slos]
    traces: list[Record] = []
    found_s: list[float] = []
    for place, one in enumerate(workload.streams):
        rows = [
            (rate, at, _verdicts(service, place), service)
            for rate, service in zip(rates, services, strict=True)
            if (at := _at(workload, service, place)) is not None
        ]
        name = f"{format_percentile(percentile_of(workload, place))} of {one.name}"
        traces += _latency_traces(name, rows, colour(place))
        found_s += [at.estimate_s for _, at, _, _ in rows]
    shapes, notes = limits_drawn(limits, x=0, xanchor="left")
    peak_per_s, binds = peak
    if math.isfinite(peak_per_s):
        shapes.append(rule("x", peak_per_s, "--soft", "dot"))
        notes.append(
            remark(f"peak: {binds}", "--soft", x=peak_per_s, xanchor="right", yref="paper", y=1,
                   yanchor="bottom")
        )  # fmt: skip
    layout = {
        "shapes": shapes,
        "annotations": notes,
        "margin": {"t": 40},
        "showlegend": len(workload.streams) > 1,
        "legend": {"y": 1.1},
        "xaxis": axis("Arrival rate (requests/s)", rangemode="tozero"),
        "yaxis": axis("Latency", **logarithmic([*found_s, *limits])),
    }
    alt = "Latency over the rate of requests; the table has its figures"
    return figure(traces, layout, alt=alt, height=420)


def _latency_traces(
    name: str, rows: Sequence[tuple[float, Percentile, list[str], Service]], hue: str
) -> list[Record]:
    band = [(rate, at) for rate, at, _, _ in rows if at.enough and at.high_s is not None]
    area = scatter(
        [rate for rate, _ in (*band, *reversed(band))],
        [*(at.high_s for _, at in band), *(at.low_s for _, at in reversed(band))],
        hoverinfo="skip",
        showlegend=False,
        fill="toself",
        fillcolor=hue,
        opacity=0.18,
        line={"width": 0},
    )
    verdicts = [answers for _, _, answers, _ in rows]
    told = [
        [time_text(at.estimate_s), ", ".join(answers) or "no objective", label(_busiest(service))]
        for _, at, answers, service in rows
    ]
    line = scatter(
        [rate for rate, _, _, _ in rows],
        [at.estimate_s for _, at, _, _ in rows],
        mode="lines+markers",
        name=label(name, 40),
        line={"color": hue, "width": 2},
        marker={
            "size": 10,
            "line": {"color": hue, "width": 2},
            "symbol": ["x" if "misses" in answers else "circle" for answers in verdicts],
            "color": ["--paper" if "undecided" in answers else hue for answers in verdicts],
        },
        customdata=told,
        hovertemplate="%{x:.4~g}/s: %{customdata[0]}<br>%{customdata[1]}<br>"
        "bottleneck: %{customdata[2]}<extra></extra>",
    )
    return [area, line]


def load_pictures(rows: Sequence[Record]) -> Record:
    """Return ``load``, the rows of ``rates_picture`` with a slider; empty without one."""
    load = [row for row in rows if "stops" in row]
    left = dict.fromkeys(
        f"{row['name']}: {row['why_not']}" if row["name"] else str(row["why_not"])
        for row in rows
        if "why_not" in row
    )
    return {"load": load, "not_simulated": list(left)} if load else {}


def _asked(workload: Workload, factor: float, rate_per_s: float, *, from_file: bool) -> list[str]:
    """Options for these requests at a factor on their rate."""
    if from_file:
        return [] if factor == 1 else ["--speedup", repr(factor)]
    [stream] = workload.streams
    limits = [
        f"{format_percentile(slo.percentile)}={slo.latency_s * 1e3:.12g}ms" for slo in stream.slos
    ]
    rate = f"{factor * rate_per_s:.12g}"
    words = ["--rate", rate, "--requests", str(workload.requests)]
    return [*words, *(word for limit in limits for word in ("--slo", limit))]


def percentile_of(workload: Workload, stream: int) -> float:
    """Return the percentile of a stream's tightest objective."""
    slos = workload.streams[stream].slos
    return min(slos, key=lambda slo: slo.latency_s).percentile if slos else USUAL


def factors_of(ceiling: float, own: Sequence[float]) -> tuple[float, ...]:
    """Return factors on the rate up to the peak, and `own`.

    They are short decimal numbers, so that a command with them can be typed.
    """
    if not math.isfinite(ceiling) or ceiling <= 0:
        ceiling = 2 * max(own, default=1.0)
    found = {short(share * ceiling) for share in SHARES} | set(own)
    return tuple(sorted(found))


def short(value: float) -> float:
    """Return a number rounded to three digits.

    >>> short(123.456)
    123.0
    """
    return float(f"{value:.3g}")


def first_of(workload: Workload, *, from_file: bool) -> Workload:
    """Return the first MOST requests of a workload; the workload itself if a file has fewer."""
    if from_file and expected(workload) <= MOST:
        return workload
    requests = min(MOST, workload.requests or MOST)
    return replace(workload, duration_s=None, requests=requests, warm_up_s=0.0)
