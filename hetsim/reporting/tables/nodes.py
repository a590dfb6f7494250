"""Which unit runs each node, why not another, and at what cost: as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.nodes.facts import CHOICE, Facts, NodeFacts
from hetsim.core.text import plain, tally
from hetsim.core.units import format_bytes, format_seconds
from hetsim.reporting.tables.question import question, unpriced_rows
from hetsim.reporting.words.console import Heading, pairs, stack, table
from hetsim.reporting.words.like_devices import fold_rows
from hetsim.reporting.words.text import ABSENT, count, difference_text, time_text

SHOWN = 20
"""Nodes that are listed: those that cost most, or that some device does not take."""


PAGE_NODES = 300
"""Nodes that a page lists."""


def nodes_report(facts: Facts, *, wide: bool = False, most: int = SHOWN) -> RenderableType:
    """Return a header, and the nodes that fall back, or that not every device takes.

    `wide`: every node, in the graph's order; else at most `most`.
    """
    listed = _listed(facts)
    shown = facts.nodes if wide else listed[:most]
    told: list[RenderableType] = []
    if shown:
        told.append(_of_plan(shown) if facts.plan is not None else _of_problem(facts, shown))
    left = 0 if wide else len(facts.nodes) - len(shown)
    if left:
        more = len(listed) - len(shown)
        what = "falls back" if facts.plan is not None else "is refused somewhere"
        whats = "fall back" if facts.plan is not None else "are refused somewhere"
        those = f", of which {more} {what if more == 1 else whats}" if more else ""
        told.append(Text(f"and {count(left, 'more node')}{those}: --wide lists all"))
    header = pairs(_header(facts))
    return stack(header, told) if shown else stack([header, *told])


def _header(facts: Facts) -> list[tuple[str, str]]:
    problem = facts.problem
    folded = sum(not standing for standing in facts.standing_for.values())
    rows = [
        *question(problem),
        *unpriced_rows(problem),
        (
            "nodes",
            f"{problem.n} canonical of {len(facts.file_nodes)} in the file, {folded} folded",
        ),
    ]
    if facts.wanted is not None:
        able = sum(facts.wanted in node.able for node in facts.nodes[: problem.n])
        rows.append(("wanted on", f"{plain(facts.wanted)}, which takes {able} of {problem.n}"))
    if facts.plan is None:
        able_of = fold_rows(
            [(name, sum(name in node.able for node in facts.nodes)) for name in problem.devices],
            lambda one: one[0],
            lambda one: one[1],
        )
        rows.append(("takes", ", ".join(f"{plain(name)} {able}" for name, (_, able) in able_of)))
        return rows
    replicas = f", {facts.replicas} replicas" if facts.replicas > 1 else ""
    rows.append(("plan", plain(facts.plan.strategy) + replicas))
    runs = tally(node.device for node in facts.nodes if node.device is not None)
    seconds = {
        name: sum(node.seconds or 0.0 for node in facts.nodes if node.device == name)
        for name in runs
    }
    rows.append(
        (
            "runs",
            "; ".join(
                f"{plain(name)} {count(number, 'node')}, {format_seconds(seconds[name])}"
                for name, number in runs.items()
            ),
        )
    )
    fallen = [node for node in facts.nodes if node.falls_back]
    moves_s = sum(node.moves_s for node in fallen)
    moved = sum(node.moved_bytes for node in fallen)
    lasts_s = sum((node.cost_s or 0.0) - node.moves_s for node in fallen if node.cost_s is not None)
    rows.append(
        (
            "fall back",
            f"{count(len(fallen), 'node')}: {difference_text(lasts_s)} in kernels, "
            f"{difference_text(moves_s)} in transfers ({format_bytes(round(moved))})"
            if fallen
            else "none",
        )
    )
    return rows


def _listed(facts: Facts) -> list[NodeFacts]:
    """What is worth a line: what falls back, the dearest first; or what is refused."""
    if facts.plan is not None:
        fallen = [node for node in facts.nodes if node.falls_back]
        return sorted(fallen, key=lambda node: -(node.cost_s or 0.0))
    return [
        node
        for node in facts.nodes
        if any(one.takes == "no" and facts.wanted in (None, one.device) for one in node.devices)
    ]


def _of_plan(shown: Sequence[NodeFacts]) -> Table:
    figures = "#runs on", "#wanted on", "#moves", "#cost"
    return table(
        (Heading("node", 8), Heading("op", 6), *figures, Heading("why not", 9)),
        (
            (
                node.name,
                node.op,
                _on(node.device, node.seconds),
                _on(node.preferred, node.preferred_s, supposed=node.supposed),
                format_seconds(node.moves_s) if node.falls_back else ABSENT,
                difference_text(node.cost_s) if node.falls_back else ABSENT,
                "by choice" if node.why.startswith(CHOICE) else node.why,
            )
            for node in shown
        ),
    )


def _on(device: str | None, seconds: float | None, *, supposed: bool = False) -> str:
    """Return a device and a time on it, in brackets where the device does not take the node."""
    if device is None or seconds is None:
        return device or ABSENT
    told = format_seconds(seconds)
    return f"{device} ({told})" if supposed else f"{device} {told}"


def _of_problem(facts: Facts, shown: Sequence[NodeFacts]) -> Table:
    devices = fold_rows(
        range(len(facts.problem.devices)),
        lambda p: facts.problem.devices[p],
        lambda p: tuple((one.takes, one.seconds) for one in (n.devices[p] for n in facts.nodes)),
    )
    refused = any(one.takes == "no" for node in shown for one in node.devices)
    rows = []
    for node in shown:
        said = [(name, node.devices[p]) for name, p in devices]
        reasons = [f"{name}: {one.reason}" for name, one in said if one.takes == "no"]
        times = [time_text(one.seconds) for _, one in said]
        rows.append((node.name, node.op, *times, *([reasons] if refused else [])))
    why = [Heading("why not", 12)] * refused
    return table((Heading("node", 8), Heading("op", 6), *(f"#{d}" for d, _ in devices), *why), rows)
