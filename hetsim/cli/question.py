"""Options as a problem, a plan, and the same as it is beside --what-if and --without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current
from hetsim.cli.options.question import FROM_MODEL
from hetsim.errors import Infeasible, UsageError

if TYPE_CHECKING:
    from hetsim.analysis.beside import Beside, Side
    from hetsim.analysis.comparison import Comparison
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import Platform
    from hetsim.placement.objective import Objective
    from hetsim.problem.plan import Plan
    from hetsim.problem.problem import Problem


DEFAULT_STRATEGY = "heft"


def read_model(source: str) -> Model:
    """Load the model that MODEL names, with its dimensions bound."""
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
    """Load the platform that --platform names, with what --what-if and --without suppose of it.

    `as_it_is`: without that.
    """
    from hetsim.hardware.catalog import load_platform, platform_names

    platform = current().platform
    if platform is None:
        raise UsageError(
            "no platform is given",
            hint=f"give --platform with a YAML file or one of: {', '.join(platform_names())}",
        )
    read = load_platform(platform, current().runtime or None)
    if as_it_is or not supposed():
        return read
    return _as_supposed(read)


def _as_supposed(platform: Platform) -> Platform:
    from hetsim.hardware.what_if import idle_changes, what_if

    invocation = current()
    for text in idle_changes(platform, invocation.changes):
        invocation.note(f"what if '{text}': it is so already, and changes nothing")
    return what_if(platform, *invocation.changes, without=invocation.without)


def supposed() -> bool:
    """Whether --what-if or --without supposes something of the platform."""
    return bool(current().changes or current().without)


def read_problem(source: str) -> Problem:
    """Build the problem of running MODEL on --platform."""
    from hetsim.cost import DEFAULT_COST
    from hetsim.cost.registry import cost_model
    from hetsim.hardware.variants import platform_executing
    from hetsim.problem.problem import Problem

    invocation = current()
    # The platform is quick to read: mistakes about it show before the model is loaded.
    hardware = read_platform()
    platform_executing(hardware, invocation.execute)
    cost = invocation.cost or DEFAULT_COST
    cost_model(cost)
    model = read_model(source)
    with invocation.progress(f"pricing {model.name} on {hardware.name}"):
        return Problem.of(
            model,
            hardware,
            contention=invocation.contention or "fifo",
            profiles=invocation.profiles,
            execute=invocation.execute,
            cost=cost,
            pessimistic=invocation.pessimistic,
        )


def read_plan(
    source: str,
    strategy: str | None = None,
    *,
    runs: bool = False,
    plays: bool = False,
    supposes: bool = False,
) -> Plan:
    """Read the saved plan that the argument names, or plan for the model that it names.

    `runs`: the plan is going to be run, on the inputs that ``--input`` gives. `plays`: it is
    going to be played with the contention that is given. `supposes`: it is kept as it is on what
    --what-if supposes, see ``kept_as_supposed``.
    """
    from hetsim.placement.planning import plan

    invocation = current()
    strategy = strategy or invocation.strategy
    if source.endswith(".json"):
        _refuse_with_plan(
            {
                "--platform": invocation.platform,
                "--execute": invocation.execute,
                "--runtime": invocation.runtime,
                "--what-if": () if supposes else invocation.changes,
                "--without": invocation.without,
                "--strategy": strategy,
                "--objective": invocation.objective,
                "--contention": None if plays else invocation.contention,
                "--dim": invocation.dims,
                "--shape": invocation.shapes,
                "--freeze": invocation.frozen,
                "--input": None if runs else invocation.inputs,
                "--canonical": invocation.canonical,
                "--set": invocation.settings,
                "--affinity": invocation.affinity,
                "--profile": invocation.profiles,
                "--cost": invocation.cost,
            }
        )
        from hetsim.problem.saved import load_plan

        with invocation.progress(f"reading {source}"):
            saved = load_plan(source, extensions=invocation.extensions)
        return saved.at_bad_end() if invocation.pessimistic else saved
    name = strategy or DEFAULT_STRATEGY
    options = read_strategy_options((name,))
    problem = read_problem(source)
    options = with_affinity(options, problem)
    with invocation.progress(f"planning with {name}"):
        return plan(problem, name, objective=invocation.objective, **options)


def kept_as_supposed(plan: Plan) -> Plan:
    """Return a saved plan as it is, priced on its platform with what --what-if supposes of it."""
    from dataclasses import replace

    from hetsim.problem.repriced import repriced

    platform = plan.problem.platform
    if platform is None or plan.sizes:
        raise UsageError(
            "--what-if of a saved plan of several replicas, or without a platform",
            hint="give the model in place of the plan",
        )
    return replace(plan, problem=repriced(plan.problem, _as_supposed(platform)))


def read_strategy_options(strategies: Sequence[str]) -> dict[str, Any]:
    """Read ``--set`` as options of `strategies`, each of which must exist."""
    from hetsim.placement.registry import read_settings, resolve

    for name in strategies:
        resolve(name)
    options = read_settings(strategies, current().settings, "--set")
    if "objective" in options:
        raise UsageError("--set objective=... has no effect", hint="use --objective")
    return options


def with_affinity(options: Mapping[str, Any], problem: Problem) -> dict[str, Any]:
    """Add to `options` those that ``--affinity`` stands for.

    Its default is what exclusions without a device spare; which devices are asked first is for
    the strategies to find, and the user is told so.
    """
    from hetsim.partitioning.affinity import affinity_of_model

    invocation = current()
    wished = invocation.affinity
    if wished is None:
        return dict(options)
    if wished == FROM_MODEL:
        wished = affinity_of_model(problem)
    # Names that mean nothing are told with the line of the file.
    asked = wished.on(problem)
    for text in asked.notes:
        invocation.note(f"--affinity: {text}")
    for key in ("priority", "default"):
        if getattr(wished, key) is not None:
            invocation.note(
                f"{wished.place(key)}: '{key}' orders the devices of `hetsim partition`; "
                "strategies find their own order, but for --strategy hetero:npu,gpu,cpu"
            )
    found = wished.constraints(problem)
    for key in found:
        if key in options:
            raise UsageError(f"--affinity and --set {key} both say {key}", hint="leave one out")
    return {**options, **found}


def _refuse_with_plan(options: Mapping[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise UsageError(
            f"{given[0]} cannot go with a saved plan, which fixes it",
            hint=f"leave {given[0]} out, or give the model in place of the plan",
        )


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
            samples=0,
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
