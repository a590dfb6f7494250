"""``--what-if`` and ``--without``: the answer as it is beside it; ``--sensitivities``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current
from hetsim.cli.question import (
    DEFAULT_STRATEGY,
    read_platform,
    read_strategy_options,
    supposed,
    with_affinity,
)
from hetsim.errors import Infeasible

if TYPE_CHECKING:
    from hetsim.analysis.beside import Beside, Side
    from hetsim.analysis.comparison import Comparison
    from hetsim.placement.objective import Objective
    from hetsim.problem.plan import Plan


def plan_beside(plan: Plan, kept: Plan | None = None) -> Beside | None:
    """Plan as it is what `plan` is for as supposed; None where nothing is supposed.

    `kept`: the same plan as it is, of one that was saved; nothing is planned then.
    """
    if not supposed():
        return None
    from hetsim.analysis.beside import Side, beside, idle_suppositions, side_of
    from hetsim.placement.planning import plan as planned
    from hetsim.problem.repriced import repriced

    objective = current().objective
    weighed = objective or "latency"
    if kept is not None:
        assert kept.problem.platform is not None
        idle = idle_suppositions(plan.problem, kept.problem.platform)
        return beside(side_of(kept, weighed), side_of(plan, weighed), weighed, idle)
    read = read_platform(as_it_is=True)
    name = current().strategy or DEFAULT_STRATEGY
    with current().progress("planning for the platform as it is"):
        problem = repriced(plan.problem, read)
        options = with_affinity(read_strategy_options((name,)), problem)
        try:
            was = side_of(planned(problem, name, objective=objective, **options), weighed)
        except Infeasible as error:
            was = Side(None, reason=error.what)
        idle = idle_suppositions(plan.problem, read)
    return beside(was, side_of(plan, weighed), weighed, idle)


def comparison_beside(
    comparison: Comparison, names: Sequence[str], options: dict[str, Any]
) -> Beside | None:
    """Compare as it is what `comparison` is of as supposed; None where nothing is supposed."""
    if not supposed():
        return None
    from hetsim.analysis.beside import beside, idle_suppositions
    from hetsim.analysis.comparison import compare
    from hetsim.problem.repriced import repriced

    read = read_platform(as_it_is=True)
    sustained = comparison.sustained
    with current().progress("comparing for the platform as it is"):
        problem = repriced(comparison.problem, read)
        known = compare(
            problem,
            names,
            objective=comparison.objective,
            draws=0,
            sustained=sustained,
            **with_affinity(options, problem),
        )
        idle = idle_suppositions(comparison.problem, read, sustained=sustained)
    return beside(_best(known), _best(comparison), comparison.objective, idle)


def _best(comparison: Comparison) -> Side:
    """The best row of a comparison, with the bound and the best device alone."""
    from dataclasses import replace

    from hetsim.analysis.beside import Side, side_of

    row = comparison.rows[0]
    single = comparison.best_single
    about: dict[str, Any] = {
        "bound_s": comparison.bound_s,
        "single": single or "",
        "single_s": None if single is None else comparison.single_s[single],
    }
    if row.plan is None or row.cost_s is None:
        return Side(None, reason=row.reason or "", **about)
    found = side_of(row.plan, comparison.objective, row.strategy)
    return replace(found, cost_s=row.cost_s, **about)


def show_beside(found: Beside | None, record: dict[str, Any]) -> None:
    """Print both answers, or put them into the record."""
    if found is None:
        return
    from hetsim.reporting.tables.beside import beside_record, beside_report

    record["what_if"] = beside_record(found)
    if not current().as_json:
        current().say("")
        current().show(beside_report(found))


def show_sensitivities(plan: Plan, objective: Objective, record: dict[str, Any]) -> None:
    """Print what would move a plan's figure, or put it into the record."""
    from hetsim.analysis.sensitivity import sensitivities
    from hetsim.reporting.tables.beside import sensitivities_record, sensitivities_report

    with current().progress("changing"):
        found = sensitivities(plan, objective=objective)
    record["sensitivities"] = [sensitivities_record(found)]
    if not current().as_json:
        current().say("")
        current().show(sensitivities_report(found))
