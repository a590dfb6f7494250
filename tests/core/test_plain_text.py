"""Text that is safe to show and to compare."""

from __future__ import annotations

import doctest
import json

import numpy as np

from hetsim.core import text
from hetsim.reporting.formatting import listed


def test_docstring_examples() -> None:
    assert doctest.testmod(text).failed == 0


def test_tally_orders_by_count_then_name() -> None:
    counts = text.tally(["b", "a", "c", "c", "a", "d"])
    assert list(counts.items()) == [("a", 2), ("c", 2), ("b", 1), ("d", 1)]
    assert listed(counts, limit=2) == "a 2, c 2, +2 more"


def test_numbers_of_numpy_are_numbers_of_json() -> None:
    record = {"a": np.int64(3), "b": np.float32(0.5), "c": np.float32(np.inf), "d": True}
    assert json.loads(text.to_json(record)) == {"a": 3, "b": 0.5, "c": None, "d": True}


def test_terminal_control_characters_are_written_out() -> None:
    assert text.plain("\x1b[31mred\r\n") == "\\x1b[31mred\\r\\n"
    assert text.plain("[/bold] äß 漢") == "[/bold] äß 漢"
