"""Files of node facts: CSV, and node data for Model Explorer.

Source: the builder of node data in the package ai-edge-model-explorer, 0.1.34, and how its page
reads a file that is given for a graph; tried on graphs of model-explorer-onnx 0.4.2. A key is an
output tensor of a node, where the graph's adapter names tensors (LiteRT's does), or the id of a
node, which the adapter for ONNX takes from its name: both are written, so that a model is found
again whose nodes another tool has renamed, and one whose adapter names no tensors. Where a node is
called like another one's tensor, the tensor has the key.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from hetsim.analysis.nodes.facts import Facts, NodeFacts
from hetsim.core.text import Record, cell
from hetsim.errors import UsageError
from hetsim.partitioning.record import COLOURS

What = Literal["device", "seconds", "cost", "why"]
WHATS: tuple[What, ...] = get_args(What)
EXPLORER = ".model-explorer.json"
ENDINGS = (".json", ".csv", EXPLORER)


def form_of(path: str | os.PathLike[str]) -> What | Literal["json", "csv"]:
    """Return the format of a file by its name: for Model Explorer the content.

    Raises UsageError for an unknown ending.
    """
    name = Path(path).name.lower()
    if name.endswith(EXPLORER):
        asked = Path(name.removesuffix(EXPLORER)).suffix.removeprefix(".")
        return next((what for what in WHATS if what == asked), "device")
    if name.endswith(".json"):
        return "json"
    if name.endswith(".csv"):
        return "csv"
    raise UsageError(
        f"'{os.fspath(path)}' does not say what to write",
        hint=f"end it with one of: {', '.join(ENDINGS)}; {', '.join(WHATS[1:])} may stand before "
        f"the last, as in nodes.cost{EXPLORER}",
    )


OF_FILE = ("file_node", "file_op", "output")
OF_NODE: Mapping[str, Callable[[Facts, NodeFacts], str | float | None]] = {
    "node": lambda facts, one: one.name,
    "op": lambda facts, one: one.op,
    "replica": lambda facts, one: one.replica,
    "device": lambda facts, one: one.device,
    "group": lambda facts, one: one.group,
    "kernel": lambda facts, one: one.kernel,
    "kernel_seconds": lambda facts, one: (
        None if one.kernel is None else facts.kernels[one.kernel].seconds
    ),
    "node_seconds": lambda facts, one: one.seconds,
    "seconds": lambda facts, one: None if one.seconds is None else one.seconds / len(one.origins),
    "preferred": lambda facts, one: one.preferred,
    "preferred_seconds": lambda facts, one: one.preferred_s,
    "supposed": lambda facts, one: "yes" if one.supposed else "no",
    "moves_seconds": lambda facts, one: None if one.device is None else one.moves_s,
    "cost_seconds": lambda facts, one: one.cost_s,
    "why": lambda facts, one: one.why,
}
COLUMNS = (*OF_FILE, *OF_NODE)
"""Columns of every file, in order; followed by ``takes:``, ``seconds:`` and ``why_not:`` of each
device of the platform, in its order."""


def csv_text(facts: Facts) -> str:
    """Return the facts as CSV (RFC 4180): seconds, empty if unknown.

    A text that a spreadsheet would interpret as a formula is prefixed with ``'``.

    ``node_seconds`` is the canonical node's share of its kernel, ``seconds`` that divided among its
    nodes of the file: sums over kernels' or over the file's nodes are both valid.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    devices = facts.problem.devices
    said = [f"{what}:{name}" for name in devices for what in ("takes", "seconds", "why_not")]
    nothing = [""] * (len(OF_NODE) + len(said))
    writer.writerow((*COLUMNS, *said))
    for node in facts.file_nodes:
        output = next((name for name in node.outputs if name), "")
        standing = facts.standing_for[node.name]
        for cells in [_cells(facts, one) for one in standing] or [nothing]:
            writer.writerow((cell(node.name), cell(node.op), cell(output), *cells))
    return stream.getvalue()


def _cells(facts: Facts, one: NodeFacts) -> list[str]:
    said = (value for on in one.devices for value in (on.takes, on.seconds, on.reason))
    return [_cell(value) for value in (*(of(facts, one) for of in OF_NODE.values()), *said)]


def _cell(value: str | float | None) -> str:
    if isinstance(value, str):
        return cell(value)
    return "" if value is None else repr(value)


FOLDED = "constant"
_GREY = "#dddddd"
_RESERVED = "results"
"""Key that would make the page read the file as one of several graphs."""

_TITLES: dict[What, str] = {
    "device": "hetsim: device",
    "seconds": "hetsim: time, us",
    "cost": "hetsim: cost of not being on the preferred device, us",
    "why": "hetsim: why it is not on the preferred device",
}


def model_explorer_record(facts: Facts, what: What) -> Record:
    """Return node data of one graph, of the nodes of the file; see the top of this file.

    Values are texts for ``device`` (without a plan the preferred one) and ``why``, and microseconds
    for the others; nodes without a value are omitted.
    """
    values: dict[str, Record] = {}
    for node in facts.file_nodes:
        value = _value(facts, facts.standing_for[node.name], what)
        if value is not None:
            values[node.name] = value
    results: dict[str, Record] = {}
    tensors = {name for node in facts.file_nodes for name in node.outputs}
    for node in facts.file_nodes:
        if node.name not in values:
            continue
        output = next((name for name in node.outputs if name), node.name)
        for key in (output, node.name):
            if key == output or key not in tensors:
                results[key] = values[node.name]
    results.pop(_RESERVED, None)
    record: Record = {"name": _TITLES[what], "results": results}
    if what in ("seconds", "cost"):
        record["gradient"] = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#d55e00"}]
    else:
        # Devices have no minimum or maximum; the number of nodes per device is shown by group.
        record["hideInAggregatedStatsTable"] = True
        record["showExpandedSummaryOnGroupNode"] = True
        record["showLabelCountColumnsInChildrenStatsTable"] = what == "device"
    return record


def _value(facts: Facts, nodes: Sequence[NodeFacts], what: What) -> Record | None:
    """Return the value of one node of the file, which became `nodes`; None without one."""
    if what == "device":
        where = list(dict.fromkeys(one.device or one.preferred or "none" for one in nodes))
        if not where:
            return {"value": FOLDED, "bgColor": _GREY}
        known = facts.problem.devices
        colour = COLOURS[known.index(where[0]) % len(COLOURS)] if where[0] in known else _GREY
        return {"value": ", ".join(where), "bgColor": colour if len(where) == 1 else _GREY}
    if what == "why":
        reasons = list(dict.fromkeys(one.why for one in nodes if one.why))
        return {"value": "; ".join(reasons)} if reasons else None
    if what == "seconds":
        parts = [one.seconds if one.device is not None else one.preferred_s for one in nodes]
    else:
        nodes = [one for one in nodes if one.falls_back]
        parts = [one.cost_s for one in nodes]
    # Its share of a node that stands for several of the file; the mean over replicas.
    shared = [
        part / len(one.origins) for one, part in zip(nodes, parts, strict=True) if part is not None
    ]
    return {"value": 1e6 * sum(shared) / facts.replicas} if shared else None
