"""Options of another type are named with their place, read from texts or given as values."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
import pytest

import hetsim
from hetsim.errors import UsageError
from hetsim.placement.constraints import checked, checked_fields, field_types, read, read_fields
from hetsim.placement.registry import read_settings
from hetsim.problem.problem import Problem


@dataclasses.dataclass(frozen=True)
class Made:
    """A few kinds of fields."""

    count: int = 1
    share: float | None = None
    names: tuple[str, ...] = ()
    kind: Literal["near", "far"] = "near"


class Own:
    """A type that nothing here knows."""


def test_fields_are_read_in_the_types_that_they_are_declared_with() -> None:
    assert field_types(Made) == {
        "count": int,
        "share": float | None,
        "names": tuple[str, ...],
        "kind": Literal["near", "far"],
    }
    assert field_types(int) == {}
    texts = {"count": "3", "share": "0.5", "names": "a, b", "kind": "far"}
    assert read_fields(Made, texts) == {
        "count": 3, "share": 0.5, "names": ("a", "b"), "kind": "far",
    }  # fmt: skip
    assert read(float | None, "null", "x") is None
    assert read(tuple[str, ...], '["a"]', "x") == ("a",)
    for kind in (float, float | None):
        for text in ("nan", "inf"):
            with pytest.raises(UsageError, match=f"'{text}': input should be a finite number"):
                read(kind, text, "here")
    with pytest.raises(UsageError, match="'x': ") as caught:
        read_fields(Made, {"count": "x"})
    assert caught.value.where == "option count"


def test_values_are_checked_in_the_same_types() -> None:
    given: dict[str, Any] = {"count": 3, "names": ["a"], "other": 1}
    assert checked_fields(Made, given) == {"count": 3, "names": ("a",)}
    own = Own()
    assert checked(Own, own, "own") is own
    for kind, value in ((float, float("nan")), (float | None, float("inf")), (int, "x")):
        with pytest.raises(UsageError, match=r"option x is .*: input should be"):
            checked(kind, value, "x")
    with pytest.raises(UsageError, match="no kind 'fare'; did you mean 'far'"):
        checked(Literal["near", "far"], "fare", "kind")
    with pytest.raises(UsageError, match="option kind is 3: "):
        checked(Literal["near", "far"], 3, "kind")
    with pytest.raises(UsageError, match="option count is 'two': ") as caught:
        checked(int, "two", "count")
    assert caught.value.where is None
    with pytest.raises(UsageError) as caught:
        checked(dict[str, list[int]], {"a": [1, "x"]}, "table")
    assert caught.value.where == "table['a'][1]"


def test_options_that_are_none_are_named_with_their_place() -> None:
    problem = Problem.from_arrays(np.ones((2, 2)), [(0, 1, 1)])
    with pytest.raises(UsageError, match="'moves' is given twice") as caught:
        read_settings(("local-search",), ["moves=1", "moves=2"], "--set")
    assert caught.value.where == "--set"
    for options, where, text in (
        ({"pins": {"n0": 3}}, "pins['n0']", "option pins is"),
        ({"max_devices": "two"}, None, "option max_devices is 'two'"),
        ({"capacity_bytes": {"d0": "x"}}, "capacity_bytes['d0']", "option capacity_bytes is"),
    ):
        with pytest.raises(UsageError) as wrong:
            hetsim.plan(problem, "heft", **options)  # type: ignore[arg-type]
        assert wrong.value.where == where
        assert text in str(wrong.value)
    for limit in (float("nan"), float("inf"), -1.0):
        with pytest.raises(UsageError, match="time_limit_s"):
            hetsim.plan(problem, "local-search", time_limit_s=limit)
