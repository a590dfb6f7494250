"""The stage method's labels are the levels that its rule defines, in the order that costs least."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from builders import dags
from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import stage
from hetsim.problem.groups import order_groups
from sweeps import examples


def levels(dag: Dag, device_of: list[int], order: tuple[int, ...]) -> list[tuple[int, int]]:
    """(level, place of the device in `order`) of every node, by the rule as it is stated."""
    found: list[tuple[int, int]] = []
    for v, preds in enumerate(dag.preds):
        at = order.index(device_of[v])
        before = [found[u] for u in preds]
        found.append((max((level + (place > at) for level, place in before), default=0), at))
    return found


@examples(quick=30, full=300)
@given(dags(40), st.data())
def test_labels_are_the_levels_of_the_best_order(dag: Dag, data: st.DataObject) -> None:
    device_of = data.draw(st.lists(st.integers(0, 2), min_size=dag.n, max_size=dag.n))
    labels = stage.merge(dag, device_of)
    used = sorted(set(device_of))
    every = [levels(dag, device_of, order) for order in permutations(used)]
    best = min(every, key=lambda keys: len(set(keys)))
    assert labels == [level * len(used) + place for level, place in best]
    assert order_groups(dag, labels) is not None


@examples(quick=40, full=100)
@given(dags(30), st.data())
def test_above_three_devices_the_given_order_and_its_reverse_are_tried(
    dag: Dag, data: st.DataObject
) -> None:
    device_of = data.draw(st.lists(st.integers(0, 5), min_size=dag.n, max_size=dag.n))
    used = tuple(sorted(set(device_of)))
    tried = list(permutations(used)) if len(used) <= 3 else [used, used[::-1]]
    fewest = min(len(set(levels(dag, device_of, order))) for order in tried)
    labels = stage.merge(dag, device_of)
    assert len(set(labels)) == fewest
    assert order_groups(dag, labels) is not None
