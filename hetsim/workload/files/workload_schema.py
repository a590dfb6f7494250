"""What a workload file may say."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, StrictInt, StrictStr
from pydantic import model_validator as validated
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from hetsim.errors import HetsimError, InvalidInput
from hetsim.hardware.files.figures import (
    Name,
    NotNegative,
    OneOf,
    OrOne,
    Positive,
    Strict,
    Text,
    refusal,
    refusals,
)
from hetsim.workload.arrivals.closed import Closed
from hetsim.workload.dimensions import ABOVES, Follows
from hetsim.workload.failing import TIMES, Failing
from hetsim.workload.failure import parse_failures
from hetsim.workload.files.arrivals_schema import ArrivalsModel
from hetsim.workload.files.paths import model_at
from hetsim.workload.numbers import MAX_SEED
from hetsim.workload.slo import HINT, Slo, parse_slo
from hetsim.workload.traces.reading import MAX_VALUE
from hetsim.workload.workload import MAX_PRIORITY, MAX_REQUESTS, Stream, Workload, complaints

Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False, strict=True)]
Part = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
Percentile = Annotated[float, Field(gt=0, lt=100, allow_inf_nan=False, strict=True)]
Size = Annotated[StrictInt, Field(ge=1, le=MAX_VALUE)]
Above = Annotated[StrictStr, OneOf("way", ABOVES)]


class SloModel(Strict):
    """A latency at a percentile, or a share on time; as text in short."""

    percentile: Percentile | None = None
    """Of latencies, above 0 and below 100."""
    share_on_time: Share | None = None
    """Of requests, above 0 and below 1."""
    latency_ms: Positive
    """From arrival to answer, in milliseconds."""

    @validated(mode="before")
    @classmethod
    def _in_short(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        try:
            slo = parse_slo(given)
        except InvalidInput as error:
            raise refusal(error.what, error.hint or "") from None
        latency_ms = float(Decimal(repr(slo.latency_s)) * 1000)
        return {"share_on_time": slo.share, "latency_ms": latency_ms}

    @validated(mode="after")
    def _one(self) -> SloModel:
        if (self.percentile is None) == (self.share_on_time is None):
            has = "neither" if self.percentile is None else "both"
            raise refusal(f"KEY has {has} of percentile and share_on_time", "write one of them")
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        full = dict(handler.resolve_ref_schema(handler(schema)))
        full["oneOf"] = [
            {"properties": {key: {"type": "number"}}, "required": [key]}
            for key in ("percentile", "share_on_time")
        ]
        return {"anyOf": [{"type": "string", "description": HINT}, full]}

    def to_record(self) -> Slo:
        """Return the objective that it describes."""
        latency_s = float(Decimal(repr(self.latency_ms)) / 1000)
        if self.percentile is not None:
            return Slo.at_percentile(self.percentile, latency_s)
        assert self.share_on_time is not None
        return Slo(self.share_on_time, latency_s)


class DimModel(Strict):
    """A size, or a column of the trace that it follows."""

    size: Annotated[StrictInt, Field(ge=0, le=MAX_VALUE)] | None = None
    """The same for every request."""
    column: Text | None = None
    """Of the trace that is replayed."""
    buckets: Annotated[tuple[Size, ...], Field(min_length=1)] | None = None
    """Ascending sizes that the model is prepared for; a request takes the least that holds it."""
    above: Above = "error"
    """Of a request that none holds: an error, or cut to the largest."""

    @validated(mode="before")
    @classmethod
    def _size(cls, given: Any) -> Any:
        return given if isinstance(given, Mapping) else {"size": given}

    @validated(mode="after")
    def _one(self) -> DimModel:
        follows = self.column is not None and self.buckets is not None
        if follows == (self.size is not None) or (self.column is None) != (self.buckets is None):
            hint = "write a size, or {column: NAME, buckets: [128, 512]}"
            raise refusal("KEY is neither a size nor a column with buckets", hint)
        try:
            self.to_record()
        except InvalidInput as error:
            raise refusal(error.what, error.hint or "", ("buckets",)) from None
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        full = dict(handler.resolve_ref_schema(handler(schema)))
        given = {"size": {"type": "integer"}, "column": {"type": "string"}}
        full["oneOf"] = [{"properties": {key: given[key]}, "required": [key]} for key in given]
        full["dependentRequired"] = {"column": ["buckets"], "buckets": ["column"]}
        return {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_VALUE}, full]}

    def to_record(self) -> int | Follows:
        """Return what it describes."""
        if self.column is None or self.buckets is None:
            return self.size or 0
        return Follows(self.column, self.buckets, "error" if self.above == "error" else "truncate")


class ByDeviceModel(Strict):
    """Seconds for all devices alike, or by name."""

    all_s: Positive | None = None
    by_name: dict[Name, Positive] = Field(default_factory=dict)

    @validated(mode="before")
    @classmethod
    def _either(cls, given: Any) -> Any:
        return {"by_name": given} if isinstance(given, Mapping) else {"all_s": given}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        seconds = {"type": "number", "exclusiveMinimum": 0}
        by_name = {"type": "object", "additionalProperties": seconds, "minProperties": 1}
        return {"anyOf": [seconds, by_name]}

    def to_record(self) -> float | dict[str, float]:
        """Return what it describes."""
        return self.by_name if self.all_s is None else self.all_s


class StreamModel(Strict):
    """One entry of ``streams:``."""

    model: Text
    """Path of an ONNX file, from the folder of this one, or zoo:NAME."""
    arrivals: ArrivalsModel | None = None
    """When its requests come."""
    share: Part | None = None
    """In the place of arrivals: the part of the workload's own that it gets."""
    slos: Annotated[tuple[SloModel, ...], OrOne()] = ()
    """What is asked of its latencies, e.g. p99=50ms; each must hold."""
    priority: Annotated[StrictInt, Field(ge=1, le=MAX_PRIORITY)] | None = None
    """1 goes first; absent: the default level of the deployment."""
    dims: dict[Text, DimModel] = Field(default_factory=dict)
    """Open dimensions of the model: a size, or a column of the trace by buckets."""

    @validated(mode="after")
    def _fits(self) -> StreamModel:
        if self.arrivals is None and self.share is None:
            hint = "write arrivals: {poisson: {rate_per_s: 100}}, say, or share: beside arrivals:"
            raise refusal("KEY says not when its requests come", hint)
        try:
            self.to_record("it", Path())
        except InvalidInput as error:
            raise refusal(error.what.replace(" of 'it'", ""), error.hint or "") from None
        return self

    def to_record(self, name: str, base: Path) -> Stream:
        """Return the stream called `name`; paths start from the folder `base`."""
        return Stream(
            name=name,
            model=model_at(self.model, base),
            arrivals=None if self.arrivals is None else self.arrivals.to_record(base),
            share=self.share,
            slos=tuple(slo.to_record() for slo in self.slos),
            priority=self.priority,
            dims={dim: given.to_record() for dim, given in self.dims.items()},
        )


class FailingModel(Strict):
    """Devices that fail."""

    inject: Annotated[tuple[Text, ...], OrOne()] = ()
    """At times that are given, e.g. kill gpu at 2s for 500ms."""
    mtbf_s: ByDeviceModel | None = None
    """Mean time that a device works until it fails, in seconds: of all, or by name."""
    mttr_s: ByDeviceModel | None = None
    """Mean time until it is back, in seconds: of all, or by name."""
    times: Annotated[StrictStr, OneOf("way", TIMES)] = "exponential"
    """How both are distributed."""

    @validated(mode="after")
    def _fits(self) -> FailingModel:
        try:
            self.to_record()
        except HetsimError as error:
            raise refusal(error.what, error.hint or "") from None
        return self

    def to_record(self) -> Failing:
        """Return what it describes."""
        return Failing(
            tuple(failure for text in self.inject for failure in parse_failures(text)),
            None if self.mtbf_s is None else self.mtbf_s.to_record(),
            None if self.mttr_s is None else self.mttr_s.to_record(),
            "exponential" if self.times == "exponential" else "constant",
        )


class WorkloadModel(Strict):
    """A workload file."""

    streams: Annotated[dict[Name, StreamModel], Field(min_length=1)]
    """Streams of requests by name; a stream's random numbers follow its name."""
    arrivals: ArrivalsModel | None = None
    """Those of which streams get a share."""
    duration_s: Positive | None = None
    """When requests no longer come, in seconds."""
    requests: Annotated[StrictInt, Field(ge=1, le=MAX_REQUESTS)] | None = None
    """How many come in all; absent: as many as come until the end."""
    warm_up_s: NotNegative = 0.0
    """What comes before it is played and not counted, in seconds."""
    seed: Annotated[StrictInt, Field(ge=0, le=MAX_SEED)] = 0
    """Of all random numbers."""
    failures: FailingModel | None = None
    """Devices that fail meanwhile; absent: none does."""

    @validated(mode="after")
    def _fits(self) -> WorkloadModel:
        base = Path()
        found = list(
            complaints(
                [given.to_record(name, base) for name, given in self.streams.items()],
                self.duration_s,
                self.requests,
                self.warm_up_s,
                None if self.arrivals is None else self.arrivals.to_record(base),
            )
        )
        if found:
            raise refusals(found)
        return self

    def to_record(self, base: Path) -> Workload:
        """Return the workload; paths start from the folder `base`."""
        shared = None if self.arrivals is None else self.arrivals.to_record(base)
        assert not isinstance(shared, Closed)
        return Workload(
            streams=tuple(given.to_record(name, base) for name, given in self.streams.items()),
            duration_s=self.duration_s,
            requests=self.requests,
            warm_up_s=self.warm_up_s,
            seed=self.seed,
            arrivals=shared,
            failures=None if self.failures is None else self.failures.to_record(),
        )
