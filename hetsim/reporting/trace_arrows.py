"""Which arrows a trace draws: from the maker of a value to its transfer, and on to its readers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hetsim.plans.events import Events, Ints
from hetsim.plans.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Arrows:
    """From which event to which an arrow leads, and the index of the one that is its transfer."""

    source: Ints
    target: Ints
    transfer: Ints


def arrows_of(plan: Plan, events: Events) -> Arrows:
    """Return those from the maker of a value to its transfer, and from that to each reader.

    By their transfers, each the one to it first. O(E log E) for E events.
    """
    computes = np.array([one.kind == "compute" and one.group >= 0 and not one.lost
                         for one in events.sorts], dtype=bool)  # fmt: skip
    group = np.array([one.group for one in events.sorts], dtype=np.int64)
    most = int(group.max(initial=0)) + 2
    computing = np.flatnonzero(computes[events.sort])
    keys = events.request[computing] * most + group[events.sort[computing]]
    by_key = np.argsort(keys, kind="stable")
    keys, computing = keys[by_key], computing[by_key]

    def when_computed(of: Ints, group: int) -> Ints:
        """The last event that computed a group for the requests of events `of`; -1: none did."""
        if group < 0 or group >= most or not keys.size:
            return np.full(of.size, -1, dtype=np.int64)
        wanted = events.request[of] * most + group
        at = np.searchsorted(keys, wanted, side="right") - 1
        return np.where((at >= 0) & (keys[at] == wanted), computing[at], -1)

    found: list[tuple[Ints, Ints, Ints, int]] = []
    for sort, readers, own in _transfers(plan, events):
        one = events.sorts[sort]
        maker = when_computed(own, one.group)
        # What was done again after a failure may have been done after it was sent on.
        some = (maker >= 0) & (events.start_s[maker] <= events.start_s[own])
        found.append((maker[some], own[some], own[some], 0))
        for place, reader in enumerate(readers, start=1):
            # After a failure a subgraph may have been given up for others.
            if reader >= 0 and plan.groups[reader].device == one.device:
                reading = when_computed(own, reader)
                some = (reading >= 0) & (events.start_s[own] <= events.start_s[reading])
                found.append((own[some], reading[some], own[some], place))
    nothing = np.zeros(0, dtype=np.int64)
    source, target, transfer = (
        np.concatenate([nothing, *(one[column] for one in found)]) for column in range(3)
    )
    turn = np.repeat([one[3] for one in found], [one[0].size for one in found])
    order = np.lexsort((turn, transfer))
    return Arrows(source[order], target[order], transfer[order])


def _transfers(plan: Plan, events: Events) -> Iterator[tuple[int, list[int], Ints]]:
    """Yield transfers of one sort and replica: the sort, the groups that read it, the events."""
    problem = plan.problem
    owners: list[list[int]] = []
    for first, one in zip(plan.offsets, plan.replicas, strict=True):
        owner = [-1] * problem.n
        for index, group in enumerate(one.groups, start=first):
            for node in group.nodes:
                owner[node] = index
        owners.append(owner)
    consumers = {value.name: value.consumers for value in problem.values}
    deal = np.array(plan.period, dtype=np.int64)
    moved = np.array([one.kind == "transfer" for one in events.sorts], dtype=bool)
    own = np.flatnonzero(moved[events.sort])
    code = events.sort[own].astype(np.int64) * len(owners) + deal[events.request[own] % deal.size]
    by_code = np.argsort(code, kind="stable")
    codes, first_of = np.unique(code[by_code], return_index=True)
    for which, members in zip(codes.tolist(), np.split(own[by_code], first_of[1:]), strict=False):
        sort, replica = divmod(which, len(owners))
        readers = {owners[replica][node] for node in consumers.get(events.sorts[sort].name, ())}
        yield sort, sorted(readers), members


def ranks_of(arrows: Arrows, start_ns: Ints, length_ns: Ints) -> Ints:
    """Return by event how many before it, without duration, it waited for at its own time.

    An arrow must begin in a trace before it ends, at one time, too.
    """
    rank: dict[int, int] = {}
    after: dict[int, list[int]] = {}
    waits: dict[int, int] = {}
    source, target = arrows.source, arrows.target
    at_once = (length_ns[source] == 0) & (start_ns[source] == start_ns[target])
    for first, then in zip(source[at_once].tolist(), target[at_once].tolist(), strict=True):
        after.setdefault(first, []).append(then)
        waits[then] = waits.get(then, 0) + 1
    ready = [event for event in after if event not in waits]
    while ready:
        event = ready.pop()
        for other in after.get(event, ()):
            rank[other] = max(rank.get(other, 0), rank.get(event, 0) + 1)
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    found = np.zeros(length_ns.size, dtype=np.int64)
    found[list(rank)] = list(rank.values())
    return found
