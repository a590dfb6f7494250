"""A finding planned anew with what every user has: ``what_if``, ``plan``, ``simulate``."""

from __future__ import annotations

import math
from typing import Any

import hetsim
from hetsim.analysis.lint.lint import Lint
from hetsim.analysis.lint.suspects import Change
from hetsim.analysis.what_if import wider_link, with_nodes_on
from hetsim.errors import HetsimError
from hetsim.placement.objective import kept_s
from hetsim.problem.problem import Problem


def problem_after(problem: Problem, change: Change, **asked: Any) -> Problem:
    """What the change makes of the problem; `asked` are the arguments it was made by."""
    if change.what_if or change.execute:
        assert problem.model is not None
        assert problem.platform is not None
        platform = hetsim.what_if(problem.platform, *change.what_if)
        execute = {**asked.pop("execute", {}), **dict(change.execute)}
        problem = Problem.of(problem.model, platform, execute=execute, **asked)
    for name in change.wider:
        problem = wider_link(problem, name)
    for device, nodes in change.takes:
        p = problem.device_index(device)
        problem = with_nodes_on(problem, p, [v for v in nodes if not problem.runnable[v, p]])
    return problem


def check_proved(lint: Lint, **asked: Any) -> None:
    """Every figure of a lint is what the strategy's plan costs, before and after."""
    strategy, objective = lint.asked.strategy, lint.asked.objective
    options = dict(lint.asked.options)
    if objective == "throughput":
        options["objective"] = objective

    def cost(problem: Problem, pins: dict[str, str]) -> float:
        # What the caller pins stays where it is.
        own = {**options, "pins": {**pins, **options.get("pins", {})}} if pins else options
        made = hetsim.plan(problem, strategy, **own)
        made.validate()
        if objective == "throughput":
            return kept_s(made)
        return hetsim.simulate(made, trace=False).latency_s

    try:
        before_s: float | None = cost(lint.problem, {})
    except hetsim.Infeasible:
        before_s = None
    assert lint.before_s == before_s
    assert (lint.plan is None) == (before_s is None) == bool(lint.why)
    for one in (*lint.findings, *lint.others):
        assert one.before_s == before_s
        try:
            after_s = cost(problem_after(lint.problem, one.change, **asked), dict(one.change.pins))
        except HetsimError:
            after_s = math.inf
        assert one.after_s == after_s, one.what
    gains = [one.gain_s for one in lint.findings]
    assert gains == sorted(gains, reverse=True)
    assert all(one.gain >= lint.least for one in lint.findings)
    assert all(one.gain < max(lint.least, 1e-6) for one in lint.others)
    changes = [one.change for one in (*lint.findings, *lint.others)]
    assert len(set(changes)) == len(changes)
