"""Figures and texts of files that anyone may have written, checked as they are read."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from statistics import median
from typing import Any, NoReturn

from hetsim.cost.profiles.record import TimedKernel
from hetsim.errors import InvalidInput

LONGEST_S = 86400.0
"""A kernel that takes a day is a mistake of units."""

LONGEST_NAME = 10_000
_SHOWN = 60

READ = (
    "ONNX Runtime's JSON (SessionOptions.enable_profiling), TensorRT's (trtexec --exportProfile), "
    "OpenVINO's counters as CSV or JSON (benchmark_app -report_type detailed_counters), and "
    "AI Hub's profile JSON"
)
"""What is read, for messages."""


class Reader:
    """Reads one file; every complaint names it.

    Parameters
    ----------
    where : str
        The path, for messages.
    """

    def __init__(self, where: str) -> None:
        self.where = where

    def refuse(self, what: str, hint: str | None = None) -> NoReturn:
        """Raise InvalidInput about this file."""
        raise InvalidInput(what, where=self.where, hint=hint or "profile again")

    def json(self, text: str) -> Any:
        """Parse JSON: no key twice in an object, no NaN, nothing too deep."""
        try:
            return json.loads(text, object_pairs_hook=self._object, parse_constant=self._constant)
        except json.JSONDecodeError as error:
            self.refuse(f"not JSON: {error.msg} at line {error.lineno}", f"read are {READ}")
        except RecursionError:
            self.refuse("its JSON is nested too deeply to be a profile")
        except ValueError as error:
            # A number of thousands of digits.
            self.refuse(f"not a profile: {error}")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    self.refuse(f"an object says '{_cut(name)}' twice")
                seen.add(name)
        return found

    def _constant(self, name: str) -> NoReturn:
        self.refuse(f"{name} is no figure of a profile")

    def text(self, value: object, what: str) -> str:
        """Want a text of a reasonable length."""
        if not isinstance(value, str) or len(value) > LONGEST_NAME:
            shown = "a text too long" if isinstance(value, str) else type(value).__name__
            self.refuse(f"{what} is {shown}, not a name")
        return value

    def number(self, value: object, what: str) -> float:
        """Want a finite number from 0 on."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            self.refuse(f"{what} is {type(value).__name__}, not a number")
        try:
            number = float(value)
        except (ValueError, OverflowError):
            self.refuse(f"{what} is '{_cut(str(value))}', not a number")
        if not math.isfinite(number) or number < 0:
            self.refuse(f"{what} is {number}: want a finite number from 0 on")
        return number

    def seconds(self, value: object, unit_s: float, what: str) -> float:
        """Want a time in units of `unit_s` seconds, and return it in seconds."""
        seconds = self.number(value, what) * unit_s
        if seconds > LONGEST_S:
            self.refuse(f"{what} is {seconds:g} s", "no kernel takes a day: look at its units")
        return seconds

    def rows(self, value: object, what: str) -> list[dict[str, Any]]:
        """Want a list of objects."""
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            self.refuse(f"{what} is no list of objects")
        return value


def of_runs(name: str, times_s: Sequence[float], **others: Any) -> TimedKernel:
    """Return the kernel that took `times_s`, one a run."""
    return TimedKernel(name, median(times_s), min(times_s), max(times_s), **others)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
