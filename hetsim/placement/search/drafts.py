"""Drafts of plans, the state of a search and its moves, as lists or arrays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hetsim.graph.dag import Ints, NodeRows
from hetsim.placement.coarsening import pays_to_coarsen
from hetsim.placement.listing.list_schedule import Room, add, remove
from hetsim.problem.columns import columns_of, made_by, travel_matrices
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT, Value
from hetsim.problem.problem import Problem

Array = Any

TRIED, FRESH, ASKING, ANSWER, LOOKED, CHANGED, CUT, SHIFTED, SOURCE = 0, 1, 2, 3, 4, 5, 6, 7, 8
BEGUN, ENDED, DRAWN, CRITICAL, STALE = 9, 10, 11, 12, 13
"""Indices into ``SearchState.counts``: moves tried; whether the best is unjudged; whether an answer
is awaited, and the answer; the move at the last judgement; of the last move: nodes with a new
device, the node whose cut was flipped or -1, and target and source position of a node or -1; of the
last estimate: its first position, and whether it reached the end; random words used; number of
critical nodes, and whether they are outdated."""
COUNTS = 14

NOW, BEST, SPENT, NEXT_LOOK, SCALE, TEMPERATURE, COST, LIMIT = 0, 1, 2, 3, 4, 5, 6, 7
"""Indices into ``SearchState.figures``. LIMIT: cost above which a draft is dropped unevaluated."""
FIGURES = 8

LONGEST = 8
"""Maximum number of nodes that a move changes."""

HURRIED = 0.8
"""Share of moves that concern critical nodes, if these are known."""

WORDS, SPARE = 2_048, 256
"""Number of random words drawn ahead, and an upper bound on the words that a move needs."""

STEP = 32
"""Number of positions between two marks, from which a changed draft is re-estimated."""

MARKED_FROM = 4 * STEP
"""Number of nodes from which marks save more time than they cost."""


@dataclass(slots=True)
class Draft:
    """Plan in a form that is cheap to change."""

    order: list[int]  # Nodes in a topological order
    device: list[int]  # By node
    cut: list[bool]  # By node: whether it opens a subgraph even if it could join one


def draft_of(problem: Problem, groups: Sequence[Group]) -> Draft:
    """Return the draft of the subgraphs `groups`, given in execution order."""
    index_of = {name: index for index, name in enumerate(problem.devices)}
    device, cut = [0] * problem.n, [False] * problem.n
    for group in groups:
        for v in group.nodes:
            device[v] = index_of[group.device]
        cut[group.nodes[0]] = True
    return Draft([v for group in groups for v in group.nodes], device, cut)


def estimates_groups(problem: Problem) -> bool:
    """Return whether drafts are estimated by subgraphs; else by single nodes with free links."""
    return pays_to_coarsen(problem) or problem.contention == "fifo"


class SearchProblem(NamedTuple):
    """Problem as lists or arrays."""

    nodes: int
    devices: int
    host: int  # -1 if there is none
    fifo: int
    grouped: int
    binds: int  # Whether memory is limited
    seconds: Array  # [n, P]
    input_s: Array
    # [n]: Seconds of the longest path from each node at least times, including and excluding it
    level: Array
    tail: Array
    dispatch_s: Array  # [P]
    lane_at: Array  # [P + 1]: Offset of each device's streams
    pred_at: Array
    pred: Array
    succ_at: Array
    succ: Array
    able_at: Array  # Devices that support each node
    able: Array
    takes: Array  # [n, P]
    movable: Array  # Nodes supported by more than one device
    read_at: Array  # By node its inputs from other nodes: value, producer, and `row` of the value
    read_value: Array
    read_from: Array
    read_row: Array
    given_at: Array  # By node the model inputs that it reads
    given: Array
    made_at: Array  # By node the values that it produces; the model inputs last
    made: Array
    # [n]: The only reader of all that a node produces; -1 if several, or the host
    sole: Array
    reader_at: Array  # By value its readers, and whether the host reads it
    reader: Array
    leaves: Array
    row: Array  # [values]: Offset of the row for its bytes in `travel_s`
    travel_s: Array  # [sizes, P, P]
    out_value: Array  # Model outputs and their producers
    out_from: Array
    hold_at: Array  # Links of the route from p to q, at p * P + q
    hold: Array
    constant_at: Array  # By node the constants that it reads
    constant: Array
    nbytes: Array  # [constants]


class SearchState(NamedTuple):
    """State of a search: the draft, the best draft, and scratch space."""

    order: Array  # [n]
    place: Array
    device: Array
    cut: Array
    best_order: Array
    best_device: Array
    best_cut: Array
    label: Array  # [n]: Subgraph by node
    # [n]: First and last node by subgraph; next node of the same subgraph, or -1
    head: Array
    tip: Array
    following: Array
    last: Array  # [P]
    ends: Array  # [n]
    lanes: Array  # [streams]
    turn: Array
    ahead: Array  # [P]: Seconds of work that a device still has to do
    # [P]: Total seconds of each device in the accepted and in the current draft, and seconds done
    # so far
    load: Array
    whole: Array
    done: Array
    kept: Array  # [n]: `ends` of the accepted draft
    rest: Array  # [n]: Seconds from a node's end to the end of that draft
    critical: Array  # [n]: Nodes without slack, in the first CRITICAL places
    # [marks, streams + 2 P + 1]: For the accepted and the current draft, lanes, turn, done and the
    # latest end before every STEP-th position. Without marks, all is re-estimated
    marks: Array
    changed_marks: Array
    busy: Array
    arrival: Array
    targets: Array  # [P]
    left: Array  # [P]: Memory, as in ``Room``
    readers: Array
    node: Array  # [LONGEST]: Nodes of the last move, and their previous devices
    own: Array
    words: Array  # [WORDS]: Random 32-bit words; ``counts[DRAWN]`` is the next one
    counts: Array  # [COUNTS]
    figures: Array


R = TypeVar("R", SearchProblem, SearchState)


def asked_of(
    problem: Problem, *, grouped: bool, binds: bool, arrays: bool = False
) -> SearchProblem:
    """Return the problem as lists or as arrays. O(V + E + sizes P^2)."""
    n, hosted, count = problem.n, problem.host is not None, len(problem.devices)
    fifo = problem.contention == "fifo"
    columns, values = columns_of(problem), problem.value_arrays
    latency_s, bytes_per_s = travel_matrices(problem)
    sizes, size = np.unique(values.nbytes, return_inverse=True)
    row = size * count**2
    # The host, which provides the inputs, follows the nodes.
    maker = np.where(values.producer == GRAPH_INPUT, n, values.producer)
    known = np.flatnonzero((maker < n) | hosted)
    outputs = np.flatnonzero(values.leaves & (maker < n) & hosted)
    value, reader = values.readers.owner, values.readers.node
    inner = maker[value] < n
    outer = ~inner & hosted
    read = NodeRows.sorted_by(n, reader[inner], value[inner])
    able = NodeRows.sorted_by(n, *np.nonzero(problem.supported))
    level: list[float] = columns.seconds.reshape(n, count).min(axis=1, initial=np.inf).tolist()
    tail = [0.0] * n
    for v in range(n - 1, -1, -1):
        tail[v] = max((level[w] for w in problem.dag.succs[v]), default=0.0)
        level[v] += tail[v]
    holds = [route.resources if fifo else () for ways in problem.routes for route in ways]
    fields: Any = {
        "nodes": n,
        "devices": count,
        "host": problem.host if problem.host is not None else -1,
        "fifo": int(fifo),
        "grouped": int(grouped),
        "binds": int(binds),
        "seconds": columns.seconds,
        "input_s": columns.arrival,
        "level": np.array(level),
        "tail": np.array(tail),
        "dispatch_s": np.array(problem.dispatch_s, dtype=np.float64),
        "lane_at": np.cumsum([0, *problem.streams]),
        **_rows("pred", problem.dag.pred_rows),
        **_rows("succ", problem.dag.succ_rows),
        **_rows("able", able),
        "takes": _ints(problem.supported),
        "movable": np.flatnonzero(np.diff(able.at) > 1),
        **_rows("read", read, "read_value"),
        "read_from": values.producer[read.node],
        "read_row": row[read.node],
        **_rows("given", NodeRows.sorted_by(n, reader[outer], value[outer])),
        **_rows("made", NodeRows.sorted_by(n + 1, maker[known], known)),
        "sole": _ints([_sole(problem, made) for made in made_by(problem)]),
        **_rows("reader", values.readers),
        "leaves": _ints(values.leaves & hosted),
        "row": row,
        "travel_s": (latency_s + sizes[:, None, None] / bytes_per_s).ravel(),
        "out_value": outputs,
        "out_from": values.producer[outputs],
        **_rows("hold", NodeRows.of(holds)),
        **_rows("constant", NodeRows.of(problem.constants_of)),
        "nbytes": _ints([constant.nbytes for constant in problem.constants]),
    }
    return SearchProblem(**fields) if arrays else listed(SearchProblem(**fields))


def search_of(
    asked: SearchProblem,
    links: int,
    draft: Draft,
    room: Room | None,
    *,
    marks: bool = True,
    arrays: bool = False,
) -> SearchState:
    """Return the initial state as lists or arrays, without random words."""
    n, count = asked.nodes, asked.devices
    place = np.zeros(n, dtype=np.int64)
    place[draft.order] = np.arange(n)
    left = room.left if room is not None else [0] * count
    readers = room.readers if room is not None else [0] * (len(asked.nbytes) * count)
    counts = np.zeros(COUNTS, dtype=np.int64)
    # Subgraphs may continue behind a mark.
    wide = int(asked.lane_at[-1]) + 2 * count + 1
    marked = 0 if asked.grouped or n < MARKED_FROM or not marks else (1 + n // STEP) * wide
    counts[LOOKED] = counts[CUT] = counts[SHIFTED] = -1
    counts[DRAWN] = WORDS
    drafts = ("best_order", "best_device", "best_cut", "critical")
    by_node = (*drafts, "label", "head", "tip", "following")
    by_device = ("turn", "ahead", "load", "whole", "done")
    fields: Any = {
        "order": _ints(draft.order),
        "place": place,
        "device": _ints(draft.device),
        "cut": _ints(draft.cut),
        **{name: np.zeros(n, dtype=np.int64) for name in by_node},
        **{name: np.zeros(count, dtype=np.int64) for name in ("last", "targets")},
        **{name: np.zeros(n) for name in ("ends", "kept", "rest")},
        "lanes": np.zeros(int(asked.lane_at[-1])),
        **{name: np.zeros(count) for name in by_device},
        **{name: np.zeros(marked) for name in ("marks", "changed_marks")},
        "busy": np.zeros(links),
        "arrival": np.zeros(len(asked.row) * count),
        "left": _ints(left),
        "readers": _ints(readers),
        **{name: np.zeros(LONGEST, dtype=np.int64) for name in ("node", "own")},
        "words": np.zeros(WORDS, dtype=np.int64),
        "counts": counts,
        "figures": np.zeros(FIGURES),
    }
    fields["figures"][LIMIT] = np.inf
    return SearchState(**fields) if arrays else listed(SearchState(**fields))


def refill(search: SearchState, rng: random.Random) -> None:
    """Replace the used random words by the next ones of `rng`."""
    drawn = int(search.counts[DRAWN])
    fresh = rng.getrandbits(32 * drawn).to_bytes(4 * drawn, "little")
    left = list(search.words[drawn:])
    search.words[:] = left + np.frombuffer(fresh, dtype="<u4").tolist()
    search.counts[DRAWN] = 0


def _sole(problem: Problem, made: Sequence[Value]) -> int:
    readers = {v for value in made for v in value.consumers}
    taken = problem.host is not None and any(value.is_output for value in made)
    return -1 if taken or len(readers) != 1 else readers.pop()


def listed(record: R) -> R:
    """Return a copy of a record with its arrays as lists."""
    kind = type(record)
    return kind(*(part.tolist() if isinstance(part, np.ndarray) else part for part in record))


def _rows(name: str, rows: NodeRows, entries: str = "") -> dict[str, Ints]:
    return {f"{name}_at": rows.at, entries or name: rows.node}


def _ints(numbers: Any) -> Ints:
    return np.ascontiguousarray(numbers, dtype=np.int64).reshape(-1)


def draw_share(search: SearchState) -> float:
    """Return a number in [0, 1) from two words, as Python's ``random`` does."""
    at, words = search.counts[DRAWN], search.words
    search.counts[DRAWN] = at + 2
    return float(((words[at] >> 5) * 67108864.0 + (words[at + 1] >> 6)) / 9007199254740992.0)


def draw_below(search: SearchState, count: int) -> int:
    """Return an integer below `count`, as Python's ``randrange`` does."""
    bits = 0
    while count >> bits:
        bits += 1
    at, words = search.counts[DRAWN], search.words
    found = words[at] >> (32 - bits)
    while found >= count:
        at += 1
        found = words[at] >> (32 - bits)
    search.counts[DRAWN] = at + 1
    return int(found)


def put(search: SearchState, source: int, target: int) -> None:
    """Move a node from one position of the order to another."""
    order, place = search.order, search.place
    v = order[source]
    if source < target:
        for k in range(source, target):
            order[k] = order[k + 1]
            place[order[k]] = k
    else:
        for k in range(source, target, -1):
            order[k] = order[k - 1]
            place[order[k]] = k
    order[target] = v
    place[v] = target


def weigh(asked: SearchProblem, search: SearchState, v: int, source: int, target: int) -> None:
    """Move the weights of a node to another device, even if they do not fit."""
    at, of, nbytes = asked.constant_at, asked.constant, asked.nbytes
    remove(at, of, nbytes, search.readers, search.left, v, source)
    add(at, of, nbytes, search.readers, search.left, v, target)


def undo(asked: SearchProblem, search: SearchState) -> None:
    """Undo the last move."""
    counts, device = search.counts, search.device
    if counts[CUT] >= 0:
        search.cut[counts[CUT]] = 1 - search.cut[counts[CUT]]
    if counts[SHIFTED] >= 0:
        put(search, counts[SHIFTED], counts[SOURCE])
    for k in range(counts[CHANGED]):
        v, own = search.node[k], search.own[k]
        if asked.binds:
            weigh(asked, search, v, device[v], own)
        device[v] = own


def assign(asked: SearchProblem, search: SearchState, size: int, target: int) -> bool:
    """Assign the first `size` of ``search.node`` to a device; return whether any changed."""
    node, own, device = search.node, search.own, search.device
    changed = 0
    for k in range(size):
        v = node[k]
        if device[v] != target and asked.takes[v * asked.devices + target]:
            node[changed] = v
            own[changed] = device[v]
            changed += 1
    for k in range(changed):
        device[node[k]] = target
        if asked.binds:
            weigh(asked, search, node[k], own[k], target)
    if asked.binds and changed > 0 and search.left[target] < 0:
        for k in range(changed):
            weigh(asked, search, node[k], target, own[k])
            device[node[k]] = own[k]
        changed = 0
    search.counts[CHANGED] = changed
    return changed > 0


def other(asked: SearchProblem, search: SearchState, v: int) -> int:
    """Return a random other device that supports a node."""
    first, after = asked.able_at[v], asked.able_at[v + 1]
    chosen = asked.able[first + draw_below(search, after - first - 1)]
    return int(asked.able[after - 1] if chosen == search.device[v] else chosen)


def follow(asked: SearchProblem, search: SearchState, v: int) -> int:
    """Put random nodes of one path into ``search.node``; return their number."""
    forth = draw_share(search) < 0.5
    steps = 1 + draw_below(search, 6)
    search.node[0] = v
    size = 1
    for _ in range(steps):
        if forth:
            first, after = asked.succ_at[v], asked.succ_at[v + 1]
        else:
            first, after = asked.pred_at[v], asked.pred_at[v + 1]
        if first == after:
            break
        k = first + draw_below(search, after - first)
        v = asked.succ[k] if forth else asked.pred[k]
        search.node[size] = v
        size += 1
    return size


def shift(asked: SearchProblem, search: SearchState, v: int) -> bool:
    """Move a node in the order between its predecessors and successors; return if it moved."""
    place = search.place
    low, high = 0, asked.nodes - 1
    for k in range(asked.pred_at[v], asked.pred_at[v + 1]):
        low = max(low, place[asked.pred[k]] + 1)
    for k in range(asked.succ_at[v], asked.succ_at[v + 1]):
        high = min(high, place[asked.succ[k]] - 1)
    if low >= high:
        return False
    source = place[v]
    target = low + draw_below(search, high - low)
    if target >= source:
        target += 1
    put(search, source, target)
    search.counts[SHIFTED] = target
    search.counts[SOURCE] = source
    return True


def overtake(asked: SearchProblem, search: SearchState, v: int) -> bool:
    """Move a node ahead of one to four predecessors on its device; return whether it moved."""
    place, low = search.place, 0
    for k in range(asked.pred_at[v], asked.pred_at[v + 1]):
        low = max(low, place[asked.pred[k]] + 1)
    source = target = i = place[v]
    left = 1 + draw_below(search, 4)
    while i > low and left > 0:
        i -= 1
        if search.device[search.order[i]] == search.device[v]:
            target = i
            left -= 1
    if target == source:
        return False
    put(search, source, target)
    search.counts[SHIFTED] = target
    search.counts[SOURCE] = source
    return True


def nearby(asked: SearchProblem, search: SearchState, v: int) -> int:
    """Return the device of a random neighbour of a node, or any other if that is its own."""
    first, size = asked.pred_at[v], asked.pred_at[v + 1] - asked.pred_at[v]
    near = size + asked.succ_at[v + 1] - asked.succ_at[v]
    if near > 0:
        k = draw_below(search, near)
        u = asked.pred[first + k] if k < size else asked.succ[asked.succ_at[v] + k - size]
        p = search.device[u]
        if p != search.device[v] and asked.takes[v * asked.devices + p]:
            return int(p)
    return other(asked, search, v)


def hurry(asked: SearchProblem, search: SearchState, v: int, kind: float) -> bool:
    """Move a node ahead on its device, or it or a path to another device, or both."""
    if kind < 0.3 or asked.able_at[v + 1] - asked.able_at[v] == 1:
        return overtake(asked, search, v)
    target = nearby(asked, search, v) if kind < 0.6 else other(asked, search, v)
    search.node[0] = v
    size = follow(asked, search, v) if 0.6 <= kind < 0.7 else 1
    changed = assign(asked, search, size, target)
    if kind >= 0.7:
        shifted = overtake(asked, search, v)
        return changed or shifted
    return changed


def propose(asked: SearchProblem, search: SearchState) -> bool:
    """Change the draft; return whether anything changed."""
    counts, n = search.counts, asked.nodes
    counts[CHANGED] = 0
    counts[CUT] = counts[SHIFTED] = -1
    kind = draw_share(search)
    if counts[CRITICAL] > 0 and draw_share(search) < HURRIED:
        return hurry(asked, search, search.critical[draw_below(search, counts[CRITICAL])], kind)
    if asked.grouped and kind < 0.15:
        v = draw_below(search, n)
        search.cut[v] = 1 - search.cut[v]
        counts[CUT] = v
        return True
    if len(asked.movable) == 0 or kind < 0.45:
        return shift(asked, search, draw_below(search, n))
    v = asked.movable[draw_below(search, len(asked.movable))]
    size = 1
    if 0.70 <= kind < 0.85:
        size = follow(asked, search, v)
    search.node[0] = v
    changed = assign(asked, search, size, other(asked, search, v))
    if kind >= 0.85:
        shifted = shift(asked, search, v)
        return changed or shifted
    return changed
