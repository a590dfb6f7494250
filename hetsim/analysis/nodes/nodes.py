"""The verb ``nodes``: which unit runs each node, which others could, why not, what it costs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from hetsim.analysis.nodes.comma_separated import csv_text
from hetsim.analysis.nodes.facts import Facts, GroupFacts, KernelFacts, Moved, NodeFacts, OnDevice
from hetsim.analysis.nodes.forms import What, form_of
from hetsim.analysis.nodes.model_explorer import model_explorer_record
from hetsim.analysis.nodes.of_plan import charges, made_of, moved_by
from hetsim.analysis.nodes.record import nodes_record
from hetsim.analysis.what_if import supposed_seconds
from hetsim.base import checks
from hetsim.base.text import to_json
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem


class Nodes(Facts):
    """Per node: which unit, which others could, why not, what it costs; and as files.

    Its fields are those of ``hetsim.analysis.nodes.facts.Facts``, where each is described.
    """

    def to_json(self) -> str:
        """Return all of it as JSON text, ``hetsim-nodes/1``; see ``schema.nodes_schema``."""
        return to_json(nodes_record(self))

    def to_csv(self) -> str:
        """Return a line for each node of the file and each canonical node that it is part of.

        Without any canonical node, one line; replicas one after another.
        """
        return csv_text(self)

    def to_model_explorer(self, what: What = "device") -> str:
        """Return node data for Model Explorer, keyed by output tensor and by node name.

        `what` is told of each node of the file: ``device``, ``seconds``, ``cost`` or ``why``.
        """
        return to_json(model_explorer_record(self, what))

    @checks.takes(name=checks.path)
    def to_file(self, name: str | os.PathLike[str]) -> str:
        """Return the one of these that the name of a file asks for by its end.

        ``.json``, ``.csv`` or ``.model-explorer.json``, before which ``.seconds``, ``.cost`` or
        ``.why`` tells that instead of the device. Raises UsageError for other ends.
        """
        form = form_of(name)
        if form.what is not None:
            return self.to_model_explorer(form.what)
        return self.to_csv() if form.kind == "csv" else self.to_json()


@checks.takes(
    asked=checks.either(
        checks.instance("hetsim.problem.problem:Problem"),
        checks.instance("hetsim.plans.plan:Plan"),
    ),
    device=checks.text,
)
def nodes(asked: Problem | Plan, *, device: str | None = None) -> Nodes:
    """Say of each node which unit runs it, which others could, why not, and what it costs.

    Parameters
    ----------
    asked : Problem or Plan
        A problem: who could run what, and in how long. A plan: also where it runs, and what it
        costs that it is not on its preferred device.
    device : str, optional
        The device that all nodes are wanted on, as where a runtime is asked for an accelerator;
        absent: for each the one that takes it in the least time.

    Raises
    ------
    UsageError
        Where there is no such device.

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
    moved: list[Moved] = []
    for replica, plan in enumerate(asked.replicas):
        made = made_of(plan, replica, len(groups), len(kernels))
        shares = made.shares
        placed = [
            _preferring(
                replace(
                    row,
                    replica=replica,
                    device=problem.devices[shares.device[row.node]],
                    group=shares.group[row.node],
                    kernel=shares.kernel[row.node],
                    seconds=shares.seconds[row.node],
                ),
                problem,
                shares.device[row.node],
                wanted,
            )
            for row in rows
        ]
        own = moved_by(made.template, replica, partial(_falls_back, placed))
        seconds, nbytes = charges(own, problem.n)
        found += [
            replace(row, moves_s=seconds[row.node], moved_bytes=nbytes[row.node]) for row in placed
        ]
        groups += made.groups
        kernels += made.kernels
        moved += own
    return Nodes(problem, asked, device, tuple(found), tuple(groups), tuple(kernels), tuple(moved))


def _falls_back(rows: Sequence[NodeFacts], node: int) -> bool:
    return rows[node].falls_back


def _rows(problem: Problem, wanted: int | None) -> tuple[NodeFacts, ...]:
    """What is to be said of each node without a plan."""
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
    """Prefer the plan's device where no other is faster."""
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
