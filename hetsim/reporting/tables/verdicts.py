"""Titles, verdicts and bottlenecks of records, for terminals and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NamedTuple

from hetsim.core.text import tally
from hetsim.core.units import format_percentile
from hetsim.reporting.formatting import between, big, count, listed, more_text, percent, time_text
from hetsim.reporting.tables.plan import outputs_line
from hetsim.reporting.tables.what_if import NONE
from hetsim.workload.workload import percentile_of

Found = Mapping[str, Any]
"""Record, or a part of one."""

NAMED = 6
"""Maximum number of devices that a sentence names."""

OVERLOADED = ("latency grows without limit", "the others are rejected")
"""What an overloaded service comes to, without and with rejected requests."""

TIMES = 2.0
"""Relative difference from which a factor is shown instead of per cent."""


def latency_text(one: Found) -> str:
    """Return a percentile with its interval."""
    if one["latency_s"] in (None, inf):
        return "beyond the answered requests"
    interval = interval_text(one)
    return f"{time_text(one['latency_s'])} ({interval or 'too few requests for an interval'})"


def interval_text(one: Found) -> str:
    """Return both ends of a percentile's interval; empty if a run is too short for one."""
    if not one["enough"] or one["high_s"] is None:
        return ""
    return between(time_text(one["low_s"]), time_text(one["high_s"]))


def _simulation(record: Found) -> str:
    timeline = record["timeline"]
    say = f"{record['plan']['strategy']} {_taken(timeline)}."
    target_s, failed = record.get("target_s"), record.get("failures")
    if target_s is not None:
        met = "meets" if timeline["latency_max_s"] <= target_s else "misses"
        say += f" It {met} the target of {time_text(target_s)}."
    if failed is not None:
        say += f" With {count(len(failed['injected']), 'failure')}; without, it takes "
        say += f"{time_text(failed['latency_without_s'])}."
    return say


def _taken(timeline: Found) -> str:
    if timeline["requests"] == 1:
        return f"takes {time_text(timeline['latency_s'])} (simulated)"
    mean, most = time_text(timeline["latency_mean_s"]), time_text(timeline["latency_max_s"])
    return f"answers {timeline['requests']} requests in {mean} on average, {most} at most"


def _run(record: Found) -> str:
    told = (record["bitwise_equal"], record["mismatches"], record["tolerance"], record["precision"])
    ran = f"{record['plan']['strategy']} ran on {record['executor']} and"
    return f"{ran} {_taken(record['timeline'])}; {outputs_line(*told)}."


def _service(record: Found) -> str:
    found = []
    for stream in record["streams"]:
        known = {one["percentile"]: one for one in stream["percentiles"]}
        for objective in stream["objectives"]:
            one = known.get(percentile_of(float(objective["share_on_time"])))
            at_s = inf if one is None or one["latency_s"] is None else one["latency_s"]
            found.append((at_s / objective["latency_s"], stream["name"], objective, one))
    if not found:
        answered = sum(one["answered"] for one in record["streams"])
        came = f"{big(answered)} of {big(record['requests'])} requests"
        return f"{came} were answered; the service is {record['state']}."
    objectives = [each for row in record["streams"] for each in row["objectives"]]
    answers = {each["verdict"] for each in objectives}
    head = "It is undecided whether every objective is met"
    if answers == {"meets"}:
        head = "Every objective is met"
    elif "misses" in answers:
        head = "An objective is missed"
    _, name, objective, one = max(found, key=lambda row: row[0])
    if record["state"] == "overloaded":
        rejects = any(one["answered"] < one["requests"] for one in record["streams"])
        return f"{head}: more requests arrive than are answered, and {OVERLOADED[rejects]}."
    of = f"{format_percentile(percentile_of(float(objective['share_on_time'])))} of {name}"
    limit = f"with a limit of {time_text(objective['latency_s'])}"
    text = f"{head}: {of} is {'unknown' if one is None else latency_text(one)}, {limit}."
    more = [each["more_requests"] for each in objectives if each["verdict"] == "undecided"]
    if head.startswith("It is undecided") and more:
        text += f" Simulate about {big(max(more))} more requests to decide it."
    return text


def _load_test(record: Found) -> str:
    real = record["measured"]
    found = []
    for stream, off in zip(real["streams"], record["off_by"], strict=True):
        known = {one["percentile"]: one for one in stream["percentiles"]}
        of = f" of {stream['name']}" if len(real["streams"]) > 1 else ""
        if 99 in known:
            shares = {one["percentile"]: one["latency"] for one in off["percentiles"]}
            share = shares.get(99)
            beyond = "" if share is None else f", {difference_text(share)} against the simulation"
            found.append(f"the measured p99{of} is {latency_text(known[99])}{beyond}")
        else:
            found.append(f"stream {stream['name']} has no p99: the service is {real['state']}")
    text = "; ".join([*found, outputs_text(record["outputs"])])
    return f"{text[:1].upper()}{text[1:]}."


def difference_text(share: float) -> str:
    """Return a relative difference such as ``+8.1 %``, or as a factor if it is large."""
    # No difference is shown as -0.0.
    return f"{round(100 * share, 1) + 0.0:+.1f} %" if share < TIMES else f"{1 + share:.3g}x"


def outputs_text(outputs: Found | None) -> str:
    """Return a sentence on whether requests under load got the whole model's outputs."""
    if outputs is None:
        return "outputs were not compared"
    if outputs["mismatches"]:
        wrong = "; ".join(map(str, outputs["mismatches"][:4]))
        return f"outputs differ from the whole model's: {wrong}"
    text = f"the outputs of {outputs['alone']} of {outputs['compared']} compared requests are "
    text += "bitwise equal to the whole model's"
    if outputs["alone"] < outputs["compared"]:
        off = outputs["off"]
        how = "in more than floats" if off is None else f"by up to {off:.2g} of the largest value"
        text += f" (others differ {how})"
    if outputs["batches"]:
        text += f", and {count(outputs['batches'], 'batch', 'batches')} to its output on the batch"
    return text


def _lint(record: Found) -> str:
    before_s, findings = record["before_s"], record["findings"]
    total = len(findings) + len(record["others"])
    changes = f"{len(findings)} of {count(total, 'change')}"
    if before_s is None:
        one = "makes" if len(findings) == 1 else "make"
        return f"No plan: {record['infeasible']}. {changes} {one} it feasible."
    took = f"{record['strategy']} takes {time_text(before_s)}"
    if not findings:
        none = f"none of {count(total, 'change')} saves {percent(record['least'])} or more"
        return f"{took}; {none if total else 'no finding costs time'}."
    best = findings[0]
    saves = f"{changes} {'saves' if len(findings) == 1 else 'save'} {percent(record['least'])}"
    most = f"{best['change']['what']} ({percent(best['gain'])}, then {time_text(best['after_s'])})"
    return f"{took}; {saves} or more. Best: {most}."


def _sensitivities(record: Found) -> str:
    if record["value_s"] is None:
        return NONE.format(record["figure"])
    text = f"{record['figure']} is {time_text(record['value_s'])}"
    best = record["changes"][:1]
    saves = sum(map(saved_share, best))
    text += f"; {best[0]['change']} saves most, {percent(saves)}." if saves > 0 else "; none saves."
    return f"{text[:1].upper()}{text[1:]}"


def saved_share(change: Found) -> float:
    """Return the share that a change of sensitivities saves, by the better of both plans."""
    known = [one for one in (change["plan_kept"], change["planned_anew"]) if one is not None]
    return -min(known, default=0.0)


def _nodes(record: Found) -> str:
    nodes, devices = record["nodes"], record["problem"]["devices"]
    if record["strategy"] is None:
        able = [one["device"] for node in nodes for one in node["devices"] if one["takes"] != "no"]
        takes = ", ".join(f"{name} {able.count(name)}" for name in devices[:NAMED])
        takes = more_text(takes, len(devices) - NAMED)
        return f"Supported nodes, of {len(nodes)}, by device: {takes}."
    away = sum(bool(node["falls_back"]) for node in nodes)
    runs = listed(tally(str(node["device"]) for node in nodes))
    text = f"{record['strategy']} runs {count(len(nodes), 'node')}: {runs}"
    wanted = "its fastest device" if record["wanted"] is None else record["wanted"]
    if not away:
        return f"{text}; every node is on {wanted}."
    return f"{text}; {away} {'is' if away == 1 else 'are'} not on {wanted}."


def _sweep(record: Found) -> str:
    points = count(record["points"], "point")
    text = f"{record['points'] - record['failed']} of {points} have an answer"
    if not record["front_of"]:
        return f"{text}; choose two columns for their Pareto front."
    rows = count(len(record["front"]), "row")
    return f"{text}; the Pareto front of {' and '.join(record['front_of'])} has {rows}."


def _plan(record: Found) -> str:
    groups = record["groups"]
    on = listed(tally(str(group["device"]) for group in groups))
    return f"{record['strategy']} made {count(len(groups), 'subgraph')}: {on}."


def _of(what: str) -> Callable[[Found], str]:
    """Function that returns the title of a record: its kind, and its problem."""

    def named(record: Found) -> str:
        problem = record["problem"]
        return what if problem is None else f"{what} for {problem['name']}"

    return named


def _served(what: str) -> Callable[[Found], str]:
    def named(record: Found) -> str:
        served = record.get("measured", record)["served"]
        return f"{what} for {', '.join(str(one['model']) for one in served)}"

    return named


class Answer(NamedTuple):
    """Kind of report, title, and verdict of a record without one of its own."""

    kind: str
    title: Callable[[Found], str]
    say: Callable[[Found], str] | None = None


_A_PLAN = Answer("plan", lambda record: "A plan", _plan)

ANSWERS: Mapping[str, Answer] = {
    "hetsim-comparison/1": Answer("compare", _of("Strategies")),
    "hetsim-platforms/1": Answer(
        "platforms", lambda record: f"Boards and machines for {record['model']['name']}"
    ),
    "hetsim-simulation/1": Answer(
        "simulate", lambda record: _of(record["plan"]["strategy"])(record), _simulation
    ),
    "hetsim-service/1": Answer("simulate", _served("Requests"), _service),
    "hetsim-run/1": Answer(
        "run", lambda record: _of(f"A run of {record['plan']['strategy']}")(record), _run
    ),
    "hetsim-load-test/1": Answer("run", _served("A run under load"), _load_test),
    "hetsim-capacity/1": Answer("capacity", _of("Capacity")),
    "hetsim-recommendation/1": Answer("recommend", lambda record: "The cheapest platform"),
    "hetsim-placement/1": Answer("place", lambda record: "Placement of models"),
    "hetsim-lint/1": Answer("lint", _of("Lint findings"), _lint),
    "hetsim-sensitivities/1": Answer(
        "sensitivities", lambda record: f"Sensitivities of {record['figure']}", _sensitivities
    ),
    "hetsim-nodes/1": Answer("nodes", _of("Devices of each node"), _nodes),
    "hetsim-sweep/1": Answer(
        "sweep", lambda record: f"A sweep of {count(record['points'], 'point')}", _sweep
    ),
    "hetsim-plan/1": _A_PLAN,
    "hetsim-plan/2": _A_PLAN,
}
"""Answers by the schema of their record."""


def title(record: Found) -> str:
    """Return the title of a record's page."""
    return ANSWERS[record["schema"]].title(record)


def verdict_of(record: Found) -> str:
    """Return the verdict of a record in a sentence or two."""
    own, say = record.get("verdict", {}).get("say"), ANSWERS[record["schema"]].say
    return str(own or (say and say(record)))


def binds(record: Found) -> str:
    """Return the critical path or the bottleneck of a simulated plan, else an empty text."""
    if record["schema"] in ("hetsim-simulation/1", "hetsim-run/1"):
        return busiest_text(record["timeline"])
    if record["schema"] != "hetsim-comparison/1" or record["rows"][0]["timeline"] is None:
        return ""
    best = record["rows"][0]
    if record["objective"] == "latency":
        return path_text(best["timeline"]["critical_path"])
    uses = {**best["busy"]}
    for name, one in best["timeline"]["links"].items():
        uses[name] = one["busy_s"] / best["timeline"]["requests"] / best["cost_s"]
    name = max(uses, key=lambda one: uses[one])
    every = f"allows one request every {time_text(best['cost_s'])}"
    return f"The bottleneck is {name}, which is busy {percent(uses[name])} and {every}."


def busiest_text(timeline: Found) -> str:
    """Return the parts of the critical path of one request, or the bottleneck of several."""
    if timeline["critical_path"] is not None:
        return path_text(timeline["critical_path"])
    busy = {name: one.get("busy_share") or 0.0 for name, one in timeline["devices"].items()}
    busy |= {name: one["utilization"] for name, one in timeline["links"].items()}
    name = max(busy, key=lambda one: busy[one])
    return f"The bottleneck is {name}, which is busy {percent(busy[name])} of the time."


def path_text(path: Found | None) -> str:
    """Return the parts of a critical path, the largest first; empty without one."""
    whole_s = 0.0 if path is None else path["compute_s"] + path["transfer_s"]
    if path is None or whole_s <= 0:
        return ""
    parts = sorted(path["shares_s"].items(), key=lambda item: -item[1])
    told = [f"{name} {percent(of / whole_s)} ({time_text(of)})" for name, of in parts[:4]]
    return f"Time on the critical path: {more_text(', '.join(told), len(parts) - 4)}."
