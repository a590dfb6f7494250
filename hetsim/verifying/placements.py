"""Every placement of few models on a vector: was each played, or does a bound exclude it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, product
from math import comb, prod

import numpy as np

from hetsim.verifying.bounds import MARGIN, Bound, Way
from hetsim.verifying.node import Broken
from hetsim.verifying.question import Array, Policy, Question
from hetsim.verifying.runs import Run, Stands, useful_of

Load = tuple[tuple[int, ...], ...]
"""Of one copy of a kind: by device, the models that it serves."""


class Placements:
    """Placements of whole models by one policy, and what bounds say of them.

    `budget`: how many devices of placements are looked at.
    """

    def __init__(
        self, question: Question, bounds: Sequence[Bound], ways: Sequence[Way], budget: int
    ) -> None:
        self._question, self._bounds, self._ways = question, bounds, ways
        self._edges = np.array([one.least * (1 - MARGIN) if one.worth else -1.0 for one in bounds])
        self._left = budget
        self._known: dict[tuple[int, int], tuple[list[Load], list[Array]]] = {}
        self._useful: dict[int, list[set[tuple[int, int]]]] = {}
        self._earns: dict[int, Array] = {}

    def unseen(self, counts: Sequence[int], policy: int, runs: Sequence[Run]) -> str:
        """Return a placement that no bound excludes, and none of the runs, which miss, is of.

        Empty where there is none. A copy of a kind serves nothing only where the vector without it
        could not be had. Raises Broken where there are more than may be looked at.
        """
        question = self._question
        by = question.policies[policy]
        seen = {
            self._same(counts, one.stand, question.policies[one.policy])
            for one in runs
            if one.stand
        }
        copies = [(kind, copy) for kind, count in enumerate(counts) for copy in range(count)]
        sizes = [1 << sum(map(len, self._sets(kind, policy))) for kind, _ in copies]
        devices = len(question.devices_of(list(counts)))
        ways = sum(comb(devices, many) for many in range(question.losses + 1))
        self._spend(prod(sizes) * max(devices, 1) * ways * (1 + len(self._bounds) // 100))
        loads, gathers = [], []
        for kind, _ in copies:
            fewer = [count - (at == kind) for at, count in enumerate(counts)]
            idle = not question.allows(fewer)
            each, gathered = self._of_kind(kind, policy)
            rows = [at for at, load in enumerate(each) if idle or any(load)]
            loads.append([each[at] for at in rows])
            gathers.append([gathered[at] for at in rows])
        for which in product(*map(range, map(len, loads))):
            total = sum(rows[at] for rows, at in zip(gathers, which, strict=True))
            if (total < self._edges).any():
                continue
            stand = self._stand(copies, [rows[at] for rows, at in zip(loads, which, strict=True)])
            if all(stand) and not any(
                not all(left) or self._same(counts, left, by) in seen
                for left in self._losing(stand)
            ):
                return f"models on devices {[[one[2][0] for one in mine] for mine in stand]}"
        return ""

    def _spend(self, devices: int) -> None:
        self._left -= devices
        if self._left < 0:
            raise Broken("/tried: too many placements are to be looked at; allow them (--events)")

    def _sets(self, kind: int, policy: int) -> list[list[int]]:
        """By device of a kind, the models that it serves."""
        models = range(self._question.models)
        if policy not in self._useful:
            by = self._question.policies[policy]
            self._useful[policy] = [
                useful_of(self._question, model, by, self._ways) for model in models
            ]
        useful = self._useful[policy]
        places = range(len(self._question.kinds[kind].devices))
        return [[model for model in models if (kind, at) in useful[model]] for at in places]

    def _of_kind(self, kind: int, policy: int) -> tuple[list[Load], list[Array]]:
        """What one of a kind may serve, and what it then gathers, by bound."""
        if (kind, policy) not in self._known:
            by = self._question.policies[policy]
            each = [
                [
                    on
                    for many in range(len(able) + 1)
                    for on in combinations(able, many)
                    if not any(of == device and set(on) >= models for of, models in by.refused)
                ]
                for able, device in zip(
                    self._sets(kind, policy), self._question.kinds[kind].devices, strict=True
                )
            ]
            loads: list[Load] = list(product(*each))
            self._spend(len(loads) * len(self._ways))
            self._known[kind, policy] = loads, [self._gathers(kind, one, by) for one in loads]
        return self._known[kind, policy]

    def _gathers(self, kind: int, load: Load, policy: Policy) -> Array:
        """By bound: the capacity of devices and links, each the part that its best way earns."""
        part: dict[tuple[bool, int], Array] = {}
        for number, way in enumerate(self._ways):
            if way.kinds != [kind] or len(way.devices) != 1 or way.batch > policy.max_batch:
                continue
            (_, place, takes), model = way.devices[0], self._question.classes[way.of]
            if model not in load[place]:
                continue
            if number not in self._earns:
                self._earns[number] = np.array(
                    [one.earned(way, self._question) if one.worth else 0.0 for one in self._bounds]
                )
            uses = [(False, place)] if takes else []
            uses += [(True, link) for link, seconds in enumerate(way.links) if seconds]
            for use in uses:
                part[use] = np.maximum(part.get(use, 0.0), self._earns[number])
        total = np.zeros(len(self._bounds))
        for (link, at), earned in part.items():
            device = 0 if link else self._question.kinds[kind].devices[at]
            prices = [
                one.prices.links[kind][at] if link else one.prices.devices[device]
                for one in self._bounds
            ]
            total += np.array(prices) * earned
        return total

    def _stand(
        self, copies: Sequence[tuple[int, int]], loads: Sequence[Load]
    ) -> list[list[Stands]]:
        """Return what serves each model, as runs have it: device after device."""
        found: list[list[Stands]] = [[] for _ in range(self._question.models)]
        on = [(copy, models) for copy, load in zip(copies, loads, strict=True) for models in load]
        for device, (copy, models) in enumerate(on):
            for model in models:
                found[model].append(((), [copy], [device]))
        return found

    def _losing(self, stand: Sequence[Sequence[Stands]]) -> Iterator[list[list[Stands]]]:
        """Return what is left, with nothing lost and with as many devices as may be."""
        used = sorted({one[2][0] for mine in stand for one in mine})
        ways = (combinations(used, many) for many in range(self._question.losses + 1))
        for lost in chain.from_iterable(ways):
            yield [[one for one in mine if one[2][0] not in lost] for mine in stand]

    def _same(
        self, counts: Sequence[int], stand: Sequence[Sequence[Stands]], policy: Policy
    ) -> object:
        """What a run of whole models follows from, whichever copies of kinds they are on."""
        if any(len(one[2]) > 1 for mine in stand for one in mine):
            return None
        number: dict[tuple[int, int], int] = {}
        of = self._question.devices_of(list(counts))
        rows = tuple(
            tuple((of[device], number.setdefault(copy, len(number))) for _, (copy,), (device,) in m)
            for m in stand
        )
        routed = policy.routing if any(len(mine) > 1 for mine in stand) else ""
        return rows, repr(replace(policy, placement="", refused=(), routing=routed))
