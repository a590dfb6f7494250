"""Plans that are served, kept on another state of their platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetsim.hardware.spec import Platform
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced
from hetsim.service.resolving import Resolved, no_quicker
from hetsim.simulation.clock.playing import timeline_of


def kept_on(resolved: Sequence[Resolved], platform: Platform) -> tuple[Resolved, ...]:
    """Return what is served with its plans as they are, priced on `platform`.

    A batch takes at least as long as one request alone, as in ``resolve``. Raises what
    ``Problem.of`` raises, and Infeasible where a plan no longer fits.

    Complexity: a pricing for each binding and batch size, and a play for each plan.
    """
    known: dict[str, Problem] = {}

    def anew(plan: Plan) -> Problem:
        model = plan.problem.model
        assert model is not None
        # One model in one binding has one sort of shapes, whatever its plans are stretched by.
        key = repr((model.source, sorted(model.dims.items()), sorted(model.shapes.items())))
        if key not in known:
            known[key] = repriced(plan.problem, platform)
        return known[key]

    found = []
    for one in resolved:
        plans, seconds = [], []
        for entry in one.plans:
            rows, took = [], []
            for sizes in entry:
                made: list[tuple[Plan, float]] = []
                for plan in sizes:
                    now = replace(plan, problem=anew(plan))
                    alone_s = timeline_of(now, trace=False).latency_s
                    made.append(no_quicker(now, alone_s, made[0][1] if made else alone_s))
                rows.append(tuple(plan for plan, _ in made))
                took.append(tuple(alone_s for _, alone_s in made))
            plans.append(tuple(rows))
            seconds.append(tuple(took))
        found.append(replace(one, plans=tuple(plans), seconds=tuple(seconds)))
    return tuple(found)
