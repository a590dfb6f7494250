"""Problems with fewer devices or bytes: what is closed runs nothing, and who has none left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetsim.errors import UnsupportedNode
from hetsim.placement.constraints import (
    check_runnable,
    narrowed,
    only_devices,
    with_less,
    without_devices,
)
from hetsim.problem.parts import FusedKernel
from three_nodes import three

INF = float("inf")


def test_closed_devices_run_nothing_and_what_runs_nowhere_else_is_named() -> None:
    problem = three()
    problem = replace(problem, fused=tuple(FusedKernel(p, (0, 1), 1.5) for p in range(3)))
    left = without_devices(problem, (0, 2))
    assert np.isfinite(left.seconds).tolist() == [[False, True, False]] * 3
    assert [kernel.device for kernel in left.fused] == [1]
    assert left.devices == problem.devices
    lacking = replace(problem, seconds=np.array([[1.0, 1.0, INF], [1.0, INF, INF], [1.0] * 3]))
    lacking = replace(lacking, fused=())
    with pytest.raises(UnsupportedNode, match="nothing but a supports it") as caught:
        without_devices(lacking, (0,))
    assert caught.value.where == "node 'n1'"
    assert caught.value.nodes == ("n1",)
    assert caught.value.devices == ("a",)
    assert only_devices(problem, ()) is problem
    kept = only_devices(problem, ("c", "a"))
    assert kept.runnable.tolist() == [[True, False, True]] * 3
    open_to = np.ones((3, 3), dtype=bool)
    open_to[1, 2] = False
    some = narrowed(problem, open_to)
    assert np.isinf(some.seconds[1, 2])
    assert [kernel.device for kernel in some.fused] == [0, 1]
    check_runnable(some)
    with pytest.raises(UnsupportedNode):
        check_runnable(replace(lacking, seconds=np.array([[INF] * 3, [1.0] * 3, [1.0] * 3])))


def test_a_device_of_which_no_byte_is_left_is_closed() -> None:
    problem = three(weight_bytes=[9] * 3, capacity_bytes=[20, 30, 40])
    assert with_less(problem, 1, 10).capacity_bytes == (20, 20, 40)
    assert with_less(problem, 1, 29).runnable.all()
    for nbytes in (30, 31):
        closed = with_less(problem, 1, nbytes)
        assert closed.capacity_bytes == (20, 0, 40)
        assert closed.runnable.tolist() == [[True, False, True]] * 3
