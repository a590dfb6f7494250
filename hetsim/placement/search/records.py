"""A problem, and a search in it, in arrays of one dimension, as machine code takes them."""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any

TRIED, FRESH, ASKING, ANSWER, LOOKED, CHANGED, CUT, SHIFTED, SOURCE = 0, 1, 2, 3, 4, 5, 6, 7, 8
BEGUN, ENDED = 9, 10
"""Places in ``Search.counts``: moves tried; whether the best is not judged yet; whether an answer
is awaited, and the answer; the move before which the judge was last called; of the last move: nodes
with another device, the node whose cut was flipped or -1, where a node was put or -1, and from;
of the last draft: from which place in the order on it was estimated, and whether to the end."""
COUNTS = 11

NOW, BEST, SPENT, NEXT_LOOK, SCALE, TEMPERATURE, COST, LIMIT = 0, 1, 2, 3, 4, 5, 6, 7
"""Places in ``Search.figures``. LIMIT: what costs more is dropped, and how much more not asked."""
FIGURES = 8

LONGEST = 8
"""Nodes that a move changes at most."""


STEP = 32
"""Places in the order between two marks, from which on a changed draft is estimated anew."""


class Asked(NamedTuple):
    """A problem in arrays of one dimension; of two, row after row.

    Attributes
    ----------
    nodes, devices, host, fifo, grouped, binds : int
        `host` is -1 where there is none; `binds` whether memory counts.
    seconds, input_s : float [n, P]
    level, tail : float [n]
        Seconds of the longest way from each node on where all are quickest, with it and without.
    dispatch_s : float [P]
    lane_at : int [P + 1]
        Where each device's streams begin.
    pred_at, pred, succ_at, succ : int
    able_at, able : int
        Devices that take each node.
    takes : int [n, P]
    movable : int
        Nodes that more than one device takes.
    read_at, read_value, read_from : int
        By node what it reads of other nodes: value and producer.
    given_at, given : int
        By node the inputs that it reads.
    made_at, made : int
        By node the values that it makes; at last the inputs.
    reader_at, reader, leaves : int
        By value the nodes that read it, and whether the host does.
    size : int [values]
        Which row of `travel_s` is of its bytes.
    travel_s : float [sizes, P, P]
    out_value, out_from : int
        Outputs and who makes them.
    hold_at, hold : int
        Links of the route from p to q, at p * P + q.
    constant_at, constant : int
        By node the constants that it reads.
    nbytes : int [constants]
    """

    nodes: int
    devices: int
    host: int
    fifo: int
    grouped: int
    binds: int
    seconds: Array
    input_s: Array
    level: Array
    tail: Array
    dispatch_s: Array
    lane_at: Array
    pred_at: Array
    pred: Array
    succ_at: Array
    succ: Array
    able_at: Array
    able: Array
    takes: Array
    movable: Array
    read_at: Array
    read_value: Array
    read_from: Array
    given_at: Array
    given: Array
    made_at: Array
    made: Array
    reader_at: Array
    reader: Array
    leaves: Array
    size: Array
    travel_s: Array
    out_value: Array
    out_from: Array
    hold_at: Array
    hold: Array
    constant_at: Array
    constant: Array
    nbytes: Array


class Search(NamedTuple):
    """A draft, the best one, and room to work in.

    Attributes
    ----------
    order, place, device, cut, best_order, best_device, best_cut : int [n]
    label, member_at, member : int [n], [n + 1], [n]
        Subgraph by node; nodes by subgraph.
    last : int [P]
    ends : float [n]
    lanes, turn, busy, arrival : float [streams], [P], [links], [values, P]
    ahead : float [P]
        Seconds of what a device still has to do.
    load, whole, done : float [P]
        Seconds of what each device has in all, as the draft stands that was taken last, and as it
        stands now; and of what it has done so far.
    kept : float [n]
        `ends` of the draft that was taken last.
    marks, changed_marks : float [marks, streams + 2 P + 1]
        Of the draft that was taken last, and of the one that is estimated: lanes, turn, done and
        the latest end before every STEP-th place in the order. No marks: all is estimated anew.
    targets : int [P]
    left, readers : int [P], [P, constants]
        Memory, as ``Room`` has it.
    node, own : int [LONGEST]
        Of the last move, nodes and the devices that they had.
    twister : int [625]
        The state of a Mersenne twister, as Python's ``Random`` has it.
    counts, figures : int [COUNTS], float [FIGURES]
    """

    order: Array
    place: Array
    device: Array
    cut: Array
    best_order: Array
    best_device: Array
    best_cut: Array
    label: Array
    member_at: Array
    member: Array
    last: Array
    ends: Array
    lanes: Array
    turn: Array
    ahead: Array
    load: Array
    whole: Array
    done: Array
    kept: Array
    marks: Array
    changed_marks: Array
    busy: Array
    arrival: Array
    targets: Array
    left: Array
    readers: Array
    node: Array
    own: Array
    twister: Array
    counts: Array
    figures: Array
