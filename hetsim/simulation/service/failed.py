"""What failures did to a workload on a deployment: records."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hetsim.statistics.intervals import Percentile


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which failures were felt by a model.

    Attributes
    ----------
    begin_s : float
        When a device stopped that serves it, of a whole model.
    works_s : float
        When all that still serves it worked: what was lost was back and had loaded, was planned
        for anew, or left to other instances. Infinite where that never was.
    end_s : float
        The first time since then at which no more requests were inside than at `begin_s`, or, if
        that is more, than on average before the first failure. Infinite where that never was. One
        that fails before the end of another makes it longer.
    """

    begin_s: float
    works_s: float = math.inf
    end_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Period:
    """Requests of one stream before, during or after failures.

    Attributes
    ----------
    requests, answered, rejected : int
    mean_s : float
        Latency of those answered; NaN where none was.
    percentiles : tuple of Percentile
        Of the latency of all; rejected ones are infinitely late. Empty where there is none.
    on_time : tuple of float
        Share answered in time, by objective of the stream.
    """

    requests: int
    answered: int
    rejected: int
    mean_s: float
    percentiles: tuple[Percentile, ...]
    on_time: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StreamFailed:
    """What failures did to one stream, the warm-up left out.

    Attributes
    ----------
    name : str
    before, during, after : Period
        *During* are requests that were inside at some time of a window of their model; *before*
        those of the others that came before its first, *after* the rest: between windows, too.
    lost : int
        Requests something of whose work was cut off, or had to run again.
    retried : int
        Requests that were taken back from an instance, and sent anew.
    """

    name: str
    before: Period
    during: Period
    after: Period
    lost: int
    retried: int


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """What failures did to one model.

    Attributes
    ----------
    model : str
    available : float
        Share of the time in which some instance of it worked.
    outages : int
        Times in which none did.
    windows : tuple of Window
    """

    model: str
    available: float
    outages: int
    windows: tuple[Window, ...]

    @property
    def recoveries_s(self) -> tuple[float, ...]:
        """From the begin of each window to its end, where it has one."""
        return tuple(one.end_s - one.begin_s for one in self.windows if math.isfinite(one.end_s))


@dataclass(frozen=True, slots=True)
class DeviceFailed:
    """How often one device failed.

    Attributes
    ----------
    device : str
    failures : int
    down_s : float
        From when it stopped until it was back, before it loaded anything; until the end where it
        never was.
    """

    device: str
    failures: int
    down_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """What failures did.

    Attributes
    ----------
    devices : tuple of DeviceFailed
        Those that failed.
    models : tuple of ModelFailed
    streams : tuple of StreamFailed
    cut_s : float
        How long devices had run what was cut off.
    random : bool
        Whether some failures were random.
    """

    devices: tuple[DeviceFailed, ...]
    models: tuple[ModelFailed, ...]
    streams: tuple[StreamFailed, ...]
    cut_s: float
    random: bool
