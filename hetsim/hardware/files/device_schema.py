"""Schema of device files, prices and availability, and the records in SI units that they become."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from hetsim.core.units import GIGA, MIB, TERA
from hetsim.errors import UsageError, nearest
from hetsim.hardware.datasheet import CORES, FAMILIES, Datasheet, has_matrices, peak_of, processor
from hetsim.hardware.files.kernels_schema import Kernels, MeasuredModel, Precision, RuntimeModel
from hetsim.hardware.files.schema import (
    AtOnce,
    AtOnceFigure,
    Chain,
    Count,
    Dtype,
    Efficiencies,
    Figure,
    ForeignOp,
    Fraction,
    FractionFigure,
    Kind,
    Name,
    NotNegativeFigure,
    OneOf,
    OpType,
    Positive,
    PositiveFigure,
    Rates,
    Refusal,
    Strict,
    Text,
    refusal,
    refusals,
)
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.measurement import LONGEST_S, Measurement, read_time
from hetsim.hardware.price import DeviceAvailability, Price, availability_of, exactly
from hetsim.hardware.spec import CUSTOM_OPS, QUANTIZED, DeviceSpec, SupportRule
from hetsim.hardware.what_if import OF_DEVICE, HardwareFigure

if TYPE_CHECKING:
    from hetsim.graph.patterns.pattern import Pattern

_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?")


def _date(value: Any) -> Any:
    """YAML reads a whole date as one, and a year as a number."""
    text = str(value) if isinstance(value, datetime.date | int | str) else ""
    if isinstance(value, bool) or not _DATE.fullmatch(text):
        raise refusal(f"'{value}' is not the date of a price", "write e.g. 2024-06 or 2024")
    return text


class PriceModel(Strict):
    """The price of a device or a whole platform: rented by the hour, or bought."""

    usd_per_hour: Positive | None = None
    """Rented, with its electricity: US dollars an hour."""
    usd: Positive | None = None
    """Bought: US dollars."""
    years: Positive | None = None
    """Depreciation period in years; absent: that of --depreciation."""
    of: Annotated[Text, BeforeValidator(_date)]
    """The date of the price, e.g. 2024-06."""
    source: Text
    """Where the price is from."""

    @model_validator(mode="after")
    def _one(self) -> PriceModel:
        if (self.usd_per_hour is None) == (self.usd is None):
            raise refusal(
                "a price has exactly one of 'usd_per_hour' and 'usd'",
                "state the price per hour or the purchase price",
            )
        if self.years is not None and self.usd is None:
            raise refusal(
                ("'years' applies only to a purchase price"), "write usd:, or remove years:"
            )
        return self

    def to_price(self) -> Price:
        """Return the record."""
        return Price(self.usd_per_hour, self.usd, self.years, self.of, self.source)


class AvailabilityModel(Strict):
    """A share, or mean times: until it fails, and until it is back."""

    share: Fraction | None = None
    """Of its time that it is up."""
    mtbf_hours: Positive | None = None
    """In place of it: the mean time that it works until it fails."""
    mttr_hours: Positive | None = None
    """The mean time until it is back."""
    source: Text
    """Where that is from."""

    @model_validator(mode="after")
    def _one(self) -> AvailabilityModel:
        times = (self.mtbf_hours, self.mttr_hours)
        if (self.share is None) == (times == (None, None)) or times.count(None) == 1:
            raise refusal(
                "an availability has either 'share', or 'mtbf_hours' and 'mttr_hours'",
                "state the share of time it is up, or both times",
            )
        return self

    def to_availability(self) -> DeviceAvailability:
        """Return the record."""
        if self.share is not None:
            return DeviceAvailability(exactly(self.share), self.source)
        assert self.mtbf_hours is not None
        assert self.mttr_hours is not None
        return DeviceAvailability(availability_of(self.mtbf_hours, self.mttr_hours), self.source)


def parsed(name: str, text: str) -> Pattern:
    """Read a pattern; its UsageError shows the position of the error in the text."""
    from hetsim.graph.patterns.parser import parse_pattern

    return parse_pattern(name, text)


def _pattern_text(text: str) -> str:
    try:
        parsed("KEY", text)
    except UsageError as error:
        raise refusal(f"KEY is not a pattern: {error.what}", error.hint or "") from None
    return text


LISTED = "hetsim devices list --families"
"""Command that lists device families, cores and makes of graphics."""

CoreCluster = tuple[
    Count, Positive, Annotated[StrictStr, OneOf("core", tuple(CORES), listed_by=LISTED)]
]
CustomOp = Annotated[StrictStr, OneOf("custom op", CUSTOM_OPS)]
PatternText = Annotated[StrictStr, AfterValidator(_pattern_text)]
Entry = StrictInt | StrictFloat | StrictStr
AttributeText = Entry | tuple[Entry, ...]


def _time(text: str) -> str:
    try:
        seconds = read_time(text)
    except UsageError as error:
        raise refusal(f"KEY: {error.what}", error.hint or "") from None
    if seconds is None or not 0 < seconds <= LONGEST_S:
        raise refusal(f"KEY '{text}' is not a time above 0 s", "write e.g. 4.1ms")
    return text


class MeasurementModel(Strict):
    """Latency of a network that was measured on the device."""

    model: Text
    """Path of an ONNX file, or zoo:NAME."""
    latency: Annotated[StrictStr, AfterValidator(_time)]
    """Of one run, with inputs and outputs in the device's memory, e.g. 4.1ms."""
    precision: Precision | None = None
    """Precision of the run; absent: that in which the device runs the model as asked."""
    batch: Count | None = None
    """Requests in the run; absent: as the file has it, 1 where it is open."""
    threads: Count | None = None
    """Threads of a CPU in the run."""

    def to_measurement(self) -> Measurement:
        """Return the record."""
        return Measurement(
            self.model,
            read_time(self.latency) or 0.0,
            self.precision or "",
            self.batch or 0,
            self.threads or 0,
            in_device_file=True,
        )


class OpsetModel(Strict):
    """``opset:`` of a device's support."""

    min: Annotated[StrictInt, Field(ge=1)] = 1
    max: Annotated[StrictInt, Field(ge=1)] = 1_000

    @model_validator(mode="after")
    def _ordered(self) -> OpsetModel:
        if self.min > self.max:
            raise refusal(f"KEY has min {self.min} above max {self.max}", "swap them")
        return self


class SupportModel(Strict):
    """``support:`` of a device."""

    ops: tuple[OpType, ...] | None = None
    """Accepted op types; absent: all but those of 'except'."""
    except_ops: tuple[OpType, ...] = Field(default=(), alias="except")
    """Refused op types."""
    foreign: tuple[ForeignOp, ...] | None = None
    """Accepted op types of other domains than ONNX's own, where 'ops' is absent; absent: all for a
    CPU, none for others."""
    dtypes: tuple[Dtype, ...] | None = None
    """Accepted element types of the tensors that a node reads and writes."""
    static_shapes_only: StrictBool = False
    """Whether it refuses tensors whose shapes are not all known."""
    opset: OpsetModel | None = None
    """Oldest and newest version of the standard operator set."""
    max_rank: Annotated[StrictInt, Field(ge=0)] | None = None
    """Most dimensions of a tensor."""
    max_tensor_mib: Positive | None = None
    """Largest tensor, in MiB."""
    attributes: dict[OpType, dict[Text, tuple[AttributeText, ...]]] = Field(default_factory=dict)
    """By op type and attribute: the accepted values."""

    @field_validator("except_ops")
    @classmethod
    def _one_list(cls, except_ops: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if except_ops and info.data.get("ops") is not None:
            raise refusal("KEY stands beside 'ops'", "keep the shorter of the two")
        return except_ops

    @field_validator("foreign")
    @classmethod
    def _of_other_domains(
        cls, foreign: tuple[str, ...] | None, info: ValidationInfo
    ) -> tuple[str, ...] | None:
        if foreign is None:
            return None
        if info.data.get("ops") is not None:
            raise refusal("KEY stands beside 'ops'", "name them among 'ops'")
        return foreign


def _figures_of(kernels: Kernels) -> dict[str, KernelFigures]:
    return {precision: one.to_figures(precision) for precision, one in kernels.items()}


class DeviceModel(Strict):
    """A device file."""

    name: Name | None = None
    """Name of the kind; absent: that of the file."""
    kind: Kind
    """What it is; reports group devices by it."""
    full_name: Text
    """What people call it."""
    peak_tflops: Rates
    """Dense peak by element type, in 1e12 FLOP/s, 1 MAC = 2 FLOP; not the figure for sparse
    weights."""
    memory_bandwidth_gbytes_s: PositiveFigure
    """Peak bandwidth of its memory, in 1e9 bytes/s."""
    memory_gib: PositiveFigure
    """Memory for weights and live activations, in 2**30 bytes."""
    launch_us: NotNegativeFigure
    """Fixed cost of one kernel, in microseconds."""
    dispatch_us: NotNegativeFigure
    """Fixed cost of starting one subgraph, in microseconds."""
    streams: AtOnceFigure
    """Subgraphs that run at the same time."""
    idle_w: NotNegativeFigure
    """Power while nothing runs, in watts."""
    busy_w: NotNegativeFigure
    """Power while all streams run, in watts."""
    efficiency: Efficiencies
    """Fraction of the peak that each op class reaches; 'default' for the rest."""
    memory_efficiency: FractionFigure
    """Fraction of the memory bandwidth that kernels reach."""
    execution_dtype: dict[Dtype, Dtype] = Field(default_factory=dict)
    """Element types that it computes in another type, e.g. float32: float16."""
    support: SupportModel = Field(default_factory=SupportModel)
    """What it accepts; absent: every op."""
    fusions: tuple[Chain, ...] = ()
    """Chains of op types that run as one kernel."""
    patterns: dict[Name, PatternText] = Field(default_factory=dict)
    """What it takes as one kernel and as a whole, by name."""
    quantized: tuple[OpType, ...] | None = None
    """Op types that it computes in integers between DequantizeLinear and QuantizeLinear; absent:
    the customary ones where it has an int8 peak."""
    backend: Name = "simulated"
    """What runs its subgraphs; absent: ONNX Runtime on the CPU."""
    threads: AtOnce = 1
    """Threads that one kernel is spread over when subgraphs are really run."""
    custom_ops: tuple[CustomOp, ...] | None = None
    """Operators outside ONNX that it takes: those with a function as body, and those of onnxruntime
    custom-op libraries."""
    kernels: Kernels = Field(default_factory=dict)
    """What kernels take, by precision, for the cost model 'fitted'."""
    runtime: Text | None = None
    """The runtime that 'measured' and 'kernels' are figures of."""
    measured: dict[Precision, MeasuredModel] = Field(default_factory=dict)
    """By precision: the published measurements that its figures are fitted to."""
    runtimes: dict[Text, RuntimeModel] = Field(default_factory=dict)
    """By name: other runtimes that it was measured in, for --runtime."""
    cores: tuple[CoreCluster, ...] = ()
    """Of a processor: a list of [cores, GHz, core], the fastest first, for what its kin say of it.
    """
    family: Annotated[StrictStr, OneOf("family", FAMILIES, listed_by=LISTED)] | None = None
    """Of graphics or a processor: the make, e.g. mali, for what its kin say of it."""
    measurements: tuple[MeasurementModel, ...] = ()
    """Latencies of networks that you measured on it: they correct its times."""
    price: PriceModel | None = None
    """What it costs alone."""
    availability: AvailabilityModel | None = None
    """Which share of its time it is up."""

    @field_validator("busy_w")
    @classmethod
    def _above_idle(cls, busy_w: Figure[float], info: ValidationInfo) -> Figure[float]:
        idle_w = info.data.get("idle_w")
        if idle_w is not None and busy_w.value < idle_w.value:
            raise refusal(
                f"KEY of {busy_w.value:g} is below 'idle_w' of {idle_w.value:g}",
                "busy power must be at least idle power",
            )
        return busy_w

    @field_validator("runtimes")
    @classmethod
    def _others(
        cls, runtimes: dict[str, RuntimeModel], info: ValidationInfo
    ) -> dict[str, RuntimeModel]:
        default = info.data.get("runtime")
        if runtimes and default is None and "runtime" in info.data:
            raise refusal("KEY stands without 'runtime'", "add the runtime of 'measured'")
        if default in runtimes:
            raise refusals([("KEY repeats 'runtime', whose rows 'measured' names", "", (default,))])
        return runtimes

    @field_validator("execution_dtype")
    @classmethod
    def _has_peak(cls, execution_dtype: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        peaks = info.data.get("peak_tflops", execution_dtype.values())
        found: list[Refusal] = [
            (
                f"KEY computes in {used}, for which 'peak_tflops' has no value",
                nearest(used, peaks),
                (given,),
            )
            for given, used in execution_dtype.items()
            if used not in peaks
        ]
        if found:
            raise refusals(found)
        return execution_dtype

    def datasheet(self, kin: str, precision: str) -> Datasheet:
        """Return the unit's datasheet for its family's runtime and precision."""
        if self.cores:
            return processor(self.cores, precision, matrices=has_matrices(kin))
        peaks = {dtype: rate.value * TERA for dtype, rate in self.peak_tflops.items()}
        bandwidth = self.memory_bandwidth_gbytes_s.value * GIGA
        if self.kind == "cpu":
            return Datasheet(peak_of(peaks, precision), None, family=self.family)
        return Datasheet(peak_of(peaks, precision), bandwidth, family=self.family)

    def peak(self, kin: str, precision: str, computes: str | None) -> float | None:
        """Return the peak rate of the family's runtime; TF32's is half of float16's."""
        if computes == "tf32":
            return self.peak_tflops["float16"].value * TERA / 2
        return self.datasheet(kin, precision).flops_per_s

    def to_spec(self, name: str) -> DeviceSpec:
        """Return the device kind called `name` as a record in SI units."""
        support = self.support
        return DeviceSpec(
            name=name,
            kind=self.kind,
            full_name=self.full_name,
            **self._in_si(),
            execution_dtype=dict(self.execution_dtype),
            support=SupportRule(
                ops=None if support.ops is None else frozenset(support.ops),
                except_ops=frozenset(support.except_ops),
                foreign=self._foreign(),
                dtypes=None if support.dtypes is None else frozenset(support.dtypes),
                static_shapes_only=support.static_shapes_only,
                opset=None if support.opset is None else (support.opset.min, support.opset.max),
                max_rank=support.max_rank,
                max_tensor_bytes=None
                if support.max_tensor_mib is None
                else round(support.max_tensor_mib * MIB),
                attributes={op: dict(rules) for op, rules in support.attributes.items()},
            ),
            fusions=tuple(sorted(self.fusions, key=len, reverse=True)),
            patterns=tuple(parsed(name, text) for name, text in self.patterns.items()),
            quantized=frozenset(self._quantized()),
            backend=self.backend,
            threads=self.threads,
            custom_ops=frozenset(self._custom_ops()),
            provenance={
                f"{known.field}.{entry}" if known.table else known.field: figure.stated
                for known, entry, figure in self._figures()
            },
            kernels=_figures_of(self.kernels),
            runtime=self.runtime or "",
            runtimes={name: _figures_of(one.kernels) for name, one in self.runtimes.items()},
            price=None if self.price is None else self.price.to_price(),
            availability=None if self.availability is None else self.availability.to_availability(),
            measurements=tuple(one.to_measurement() for one in self.measurements),
        )

    def _foreign(self) -> frozenset[str] | None:
        """Ops of other domains; where nothing is said, the kernels of CPUs are ONNX Runtime's."""
        if self.support.foreign is not None:
            return frozenset(self.support.foreign)
        return None if self.kind == "cpu" else frozenset()

    def _quantized(self) -> tuple[str, ...]:
        """What it computes in integers; where nothing is said, what is customary and accepted."""
        if self.quantized is not None:
            return self.quantized
        if "int8" not in self.peak_tflops:
            return ()
        ops, refused = self.support.ops, self.support.except_ops
        return tuple(op for op in QUANTIZED if op not in refused and (ops is None or op in ops))

    def _custom_ops(self) -> tuple[str, ...]:
        """What it takes; where nothing is said, libraries of kernels are for CPUs."""
        if self.custom_ops is not None:
            return self.custom_ops
        return CUSTOM_OPS if self.kind == "cpu" else ("function",)

    def _figures(self) -> Iterator[tuple[HardwareFigure, str, Figure[Any]]]:
        """Yield the figures with their entry in a table, an empty text outside of one."""
        for known in OF_DEVICE:
            stated = getattr(self, known.key)
            for entry, figure in stated.items() if known.table else (("", stated),):
                yield known, entry, figure

    def _in_si(self) -> dict[str, Any]:
        """Return the figures of the record in SI units."""
        found: dict[str, Any] = {}
        for known, entry, figure in self._figures():
            value = known.si(figure.value)
            if known.table:
                found.setdefault(known.field, {})[entry] = value
            else:
                found[known.field] = value
        return found
