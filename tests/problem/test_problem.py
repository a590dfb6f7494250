"""Problems from arrays: what they hold, and what they refuse."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import hetsim
from full_problems import full_problems
from hetsim.problem.problem import Problem
from sweeps import examples


@examples(quick=25, full=300)
@given(full_problems(), st.data())
def test_a_subgraph_pays_for_what_crosses_its_border(problem: Problem, data: st.DataObject) -> None:
    """Each tensor once: outputs and inputs of the model only with a host, and where they count."""
    nodes = data.draw(st.sets(st.integers(0, problem.n - 1), min_size=1))
    for device in range(len(problem.devices)):
        fetched = stored = 0.0
        staging = problem.staging
        ends = problem.host is not None and staging is not None and staging.ends
        for value in problem.values:
            readers = set(value.consumers)
            if value.producer in nodes:
                if readers - nodes or (value.is_output and ends):
                    stored += value.nbytes
            elif readers & nodes and (value.producer >= 0 or ends):
                fetched += value.nbytes
        seconds = 0.0
        if staging is not None:
            seconds = fetched * staging.fetch_s_per_byte[device]
            seconds += stored * staging.store_s_per_byte[device]
        assert problem.staged_seconds(device, sorted(nodes)) == seconds
        compute = problem.dispatch_s[device]
        left = set(nodes)
        for kernel in problem.fused:
            if kernel.device == device and nodes.issuperset(kernel.nodes):
                alone = sum(float(problem.seconds[v, device]) for v in kernel.nodes)
                if kernel.seconds <= alone:
                    compute += kernel.seconds
                    left.difference_update(kernel.nodes)
        compute += sum(float(problem.seconds[v, device]) for v in left)
        assert problem.group_seconds(device, sorted(nodes)) == compute + seconds


def of(**given: Any) -> Problem:
    model, platform = hetsim.load_model("zoo:squeezenet"), hetsim.load_platform("laptop")
    return Problem.of(**{"model": model, "platform": platform, **given})
