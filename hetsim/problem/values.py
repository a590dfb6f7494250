"""The values of a Problem as arrays: who makes each, who reads it, and its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Ints, Rows
from hetsim.problem.parts import Value


@dataclass(frozen=True, eq=False, slots=True)
class ValueArrays:
    """Values by index; not to be written to.

    Attributes
    ----------
    producer : int array [values]
        Node id, or GRAPH_INPUT.
    nbytes : float array [values]
    readers : Rows
        Node ids, ascending.
    leaves : bool array [values]
        Whether it must end on the host, where there is one.
    """

    producer: Ints
    nbytes: NDArray[np.float64]
    readers: Rows
    leaves: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Sequence[Value]) -> ValueArrays:
        """Read them one by one. Linear in values and readers."""
        count = len(values)
        return cls(
            np.fromiter([value.producer for value in values], np.int64, count),
            np.fromiter([value.nbytes for value in values], np.float64, count),
            Rows.of([value.consumers for value in values]),
            np.fromiter([value.is_output for value in values], np.bool_, count),
        )
