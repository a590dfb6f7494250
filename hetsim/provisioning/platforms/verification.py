"""Check of a certificate: every vector before its answer is accounted for.

Each bound is compared with all ways to serve a batch by one matrix product. Simulated vectors are
simulated again, by the stated policies and the rules of the search.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

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
from hetsim.provisioning.platforms.certificate import (
    BadCertificate,
    ChosenClaim,
    Claim,
    FalseClaim,
    PlayedClaim,
    at,
    broken,
    runs_of,
    untrue,
)
from hetsim.provisioning.platforms.components import cost_of
from hetsim.provisioning.platforms.policies import MOST_MODELS, PlacedInstances, Policy
from hetsim.provisioning.platforms.question import (
    UNIT,
    UNITS,
    Aim,
    Arrivals,
    Counts,
    Question,
    Way,
)
from hetsim.provisioning.platforms.search import ERROR, OF_BOUNDS, Search, TriedVector
from hetsim.provisioning.platforms.simulation import SimulatedDeployment, alone_and_load
from hetsim.provisioning.platforms.vectors import all_vectors, vectors_before

MOST_BOXES = 1 << 22
"""Maximum kinds x devices x slots for counting vectors."""
MOST_DEVICES = 20_000
MOST_WAYS = 1 << 15
MOST_OF_A_KIND = 10_000
MOST_STREAMS = 1000
MOST_LOSSES = 16
BUDGET = 100_000_000
"""Default maximum number of task events to simulate."""
CLOSE = 1e-9
"""Tolerance of float sums."""
INTERVALS, ERRORS = 32, 6.0
"""Number of equal intervals for checking the rate of arrivals, and the allowed error in standard
errors: a correct one exceeds it once in hundreds of thousands."""
PRICES: dict[Aim, tuple[set[str], ...]] = {
    "devices": (set(),),
    "energy": ({"power_w"},),
    "cost": ({"usd_per_hour"}, {"usd", "years"}, {"power_w", "usd", "usd_per_kwh", "years"}),
}
"""Possible parts of a price."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class VerifiedParts:
    """Verified parts of a valid certificate.

    Of all `vectors`, those `before` the answer (or the runner-up, if any) are `excluded` by a
    bound, `tried`, or `undecided`. `claim` describes the range in words; `checked` the question,
    `trusted` the figures that are not compared with anything.
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
        """Return all lines: what holds, for which question, and what was not checked."""
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


def verify(path: str | os.PathLike[str], *, budget: int = BUDGET) -> VerifiedParts:
    """Return the verified parts of a certificate file, with at most `budget` task events.

    Raises InvalidInput for another kind of file or runs above the budget, and CertificateRefuted
    for a false claim.
    """
    where = os.fspath(path)
    try:
        return _held(Claim.read(where), budget)
    except FileNotFoundError:
        raise no_such_file(InvalidInput, where) from None
    except OSError as wrong:
        raise InvalidInput(f"cannot be read: {wrong.strerror}", where=where) from None
    except BadCertificate as wrong:
        raise InvalidInput(f"no certificate: {wrong}", where=where) from None
    except FalseClaim as wrong:
        raise CertificateRefuted(f"does not hold: {wrong}", where=where) from None


def _held(claim: Claim, budget: int) -> VerifiedParts:
    """Check every vector. Raises BadCertificate, FalseClaim."""
    question, blocks = _question(claim)
    arrivals = Arrivals.joined(blocks)
    came = [_came(arrivals, k, ask.rate_per_s) for k, ask in enumerate(question.asks)]
    for k, policy in enumerate(claim.policies):
        _check_policy(policy, question, f"/policies/{k}")
    if not claim.policies:
        broken("/policies", "none")
    bounds = _Bounds(question, arrivals).checked(claim)
    tests = [bound.test(question) for bound in bounds]

    def excluded(rows: Ints) -> NDArray[np.bool_]:
        found = np.zeros(len(rows), dtype=bool)
        for test in tests:
            found |= test.excludes(rows)
        return found

    known = _Replay(question, claim.policies, bounds, blocks, budget).known(claim.played)
    met = [counts for counts, one in known.items() if one.answer == "meets"]
    answer, second, *_ = (*met, None, None)
    if met[2:] or (second is not None and second != next(reversed(known))):
        untrue("/played", "vectors that come after the runner-up")
    for name, counts, said in (
        ("/answer", answer, claim.answer),
        ("/runner_up", second, claim.runner_up),
    ):
        chosen = None if counts is None else ChosenClaim(counts=counts, cost=question.cost(counts))
        if said != chosen:
            was = "none" if chosen is None else f"{list(chosen.counts)}, which costs {chosen.cost}"
            untrue(name, f"of what was played it is {was}")
    if met and excluded(np.array(met)).any():
        untrue("/bounds", "a bound excludes what meets")
    try:
        rows = vectors_before(question, second)
    except UsageError as many:
        broken("/question/kinds", many.what)
    gone = excluded(rows)
    needed = list(map(tuple, rows[~gone].tolist()))
    for counts in needed:
        if counts not in known:
            cost = question.cost(counts)
            text = f"nothing is said of {list(counts)}, which costs {cost} and comes before"
            untrue("/played", text)
    answers = [known[counts].answer for counts in needed]
    return VerifiedParts(
        all_vectors(question),
        len(rows),
        int(np.count_nonzero(gone)),
        len(bounds),
        answers.count("misses"),
        sum(len(one.runs) for one in known.values()),
        answers.count("undecided"),
        _told(question, answer),
        "the end of all" if second is None else "the runner-up",
        tuple(_checked(claim, question, came)),
        tuple(_trusted(claim, question, came)),
    )


def _told(question: Question, counts: Counts | None) -> str:
    if counts is None:
        return "none meets"
    each = zip(counts, question.kinds, strict=True)
    names = " + ".join(f"{n} {kind.name[:60]}" for n, kind in each if n)
    return f"{names or 'nothing'} ({question.amount(counts):.10g} {UNITS[question.aim]})"


# Question


def _question(claim: Claim) -> tuple[Question, list[Arrivals]]:
    """Return the question of a certificate, and its arrivals. Raises BadCertificate, FalseClaim."""
    said, where = claim.question, "/question"
    if min(said.max_devices, said.losses, said.warm_up_s) < 0 or said.losses > MOST_LOSSES:
        broken(where, f"max_devices, losses or warm_up_s below 0, or more than {MOST_LOSSES} lost")
    if not 1 <= len(said.kinds) <= 64 or max(len(said.streams), len(said.models)) > MOST_STREAMS:
        broken(where, "no kinds, or more than 64, or too many streams or models")
    slots = max(kind.slots for kind in said.kinds)
    if len(said.kinds) * said.max_devices * (1 + slots) > MOST_BOXES:
        broken(where, "too many devices and slots")
    names = [*said.models, *claim.made_of.files]
    for named in (said.types, said.kinds, said.streams):
        names += [one.name for one in named]
    names += [policy.strategy for policy in claim.policies]
    if not all(map(str.isprintable, names)):
        broken(where, "a name that cannot be printed")
    for k, one in enumerate(said.types):
        if not 1 <= one.streams <= MOST_OF_A_KIND or one.memory_bytes < 0:
            broken(f"{where}/types/{k}", "no whole numbers of streams and bytes")
    _check_kinds(claim)
    for k, of_model in enumerate([one.model for one in said.classes]):
        at(said.models, of_model, f"{where}/classes/{k}/model")
    for k, of_model in enumerate([one.model for one in said.streams]):
        at(said.models, of_model, f"{where}/streams/{k}/model")
    if not any(stream.slos for stream in said.streams):
        broken(f"{where}/streams", "no objective")
    for k, ask in enumerate(said.asks):
        here = f"{where}/asks/{k}"
        stream = at(said.streams, ask.stream, f"{here}/stream")
        if at(said.classes, ask.of_class, f"{here}/of_class").model != stream.model:
            broken(f"{here}/of_class", "of another model than the stream's")
        if said.given != (ask.rate_per_s is None) or not (ask.rate_per_s or 1.0) > 0:
            broken(f"{here}/rate_per_s", "random requests have a rate, those of a trace none")
    pairs = {(ask.stream, ask.of_class) for ask in said.asks}
    if len(pairs) < len(said.asks) or {one for one, _ in pairs} != set(range(len(said.streams))):
        broken(f"{where}/asks", "a stream without requests, or an ask twice")
    blocks = [] if claim.arrivals is None else claim.arrivals.unpacked(len(said.asks))
    if said.given and not (len(blocks) == 1 and blocks[0].time_s[-1] >= said.warm_up_s):
        broken("/arrivals", "a trace without requests that count, or in pieces")
    ways = {(row.of_type, row.of_class): row.ways for row in said.ways}
    arrivals = blocks[0] if said.given else None
    question = Question(**{**dict(said), "ways": ways, "arrivals": arrivals})
    _check_ways(claim, question)
    return question, blocks


def _check_kinds(claim: Claim) -> None:
    said, where = claim.question, "/question/kinds"
    for k, kind in enumerate(said.kinds):
        here = f"{where}/{k}"
        for place, of_type in enumerate(kind.devices):
            at(said.types, of_type, f"{here}/devices/{place}")
        if min(kind.links, kind.cost, kind.most, kind.slots) < 0 or kind.most > MOST_OF_A_KIND:
            broken(here, f"a number below 0, or more than {MOST_OF_A_KIND} of it")
        if kind.slots and kind.in_slot:
            broken(f"{here}/in_slot", "a host in a slot")
        parts = {name: _decimal(text, f"{here}/parts/{name}") for name, text in kind.parts.items()}
        if set(parts) not in PRICES[said.aim]:
            broken(f"{here}/parts", "no price of this objective")
        if kind.cost != (exact := cost_of(said.aim, parts, kind.counted)):
            untrue(f"{here}/cost", f"the price makes {exact}, not {kind.cost}")
    if sorted(p for kind in said.kinds for p in kind.devices) != list(range(len(said.types))):
        broken(where, "a type of device of no kind, or of two")
    if sum(kind.most * max(kind.cost, 1) for kind in said.kinds) >= 1 << 62:
        broken(where, "costs are too large to be added up")
    if sum(kind.most * (len(kind.devices) + kind.links) for kind in said.kinds) > MOST_DEVICES:
        broken(where, f"more than {MOST_DEVICES} devices and links")


def _decimal(text: str, where: str) -> Fraction:
    try:
        value = Decimal(text) if len(text) <= 40 else Decimal(-1)
    except InvalidOperation:
        value = Decimal(-1)
    # An exponent may be enormous: 1e-999999999 is a short text, but not a short fraction.
    if not value.is_finite() or value < 0 or abs(value.adjusted()) > 30:
        broken(where, "no decimal number from 0 on")
    return Fraction(value)


def _came(arrivals: Arrivals, ask: int, rate: float | None) -> tuple[int, float, float]:
    """Return the number of arrivals, their rate, and the allowed deviation of a correct one."""
    own_s = arrivals.time_s[arrivals.ask == ask]
    end_s = float(arrivals.time_s[-1]) if len(arrivals) else 0.0
    if not end_s:
        return len(own_s), 0.0, math.inf
    counts = np.histogram(own_s, INTERVALS, (0.0, end_s))[0]
    variance = max(INTERVALS * float(counts.var(ddof=1)), len(own_s), (rate or 0.0) * end_s)
    per_s, off = len(own_s) / end_s, (ERRORS * math.sqrt(variance) + 1) / end_s
    if rate is not None and abs(rate - per_s) > off:
        untrue(
            f"/question/asks/{ask}/rate_per_s",
            f"{rate:.6g} a second, and the {len(own_s):,} arrivals come at {per_s:.6g} "
            f"({max(per_s - off, 0):.6g} to {per_s + off:.6g})",
        )
    return len(own_s), per_s, off


def _check_policy(policy: Policy, question: Question, where: str) -> None:
    if not 1 <= policy.max_batch <= MOST_OF_A_KIND:
        broken(f"{where}/max_batch", f"no whole number from 1 to {MOST_OF_A_KIND}")
    if policy.placement == "each" and len(question.models) > MOST_MODELS:
        broken(f"{where}/placement", f"every placement of more than {MOST_MODELS} models")
    if (policy.placement in ("split", "beside")) != bool(policy.strategy):
        broken(f"{where}/strategy", "of a placement that splits, and only of such")


def _check_ways(claim: Claim, question: Question) -> None:
    """Check that ways use existing devices and links, and have consistent times."""
    said, where = claim.question, "/question/ways"
    if len(question.ways) < len(said.ways):
        broken(where, "a class twice on a device")
    rows = [row.ways for row in said.ways]
    if (
        sum(map(len, (*rows, *(each for one in said.splits for each in one.ways.values()))))
        > MOST_WAYS
    ):
        broken(where, f"more than {MOST_WAYS}")
    for k, row in enumerate(said.ways):
        at(said.types, row.of_type, f"{where}/{k}/of_type")
        at(said.classes, row.of_class, f"{where}/{k}/of_class")
        kind = question.kinds[question.kind_of(row.of_type)]
        alone = (said.types[row.of_type].streams,)
        _check_sizes(row.ways, alone, kind.links, f"{where}/{k}/ways")
    for k, one in enumerate(said.splits):
        here = f"/question/splits/{k}"
        own = [at(said.kinds, kind, f"{here}/kinds/{unit}") for unit, kind in enumerate(one.kinds)]
        for n, (unit, place) in enumerate(one.devices):
            at(at(own, unit, f"{here}/devices/{n}").devices, place, f"{here}/devices/{n}")
        at(said.models, one.model, f"{here}/model")
        if len(set(one.devices)) < len(one.devices) or len(one.devices) < 2:
            broken(f"{here}/devices", "a device twice, or fewer than two")
        if {unit for unit, _ in one.devices} != set(range(len(own))):
            broken(f"{here}/kinds", "no device of one of them")
        if set(one.ways) != set(question.classes_of[one.model]):
            broken(f"{here}/ways", "not those of the classes of its model")
        streams = tuple(said.types[of_type].streams for of_type in question.types_of(one))
        for of_class, ways in one.ways.items():
            _check_sizes(ways, streams, sum(kind.links for kind in own), f"{here}/ways/{of_class}")


def _check_sizes(ways: Sequence[Way], streams: tuple[int, ...], links: int, where: str) -> None:
    sizes = [way.batch for way in ways]
    if sizes[:1] != [1] or any(b <= a for a, b in pairwise(sizes)) or sizes[-1] > MOST_OF_A_KIND:
        broken(where, "batches do not ascend from 1 on")
    for k, way in enumerate(ways):
        here = f"{where}/{k}"
        _check_tasks(way, len(streams), links, f"{here}/tasks")
        alone_s, _ = alone_and_load(way, streams)
        if alone_s < way.alone_s * (1 - CLOSE):
            untrue(f"{here}/alone_s", f"alone it takes {alone_s!r} s, at least {way.alone_s!r}")
        if min((way.whole_bytes, *way.bytes_by_slot)) < 0:
            broken(here, "bytes below 0")
        if len(way.bytes_by_slot) not in (0, len(streams)):
            broken(f"{here}/bytes_by_slot", "not of each device")


def _check_tasks(way: Way, devices: int, links: int, where: str) -> None:
    """Check that tasks use devices and links of the way, and can all end."""
    after: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    for k, (slot, seconds, held, before) in enumerate(way.tasks):
        places = [(slot, devices) if slot >= 0 else (0, 1), *((link, links) for link in held)]
        places += [(task, len(way.tasks)) for task in before]
        if not all(0 <= place < many for place, many in places) or seconds < 0:
            broken(f"{where}/{k}", "no device, link or task of the way, or less than no time")
        if list(held) != sorted(set(held)) or list(before) != sorted(set(before)):
            broken(f"{where}/{k}", "links or tasks that do not ascend")
        if slot >= 0 and (held or (k and way.tasks[k - 1].slot < 0)):
            broken(f"{where}/{k}", "a subgraph that holds links, or comes after transfers")
        after[k] = set(before)
        if slot >= 0:
            # Subgraphs of a device run in order.
            after[k] |= {last[slot]} if slot in last else set()
            last[slot] = k
    if not last:
        broken(where, "no task on a device")
    try:
        TopologicalSorter(after).prepare()
    except CycleError:
        broken(where, "tasks wait for each other")


# Bounds


class _Bounds:
    """Checker of bounds against all ways to serve a batch."""

    def __init__(self, question: Question, arrivals: Arrivals) -> None:
        self.question, self.arrivals = question, arrivals
        modes = [(of, mode) for of, each in enumerate(question.modes) for mode in each]
        self.class_of = np.array([of for of, _ in modes], dtype=np.int64)
        self.batch = np.array([mode.batch for _, mode in modes], dtype=np.float64)
        self.alone_s = np.array([mode.alone_s for _, mode in modes])
        # By way and resource: seconds of full use of one of it by a batch.
        uses = [(k, *use) for k, (_, mode) in enumerate(modes) for use in mode.uses]
        rows, columns, seconds = zip(*uses, strict=True) if uses else ((), (), ())
        self.uses = sparse.csr_array(
            (np.array(seconds, dtype=float), (rows, columns)),
            shape=(len(modes), question.resources),
        )

    def checked(self, claim: Claim) -> list[Bound]:
        """Return the bounds of a certificate. Raises BadCertificate, FalseClaim."""
        if len(claim.bounds) > MOST_STREAMS:
            broken("/bounds", f"more than {MOST_STREAMS}")
        found = []
        # Bounds based on one verdict share its error probability.
        errors: dict[object, float] = {}
        for k, one in enumerate(claim.bounds):
            own = {**dict(one), "capacity": np.array(one.capacity), "worth": np.array(one.worth)}
            found.append(bound := Bound(**own))
            self._check(bound, f"/bounds/{k}")
            key = (bound.slo, bound.least, bound.requests)
            errors[key] = max(errors.get(key, 0.0), bound.error)
        if sum(errors.values()) > OF_BOUNDS * (1 + CLOSE):
            untrue("/bounds", f"they may be wrong by {sum(errors.values()):.6g} together")
        return found

    def _check(self, bound: Bound, where: str) -> None:
        """Check the derivation of a bound."""
        question = self.question
        for name, row, many in (
            ("capacity", bound.capacity, question.resources),
            ("slo", bound.slo, len(question.streams)),
            ("worth", bound.worth, 0 if bound.by == "needs" else len(question.classes)),
        ):
            if len(row) != many:
                broken(f"{where}/{name}", f"{len(row)} entries instead of {many}")
        if min(bound.least, bound.error, *bound.capacity.tolist(), *bound.worth.tolist()) < 0:
            broken(where, "a number below 0")
        for n, (slo, stream) in enumerate(zip(bound.slo, question.streams, strict=True)):
            if slo is not None:
                at(stream.slos, slo, f"{where}/slo/{n}")
        if all(slo is None for slo in bound.slo):
            broken(f"{where}/slo", "no objective")
        if bound.error and (question.given or bound.by != "pooled"):
            broken(f"{where}/error", "this bound is certain")
        if bound.by == "needs":
            self._check_needs(bound, where)
            return
        limits = limits_s(question, bound.slo)
        taken = self.uses @ bound.capacity
        # Classes without an objective have price 0.
        worth = np.where(np.isnan(limits), 0.0, bound.worth)
        if not (worth == bound.worth).all():
            broken(f"{where}/worth", "requests that no objective is of are worth something")
        earned = worth[self.class_of] * self.batch
        short = (self.alone_s <= limits[self.class_of]) & (taken < earned * (1 - 1e-12))
        if short.any():
            way = int(short.argmax())
            untrue(
                f"{where}/capacity",
                f"a batch of {self.batch[way]:g} of class {self.class_of[way]} takes what is worth "
                f"{taken[way]:.6g}, and earns {earned[way]:.6g}",
            )
        if bound.by == "pooled":
            self._check_pooled(bound, where)
        elif question.given != (bound.by == "window"):
            broken(f"{where}/by", "a trace has no rate, and random arrivals have no window")
        elif bound.by == "rate":
            _check_least(bound, in_the_long_run(question, bound.slo, worth), where)
        else:
            first, last = bound.window
            if not 0 <= first <= last < len(self.arrivals):
                broken(f"{where}/window", "no whole numbers of the requests")
            _check_least(bound, in_window(question, bound.slo, worth, bound.window), where)

    def _check_needs(self, bound: Bound, where: str) -> None:
        """Check that an ask exceeds the late share, and that each way for it contributes >= 1."""
        question = self.question
        ask = at(question.asks, bound.ask, f"{where}/ask")
        which = bound.slo[ask.stream]
        if which is None:
            broken(f"{where}/slo", "no objective of the ask")
        slo = question.streams[ask.stream].slos[which]
        if not more_than_late(question, bound.ask, slo.share):
            untrue(f"{where}/ask", "the objective allows all of them to be late")
        _check_least(bound, 1.0, where)
        rows = [
            ([of_type], ways)
            for (of_type, of_class), ways in question.ways.items()
            if of_class == ask.of_class
        ]
        rows += [
            (question.types_of(one), one.ways.get(ask.of_class, ())) for one in question.splits
        ]
        for types, ways in rows:
            there = float(bound.capacity[types].sum())
            if there < 1 - CLOSE and any(way.alone_s <= slo.latency_s for way in ways):
                text = f"{there!r}, less than 1 of what would do: devices of types {types}"
                untrue(f"{where}/capacity", text)

    def _check_pooled(self, bound: Bound, where: str) -> None:
        question, arrivals = self.question, self.arrivals
        for k, ask in enumerate(question.asks):
            if bound.slo[ask.stream] is not None and bound.worth[ask.of_class] < 1 - 1e-12:
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
        if not 0 < bound.requests <= len(arrivals) or not 0 < bound.error < 1:
            broken(f"{where}/requests", "no whole number of the arrivals, or without an error")
        mine[bound.requests :] = False
        share = share_of(question, bound.slo)
        time_s = arrivals.time_s[mine]
        if not len(time_s) or not misses(time_s, limit_s, bound.least, share, bound.error):
            untrue(f"{where}/least", "the arrivals do not say that this rate misses")


def _check_least(bound: Bound, most: float, where: str) -> None:
    if bound.least > most * (1 + 1e-12):
        untrue(f"{where}/least", f"more than {float(most)!r}, which is all that it must be")


# Simulations


class _Replay(Search):
    """Search that simulates the vectors of a certificate again, within a budget of task events."""

    def __init__(
        self, question: Question, policies: tuple[Policy, ...], bounds: Sequence[Bound],
        blocks: Sequence[Arrivals], budget: int,
    ) -> None:  # fmt: skip
        requests = sum(map(len, blocks))
        super().__init__(question, budget=requests, cut=False, policies=policies, bounds=())
        self._every, self._blocks, self._left = bounds, blocks, budget

    def known(self, played: Sequence[PlayedClaim]) -> dict[Counts, TriedVector]:
        """Return the vectors, simulated again in order. Raises BadCertificate, FalseClaim."""
        question, found = self.question, dict[Counts, TriedVector]()
        last: Counts | None = None
        for k, one in enumerate(played):
            where, counts = f"/played/{k}", one.counts
            if len(counts) != len(question.kinds):
                broken(f"{where}/counts", f"not of {len(question.kinds)} kinds")
            if not question.allows(counts):
                untrue(f"{where}/counts", "more than are available")
            if last is not None and question.key(counts) <= question.key(last):
                broken(f"{where}/counts", "does not come after the one before")
            met = any(tried.answer == "meets" for tried in found.values())
            found[counts] = self._again(one, where, first=not met)
            last = counts
        return found

    def _again(self, one: PlayedClaim, where: str, *, first: bool) -> TriedVector:
        """Simulate a vector, and compare it with the claim; `first`: none met before."""
        if not len(self.bounds) <= one.bounds <= len(self._every):
            broken(f"{where}/bounds", f"no whole number from {len(self.bounds)} on of bounds")
        self.bounds += self._every[len(self.bounds) : one.bounds]
        kinds = zip(one.counts, self.question.kinds, strict=True)
        devices = sum(n * len(kind.devices) for n, kind in kinds)
        self._spend(len(self.policies) * devices * (1 + devices // 64))
        try:
            found = self.play(one.counts, to_the_end=first)
        except UsageError as many:
            broken(where, many.what)
        if differs := _difference(
            one.runs, json.loads(json.dumps(runs_of(found))), f"{where}/runs"
        ):
            raise FalseClaim(differs)
        return found

    def _spend(self, events: int) -> None:
        self._left -= events
        if self._left < 0:
            raise BadCertificate(
                "/played: more task events than are to be played; allow them (--events)"
            )

    def _play(self, where: PlacedInstances, policy: Policy) -> SimulatedDeployment:
        # By server of a model: the longest of its ways.
        served = {
            (model, one.split, where.places[one.devices[0]].of_type): one
            for model, mine in enumerate(where.instances)
            for one in mine
        }
        tasks = max(
            len(way.tasks)
            for (model, *_), one in served.items()
            for way in where.ways_up_to(self.question, model, one, policy.max_batch)
        )
        # Each request may be matched against all instances.
        self._each = tasks + sum(map(len, where.instances)) // 64
        if self.question.given:
            self._spend(len(self._blocks[0]) * self._each)
        return super()._play(where, policy)

    def _comes(self) -> Iterator[Arrivals]:
        for block in self._blocks:
            self._spend(len(block) * self._each)
            yield block


def _difference(said: Any, found: Any, where: str) -> str:
    """Return the first difference between claim and result; empty without one."""
    rows: list[tuple[Any, Any, Any]] = []
    if isinstance(said, dict) and isinstance(found, dict) and said.keys() == found.keys():
        rows = [(key, said[key], found[key]) for key in found]
    elif isinstance(said, list) and isinstance(found, list):
        if len(said) != len(found):
            return f"{where}: {len(found)} entries when it is played again, and not {len(said)}"
        rows = [(k, *pair) for k, pair in enumerate(zip(said, found, strict=True))]
    elif said != found:
        was, told = (json.dumps(one)[:80] for one in (found, said))
        return f"{where}: {was} when it is played again, and not {told}"
    return next(filter(None, (_difference(a, b, f"{where}/{key}") for key, a, b in rows)), "")


# Descriptions


def _checked(
    claim: Claim, question: Question, came: Sequence[tuple[int, float, float]]
) -> Iterator[str]:
    """Yield descriptions of the question: streams with models, rates and objectives, policies."""
    for number, stream in enumerate(question.streams):
        own = [k for k, ask in enumerate(question.asks) if ask.stream == number]
        count, per_s = (sum(came[k][place] for k in own) for place in (0, 1))
        rate = f"{count:,} requests that are given"
        if not question.given:
            stated = sum(question.asks[k].rate_per_s or 0.0 for k in own)
            rate = f"{stated:.6g} requests a second"
            rate += f", {per_s:.6g} among {count:,} arrivals" if claim.arrivals else ""
        slos = " and ".join(
            f"{100 * slo.share:.10g} % within {1000 * slo.latency_s:.10g} ms" for slo in stream.slos
        )
        model = question.models[stream.model]
        yield f"stream {stream.name}: {model}, {rate}, {slos or 'no objective'}"
    yield f"policies played: {'; '.join(map(str, claim.policies))}"
    if not question.given:
        yield f"verdicts may be wrong by {ERROR:.6g} together"


def _trusted(
    claim: Claim, question: Question, came: Sequence[tuple[int, float, float]]
) -> Iterator[str]:
    """Yield descriptions of what is not compared with any figure of the certificate."""
    ways = sum(map(len, question.modes))
    yield f"seconds of devices and links, and memory: {ways:,} ways to serve a batch"
    unit = UNIT[question.aim]
    prices = [f"{one.name} {float(one.cost * unit):.10g}" for one in question.kinds]
    if question.aim != "devices":
        yield f"prices ({UNITS[question.aim]}): {', '.join(prices)}"
    yield "which kinds there are and how many, what hosts hold, what devices cannot run"
    if question.given:
        yield "that the arrivals are those of the workload"
    elif not claim.arrivals:
        yield "rates: there are no arrivals to compare them with"
    else:
        yield "the seed and length of the random arrivals, and rates within: " + ", ".join(
            f"{100 * off / (ask.rate_per_s or 1.0):.2g} %"
            for ask, (_, _, off) in zip(question.asks, came, strict=True)
        )
    files = len(claim.made_of.files)
    yield f"names and objectives are as the certificate says; its {files} digests were not compared"
