"""The verb ``availability``: how much of the time objectives hold, by how often devices are up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from hetsim.base import checks
from hetsim.errors import UsageError
from hetsim.hardware.availability import DeviceAvailability, exactly
from hetsim.hardware.spec import Platform
from hetsim.service.asked import Asked
from hetsim.service.memory import check_together
from hetsim.service.resolving import Made, resolve
from hetsim.sizing.answer import Choice
from hetsim.sizing.impossible import impossible_as
from hetsim.sizing.outages.answer import Availability, Matter, State
from hetsim.sizing.outages.asking import Asking, ask
from hetsim.sizing.outages.chances import Counts
from hetsim.sizing.outages.left import Leaving
from hetsim.sizing.outages.shares import check_known, shares_of
from hetsim.sizing.outages.states import states_of
from hetsim.sizing.outages.verdicts import check_asked
from hetsim.sizing.outages.ways import choice_of, names_of
from hetsim.workloads.deployment import Deployment
from hetsim.workloads.workload import Workload

MOST_WEIGHED = 2**17
"""States times devices of which it is told what each matters."""

MOST_PROVED = 16
"""States that miss of which it is asked whether any plan could meet the objectives."""


@checks.takes(
    deployment=checks.instance("hetsim.workloads.deployment:Deployment"),
    workload=checks.instance("hetsim.workloads.workload:Workload"),
    platform=checks.instance("hetsim.hardware.spec:Platform"),
    target=checks.number(above=0),
    available=checks.mapping(checks.text, checks.number(above=0)),
    until_answered=checks.flag,
)
def availability(
    deployment: Deployment,
    workload: Workload,
    *,
    platform: Platform,
    target: float,
    available: Mapping[str, float] | None = None,
    until_answered: bool = False,
) -> Availability:
    """Return how much of the time a workload's objectives hold, by how often devices are up.

    Over all states of what is up: how likely each is, devices failing independently, and whether
    the objectives hold in it for long, on what is left as ``survive`` has it. Devices that are
    alike are counted; each state that is another is played once. Chances are exact. What is
    undecided gives an interval. A state lasts long against what requests take: what becomes of
    those under way when one ends is ``simulate(..., failures=)``'s to tell.

    Parameters
    ----------
    deployment : Deployment
    workload : Workload
        With objectives. Its ``failures``, mean times alone, say how often devices are up; they are
        not played.
    platform : Platform
        The files of its devices may have an ``availability``.
    target : float
        The share of the time that is asked for, taken as the decimal that it is written as.
    available : mapping of str to float, optional
        The share of its time that a device is up: by name, kind (``gpu``) or pattern.
    until_answered : bool
        Whether each run ends as soon as every objective is answered.

    Raises
    ------
    WorkloadError, UsageError, UnsupportedNode, Infeasible
        As ``survive``; and UsageError where nothing says how often a device is up that matters, or
        there are more than 2^20 states.

    Complexity: that of ``simulate`` for each state that is asked.
    """
    shares = {}
    for name, share in (available or {}).items():
        shares[name] = _share(share, f"available of '{name}'")
    return availability_as(
        deployment,
        workload,
        platform,
        target=_share(target, "target"),
        available=shares,
        asked=None,
        until_answered=until_answered,
    )


def _share(value: float, name: str) -> Fraction:
    checks.number(above=0)(value, name)
    if value > 1:
        raise UsageError(f"{name} is {value:g}", hint="give a share of the time, as 0.999")
    return exactly(value)


def availability_as(
    deployment: Deployment,
    workload: Workload,
    platform: Platform,
    *,
    target: Fraction,
    available: Mapping[str, Fraction],
    asked: Asked | None,
    made: Made | None = None,
    until_answered: bool = False,
    within: float | None = None,
) -> Availability:
    """Return what ``availability`` does, of models read and planned for as `asked`."""
    made = Made() if made is None else made
    failing = workload.failures
    if failing is not None and failing.injected:
        raise UsageError(
            "failures at given times, and how often devices are up",
            hint="leave the failures out, or give their mean times",
        )
    workload = replace(workload, failures=None)
    deployment.check_steady("not asked how often objectives hold")
    check_asked(workload)
    known = shares_of(platform, available, failing)
    resolved = resolve(deployment, workload, platform, asked, made)
    check_together(resolved, platform)
    leaving = Leaving(resolved, platform)
    # What runs now is asked for first, and all at once.
    check_known(known, _of_classes(leaving, leaving.without(frozenset()).used))
    counts = states_of(leaving)
    matter = _counted(leaving, counts)
    check_known(known, matter)
    odds = Asking(leaving, counts, known)
    ask(odds, workload, target, until_answered=until_answered, within=within)
    return _answer(odds, workload, target, made, known, matter)


def _of_classes(leaving: Leaving, used: frozenset[str]) -> tuple[str, ...]:
    """All devices of the classes of some."""
    return tuple(name for names in leaving.classes if used & set(names) for name in names)


def _counted(leaving: Leaving, states: Sequence[Counts]) -> tuple[str, ...]:
    """The devices that some state tells of."""
    return tuple(
        name
        for k, names in enumerate(leaving.classes)
        if any(state[k] is not None for state in states)
        for name in names
    )


def _answer(
    found: Asking,
    workload: Workload,
    target: Fraction,
    made: Made,
    known: Mapping[str, DeviceAvailability],
    matter: Sequence[str],
) -> Availability:
    odds = found.odds()
    low, high = found.between()
    leaving = found.leaving
    states = tuple(
        State(
            names_of(leaving, found.counts[one.states[0]]),
            tuple(choice_of(leaving, found.counts[at]) for at in one.states),
            one.chance,
            one.answer,
            one.how,
            one.service,
            one.left.anew,
        )
        for one in found.groups
    )
    weighs = len(found.counts) * len(matter) <= MOST_WEIGHED
    gains: dict[tuple[int, Fraction], Fraction] = {}
    devices = []
    for k, names in enumerate(leaving.classes):
        for at, name in enumerate(names):
            if name not in matter:
                continue
            share = known[name].share
            gain = None
            if weighs:
                # Devices of one class that are up as often matter as much.
                if (k, share) not in gains:
                    gains[k, share] = odds.never_down(k, at) - low
                gain = gains[k, share]
            devices.append(Matter(name, share, known[name].source, gain))
    devices.sort(key=lambda one: -(one.gain or 0))
    spares: Choice | None = None
    spared = None
    if low < target:
        fewest = odds.fewest_spares(target)
        if fewest is not None:
            spares = choice_of(leaving, fewest)
            spared = odds.with_spares(fewest)[0]
    impossible = _impossible(found, workload, target, made) if high < target else None
    return Availability(target, low, high, states, tuple(devices), spares, spared, impossible)


def _impossible(found: Asking, workload: Workload, target: Fraction, made: Made) -> str | None:
    """Why no plans reach the target, where that is proved of states of enough chance."""
    proved = Fraction(0)
    reasons: list[str] = []
    missed = [one for one in found.groups if one.answer == "misses"]
    for one in missed[:MOST_PROVED]:
        lost = sorted(names_of(found.leaving, found.counts[one.states[0]]))
        why = impossible_as(workload, made, lost)
        if why is None:
            continue
        proved += one.chance
        named = f"without {', '.join(lost)} " if lost else ""
        reasons.append(f"{named}{why}")
        if proved > 1 - target:
            return "; ".join(dict.fromkeys(reasons))
    return None
