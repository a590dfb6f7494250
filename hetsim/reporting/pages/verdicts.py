"""Titles and verdicts of records: the answer in a sentence, and what keeps it from being better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hetsim.core.text import tally
from hetsim.core.units import format_seconds
from hetsim.reporting.words.text import (
    ABSENT,
    big,
    count,
    listed,
    percent,
)
from hetsim.workload.workload import percentile_of

Found = Mapping[str, Any]
"""A record, or a part of one."""

NAMED = 6
"""Devices that a sentence names."""


def title(record: Found) -> str:
    """Return what a page of a record is called."""
    schema = record["schema"]
    if schema in ("hetsim-plan/1", "hetsim-plan/2"):
        return "A plan"
    if schema == "hetsim-sweep/1":
        return f"A sweep of {count(record['points'], 'point')}"
    if schema == "hetsim-recommendation/1":
        return "The cheapest platform"
    if schema == "hetsim-placement/1":
        return "Where models are best placed"
    if schema in ("hetsim-service/1", "hetsim-load-test/1"):
        served = record.get("measured", record)["served"]
        what = "Requests" if schema == "hetsim-service/1" else "A run under load"
        return f"{what} for {', '.join(str(one['model']) for one in served)}"
    if schema == "hetsim-platforms/1":
        return f"Boards and machines for {record['model']['name']}"
    problem = record["problem"]
    of = "" if problem is None else f" for {problem['name']}"
    if schema in ("hetsim-simulation/1", "hetsim-run/1"):
        run = "A run of " if schema == "hetsim-run/1" else ""
        return f"{run}{record['plan']['strategy']}{of}"
    what = {
        "hetsim-comparison/1": "Strategies",
        "hetsim-capacity/1": "Capacity",
        "hetsim-lint/1": "What costs time",
        "hetsim-nodes/1": "Devices of each node",
    }[schema]
    return f"{what}{of}"


def seconds(value: float | None) -> str:
    """Return a time, or a dash."""
    return ABSENT if value is None else format_seconds(value)


def latency_text(one: Found) -> str:
    """Return a percentile with its interval."""
    if one["latency_s"] is None:
        return "beyond what was answered"
    interval = interval_text(one)
    return f"{seconds(one['latency_s'])} ({interval or 'too few for an interval'})"


def interval_text(one: Found) -> str:
    """Return both ends of a percentile's interval; nothing where a run is too short for one."""
    if not one["enough"] or one["high_s"] is None:
        return ""
    return f"{seconds(one['low_s'])} to {seconds(one['high_s'])}"


def _simulation(record: Found) -> str:
    timeline = record["timeline"]
    say = f"{record['plan']['strategy']} takes {_taken(timeline)} on the virtual clock"
    target_s, failed = record.get("target_s"), record.get("failures")
    if target_s is not None:
        met = timeline["latency_max_s"] <= target_s
        say += f", {'within' if met else 'beyond'} the {seconds(target_s)} that are asked"
    if failed is not None:
        without = seconds(failed["latency_without_s"])
        say += f", with {count(len(failed['injected']), 'failure')}; without, {without}"
    return f"{say}."


def _taken(timeline: Found) -> str:
    if timeline["requests"] == 1:
        return seconds(timeline["latency_s"])
    mean, most = seconds(timeline["latency_mean_s"]), seconds(timeline["latency_max_s"])
    return f"{mean} a request on average and {most} at most, of {timeline['requests']} requests,"


def _run(record: Found) -> str:
    wrong = record["mismatches"]
    if record["precision"] == "device":
        right = "outputs differ" if wrong else "outputs rounded as the devices compute"
    elif wrong:
        right = f"{count(len(wrong), 'output')} differ from the whole model's"
    else:
        how = "bit by bit" if record["bitwise_equal"] else "within the tolerance"
        right = f"its outputs are those of the whole model, {how}"
    ran = f"{record['plan']['strategy']} ran on {record['executor']}: {right}"
    return f"{ran}. {_taken(record['timeline'])} on the virtual clock."


def _service(record: Found) -> str:
    found = []
    for stream in record["streams"]:
        known = {one["percentile"]: one for one in stream["percentiles"]}
        for objective in stream["objectives"]:
            one = known.get(percentile_of(float(objective["share_on_time"])))
            at_s = float("inf") if one is None or one["latency_s"] is None else one["latency_s"]
            found.append((at_s / objective["latency_s"], stream["name"], objective, one))
    if not found:
        answered = sum(one["answered"] for one in record["streams"])
        came = f"{big(answered)} of {big(record['requests'])} requests"
        return f"{came} were answered; it is {record['state']}."
    answers = {each["verdict"] for row in record["streams"] for each in row["objectives"]}
    answer = "Missed" if "misses" in answers else "Met" if answers == {"meets"} else "Undecided"
    _, name, objective, one = max(found, key=lambda row: row[0])
    of = f"p{percentile_of(float(objective['share_on_time'])):g}"
    text = f"{answer}: {name}, {of} <= {seconds(objective['latency_s'])} asked"
    if record["state"] == "overloaded":
        return f"{text}; more comes than is carried, so that latency grows without end."
    return f"{text}." if one is None else f"{text}, {of} is {latency_text(one)}."


def _load_test(record: Found) -> str:
    real, outputs = record["measured"], record["outputs"]
    found = []
    for stream, off in zip(real["streams"], record["off_by"], strict=True):
        known = {one["percentile"]: one for one in stream["percentiles"]}
        of = f" of {stream['name']}" if len(real["streams"]) > 1 else ""
        if 99 in known:
            shares = {one["percentile"]: one["latency"] for one in off["percentiles"]}
            share = shares.get(99)
            beyond = "" if share is None else f", {_off(share)} beside the simulation"
            found.append(f"p99{of} is {latency_text(known[99])}{beyond}")
        else:
            found.append(f"{stream['name']} has no p99: it is {real['state']}")
    right = "outputs were not compared"
    if outputs is not None:
        right = f"outputs of {outputs['compared']} requests equal the whole model's"
        if outputs["mismatches"]:
            wrong = "; ".join(map(str, outputs["mismatches"][:4]))
            right = f"outputs differ from the whole model's: {wrong}"
    return f"{'; '.join(found)}; {right}."


def _off(share: float) -> str:
    """By which share, or how many times as much."""
    return percent(share, sign=True) if share < 2.0 else f"{1 + share:.3g}x"


def _lint(record: Found) -> str:
    before_s, findings, others = record["before_s"], record["findings"], record["others"]
    changes = count(len(findings) + len(others), "change")
    if before_s is None:
        would = f"{len(findings)} of {changes} would make it run"
        return f"No plan: {record['infeasible']}. {would}."
    took = f"{record['strategy']} takes {seconds(before_s)}"
    if not findings:
        if not others:
            return f"{took}, and nothing was found that could cost time."
        return f"{took}, and none of {changes} gains {percent(record['least'])} or more."
    best = findings[0]
    most = f"{best['change']['what']}, {percent(best['gain'])}, {seconds(best['after_s'])} then"
    return f"{took}; what saves the most by the point estimates: {most}."


def _nodes(record: Found) -> str:
    nodes, devices = record["nodes"], record["problem"]["devices"]
    if record["strategy"] is None:
        able = [one["device"] for node in nodes for one in node["devices"] if one["takes"] != "no"]
        takes = [f"{name} {able.count(name)}" for name in devices[:NAMED]]
        more = len(devices) - len(takes)
        told = ", ".join(takes) + (f", and {more} more devices" if more > 0 else "")
        return f"How many of {count(len(nodes), 'node')} each device takes: {told}."
    fallen = sum(bool(node["falls_back"]) for node in nodes)
    runs = listed(tally(str(node["device"]) for node in nodes))
    text = f"{record['strategy']} has {count(len(nodes), 'node')} on {runs}"
    wanted = "the device that is best for them" if record["wanted"] is None else record["wanted"]
    falls = f"{fallen} {'falls' if fallen == 1 else 'fall'} back from {wanted}"
    return f"{text}; {falls if fallen else 'none falls back'}."


def _sweep(record: Found) -> str:
    text = f"{record['points'] - record['failed']} of {count(record['points'], 'point')} answered"
    if not record["front_of"]:
        return f"{text}; pick two columns to see what no other beats."
    wished = " and ".join(record["front_of"])
    return f"{text}; {count(len(record['front']), 'row')} that no other beats in {wished}."


def _plan(record: Found) -> str:
    groups = record["groups"]
    on = listed(tally(str(group["device"]) for group in groups))
    return f"A plan of {record['strategy']} in {count(len(groups), 'subgraph')}: {on}."


SAYS: Mapping[str, Callable[[Found], str]] = {
    "hetsim-simulation/1": _simulation,
    "hetsim-run/1": _run,
    "hetsim-service/1": _service,
    "hetsim-load-test/1": _load_test,
    "hetsim-lint/1": _lint,
    "hetsim-nodes/1": _nodes,
    "hetsim-sweep/1": _sweep,
    "hetsim-plan/1": _plan,
    "hetsim-plan/2": _plan,
}
"""Answers in a sentence by schema, of records that do not tell them."""


def binds(record: Found) -> str:
    """Return what keeps an answer from being better; empty where its record does not tell."""
    schema = record["schema"]
    if schema == "hetsim-comparison/1":
        best = record["rows"][0]
        if best["timeline"] is None:
            return str(best["reason"] or "")
        if record["objective"] == "latency":
            return path_text(best["timeline"]["critical_path"])
        uses = {**best["busy"]}
        for name, one in best["timeline"]["links"].items():
            uses[name] = one["busy_s"] / best["timeline"]["requests"] / best["cost_s"]
        name = max(uses, key=lambda one: uses[one])
        share = "all" if uses[name] >= 1 - 1e-3 else percent(uses[name])
        every = f"no request comes sooner than every {seconds(best['cost_s'])}"
        return f"{name} is busy {share} of the time, and {every}."
    if schema in ("hetsim-simulation/1", "hetsim-run/1"):
        return busiest_text(record["timeline"])
    if schema == "hetsim-capacity/1":
        return str(record["rows"][0]["ends"])
    if schema == "hetsim-placement/1" and record["rows"]:
        best = record["rows"][0]
        factor = "any" if best["factor"] is None else f"{best['factor']:.3g}x"
        return f"{best['binds']} is busy all the time at {factor} the demand."
    if schema == "hetsim-recommendation/1":
        binding = record["binding"]
        return "" if binding is None else f"Nearest that costs less lacks: {binding['what']}."
    served = record.get("measured", record) if schema in _UNDER_LOAD else None
    return "" if served is None else f"{served['bottleneck']} is used the most."


_UNDER_LOAD = ("hetsim-service/1", "hetsim-load-test/1")


def busiest_text(timeline: Found) -> str:
    """Return what one request waits for, or of several what is busy the longest."""
    if timeline["critical_path"] is not None:
        return path_text(timeline["critical_path"])
    busy = {name: one.get("busy_share") or 0.0 for name, one in timeline["devices"].items()}
    busy |= {name: one["utilization"] for name, one in timeline["links"].items()}
    name = max(busy, key=lambda one: busy[one])
    return f"{name} is busy the longest: {percent(busy[name])} of the time."


def path_text(path: Found | None) -> str:
    """Return what a critical path is made of, the largest part first; empty where there is none."""
    whole_s = 0.0 if path is None else path["compute_s"] + path["transfer_s"]
    if path is None or whole_s <= 0:
        return ""
    parts = sorted(path["shares_s"].items(), key=lambda item: -item[1])
    told = [f"{name} {percent(of / whole_s)} ({seconds(of)})" for name, of in parts[:4]]
    more = f", and {len(parts) - 4} more" if len(parts) > 4 else ""
    return f"The critical path is {', '.join(told)}{more}."
