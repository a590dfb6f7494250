"""Requests that came somewhere, again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from hetsim.base.checks import one_of, sequence, text
from hetsim.workloads.arrivals.contract import Seconds
from hetsim.workloads.checks import factor, positive
from hetsim.workloads.numbers import BLOCK, Numbers
from hetsim.workloads.traces.reading import FORMATS, Format, read_trace
from hetsim.workloads.traces.times import UNITS, Unit
from hetsim.workloads.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class Replay:
    """The requests of a trace, the first at 0; they end where the trace ends.

    Attributes
    ----------
    path : str
        CSV or JSON lines, compressed by gzip where it ends in ``.gz``.
    speed_up : float
        How much faster they come than they came.
    format : "azure", "mooncake", "csv" or "jsonl", optional
        Absent: what the first line looks like.
    column : str, optional
        Of ``csv`` and ``jsonl``: which column or key has the time.
    unit : "s", "ms", "us", "ns" or "date", optional
        Of that time; absent: seconds.
    columns : tuple of str
        Further columns that are read, for dimensions of the model that follow them.
    """

    kind: ClassVar[str] = "replay"

    path: str
    speed_up: float = 1.0
    format: Format | None = None
    column: str | None = None
    unit: Unit | None = None
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        text(self.path, "path")
        positive(self.speed_up, "speed_up")
        if self.format is not None:
            one_of(*FORMATS)(self.format, "format")
        if self.column is not None:
            text(self.column, "column")
        sequence(text)(self.columns, "columns")
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.unit is not None:
            one_of(*UNITS)(self.unit, "unit")

    def trace(self) -> Trace:
        """Return what the file says, as it came. Raises WorkloadError, with file and line."""
        return read_trace(
            Path(self.path),
            self.path,
            format=self.format,
            column=self.column,
            unit=self.unit,
            columns=self.columns,
        )

    @property
    def rate_per_s(self) -> float:
        """Requests a second from the first to the last. Reads the trace."""
        return self.trace().rate_per_s * self.speed_up

    def faster(self, by: float) -> Replay:
        """Return the same arrivals in 1/`by` of the time."""
        return replace(self, speed_up=self.speed_up * factor(by))

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the times of arrival in seconds."""
        arrival_s = self.trace().arrival_s
        for first in range(0, len(arrival_s), BLOCK):
            yield arrival_s[first : first + BLOCK] / self.speed_up
