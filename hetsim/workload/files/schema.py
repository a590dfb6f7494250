"""Schemas of workload and deployment files."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, GetJsonSchemaHandler, StrictInt, StrictStr
from pydantic import model_validator as validated
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from hetsim.errors import HetsimError, InvalidInput
from hetsim.hardware.files.schema import (
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
from hetsim.workload.arrivals import (
    KINDS,
    LEAST_CV,
    MAX_CONCURRENCY,
    MAX_SEED,
    MAX_SIZE,
    MOST_CV,
    SPACINGS,
    THINKS,
    Burst,
    Closed,
    Constant,
    Gamma,
    Mmpp,
    Poisson,
    Replay,
)
from hetsim.workload.autoscaling import (
    AGGREGATIONS,
    MAX_ONGOING,
    MAX_REPLICAS,
    NOT_MODELLED,
    Autoscaling,
)
from hetsim.workload.deployment import (
    LOADINGS,
    MAX_BATCH,
    MAX_IN_FLIGHT,
    MAX_INSTANCES,
    MAX_QUEUE,
    MAX_US,
    ROUTINGS,
    TIMEOUT_ACTIONS,
    Deployment,
    DynamicBatching,
    Instances,
    QueuePolicy,
    Served,
)
from hetsim.workload.failure import TIMES, Failing, parse_failures
from hetsim.workload.traces import FORMATS, MAX_VALUE, UNITS
from hetsim.workload.workload import (
    ABOVES,
    HINT,
    MAX_PRIORITY,
    MAX_REQUESTS,
    Follows,
    Slo,
    Stream,
    Workload,
    complaints,
    parse_slo,
)


def model_at(given: str, base: Path) -> str:
    """Return the model that `given` names in a file of the folder `base`; zoo:NAME is itself."""
    return given if given.startswith("zoo:") else str(base / given)


class Described(Strict):
    """Part of a file that describes a `record` of the same fields."""

    record: ClassVar[Any]

    @validated(mode="after")
    def _fits(self) -> Self:
        try:
            self.to_record(Path())
        except HetsimError as error:
            raise refusal(error.what, error.hint or "", self._place(error)) from None
        return self

    def _place(self, error: HetsimError) -> tuple[str, ...]:
        """The key that an error begins with, where it is one of these."""
        key = error.what.partition(" ")[0]
        return (key,) if key in type(self).model_fields else ()

    def to_record(self, base: Path) -> Any:
        """Return the record; paths start from the folder `base`."""
        return self.record(**self.given(base))

    def given(self, base: Path) -> dict[str, Any]:
        """Return the fields of the record."""
        return fields_of(self, base)


def fields_of(model: Strict, base: Path) -> dict[str, Any]:
    """Return the fields of a part of a file, with the records of those that describe one."""
    return {key: _recorded(value, base) for key, value in model}


def _recorded(value: Any, base: Path) -> Any:
    if isinstance(value, tuple):
        return tuple(_recorded(one, base) for one in value)
    if isinstance(value, dict):
        return {key: _recorded(one, base) for key, one in value.items()}
    return value.to_record(base) if hasattr(value, "to_record") else value


Spacing = Annotated[StrictStr, OneOf("spacing", SPACINGS)]
Think = Annotated[StrictStr, OneOf("way to think", THINKS)]
Format = Annotated[StrictStr, OneOf("format", FORMATS)]
Unit = Annotated[StrictStr, OneOf("unit", UNITS)]


class ConstantModel(Described):
    """Requests at a constant interval."""

    record: ClassVar[Any] = Constant

    rate_per_s: NotNegative
    """Requests a second."""


class PoissonModel(Described):
    """Independent exponential gaps."""

    record: ClassVar[Any] = Poisson

    rate_per_s: NotNegative
    """Requests a second, on average."""


class GammaModel(Described):
    """Independent gamma distributed gaps."""

    record: ClassVar[Any] = Gamma

    rate_per_s: NotNegative
    """Requests a second, on average."""
    cv: Annotated[float, Field(ge=LEAST_CV, le=MOST_CV, allow_inf_nan=False, strict=True)]
    """Coefficient of variation of the gaps; 1 is a Poisson process."""


class MmppModel(Described):
    """A Poisson process whose rate changes at random."""

    record: ClassVar[Any] = Mmpp

    rates_per_s: Annotated[tuple[NotNegative, ...], Field(min_length=2)]
    """Requests a second, by state."""
    sojourns_s: Annotated[tuple[Positive, ...], Field(min_length=2)]
    """Mean time in each state, in seconds."""


class BurstModel(Described):
    """Several requests at once."""

    record: ClassVar[Any] = Burst

    rate_per_s: NotNegative
    """Requests a second, not bursts."""
    size: Annotated[StrictInt, Field(ge=1, le=MAX_SIZE)]
    """Requests of one burst."""
    spacing: Spacing = "constant"
    """Bursts every so often, or as a Poisson process."""


class ReplayModel(Described):
    """Replayed trace."""

    record: ClassVar[Any] = Replay

    path: Text
    """CSV or JSON lines, plain or .gz, from the folder of this file."""
    speed_up: Positive = 1.0
    """How much faster requests come than they came."""
    format: Format | None = None
    """Absent: what the first line looks like."""
    column: Text | None = None
    """Of csv and jsonl: which column or key has the time."""
    unit: Unit | None = None
    """Of that time; absent: seconds."""
    where: dict[Text, Text] = Field(default_factory=dict)
    """Values by column: only the requests that have them, e.g. those of one model."""
    start_s: NotNegative | None = None
    """When the file's first request comes; absent: by the earliest of all files."""

    def given(self, base: Path) -> dict[str, Any]:
        """Return the fields of the record."""
        return {**dict(self), "path": str(base / self.path)}


class ClosedModel(Described):
    """Clients that each wait for the answer to their previous request."""

    record: ClassVar[Any] = Closed

    concurrency: Annotated[StrictInt, Field(ge=1, le=MAX_CONCURRENCY)]
    """Clients, so the most requests that are under way."""
    think_time_s: NotNegative = 0.0
    """Mean time from an answer to the client's next request, in seconds."""
    think: Think = "constant"
    """How that time is distributed."""


class ArrivalsModel(Strict):
    """Arrivals of requests: one of these kinds."""

    constant: ConstantModel | None = None
    """A request every so often."""
    poisson: PoissonModel | None = None
    """Independent exponential gaps."""
    gamma: GammaModel | None = None
    """Independent gamma distributed gaps."""
    mmpp: MmppModel | None = None
    """A Poisson process whose rate changes at random, state after state in a ring."""
    burst: BurstModel | None = None
    """Several requests at once."""
    replay: ReplayModel | None = None
    """The requests of a trace; Azure's and Mooncake's formats are read as they are."""
    closed: ClosedModel | None = None
    """So many clients, each of whom waits for the answer to the request before."""

    @validated(mode="after")
    def _one_kind(self) -> ArrivalsModel:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            what = f"KEY has {len(given) or 'no'} kinds of arrivals"
            raise refusal(what, f"use one of {', '.join(KINDS)}")
        return self

    def to_record(self, base: Path) -> Any:
        """Return the arrivals that it describes; paths start from the folder `base`."""
        return next(one for _, one in self if one is not None).to_record(base)


Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False, strict=True)]
Part = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
Percentile = Annotated[float, Field(gt=0, lt=100, allow_inf_nan=False, strict=True)]
Size = Annotated[StrictInt, Field(ge=1, le=MAX_VALUE)]
Above = Annotated[StrictStr, OneOf("way", ABOVES)]


class SloModel(Described):
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
    def _fits(self) -> SloModel:
        if (self.percentile is None) == (self.share_on_time is None):
            has = "neither" if self.percentile is None else "both"
            raise refusal(f"KEY has {has} percentile and share_on_time", "use one of them")
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

    def to_record(self, base: Path) -> Slo:
        """Return the objective that it describes."""
        latency_s = float(Decimal(repr(self.latency_ms)) / 1000)
        if self.percentile is not None:
            return Slo.at_percentile(self.percentile, latency_s)
        assert self.share_on_time is not None
        return Slo(self.share_on_time, latency_s)


class DimModel(Described):
    """Size, or a column of the trace."""

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
    def _fits(self) -> DimModel:
        follows = self.column is not None and self.buckets is not None
        if follows == (self.size is not None) or (self.column is None) != (self.buckets is None):
            hint = "use a size, or {column: NAME, buckets: [128, 512]}"
            raise refusal("KEY is neither a size nor a column with buckets", hint)
        try:
            self.to_record(Path())
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

    def to_record(self, base: Path) -> int | Follows:
        """Return the record."""
        if self.column is None or self.buckets is None:
            return self.size or 0
        return Follows(self.column, self.buckets, "error" if self.above == "error" else "truncate")


class ByDeviceModel(Described):
    """Seconds for all devices, or by name."""

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

    def to_record(self, base: Path) -> float | dict[str, float]:
        """Return the record."""
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
            hint = (
                "add arrivals: {poisson: {rate_per_s: 100}}, for example, or share: with shared "
                "arrivals:"
            )
            raise refusal("KEY does not state when its requests arrive", hint)
        try:
            self.to_record("it", Path())
        except InvalidInput as error:
            raise refusal(error.what.replace(" of 'it'", ""), error.hint or "") from None
        return self

    def to_record(self, name: str, base: Path) -> Stream:
        """Return the stream called `name`; paths start from the folder `base`."""
        return Stream(name, **{**fields_of(self, base), "model": model_at(self.model, base)})


class FailingModel(Described):
    """Devices that fail."""

    record: ClassVar[Any] = Failing

    inject: Annotated[tuple[Text, ...], OrOne()] = ()
    """At times that are given, e.g. kill gpu at 2s for 500ms."""
    mtbf_s: ByDeviceModel | None = None
    """Mean time that a device works until it fails, in seconds: of all, or by name."""
    mttr_s: ByDeviceModel | None = None
    """Mean time until it is back, in seconds: of all, or by name."""
    times: Annotated[StrictStr, OneOf("way", TIMES)] = "exponential"
    """How both are distributed."""

    def _place(self, error: HetsimError) -> tuple[str, ...]:
        return ()

    def given(self, base: Path) -> dict[str, Any]:
        """Return the fields of the record."""
        injected = tuple(failure for text in self.inject for failure in parse_failures(text))
        found = super().given(base)
        del found["inject"]
        return {**found, "injected": injected}


class WorkloadModel(Described):
    """A workload file."""

    record: ClassVar[Any] = Workload

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

    def given(self, base: Path) -> dict[str, Any]:
        """Return the fields of the record."""
        streams = tuple(given.to_record(name, base) for name, given in self.streams.items())
        own = {key: _recorded(value, base) for key, value in self if key != "streams"}
        return {**own, "streams": streams}


Batch = Annotated[StrictInt, Field(ge=1, le=MAX_BATCH)]
Micros = Annotated[StrictInt, Field(ge=0, le=MAX_US)]
Level = Annotated[StrictInt, Field(ge=0, le=MAX_PRIORITY)]


class InstancesModel(Described):
    """One entry of ``instances:``."""

    record: ClassVar[Any] = Instances

    count: Annotated[StrictInt, Field(ge=1, le=MAX_INSTANCES)] = 1
    """How many of them are alike."""
    devices: tuple[Name, ...] = ()
    """Those that each may use; absent: all."""
    strategy: Text | None = None
    """What plans them; absent: that of the model."""
    plan: Text | None = None
    """A saved plan, in the place of a strategy."""
    max_in_flight: Annotated[StrictInt, Field(ge=1, le=MAX_IN_FLIGHT)] | None = None
    """Batches that each has under way at most; absent: one where requests are batched, have
    priorities or wait by a policy, else as many as its plan takes."""

    def given(self, base: Path) -> dict[str, Any]:
        """Return the fields of the record."""
        return {**dict(self), "plan": None if self.plan is None else str(base / self.plan)}


class QueuePolicyModel(Described):
    """Queueing rules of requests."""

    record: ClassVar[Any] = QueuePolicy

    max_queue_size: Annotated[StrictInt, Field(ge=0, le=MAX_QUEUE)] = 0
    """Requests that may wait; a further one is rejected. 0: any number."""
    default_timeout_us: Micros = 0
    """How long a request may wait, in microseconds. 0: for ever."""
    timeout_action: Annotated[StrictStr, OneOf("action", TIMEOUT_ACTIONS)] = "reject"
    """Of one that waited longer: rejected, or after all that did not."""


class DynamicBatchingModel(Described):
    """Batching rules of waiting requests."""

    record: ClassVar[Any] = DynamicBatching

    max_batch_size: Batch
    """The most requests of one batch."""
    preferred_batch_size: tuple[Batch, ...] = ()
    """Ascending sizes; a batch of one of them goes at once."""
    max_queue_delay_us: Micros = 0
    """How long the oldest waits for others, in microseconds."""


class AutoscalingModel(Described):
    """Rules by which replicas start and stop."""

    record: ClassVar[Any] = Autoscaling

    min_replicas: Annotated[StrictInt, Field(ge=0, le=MAX_REPLICAS)] = 1
    """The fewest that there are."""
    max_replicas: Annotated[StrictInt, Field(ge=1, le=MAX_REPLICAS)] = 1
    """The most; instances: has as many or more."""
    initial_replicas: Annotated[StrictInt, Field(ge=0, le=MAX_REPLICAS)] | None = None
    """Of which it begins; absent: min_replicas."""
    target_ongoing_requests: Positive = 2.0
    """Requests, queued or under way, for each replica."""
    max_ongoing_requests: Annotated[StrictInt, Field(ge=1, le=MAX_ONGOING)] | None = None
    """That a replica has under way at most; absent: 5."""
    metrics_interval_s: Positive = 10.0
    """How often what was counted is told, in seconds."""
    look_back_period_s: Positive = 30.0
    """How far back it is aggregated, in seconds."""
    upscale_delay_s: NotNegative = 30.0
    """How long more must have been wanted, in seconds."""
    downscale_delay_s: NotNegative = 600.0
    """How long fewer must have been wanted, in seconds."""
    downscale_to_zero_delay_s: NotNegative | None = None
    """The same of the last one; absent: downscale_delay_s."""
    upscaling_factor: Positive | None = None
    """On the replicas that are lacking; absent: smoothing_factor."""
    downscaling_factor: Positive | None = None
    """On those that are too many; absent: smoothing_factor."""
    smoothing_factor: Positive = 1.0
    """An older name: both factors, where they are absent."""
    upscale_smoothing_factor: Positive | None = None
    """An older name of upscaling_factor."""
    downscale_smoothing_factor: Positive | None = None
    """An older name of downscaling_factor."""
    aggregation_function: Annotated[StrictStr, OneOf("aggregation", AGGREGATIONS)] = "mean"
    """Of what was counted."""
    control_loop_interval_s: Positive = 0.1
    """How often it is decided, in seconds."""
    graceful_shutdown_wait_loop_s: Positive = 2.0
    """How often a replica that is to go looks whether it has ended all that it had, in seconds."""
    startup_s: NotNegative = 0.0
    """Seconds that a replica takes to start, before its weights are loaded."""

    @validated(mode="before")
    @classmethod
    def _modelled(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            found = [
                (f"KEY has {key}, which is not simulated", hint, ())
                for key, hint in NOT_MODELLED.items()
                if key in given
            ]
            if found:
                raise refusals(found)
        return given


class ServedModel(Described):
    """One entry of ``models:``."""

    record: ClassVar[Any] = Served

    model: Text
    """Path of an ONNX file, from the folder of this one, or zoo:NAME."""
    strategy: Text = "auto"
    """What plans its instances, as --strategy takes it."""
    batch_sizes: tuple[Batch, ...] = ()
    """Ascending sizes that it is planned for; a batch runs as the least that holds it. Absent:
    every size."""
    batch_dim: Text | None = None
    """The open dimension that is the batch; absent: the first of the first input."""
    instances: Annotated[tuple[InstancesModel, ...], Field(min_length=1)] = (InstancesModel(),)
    """Its replicas; absent: one on all devices."""
    routing: Annotated[StrictStr, OneOf("routing", ROUTINGS)] = "shortest_queue"
    """Which instance gets a batch."""
    queue_policy: QueuePolicyModel = QueuePolicyModel()
    """How requests wait."""
    priority_levels: Level = 0
    """Levels of priority, 1 the first; 0: requests have none."""
    default_priority_level: Level = 0
    """Of requests that say none."""
    dynamic_batching: DynamicBatchingModel | None = None
    """How requests that wait become one batch; absent: they do not."""
    loading: Annotated[StrictStr, OneOf("loading", LOADINGS)] = "resident"
    """Whether its weights are in memory all along, or loaded where batches need it."""
    autoscaling: AutoscalingModel | None = None
    """When replicas start and stop, as Ray Serve does it; absent: all instances are there all
    along."""

    def given(self, base: Path) -> dict[str, Any]:
        """Return the fields of the record."""
        return {**super().given(base), "model": model_at(self.model, base)}


class DeploymentModel(Described):
    """A deployment file."""

    record: ClassVar[Any] = Deployment

    models: Annotated[tuple[ServedModel, ...], Field(min_length=1)]
    """What is served, each model once."""

    def _place(self, error: HetsimError) -> tuple[str, ...]:
        return ("models",)
