"""Equal to the last bit, and what is said where not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hetsim.execution.run import OutputsVerdict, compared_outputs, difference, differences

NAN, OTHER_NAN = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.0, np.nan, np.inf, -0.0], np.float32),
        np.array(["a", "é"], object),
        np.zeros((0, 3)),
        np.array(True),
        np.array([1, 2], ml_dtypes.bfloat16),
        [np.ones(2), np.ones(3)],
        None,
        [{"a": 0.5, "b": float("nan")}],
    ],
)
def test_a_value_equals_itself(value: object) -> None:
    assert difference(value, value) is None


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (np.float32([1, 2]), np.float32([1, 3]), "1 of 2 elements differ, by at most 1"),
        (np.float32([0.0]), np.float32([-0.0]), "1 of 1 elements differ"),
        (np.array([NAN]), np.array([OTHER_NAN]), "1 of 1 elements differ"),
        (np.float32([np.inf, 1]), np.float32([1, 1.5]), "2 of 2 elements differ, by at most 0.5"),
        (np.array([True]), np.array([False]), "1 of 1 elements differ"),
        (np.complex64([1j]), np.complex64([0]), "1 of 1 elements differ, by at most 1"),
        (np.float32([1]), np.float64([1]), "float32, not float64"),
        (np.ones((2, 3)), np.ones((3, 2)), "shape (2, 3), not (3, 2)"),
        (np.array(["a"], object), np.array(["b"], object), "1 of 1 entries differ"),
        ([np.ones(1)], [np.ones(1), np.ones(1)], "1 entries, not 2"),
        ([np.ones(1)], [np.zeros(1)], "entry 0: 1 of 1 elements differ, by at most 1"),
        (None, np.ones(1), "a NoneType, not an array"),
        ([], None, "a list, not a NoneType"),
        ({"a": 1.0}, {"a": 2.0}, "key 'a': 1 of 1 elements differ, by at most 1"),
        ({"a": 1.0}, {"b": 1.0}, "other keys"),
        (1, 2, "1, not 2"),
    ],
)
def test_a_difference_is_said(found: object, wanted: object, said: str) -> None:
    assert difference(found, wanted) == said


def test_outputs_that_are_missing_or_too_many_are_named() -> None:
    one = np.ones(1)
    assert differences({"a": one, "b": one}, {"a": one, "c": one}) == (
        "c (it is missing)",
        "b (unexpected)",
    )


def test_a_tolerance_allows_what_it_says() -> None:
    wanted = {"y": np.array([1.0, 100.0], np.float32), "i": np.array([1, 2])}
    near = {"y": np.array([1.05, 100.0], np.float32), "i": np.array([1, 2])}
    assert compared_outputs(wanted, wanted, 0.0) == OutputsVerdict(True, ())
    assert compared_outputs(near, wanted, 1e-3) == OutputsVerdict(False, ())
    for tolerance in (0.0, 1e-4):
        found = compared_outputs(near, wanted, tolerance)
        assert not found.bitwise_equal
        assert [text.split()[0] for text in found.mismatches] == ["y"]
    for bad in (
        {"y": wanted["y"], "i": np.array([1, 3])},
        {"y": np.array([np.nan, 100.0], np.float32), "i": wanted["i"]},
        {"y": wanted["y"][:1], "i": wanted["i"]},
        {"i": wanted["i"]},
        {"y": None, "i": wanted["i"]},
    ):
        assert compared_outputs(bad, wanted, 1e-3).mismatches
