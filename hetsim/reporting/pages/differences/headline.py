"""The few figures that an answer is about, by kind, under names that two answers share."""

from __future__ import annotations

from collections.abc import Iterable

from hetsim.base.text import Record
from hetsim.reporting.pages.differences.leaves import Leaf, leaf
from hetsim.reporting.pages.reading import Left
from hetsim.sweeping.rows import ASKED

Headline = dict[tuple[str, ...], Leaf]


def headline(left: Left) -> Headline:
    """Return the answer's own figures and names; what is missing in the record is left out."""
    record = left.record
    if left.kind == "compare":
        return _compare(record)
    if record.get("schema") == "hetsim-service/1":
        return _service(record)
    if record.get("schema") == "hetsim-load-test/1":
        return _service(record.get("measured") or {})
    if left.kind in ("simulate", "run"):
        return _timeline(record)
    if left.kind == "capacity":
        return _first_row(record, ("name", "answer", "highest_per_s", "ceiling_per_s"))
    if left.kind == "recommend":
        return _recommend(record)
    if left.kind == "place":
        return _first_row(record, ("answer", "factor", "binds"))
    if left.kind == "lint":
        return _lint(record)
    if left.kind == "nodes":
        return _nodes(record)
    if left.kind == "plan":
        return {("strategy",): leaf(record.get("strategy")),
                ("subgraphs",): len(record.get("groups", ()))}  # fmt: skip
    return _some(record, ("points", "failed"))


def points_of(left: Left) -> Record:
    """Return the rows of a sweep by what was asked of each, and what was answered."""
    found: Record = {}
    for row in left.rows:
        asked = [str(row[name]) for name in ASKED if row.get(name) is not None]
        answer = {
            key: value
            for key, value in row.items()
            if key not in ASKED and key != "key" and value is not None
        }
        found.setdefault(", ".join(asked), answer)
    return found


def _compare(record: Record) -> Headline:
    rows = record.get("rows") or [{}]
    best = rows[0]
    found: Headline = {
        ("best strategy",): leaf(best.get("strategy")),
        ("best plan_s",): leaf(best.get("cost_s")),
    }
    found.update(_some(record, ("lower_bound_s", "best_single", "speedup_ceiling")))
    for row in rows:
        if isinstance(row.get("strategy"), str):
            found[row["strategy"], "cost_s"] = leaf(row.get("cost_s"))
    return found


def _timeline(record: Record) -> Headline:
    timeline = record.get("timeline") or {}
    plan = record.get("plan") or {}
    keys = ["latency_s"]
    if timeline.get("requests") != 1:
        keys += ["latency_mean_s", "latency_p99_s", "makespan_s", "requests_per_s"]
    found = _some(timeline, [*keys, "transferred_bytes", "transfer_s", "energy_j"])
    found.update(_some(record, ("bitwise_equal",)))
    found.update(_some(plan, ("strategy", "subgraphs")))
    return found


def _service(record: Record) -> Headline:
    found = _some(record, ("state", "bottleneck", "on_time", "requests", "energy_j"))
    for stream in record.get("streams", ()):
        name = str(stream.get("name"))
        for key in ("throughput_per_s", "latency_mean_s"):
            found[name, key] = leaf(stream.get(key))
        for one in stream.get("percentiles", ()):
            found[name, f"p{one['percentile']:g}", "latency_s"] = leaf(one["latency_s"])
    return found


def _recommend(record: Record) -> Headline:
    answer = record.get("answer") or {}
    counts = answer.get("counts")
    found: Headline = {
        ("answer",): None
        if not isinstance(counts, dict)
        else ", ".join(f"{number} {name}" for name, number in counts.items() if number),
        ("cost",): leaf(answer.get("cost")),
        ("policy",): leaf(answer.get("policy")),
    }
    binding = record.get("binding") or {}
    found["binds",] = leaf(binding.get("what"))
    found.update(_some(record, ("impossible", "vectors")))
    return found


def _lint(record: Record) -> Headline:
    findings = record.get("findings") or []
    found = _some(record, ("strategy", "before_s", "infeasible"))
    found["findings",] = len(findings)
    first = findings[0] if findings else {}
    found.update(_some(first, ("what", "after_s", "gain_s")))
    return found


def _nodes(record: Record) -> Headline:
    nodes = record.get("nodes") or []
    fallen = [node for node in nodes if node.get("falls_back")]
    found = _some(record, ("strategy", "wanted"))
    found["nodes",] = len(nodes) + record.get("nodes_left_out", 0)
    found["fall back",] = len(fallen)
    found["falling back cost_s",] = sum(node.get("cost_s") or 0.0 for node in fallen)
    return found


def _first_row(record: Record, keys: Iterable[str]) -> Headline:
    rows = record.get("rows") or [{}]
    found = _some(rows[0], keys)
    found.update(_some(record, ("rate_per_s", "bound_per_s", "impossible")))
    return found


def _some(record: Record, keys: Iterable[str]) -> Headline:
    return {(_words(key),): leaf(record[key]) for key in keys if key in record}


def _words(key: str) -> str:
    """A key without underscores but for that of its unit."""
    unit = next((end for end in ("_per_s", "_s", "_bytes", "_j") if key.endswith(end)), "")
    return key.removesuffix(unit).replace("_", " ") + unit
