"""What a file may say of when requests arrive: one kind, with what belongs to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr, model_validator

from hetsim.errors import InvalidInput
from hetsim.hardware.files.figures import NotNegative, OneOf, Positive, Strict, Text, refusal
from hetsim.workload.arrivals.burst import MAX_SIZE, SPACINGS, Burst
from hetsim.workload.arrivals.closed import MAX_CONCURRENCY, THINKS, Closed
from hetsim.workload.arrivals.constant import Constant
from hetsim.workload.arrivals.gamma import LEAST_CV, MOST_CV, Gamma
from hetsim.workload.arrivals.mmpp import Mmpp
from hetsim.workload.arrivals.poisson import Poisson
from hetsim.workload.arrivals.replay import Replay
from hetsim.workload.registry import KINDS, Open
from hetsim.workload.traces.reading import FORMATS
from hetsim.workload.traces.times import UNITS

Spacing = Annotated[StrictStr, OneOf("spacing", SPACINGS)]
Think = Annotated[StrictStr, OneOf("way to think", THINKS)]
Format = Annotated[StrictStr, OneOf("format", FORMATS)]
Unit = Annotated[StrictStr, OneOf("unit", UNITS)]


class ConstantModel(Strict):
    """A request every so often."""

    rate_per_s: NotNegative
    """Requests a second."""

    def to_record(self, base: Path) -> Constant:
        """Return the arrivals that it describes; paths start from the folder `base`."""
        return Constant(self.rate_per_s)


class PoissonModel(Strict):
    """Independent exponential gaps."""

    rate_per_s: NotNegative
    """Requests a second, on average."""

    def to_record(self, base: Path) -> Poisson:
        """Return the arrivals that it describes; paths start from the folder `base`."""
        return Poisson(self.rate_per_s)


class GammaModel(Strict):
    """Independent gamma distributed gaps."""

    rate_per_s: NotNegative
    """Requests a second, on average."""
    cv: Annotated[float, Field(ge=LEAST_CV, le=MOST_CV, allow_inf_nan=False, strict=True)]
    """Coefficient of variation of the gaps; 1 is a Poisson process."""

    def to_record(self, base: Path) -> Gamma:
        """Return the arrivals that it describes; paths start from the folder `base`."""
        return Gamma(self.rate_per_s, self.cv)


class MmppModel(Strict):
    """A Poisson process whose rate changes at random."""

    rates_per_s: Annotated[tuple[NotNegative, ...], Field(min_length=2)]
    """Requests a second, by state."""
    sojourns_s: Annotated[tuple[Positive, ...], Field(min_length=2)]
    """Mean time in each state, in seconds."""

    def to_record(self, base: Path) -> Mmpp:
        """Return the arrivals that it describes; paths start from the folder `base`."""
        return Mmpp(self.rates_per_s, self.sojourns_s)


class BurstModel(Strict):
    """Several requests at once."""

    rate_per_s: NotNegative
    """Requests a second, not bursts."""
    size: Annotated[StrictInt, Field(ge=1, le=MAX_SIZE)]
    """Requests of one burst."""
    spacing: Spacing = "constant"
    """Bursts every so often, or as a Poisson process."""

    def to_record(self, base: Path) -> Burst:
        """Return the arrivals that it describes; paths start from the folder `base`."""
        return Burst(
            self.rate_per_s, self.size, "constant" if self.spacing == "constant" else "poisson"
        )


class ReplayModel(Strict):
    """A trace, again."""

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

    def to_record(self, base: Path) -> Replay:
        """Return the arrivals that it describes; paths start from the folder `base`."""
        given: Any = self.model_dump()
        return Replay(**{**given, "path": str(base / self.path)})


class ClosedModel(Strict):
    """So many clients, each of whom waits for the answer to the request before."""

    concurrency: Annotated[StrictInt, Field(ge=1, le=MAX_CONCURRENCY)]
    """Clients, so the most requests that are under way."""
    think_time_s: NotNegative = 0.0
    """Mean time from an answer to the client's next request, in seconds."""
    think: Think = "constant"
    """How that time is distributed."""

    def to_record(self, base: Path) -> Closed:
        """Return the arrivals that it describes; paths start from the folder `base`."""
        return Closed(
            self.concurrency,
            self.think_time_s,
            "constant" if self.think == "constant" else "exponential",
        )


class ArrivalsModel(Strict):
    """When requests arrive: one of these."""

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

    @model_validator(mode="after")
    def _one_kind(self) -> ArrivalsModel:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            what = f"KEY has {len(given) or 'no'} kinds of arrivals"
            raise refusal(what, f"write one of {', '.join(KINDS)}")
        try:
            self.to_record(Path())
        except InvalidInput as error:
            raise refusal(error.what, error.hint or "", (given[0],)) from None
        return self

    def to_record(self, base: Path) -> Open | Closed:
        """Return the arrivals that it describes; paths start from the folder `base`."""
        for kind in KINDS:
            given = getattr(self, kind)
            if given is not None:
                record: Open | Closed = given.to_record(base)
                return record
        raise AssertionError("arrivals of no kind")
