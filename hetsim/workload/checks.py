"""What rates, times and factors must be, where they are not read from a file."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.core.checks import number, refused
from hetsim.errors import InvalidInput

LARGEST = 1e12
"""Of any rate or time, so that what is made of them stays finite."""

SMALLEST = 1e-12
"""Of any rate or factor that is not 0, for the same."""

_not_negative = number(least=0)
_positive = number(above=0)


def not_negative(value: float, name: str) -> None:
    """Raise InvalidInput where `value` is no number from 0 to LARGEST."""
    _not_negative(value, name)
    _bounded(value, name)


def check_rate(value: float, name: str) -> None:
    """Raise InvalidInput where `value` is neither 0 nor a number from SMALLEST to LARGEST."""
    not_negative(value, name)
    if 0 < value < SMALLEST:
        raise InvalidInput(
            f"{name} is {value:g}, below {SMALLEST:g}", hint="write 0 where nothing comes"
        )


def positive(value: float, name: str) -> None:
    """Raise InvalidInput where `value` is no number from SMALLEST to LARGEST."""
    _positive(value, name)
    _bounded(value, name)
    if value < SMALLEST:
        raise InvalidInput(f"{name} is {value:g}, below {SMALLEST:g}")


def factor(value: float) -> float:
    """Return by how much time is to run faster. Raises InvalidInput where that is no number."""
    positive(value, "the factor")
    return float(value)


def several(values: Sequence[float], name: str, least: int) -> None:
    """Raise InvalidInput where `values` has fewer entries than `least`."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise refused(name, values, "a list of numbers")
    if len(values) < least:
        raise InvalidInput(f"{name} has {len(values)} entries", hint=f"write {least} or more")


def _bounded(value: float, name: str) -> None:
    if value > LARGEST:
        raise InvalidInput(f"{name} is {value:g}, above {LARGEST:g}")
