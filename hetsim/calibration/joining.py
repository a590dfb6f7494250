"""What the runtime runs as one kernel, and in which layout, learnt from its profiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from hetsim.calibration.points import matched_nodes
from hetsim.calibration.record import Taken
from hetsim.cost.kernels.epilogues import joints
from hetsim.cost.kernels.layouts import COPIES, copies_of
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work


def learnt_joins(
    measured: Iterable[tuple[Model, Taken]],
) -> Mapping[str, frozenset[str]] | None:
    """Return by form what joins kernels in most of the places where it could.

    None where the runtime told of no kernels. O(nodes).
    """
    tries: dict[tuple[str, str], list[bool]] = {}
    told = False
    for model, taken in measured:
        if not taken.kernels:
            continue
        told = True
        _, nodes = matched_nodes(model, taken)
        kernels: dict[int, set[int]] = {}
        for index, each in enumerate(nodes):
            for v in each:
                kernels.setdefault(v, set()).add(index)
        for joint in joints(model.graph, graph_work(model.graph)):
            root = kernels.get(joint.root, set())
            within = all(kernels.get(v, root) & root for v in joint.nodes)
            tries.setdefault((joint.form, joint.word), []).append(within)
    if not told:
        return None
    found: dict[str, set[str]] = {}
    for (form, word), often in sorted(tries.items()):
        if 2 * sum(often) > len(often):
            found.setdefault(form, set()).add(word)
    return {form: frozenset(words) for form, words in found.items()}


_BLOCKS = (4, 8, 16, 32)
"""Floats in the vectors of a CPU, of which a block has one or two."""


def learnt_block(measured: Iterable[tuple[Model, Taken]]) -> int | None:
    """Return the channels of the blocks in which the runtime keeps images; see ``layouts``.

    The size by which most of the copies that it made are told. None where it made none.
    O(nodes).
    """
    found = dict.fromkeys(_BLOCKS, 0)
    for model, taken in measured:
        made = Counter(
            kernel.elements for kernel in taken.kernels if kernel.op in COPIES and kernel.elements
        )
        if made:
            for block in _BLOCKS:
                told = Counter(copy.elements for copy in copies_of(model.graph, block))
                found[block] += (told & made).total()
    most = max(found.values())
    return None if most == 0 else max(block for block in _BLOCKS if found[block] == most)
