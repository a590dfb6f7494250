"""One plan: its subgraphs, and what the clock says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.sureness import Spread
from hetsim.base.text import plain, tally
from hetsim.base.units import format_bytes, format_seconds
from hetsim.partitioning.borders import crossings
from hetsim.partitioning.groups import Group
from hetsim.partitioning.partition import Partition
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Timeline
from hetsim.problem.problem import Problem
from hetsim.reporting.tables.comparison import deal_text, question
from hetsim.reporting.tables.sureness import spread_rows
from hetsim.reporting.words.console import cell, new_table, pairs
from hetsim.reporting.words.plan_figures import critical_path, device_as_if, latency_spread
from hetsim.reporting.words.sustained import slower_text, sustained_rows
from hetsim.reporting.words.text import ABSENT, count, joules, listed, percent

if TYPE_CHECKING:
    from hetsim.execution.run import Run


def partition_report(partition: Partition) -> RenderableType:
    """Return the groups of a partition, under what was asked."""
    problem = partition.problem
    used = tally(group.device for group in partition.groups)
    header = [
        *question(problem),
        ("method", partition.method),
        ("groups", f"{len(partition.groups)} ({listed(used, limit=8)})"),
        *(("note", note) for note in partition.notes),
    ]
    return Stack(pairs(header), Text(""), groups_table(problem, partition.groups))


def groups_table(problem: Problem, groups: Sequence[Group]) -> Table:
    """Return one row a group, in execution order."""
    table = new_table()
    table.add_column(Text("group"), justify="right", no_wrap=True)
    table.add_column(Text("device"), overflow="fold", min_width=4)
    table.add_column(Text("nodes"), justify="right", no_wrap=True)
    table.add_column(Text("time"), justify="right", no_wrap=True)
    table.add_column(Text("receives"), justify="right", no_wrap=True)
    table.add_column(Text("sends"), justify="right", no_wrap=True)
    table.add_column(Text("ops"), overflow="fold", ratio=2)
    table.add_column(Text("first node"), overflow="ellipsis", no_wrap=True, ratio=1)
    for index, (group, crossing) in enumerate(zip(groups, crossings(problem, groups), strict=True)):
        seconds = problem.group_seconds(problem.devices.index(group.device), group.nodes)
        table.add_row(
            cell(f"g{index}"),
            cell(group.device),
            cell(str(len(group.nodes))),
            cell(format_seconds(seconds)),
            cell(format_bytes(crossing.receives_bytes)),
            cell(format_bytes(crossing.sends_bytes)),
            cell(listed(tally(problem.op_types[node] for node in group.nodes), limit=3)),
            cell(problem.node_names[group.nodes[0]]),
        )
    return table


def simulation_report(
    plan: Plan, timeline: Timeline, sure: Spread | None = None, *, sustained: bool = False
) -> RenderableType:
    """Return one plan on the virtual clock: latency and its interval, devices, links.

    `sustained`: `plan` is as slow as its devices make each other.
    """
    problem = plan.problem
    rows = question(problem)
    if sustained:
        rows += sustained_rows(problem)
    if problem.slower is not None:
        rows.append(("slower", slower_text(problem, problem.slower)))
    rows += [*plan_rows(plan), *latency_rows(timeline, sure)]
    if any(watts > 0 for watts in (*problem.idle_w, *problem.busy_w)):
        rows.append(("energy", joules(timeline.energy_j)))
    parts: list[RenderableType] = [pairs(rows), Text(""), devices_table(plan, timeline)]
    if any(busy_s > 0 for busy_s in timeline.link_busy_s.values()):
        parts += [Text(""), links_table(timeline)]
    return Stack(*parts)


def run_report(plan: Plan, run: Run, sure: Spread | None = None) -> RenderableType:
    """Return one run: virtual latency, wall clock, and whether the outputs are right."""
    rows = [*question(plan.problem), *plan_rows(plan), *latency_rows(run.timeline, sure)]
    rows.append(
        (
            "wall clock",
            f"{format_seconds(run.wall_s)} on {run.executor} in {count(run.steps, 'step')}, after "
            f"{format_seconds(run.compile_s)} to make the devices ready",
        )
    )
    return Stack(
        pairs(rows),
        Text(""),
        devices_table(plan, run.timeline),
        Text(""),
        *(Text(plain(line)) for line in precision_lines(plan, run)),
        *(Text(plain(line)) for line in session_lines(run)),
        Text(
            plain(outputs_line(run.bitwise_equal, run.mismatches, run.tolerance, run.precision)),
            style="bold",
        ),
    )


def precision_lines(plan: Plan, run: Run) -> list[str]:
    """Return what the devices' own arithmetic does to the outputs, or how to see it."""
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
            lines = [f"in the graph's own types; --precision device rounds: {told}"]
        executed = {d: p for d, p in plan.problem.executed.items() if d in plan.devices_used}
        if executed:
            told = ", ".join(f"{name} as if in {kind}" for name, kind in executed.items())
            lines.append(f"{told}: the times alone; the outputs are those of the model as it is")
        return lines
    if not computed:
        return []
    lines = [f"rounded as devices compute: {', '.join(computed)}"]
    for found in run.deviations:
        lost = f", {count(found.lost, 'element')} out of range" if found.lost else ""
        lines.append(
            f"'{found.output}' is off what the graph's own types give by at most "
            f"{found.max_abs:.3g}, {percent(found.max_rel)} of its largest value{lost}"
        )
    return lines


def session_lines(run: Run) -> list[str]:
    """Return what the whole model's session is, and how far its default options are from it."""
    lines = []
    if run.reference is not None:
        lines.append(
            "the whole model: one session of ONNX Runtime, without graph optimisation and "
            "prepacking, on one thread"
        )
    if run.plain is not None:
        if run.plain.bitwise_equal:
            lines.append("its default options give the same bits")
        for found in () if run.plain.bitwise_equal else run.plain.deviations:
            lost = f", {count(found.lost, 'element')} out of range" if found.lost else ""
            lines.append(
                f"from its default options '{found.output}' deviates by at most "
                f"{found.max_abs:.3g}, {found.max_rel:.3g} of its largest value{lost}"
            )
        lines += [f"from its default options differs {told}" for told in run.plain.mismatches]
    return lines


def plan_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return the lines that say which plan it is."""
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
    """Return the lines that say how long it takes, in virtual time, and between what."""
    requests = len(timeline.latencies_s)
    rows = [("latency", f"{format_seconds(timeline.latency_s)} (virtual)")]
    if requests > 1:
        spread = latency_spread(timeline)
        rate = requests / timeline.makespan_s if timeline.makespan_s > 0 else float("inf")
        rows = [
            (
                "requests",
                f"{requests} in {format_seconds(timeline.makespan_s)}, {rate:.4g} a second",
            ),
            (
                "latency",
                f"mean {format_seconds(spread.mean_s)}, median {format_seconds(spread.p50_s)}, "
                f"90 % within {format_seconds(spread.p90_s)}, 99 % within "
                f"{format_seconds(spread.p99_s)}, longest {format_seconds(spread.max_s)} (virtual)",
            ),
        ]
    rows += spread_rows(sure, requests)
    path = critical_path(timeline) if requests == 1 else None
    if path is not None:
        rows.append(
            (
                "made of",
                f"{format_seconds(path.compute_s)} computing, {format_seconds(path.transfer_s)} "
                f"in transfers ({percent(path.transfer_share)})",
            )
        )
    rows.append(
        (
            "transfers",
            f"{timeline.transfers}, {format_bytes(timeline.transferred_bytes)}, "
            f"{format_seconds(timeline.transfer_s)} in all",
        )
    )
    return rows


def devices_table(plan: Plan, timeline: Timeline) -> Table:
    """Return one row a device: load, utilization, memory."""
    problem = plan.problem
    table = new_table()
    table.add_column(Text("device"), overflow="fold", min_width=4)
    for name in ("subgraphs", "nodes", "busy", "utilization", "peak memory", "weights", "capacity"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for index, device in enumerate(problem.devices):
        groups = [group for group in plan.groups if group.device == device]
        capacity = None
        if problem.capacity_bytes is not None:
            capacity = problem.held_bytes(index, problem.capacity_bytes[index])
        table.add_row(
            cell(device_as_if(problem, device)),
            cell(str(len(groups))),
            cell(str(sum(len(group.nodes) for group in groups))),
            cell(format_seconds(timeline.device_busy_s.get(device, 0.0))),
            cell(percent(timeline.device_utilization.get(device))),
            cell(_size(timeline.peak_memory_bytes.get(device))),
            cell(_size(timeline.weight_bytes.get(device))),
            cell(_size(capacity)),
        )
    return table


def links_table(timeline: Timeline) -> Table:
    """Return one row a link direction or bus that carried something."""
    table = new_table()
    table.add_column(Text("link"), overflow="fold", min_width=8)
    table.add_column(Text("busy"), justify="right", no_wrap=True)
    table.add_column(Text("utilization"), justify="right", no_wrap=True)
    for link, busy_s in timeline.link_busy_s.items():
        if busy_s > 0:
            table.add_row(
                cell(link),
                cell(format_seconds(busy_s)),
                cell(percent(timeline.link_utilization.get(link))),
            )
    return table


def outputs_line(
    equal: bool | None,
    mismatches: Sequence[str],
    tolerance: float = 0.0,
    precision: str = "graph",
) -> str:
    """Return whether the split model gave the bits of the whole one, in one line.

    `tolerance` is what a run allows, relative to the largest magnitude of an output. Where
    devices compute in their own `precision`, the whole model is rounded as they round.
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


def _size(nbytes: int | None) -> str:
    return ABSENT if nbytes is None else format_bytes(nbytes)
