"""Kernel figures of one precision on a device: the parameters of one formula.

``hetsim.cost.kernels.formula`` has it; `PARAMETERS` is the one list of what it takes: keys of
the YAML, order of vectors, and what ``hetsim devices show`` prints derive from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hetsim.core.units import GIGA, MIB, TERA, in_si

STATUSES = ("measured", "datasheet", "fitted", "secondary", "derived", "prior", "estimate")
"""From the surest to the weakest: measured on the device itself; its maker's word; fitted to
published measurements of the device; another's word; computed of other figures; what devices of
its kin have; a guess."""

WHAT_IF = "what if"
"""Weaker than all of them: supposed, see ``hetsim.what_if``. No file may say so."""


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
"""What a kernel is placed by, in octaves: sizes of its product, padding to whole vectors, elements
that pass a function like exp, bytes, and those of all weights of the model.
``hetsim.cost.kernels.formula`` derives them."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Coordinate by which a correction distinguishes kernels.

    - `name`: one of `COORDINATES`.
    - `low`, `high`: where measured kernels lie; what is beyond is taken as at the end.
    - `scale`: how far along it a measurement tells of its neighbours.
    - `slope`: by what the logarithm of the factor grows along it.
    """

    name: str
    low: float
    high: float
    scale: float
    slope: float


@dataclass(frozen=True, slots=True)
class Correction:
    """Factor on the formula for kernels of one form.

    Its logarithm is `offset`, plus `slope` times the place along each coordinate, plus for each
    centre its weight times ``exp(-|(place - centre) / scale|^2 / 2)``.

    - `form`: one of ``hetsim.graph.work.rule.FORMS``.
    - `coordinates`: in the order of `COORDINATES`.
    - `centres`: places of measured kernels, by coordinate.
    - `weights`: one a centre.
    """

    form: str
    offset: float
    coordinates: tuple[Coordinate, ...]
    centres: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of the formula; above 0, as fits use its logarithm.

    - `name`: key in YAML, with the unit that it is in there.
    - `unit`: of the value in SI, as ``KernelFigures.values`` has it; empty for a plain number.
    - `meaning`: what it is on the device, in one sentence.
    - `key_unit`: the unit of the YAML key, in SI units.
    - `neutral`: the value at which the formula is as it would be without it; None where there is
      none.
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
"""Place of a parameter in ``KernelFigures.values``, by name."""

_RATES = ("rate_tflops", "bandwidth_gbytes_s", "weights_gbytes_s", "io_gbytes_s")
_OVERHEADS = ("launch_us", "dispatch_us")
"""Parameters in whose proportion all times are."""

LEAST_S = 1e-12
"""Of a time: logarithms are taken of figures, and none is next to none."""

BATCHES = ("1", "2-16", "17+")
"""Ranges of batch sizes that errors are stated for."""


def batch_range(batch: int) -> str:
    """Return the entry of `BATCHES` that contains a batch size.

    >>> batch_range(8)
    '2-16'
    """
    return BATCHES[0] if batch <= 1 else BATCHES[1] if batch <= 16 else BATCHES[2]


HALF_WIDTH = 1.2816
"""Standard deviations to either side that hold 80 % of a normal distribution."""


def as_sure(own: float, common: float, surer: float, noise: float) -> tuple[float, float]:
    """Return the sd of a network that the device family predicts, and its common part.

    The part in common, though a standard deviation, is scaled by `surer`, a ratio of variances; the
    rest never is below `noise`, what devices of a kin differ by on one network. Measured over the
    2,223 points of the catalog's devices: from the fifth of which kin say most to that of which
    they say least, intervals of networks that were left out of the device hold 82, 80, 78, 80 and
    82 %, of those that were left out of its kin 88, 85, 80, 81 and 70 %.
    """
    common *= surer
    return math.hypot(max(own, noise), common), common


@dataclass(frozen=True, slots=True)
class FigureError:
    """Prediction error over measurements that were left out of the fit.

    - `batch`: one of `BATCHES`.
    - `networks`, `rows`: that were measured.
    - `median`, `p90`: relative errors, 0.1 for 10 %, of networks that were left out of the device
      alone: others of its kin may have run them.
    - `spread`: relative spread of repeated measurements, below which no error can go; None where
      nothing was repeated.
    - `sd`: standard deviation of the log by which 80 % intervals of networks cover that no device
      of the kin has run: ``prediction * exp(+-1.2816 * sd)``.
    - `common`: the part of `sd` that all devices of the same kin have in common, a network that is
      missed on one being missed on all: what is left without it covers networks that others of the
      kin have run.
    - `unseen_median`, `unseen_p90`: relative errors of networks that were left out of every device
      of the kin; None where the device stands for its whole kin.
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

    def sd_of(self, surer: float, noise: float) -> float:
        """Standard deviation for a network that the device family predicts.

        - `surer`: variance of what they say, relative to the usual one of a network that none ran.
        - `noise`: what devices of the kin differ by on one network, which it never is below.
        """
        alone = math.sqrt(max(self.sd**2 - self.common**2, 0.0))
        return as_sure(alone, self.common, surer, noise)[0]

    def median_of(self, known: bool) -> float:
        """Median error for a network that the device family ran, or did not run."""
        return self.median if known or self.unseen_median is None else self.unseen_median


@dataclass(frozen=True, slots=True)
class RuntimeFactor:
    """Factor on times by one runtime for those by another, learned from chips that ran both.

    - `unit`: kind of device.
    - `base`, `runtime`: the runtime of the figures, and the other.
    - `sd`: standard deviation of the logarithm of the factor, on another chip and network.
    - `launch_s`: what every kernel takes longer beside it.
    - `chips`, `networks`: that ran both; 0 where the factor follows of other pairs.
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
    """Numbers of what was measured.

    - `networks`, `rows`: networks, and times of them.
    - `sources`: who measured them: a submitter, the owner of a board, a collection.
    - `dies`: chips, those of one die counted once.
    """

    networks: int
    rows: int
    sources: int
    dies: int


@dataclass(frozen=True, slots=True)
class Basis:
    """Measurements that figures rest on.

    - `device`: of the device itself; None where it has what its family has.
    - `family`: of its device family.
    - `elsewhere`: standard deviation of the logarithm of the factor between the figures and a
      machine of another source, which errors of networks or chips left out do not contain.
    """

    device: Counted | None
    family: Counted
    elsewhere: float


@dataclass(frozen=True, slots=True)
class KernelFigures:
    """Kernel figures of one precision on a device.

    Attributes
    ----------
    precision : str
        One of ``hetsim.hardware.variants.PRECISIONS``.
    values : tuple of float
        In the order of `PARAMETERS`, in SI units.
    provenance : mapping of str to (status, source)
        By parameter; see `STATUSES`.
    kin : str
        Runtime and precision family whose devices miss alike, e.g. ``tensorrt-int8``.
    runtime : str
        What software ran what was measured.
    source : str
        Where the measurements are from.
    errors : tuple of FigureError
        By range of batch sizes; empty where nothing was left out and judged.
    basis : Basis or None
        What they rest on; None where that is not stated, as of this machine's calibration.
    corrections : tuple of Correction
        By what the formula's seconds are multiplied, where kernels were timed one by one on the
        device; one a form at most.
    joins : mapping of str to frozenset of str, or None
        What joins kernels on the device, as ``hetsim.cost.kernels.fusion`` takes it; None: as
        compilers usually do.
    channel_block : int or None
        Channels of a block, where the runtime keeps images in blocks of channels between some
        kernels and copies them for others; see ``hetsim.cost.kernels.layouts``.
    likeness : str
        SHA-256, in hex, of the catalog's file of the kin, which says how far networks were from
        the formula; empty where there is none, or the figures are of no device of the catalog.
    factor : RuntimeFactor or None
        By what the figures are another runtime's; None: they are of `runtime`.
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
        """Return the figures by another runtime: all times as much longer, and each launch."""
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
        """The weakest status of its parameters."""
        return weakest(status for status, _ in self.provenance.values())

    @property
    def standing(self) -> str:
        """Status of the figures as a whole: measured, fitted, derived or estimated for the device.

        ``measured`` or ``fitted`` where some parameter is: rows of the device stand behind the
        whole, which is judged as a whole. Else the weakest.
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
