"""Linter: causes of lost time in a plan, each with the change that removes it, replanned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hetsim.analysis.lint.finders import (
    links,
    precision,
    refused,
    round_trips,
    split,
    tiny,
    weights,
)
from hetsim.analysis.lint.suspects import Change, LintInput, LintQuestion, Suspect, targets_of
from hetsim.core import checks
from hetsim.core.options import checked_fields
from hetsim.core.progress import part
from hetsim.core.result import Result
from hetsim.errors import Infeasible, UsageError, nearest
from hetsim.partitioning.affinity import Affinity
from hetsim.placement.constraints import NAMES, Constrained, with_affinity
from hetsim.placement.objective import Objective, check_objective, judge
from hetsim.placement.registry import option_types
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

FINDERS: tuple[Callable[[LintInput], Iterator[Suspect]], ...] = (
    refused, precision, weights, split, round_trips, tiny, links,
)  # fmt: skip
"""Finders, in the order of equal findings."""

LEAST = 0.01
"""Share of the present time that a change must save to be listed."""

_ROUNDING = 1e-6

FIRST = 0.05
"""Approximate share of the time for the present plan; plans after changes take the rest."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Cause of lost time, and the best change against it.

    - `kind`: ``refused-`` and ``op``, ``attribute``, ``opset``, ``type``, ``shape``, ``rank``,
    ``size``, ``other`` or ``all``; ``precision``, ``weights``, ``split``, ``to-and-fro``, ``tiny``
    or ``link``.
    - `device`: devices concerned: one, two, or empty.
    - `nodes`, `file_nodes`: canonical nodes, and those of the file.
    - `cost_s`: seconds that it costs in the present plan, by its own accounting, without
    replanning.
    - `change`: the change with the best plan by the strategy.
    - `before_s`: cost of the present plan; None without one.
    - `after_s`: cost of the same strategy's plan after the change; inf without one.
    """

    kind: str
    device: str
    what: str
    nodes: tuple[str, ...]
    file_nodes: tuple[str, ...]
    cost_s: float | None
    change: Change
    before_s: float | None
    after_s: float

    @property
    def gain_s(self) -> float:
        """Seconds that the change saves; negative if it costs time, inf if nothing ran before."""
        if not math.isfinite(self.after_s):
            return -math.inf
        return math.inf if self.before_s is None else self.before_s - self.after_s

    @property
    def gain(self) -> float:
        """Saving of the change as a share of the time before."""
        if self.before_s is None or not math.isfinite(self.gain_s):
            return min(self.gain_s, 1.0)
        return self.gain_s / self.before_s if self.before_s > 0 else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Lint(Result):
    """Findings in the plan of a strategy.

    Attributes
    ----------
    asked : LintQuestion
    plan : Plan or None
        Present plan; None if the strategy finds none.
    why : str
        Reason why there is none.
    before_s : float or None
        Cost of the plan.
    findings : tuple of Finding
        Findings that gain at least `least`, largest first.
    others : tuple of Finding
        Findings whose changes gain less, or nothing.
    least : float
        Minimum gain, as a share of the present time.
    """

    asked: LintQuestion = field(repr=False)
    plan: Plan | None = field(repr=False)
    why: str
    before_s: float | None
    findings: tuple[Finding, ...]
    others: tuple[Finding, ...] = field(repr=False)
    least: float

    @property
    def problem(self) -> Problem:
        """Problem of the question."""
        return self.asked.problem


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    strategy=checks.text,
    device=checks.text,
    objective=checks.text,
    least=checks.number(least=0),
    affinity=checks.instance("hetsim.partitioning.affinity:Affinity"),
    tell=checks.function,
)
def lint(
    problem: Problem,
    strategy: str = "heft",
    *,
    device: str | None = None,
    objective: Objective = "latency",
    least: float = LEAST,
    affinity: Affinity | None = None,
    tell: Callable[[str], None] | None = None,
    **options: Any,
) -> Lint:
    """Return costly findings, each with the change that removes it, replanned by `strategy`.

    Parameters
    ----------
    problem : Problem
    strategy : str
        As in ``plan``; makes the present plan, and one after every change.
    device : str, optional
        Device whose unsupported nodes, precision and weights are examined, ``gpu`` for all of
        ``gpu.0``, ``gpu.1``; absent: every device except the host.
    objective : "latency" or "throughput"
        Objective.
    least : float
        Share of the present time that a change must gain to be in ``Lint.findings``.
    affinity : Affinity, optional
        Pins and exclusions that apply before and after.
    tell : callable, optional
        Progress callback with the change being tried.
    **options
        Options of the strategy, as in ``plan``.

    Raises
    ------
    UsageError
        For an unknown strategy, option, device or objective.

    Notes
    -----
    Changes are planned individually, not on top of each other. A heuristic strategy may make a
    worse plan of a better problem; its actual gain is reported.

    Complexity: a plan per change, some dozens of them; for precisions, weights and links also a
    pricing.
    """
    check_objective(objective)
    if affinity is not None:
        options = with_affinity(options, affinity, problem)
    if options:
        known = sorted({*option_types(strategy), *NAMES})
        unknown = [key for key in options if key not in known or key == "objective"]
        if unknown:
            raise UsageError(
                f"strategy '{strategy}' has no option '{unknown[0]}'",
                hint=nearest(unknown[0], known),
            )
        options |= checked_fields(Constrained, options)
    asked = LintQuestion(problem, strategy, objective, options)
    targets = targets_of(problem, device)
    plan, why, before_s = None, "", None
    try:
        with part(0.0, FIRST):
            plan = asked.planned(problem)
        before_s = judge(plan, objective)
    except Infeasible as error:
        plan, why = None, str(error)
    seen = LintInput(asked, plan, targets)
    suspects = [suspect for finder in FINDERS for suspect in finder(seen)]
    tried: dict[Change, float] = {}
    total = len({change for suspect in suspects for change in suspect.changes})

    def after(change: Change) -> float:
        if change not in tried:
            done = len(tried)
            text = f"{done + 1} of {total}: {change.say}"
            if tell is not None:
                tell(text)
            with part(done / total, (done + 1) / total, text):
                found = asked.after(change, seen.changed.get(change))
            tried[change] = math.inf if found is None else found
        return tried[change]

    found: dict[Change, Finding] = {}
    with part(FIRST, 1.0):
        for suspect in suspects:
            if not suspect.changes:
                continue
            best = min(suspect.changes, key=after)
            # Duplicates are reported by the first finder only.
            found.setdefault(best, _finding(problem, suspect, best, before_s, tried[best]))
    ranked = sorted(found.values(), key=lambda one: -one.gain_s)
    worth = [one for one in ranked if one.gain >= max(least, _ROUNDING)]
    return Lint(
        asked, plan, why, before_s, tuple(worth),
        tuple(one for one in ranked if one not in worth), least,
    )  # fmt: skip


def _finding(
    problem: Problem, suspect: Suspect, change: Change, before_s: float | None, after_s: float
) -> Finding:
    return Finding(
        kind=suspect.kind,
        device=suspect.device,
        what=suspect.what,
        nodes=tuple(problem.node_names[node] for node in suspect.nodes),
        file_nodes=tuple(
            dict.fromkeys(name for node in suspect.nodes for name in problem.origins[node])
        ),
        cost_s=suspect.cost_s,
        change=change,
        before_s=before_s,
        after_s=after_s,
    )
