"""Problems of three nodes in a row, of which a test says what is special."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def back_and_forth(**given: Any) -> Problem:
    """Three nodes in a row: the middle one runs on the cpu alone, the others faster on the npu."""
    asked: dict[str, Any] = {
        "tensors": [(0, 8, (1,)), (1, 16, (2,))], "bytes_per_s": 8.0, "contention": "fifo",
    }  # fmt: skip
    return Problem.from_arrays(
        [[4.0, 1.0], [6.0, np.inf], [4.0, 1.0]], devices=("cpu", "npu"), **{**asked, **given}
    )
