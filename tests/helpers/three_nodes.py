"""A problem of three nodes on three devices, of which tests of placement say what is special."""

from __future__ import annotations

from typing import Any

from hetsim.problem.problem import Problem


def three(**given: Any) -> Problem:
    """Three nodes in a row; each device is quickest at one of them."""
    asked: dict[str, Any] = {
        "edges": [(0, 1, 1), (1, 2, 1)],
        "devices": ("a", "b", "c"),
        "bytes_per_s": 4.0,
    }
    seconds = [[1.0, 4.0, 4.0], [4.0, 1.0, 4.0], [4.0, 4.0, 1.0]]
    return Problem.from_arrays(seconds, **{**asked, **given})
