"""A cycle keeps vertices from starting: those on it and those behind it, against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hetsim.placement.throughput.stage_moves import waiting_in_vain

Matrix = list[list[int]]


def square(k: int) -> st.SearchStrategy[Matrix]:
    return st.lists(st.lists(st.sampled_from((0, 0, 1, 2)), min_size=k, max_size=k),
                    min_size=k, max_size=k)  # fmt: skip


@given(st.integers(1, 6).flatmap(square))
def test_as_many_wait_in_vain_as_are_on_a_cycle_or_behind_one(matrix: Matrix) -> None:
    feeds = np.array(matrix, dtype=np.int64)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(matrix)))
    graph.add_edges_from((int(u), int(v)) for u, v in np.argwhere(feeds > 0) if u != v)
    stuck: set[int] = set()
    for part in nx.strongly_connected_components(graph):
        if len(part) > 1:
            stuck |= part.union(*(nx.descendants(graph, v) for v in part))
    assert waiting_in_vain(feeds, np.zeros(len(matrix), dtype=np.int64)) == len(stuck)
