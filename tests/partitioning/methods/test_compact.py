"""Which scans ``compact`` makes: four of small graphs, those from the two ends of large ones."""

from __future__ import annotations

import numpy as np
import pytest

from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import compact


def drawn(seed: int) -> tuple[Dag, list[int]]:
    """A graph whose nodes read one to three before them, and a device of three for each."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 40))
    edges = [(int(u), v) for v in range(1, n) for u in rng.integers(0, v, int(rng.integers(1, 4)))]
    return Dag.from_edges(n, edges), [int(device) for device in rng.integers(0, 3, n)]


def test_large_graphs_are_scanned_from_the_two_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    better = [0, 0]
    for seed in range(300):
        dag, device_of = drawn(seed)
        monkeypatch.setattr(compact, "THOROUGH_UP_TO", dag.n)
        scans = compact._scans(dag, device_of)
        assert len(scans) == 4
        monkeypatch.setattr(compact, "THOROUGH_UP_TO", dag.n - 1)
        # From the sources reader by reader, from the sinks producer by producer; no more.
        assert compact._scans(dag, device_of) == scans[:2]
        sizes = [len(set(labels)) for labels in scans]
        assert len(set(compact.merge(dag, device_of))) == min(sizes[:2])
        for k in (2, 3):
            better[k - 2] += sizes[k] < min(sizes[:2])
    # Either of the other two would have been smaller here and there.
    assert min(better) > 0
