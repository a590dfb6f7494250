"""Which requests in flight are alike, so that what holds of one of them is found out once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def alike(numbers: Sequence[Ints], progress: NDArray[np.int8]) -> tuple[Ints, Ints]:
    """Return the first row of each kind, in the order of rows, and each row's kind.

    Parameters
    ----------
    numbers : sequence of int array [rows]
    progress : int8 array [rows, tasks]
        Rows are of one kind where all of `numbers` and this are equal.

    Complexity: O(rows times their bytes).
    """
    none = np.zeros(0, dtype=np.int64)
    if not len(progress):
        return none, none
    columns = [np.asarray(one, np.int64).reshape(-1, 1).view(np.int8) for one in numbers]
    rows = np.ascontiguousarray(np.hstack([*columns, progress]))
    texts = rows.view(f"V{rows.shape[1]}").ravel().tolist()
    kind_of: dict[bytes, int] = {}
    kind = np.array([kind_of.setdefault(text, len(kind_of)) for text in texts], dtype=np.int64)
    first = np.zeros(len(kind_of), dtype=np.int64)
    first[kind[::-1]] = np.arange(len(kind))[::-1]
    return first, kind
