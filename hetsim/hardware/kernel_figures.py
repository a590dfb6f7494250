"""Kernel figures of one precision on a device: the parameters of one formula.

``hetsim.cost.kernels.formula`` has the formula; `PARAMETERS` is the single list of its inputs: keys
of the YAML, order of vectors, and the output of ``hetsim devices show`` derive from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hetsim.core.units import GIGA, MIB, TERA, in_si

STATUSES = ("measured", "datasheet", "fitted", "secondary", "derived", "prior", "estimate")
"""Statuses from the most to the least reliable: measured on the device itself; stated by its maker;
fitted to published measurements of the device; stated by others; computed from other figures;
predicted from its device family; a guess."""

WHAT_IF = "what if"
"""Status below all of them: hypothetical, see ``hetsim.what_if``. Not allowed in files."""


def weakest(statuses: Iterable[str]) -> str:
    """Return the weakest of one or more statuses.

    >>> weakest(["fitted", "prior", "datasheet"])
    'prior'
    """
    return max(statuses, key=(*STATUSES, WHAT_IF).index)


COORDINATES = (
    "rows", "columns", "channels", "window", "tallness", "groups", "stride", "dilation",
    "columns_by_64", "columns_by_16", "channels_by_16", "channels_by_4", "exponential", "others",
    "read", "written", "weights", "model", "steps",
)  # fmt: skip
"""Coordinates of a kernel, mostly in octaves: sizes of its product, padding to whole vectors,
elements that pass a function like exp, bytes, and weights of the model.
``hetsim.cost.kernels.formula`` derives them."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Coordinate by which a correction distinguishes kernels.

    - `name`: one of `COORDINATES`.
    - `low`, `high`: range of measured kernels; others count as at its ends.
    - `scale`: length scale of correlation along it.
    - `slope`: slope of the log factor along it.
    """

    name: str
    low: float
    high: float
    scale: float
    slope: float


@dataclass(frozen=True, slots=True)
class Correction:
    """Factor on the formula for kernels of one form.

    Its logarithm is `offset`, plus `slope` times the position along each coordinate, plus for each
    centre its weight times ``exp(-|(position - centre) / scale|^2 / 2)``.

    - `form`: one of ``hetsim.graph.work.rule.FORMS``.
    - `coordinates`: in the order of `COORDINATES`.
    - `centres`: positions of measured kernels, by coordinate.
    - `weights`: one per centre.
    """

    form: str
    offset: float
    coordinates: tuple[Coordinate, ...]
    centres: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of the formula, positive, as fits use its logarithm.

    - `name`: key in YAML, including its unit there.
    - `unit`: SI unit of the value in ``KernelFigures.values``; empty for a plain number.
    - `meaning`: its meaning on the device, in one sentence.
    - `key_unit`: the unit of the YAML key, in SI units.
    - `neutral`: value without effect on the formula; None if there is none.
    """

    name: str
    unit: str
    meaning: str
    key_unit: float = 1.0
    neutral: float | None = None

    def si(self, value: float) -> float:
        """Return a value given in the unit of the YAML key in SI units."""
        return in_si(value, self.key_unit)

    def in_key_unit(self, value: float) -> float:
        """Return a value given in SI units in the unit of the YAML key."""
        return value / self.key_unit if self.key_unit >= 1 else value * round(1 / self.key_unit)


PARAMETERS = (
    Parameter("rate_tflops", "FLOP/s", "Rate of a dense convolution that fills the device.",
              TERA),
    Parameter("pointwise", "", "Rate of 1x1 convolutions, relative to a dense one's."),
    Parameter("depthwise", "", "Rate of depthwise convolutions, relative to a dense one's."),
    Parameter("grouped", "", "Rate of grouped convolutions, relative to a dense one's."),
    Parameter("matmul", "", "Rate of matrix products by weights, relative to a dense one's."),
    Parameter("batched", "", "Rate of products of activations, relative to a dense one's."),
    Parameter("winograd", "", "Speedup of a 3x3 convolution at stride 1 by a fast algorithm."),
    Parameter("fill_columns", "columns", "Output channels at which a product reaches half of its "
              "rate: half of the lanes, or of a tile, are idle."),
    Parameter("fill_depth", "terms", "Terms of a sum at which a product reaches half of its rate: "
                                     "pipelines fill and drain."),
    Parameter("fill_rows", "rows", "Rows at which a product reaches half of its rate: each loaded "
                                   "weight serves all rows."),
    Parameter("fill_outputs", "outputs", "Outputs of all groups at which a product reaches half "
                                         "of its rate: cores without a tile wait."),
    Parameter("channel_granule", "channels", (
        "Channels to a multiple of which tensors and products are padded."
    )),
    Parameter("tile_compute", "", "Relative time of a convolution with half-empty tiles: 1 where "
                                  "the empty half is free, 2 where it costs as much.", neutral=1.0),
    Parameter("tile_traffic", "", "The same for its memory traffic.", neutral=1.0),
    Parameter("bandwidth_gbytes_s", "bytes/s", "Of activations, from the nearest memory.",
              GIGA),
    Parameter("movement", "", "Time of a copy relative to its bytes at the bandwidth."),
    Parameter("concat", "", "Time of a concatenation relative to another copy: compilers let its "
                            "producers write in place.", neutral=1.0),
    Parameter("normalization", "", "Time of normalizations and reductions relative to their bytes "
                                   "at the bandwidth."),
    Parameter("softmax", "", "The same for softmax."),
    Parameter("transpose", "", "The same for transposing copies."),
    Parameter("pooling", "", "The same for pooling."),
    Parameter("elementwise", "", "The same for elementwise ops, and ops without a form."),
    Parameter("resize", "", "The same for resampling."),
    Parameter("exponential", "", "Bytes of memory traffic that take as long as one byte of "
                                 "elements through a function like exp."),
    Parameter("cache_mib", "bytes", "Activations of a kernel at which half of them stay in "
                                    "on-chip memory.", MIB),
    Parameter("beyond_cache", "", "Share of the bandwidth beyond on-chip memory."),
    Parameter("weights_gbytes_s", "bytes/s", "Bandwidth of weights: of memory, or of the link "
                                             "that delivers them at each run.", GIGA),
    Parameter("weights_on_chip_mib", "bytes", "Weights that stay in on-chip memory between runs.",
              MIB),
    Parameter("overlap", "", "Overlap of arithmetic, activations and weights: 1 runs them one "
                             "after another, large values all at once."),
    Parameter("launch_us", "s", "Fixed time of one kernel that is a product.", 1e-6),
    Parameter("launch_other", "", "Fixed time of other kernels, relative to that."),
    Parameter("dispatch_us", "s", "Dispatch overhead of one subgraph.", 1e-6),
    Parameter("io_gbytes_s", "bytes/s", "Whether measured times include inputs and outputs; plans "
                                        "price links instead.", GIGA),
)  # fmt: skip
INDEX: Mapping[str, int] = {known.name: index for index, known in enumerate(PARAMETERS)}
"""Index of a parameter in ``KernelFigures.values``, by name."""

_RATES = ("rate_tflops", "bandwidth_gbytes_s", "weights_gbytes_s", "io_gbytes_s")
_OVERHEADS = ("launch_us", "dispatch_us")
"""Parameters proportional to all times."""

LEAST_S = 1e-12
"""Minimum of a time, as logarithms are taken of figures."""

BATCHES = ("1", "2-16", "17+")
"""Ranges of batch sizes with separate errors."""


def batch_range(batch: int) -> str:
    """Return the entry of `BATCHES` that contains a batch size.

    >>> batch_range(8)
    '2-16'
    """
    return BATCHES[0] if batch <= 1 else BATCHES[1] if batch <= 16 else BATCHES[2]


HALF_WIDTH = 1.2816
"""Half-width of an 80 % interval of a normal distribution, in standard deviations."""


def as_sure(own: float, common: float, surer: float, noise: float) -> tuple[float, float]:
    """Return the sd of a network that the device family predicts, and its common part.

    The common part, though a standard deviation, is scaled by `surer`, a ratio of variances; the
    rest is at least `noise`, the deviation between devices of a family on one network. Over the
    2,223 points of the catalog's devices, from the fifth best predicted by the family to the fifth
    worst, intervals of networks left out of the device hold 82, 80, 78, 80 and 82 %, and of those
    left out of its family 88, 85, 80, 81 and 70 %.
    """
    common *= surer
    return math.hypot(max(own, noise), common), common


@dataclass(frozen=True, slots=True)
class FigureError:
    """Prediction error over measurements that were left out of the fit.

    - `batch`: one of `BATCHES`.
    - `networks`, `rows`: numbers of measured networks and rows.
    - `median`, `p90`: relative errors, 0.1 for 10 %, of networks left out of the device only:
    others of its family may have run them.
    - `spread`: relative spread of repeated measurements, a lower limit of errors; None without
    repeats.
    - `sd`: standard deviation of the log for 80 % intervals of networks that no device of the
    family has run: ``prediction * exp(+-1.2816 * sd)``.
    - `common`: part of `sd` shared by all devices of the family, whose errors on a network are
    alike: the rest covers networks that others of the family have run.
    - `unseen_median`, `unseen_p90`: relative errors of networks left out of every device of the
    family; None if the device is its whole family.
    """

    batch: str
    networks: int
    rows: int
    median: float
    p90: float
    spread: float | None
    sd: float
    common: float
    unseen_median: float | None = None
    unseen_p90: float | None = None

    def median_of(self, known: bool) -> float:
        """Return the median error for a network that the device family ran, or did not run."""
        return self.median if known or self.unseen_median is None else self.unseen_median


@dataclass(frozen=True, slots=True)
class RuntimeFactor:
    """Factor between times of two runtimes, learned from chips that ran both.

    - `unit`: kind of device.
    - `base`, `runtime`: the runtime of the figures, and the other.
    - `sd`: standard deviation of the logarithm of the factor, on another chip and network.
    - `launch_s`: additional time per kernel.
    - `chips`, `networks`: numbers that ran both; 0 if the factor follows from other pairs.
    """

    unit: str
    precision: str
    base: str
    runtime: str
    factor: float
    sd: float
    launch_s: float
    chips: int
    networks: int

    def __str__(self) -> str:
        """Return ``ncnn figures times 1.8 for onnxruntime, from 5 chips``."""
        launch = f" and {self.launch_s * 1e6:g} us a kernel" if self.launch_s else ""
        told = f"{self.base} figures times {self.factor:.2g}{launch} for {self.runtime}, "
        if not self.chips:
            return f"{told}from other pairs of runtimes"
        return f"{told}from {self.chips} chip{'s' if self.chips > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers of measurements.

    - `networks`, `rows`: networks, and measured times.
    - `sources`: sources of the measurements: submitters, board owners, collections.
    - `dies`: distinct dies of the chips.
    """

    networks: int
    rows: int
    sources: int
    dies: int


@dataclass(frozen=True, slots=True)
class Basis:
    """Measurements behind figures.

    - `device`: those of the device itself; None if it has its family's figures.
    - `family`: those of its device family.
    - `elsewhere`: standard deviation of the log factor between the figures and a machine of another
    source, which cross-validation does not cover.
    """

    device: Counted | None
    family: Counted
    elsewhere: float


@dataclass(frozen=True, slots=True)
class KernelFigures:
    """Kernel figures of one precision on a device.

    - `precision`: one of ``hetsim.hardware.variants.PRECISIONS``.
    - `values`: in the order of `PARAMETERS`, in SI units.
    - `provenance`: status and source by parameter; see `STATUSES`.
    - `kin`: device family (runtime and precision) with correlated errors, e.g. ``tensorrt-int8``.
    - `errors`: errors by range of batch sizes; empty without cross-validation.
    - `basis`: measurements behind them; None if not stated, e.g. for this machine's calibration.
    - `corrections`: factors on the formula's seconds, if kernels were timed individually on the
    device; at most one per form.
    - `joins`: ops that join kernels on the device, as in ``hetsim.cost.kernels.fusion``; None: as
    compilers usually do.
    - `channel_block`: channel block size, if the runtime keeps images in blocks of channels between
    some kernels and copies them for others; see ``hetsim.cost.kernels.layouts``.
    - `likeness`: SHA-256, in hex, of the catalog's file of the family, which has the errors of
    networks; empty without one, or for devices outside the catalog.
    - `factor`: conversion from another runtime's figures; None: they are those of `runtime`.
    """

    precision: str
    values: tuple[float, ...]
    provenance: Mapping[str, tuple[str, str]]
    kin: str
    runtime: str
    source: str
    errors: tuple[FigureError, ...] = field(default=())
    corrections: tuple[Correction, ...] = field(default=())
    joins: Mapping[str, frozenset[str]] | None = None
    channel_block: int | None = None
    likeness: str = ""
    factor: RuntimeFactor | None = None
    basis: Basis | None = None

    def value(self, name: str) -> float:
        """Return the parameter called `name`, in SI units."""
        return self.values[INDEX[name]]

    def having(self, values: Mapping[str, float]) -> KernelFigures:
        """Return the figures with other values, in SI units, of these parameters."""
        found = list(self.values)
        for name, value in values.items():
            found[INDEX[name]] = value
        return replace(self, values=tuple(found))

    def times(self, factor: float, *names: str) -> KernelFigures:
        """Return the figures with these parameters multiplied by a factor."""
        return self.having({name: self.value(name) * factor for name in names})

    def by_runtime(self, factor: RuntimeFactor) -> KernelFigures:
        """Return the figures for another runtime: all times scaled, with additional launch time."""
        slower = self.times(1 / factor.factor, *_RATES).times(factor.factor, *_OVERHEADS)
        launch_s = slower.value("launch_us")
        other_s = launch_s * self.value("launch_other") + factor.launch_s
        launch_s += factor.launch_s
        told = str(factor)
        return replace(
            slower.having({"launch_us": launch_s, "launch_other": other_s / launch_s}),
            provenance={
                **self.provenance, **dict.fromkeys((*_RATES, *_OVERHEADS), ("derived", told))
            },
            runtime=told,
            factor=factor,
        )  # fmt: skip

    @property
    def dispatch_s(self) -> float:
        """Dispatch overhead of one subgraph."""
        return self.value("dispatch_us")

    @property
    def status(self) -> str:
        """Weakest status of its parameters."""
        return weakest(status for status, _ in self.provenance.values())

    @property
    def standing(self) -> str:
        """Status of the figures as a whole: measured, fitted, derived or estimated for the device.

        ``measured`` or ``fitted`` if some parameter is: the figures are based on, and evaluated
        with, rows of the device. Otherwise the weakest status.
        """
        stated = {status for status, _ in self.provenance.values()}
        return next((each for each in ("measured", "fitted") if each in stated), self.status)

    def error(self, batch: int = 1) -> FigureError | None:
        """Return the error for a batch size, or for the nearest range that is stated."""
        at = BATCHES.index(batch_range(batch))
        return min(
            self.errors,
            key=lambda error: (abs(BATCHES.index(error.batch) - at), BATCHES.index(error.batch)),
            default=None,
        )
