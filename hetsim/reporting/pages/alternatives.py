"""Answers beside a page's own: at other rates, device speeds, and prices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from shlex import join

from hetsim.core.text import Record, plain
from hetsim.errors import HetsimError
from hetsim.hardware.spec import Platform
from hetsim.hardware.what_if import what_if
from hetsim.problem.parts import Contention
from hetsim.problem.plan import Plan
from hetsim.problem.repriced import repriced
from hetsim.provisioning.platforms.answer import Recommendation
from hetsim.provisioning.platforms.question import UNIT, Counts
from hetsim.provisioning.platforms.question import Question as PlatformQuestion
from hetsim.provisioning.platforms.search import BUDGET, Search, Tried
from hetsim.provisioning.rates.ceiling import rates_of
from hetsim.provisioning.rates.sustained_rate import Question
from hetsim.reporting.tables.service import busiest
from hetsim.simulation.service.layout import Setup, check_together, set_up
from hetsim.simulation.service.resolution import Resolved
from hetsim.simulation.service.run import expected
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import played
from hetsim.simulation.simulate import simulate
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

    Those that leave files, or only say how an answer is printed, are left out as well.
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
"""Rates that are simulated, as shares of the ceiling."""

USUAL = 99.0
"""Percentile of a stream without an objective."""

MOST = 1 << 14
"""Requests that are simulated at each rate."""


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
    """Peak rate of one deployment, and ``curve``, its latencies at several arrival rates.

    ``curve`` is None where there are no other rates, and ``why_not`` says why: devices fail,
    replicas are autoscaled, or clients wait for answers. `command` is the reader's own; `verb`
    stands for its verb, `options` are added, `gone` left out. `from_file`: arrivals are in a file,
    so that commands have factors on its rate, else rates. `own` is the factor at which the slider
    starts, `answer` the reader's own answer there; `name` is that of the deployment.
    """
    if any(one.served.autoscaling for one in resolved) or workload.failures is not None:
        return {"name": name, "curve": None, "why_not": "devices fail or replicas are autoscaled"}
    setup = set_up(resolved, workload, check_together(resolved, platform))
    rates_per_s = rates_of(workload)
    rate_per_s = sum(rates_per_s)
    if not 0 < rate_per_s < math.inf:
        at_once = math.isinf(rate_per_s)
        none = "all requests arrive at once" if at_once else "clients wait for answers"
        return {"name": name, "curve": None, "why_not": none}
    first = first_of(workload, from_file=from_file)
    ceiling = Question(name, tuple(resolved), setup, first, rates_per_s).ceiling()
    found: Record = {
        "name": name,
        "rate_per_s": rate_per_s,
        "requests": first.requests,
        "ceiling_per_s": _number(ceiling.factor * rate_per_s),
        "ceiling_binds": ceiling.binds,
        "limits_s": [slo.latency_s for stream in first.streams for slo in stream.slos],
        "curve": None,
    }
    base = [*without(command, verb, (*RATE, *gone)), *options]
    factors = factors_of(ceiling.factor, (own,))
    if not from_file:
        factors = tuple(
            factor if factor == own else short(factor * rate_per_s) / rate_per_s
            for factor in factors
        )
    # A file of more requests than are simulated here has no command that simulates as many.
    told = not from_file or first is workload
    mine = answer is not None and [verb] == [w for w in command[1:] if w[:1] != "-"][:1]
    known = answer if mine or not told else None
    try:
        curve = _curve(first, resolved, setup, factors, {own: known}, tell)
    except HetsimError as error:
        return {**found, "why_not": str(error)}
    curve["start"] = min(range(len(factors)), key=lambda k: abs(factors[k] - own))
    curve["command"] = [
        _line([*base, *_asked(first, factor, rate_per_s, from_file=from_file)]) if told else None
        for factor in factors
    ]
    if mine:
        curve["command"][curve["start"]] = _line(without(command, verb, gone))
    return {**found, "curve": curve}


def _line(words: Sequence[str]) -> str:
    return plain(join(words))


def _asked(workload: Workload, factor: float, rate_per_s: float, *, from_file: bool) -> list[str]:
    """Options for these requests at a factor on their rate."""
    if from_file:
        return [] if factor == 1 else ["--speedup", repr(factor)]
    [stream] = workload.streams
    limits = [f"p{slo.percentile:g}={slo.latency_s * 1e3:.12g}ms" for slo in stream.slos]
    rate = f"{factor * rate_per_s:.12g}"
    words = ["--rate", rate, "--requests", str(workload.requests)]
    return [*words, *(word for limit in limits for word in ("--slo", limit))]


def _curve(
    workload: Workload,
    resolved: Sequence[Resolved],
    setup: Setup,
    factors: Sequence[float],
    answers: Mapping[float, Service | None],
    tell: Callable[[str], None] | None,
) -> Record:
    """Figures of a workload at some factors on its rate, as columns. O(factors) simulations."""
    streams: list[Record] = [
        {
            "name": one.name,
            "percentile": percentile_of(workload, at),
            "limit_s": min((slo.latency_s for slo in one.slos), default=None),
            "latency_s": [],
            "low_s": [],
            "high_s": [],
            "enough": [],
            "verdict": [],
        }
        for at, one in enumerate(workload.streams)
    ]
    found: Record = {"factor": [], "state": [], "bottleneck": [], "used": [], "streams": streams}
    for number, factor in enumerate(factors):
        if tell is not None:
            tell(f"rate {number + 1} of {len(factors)}")
        service = answers.get(factor) or played(workload.faster(factor), resolved, setup)
        found["factor"].append(factor)
        found["state"].append(service.state)
        found["bottleneck"].append(service.bottleneck)
        found["used"].append(busiest(service))
        for one, stream in zip(streams, service.streams, strict=True):
            known = {each.percentile: each for each in stream.percentiles}
            at = known.get(one["percentile"])
            one["latency_s"].append(None if at is None else at.estimate_s)
            one["low_s"].append(None if at is None else at.low_s)
            one["high_s"].append(None if at is None else at.high_s)
            one["enough"].append(at is not None and at.enough)
            one["verdict"].append([each.verdict.answer for each in stream.objectives])
    return found


def percentile_of(workload: Workload, stream: int) -> float:
    """Percentile of a stream's tightest objective."""
    slos = workload.streams[stream].slos
    return min(slos, key=lambda slo: slo.latency_s).percentile if slos else USUAL


def factors_of(ceiling: float, own: Sequence[float]) -> tuple[float, ...]:
    """Factors on the rate up to the peak, and `own`.

    They are short decimal numbers, so that a command with them can be typed.
    """
    if not math.isfinite(ceiling) or ceiling <= 0:
        ceiling = 2 * max(own, default=1.0)
    found = {short(share * ceiling) for share in SHARES} | set(own)
    return tuple(sorted(found))


def short(value: float) -> float:
    """Number to three digits.

    >>> short(123.456)
    123.0
    """
    return float(f"{value:.3g}")


def first_of(workload: Workload, *, from_file: bool) -> Workload:
    """First MOST requests of a workload; the workload itself, where a file says fewer."""
    if from_file and expected(workload) <= MOST:
        return workload
    requests = min(MOST, workload.requests or MOST)
    return replace(workload, duration_s=None, requests=requests, warm_up_s=0.0)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


STOPS = (0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0)
"""Factors on a device's speed."""

KEPT = "kept"
"""Folder in which the command saves the plan."""


def speeds_picture(
    plan: Plan, command: Sequence[str], verb: str, *, contention: Contention | None = None
) -> Record | None:
    """Latency of one request by device and factor of STOPS on its speed, and the commands for it.

    None for plans of several replicas and of problems from arrays, whose devices have no figures.
    """
    problem = plan.problem
    platform = problem.platform
    if platform is None or problem.model is None or plan.sizes:
        return None
    devices = [
        {
            "name": name,
            "latency_s": [
                _speed_latency_s(plan, f"device {name}.speed x{factor:g}", contention)
                for factor in STOPS
            ],
        }
        for name in plan.devices_used
    ]
    return {"stops": list(STOPS), "devices": devices, **_speed_commands(command, verb)}


def _speed_latency_s(plan: Plan, change: str, contention: Contention | None) -> float | None:
    platform = plan.problem.platform
    assert platform is not None
    try:
        problem = repriced(plan.problem, what_if(platform, change))
    except HetsimError:
        return None
    again = replace(plan, problem=problem)
    return simulate(again, contention=contention, trace=False).latency_s


def _speed_commands(command: Sequence[str], verb: str) -> Record:
    """Commands that save the plan, and that simulate it."""
    words = without(command, verb, ("--samples",))
    if any(word.endswith(".json") for word in words[2:3]):
        return {"leave": None, "play": words}
    return {
        "leave": [*words, "--samples", "0", "--out", KEPT],
        "play": ["hetsim", "simulate", f"{KEPT}/plan.json"],
    }


FACTORS = (0.25, 0.5, 2.0, 4.0)
"""Factors on the price of each kind."""

MOST_PLAYED = 12
"""Most platforms that are simulated for that."""


def vectors_picture(
    found: Recommendation,
    *,
    budget: int = BUDGET,
    tell: Callable[[str], None] | None = None,
) -> Record:
    """Platforms that were tried, as ``tried``, and the cheapest at other prices, as ``prices``.

    Whether a platform meets does not depend on prices: the order in which they are tried does. Up
    to MOST_PLAYED more platforms are played, none where `budget` is 0.
    """
    question = found.found.question
    known = {one.counts: one for one in found.found.tried}
    for one in (found.found.answer, found.found.runner_up):
        if one is not None:
            known[one.counts] = one
    prices: list[Record] = []
    if question.aim == "cost" and question.given and budget:
        prices = _at_other_prices(found, known, budget, tell)
    answer = found.found.answer
    rows = sorted(known.values(), key=lambda one: question.key(one.counts))
    return {"tried": [_row(question, one, answer) for one in rows], "prices": prices}


def _row(question: PlatformQuestion, one: Tried, answer: Tried | None) -> Record:
    best = one.best(question)
    latency_s = limit_s = None
    if best is not None and best.played is not None:
        said = best.played.worst(question)
        latency_s = said.latency_s
        limit_s = question.streams[said.stream].slos[said.slo].latency_s
    return {
        "vector": list(one.counts),
        "counts": question.named(one.counts),
        "cost": question.amount(one.counts),
        "devices": question.key(one.counts)[1],
        "latency_s": latency_s,
        "limit_s": limit_s,
        "answer": one.answer,
        "chosen": answer is not None and one.counts == answer.counts,
    }


def _at_other_prices(
    found: Recommendation,
    known: dict[Counts, Tried],
    budget: int,
    tell: Callable[[str], None] | None,
) -> list[Record]:
    """Cheapest platform with another price of one kind; None where it was not simulated.

    What is played for it is added to `known`.
    """
    question = found.found.question
    search = Search(question, found.workload, budget=budget)
    left = MOST_PLAYED
    rows = []
    for at, kind in enumerate(question.kinds):
        for factor in FACTORS if kind.cost else ():
            kinds = list(question.kinds)
            kinds[at] = replace(kind, cost=round(kind.cost * factor))
            other = replace(question, kinds=tuple(kinds))
            best = None
            for counts in search.left(other):
                if counts not in known and left:
                    left -= 1
                    if tell is not None:
                        named = question.named(counts)
                        tell(" + ".join(f"{n} {name}" for name, n in named.items()))
                    known[counts] = search.play(counts)
                if counts not in known or known[counts].answer == "undecided":
                    break
                if known[counts].answer == "meets":
                    best = counts
                    break
            rows.append(
                {
                    "kind": kind.name,
                    "price": float(kinds[at].cost * UNIT[question.aim]),
                    "counts": None if best is None else question.named(best),
                    "cost": None if best is None else other.amount(best),
                }
            )
    return rows
