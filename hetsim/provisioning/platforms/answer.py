"""The answer: what to have, what it costs, what comes next, and what excludes the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hetsim.errors import Infeasible, ObjectiveMissed, Undecided
from hetsim.hardware.spec import Platform
from hetsim.provisioning.platforms.binding import Binding, says
from hetsim.provisioning.platforms.composing import Pieces
from hetsim.provisioning.platforms.deploying import told
from hetsim.provisioning.platforms.doubt import Doubt
from hetsim.provisioning.platforms.gathering import strategies
from hetsim.provisioning.platforms.playing import worst
from hetsim.provisioning.platforms.policies import Placed, Policy
from hetsim.provisioning.platforms.question import Question, Split
from hetsim.provisioning.platforms.searching import Found, Run, Tried
from hetsim.provisioning.rates.redundancy.answer import Survived
from hetsim.simulation.service.service import Service
from hetsim.workload.deployment import Deployment
from hetsim.workload.workload import Workload


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """One vector that meets every objective, ready to be had.

    Attributes
    ----------
    counts : mapping of str to int
        By kind; those of which there are none are left out.
    cost : float
        US dollars an hour, watts where all devices are busy, or devices.
    policy : Policy
    platform : Platform
    deployment : Deployment
    service : Service
        What becomes of the workload on them, as ``simulate`` says it.
    survived : Survived, optional
        Without some devices, as ``survive`` says it, where that was asked.
    """

    counts: Mapping[str, int]
    cost: float
    policy: Policy
    platform: Platform = field(repr=False)
    deployment: Deployment = field(repr=False)
    service: Service = field(repr=False)
    survived: Survived | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Excuse:
    """Why some vectors are not the answer.

    Attributes
    ----------
    what : str
        What excludes them.
    vectors : int
        How many.
    proved : bool
        Whether that is so of every policy over the plans that are looked at, or of each of the
        policies that were tried.
    counts : mapping of str to int, optional
        Where it is of one vector alone.
    undecided : bool
        Whether it may meet all the same.
    """

    what: str
    vectors: int
    proved: bool
    counts: Mapping[str, int] | None = None
    undecided: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Recommendation:
    """The cheapest platform that meets every objective of a workload.

    Attributes
    ----------
    workload : Workload
    best : Chosen or None
        None: none was found.
    runner_up : mapping of str to int, optional
        The next in order that meets; None: there is none, or no answer.
    runner_up_cost : float, optional
    undecided : tuple of mapping of str to int
        Vectors that may meet and cost less; what is recommended is the cheapest but for these.
    excuses : tuple of Excuse
        Why the others are not: by bound, then each that was played.
    dearer : int
        Vectors that come after the answer, and were not looked at.
    vectors : int
        All that there are.
    binding : Binding or None
        What keeps the nearest cheaper vector out.
    impossible : str or None
        Why no vector can, with models cut however one likes, where that is proved.
    policies : tuple of Policy
        That were tried, where a vector was.
    doubt : Doubt or None
        How sure it is; None where that was not asked, or nothing is recommended.
    found : Found
        The search, in numbers.
    pieces : tuple of Pieces
    """

    workload: Workload = field(repr=False)
    best: Chosen | None
    runner_up: Mapping[str, int] | None
    runner_up_cost: float | None
    undecided: tuple[Mapping[str, int], ...]
    excuses: tuple[Excuse, ...]
    dearer: int
    vectors: int
    binding: Binding | None
    impossible: str | None
    policies: tuple[Policy, ...]
    found: Found = field(repr=False)
    pieces: tuple[Pieces, ...] = field(repr=False)
    doubt: Doubt | None = None

    @property
    def plans(self) -> str:
        """Which plans are looked at, in words."""
        return plans_text(self.found.question)

    @property
    def proved(self) -> bool:
        """Whether it is proved of all vectors and all plans, where none is recommended."""
        return self.best is None and self.impossible is not None

    def require(self) -> Chosen:
        """Return what is recommended.

        Raises
        ------
        Infeasible
            Where it is proved that no plan on any vector can.
        ObjectiveMissed
            Where all vectors are excluded with the plans that are looked at, or were tried and
            miss.
        Undecided
            Where one of these may meet.
        """
        if self.best is not None:
            return self.best
        hint = "allow more --max-devices or a longer latency, or add kinds to the catalog"
        if self.impossible is not None:
            raise Infeasible(
                f"no platform of the catalog meets every objective: {self.impossible}", hint=hint
            )
        if self.undecided:
            raise Undecided(
                f"{len(self.undecided)} platforms may meet every objective, and none is seen to",
                where=told(self.found.question, self.found.undecided[0]),
                hint="give more --requests",
            )
        near = nearest(self.found)
        if not near:
            most = max(self.excuses, key=lambda one: one.vectors, default=None)
            why = "" if most is None else f": {most.what}"
            raise ObjectiveMissed(
                f"with {plans_text(self.found.question)} no platform of the catalog meets every "
                f"objective{why}",
                hint=hint,
            )
        raise ObjectiveMissed(
            f"every platform that was tried misses an objective; nearest comes {near}", hint=hint
        )


def plans_text(question: Question) -> str:
    """Return which plans are looked at, in words."""
    found = "each model whole on one device"
    if question.splits:
        by = " or ".join(strategies(question))
        sets = {(one.kinds, one.devices) for one in question.splits}
        found += f", or split by {by} over {len(sets)} sets of devices"
    return found


def devices_of(question: Question, split: Split) -> tuple[str, ...]:
    """Return what the devices of a split are called on a platform that has one of each."""
    copies = split.copies
    names = []
    for slot, (unit, _) in enumerate(split.devices):
        name = question.types[question.type_of(split, slot)].name
        kind = question.kinds[split.kinds[unit]]
        names.append(name if kind.slots else f"{name.rpartition('.')[0]}.{copies[unit]}")
    return tuple(names)


def nearest(found: Found) -> str:
    """Return the vector that misses by least, in words; empty where none was played."""
    question, ran = found.question, found.ran()
    if not ran:
        return ""
    _, one, _ = min(ran, key=lambda row: row[0])
    return f"{told(question, one.counts)}, by {missed(found, one)}"


def missed(found: Found, one: Tried) -> str:
    """Return what the best run of a vector misses by; what excludes each policy where none ran."""
    question = found.question
    best = one.best(question)
    if best is None or best.played is None:
        bounds = [run.bound for run in one.runs if run.bound is not None]
        if not bounds:
            return str(one.runs[0].placed)
        return f"as each policy uses them, {says(question, found.bounds[bounds[-1]])}"
    said = worst(best.played, question)
    stream = question.streams[said.stream]
    slo = stream.slos[said.slo]
    return (
        f"{stream.name}: p{slo.percentile:g} of {said.latency_s * 1e3:.4g} ms, "
        f"{slo.latency_s * 1e3:.4g} ms is asked{without_these(question, best)}"
    )


def without_these(question: Question, run: Run) -> str:
    """Return what is lost, where something is, in words."""
    if not run.lost or not isinstance(run.placed, Placed):
        return ""
    names = [question.types[run.placed.places[at].of_type].name for at in run.lost]
    return f" without {' and '.join(names)}"


def excuses_of(found: Found, excluded: Sequence[int]) -> tuple[Excuse, ...]:
    """Return why vectors are not the answer: by bound, then each that was played."""
    question = found.question
    by: dict[str, int] = {}
    for bound, count in zip(found.bounds, excluded, strict=True):
        if count:
            text = says(question, bound)
            by[text] = by.get(text, 0) + count
    rows = [Excuse(text, count, True) for text, count in by.items()]
    for one in found.tried:
        undecided = one.answer == "undecided"
        why = f"{'undecided: ' if undecided else ''}{missed(found, one)}"
        rows.append(Excuse(why, 1, False, question.named(one.counts), undecided))
    return tuple(rows)
