"""Requests that came somewhere, again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

from hetsim.core.checks import mapping, one_of, sequence, text
from hetsim.workload.arrivals.contract import Seconds
from hetsim.workload.checks import factor, not_negative, positive
from hetsim.workload.numbers import BLOCK, Numbers
from hetsim.workload.traces.reading import FORMATS, File, Format, beginning_of, read_trace
from hetsim.workload.traces.times import UNITS, Unit
from hetsim.workload.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class Replay:
    """The requests of a trace; they end where the trace ends.

    A time of the file is played as many seconds after 0 as it is after the origin: the earliest
    time of all the files that the workload replays, as far as their times are comparable. Dates
    and times since 1970 are comparable, and so are times that count from a beginning of their own.

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
    where : mapping of str to str
        Values by column: only the requests that have them are replayed, e.g. those of one model.
    start_s : float, optional
        When the first request of the file comes, whatever other files say; it is no origin of
        theirs. Absent: by the origin.
    beside : tuple of File
        The other files of the workload; a ``Workload`` sets it.
    """

    kind: ClassVar[str] = "replay"

    path: str
    speed_up: float = 1.0
    format: Format | None = None
    column: str | None = None
    unit: Unit | None = None
    columns: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict, hash=False)
    start_s: float | None = None
    beside: tuple[File, ...] = ()

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
        mapping(text)(self.where, "where")
        for name, value in self.where.items():
            text(value, f"where['{name}']")
        object.__setattr__(self, "where", dict(self.where))
        if self.start_s is not None:
            not_negative(self.start_s, "start_s")

    @property
    def file(self) -> File:
        """The file, and how it is read."""
        return File(self.path, self.format, self.column, self.unit)

    def among(self, files: Sequence[File]) -> Replay:
        """Return the same of a workload that replays these files."""
        if self.start_s is not None:
            return self
        return replace(self, beside=tuple(one for one in files if one != self.file))

    def trace(self) -> Trace:
        """Return what the file says, as it came. Raises WorkloadError, with file and line."""
        where = tuple((name, value.strip()) for name, value in self.where.items())
        return read_trace(self.file, columns=self.columns, where=where, since_s=self._origin_s())

    def _origin_s(self) -> Fraction | None:
        """The origin, where that is not the first time of the file itself."""
        if self.start_s is not None or not self.beside:
            return None
        own = beginning_of(self.file)
        others = map(beginning_of, self.beside)
        origin = min((one for one in others if one.since_1970 == own.since_1970), default=own)
        return origin.at_s if origin < own else None

    @property
    def rate_per_s(self) -> float:
        """Requests a second from the first to the last. Reads the trace."""
        return self.trace().rate_per_s * self.speed_up

    @property
    def span_s(self) -> tuple[float, float]:
        """When the first and the last request come. Reads the trace."""
        first, last = self._played(self.trace().arrival_s[[0, -1]]).tolist()
        return first, last

    def faster(self, by: float) -> Replay:
        """Return the same arrivals in 1/`by` of the time."""
        start_s = None if self.start_s is None else self.start_s / factor(by)
        return replace(self, speed_up=self.speed_up * factor(by), start_s=start_s)

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the times of arrival in seconds."""
        arrival_s = self.trace().arrival_s
        for first in range(0, len(arrival_s), BLOCK):
            yield self._played(arrival_s[first : first + BLOCK])

    def _played(self, arrival_s: Seconds) -> Seconds:
        played = arrival_s / self.speed_up
        return played + self.start_s if self.start_s else played
