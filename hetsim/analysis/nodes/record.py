"""What is told of nodes as a plain record, ``hetsim-nodes/1``, the same for the same question."""

from __future__ import annotations

from hetsim.analysis.nodes.facts import Facts, NodeFacts
from hetsim.base.text import Record
from hetsim.problem.record import problem_record

SCHEMA = "hetsim-nodes/1"


def nodes_record(facts: Facts) -> Record:
    """Return all of it: seconds and bytes; what is not known is null."""
    problem, plan = facts.problem, facts.plan
    names = problem.node_names
    return {
        "schema": SCHEMA,
        "problem": problem_record(problem),
        "strategy": None if plan is None else plan.strategy,
        "options": {} if plan is None else dict(sorted(plan.options.items())),
        "wanted": facts.wanted,
        "nodes": [_node_record(node) for node in facts.nodes],
        "file_nodes": [
            {
                "name": node.name,
                "op": node.op,
                "outputs": [name for name in node.outputs if name],
                "nodes": list(dict.fromkeys(one.name for one in facts.standing_for[node.name])),
            }
            for node in facts.file_nodes
        ],
        "groups": [
            {
                "id": index,
                "replica": group.replica,
                "device": group.device,
                "nodes": [names[node] for node in group.nodes],
                "dispatch_s": group.dispatch_s,
                "staged_s": group.staged_s,
                "seconds": group.seconds,
            }
            for index, group in enumerate(facts.groups)
        ],
        "kernels": [
            {
                "id": index,
                "group": kernel.group,
                "nodes": [names[node] for node in kernel.nodes],
                "seconds": kernel.seconds,
                "pattern": kernel.pattern or None,
            }
            for index, kernel in enumerate(facts.kernels)
        ],
        "transfers": [
            {
                "replica": moved.replica,
                "tensor": moved.tensor,
                "from": moved.source,
                "to": moved.target,
                "nbytes": moved.nbytes,
                "seconds": moved.seconds,
                "charged": [names[node] for node in moved.charged],
            }
            for moved in facts.moved
        ],
    }


def _node_record(node: NodeFacts) -> Record:
    return {
        "name": node.name,
        "op": node.op,
        "file_nodes": list(node.origins),
        "outputs": list(node.outputs),
        "replica": node.replica,
        "device": node.device,
        "group": node.group,
        "kernel": node.kernel,
        "seconds": node.seconds,
        "preferred": node.preferred,
        "preferred_s": node.preferred_s,
        "supposed": node.supposed,
        "falls_back": node.falls_back,
        "moves_s": node.moves_s,
        "moved_bytes": node.moved_bytes,
        "cost_s": node.cost_s,
        "why": node.why,
        "devices": [
            {
                "device": one.device,
                "takes": one.takes,
                "seconds": one.seconds,
                "why_not": one.reason or None,
            }
            for one in node.devices
        ],
    }
