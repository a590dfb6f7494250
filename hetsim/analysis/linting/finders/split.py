"""A plan over several devices that one of them alone would beat."""

from __future__ import annotations

from collections.abc import Iterator

from hetsim.analysis.linting.change import Change
from hetsim.analysis.linting.finders.borders import elsewhere
from hetsim.analysis.linting.seen import Seen, Suspect, targets_of

KIND = "split"


def split(seen: Seen) -> Iterator[Suspect]:
    """Yield a suspect where the plan uses several devices: all of it on one, by pins.

    Of devices that are alike the first is tried.
    """
    problem, plan = seen.problem, seen.plan
    if plan is None or len(plan.devices_used) < 2:
        return
    everything = tuple(range(problem.n))
    firsts = {target.first for target in targets_of(problem, None)}
    if problem.host is not None:
        firsts.add(problem.host)
    changes = tuple(
        Change(f"all of it on {problem.devices[p]}, by pins", pins=pins)
        for p in sorted(firsts)
        if (pins := elsewhere(problem, everything, p))
    )
    moves_s = sum(
        share * one.seconds
        for template, share in zip(seen.templates, seen.shares, strict=True)
        for one in template.transfers
    )
    used = plan.devices_used
    yield Suspect(
        KIND, "", f"the plan is split over {len(used)} devices", everything, moves_s, changes
    )
