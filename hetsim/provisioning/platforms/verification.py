"""Check of a certificate: every vector that comes before its answer has been dealt with.

Each bound is compared with all ways to serve a batch by one product of matrices; each run is played
again by the clock, and its late requests are counted again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetsim.core.files import no_such_file
from hetsim.errors import CertificateRefuted, InvalidInput, UsageError
from hetsim.provisioning.platforms.bounds.bound import (
    Bound,
    in_the_long_run,
    in_window,
    judged,
    late_allowed,
    limits_s,
    more_than_late,
)
from hetsim.provisioning.platforms.bounds.pooled import late_on, misses, share_of
from hetsim.provisioning.platforms.bounds.prices import Under
from hetsim.provisioning.platforms.claim import (
    BoundClaim,
    Broken,
    ChosenClaim,
    Claim,
    PlaceClaim,
    RunClaim,
    Untrue,
    as_long,
    at,
    broken,
    untrue,
)
from hetsim.provisioning.platforms.claimed_question import Claimed, claimed
from hetsim.provisioning.platforms.placements import (
    Placements,
    able_on,
    lefts,
    routing_of,
    same_as,
    shape_of,
    subsets,
)
from hetsim.provisioning.platforms.plays import judged_of, outcomes_of, said_of, siblings, sizes_of
from hetsim.provisioning.platforms.policies import Placed, Policy, places_of, serves, up_to
from hetsim.provisioning.platforms.question import UNIT, Aim, Counts, Instance, Question
from hetsim.simulation.service.figures import chosen
from hetsim.simulation.service.service import stability_of
from hetsim.simulation.serving.setup import Outcomes

BLOCK = 1 << 16
MOST_VECTORS = 1 << 25
BUDGET = 100_000_000
"""Task events that are played at most, unless more are allowed."""
CLOSE = 1e-12
"""By how much sums of floats may be off."""

WORDS: dict[Aim, str] = {"cost": "USD an hour", "energy": "W", "devices": "devices"}

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Held:
    """Checked parts of a certificate that holds.

    Of all `vectors` those `before` the answer, or before the runner-up where one is claimed, are
    `excluded` by a bound, `tried`, or `undecided`. `claim` says up to where in words; `checked` of
    which question that is, `trusted` what no figure of the certificate is compared with.
    """

    vectors: int
    before: int
    excluded: int
    bounds: int
    tried: int
    runs: int
    undecided: int
    answer: str
    claim: str
    checked: tuple[str, ...]
    trusted: tuple[str, ...]

    def report(self) -> str:
        """All lines: what holds, of which question, and what nobody checked."""
        rows = [str(self)]
        for title, lines in (("verified", self.checked), ("on trust", self.trusted)):
            rows += [f"{title}  {line}" for line in lines]
        return "\n".join(rows)

    def __str__(self) -> str:
        return (
            f"certificate holds: {self.vectors:,} vectors, {self.before:,} come before "
            f"{self.claim}: {self.excluded:,} excluded by {self.bounds} bounds, {self.tried:,} "
            f"tried in {self.runs:,} runs, {self.undecided:,} undecided; answer: {self.answer}"
        )


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """Run that was played again, its answer and what that may be wrong by.

    `answer` is "none" without a deployment and "excluded" by a bound; `verdict` is equal of runs
    whose answers can only be wrong together, None where they cannot be.
    """

    counts: Counts
    policy: int
    answer: str
    error: float = 0.0
    lost: frozenset[int] = field(default_factory=frozenset)
    placed: Placed | None = None
    verdict: object = None


def verify(path: str | os.PathLike[str], *, budget: int = BUDGET) -> Held:
    """Check of the certificate in a file, with at most `budget` task events.

    Raises InvalidInput where it is none or its runs would take more than the budget, and
    CertificateRefuted where it claims what is not so.
    """
    where = os.fspath(path)
    try:
        return _Check(Claim.read(where), budget).held()
    except FileNotFoundError:
        raise no_such_file(InvalidInput, where) from None
    except OSError as wrong:
        raise InvalidInput(f"cannot be read: {wrong.strerror}", where=where) from None
    except Broken as wrong:
        raise InvalidInput(f"no certificate: {wrong}", where=where) from None
    except Untrue as wrong:
        raise CertificateRefuted(f"does not hold: {wrong}", where=where) from None


class _Check:
    """Check of one certificate."""

    def __init__(self, claim: Claim, budget: int) -> None:
        self.claim, self.left = claim, budget
        self.asked: Claimed = claimed(claim)
        self.question = question = self.asked.question
        self.policies = self.asked.policies
        self.types = [
            [question.kinds[way.kinds[unit]].devices[place] for unit, place, _ in way.devices]
            for way in claim.ways
        ]
        self.uses = self._uses()
        self.class_of = np.array([way.class_ for way in claim.ways], dtype=np.int64)
        self.batch = np.array([way.batch for way in claim.ways], dtype=np.float64)
        self.alone_s = np.array([way.alone_s for way in claim.ways])
        self.bounds = [self._bound(one, k) for k, one in enumerate(claim.bounds)]
        self.tests = [bound.test(question) for bound in self.bounds]
        self.under = Under(question, self.bounds)
        self._spend_runs()
        self.runs = [self._run(one, f"/runs/{k}") for k, one in enumerate(claim.runs)]

    def held(self) -> Held:
        """Deal with every vector. Raises Untrue."""
        claim, question = self.claim, self.question
        self._check_errors()
        tried = self._tried()
        undecided = {self._counts(one, f"/undecided/{k}") for k, one in enumerate(claim.undecided)}
        if both := tried & undecided:
            untrue("/undecided", f"{list(min(both))} was tried")
        unknown = claim.runner_up == "unknown"
        answer = self._meets(claim.answer, "/answer")
        second = (
            None if claim.runner_up == "unknown" else self._meets(claim.runner_up, "/runner_up")
        )
        if second and not answer:
            untrue("/runner_up", "a runner-up of no answer")
        for name, one in (("/answer", answer), ("/runner_up", second)):
            if one and self._excluded(np.array([one])).any():
                untrue(name, "a bound excludes what meets")
            if one and one in tried | undecided:
                untrue(name, "tried or undecided, and meets")
        last = answer if unknown else second
        if answer and last and question.key(last) < question.key(answer):
            untrue("/runner_up", "comes before the answer")
        known = tried | undecided | ({answer} if answer else set())
        vectors = before = excluded = 0
        needed: set[Counts] = set()
        for rows in vectors_of(question):
            vectors += len(rows)
            rows = rows[_earlier(question, rows, last)]
            before += len(rows)
            out = self._excluded(rows)
            excluded += int(np.count_nonzero(out))
            for counts in map(tuple, rows[~out].tolist()):
                if counts not in known:
                    cost = question.cost(counts)
                    untrue(
                        "/tried",
                        f"nothing is said of {list(counts)}, which costs {cost} and comes before",
                    )
                needed.add(counts)
        name = "the end of all" if not last else "the answer" if last == answer else "the runner-up"
        return Held(
            vectors, before, excluded, len(self.bounds), len(needed & tried), len(self.runs),
            len(undecided), self._told(answer) if answer else "none meets", name,
            tuple(_checked(self.asked, claim)), tuple(_trusted(self.asked, claim)),
        )  # fmt: skip

    def _told(self, counts: Counts) -> str:
        question = self.question
        each = zip(counts, question.kinds, strict=True)
        names = " + ".join(f"{n} {kind.name[:60]}" for n, kind in each if n)
        return f"{names or 'nothing'} ({question.amount(counts):.10g} {WORDS[question.aim]})"

    def _excluded(self, rows: Ints) -> NDArray[np.bool_]:
        out = np.zeros(len(rows), dtype=bool)
        for test in self.tests:
            out |= test.excludes(rows)
        return out

    def _counts(self, given: Sequence[int], where: str) -> Counts:
        as_long(given, len(self.question.kinds), where)
        if not self.question.allows(counts := tuple(given)):
            untrue(where, "more than are available")
        return counts

    def _check_errors(self) -> None:
        """Check that verdicts are wrong together no more often than is said."""
        verdicts = {run.verdict: run.error for run in self.runs}
        # Bounds that rest on one verdict may be wrong once.
        of_bounds: dict[object, float] = {}
        for bound in self.bounds:
            key = (bound.slo, bound.least, bound.requests)
            of_bounds[key] = max(of_bounds.get(key, 0.0), bound.error)
        errors = sum(verdicts.values()) + sum(of_bounds.values())
        if errors > self.claim.question.error * (1 + 1e-9):
            untrue("/question/error", f"verdicts may be wrong by {errors:.6g} together")

    # Bounds

    def _uses(self) -> sparse.csr_array:
        """By way and resource: how long a batch has all of one of it."""
        question = self.question
        rows, columns, seconds = [], [], []
        for k, (one, way) in enumerate(zip(self.claim.ways, self.asked.ways, strict=True)):
            for resource, each in question.mode(way, one.kinds, self.types[k]).uses:
                rows.append(k)
                columns.append(resource)
                seconds.append(each)
        shape = (len(self.claim.ways), question.resources)
        return sparse.csr_array((np.array(seconds, dtype=float), (rows, columns)), shape=shape)

    def _bound(self, one: BoundClaim, k: int) -> Bound:
        """Check how a bound was come by. Raises Untrue."""
        question, where = self.question, f"/bounds/{k}"
        as_long(one.capacity, len(question.types), f"{where}/capacity")
        as_long(one.links, len(question.kinds), f"{where}/links")
        for n, (row, kind) in enumerate(zip(one.links, question.kinds, strict=True)):
            as_long(row, kind.links, f"{where}/links/{n}")
        capacity = np.array([*one.capacity, *(price for row in one.links for price in row)])
        if one.by == "needs":
            return self._needs(one, capacity, where)
        if isinstance(one.slo, int):
            broken(f"{where}/slo", "no list")
        as_long(one.slo, len(question.streams), f"{where}/slo")
        for n, (slo, stream) in enumerate(zip(one.slo, question.streams, strict=True)):
            if slo is not None:
                at(stream.slos, slo, f"{where}/slo/{n}")
        if all(slo is None for slo in one.slo):
            broken(f"{where}/slo", "no objective")
        as_long(one.worth, len(question.classes), f"{where}/worth")
        limits = limits_s(question, one.slo)
        taken = self.uses @ capacity
        earned = np.array(one.worth)[self.class_of] * self.batch
        short = (self.alone_s <= limits[self.class_of]) & (taken < earned * (1 - CLOSE))
        if short.any():
            way = int(short.argmax())
            untrue(
                f"{where}/capacity",
                f"way {way} takes what is worth {taken[way]:.6g}, and a batch of "
                f"{self.claim.ways[way].batch} of class {self.class_of[way]} earns "
                f"{earned[way]:.6g}",
            )
        # What is asked of nobody is worth nothing.
        worth = np.where(np.isnan(limits), 0.0, one.worth)
        found = Bound(
            one.by, capacity, one.least, tuple(one.slo), worth, (one.from_, one.to),
            error=one.error, requests=one.requests,
        )  # fmt: skip
        if one.by == "pooled":
            self._check_pooled(found, where)
        elif question.given != (one.by == "window"):
            broken(f"{where}/by", "a trace has no rate, and random arrivals have no window")
        elif one.by == "rate":
            _check_least(one.least, in_the_long_run(question, one.slo, worth), where)
        else:
            if not one.from_ <= one.to < len(self.asked.arrivals):
                broken(f"{where}/to", f"no whole number from {one.from_} to the last request")
            _check_least(one.least, in_window(question, one.slo, worth, found.window), where)
        if one.error and (question.given or one.by != "pooled"):
            broken(f"{where}/error", "this bound is certain")
        return found

    def _needs(self, one: BoundClaim, capacity: NDArray[np.float64], where: str) -> Bound:
        """Check that an ask is more than may be late, and that each way for it has 1 or more."""
        question = self.question
        ask = at(question.asks, one.ask, f"{where}/ask")
        if not isinstance(one.slo, int):
            broken(f"{where}/slo", "no whole number")
        slo = at(question.streams[ask.stream].slos, one.slo, f"{where}/slo")
        if not more_than_late(question, one.ask, slo.share):
            untrue(f"{where}/ask", "the objective allows all of them to be late")
        _check_least(one.least, 1.0, where)
        if one.error:
            broken(f"{where}/error", "this bound is certain")
        for k in np.flatnonzero((self.class_of == ask.of_class) & (self.alone_s <= slo.latency_s)):
            there = sum(float(capacity[of_type]) for of_type in self.types[k])
            if there < 1 - CLOSE:
                untrue(f"{where}/capacity", f"{there!r}, less than 1 of what would do: way {k}")
        which = tuple(one.slo if k == ask.stream else None for k in range(len(question.streams)))
        return Bound("needs", capacity, one.least, which, np.zeros(0), ask=one.ask)

    def _check_pooled(self, bound: Bound, where: str) -> None:
        question, arrivals = self.question, self.asked.arrivals
        for k, ask in enumerate(question.asks):
            if bound.slo[ask.stream] is not None and bound.worth[ask.of_class] < 1 - CLOSE:
                untrue(f"{where}/worth/{ask.of_class}", f"ask {k} is worth less than 1")
        if not bound.least:
            broken(f"{where}/least", "not above 0")
        mine = judged(question, bound.slo, arrivals)
        limit_s = float(np.nanmax(limits_s(question, bound.slo)))
        if question.given:
            most = sum(many for _, many in late_allowed(question, bound.slo, arrivals))
            late = late_on(arrivals.time_s[mine].tolist(), limit_s, bound.least, most)
            if late <= most:
                untrue(f"{where}/least", f"{late} late at that rate, and {most} may be")
            return
        if not 0 < bound.requests <= len(arrivals) or not bound.error:
            broken(f"{where}/requests", "no whole number of the arrivals, or without an error")
        mine[bound.requests :] = False
        share = share_of(question, bound.slo)
        time_s = arrivals.time_s[mine]
        if not len(time_s) or not misses(time_s, limit_s, bound.least, share, bound.error):
            untrue(f"{where}/least", "the arrivals do not say that this rate misses")

    # Runs

    def _spend(self, events: int) -> None:
        self.left -= events
        if self.left < 0:
            raise Broken("/runs: more task events than are to be played; allow them (--events)")

    def _spend_runs(self) -> None:
        """Check that what is to be played is within the budget: the longest template each time."""
        most = max((len(one.tasks) for one in self.claim.templates), default=1)
        for run in self.claim.runs:
            instances = sum(map(len, run.instances))
            named = sum(len(row) for mine in run.instances for one in mine for row in one.templates)
            places = sum(map(len, run.places))
            # Each request may be looked for a place for among all instances.
            self._spend(run.played * (most + instances // 64) + named * most)
            self._spend(places * (1 + len(self.claim.ways) // 16))

    def _run(self, one: RunClaim, where: str) -> CheckedRun:
        """Play a run, and check what is said of it. Raises Untrue."""
        question = self.question
        counts = self._counts(one.counts, f"{where}/counts")
        policy = at(self.policies, one.policy, f"{where}/policy")
        places = places_of(question, counts)
        lost = frozenset(one.lost)
        for k, place in enumerate(one.lost):
            at(places, place, f"{where}/lost/{k}")
        if len(lost) < len(one.lost) or len(lost) > question.losses:
            broken(f"{where}/lost", "more than may be lost, or one twice")
        said = one.model_fields_set - {"counts", "policy", "lost"}
        if said == {"none"}:
            if policy.placement == "all" and all(map(len, self._all(counts, policy, lost))):
                text = "this policy has a deployment there: each model has a device"
                untrue(f"{where}/policy", text)
            return CheckedRun(counts, one.policy, "none", lost=lost)
        if said == {"bound", "places"}:
            bound = at(self.bounds, one.bound or 0, f"{where}/bound")
            if bound.by == "needs":
                broken(f"{where}/bound", "in it requests are worth nothing")
            placed = self._placed(one.places, counts, policy, lost, f"{where}/places")
            gathers = self.under.gathers(placed, policy)[one.bound or 0]
            if not gathers < self.under.edges[one.bound or 0]:
                text = "it does not exclude what this policy makes of the devices"
                untrue(f"{where}/bound", text)
            return CheckedRun(counts, one.policy, "excluded", lost=lost, placed=placed)
        if said != {"instances", "played", "judged"}:
            broken(where, "neither none, nor bound and places, nor instances, played and judged")
        placed = self._deployed(one, counts, policy, lost, f"{where}/instances")
        if question.given and one.played != len(self.asked.arrivals):
            untrue(f"{where}/played", "not the whole trace")
        if not 0 < one.played <= len(self.asked.arrivals):
            broken(f"{where}/played", "no whole number of the arrivals")
        arrivals = self.asked.arrivals.first(one.played)
        answer, error = self._judged(one, outcomes_of(question, placed, policy, arrivals), where)
        verdict = None
        if error:
            # All that is said but the policy's number: two may come to one deployment.
            alike = (policy.max_batch, policy.line, routing_of(placed, policy))
            verdict = repr(one.model_copy(update={"policy": 0})), alike
        return CheckedRun(counts, one.policy, answer, error, lost, placed, verdict)

    def _all(self, counts: Counts, policy: Policy, lost: frozenset[int]) -> list[list[int]]:
        """By model: the devices that serve it whole and are not lost."""
        places = places_of(self.question, counts)
        return [
            [
                k for k, place in enumerate(places)
                if k not in lost and serves(self.question, place.of_type, model, policy.max_batch)
            ]
            for model in range(len(self.question.models))
        ]  # fmt: skip

    def _deployed(
        self, one: RunClaim, counts: Counts, policy: Policy, lost: frozenset[int], where: str
    ) -> Placed:
        """Placement of a run whose instances have the templates of their ways."""
        rows: list[list[PlaceClaim]] = [[] for _ in one.instances]
        for model, each in enumerate(one.instances):
            for k, given in enumerate(each):
                here = f"{where}/{model}/{k}/templates"
                if not given.templates or not given.templates[0]:
                    broken(here, "none")
                template = at(self.claim.templates, given.templates[0][0], f"{here}/0/0")
                rows[model].append(PlaceClaim(copies=given.copies, way=template.way))
        placed = self._placed(rows, counts, policy, lost, where)
        for model, mine in enumerate(placed.instances):
            if not mine:
                broken(f"{where}/{model}", "no instance")
            for k, (instance, given) in enumerate(zip(mine, one.instances[model], strict=True)):
                here = f"{where}/{model}/{k}/templates"
                classes = self.question.classes_of[model]
                as_long(given.templates, len(classes), here)
                for n, (of_class, row) in enumerate(zip(classes, given.templates, strict=True)):
                    ways = up_to(placed.ways(self.question, instance, of_class), policy.max_batch)
                    sizes = sizes_of(tuple(way.batch for way in ways), ways[-1].batch)
                    if row != [self.asked.template.get(ways[at_]) for at_ in sizes]:
                        text = "other templates than those of its ways, batch by batch"
                        untrue(f"{here}/{n}", text)
        return placed

    def _placed(
        self, rows: Sequence[Sequence[PlaceClaim]], counts: Counts, policy: Policy,
        lost: frozenset[int], where: str,
    ) -> Placed:  # fmt: skip
        """Placement of instances that are named by one of their ways. Raises Broken, Untrue."""
        question = self.question
        places = places_of(question, counts)
        number = {place[:3]: k for k, place in enumerate(places)}
        as_long(rows, len(question.models), where)
        instances = []
        for model, mine in enumerate(rows):
            found = []
            for k, one in enumerate(mine):
                here = f"{where}/{model}/{k}"
                way = at(self.claim.ways, one.way, f"{here}/way")
                as_long(one.copies, len(way.kinds), f"{here}/copies")
                units = list(zip(way.kinds, one.copies, strict=True))
                if any(copy >= counts[kind] for kind, copy in units):
                    untrue(f"{here}/copies", f"of kinds {way.kinds}: there are fewer")
                if len(set(units)) < len(units):
                    untrue(f"{here}/copies", "one of a kind instead of two")
                devices = tuple(number[(*units[unit], place)] for unit, place, _ in way.devices)
                if lost.intersection(devices):
                    untrue(here, f"on a device that is lost: {sorted(lost)}")
                found.append(self._instance(model, one.way, devices, here))
            if policy.placement == "all":
                wanted = [(device,) for device in self._all(counts, policy, lost)[model]]
                served = sorted(one.devices for one in found)
                if served != wanted:
                    untrue(f"{where}/{model}", f"on devices {served}, and not on all of {wanted}")
            instances.append(tuple(found))
        return Placed(places, tuple(instances))

    def _instance(self, model: int, number: int, devices: tuple[int, ...], where: str) -> Instance:
        question, way = self.question, self.claim.ways[number]
        if question.classes[way.class_].model != model:
            untrue(where, f"way {number} is of class {way.class_}, of another model")
        split = -1
        if len(devices) == 1:
            (of_type,) = self.types[number]
            has = [of for of in question.classes_of[model] if (of_type, of) in question.ways]
        else:
            units = tuple(way.kinds), tuple(row[:2] for row in way.devices)
            split = self.asked.splits[model, way.strategy, units]
            has = [of for of in question.classes_of[model] if of in question.splits[split].ways]
        if len(has) < len(question.classes_of[model]):
            untrue(where, "no way there for a class of the model")
        return Instance(devices, split)

    def _judged(self, one: RunClaim, outcomes: Outcomes, where: str) -> tuple[str, float]:
        """Check what is said of each objective; return what that makes together, and its error."""
        question = self.question
        said: dict[tuple[int, int], tuple[str, float]] = {}
        for k, (stream, which, requests, late, answer, error) in enumerate(one.judged):
            here = f"{where}/judged/{k}"
            at(at(question.streams, stream, f"{here}/0").slos, which, f"{here}/1")
            if (stream, which) in said or not 0 < requests <= one.played:
                broken(here, "judged twice, or no whole number of requests")
            if question.given and (error or requests != one.played):
                broken(here, "not judged over the whole trace, without an error")
            if not question.given and answer != "undecided" and not error:
                untrue(f"{here}/5", "a verdict of the long run may be wrong")
            many = int(np.count_nonzero(judged_of(question, outcomes, [stream], requests)))
            if not many:
                untrue(here, "no request of this stream")
            kept_up = None
            if not question.given:
                streams = siblings(question, stream)
                rate = sum(a.rate_per_s or 0.0 for a in question.asks if a.stream in streams)
                own = chosen(outcomes, judged_of(question, outcomes, streams, requests))
                kept_up = stability_of(own.arrival_s, own.finish_s, own.fresh, rate)
            found = said_of(question, outcomes, stream, which, requests, error, kept_up)
            told = f"{found.late} of {many} are late"
            if found.late != late:
                untrue(f"{here}/3", told)
            if answer not in ("undecided", found.answer):
                untrue(f"{here}/4", f"{told}: {found.answer}")
            said[stream, which] = answer, error
        if missed := [error for answer, error in said.values() if answer == "misses"]:
            return "misses", max(missed)
        asked = sum(len(stream.slos) for stream in question.streams)
        if len(said) == asked and all(answer == "meets" for answer, _ in said.values()):
            return "meets", max(error for _, error in said.values())
        return "undecided", 0.0

    # Vectors

    def _tried(self) -> set[Counts]:
        """Vectors of which every policy was played and misses."""
        found = set()
        for k, one in enumerate(self.claim.tried):
            where = f"/tried/{k}"
            counts = self._counts(one.counts, f"{where}/counts")
            runs = [at(self.runs, run, f"{where}/runs/{n}") for n, run in enumerate(one.runs)]
            for n, run in enumerate(runs):
                if run.counts != counts:
                    untrue(f"{where}/runs/{n}", f"a run of {list(run.counts)}")
                if run.answer not in ("misses", "none", "excluded"):
                    untrue(f"{where}/runs/{n}", f"a run that is {run.answer}")
            for number, policy in enumerate(self.policies):
                mine = [run for run in runs if run.policy == number]
                if policy.placement != "each" and not mine:
                    untrue(f"{where}/runs", f"policy {number} was not tried")
                every = policy.placement == "each" and not any(
                    run.answer == "none" and not run.lost for run in mine
                )
                if every and (unseen := self._unseen(counts, number, runs)):
                    untrue(f"{where}/runs", f"policy {number} was not tried with {unseen}")
            found.add(counts)
        return found

    def _unseen(self, counts: Counts, number: int, runs: Sequence[CheckedRun]) -> str:
        """A placement that no bound excludes and none of the runs is of; empty: none."""
        question, policy = self.question, self.policies[number]
        refused = [(of, set(models)) for of, models in self.claim.question.policies[number].refused]

        def held(question: Question, of_type: int, policy: Policy) -> list[tuple[int, ...]]:
            return [
                on
                for on in subsets(able_on(question, of_type, policy))
                if not any(of == of_type and models <= set(on) for of, models in refused)
            ]

        seen = {
            same_as(run.placed, self.policies[run.policy]) for run in runs if run.placed is not None
        }
        devices = len(places_of(question, counts))
        losses = sum(comb(devices, many) for many in range(question.losses + 1))
        left = Placements(question, self.under, held).left(counts, policy, self.left)
        if left is None:
            broken("/tried", "too many placements are to be looked at")
        for where in left:
            self._spend(devices * losses)
            if not any(
                isinstance(rest.placed, str) or same_as(rest.placed, policy) in seen
                for rest in lefts(question, where)
            ):
                each = [[one.devices[0] for one in mine] for mine in where.instances]
                return f"models on devices {each}"
        return ""

    def _meets(self, one: ChosenClaim | None, where: str) -> Counts | None:
        """Vector of an answer, which was played and meets, also without what may be lost."""
        if one is None:
            return None
        question = self.question
        counts = self._counts(one.counts, f"{where}/counts")
        if one.cost != question.cost(counts):
            untrue(f"{where}/cost", f"its kinds cost {question.cost(counts)}")
        run = at(self.runs, one.run, f"{where}/run")
        if run.counts != counts or run.answer != "meets":
            untrue(f"{where}/run", f"a run of {list(run.counts)} that is {run.answer}")
        if not question.losses:
            return counts
        if run.lost:
            untrue(f"{where}/run", "it has lost a device")
        assert run.placed is not None
        shapes = {shape_of(run.placed)}
        for k, number in enumerate(one.without):
            other = at(self.runs, number, f"{where}/without/{k}")
            same = (other.counts, other.policy) == (counts, run.policy)
            if not same or other.placed is None or other.answer != "meets":
                text = f"a run of {list(other.counts)} by policy {other.policy} that is"
                untrue(f"{where}/without/{k}", f"{text} {other.answer}")
            shapes.add(shape_of(other.placed))
        try:
            rest = lefts(question, run.placed)
        except UsageError as many:
            broken(where, many.what)
        for lost, left in rest:
            if isinstance(left, str):
                untrue(where, f"{left}: without devices {list(lost)}")
            if shape_of(left) not in shapes:
                untrue(f"{where}/without", f"nothing is said of it without devices {list(lost)}")
        return counts


def _check_least(least: float, most: float, where: str) -> None:
    if least > most * (1 + CLOSE):
        untrue(f"{where}/least", f"more than {float(most)!r}, which is all that it must be")


def vectors_of(question: Question) -> Iterator[Ints]:
    """Available vectors in blocks, each once: kind after kind.

    Plainly, as the search lists those alone that no bound excludes.
    """
    kinds = question.kinds
    counted = np.array([kind.counted for kind in kinds])
    hosts = np.array([int(kind.slots > 0) for kind in kinds])
    taken = np.array([int(kind.in_slot) - kind.slots for kind in kinds])
    parts, made = [np.zeros((1, 0), np.int64)], 0
    while parts:
        rows = parts.pop()
        done = rows.shape[1]
        if done == len(kinds):
            yield rows[(rows @ hosts <= 1) & (rows @ taken <= 0)]
            continue
        new = np.arange(kinds[done].most + 1)
        rows = np.column_stack([np.repeat(rows, len(new), axis=0), np.tile(new, len(rows))])
        rows = rows[rows @ counted[: done + 1] <= question.max_devices]
        made += len(rows)
        if made > MOST_VECTORS:
            raise Broken(f"/question/kinds: more than {MOST_VECTORS} vectors")
        following = kinds[done + 1].most + 1 if done + 1 < len(kinds) else 1
        parts += np.array_split(rows, len(rows) * following // BLOCK + 1)


def _earlier(question: Question, rows: Ints, last: Counts | None) -> NDArray[np.bool_]:
    """Which vectors come before the last; all where there is none."""
    if last is None:
        return np.ones(len(rows), bool)
    sums = np.array([[kind.cost, kind.counted] for kind in question.kinds])
    apart = np.column_stack([rows @ sums, rows]) - np.array([*question.key(last)[:2], *last])
    found: NDArray[np.bool_] = apart[np.arange(len(rows)), (apart != 0).argmax(axis=1)] < 0
    return found


def _checked(asked: Claimed, claim: Claim) -> Iterator[str]:
    """Of which question it holds: streams with their models, rates and objectives, policies."""
    question = asked.question
    for number, stream in enumerate(question.streams):
        own = [k for k, ask in enumerate(question.asks) if ask.stream == number]
        count, per_s = (sum(asked.came[k][place] for k in own) for place in (0, 1))
        rate = f"{count:,} requests that are given"
        if not question.given:
            stated = sum(question.asks[k].rate_per_s or 0.0 for k in own)
            rate = f"{stated:.6g} requests a second"
            rate += f", {per_s:.6g} among {count:,} arrivals" if len(asked.arrivals) else ""
        slos = " and ".join(
            f"{100 * slo.share:.10g} % within {1000 * slo.latency_s:.10g} ms" for slo in stream.slos
        )
        model = question.models[stream.model]
        yield f"stream {stream.name}: {model}, {rate}, {slos or 'no objective'}"
    yield f"policies played: {'; '.join(one.name for one in claim.question.policies)}"
    if not question.given:
        yield f"verdicts may be wrong by {claim.question.error:.6g} together"


def _trusted(asked: Claimed, claim: Claim) -> Iterator[str]:
    """What no figure of the certificate is compared with."""
    question, ways, templates = asked.question, len(claim.ways), len(claim.templates)
    yield f"seconds of devices and links: {ways:,} ways to serve a batch, {templates:,} templates"
    unit = UNIT[question.aim]
    prices = [f"{one.name} {float(one.cost * unit):.10g}" for one in question.kinds]
    if question.aim != "devices":
        yield f"prices ({WORDS[question.aim]}): {', '.join(prices)}"
    yield "which kinds there are and how many, what hosts hold, what devices cannot run or hold"
    yield "where policies other than 'each' and 'all' place models"
    if question.given:
        yield "that the arrivals are those of the workload"
    elif not len(asked.arrivals):
        yield "rates: there are no arrivals to compare them with"
    else:
        yield "the seed and length of the random arrivals, and rates within: " + ", ".join(
            f"{100 * off / (ask.rate_per_s or 1.0):.2g} %"
            for ask, (_, _, off) in zip(question.asks, asked.came, strict=True)
        )
    files = len(claim.made_of.files)
    yield f"names and objectives are as the certificate says; its {files} digests were not compared"
