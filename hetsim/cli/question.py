"""Problem and plan by the options, and answers with and without --what-if and --without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current, given
from hetsim.cli.options.question import FROM_MODEL
from hetsim.errors import Infeasible, UsageError

if TYPE_CHECKING:
    from hetsim.analysis.comparison import Comparison
    from hetsim.analysis.what_if_comparison import WhatIfComparison, WhatIfSide
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import Platform
    from hetsim.placement.objective import Objective
    from hetsim.problem.plan import Plan
    from hetsim.problem.problem import Problem


DEFAULT_STRATEGY = "heft"

OF_PLAN = (
    "platform", "execute", "runtime", "changes", "without", "strategy", "strategies", "objective",
    "contention", "dims", "shapes", "frozen", "inputs", "canonical", "settings", "affinity",
    "profiles", "measured", "cost",
)  # fmt: skip
"""Options that a saved plan sets, by their parameters."""


def read_model(source: str) -> Model:
    """Return the model of the command line, with its dimensions bound."""
    from hetsim.graph.loading import load_model

    invocation = current()
    with invocation.progress(f"reading {source}"):
        return load_model(
            source,
            dims=invocation.dims,
            shapes=invocation.shapes,
            inputs=invocation.inputs,
            freeze=invocation.frozen,
            canonical=invocation.canonical,
            extensions=invocation.extensions,
        )


def read_platform(*, as_it_is: bool = False) -> Platform:
    """Return the platform of the command line; --what-if and --without apply unless `as_it_is`."""
    from hetsim.hardware.catalog import load_platform

    platform = current().platform
    if platform is None:
        raise UsageError(
            "no platform is given",
            hint="give --platform with a YAML file or a name that 'hetsim devices list' shows",
        )
    read = load_platform(platform, current().runtime or None)
    if as_it_is or not supposed():
        return read
    return _as_supposed(read)


def _as_supposed(platform: Platform) -> Platform:
    from hetsim.hardware.what_if import idle_changes, what_if

    invocation = current()
    for text in idle_changes(platform, invocation.changes):
        invocation.note(f"--what-if '{text}' changes nothing: the platform has this value already")
    return what_if(platform, *invocation.changes, without=invocation.without)


def supposed() -> bool:
    """Return whether --what-if or --without changes the platform."""
    return bool(current().changes or current().without)


def read_problem(source: str) -> Problem:
    """Return the problem of MODEL on --platform."""
    from hetsim.cost import DEFAULT_COST
    from hetsim.cost.registry import cost_model
    from hetsim.hardware.variants import platform_executing
    from hetsim.problem.measured import doubts
    from hetsim.problem.problem import Problem

    invocation = current()
    if invocation.platform is None and not Path(source).is_file():
        read_model(source)  # Its error reports what is wrong with it.
    # The platform is quick to read, so its errors come before the model is loaded.
    hardware = read_platform()
    platform_executing(hardware, invocation.execute)
    cost = invocation.cost or DEFAULT_COST
    cost_model(cost)
    model = read_model(source)
    with invocation.progress(f"pricing {model.name} on {hardware.name}"):
        problem = Problem.of(
            model,
            hardware,
            contention=invocation.contention or "fifo",
            profiles=invocation.profiles,
            execute=invocation.execute,
            cost=cost,
            pessimistic=invocation.pessimistic,
            measured=invocation.measured,
        )
    for text in doubts(problem.measured):
        invocation.note(text)
    return problem


def read_plan(
    source: str,
    strategy: str | None = None,
    *,
    runs: bool = False,
    plays: bool = False,
    supposes: bool = False,
) -> Plan:
    """Return a saved plan, or a new plan for a model, by the argument of the command line.

    `runs`: the plan will run on the inputs of ``--input``. `plays`: it will be simulated with the
    contention of the command line. `supposes`: --what-if may change its platform, see
    ``kept_as_supposed``.
    """
    from hetsim.placement.planning import plan
    from hetsim.placement.registry import option_types

    invocation = current()
    strategy = strategy or invocation.strategy
    if source.endswith(".json"):
        own = {"inputs": runs, "contention": plays, "changes": supposes}
        for option in given(*(name for name in OF_PLAN if not own.get(name))):
            raise UsageError(
                f"{option} cannot go with a saved plan, which sets it",
                hint=f"leave {option} out, or give the model in place of the plan",
            )
        from hetsim.problem.saved import load_plan

        with invocation.progress(f"reading {source}"):
            saved = load_plan(source, extensions=invocation.extensions)
        return saved.at_bad_end() if invocation.pessimistic else saved
    name = strategy or DEFAULT_STRATEGY
    options = read_strategy_options((name,))
    problem = read_problem(source)
    options = with_affinity(options, problem)
    if not options.keys() <= option_types(name.partition(":")[0]).keys():
        raise UsageError(
            f"--affinity cannot go with --strategy {name}", hint="use another strategy, e.g. heft"
        )
    with invocation.progress(f"planning with {name}"):
        return plan(problem, name, objective=invocation.objective, **options)


def kept_as_supposed(plan: Plan) -> Plan:
    """Return a saved plan with the times of its platform as changed by --what-if."""
    from dataclasses import replace

    from hetsim.problem.repriced import repriced

    platform = plan.problem.platform
    if platform is None or plan.sizes:
        raise UsageError(
            "--what-if cannot go with this saved plan: it has several replicas or no platform",
            hint="give the model in place of the plan",
        )
    return replace(plan, problem=repriced(plan.problem, _as_supposed(platform)))


def read_strategy_options(strategies: Sequence[str]) -> dict[str, Any]:
    """Return options of `strategies` by ``--set``; raises UsageError for an unknown strategy."""
    from hetsim.placement.registry import read_settings, resolve

    for name in strategies:
        resolve(name)
    options = read_settings(strategies, current().settings, "--set")
    if "objective" in options:
        raise UsageError("--set objective=... has no effect", hint="use --objective")
    return options


def with_affinity(options: Mapping[str, Any], problem: Problem) -> dict[str, Any]:
    """Return `options` with the pins and exclusions of ``--affinity``.

    Strategies choose their own device order: a note reports one in the file.
    """
    from hetsim.partitioning.affinity import affinity_of_model

    invocation = current()
    wished = invocation.affinity
    if wished is None:
        return dict(options)
    if wished == FROM_MODEL:
        wished = affinity_of_model(problem)
    # Unknown names raise an error with the line of the file.
    asked = wished.on(problem)
    for text in asked.notes:
        invocation.note(f"--affinity: {text}")
    for key in ("priority", "default"):
        if getattr(wished, key) is not None:
            invocation.note(
                f"{wished.place(key)}: '{key}' orders the devices for `hetsim partition`; "
                "strategies choose their own order, except --strategy hetero:npu,gpu,cpu"
            )
    found = wished.constraints(problem)
    for key in found:
        if key in options:
            raise UsageError(f"--affinity and --set {key} both set {key}", hint="leave one out")
    return {**options, **found}


def plan_beside(plan: Plan, kept: Plan | None = None) -> WhatIfComparison | None:
    """Return the answer without --what-if next to `plan`; None without --what-if.

    `kept`: a saved plan on its own platform, used instead of a new one.
    """
    if not supposed():
        return None
    from hetsim.analysis.what_if_comparison import (
        WhatIfSide,
        idle_suppositions,
        side_of,
        what_if_comparison,
    )
    from hetsim.placement.planning import plan as planned
    from hetsim.problem.repriced import repriced

    objective = current().objective
    weighed = objective or "latency"
    if kept is not None:
        assert kept.problem.platform is not None
        idle = idle_suppositions(plan.problem, kept.problem.platform)
        return what_if_comparison(side_of(kept, weighed), side_of(plan, weighed), weighed, idle)
    read = read_platform(as_it_is=True)
    name = current().strategy or DEFAULT_STRATEGY
    with current().progress("planning for the platform without the change"):
        problem = repriced(plan.problem, read)
        options = with_affinity(read_strategy_options((name,)), problem)
        try:
            was = side_of(planned(problem, name, objective=objective, **options), weighed)
        except Infeasible as error:
            was = WhatIfSide(None, reason=error.what)
        idle = idle_suppositions(plan.problem, read)
    return what_if_comparison(was, side_of(plan, weighed), weighed, idle)


def comparison_beside(
    comparison: Comparison, names: Sequence[str], options: dict[str, Any]
) -> WhatIfComparison | None:
    """Return the answer without --what-if next to `comparison`; None without --what-if."""
    if not supposed():
        return None
    from hetsim.analysis.comparison import compare
    from hetsim.analysis.what_if_comparison import idle_suppositions, what_if_comparison
    from hetsim.problem.repriced import repriced

    read = read_platform(as_it_is=True)
    sustained = comparison.sustained
    with current().progress("comparing for the platform without the change"):
        problem = repriced(comparison.problem, read)
        known = compare(
            problem,
            names,
            objective=comparison.objective,
            samples=0,
            sustained=sustained,
            **with_affinity(options, problem),
        )
        idle = idle_suppositions(comparison.problem, read, sustained=sustained)
    return what_if_comparison(_best(known), _best(comparison), comparison.objective, idle)


def _best(comparison: Comparison) -> WhatIfSide:
    """Best row of a comparison, with the lower bound and the best single device."""
    from dataclasses import replace

    from hetsim.analysis.what_if_comparison import WhatIfSide, side_of

    row = comparison.rows[0]
    single = comparison.best_single
    about: dict[str, Any] = {
        "bound_s": comparison.bound_s,
        "single": single or "",
        "single_s": None if single is None else comparison.single_s[single],
    }
    if row.plan is None or row.cost_s is None:
        return WhatIfSide(None, reason=row.reason or "", **about)
    found = side_of(row.plan, comparison.objective, row.strategy)
    return replace(found, cost_s=row.cost_s, **about)


def show_beside(found: WhatIfComparison | None, record: dict[str, Any]) -> None:
    """Print both answers, or add them to the record."""
    if found is None:
        return
    from hetsim.reporting.tables.what_if import beside_record, beside_report

    current().add(record, "what_if", beside_record(found), beside_report(found))


def show_sensitivities(plan: Plan, objective: Objective, record: dict[str, Any]) -> None:
    """Print the sensitivities of a plan, or add them to the record."""
    from hetsim.analysis.sensitivity import sensitivities
    from hetsim.reporting.tables.what_if import sensitivities_record, sensitivities_report

    with current().progress("computing sensitivities"):
        found = sensitivities(plan, objective=objective)
    report = sensitivities_report(found)
    current().add(record, "sensitivities", [sensitivities_record(found)], report)
