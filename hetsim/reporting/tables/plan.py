"""Tables of one plan: subgraphs, simulated latency and use, outputs; merge methods compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.confidence import Interval, Spread
from hetsim.core.text import Record, fields, grouped, plain, tally
from hetsim.core.units import format_bytes, format_seconds
from hetsim.partitioning.borders import crossings
from hetsim.partitioning.partition import Partition
from hetsim.problem.groups import Group, owners
from hetsim.problem.parts import GRAPH_INPUT, Slowdown
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.record import problem_record
from hetsim.problem.timeline import Timeline
from hetsim.reporting.console import bold, pairs, stack, table, table_of
from hetsim.reporting.formatting import between, bytes_text, count, folded, joules, listed, percent
from hetsim.reporting.tables.question import named_as_if, question, slower_text, sustained_rows

if TYPE_CHECKING:
    from hetsim.execution.run import Deviation, Run


def partition_report(partition: Partition) -> RenderableType:
    """Return the groups of a partition under a header."""
    problem = partition.problem
    used = tally(group.device for group in partition.groups)
    header = [
        *question(problem),
        ("method", partition.method),
        ("groups", f"{len(partition.groups)} ({listed(used, limit=8)})"),
        *(("note", note) for note in partition.notes),
    ]
    return stack(pairs(header), groups_table(problem, partition.groups))


def plan_report(plan: Plan) -> RenderableType:
    """Return the subgraphs of a plan, under its question."""
    rows = [*question(plan.problem), *plan_rows(plan)]
    return stack(pairs(rows), groups_table(plan.problem, plan.groups))


def groups_table(problem: Problem, groups: Sequence[Group]) -> Table:
    """Return one row per group, in execution order."""

    def seconds(group: Group) -> float:
        return problem.group_seconds(problem.devices.index(group.device), group.nodes)

    return table_of(
        [*zip(range(len(groups)), groups, crossings(problem, groups), strict=True)],
        ("#group", lambda row: f"g{row[0]}"),
        ("device", lambda row: row[1].device),
        ("#nodes", lambda row: str(len(row[1].nodes))),
        ("#time", lambda row: format_seconds(seconds(row[1]))),
        ("#receives", lambda row: format_bytes(row[2].receives_bytes)),
        ("#sends", lambda row: format_bytes(row[2].sends_bytes)),
        ("ops", lambda row: listed(tally(problem.op_types[v] for v in row[1].nodes), limit=3)),
        ("|first node", lambda row: problem.node_names[row[1].nodes[0]]),
    )


def simulation_report(
    plan: Plan, timeline: Timeline, sure: Spread | None = None, *, sustained: bool = False
) -> RenderableType:
    """Return one simulated plan: latency and its interval, devices, links.

    `sustained`: the devices of `plan` slow each other down.
    """
    problem = plan.problem
    rows = question(problem)
    if sustained:
        rows += sustained_rows(problem)
    if problem.slower is not None:
        rows.append(("slowdown", slower_text(problem, problem.slower)))
    rows += [*plan_rows(plan), *latency_rows(timeline, sure)]
    if any(watts > 0 for watts in (*problem.idle_w, *problem.busy_w)):
        rows.append(("energy", joules(timeline.energy_j)))
    return stack(pairs(rows), devices_table(plan, timeline), links_table(timeline))


def run_report(plan: Plan, run: Run, sure: Spread | None = None) -> RenderableType:
    """Return one run: simulated latency, wall clock, and comparison of the outputs."""
    rows = [*question(plan.problem), *plan_rows(plan), *latency_rows(run.timeline, sure)]
    rows.append(
        (
            "wall clock",
            f"{format_seconds(run.wall_s)} on {run.executor} in {count(run.steps, 'step')}, after "
            f"{format_seconds(run.compile_s)} to prepare the devices",
        )
    )
    lines = [*precision_lines(plan, run), *session_lines(run)]
    claim = outputs_line(run.bitwise_equal, run.mismatches, run.tolerance, run.precision)
    told = [*(Text(plain(line)) for line in lines), bold(claim)]
    return stack(pairs(rows), devices_table(plan, run.timeline), told)


def precision_lines(plan: Plan, run: Run) -> list[str]:
    """Return lines on the effect of the devices' own arithmetic, or the option for it."""
    platform, model = plan.problem.platform, plan.problem.model
    if platform is None:
        return []
    kinds = set() if model is None else {t.dtype for t in model.graph.tensors.values()}
    computed = [
        f"{device} computes {source} in {target}"
        for device in plan.devices_used
        for source, target in platform.devices[device].rounding.items()
        if platform.devices[device].executes is None or source in kinds
    ]
    if run.precision == "graph":
        lines = []
        if computed:
            told = ", ".join(computed)
            lines = [f"outputs are in the graph's own types; --precision device rounds: {told}"]
        executed = {d: p for d, p in plan.problem.executed.items() if d in plan.devices_used}
        if executed:
            told = ", ".join(f"{kind} on {name}" for name, kind in executed.items())
            lines.append(f"only the times assume {told}; the outputs do not")
        return lines
    if not computed:
        return []
    lines = [f"outputs are rounded as devices compute: {', '.join(computed)}"]
    return [*lines, *_deviations(run.deviations, "the graph's own types")]


def _deviations(found: Iterable[Deviation], of: str) -> Iterator[str]:
    """Lines on outputs that deviate, each with its reference."""
    for one in found:
        lost = f", {count(one.lost, 'element')} out of range" if one.lost else ""
        yield (
            f"'{one.output}' deviates from {of} by at most {one.max_abs:.3g}, "
            f"{percent(one.max_rel)} of its largest value{lost}"
        )


def session_lines(run: Run) -> list[str]:
    """Return the whole model's session options, and deviations from the default ones."""
    lines = []
    if run.reference is not None:
        lines.append(
            "the whole model ran in one session of ONNX Runtime on one thread, without graph "
            "optimisation and prepacking"
        )
    if run.plain is not None:
        if run.plain.bitwise_equal:
            lines.append("default session options give the same bits")
        else:
            lines += _deviations(run.plain.deviations, "default session options")
        lines += [f"default session options give another {one}" for one in run.plain.mismatches]
    return lines


def plan_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return lines on strategy, reason, subgraphs and replicas."""
    rows = [("strategy", plan.strategy)]
    if plan.reason:
        rows.append(("reason", plan.reason))
    rows.append(
        ("subgraphs", f"{len(plan.groups)} on {', '.join(plan.devices_used) or 'no device'}")
    )
    if plan.sizes:
        rows.append(("replicas", f"{len(plan.sizes)}; {deal_text(plan)}"))
    return rows


def latency_rows(timeline: Timeline, sure: Spread | None = None) -> list[tuple[str, str]]:
    """Return lines on simulated latency, its interval, and transfers."""
    requests = len(timeline.latencies_s)
    rows = [("latency", f"{format_seconds(timeline.latency_s)} (simulated)")]
    if requests > 1:
        spread = latency_spread(timeline)
        rate = requests / timeline.makespan_s if timeline.makespan_s > 0 else float("inf")
        rows = [
            (
                "requests",
                f"{requests} in {format_seconds(timeline.makespan_s)}, {rate:.4g}/s",
            ),
            (
                "latency",
                f"{', '.join(f'{name} {format_seconds(at)}' for name, at in spread.items())} "
                "(simulated)",
            ),
        ]
    rows += spread_rows(sure, requests)
    path = critical_path(timeline) if requests == 1 else None
    if path is not None:
        rows.append(
            (
                "critical path",
                f"{format_seconds(path['compute_s'])} computing, "
                f"{format_seconds(path['transfer_s'])} in transfers "
                f"({percent(path['transfer_share'])})",
            )
        )
    rows.append(
        (
            "transfers",
            f"{timeline.transfers}, {format_bytes(timeline.transferred_bytes)}, "
            f"{format_seconds(timeline.transfer_s)} in total",
        )
    )
    return rows


def devices_table(plan: Plan, timeline: Timeline) -> Table:
    """Return one row per device: load, utilization, memory."""
    problem = plan.problem
    of = {name: [one for one in plan.groups if one.device == name] for name in problem.devices}

    def capacity(device: str) -> str:
        if problem.capacity_bytes is None:
            return bytes_text(None)
        p = problem.device_index(device)
        return bytes_text(problem.held_bytes(p, problem.capacity_bytes[p]))

    return table_of(
        problem.devices,
        ("device", lambda name: named_as_if(name, problem.executed.get(name))),
        ("#subgraphs", lambda name: str(len(of[name]))),
        ("#nodes", lambda name: str(sum(len(group.nodes) for group in of[name]))),
        ("#busy", lambda name: format_seconds(timeline.device_busy_s.get(name, 0.0))),
        ("#utilization", lambda name: percent(timeline.device_utilization.get(name))),
        ("#peak memory", lambda name: bytes_text(timeline.peak_memory_bytes.get(name))),
        ("#weights", lambda name: bytes_text(timeline.weight_bytes.get(name))),
        ("#capacity", capacity),
    )


def links_table(timeline: Timeline) -> Table:
    """Return one row per link direction or bus in use."""
    return table(
        ("link", "#busy", "#utilization"),
        (
            (link, format_seconds(busy_s), percent(timeline.link_utilization.get(link)))
            for link, busy_s in timeline.link_busy_s.items()
            if busy_s > 0
        ),
    )


def outputs_line(
    equal: bool | None,
    mismatches: Sequence[str],
    tolerance: float = 0.0,
    precision: str = "graph",
) -> str:
    """Return one line on whether the split model's outputs equal the whole model's bit for bit.

    `tolerance` is the one of the run, relative to the largest magnitude of an output. If devices
    compute in their own `precision`, the whole model is rounded as they round.
    """
    rounded = " rounded in the same way" if precision == "device" else ""
    claim = f"outputs bitwise equal to the whole model{rounded}"
    if equal is None:
        return f"{claim}: not compared"
    if equal:
        return f"{claim}: yes"
    if not mismatches:
        return (
            f"{claim}: no, but within {tolerance:g} of their "
            "largest magnitude, as the kernels of its devices allow"
        )
    return f"{claim}: no ({count(len(mismatches), 'output')} differ: {'; '.join(mismatches)})"


def critical_path(timeline: Timeline) -> Record | None:
    """Return seconds of computing and of transfers on the critical path; None if there is none.

    ``shares_s`` has them by device, and by links as transfers hold them jointly; largest first.
    """
    if not timeline.critical_path:
        return None
    spent = {"compute": 0.0, "transfer": 0.0}
    shares: dict[str, float] = {}
    for index in timeline.critical_path:
        event = timeline.events[index]
        seconds = event.end_s - event.start_s
        spent[event.kind] += seconds
        held = " + ".join(event.tracks) or f"{event.source}>{event.device}"
        where = event.device if event.kind == "compute" else held
        shares[where] = shares.get(where, 0.0) + seconds
    ordered = dict(sorted(shares.items(), key=lambda share: -share[1]))
    whole = sum(spent.values())
    return {
        "compute_s": spent["compute"],
        "transfer_s": spent["transfer"],
        "transfer_share": spent["transfer"] / whole if whole > 0 else 0.0,
        "shares_s": ordered,
    }


def latency_spread(timeline: Timeline) -> dict[str, float]:
    """Return mean, percentiles by the nearest rank, and maximum over all requests, in seconds."""
    ordered = sorted(timeline.latencies_s)
    size = len(ordered)
    ranked = {f"p{at}": ordered[max(-(-at * size // 100), 1) - 1] for at in (50, 90, 99)}
    return {"mean": sum(ordered) / size, **ranked, "max": ordered[-1]}


def spread_rows(spread: Spread | None, requests: int) -> list[tuple[str, str]]:
    """Return a line on the 80 % interval of the latency; none without samples."""
    if spread is None:
        return []

    def told(found: Interval) -> str:
        return between(format_seconds(found.low), format_seconds(found.high))

    text = told(spread.latency_s)
    if requests > 1:
        text = f"mean {text}, makespan {told(spread.makespan_s)}"
    return [("80 % interval", f"{text} ({spread.draws} samples of the cost-model error)")]


def deal_text(plan: Plan) -> str:
    """Return each replica's share: ``of every 4 requests, 3 go to gpu, 1 to npu + cpu``."""
    place = {name: index for index, name in enumerate(plan.problem.devices)}
    in_order = sorted(
        zip(plan.replicas, plan.shares, strict=True),
        key=lambda pair: [place[name] for name in pair[0].devices_used],
    )
    by_share = grouped(
        (share, " + ".join(folded(replica.devices_used))) for replica, share in in_order
    )
    said: list[str] = []
    for share, names in sorted(by_share.items(), reverse=True):
        each = "" if len(names) == 1 else " each"
        said.append(f"{share}{each} {'to' if said else 'go to'} {' and '.join(folded(names))}")
    return f"of every {len(plan.deal)} requests, {', '.join(said)}"


INTERVAL = "(p10=low p90=high)"
"""Fields of an 80 % interval."""

_DEVIATIONS = "deviations(output max_abs max_rel lost)"


def _spread_record(spread: Spread | None) -> Record | None:
    if spread is None:
        return None
    return fields(
        spread, f"latency_mean_s=latency_s{INTERVAL} makespan_s{INTERVAL} draws draw_seed"
    )


def timeline_record(timeline: Timeline) -> Record:
    """Return a timeline's figures; its events belong in a trace.

    ``critical_path`` is null for several requests or without a trace: the figures must not depend
    on whether a trace was requested.
    """
    single = len(timeline.latencies_s) == 1
    makespan_s = timeline.makespan_s
    return {
        "requests": len(timeline.latencies_s),
        "latency_s": timeline.latency_s,
        **{f"latency_{name}_s": at for name, at in latency_spread(timeline).items()},
        "makespan_s": makespan_s,
        "requests_per_s": len(timeline.latencies_s) / makespan_s if makespan_s > 0 else None,
        **fields(timeline, "transfers transferred_bytes transfer_s"),
        "critical_path": critical_path(timeline) if single else None,
        "energy_j": timeline.energy_j,
        "devices": {
            device: {
                "busy_s": busy_s,
                "busy_share": timeline.device_busy_share.get(device),
                "utilization": timeline.device_utilization.get(device),
                "peak_memory_bytes": timeline.peak_memory_bytes.get(device),
                "weight_bytes": timeline.weight_bytes.get(device),
            }
            for device, busy_s in timeline.device_busy_s.items()
        },
        "links": {
            link: {"busy_s": busy_s, "utilization": timeline.link_utilization.get(link)}
            for link, busy_s in timeline.link_busy_s.items()
        },
    }


def plan_record(plan: Plan) -> Record:
    """Return a plan in short; ``Plan.to_json`` has every node."""
    return {
        "strategy": plan.strategy,
        "options": dict(sorted(plan.options.items())),
        "reason": plan.reason,
        "subgraphs": len(plan.groups),
        "devices_used": list(plan.devices_used),
        **({"replicas": len(plan.sizes), "deal": list(plan.deal)} if plan.sizes else {}),
    }


def slower_record(problem: Problem, slower: Slowdown | None) -> Record | None:
    """Slowdown factors of devices; None without a slowdown."""
    if slower is None:
        return None
    return {
        "power": slower.power,
        "memory": dict(zip(problem.devices, slower.memory, strict=True)),
    }


def simulation_record(plan: Plan, timeline: Timeline, spread: Spread | None = None) -> Record:
    """Return one plan on the virtual clock, and the intervals of its times."""
    return {
        "schema": "hetsim-simulation/1",
        "problem": problem_record(plan.problem),
        "plan": plan_record(plan),
        "timeline": timeline_record(timeline),
        "sure": _spread_record(spread),
    }


def checked_record(plan: Plan, run: Run) -> Record:
    """Return the comparison of a run's outputs."""
    from hetsim.device.kernels.onnx_runtime import SESSION_OPTIONS

    return {
        "strategy": plan.strategy,
        **fields(run, f"executor bitwise_equal tolerance mismatches precision {_DEVIATIONS}"),
        "session_options": dict(SESSION_OPTIONS),
        **fields(run, f"default_session_options=plain(bitwise_equal {_DEVIATIONS} mismatches)"),
        "outputs": {name: array_record(array) for name, array in run.outputs.items()},
    }


def run_record(plan: Plan, run: Run, spread: Spread | None = None) -> Record:
    """Return one run without its wall clock, which differs in every process."""
    return {
        "schema": "hetsim-run/1",
        "problem": problem_record(plan.problem),
        "plan": plan_record(plan),
        **checked_record(plan, run),
        "timeline": timeline_record(run.timeline),
        "sure": _spread_record(spread),
    }


def array_record(value: Any) -> Record | list[Any] | None:
    """Return an output's dtype, shape, and SHA-256 of its bytes in C order.

    Strings are digested as JSON, as is a map; a sequence gives a list of records, an absent
    optional None.
    """
    if value is None:
        return None
    if isinstance(value, dict):
        content = json.dumps(list(value.items()), default=repr).encode()
        return {"keys": len(value), "sha256": hashlib.sha256(content).hexdigest()}
    if not hasattr(value, "dtype") and not isinstance(value, (list, tuple)):
        return {"value": value if isinstance(value, (int, float, str)) else repr(value)}
    if isinstance(value, (list, tuple)):
        return [array_record(item) for item in value]
    text = value.dtype.kind in "OUST"
    content = json.dumps(value.tolist(), default=repr).encode() if text else value.tobytes()
    return {
        "dtype": "string" if text else str(value.dtype),
        "shape": list(value.shape),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


@dataclass(frozen=True, slots=True)
class MethodRow:
    """Partition of one method and its cost.

    Cut tensors leave their group and count once each; `largest` is in nodes; `latency_s` is that of
    one request on the virtual clock, inf if it does not fit the devices.
    """

    partition: Partition
    cut_tensors: int
    cut_bytes: int
    largest: int
    latency_s: float
    cpu_s: float


def method_row(problem: Problem, partition: Partition, latency_s: float, cpu_s: float) -> MethodRow:
    """Return the cuts of a partition as a row. O(V + E)."""
    owner = owners(problem.n, partition.groups)
    cut = [
        value.nbytes
        for value in problem.values
        if value.producer != GRAPH_INPUT
        and any(owner[node] != owner[value.producer] for node in value.consumers)
    ]
    largest = max((len(group.nodes) for group in partition.groups), default=0)
    return MethodRow(partition, len(cut), sum(cut), largest, latency_s, cpu_s)


def methods_report(problem: Problem, rows: Sequence[MethodRow]) -> RenderableType:
    """Return one row per method, in the order given."""
    made = table_of(
        rows,
        "|method=partition.method",
        ("#groups", lambda row: str(len(row.partition.groups))),
        "#cut tensors=cut_tensors",
        "#cut bytes=cut_bytes",
        ("#largest", lambda row: count(row.largest, "node")),
        (
            "#latency",
            lambda row: "does not fit" if isinf(row.latency_s) else format_seconds(row.latency_s),
        ),
        "#CPU time=cpu_s",
        ("note", lambda row: row.partition.notes),
    )
    return stack(pairs(question(problem)), made)


def methods_record(problem: Problem, rows: Sequence[MethodRow]) -> Record:
    """Return the methods as JSON, without CPU time, which varies between processes."""
    return {
        "schema": "hetsim-methods/1",
        "problem": problem_record(problem),
        "methods": [
            {
                "method": row.partition.method,
                "groups": len(row.partition.groups),
                **fields(row, "cut_tensors cut_bytes largest_nodes=largest latency_s"),
                "notes": list(row.partition.notes),
            }
            for row in rows
        ],
    }
