"""Facts of each node of a problem or plan, and their files."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hetsim.analysis.nodes.facts import (
    Facts,
    GroupFacts,
    KernelFacts,
    NodeFacts,
    OnDevice,
    TensorMove,
)
from hetsim.analysis.nodes.files import What, csv_text, form_of, model_explorer_record
from hetsim.analysis.nodes.record import nodes_record
from hetsim.analysis.what_if import supposed_seconds
from hetsim.core import checks
from hetsim.core.result import Result
from hetsim.core.text import to_json
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import Template, template_of


class Nodes(Result, Facts):
    """Facts of each node, and their files.

    The fields are those of ``hetsim.analysis.nodes.facts.Facts``.
    """

    def to_json(self) -> str:
        """Return all facts as JSON text, ``hetsim-nodes/1``; see ``record.nodes_schema``."""
        return to_json(nodes_record(self))

    def to_csv(self) -> str:
        """Return one line per node of the file and canonical node that it is part of.

        One line if there is no canonical node; replicas follow one another.
        """
        return csv_text(self)

    def to_model_explorer(self, what: What = "device") -> str:
        """Return node data for Model Explorer, keyed by output tensor and by node name.

        `what` selects the value of each file node: ``device``, ``seconds``, ``cost`` or ``why``.
        """
        return to_json(model_explorer_record(self, what))

    @checks.takes(name=checks.path)
    def to_file(self, name: str | os.PathLike[str]) -> str:
        """Return the facts in the format given by the ending of a file name.

        ``.json``, ``.csv`` or ``.model-explorer.json``, preceded by ``.seconds``, ``.cost`` or
        ``.why`` for these instead of the device. Raises UsageError for other endings.
        """
        form = form_of(name)
        if form == "json":
            return self.to_json()
        return self.to_csv() if form == "csv" else self.to_model_explorer(form)


@checks.takes(
    asked=checks.instance("hetsim.problem.problem:Problem", "hetsim.problem.plan:Plan"),
    device=checks.text,
)
def nodes(asked: Problem | Plan, *, device: str | None = None) -> Nodes:
    """Return for each node its device, devices that support it, reasons, and cost.

    Parameters
    ----------
    asked : Problem or Plan
        A problem: devices that support each node, and times. A plan: also its device, and the cost
        of not being on its preferred device.
    device : str, optional
        Device preferred for all nodes, like the accelerator of a runtime; absent: the fastest for
        each node.

    Raises
    ------
    UsageError
        If there is no such device.

    Complexity: O(n P + V + E), and the prices of the nodes that `device` does not take.
    """
    problem = asked if isinstance(asked, Problem) else asked.problem
    wanted = None if device is None else problem.device_index(device)
    rows = _rows(problem, wanted)
    device = None if wanted is None else problem.devices[wanted]
    if isinstance(asked, Problem):
        return Nodes(problem, None, device, rows)
    found: list[NodeFacts] = []
    groups: list[GroupFacts] = []
    kernels: list[KernelFacts] = []
    moved: list[TensorMove] = []
    patterns = {(one.device, one.nodes): one.pattern for one in problem.fused}
    for replica, plan in enumerate(asked.replicas):
        template = template_of(plan, problem.contention)
        placed = list(rows)
        for at, (on, group) in enumerate(zip(template.group_device, plan.groups, strict=True)):
            for members, taken_s in problem.kernels(on, group.nodes):
                parts_s = [taken_s]
                if len(members) > 1:
                    parts_s = problem.shared_seconds[list(members), on].tolist()
                for node, part_s in zip(members, parts_s, strict=True):
                    row = replace(
                        rows[node],
                        replica=replica,
                        device=group.device,
                        group=len(groups),
                        kernel=len(kernels),
                        seconds=part_s,
                    )
                    placed[node] = _preferring(row, problem, on, wanted)
                pattern = patterns.get((on, members), "") if len(members) > 1 else ""
                kernels.append(KernelFacts(len(groups), members, taken_s, pattern))
            staged_s = problem.staged_seconds(on, group.nodes)
            whole_s = float(template.duration[at])
            groups.append(
                GroupFacts(
                    replica, group.device, group.nodes, problem.dispatch_s[on], staged_s, whole_s
                )
            )
        own = moved_by(template, replica, placed)
        seconds, nbytes = charges(own, problem.n)
        found += [
            replace(row, moves_s=seconds[row.node], moved_bytes=nbytes[row.node]) for row in placed
        ]
        moved += own
    return Nodes(problem, asked, device, tuple(found), tuple(groups), tuple(kernels), tuple(moved))


def _rows(problem: Problem, wanted: int | None) -> tuple[NodeFacts, ...]:
    """Return facts of each node without a plan."""
    least = problem.shared_seconds
    best = least.argmin(axis=1).tolist() if problem.n else []
    supposed: dict[int, float] = {}
    if wanted is not None:
        refused = np.flatnonzero(~problem.runnable[:, wanted]).tolist()
        supposed = dict(zip(refused, supposed_seconds(problem, wanted, refused), strict=True))
    outputs: list[list[str]] = [[] for _ in range(problem.n)]
    if problem.model is not None:
        outputs = [list(node.writes) for node in problem.model.graph.nodes]
    else:
        for value in problem.values:
            if value.producer >= 0:
                outputs[value.producer].append(value.name)
    found: list[NodeFacts] = []
    for node in range(problem.n):
        at = best[node] if wanted is None else wanted
        own_s = float(least[node, at])
        takes = bool(np.isfinite(own_s))
        guess = supposed.get(node, np.inf)
        found.append(
            NodeFacts(
                node=node,
                name=problem.node_names[node],
                op=problem.op_types[node],
                origins=problem.origins[node],
                outputs=tuple(outputs[node]),
                devices=tuple(_on(problem, node, p) for p in range(len(problem.devices))),
                preferred=problem.devices[at] if takes or wanted is not None else None,
                preferred_s=own_s if takes else guess if np.isfinite(guess) else None,
                supposed=not takes and wanted is not None,
            )
        )
    return tuple(found)


def _preferring(row: NodeFacts, problem: Problem, device: int, wanted: int | None) -> NodeFacts:
    """Return the facts with the plan's device preferred, if no other is faster."""
    least = problem.shared_seconds[row.node]
    if wanted is None and least[device] == least.min():
        return replace(row, preferred=problem.devices[device], preferred_s=float(least[device]))
    return row


def _on(problem: Problem, node: int, device: int) -> OnDevice:
    shared = float(problem.shared_seconds[node, device])
    takes_it = bool(np.isfinite(shared))
    alone = bool(problem.supported[node, device])
    reason = "" if alone or not problem.refusals else problem.refusals[device].get(node, "")
    return OnDevice(
        problem.devices[device],
        "alone" if alone else "within" if takes_it else "no",
        shared if takes_it else None,
        reason,
    )


def moved_by(
    template: Template, replica: int, placed: Sequence[NodeFacts]
) -> tuple[TensorMove, ...]:
    """Return the transfers of one replica, in the clock's order, with the nodes charged."""
    problem, owner = template.plan.problem, template.owner
    found: list[TensorMove] = []
    for one in template.transfers:
        value = problem.values[one.value]
        ends = [] if value.producer == GRAPH_INPUT else [value.producer]
        ends += [
            node for node in value.consumers if template.group_device[owner[node]] == one.target
        ]
        found.append(
            TensorMove(
                replica,
                value.name,
                problem.devices[one.source],
                problem.devices[one.target],
                value.nbytes,
                one.seconds,
                tuple(node for node in ends if placed[node].falls_back),
            )
        )
    return tuple(found)


def charges(moved: Sequence[TensorMove], count: int) -> tuple[list[float], list[float]]:
    """Return by node the seconds and the bytes charged to it. O(transfers)."""
    seconds, nbytes = [0.0] * count, [0.0] * count
    for one in moved:
        for node in one.charged:
            seconds[node] += one.seconds / len(one.charged)
            nbytes[node] += one.nbytes / len(one.charged)
    assert all(map(math.isfinite, seconds))
    return seconds, nbytes
