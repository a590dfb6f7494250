"""Record of nodes, ``hetsim-nodes/1``, and its JSON Schema."""

from __future__ import annotations

from typing import Any

from hetsim.analysis.nodes.facts import Facts
from hetsim.core.text import Record, fields, records
from hetsim.problem.record import problem_record

SCHEMA = "hetsim-nodes/1"


def nodes_record(facts: Facts) -> Record:
    """Return all facts: seconds and bytes; unknown figures are null."""
    problem, plan = facts.problem, facts.plan
    names = problem.node_names
    return {
        "schema": SCHEMA,
        "problem": problem_record(problem),
        "strategy": None if plan is None else plan.strategy,
        "options": {} if plan is None else dict(sorted(plan.options.items())),
        "wanted": facts.wanted,
        "nodes": records(facts.nodes, _NODE),
        "file_nodes": [
            {
                **fields(node, "name op"),
                "outputs": [name for name in node.outputs if name],
                "nodes": list(dict.fromkeys(one.name for one in facts.standing_for[node.name])),
            }
            for node in facts.file_nodes
        ],
        "groups": [
            {
                "id": index,
                **fields(group, "replica device"),
                "nodes": [names[node] for node in group.nodes],
                **fields(group, "dispatch_s staged_s seconds"),
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
                **fields(moved, "replica tensor from=source to=target nbytes seconds"),
                "charged": [names[node] for node in moved.charged],
            }
            for moved in facts.moved
        ],
    }


_NODE = (
    "name op file_nodes=origins outputs replica device group kernel seconds preferred preferred_s "
    "supposed falls_back moves_s moved_bytes cost_s why devices(device takes seconds "
    "why_not=reason?)"
)

_TEXT: Record = {"type": "string"}
_TEXTS: Record = {"type": "array", "items": _TEXT}
_WHOLE: Record = {"type": "integer", "minimum": 0}
_YES_OR_NO: Record = {"type": "boolean"}
_SECONDS: Record = {"type": "number", "minimum": 0}


def nodes_schema() -> Record:
    """Return the JSON Schema (draft 2020-12) of the result of ``Nodes.to_json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What hetsim tells of each node of a model on a platform",
        **_object(
            schema={"const": SCHEMA},
            problem={"type": "object", "description": "What was asked, as in other records."},
            strategy=_said(_or_null(_TEXT), "Of the plan; null without one."),
            options={"type": "object", "additionalProperties": _TEXT},
            wanted=_said(_or_null(_TEXT), "The device that all nodes are wanted on."),
            nodes=_list(_node(), "Nodes of the canonical model, replica after replica."),
            file_nodes=_list(
                _object(
                    name=_TEXT,
                    op=_TEXT,
                    outputs=_TEXTS,
                    nodes=_said(_TEXTS, "The canonical ones that stand for it; none: folded."),
                ),
                "Nodes of the user's file.",
            ),
            groups=_list(
                _object(
                    id=_WHOLE,
                    replica=_WHOLE,
                    device=_TEXT,
                    nodes=_TEXTS,
                    dispatch_s=_SECONDS,
                    staged_s=_SECONDS,
                    seconds=_said(_SECONDS, "Dispatch, staging, and all kernels."),
                ),
                "Subgraphs of the plan.",
            ),
            kernels=_list(
                _object(
                    id=_WHOLE,
                    group=_WHOLE,
                    nodes=_TEXTS,
                    seconds=_SECONDS,
                    pattern=_said(_or_null(_TEXT), "That its nodes match; null: a fusion, or one."),
                ),
                "What devices launch at a time: several nodes of one kernel have one time.",
            ),
            transfers=_list(
                _object(
                    **{"from": _TEXT},
                    replica=_WHOLE,
                    tensor=_TEXT,
                    to=_TEXT,
                    nbytes=_WHOLE,
                    seconds=_said(_SECONDS, "As if nothing else were on its links."),
                    charged=_said(_TEXTS, "Nodes off their preferred device at either end."),
                ),
                "Tensors that move in the plan.",
            ),
        ),
    }


def _node() -> Record:
    return _object(
        name=_TEXT,
        op=_TEXT,
        file_nodes=_said({**_TEXTS, "minItems": 1}, "Nodes of the file that it stands for."),
        outputs=_TEXTS,
        replica=_WHOLE,
        device=_said(_or_null(_TEXT), "Where the plan runs it; null without a plan."),
        group=_or_null(_WHOLE),
        kernel=_or_null(_WHOLE),
        seconds=_said(_or_null(_SECONDS), "Its share of the kernel; shares add up to it."),
        preferred=_or_null(_TEXT),
        preferred_s=_or_null(_SECONDS),
        supposed=_said(_YES_OR_NO, "Whether the preferred device does not take it."),
        falls_back=_YES_OR_NO,
        moves_s=_said(_SECONDS, "Its part of the transfers that are charged to it."),
        moved_bytes={"type": "number", "minimum": 0},
        cost_s=_said(
            _or_null({"type": "number"}),
            "Seconds over those on the preferred device, and moves; below 0 where that is slower.",
        ),
        why=_said(_TEXT, "Why it is not on its preferred device; empty where it is."),
        devices={
            "type": "array",
            "items": _object(
                device=_TEXT,
                takes={"enum": ["alone", "within", "no"]},
                seconds=_or_null(_SECONDS),
                why_not=_or_null(_TEXT),
            ),
        },
    )


def _object(**fields: Record) -> Record:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _list(items: Record, meaning: str) -> Record:
    return {"type": "array", "items": items, "description": meaning}


def _said(kind: Record, meaning: str) -> Record:
    return {**kind, "description": meaning}


def _or_null(kind: Record) -> dict[str, Any]:
    return {"anyOf": [kind, {"type": "null"}]}
