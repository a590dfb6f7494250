"""What costs time, and what takes it away, as a record: ``hetsim-lint/1``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hetsim.analysis.linting.change import Change
from hetsim.analysis.linting.lint import Finding, Lint
from hetsim.base.text import Record
from hetsim.problem.problem import Problem
from hetsim.problem.record import problem_record

SCHEMA = "hetsim-lint/1"


def lint_record(lint: Lint) -> Record:
    """Return what was found, in seconds; ``findings`` gain at least ``least``, most first."""
    asked = lint.asked
    return {
        "schema": SCHEMA,
        "problem": problem_record(lint.problem),
        "strategy": asked.strategy,
        "options": {} if lint.plan is None else dict(sorted(lint.plan.options.items())),
        "objective": asked.objective,
        "before_s": lint.before_s,
        "infeasible": lint.why or None,
        "least": lint.least,
        "findings": [_finding(lint.problem, one) for one in lint.findings],
        "others": [_finding(lint.problem, one) for one in lint.others],
    }


def _finding(problem: Problem, one: Finding) -> Record:
    gains = one.before_s is not None and math.isfinite(one.after_s)
    return {
        "kind": one.kind,
        "device": one.device or None,
        "what": one.what,
        "nodes": list(one.nodes),
        "file_nodes": list(one.file_nodes),
        "cost_s": one.cost_s,
        "change": {
            "what": one.change.say,
            "options": options_of(one.change),
            "pins": dict(one.change.pins),
            "takes": {
                device: [problem.node_names[node] for node in nodes]
                for device, nodes in one.change.takes
            },
        },
        "after_s": one.after_s if math.isfinite(one.after_s) else None,
        "gain_s": one.gain_s if gains else None,
        "gain": one.gain if gains else None,
    }


def options_of(change: Change) -> Sequence[str]:
    """Return the words that ask for the change on the command line; pins are for a file."""
    words = [word for text in change.what_if for word in ("--what-if", text)]
    if change.execute:
        words += ["--execute", ",".join(f"{name}={how}" for name, how in change.execute)]
    return words
