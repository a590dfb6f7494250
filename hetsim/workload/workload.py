"""Workload: streams of requests, its duration, and its seed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import product
from typing import Any, Literal

import numpy as np

from hetsim.core import checks
from hetsim.core.checks import instance, mapping, number, one_of, sequence, text, whole
from hetsim.core.units import format_percentile, format_seconds, significant
from hetsim.errors import InvalidInput, WorkloadError
from hetsim.workload.arrivals import (
    KINDS,
    MAX_SEED,
    Closed,
    Constant,
    Numbers,
    Open,
    Replay,
    not_negative,
    positive,
)
from hetsim.workload.failure import Failing
from hetsim.workload.traces import MAX_VALUE, Trace

HINT = "write p99=50ms, or 99.9%<=50ms"
_UNITS = {"s": 0, "ms": -3, "us": -6, "ns": -9}
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FORM = re.compile(
    rf"\s*(?:[pP](?P<p>{_NUMBER})\s*(?:<=|=|<)|(?P<share>{_NUMBER})\s*%\s*(?:<=|<))"
    rf"\s*(?P<time>{_NUMBER})\s*+(?P<unit>[A-Za-zµ]*)\s*+"
)


@dataclass(frozen=True, slots=True)
class Slo:
    """Share of the requests to be answered within a latency.

    "p99 at most 50 ms" and "99 % within 50 ms" are equivalent. The share is above 0 and below 1.
    """

    share: float
    latency_s: float

    def __post_init__(self) -> None:
        number(finite=False)(self.share, "share")
        number(above=0)(self.latency_s, "latency_s")
        if not 0 < self.share < 1:
            raise WorkloadError(
                f"{self.share:g} is not a share of requests on time",
                hint="use a share above 0 and below 1, e.g. 0.99",
            )
        for name in ("share", "latency_s"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @classmethod
    def at_percentile(cls, percentile: float, latency_s: float) -> Slo:
        """Return the objective for a latency at a percentile above 0 and below 100."""
        number(finite=False)(percentile, "percentile")
        if not 0 < percentile < 100:
            raise WorkloadError(
                f"{percentile:g} is not a percentile",
                hint="use a percentile above 0 and below 100, e.g. 99",
            )
        # 99.9 means the share 0.999 exactly, not its binary product.
        return cls(float(Decimal(repr(float(percentile))) / 100), latency_s)

    @property
    def percentile(self) -> float:
        """Percentile of latencies that must be at most `latency_s`."""
        return percentile_of(self.share)

    def __str__(self) -> str:
        return f"{format_percentile(self.percentile)} <= {format_seconds(self.latency_s)}"


def percentile_of(share: float) -> float:
    """Return the percentile of a share on time: 99.9 for 0.999, exactly."""
    return float(Decimal(repr(share)) * 100)


def parse_slo(text: str) -> Slo:
    """Return the objective in `text`: ``p99=50ms``, ``p99<=0.05s`` or ``99.9%<=50ms``.

    Raises WorkloadError for other text.
    """
    checks.text(text, "an objective")
    form = _FORM.fullmatch(text)
    if form is None:
        raise WorkloadError(f"'{text}' is not an objective", hint=HINT)
    unit = form["unit"].replace("µ", "u")
    if unit not in _UNITS:
        what = f"no unit '{form['unit']}' of time" if unit else "the time has no unit"
        raise WorkloadError(f"{what} in '{text}'", hint=f"{HINT}; s, ms, us or ns")
    # As a decimal number 50ms is 0.05, whatever the unit: both have the same bits.
    latency_s = float(Decimal(form["time"]).scaleb(_UNITS[unit]))
    if not 0 < latency_s < float("inf"):
        raise WorkloadError(f"the time of '{text}' is not above 0", hint=HINT)
    try:
        return Slo.at_percentile(float(form["p"] or form["share"]), latency_s)
    except WorkloadError as error:
        raise WorkloadError(f"in '{text}' {error.what}", hint=error.hint) from None


Above = Literal["error", "truncate"]
ABOVES: tuple[Above, ...] = ("error", "truncate")
MAX_VARIANTS = 256
"""Maximum number of bindings of one model, each of which is priced and planned."""


@dataclass(frozen=True, slots=True)
class Follows:
    """Dimension with the size of a trace's column, rounded up to the next bucket.

    A request takes the smallest of the ascending `buckets` that holds it; one above all of them is
    rejected, or cut to the largest ("truncate").
    """

    column: str
    buckets: tuple[int, ...]
    above: Above = "error"

    def __post_init__(self) -> None:
        text(self.column, "column")
        one_of(*ABOVES)(self.above, "above")
        sequence(whole(1, MAX_VALUE))(self.buckets, "buckets")
        pairs = zip(self.buckets, self.buckets[1:], strict=False)
        if not self.buckets or any(a >= b for a, b in pairs):
            raise InvalidInput("buckets do not ascend", hint="write e.g. [128, 512, 2048]")

    def bucket_of(self, trace: Trace) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the bucket of each request, int64[requests]."""
        sizes = trace.columns[self.column]
        which = np.searchsorted(np.asarray(self.buckets), sizes)
        if self.above == "error":
            over = np.flatnonzero(which == len(self.buckets))
            if over.size:
                raise WorkloadError(
                    f"'{self.column}' is above the largest bucket, {self.buckets[-1]}, in "
                    f"{over.size} of {len(sizes)} requests, up to {sizes.max()}",
                    hint="add a bucket, or write above: truncate",
                )
        return np.minimum(which, len(self.buckets) - 1)


Dims = Mapping[str, "int | Follows"]
"""Size of each dimension, or the column that it follows."""


def variants(dims: Dims) -> tuple[dict[str, int], ...]:
    """Return every possible binding of the dimensions; the last one varies fastest."""
    choices: list[Sequence[int]] = [
        given.buckets if isinstance(given, Follows) else (given,) for given in dims.values()
    ]
    count = int(np.prod([len(one) for one in choices], dtype=np.float64))
    if count > MAX_VARIANTS:
        raise InvalidInput(
            f"{count} bindings of the dimensions, above {MAX_VARIANTS}", hint="use fewer buckets"
        )
    return tuple(dict(zip(dims, sizes, strict=True)) for sizes in product(*choices))


def variant_of(dims: Dims, trace: Trace) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the index in ``variants(dims)`` of each request of a trace, int64[requests]."""
    found = np.zeros(len(trace.arrival_s), dtype=np.int64)
    for given in dims.values():
        if isinstance(given, Follows):
            found = found * len(given.buckets) + given.bucket_of(trace)
    return found


MAX_REQUESTS = 10**11
MAX_PRIORITY = 1000
MAX_STREAMS = 1000


@dataclass(frozen=True, slots=True)
class Stream:
    """Stream of requests to one model.

    Attributes
    ----------
    name : str
        Name, unique in its workload, which determines its random numbers.
    model : str
        Path of an ONNX file, or ``zoo:NAME``.
    arrivals : arrivals, optional
        Arrivals: at a rate (``Constant``, ``Poisson``, ``Gamma``, ``Mmpp``, ``Burst``), as recorded
        (``Replay``), or from clients (``Closed``).
    share : float, optional
        Instead of arrivals: its share of the workload's shared arrivals.
    slos : tuple of Slo
        Objectives for its latencies; each must hold.
    priority : int, optional
        1 goes first; absent: the default level of the deployment.
    dims : mapping of str to int or Follows
        Open dimensions of the model: a size, or a column of the trace that they follow.
    """

    name: str
    model: str
    arrivals: Open | Closed | None = None
    share: float | None = None
    slos: tuple[Slo, ...] = ()
    priority: int | None = None
    dims: Dims = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        text(self.name, "name")
        text(self.model, "model")
        if not self.name:
            raise WorkloadError("a stream has no name", hint="give it one: numbers follow it")
        if (self.arrivals is None) == (self.share is None):
            raise WorkloadError(
                f"the stream '{self.name}' has {'both' if self.share is not None else 'neither'} "
                "arrivals and a share",
                hint="use one: its own arrivals, or its share of the workload's",
            )
        if self.arrivals is not None and not isinstance(self.arrivals, tuple(KINDS.values())):
            raise InvalidInput(
                f"the kind of arrivals of '{self.name}' is not one of {', '.join(KINDS)}"
            )
        if self.share is not None:
            number(least=0)(self.share, "share")
        if self.priority is not None:
            whole(1, MAX_PRIORITY)(self.priority, "priority")
        sequence(instance("hetsim.workload.workload:Slo"))(self.slos, "slos")
        mapping(text)(self.dims, "dims")
        object.__setattr__(self, "slos", tuple(self.slos))
        object.__setattr__(self, "dims", dict(self.dims))
        columns = []
        for name, given in self.dims.items():
            if isinstance(given, Follows):
                columns.append(given.column)
            else:
                whole(0)(given, f"dims['{name}']")
        if columns and not isinstance(self.arrivals, Replay):
            raise WorkloadError(
                f"dimensions of '{self.name}' follow a column, but its arrivals are not a replay",
                hint="use a size, or arrivals: {replay: {path: FILE}}",
            )
        if isinstance(self.arrivals, Replay):
            read = tuple(dict.fromkeys(columns))
            object.__setattr__(self, "arrivals", replace(self.arrivals, columns=read))

    @property
    def variants(self) -> tuple[dict[str, int], ...]:
        """All possible bindings of the model's dimensions."""
        return variants(self.dims)

    def numbers(self, seed: int) -> Numbers:
        """Return the source of its random numbers."""
        return Numbers(seed, self.name)


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams of requests over time.

    Attributes
    ----------
    duration_s : float, optional
        End of arrivals; earlier requests are still answered. Absent with `requests`, or if every
        stream is a replay.
    requests : int, optional
        Total number of requests, the first of all streams together.
    warm_up_s : float
        Requests before it are simulated, but not counted.
    seed : int
        Seed of all random numbers.
    arrivals : arrivals at a rate, or a replay, optional
        Shared arrivals: each request goes to a stream with a share, at random by these shares.
    failures : Failing, optional
        Failures of devices; absent: none.
    """

    streams: tuple[Stream, ...]
    duration_s: float | None = None
    requests: int | None = None
    warm_up_s: float = 0.0
    seed: int = 0
    arrivals: Open | None = None
    failures: Failing | None = None

    def __post_init__(self) -> None:
        sequence(instance(f"{__name__}:Stream"))(self.streams, "streams")
        object.__setattr__(self, "streams", tuple(self.streams))
        if self.duration_s is not None:
            positive(self.duration_s, "duration_s")
        if self.requests is not None:
            whole(1, MAX_REQUESTS)(self.requests, "requests")
        not_negative(self.warm_up_s, "warm_up_s")
        whole(0, MAX_SEED)(self.seed, "seed")
        parts = (self.streams, self.duration_s, self.requests, self.warm_up_s, self.arrivals)
        if self.failures is not None:
            instance("hetsim.workload.failure:Failing")(self.failures, "failures")
        for what, hint, _ in complaints(*parts):
            raise WorkloadError(what, hint=hint)
        self._share_origin()

    def _share_origin(self) -> None:
        """Pass the files of all traces to each: their earliest time is the common origin."""
        traces = [one for one in self.traces if one.start_s is None]
        files = tuple(dict.fromkeys(file for one in traces for file in (one.file, *one.beside)))
        if len(files) < 2:
            return
        streams = tuple(
            replace(one, arrivals=one.arrivals.among(files))
            if isinstance(one.arrivals, Replay)
            else one
            for one in self.streams
        )
        object.__setattr__(self, "streams", streams)
        if isinstance(self.arrivals, Replay):
            object.__setattr__(self, "arrivals", self.arrivals.among(files))

    def faster(self, speedup: float) -> Workload:
        """Return the workload with all open-loop arrivals in 1/`speedup` of the time.

        Used to search the rate that a platform sustains. Closed loops, the duration and the warm-up
        are unchanged.
        """
        positive(speedup, "speedup")
        streams = tuple(
            stream
            if stream.arrivals is None or isinstance(stream.arrivals, Closed)
            else replace(stream, arrivals=stream.arrivals.faster(speedup))
            for stream in self.streams
        )
        shared = None if self.arrivals is None else self.arrivals.faster(speedup)
        return replace(self, streams=streams, arrivals=shared)

    def arrivals_of(self, stream: Stream) -> tuple[Open | Closed, float]:
        """Return the arrivals that contain a stream's requests, and its share of them."""
        if stream.arrivals is not None:
            return stream.arrivals, 1.0
        assert self.arrivals is not None
        assert stream.share is not None
        return self.arrivals, stream.share

    @property
    def traces(self) -> tuple[Replay, ...]:
        """Replayed traces: the shared one, then those of streams."""
        each = [self.arrivals, *(stream.arrivals for stream in self.streams)]
        return tuple(one for one in each if isinstance(one, Replay))

    @property
    def drawn(self) -> bool:
        """Whether the requests depend on the seed; not for traces and constant arrivals."""
        each = [stream.arrivals for stream in self.streams]
        fails = self.failures is not None
        return fails or not all(isinstance(one, Replay | Constant) for one in each)

    @property
    def closed(self) -> tuple[Stream, ...]:
        """Streams of clients that wait for answers."""
        return tuple(one for one in self.streams if isinstance(one.arrivals, Closed))


def complaints(
    streams: Sequence[Stream],
    duration_s: float | None,
    requests: int | None,
    warm_up_s: float,
    arrivals: Open | Closed | None,
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the contradictions between parts of a workload, the remedies, and their keys."""
    names = [stream.name for stream in streams]
    if not streams:
        yield "there is no stream", "add one or more under 'streams:'", ()
    if len(streams) > MAX_STREAMS:
        what = f"{len(streams)} streams, above {MAX_STREAMS}"
        yield what, "join streams that differ only in their rate", ("streams",)
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"two streams are named '{name}'", "rename one", ("streams", name)
    shares = {stream.name: stream.share for stream in streams if stream.share is not None}
    first = ("streams", next(iter(shares), ""), "share")
    total = sum(shares.values())
    if shares and arrivals is None:
        yield "a share without arrivals to share", "add arrivals: beside streams:", first
    if arrivals is not None and not shares:
        what = "arrivals beside the streams, but no stream has a share"
        yield what, "add share: 1.0 to a stream", ("arrivals",)
    if shares and abs(total - 1) > 1e-9:
        yield f"the shares add up to {significant(total):g}, not 1", "change one", first
    if isinstance(arrivals, Closed):
        yield "a closed loop cannot be shared", "use closed: in each stream", ("arrivals",)
    if duration_s is None and requests is None:
        each = [arrivals, *(stream.arrivals for stream in streams)]
        if not all(one is None or isinstance(one, Replay) for one in each):
            yield "the workload has no end", "add duration_s: or requests:", ()
    if duration_s is not None and warm_up_s >= duration_s:
        hint = f"use less than duration_s, {duration_s:g}"
        yield "the warm-up does not end before the workload does", hint, ("warm_up_s",)


def by_model(workload: Workload) -> Mapping[str, tuple[Stream, ...]]:
    """Return the streams of each model, in the order written."""
    found: dict[str, tuple[Stream, ...]] = {}
    for stream in workload.streams:
        found[stream.model] = (*found.get(stream.model, ()), stream)
    return found
