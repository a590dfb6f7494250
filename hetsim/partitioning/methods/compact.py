"""Merge method ``compact``: few connected groups, by contraction that never closes a cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import stage
from hetsim.partitioning.scans import scanned
from hetsim.problem.groups import components, first_of_label

VISITS_PER_EDGE = 32
"""Visits of edges by searches, per edge and node, before the method gives up; few are needed."""


LEAST_BUDGETED = 30_000
"""Minimum number of nodes and edges for the budget, as searches in small graphs are short."""

VISITS_WITH_HOST = 8
"""The same for large graphs with the host's nodes left unmerged, before that is given up."""

THOROUGH_UP_TO = 10_000
"""Maximum number of nodes for all four scans; above, only the two that differ most are made."""

EVERY_START_UP_TO = 4_000
"""Nodes times initial results up to which each equally good one is completed."""

Cost = tuple[int, int]
"""Number of groups off the host, and in total; without a host the first is 0."""

_SCANS = ((False, False), (True, True), (False, True), (True, False))
"""(from the sinks, producer by producer) for each scan, in order."""


def merge(dag: Dag, device_of: Sequence[int], host: int | None = None) -> list[int]:
    """Return a connected group label per node, aiming at the fewest groups.

    Edges inside a device are contracted one by one on the graph of groups, whose topological order
    is maintained; an edge is skipped if another path joins its ends, as its contraction would close
    a cycle. Earlier contractions restrict later ones, so edges are scanned from the sources, reader
    by reader, and from the sinks, producer by producer; graphs of up to THOROUGH_UP_TO nodes are
    also scanned the other two ways. The smallest result is kept, ties going to the first. If long
    edges make the searches too slow, a scan ends early with valid groups; a last scan then starts
    from the connected parts of the ``stage`` groups.

    With a `host`, groups on the other devices count first, as those are compiled and dispatched:
    they are minimized with the host's nodes unmerged, and then the host's nodes are merged as far
    as possible. Graphs of up to THOROUGH_UP_TO nodes are also solved without that, and the better
    result is kept; larger ones are scanned once for each of the two steps.

    A scan decides every edge once without backtracking, so it can miss the minimum. For graphs of
    up to THOROUGH_UP_TO nodes, weakly connected parts of up to ``SEARCHED_UP_TO`` nodes are
    searched for the minimum, groups off the host first.

    The search ends as soon as a result meets the lower bound (``_least``).

    Complexity: O((V + E) * VISITS_PER_EDGE) at most; near linear on layered graphs.
    """
    least = _least(dag, device_of, host) if dag.n <= THOROUGH_UP_TO else (0, 0)
    if host is None or host not in device_of:
        scanned = _smallest(_scans(dag, device_of), lambda labels: (0, _count(labels)), least)
        return improve(dag, device_of, scanned) if dag.n <= THOROUGH_UP_TO else scanned
    apart = [device if device != host else -1 - v for v, device in enumerate(device_of)]
    if dag.n > THOROUGH_UP_TO:
        labels, finished = _contract(dag, apart, None, by_producer=False, visits=VISITS_WITH_HOST)
        if not finished:
            return min(_scans(dag, device_of), key=_count)
        return _contract(dag, device_of, labels, by_producer=False)[0]

    def found() -> Iterator[list[int]]:
        scans = _scans(dag, apart)
        starts = [next(scans)]
        different: dict[bytes, list[int]] = {}
        if _count(starts[0]) == least[0] + device_of.count(host):
            # No other result can be smaller.
            yield from _around(dag, device_of, starts[0])
            different = {_of_first(starts[0]): []}
        starts = sorted([*starts, *scans], key=_count)
        most = max(1, EVERY_START_UP_TO // max(dag.n, 1))
        for start in [one for one in starts if _count(one) == _count(starts[0])][:most]:
            # Scans often yield the same groups under different representatives.
            if different.setdefault(_of_first(start), start) is start:
                yield from _around(dag, device_of, start)
        yield from _scans(dag, device_of)

    def size(labels: Sequence[int]) -> Cost:
        pairs = zip(labels, device_of, strict=True)
        return len({label for label, device in pairs if device != host}), _count(labels)

    return improve(dag, device_of, _smallest(found(), size, least), host)


def _count(labels: Sequence[int]) -> int:
    return len(set(labels))


def _of_first(labels: Sequence[int]) -> bytes:
    return first_of_label(np.array(labels)).tobytes()


def _smallest(
    found: Iterable[list[int]], size: Callable[[Sequence[int]], Cost], least: Cost
) -> list[int]:
    """Return the smallest result, the first of equal ones; stop at one that meets `least`."""
    best: tuple[Cost, list[int]] | None = None
    for labels in found:
        cost = size(labels)
        if best is None or cost < best[0]:
            best = cost, labels
        if cost == least:
            break
    assert best is not None
    return best[1]


MOST_COUNTED = 4_000_000
"""Nodes times single-device parts up to which the lower bound is computed."""


def _least(dag: Dag, device_of: Sequence[int], host: int | None) -> Cost:
    """Return lower bounds on groups off the host and in total; 0 for too large graphs.

    A group lies within one connected part of a device, and if a path leaves the part and returns,
    its ends are in different groups, or these would be on a cycle. So a part has at least as many
    groups as visits of any path to it. O(E parts).
    """
    parts = np.array(components(dag, device_of), dtype=np.int64)
    first, part_of = np.unique(parts, return_inverse=True)
    if dag.n * len(first) > MOST_COUNTED:
        return 0, 0
    part, times = part_of.tolist(), np.zeros((dag.n, len(first)), dtype=np.int32)
    for v, preds in enumerate(dag.preds):
        own, most = part[v], 1
        for u in preds:
            np.maximum(times[v], times[u], out=times[v])
            most = max(most, int(times[u, own]) + (part[u] != own))
        times[v, own] = most
    each = times.max(axis=0, initial=0)
    apart = [host is not None and device_of[v] != host for v in first.tolist()]
    return int(each @ np.array(apart, dtype=np.int64)), int(each.sum())


def _around(dag: Dag, device_of: Sequence[int], groups: Sequence[int]) -> Iterator[list[int]]:
    """Yield `groups` after merging what else can be merged, scanned from either end."""
    yield _contract(dag, device_of, groups, by_producer=False)[0]
    mirror = dag.mirrored()
    yield _contract(mirror, device_of[::-1], groups[::-1], by_producer=True)[0][::-1]


def _scans(dag: Dag, device_of: Sequence[int]) -> Iterator[list[int]]:
    """Yield the result of each scan in order; see ``merge``."""
    mirror = dag.mirrored()
    for backwards, by_producer in _SCANS if dag.n <= THOROUGH_UP_TO else _SCANS[:2]:
        if backwards:
            labels, finished = _contract(mirror, device_of[::-1], None, by_producer=by_producer)
            labels.reverse()
        else:
            labels, finished = _contract(dag, device_of, None, by_producer=by_producer)
        yield labels
        if not finished:
            parts = components(dag, stage.merge(dag, device_of))
            yield _contract(dag, device_of, parts, by_producer=False)[0]
            break


def _contract(
    dag: Dag,
    device_of: Sequence[int],
    groups: Sequence[int] | None,
    *,
    by_producer: bool,
    visits: int | None = None,
) -> tuple[list[int], bool]:
    """Return the labels after one scan from `groups` or nodes, and whether the budget lasted."""
    each = VISITS_PER_EDGE if visits is None else visits
    budget = each * max(dag.n + sum(map(len, dag.preds)), LEAST_BUDGETED)
    return scanned(dag, device_of, budget, groups=groups, by_producer=by_producer)


SEARCHED_UP_TO = 12
"""Maximum number of nodes of a weakly connected part to search exhaustively."""


def improve(
    dag: Dag, device_of: Sequence[int], labels: Sequence[int], host: int | None = None
) -> list[int]:
    """Return the groups `labels`, or fewer if a small part of the graph allows it.

    No group and no cycle of groups spans two weakly connected parts. In every part of up to
    SEARCHED_UP_TO nodes the result has the minimum ``Cost`` over connected single-device groups
    with an acyclic graph. Groups are labelled by their first node.

    Complexity: O(V + E), plus up to 3^k steps for a searched part of k nodes; most parts end when
    `labels` meets a bound.
    """
    first: dict[int, int] = {}
    found = [first.setdefault(label, node) for node, label in enumerate(labels)]
    for nodes in dag.parts:
        if 1 < len(nodes) <= SEARCHED_UP_TO:
            groups = {found[v]: device_of[v] for v in nodes}
            off = 0 if host is None else sum(device != host for device in groups.values())
            for group in _GroupSearch(dag, device_of, nodes, host).below((off, len(groups))):
                for node in group:
                    found[node] = group[0]
    return found


class _GroupSearch:
    """Search of one part, with its nodes as bits in graph order.

    A sequence of groups in execution order is a walk from the empty to the full set of nodes in
    which every step adds a group whose inputs are already included. The cheapest walk to each set
    is kept; the rest costs at least the changes of device along one path.
    """

    def __init__(
        self, dag: Dag, device_of: Sequence[int], nodes: Sequence[int], host: int | None
    ) -> None:
        at = {node: k for k, node in enumerate(nodes)}
        self.nodes = nodes
        self.device = [device_of[node] for node in nodes]
        self.off = [int(host is not None and device != host) for device in self.device]
        self.succs = [[at[w] for w in dag.succs[node]] for node in nodes]
        self.before: list[int] = []
        for node in nodes:
            ancestors = 0
            for u in dag.preds[node]:
                ancestors |= self.before[at[u]] | 1 << at[u]
            self.before.append(ancestors)
        self.kin = [
            sum(1 << k for k, other in enumerate(self.device) if other == device)
            for device in self.device
        ]
        self.tail: list[Cost] = [(0, 0)] * len(nodes)
        for k in reversed(range(len(nodes))):
            # A node that leaves its device on a path has a group which the rest does not count.
            later = [(0, 0)] + [self.tail[w] for w in self.succs[k] if self._alike(k, w)]
            other = [(0, 0)] + [self.tail[w] for w in self.succs[k] if not self._alike(k, w)]
            own = self.off[k]
            self.tail[k] = (
                max(own, max(a for a, _ in later), own + max(a for a, _ in other)),
                max(max(b for _, b in later), 1 + max(b for _, b in other)),
            )

    def _alike(self, k: int, other: int) -> bool:
        return self.device[k] == self.device[other]

    def below(self, known: Cost) -> list[tuple[int, ...]]:
        """Return the groups of least cost if that is below `known`, otherwise none."""
        full = (1 << len(self.nodes)) - 1
        best = known
        cost: dict[int, Cost] = {0: (0, 0)}
        came: dict[int, int] = {}
        waiting: list[list[int]] = [[] for _ in range(len(self.nodes) + 1)]
        waiting[0].append(0)
        for sets in waiting:
            for done in sets:
                so_far = cost[done]
                if not self._worth(done, so_far, best):
                    continue
                for k, group in self._groups(done):
                    reached = (so_far[0] + self.off[k], so_far[1] + 1)
                    target = done | group
                    if reached >= best or reached >= cost.get(target, best):
                        continue
                    if target not in cost:
                        waiting[target.bit_count()].append(target)
                    cost[target] = reached
                    came[target] = done
                    if target == full:
                        best = reached
        if full not in came:
            return []
        groups: list[tuple[int, ...]] = []
        done = full
        while done:
            added = done & ~came[done]
            groups.append(tuple(node for k, node in enumerate(self.nodes) if added >> k & 1))
            done = came[done]
        return groups

    def _worth(self, done: int, so_far: Cost, best: Cost) -> bool:
        """Return whether the remainder of `done` may end below `best`."""
        left = [tail for k, tail in enumerate(self.tail) if not done >> k & 1]
        if not left:
            return False
        off, every = max(a for a, _ in left), max(b for _, b in left)
        return (so_far[0] + off, so_far[1] + every) < best

    def _groups(self, done: int) -> Iterator[tuple[int, int]]:
        """Yield every connected group that can run next, with one of its nodes."""
        own: dict[int, int] = {}
        for k in range(len(self.nodes)):
            needs = (self.before[k] | 1 << k) & ~done
            if not done >> k & 1 and not needs & ~self.kin[k]:
                own[k] = needs
        seen: set[int] = set()
        pending = list(own.items())
        while pending:
            k, group = pending.pop()
            if group in seen:
                continue
            seen.add(group)
            yield k, group
            # All inputs of its nodes are inside, so it grows by its readers.
            members = (m for m in range(len(self.nodes)) if group >> m & 1)
            readers = {w for m in members for w in self.succs[m] if not group >> w & 1}
            pending += [(k, group | own[w]) for w in readers if w in own and self._alike(k, w)]
