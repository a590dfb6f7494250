"""What is told of nodes as CSV: a line for each node of the file and what it is part of."""

from __future__ import annotations

import csv
import io

from hetsim.analysis.nodes.facts import Facts, NodeFacts
from hetsim.base.text import cell

OF_FILE = ("file_node", "file_op", "output")
COLUMNS = (
    *OF_FILE,
    "node",
    "op",
    "replica",
    "device",
    "group",
    "kernel",
    "kernel_seconds",
    "node_seconds",
    "seconds",
    "preferred",
    "preferred_seconds",
    "supposed",
    "moves_seconds",
    "cost_seconds",
    "why",
)
"""Those that every file has, in this order; then ``takes:``, ``seconds:`` and ``why_not:`` of each
device of the platform, in its order."""


def csv_text(facts: Facts) -> str:
    """Return it as CSV (RFC 4180): seconds, empty where nothing is known.

    A text that a spreadsheet would take for a formula has a ``'`` before it.

    ``node_seconds`` is the canonical node's share of its kernel, ``seconds`` that over the nodes of
    the file which it stands for: either the kernels' or the file's nodes can be summed up.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    devices = facts.problem.devices
    said = [f"{what}:{name}" for name in devices for what in ("takes", "seconds", "why_not")]
    nothing = [""] * (len(COLUMNS) - len(OF_FILE) + len(said))
    writer.writerow((*COLUMNS, *said))
    for node in facts.file_nodes:
        output = next((name for name in node.outputs if name), "")
        standing = facts.standing_for[node.name]
        for cells in [_cells(facts, one) for one in standing] or [nothing]:
            writer.writerow((cell(node.name), cell(node.op), cell(output), *cells))
    return stream.getvalue()


def _cells(facts: Facts, one: NodeFacts) -> list[str]:
    kernel = None if one.kernel is None else facts.kernels[one.kernel].seconds
    part = None if one.seconds is None else one.seconds / len(one.origins)
    cells = [
        cell(one.name),
        cell(one.op),
        str(one.replica),
        cell(one.device or ""),
        _whole(one.group),
        _whole(one.kernel),
        _number(kernel),
        _number(one.seconds),
        _number(part),
        cell(one.preferred or ""),
        _number(one.preferred_s),
        "yes" if one.supposed else "no",
        _number(one.moves_s if one.device is not None else None),
        _number(one.cost_s),
        cell(one.why),
    ]
    for said in one.devices:
        cells += [said.takes, _number(said.seconds), cell(said.reason)]
    return cells


def _whole(value: int | None) -> str:
    return "" if value is None else str(value)


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)
