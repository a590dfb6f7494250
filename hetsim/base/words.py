"""Arguments as words of 64 bits, which is how functions in object code take them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from hetsim.base.records import Record, address_of, bits_of

Kinds = tuple[Hashable, ...]
"""Types of arguments: of a record its key, of an array its element type and rank."""

WHOLE, REAL, TRUTH, NOTHING = "int64", "float64", "bool", "none"
RESULT, ERROR, FIRST = 0, 1, 2
"""Words of a table: the result, where numba would put an error, and the arguments."""
_MOST = 1 << 63


def laid_out(arguments: Sequence[Any]) -> tuple[Kinds, list[int]] | None:
    """Return the kinds of `arguments` and the words that stand for them; None where one has none.

    O(arguments).
    """
    kinds: list[Hashable] = []
    words: list[int] = []
    for one in arguments:
        kind = type(one)
        if kind is np.ndarray:
            dtype = one.dtype
            if not (one.flags.carray and one.ndim and dtype.isnative and dtype.kind in "biuf"):
                return None
            kinds.append((dtype, one.ndim))
            words.append(address_of(one))
            words += one.shape
        elif kind is Record:
            kinds.append(one.key)
            words.append(one.address)
        elif kind is int and -_MOST <= one < _MOST:
            kinds.append(WHOLE)
            words.append(one)
        elif kind is float or kind is np.float64:
            kinds.append(REAL)
            words.append(bits_of(one))
        elif kind is bool:
            kinds.append(TRUTH)
            words.append(int(one))
        else:
            return None
    return tuple(kinds), words


def told_of(kinds: Kinds) -> str:
    """Return the kinds as text, which is the same in every process."""
    return " ".join(map(_told, kinds))


def _told(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    first, *others = kind
    if isinstance(first, np.dtype):
        return f"{first.str}[{others[0]}]"
    fields = (
        f"{name}:{one.str if isinstance(one, np.dtype) else one.__name__}"
        for name, one in zip(first._fields, others, strict=True)
    )
    return f"{first.__name__}({' '.join(fields)})"
