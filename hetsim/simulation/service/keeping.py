"""Plans that are served, kept as they are where what they take is another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hetsim.hardware.spec import Platform
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced
from hetsim.simulation.clock.runs import timeline_of
from hetsim.simulation.service.resolving import Resolved, no_quicker


def kept_on(resolved: Sequence[Resolved], platform: Platform) -> tuple[Resolved, ...]:
    """Return what is served with its plans as they are, priced on `platform`.

    A batch takes at least as long as one request alone, as in ``resolve``. Raises what
    ``Problem.of`` raises, and Infeasible where a plan no longer fits.

    Complexity: a pricing for each binding and batch size, and a play for each plan.
    """
    known: dict[str, Problem] = {}

    def anew(plan: Plan) -> Plan:
        model = plan.problem.model
        assert model is not None
        # One model in one binding has one sort of shapes, whatever its plans are stretched by.
        key = repr((model.source, sorted(model.dims.items()), sorted(model.shapes.items())))
        if key not in known:
            known[key] = repriced(plan.problem, platform)
        return replace(plan, problem=known[key])

    return tuple(kept_as(one, anew) for one in resolved)


def kept_as(one: Resolved, change: Callable[[Plan], Plan]) -> Resolved:
    """Return a model that is served with each of its plans changed, and what batches take then.

    A batch takes at least as long as one request alone. What several instances, sizes and bindings
    have in common is changed and played once.
    """
    known: dict[int, tuple[Plan, float]] = {}

    def row(plans: Sequence[Plan]) -> list[tuple[Plan, float]]:
        found: list[tuple[Plan, float]] = []
        for plan in plans:
            if id(plan) not in known:
                now = change(plan)
                known[id(plan)] = now, timeline_of(now, trace=False).latency_s
            now, took_s = known[id(plan)]
            found.append(no_quicker(now, took_s, found[0][1]) if found else (now, took_s))
        return found

    entries = [[row(plans) for plans in rows] for rows in one.plans]
    return replace(
        one,
        plans=tuple(tuple(tuple(plan for plan, _ in made) for made in rows) for rows in entries),
        seconds=tuple(
            tuple(tuple(took_s for _, took_s in made) for made in rows) for rows in entries
        ),
    )
