"""Verbs ``survive`` and ``availability``: objectives without some devices, and how often."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import partial

from hetsim.core import checks
from hetsim.errors import UsageError, nearest
from hetsim.hardware.price import DeviceAvailability, availability_of, exactly
from hetsim.hardware.spec import Platform, numbered
from hetsim.provisioning.rates.answer import (
    Availability,
    DeviceShare,
    Loss,
    Survived,
    answer_of,
    check_asked,
    confidence_of_each,
)
from hetsim.provisioning.rates.ceiling import impossible_as
from hetsim.provisioning.rates.losses import Counts, LossModel, LossWay, states_of, ways, ways_of
from hetsim.simulation.service.layout import check_together
from hetsim.simulation.service.resolution import ModelOptions, PlanCache, resolve
from hetsim.simulation.service.serving import played
from hetsim.statistics.verdict import Answer
from hetsim.workload.deployment import Deployment
from hetsim.workload.failure import Failing
from hetsim.workload.workload import Workload

MEAN_TIMES = "of its mean times to failure and repair"

LEFT = Fraction(1, 100)
"""Share of the allowed failure probability that may stay unexamined once all is decided."""

MOST_PROVED = 16
"""Maximum number of missing states for which a proof over all plans is attempted."""


@checks.takes(
    deployment=checks.instance("hetsim.workload.deployment:Deployment"),
    workload=checks.instance("hetsim.workload.workload:Workload"),
    platform=checks.instance("hetsim.hardware.spec:Platform"),
    losses=checks.whole(1),
    until_answered=checks.flag,
)
def survive(
    deployment: Deployment,
    workload: Workload,
    *,
    platform: Platform,
    losses: int = 1,
    until_answered: bool = False,
    within: float | None = None,
    settings: ModelOptions | None = None,
    made: PlanCache | None = None,
) -> Survived:
    """Return whether a workload's objectives hold after losing any one device, or any few.

    Without a device its instances are gone. A model without instances is replanned on the remaining
    devices; links stay, and so does the host's data: only execution on the device is lost.
    Identical devices are examined once, unused ones not at all. Each loss is permanent: use
    ``simulate(..., failures=)`` for the requests under way at the time. All verdicts together are
    right in 95 of 100 cases.

    Parameters
    ----------
    workload : Workload
        Workload with objectives and without failures.
    losses : int
        Maximum number of devices lost at once.
    until_answered, within, settings, made
        As in ``serve``; `settings` as its `asked`.

    Raises
    ------
    WorkloadError, UsageError, UnsupportedNode, Infeasible
        As ``simulate`` for a deployment; and without an objective.

    Complexity: that of ``simulate`` for each distinct loss.
    """
    made = PlanCache() if made is None else made
    deployment.check_steady("not asked what survives")
    check_asked(workload)
    resolved = resolve(deployment, workload, platform, settings, made)
    check_together(resolved, platform)
    loss_model = LossModel(resolved, platform)
    rows = ways_of(loss_model, losses)
    confidence = confidence_of_each(len(rows))
    play = partial(
        _played, workload, until_answered=until_answered, within=within, confidence=confidence
    )
    found = [play(way, _loss(way)) for way in rows]
    used = rows[0].left.used
    unused = tuple(name for name in loss_model.devices if name not in used)
    intact, *others = found
    others.sort(key=lambda one: one.badness, reverse=True)
    survived = Survived(losses, intact, tuple(others), unused)
    if survived.answer == "misses":
        bad = intact if intact.answer == "misses" else survived.worst
        survived = replace(survived, impossible=impossible_as(workload, made, bad.lost))
    return survived


@checks.takes(
    deployment=checks.instance("hetsim.workload.deployment:Deployment"),
    workload=checks.instance("hetsim.workload.workload:Workload"),
    platform=checks.instance("hetsim.hardware.spec:Platform"),
    available=checks.mapping(checks.text),
    until_answered=checks.flag,
)
def availability(
    deployment: Deployment,
    workload: Workload,
    *,
    platform: Platform,
    target: float | Fraction,
    available: Mapping[str, float | Fraction] | None = None,
    until_answered: bool = False,
    within: float | None = None,
    settings: ModelOptions | None = None,
    made: PlanCache | None = None,
) -> Availability:
    """Return the share of time in which a workload's objectives hold, by device availability.

    Sums over all states of devices their probability, with independent failures, and whether the
    objectives hold in the long run on the remaining devices, as in ``survive``. Identical devices
    are counted; each distinct state is simulated once, the most likely first, until the rest no
    longer matters. Probabilities are exact; undecided states give an interval. States are assumed
    long compared to requests: use ``simulate(..., failures=)`` for those under way at a change.

    Parameters
    ----------
    workload : Workload
        Workload with objectives. Its ``failures``, only mean times, define the availability of
        devices; they are not simulated.
    platform : Platform
        Platform, whose device files may have an ``availability``.
    target : float
        Required share of time, taken as the decimal that it is written as.
    available : mapping of str to float, optional
        Share of time that a device is up: by name, kind (``gpu``) or pattern.
    until_answered, within, settings, made
        As in ``serve``; `settings` as its `asked`.

    Raises
    ------
    WorkloadError, UsageError, UnsupportedNode, Infeasible
        As ``survive``; and UsageError if the availability of a device that matters is unknown, or
        for more than 2^20 states.

    Complexity: that of ``simulate`` for each state examined.
    """
    given = {name: _share(one, f"available of '{name}'") for name, one in (available or {}).items()}
    target = _share(target, "target")
    made = PlanCache() if made is None else made
    failing = workload.failures
    if failing is not None and failing.injected:
        raise UsageError(
            "failures at given times do not say how often devices are up",
            hint="leave the failures out, or give their mean times",
        )
    workload = replace(workload, failures=None)
    deployment.check_steady("not asked how often objectives hold")
    check_asked(workload)
    known = shares_of(platform, given, failing)
    resolved = resolve(deployment, workload, platform, settings, made)
    check_together(resolved, platform)
    loss_model = LossModel(resolved, platform)
    # Devices in current use are requested first, all at once.
    used = loss_model.without(frozenset()).used
    check_known(
        known, (name for names in loss_model.classes if used & set(names) for name in names)
    )
    counts = sorted(
        states_of(loss_model), key=lambda state: [-1 if k is None else k for k in state]
    )
    matter = [
        name
        for k, names in enumerate(loss_model.classes)
        if any(state[k] is not None for state in counts)
        for name in names
    ]
    check_known(known, matter)
    one = Fraction(1)
    down = [
        counts_down([known[name].share if name in known else one for name in names])
        for names in loss_model.classes
    ]
    rows = [
        (
            way,
            _loss(
                way, sum((probability_of_state(state, down) for state in way.states), Fraction(0))
            ),
        )
        for way in ways(loss_model, counts)
    ]
    rows.sort(key=lambda row: row[1].chance, reverse=True)
    play = partial(_played, workload, until_answered=until_answered, within=within)
    states = _asked(rows, target, play)
    low, high = _between(states)
    devices = tuple(DeviceShare(name, known[name].share, known[name].source) for name in matter)
    impossible = _impossible(states, workload, target, made) if high < target else None
    return Availability(target, low, high, tuple(states), devices, impossible)


def _share(value: float | Fraction, name: str) -> Fraction:
    if isinstance(value, Fraction):
        return value
    checks.number(above=0)(value, name)
    if value > 1:
        raise UsageError(f"{name} is {value:g}", hint="give a share of the time, as 0.999")
    return exactly(value)


def shares_of(
    platform: Platform, given: Mapping[str, Fraction], failing: Failing | None
) -> dict[str, DeviceAvailability]:
    """Return the availability of each device."""
    found = {
        name: spec.availability
        for name, spec in platform.devices.items()
        if spec.availability is not None
    }
    devices = tuple(platform.devices)
    for name, (works_s, down_s) in (failing.cycles_s(devices) if failing else {}).items():
        found[name] = DeviceAvailability(availability_of(works_s, down_s), MEAN_TIMES)
    for pattern in sorted(given, key=lambda one: one in platform.devices):
        fits = [name for name in devices if fnmatchcase(name, pattern)]
        fits = fits or list(numbered(pattern, devices))
        if not fits:
            raise UsageError(
                f"an availability of '{pattern}', which the platform does not have",
                hint=nearest(pattern, devices),
            )
        for name in fits:
            found[name] = DeviceAvailability(given[pattern])
    return found


def check_known(known: Mapping[str, DeviceAvailability], needed: Iterable[str]) -> None:
    """Raise UsageError if a device that matters has no availability."""
    unknown = [name for name in needed if name not in known]
    if unknown:
        raise UsageError(
            f"no availability is given for {', '.join(unknown)}",
            hint=f"give --available {unknown[0]}=0.995, or --mtbf and --mttr, or write "
            "availability: with its source in the device's file",
        )


def counts_down(shares: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the probabilities of 0, 1, ... failed devices, by their shares of time up.

    >>> counts_down([Fraction(1, 2), Fraction(3, 4)])
    (Fraction(3, 8), Fraction(1, 2), Fraction(1, 8))
    """
    found = [Fraction(1)]
    for up in shares:
        kept = [one * up for one in found] + [Fraction(0)]
        lost = [Fraction(0)] + [one * (1 - up) for one in found]
        found = [a + b for a, b in zip(kept, lost, strict=True)]
    return tuple(found)


def probability_of_state(state: Counts, down: Sequence[Sequence[Fraction]]) -> Fraction:
    """Return the probability of a state, by the probability of each class's number of failures."""
    return math.prod(
        (of[count] for count, of in zip(state, down, strict=True) if count is not None),
        start=Fraction(1),
    )


def _loss(way: LossWay, chance: Fraction = Fraction(0)) -> Loss:
    """Return the loss before anything is simulated."""
    left = way.left
    answer: Answer = "undecided" if left.refused is None else "misses"
    return Loss(way.lost, way.sets, answer, None, left.anew, left.refused, chance)


def _played(
    workload: Workload,
    way: LossWay,
    loss: Loss,
    *,
    until_answered: bool,
    within: float | None,
    confidence: float,
) -> Loss:
    """Return a loss with the results of the workload on the remaining devices, if served."""
    if loss.refused is not None:
        return loss
    service = played(
        workload,
        way.left.resolved,
        way.left.set_up(workload),
        until_answered=until_answered,
        within=within,
        confidence=confidence,
    )
    return replace(loss, answer=answer_of(service), service=service)


def _between(states: Sequence[Loss]) -> tuple[Fraction, Fraction]:
    """Return the range of probability in which the objectives hold, as known so far."""
    met, missed = (
        sum((one.chance for one in states if one.answer == answer), Fraction(0))
        for answer in ("meets", "misses")
    )
    return met, 1 - missed


def _asked(
    rows: Sequence[tuple[LossWay, Loss]], target: Fraction, play: Callable[..., Loss]
) -> list[Loss]:
    """Simulate states, the most likely first, until the rest no longer matters."""
    found = [loss for _, loss in rows]
    open_ = [at for at, one in enumerate(found) if one.refused is None]
    confidence = confidence_of_each(len(open_))
    left = sum((found[at].chance for at in open_), Fraction(0))
    for at in open_:
        low, high = _between(found)
        decided = low >= target or high < target
        if not found[at].chance or (decided and left <= LEFT * (1 - target)):
            break
        found[at] = play(*rows[at], confidence=confidence)
        left -= found[at].chance
    return found


def _impossible(
    states: Sequence[Loss], workload: Workload, target: Fraction, made: PlanCache
) -> str | None:
    """Return the reason why no plan reaches the target; None without a proof for enough states."""
    proved = Fraction(0)
    reasons: list[str] = []
    missed = [one for one in states if one.answer == "misses"]
    for one in missed[:MOST_PROVED]:
        lost = sorted(one.lost)
        why = impossible_as(workload, made, lost)
        if why is None:
            continue
        proved += one.chance
        named = f"without {', '.join(lost)} " if lost else ""
        reasons.append(f"{named}{why}")
        if proved > 1 - target:
            return "; ".join(dict.fromkeys(reasons))
    return None
