"""Schema of kernel figures by precision, their measurements, and device families."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
    model_validator,
)
from pydantic import field_validator as checked

from hetsim.errors import nearest
from hetsim.graph.work.rule import FORMS
from hetsim.hardware.datasheet import COVARIATES
from hetsim.hardware.files.catalog_files import names
from hetsim.hardware.files.schema import (
    DTYPE_ABBREVIATIONS,
    Count,
    Matching,
    NotNegative,
    Number,
    OneOf,
    Positive,
    PositiveFigure,
    Refusal,
    Strict,
    Table,
    Text,
    refusal,
    refusals,
)
from hetsim.hardware.kernel_figures import (
    BATCHES,
    COORDINATES,
    PARAMETERS,
    Basis,
    Coordinate,
    Correction,
    Counted,
    FigureError,
    KernelFigures,
)
from hetsim.hardware.kin import TRAITS, ByDatasheet, Kin, KnownNetwork, RelatedNetwork
from hetsim.hardware.variants import PRECISIONS

Precision = Annotated[StrictStr, OneOf("precision", PRECISIONS, DTYPE_ABBREVIATIONS)]
ParameterName = Annotated[StrictStr, OneOf("parameter", tuple(one.name for one in PARAMETERS))]
BatchRange = Annotated[StrictStr, OneOf("range of batch sizes", BATCHES)]
FormName = Annotated[StrictStr, OneOf("form of kernels", FORMS)]
_OP = r"([A-Za-z_][A-Za-z0-9_.-]*:)?[A-Za-z_][A-Za-z0-9_]*"
JoinName = Annotated[
    StrictStr,
    Matching(
        "an op that joins a kernel",
        rf"({_OP}>)?{_OP}(/2|/gate|/before)?",
        "write 'Relu', 'Add/2' for a sum of two values, 'Sigmoid/gate' for x * sigmoid(x), "
        "'Div>Erf' for ops that join an elementwise kernel that begins with Div, 'Add/before' for "
        "a sum within the norm that reads it",
    ),
]
ChannelBlock = Annotated[int, Field(strict=True, ge=2, le=1024)]
CoordinateName = Annotated[StrictStr, OneOf("coordinate", COORDINATES)]
Parameters = Annotated[
    dict[ParameterName, PositiveFigure],
    Table({one.name: "state all of them, or none for the precision" for one in PARAMETERS}),
]


class ErrorModel(Strict):
    """One entry of ``errors:``: relative errors over measurements that were left out."""

    batch: BatchRange
    """Range of batch sizes."""
    networks: Count
    """Networks that were measured."""
    rows: Count
    """Measurements."""
    median: NotNegative
    """Median of the relative errors of networks left out of the device alone."""
    p90: NotNegative
    """90th percentile of them."""
    spread: NotNegative | None = None
    """Relative spread of repeated measurements; absent: nothing was repeated."""
    unseen_median: NotNegative | None = None
    """Median of the relative errors of networks left out of every device of the kin; absent: the
    device stands for its kin."""
    unseen_p90: NotNegative | None = None
    """90th percentile of them."""
    sd: Positive
    """Standard deviation of the log by which 80 % intervals cover."""
    common: NotNegative
    """The part of sd that devices of the same kin have in common."""

    @model_validator(mode="after")
    def _related(self) -> ErrorModel:
        middle, p90 = self.unseen_median, self.unseen_p90
        alone = (middle is None) != (p90 is None)
        relations = (
            ("rows", self.rows < self.networks, "is below 'networks'",
             "each network has one row at least"),
            ("p90", self.p90 < self.median, "is below 'median'", "swap them"),
            ("unseen_p90", alone, "is without 'unseen_median', or the reverse", "state both"),
            ("unseen_p90", (p90 or 0.0) < (middle or 0.0) and not alone,
             "is below 'unseen_median'", "swap them"),
            ("common", self.common > self.sd, "is above 'sd'", "it is one part of sd"),
        )  # fmt: skip
        found = [(f"KEY {what}", hint, (key,)) for key, wrong, what, hint in relations if wrong]
        if found:
            raise refusals(found)
        return self


class CountedModel(Strict):
    """Numbers of what was measured, an entry of ``rests_on:``."""

    networks: Count
    """Networks."""
    rows: Count
    """Times of them."""
    sources: Count
    """Who measured them: submitters, owners of boards, collections."""
    dies: Count
    """Chips, those of one die counted once."""


class BasisModel(Strict):
    """Measurements behind figures, the entry ``rests_on:``."""

    device: CountedModel | None = None
    """Measurements of the device itself; absent: it has what its family has."""
    family: CountedModel
    """Those of its device family."""
    elsewhere: NotNegative
    """Standard deviation of the log of the factor between the figures and another source's."""

    def to_basis(self) -> Basis:
        """Return the record."""
        own = None if self.device is None else Counted(**self.device.model_dump())
        return Basis(own, Counted(**self.family.model_dump()), self.elsewhere)


class CoordinateModel(Strict):
    """Length scale of kernels of a form along one coordinate."""

    low: Number = Field(alias="from")
    """Where measured kernels begin."""
    high: Number = Field(alias="to")
    """Where they end."""
    scale: Positive
    """How far a measurement tells of its neighbours."""
    slope: Number = 0.0
    """What the logarithm of the factor grows by; absent: nothing."""

    @checked("high")
    @classmethod
    def _above(cls, high: float, info: ValidationInfo) -> float:
        if high < info.data.get("low", high):
            raise refusal("KEY is below 'from'", "swap them")
        return high


class CorrectionModel(Strict):
    """Correction of kernels of one form, an entry of ``corrections:``.

    A line of ``centres`` has the place of a kernel that was measured, by those of `COORDINATES`
    that are named, in that order, and its weight.
    """

    offset: Number
    """Logarithm of the factor where nothing else adds to it."""
    coordinates: dict[CoordinateName, CoordinateModel] = Field(default_factory=dict)
    """What kernels are told apart by; absent: nothing."""
    centres: StrictStr = Field(
        default="",
        description="One line per kernel: its coordinates, in the order "
        f"{', '.join(COORDINATES)}, then its weight in the logarithm.",
    )

    @checked("centres")
    @classmethod
    def _numbers(cls, centres: str, info: ValidationInfo) -> str:
        width = len(info.data["coordinates"]) + 1 if "coordinates" in info.data else None
        for number, line in enumerate(centres.splitlines(), start=1):
            try:
                values = [float(word) for word in line.split()]
            except ValueError:
                values = [math.nan]
            if not all(map(math.isfinite, values)) or width not in (None, len(values)):
                raise refusal(
                    f"KEY has a line {number} without {width or 'some'} numbers",
                    "write one number for each of 'coordinates', and a weight",
                )
        return centres

    def to_correction(self, form: str) -> Correction:
        """Return the record for kernels of `form`."""
        table = [tuple(map(float, line.split())) for line in self.centres.splitlines()]
        return Correction(
            form=form,
            offset=self.offset,
            coordinates=tuple(
                Coordinate(name, one.low, one.high, one.scale, one.slope)
                for name in COORDINATES
                if (one := self.coordinates.get(name)) is not None
            ),
            centres=tuple(row[:-1] for row in table),
            weights=tuple(row[-1] for row in table),
        )


class KernelsModel(Strict):
    """The figures of one precision, an entry of ``kernels:``."""

    kin: Text
    """Runtime and precision family whose devices miss alike, e.g. tensorrt-int8."""
    runtime: Text
    """What software ran what was measured."""
    source: Text
    """Where the measurements are from."""
    parameters: Parameters = Field(
        description="All parameters of the formula: "
        + " ".join(f"{one.name}: {one.meaning}" for one in PARAMETERS)
    )
    errors: tuple[ErrorModel, ...] = ()
    """Errors over measurements that were left out of the fit, by batch size."""
    rests_on: BasisModel | None = None
    """Measurements that the figures rest on; absent: not stated."""
    corrections: dict[FormName, CorrectionModel] = Field(default_factory=dict)
    """By form of kernels: a factor by geometry, where kernels were timed one by one; 'hetsim
    calibrate' writes it."""
    joins: dict[FormName, tuple[JoinName, ...]] | None = None
    """By form of kernels: the ops that join them; absent: as compilers usually do."""
    channel_block: ChannelBlock | None = None
    """Channels of a block, where the runtime keeps images in blocks of channels between some
    kernels and copies them for others; absent: it does not."""

    @checked("errors")
    @classmethod
    def _once(cls, errors: tuple[ErrorModel, ...]) -> tuple[ErrorModel, ...]:
        found: list[Refusal] = []
        seen: set[str] = set()
        for error in errors:
            if error.batch in seen:
                found.append((f"KEY has two entries for batch {error.batch}", "keep one", ()))
            seen.add(error.batch)
        if found:
            raise refusals(found)
        return errors

    def to_figures(self, precision: str) -> KernelFigures:
        """Return the record, in SI units, of the figures of `precision`."""
        given = self.parameters
        return KernelFigures(
            precision=precision,
            values=tuple(one.si(given[one.name].value) for one in PARAMETERS),
            provenance={one.name: given[one.name].stated for one in PARAMETERS},
            kin=self.kin,
            runtime=self.runtime,
            source=self.source,
            errors=tuple(FigureError(**error.model_dump()) for error in self.errors),
            corrections=tuple(one.to_correction(form) for form, one in self.corrections.items()),
            joins=None
            if self.joins is None
            else {form: frozenset(words) for form, words in self.joins.items()},
            channel_block=self.channel_block,
            basis=None if self.rests_on is None else self.rests_on.to_basis(),
        )


Kernels = dict[Precision, KernelsModel]


class MeasuredModel(Strict):
    """Published measurements that the figures of one precision are fitted to.

    ``chip`` and ``where`` pick the rows of one series; without a chip the device has what its
    kin have.
    """

    kin: Text
    """Device family: a runtime, a unit and a precision."""
    computes: Literal["tf32"] | None = None
    """What the runtime computes in, where it is not the precision: tf32."""
    chip: Text | None = None
    """Name of the chip in the data; absent: the device has what its kin have."""
    where: dict[Text, StrictBool | StrictInt | StrictFloat | StrictStr] = Field(
        default_factory=dict
    )
    """Further fields that pick one series of rows, e.g. threads: 4."""

    @checked("kin")
    @classmethod
    def _in_the_catalog(cls, kin: str, info: ValidationInfo) -> str:
        if not (info.context or {}).get("catalog") and kin not in (known := names("kin")):
            hint = f"{nearest(kin, known)} ('hetsim devices list --families' lists all)"
            raise refusal(f"no device family '{kin}' in the catalog", hint)
        return kin

    @checked("where")
    @classmethod
    def _of_a_chip(cls, where: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if where and info.data.get("chip") is None and "chip" in info.data:
            raise refusal("KEY stands without 'chip'", "name the chip whose rows it selects")
        return where


class RuntimeModel(Strict):
    """Figures of a device with another runtime, an entry of ``runtimes:``."""

    measured: dict[Precision, MeasuredModel] = Field(default_factory=dict)
    """By precision: the published measurements that its figures are fitted to."""
    kernels: Kernels = Field(default_factory=dict)
    """What kernels take, by precision."""


class FittedModel(Strict):
    """File of ``devices/fitted``: figures fitted for the device of the same name."""

    kernels: Annotated[Kernels, Field(min_length=1)]
    """What was fitted for the device of the catalog that the file is named after."""
    runtimes: dict[Text, RuntimeModel] = Field(default_factory=dict)
    """The same by other runtimes than the one that its file names first."""


MOST_NETWORKS = 100
"""So that what they say of another one is told in less time than its kernels are counted in."""

Part = Annotated[StrictFloat, Field(ge=0, le=1, allow_inf_nan=False)]


class LikenessModel(Strict):
    """Prediction of networks from those of a device family, the entry ``likeness:``.

    A line of ``networks`` has the name of one, its batch, how many devices ran it, the logarithm
    of measured over predicted seconds, and its traits in the order of `TRAITS`; where the batch is
    not 1, then those of one sample. A line of ``heard`` is of one that none of its devices ran,
    with the share of the variance that others tell in place of the number of devices.
    """

    sd: NotNegative
    """Standard deviation of the logarithm of measured over predicted, by network."""
    shared: Part
    """The part of its variance that networks which are alike have in common."""
    length: Positive
    """How far along the traits a network says something of another."""
    noise: Positive
    """Standard deviation of one device's logarithm about what devices share."""
    networks: Text = Field(
        description="One line per network: name, batch size, number of devices that ran it, "
        f"logarithm of measured over predicted, and its traits: {', '.join(TRAITS)}; "
        "where the batch size is not 1, also those of one sample."
    )
    heard: str = ""
    """A line each of what others of the maker's runtimes ran: name, batch, share of the variance
    that they tell, effect of which that share is expected, traits."""

    @checked("networks", "heard")
    @classmethod
    def _lines(cls, text: str, info: ValidationInfo) -> str:
        ran = info.field_name == "networks"
        lines = text.splitlines()
        for number, line in enumerate(lines, start=1):
            if (_network if ran else _heard)(line) is None:
                third = "a number of devices" if ran else "a share between 0 and 1"
                raise refusal(
                    f"KEY has a line {number} that is not a name, a batch size, {third} and "
                    f"{1 + len(TRAITS)} numbers, {len(TRAITS)} more where the batch size is not 1",
                    "generate it with 'make fit'",
                )
        if len(lines) > MOST_NETWORKS:
            kept = "ran on the most devices" if ran else "are the most certain"
            raise refusal(
                (f"KEY has {len(lines)} lines, but at most {MOST_NETWORKS} are allowed"),
                (f"keep the lines that {kept}"),
            )
        return text


CovariateName = Annotated[StrictStr, OneOf("covariate", COVARIATES)]


class ByDatasheetModel(Strict):
    """Prediction of figures from datasheets, the entry ``by_datasheet:``."""

    precision: Text
    """In which datasheets are read."""
    middle: dict[CovariateName, Number] = Field(default_factory=dict)
    """Usual covariates of its devices: logs of FLOP/s, bytes/s, threads; absent: 0."""
    slopes: dict[CovariateName, dict[ParameterName, Number]] = Field(default_factory=dict)
    """By covariate: what the logarithm of each parameter gains by one of it."""
    errors: tuple[ErrorModel, ...] = ()
    """Errors over chips that were left out of the fit, by batch size."""
    rests_on: BasisModel | None = None
    """Measurements that figures by datasheet rest on; absent: not stated."""

    def to_by_datasheet(self) -> ByDatasheet:
        """Return the record."""
        errors = tuple(FigureError(**error.model_dump()) for error in self.errors)
        basis = None if self.rests_on is None else self.rests_on.to_basis()
        return ByDatasheet(self.precision, self.middle, self.slopes, errors, basis)


class KinModel(Strict):
    """File of a device family: shared figures of devices with one runtime and precision."""

    runtime: Text
    """What software ran what was measured."""
    source: Text
    """Where the measurements are from."""
    activation_bytes: Positive
    """That one element of activations takes."""
    weight_bytes: Positive
    """That one element of weights takes."""
    mean: Parameters
    """Figures of the mean of the kin, all parameters of the formula."""
    likeness: LikenessModel
    """What its networks say of others."""
    by_datasheet: ByDatasheetModel | None = None
    """How figures follow of devices that nobody measured."""

    def to_kin(self, name: str) -> Kin:
        """Return the device family called `name` as a record in SI units."""
        like = self.likeness
        found = (_network(line) for line in like.networks.splitlines())
        heard = (_heard(line) for line in like.heard.splitlines())
        return Kin(
            name=name,
            runtime=self.runtime,
            source=self.source,
            activation_bytes=self.activation_bytes,
            weight_bytes=self.weight_bytes,
            mean=tuple(one.si(self.mean[one.name].value) for one in PARAMETERS),
            sd=like.sd,
            shared=like.shared,
            length=like.length,
            noise=like.noise,
            networks=tuple(one for one in found if one is not None),
            heard=tuple(one for one in heard if one is not None),
            by_datasheet=None if self.by_datasheet is None else self.by_datasheet.to_by_datasheet(),
        )


def _network(line: str) -> KnownNetwork | None:
    """Return the network of a line, None where it is none."""
    words = line.split()
    try:
        batch, devices = int(words[1]), int(words[2])
        numbers = [float(word) for word in words[3:]]
    except (IndexError, ValueError):
        return None
    if min(batch, devices) < 1 or not all(map(math.isfinite, numbers)):
        return None
    if len(numbers) != 1 + len(TRAITS) * (1 if batch == 1 else 2):
        return None
    traits, alone = tuple(numbers[1 : 1 + len(TRAITS)]), tuple(numbers[-len(TRAITS) :])
    return KnownNetwork(words[0], batch, devices, numbers[0], traits, alone)


def _heard(line: str) -> RelatedNetwork | None:
    """Return what a line says of a network that others ran, None where it says nothing."""
    words = line.split()
    try:
        share = float(words[2])
    except (IndexError, ValueError):
        return None
    network = _network(" ".join([*words[:2], "1", *words[3:]]))
    return RelatedNetwork(network, share) if network is not None and 0 < share < 1 else None
