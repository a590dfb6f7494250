"""Little's law on every window: J. D. C. Little 1961, as it holds on a sample path."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from hetsim.simulation.serving.tables import SERVED
from oracles.random_layouts import Shape, layout_of
from sweeps import sweep

CAPACITY = 2.4
"""Requests a second that two servers about carry in batches of up to three."""


@sweep("seed", quick=[0], full=range(40))
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("machine_code", [True, False])
def test_seconds_inside_are_the_same_by_request_and_by_window(
    load: float, seed: int, machine_code: bool
) -> None:
    rng = np.random.default_rng([seed, 16])
    arrival = np.cumsum(rng.standard_exponential(1_500) / (load * CAPACITY))
    seconds = rng.exponential(1.0, 6)
    layout = layout_of([Shape([server], [], [[]]) for server in (0, 0, 0, 1, 1, 1)], [1, 1], 0)
    model = ModelSetup(np.arange(6).reshape(1, 2, 3), (1, 1), delay_s=0.5, timeout_s=4.0)
    serving = Serving(layout, seconds, [model], [RequestSource(0)], machine_code=machine_code)
    told = serving.serve(arrival, np.zeros(len(arrival), dtype=np.int64))
    found = Outcomes.joined([told, serving.close()])
    kept = found.why == SERVED
    lengths = serving.lengths
    edges = lengths.begin_s + lengths.window_s * np.arange(len(lengths.inside_s) + 1)
    for begins, ends, counted in (
        (found.arrival_s[kept], found.sent_s[kept], lengths.waiting_s[:, 0]),
        (found.arrival_s[kept], found.finish_s[kept], lengths.inside_s[:, 0]),
    ):
        spent = [
            np.clip(np.minimum(ends, after) - np.maximum(begins, before), 0, None).sum()
            for before, after in pairwise(edges)
        ]
        if kept.all():
            np.testing.assert_allclose(counted, spent, rtol=1e-9, atol=1e-9)
        else:
            # Those that are rejected wait, too, until a batcher finds them.
            assert (counted >= np.array(spent) - 1e-9).all()
    total = lengths.at_length_s.sum()
    assert total == pytest.approx(serving.now_s - lengths.begin_s)
    assert (np.arange(1024) * lengths.at_length_s[0]).sum() == pytest.approx(
        lengths.waiting_s.sum()
    )
