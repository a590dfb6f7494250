"""Records of hardware: devices and links, in SI units."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hetsim.core.result import short
from hetsim.core.units import format_bytes, format_flops
from hetsim.errors import UsageError, nearest
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.price import DeviceAvailability, Price

if TYPE_CHECKING:
    from hetsim.graph.patterns.pattern import AttributeValue, Pattern
    from hetsim.hardware.measurement import Measurement

OP_CLASSES = (
    "conv", "matmul", "attention", "normalization", "pooling", "reduction", "elementwise",
    "transcendental", "softmax", "data_movement", "gather_scatter", "resize", "recurrent",
    "quantize", "control_flow", "other",
)  # fmt: skip
"""Operator classes with an efficiency per device."""


FLOATS = ("float64", "float32", "float16", "bfloat16")
"""Element types whose arithmetic may use another type."""


CUSTOM_OPS = ("function", "library")
"""Origins of operators outside ONNX."""


QUANTIZED = (
    "Add", "ArgMax", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv", "ConvTranspose",
    "DepthToSpace", "Div", "Expand", "Flatten", "Gather", "Gelu", "Gemm", "GlobalAveragePool",
    "GlobalMaxPool", "HardSigmoid", "HardSwish", "LeakyRelu", "MatMul", "Max", "MaxPool", "Min",
    "Mul", "Pad", "PRelu", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Reshape",
    "Resize", "Sigmoid", "Slice", "Softmax", "SpaceToDepth", "Split", "Squeeze", "Sub", "Sum",
    "Tanh", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Default op types that a device with an int8 peak computes quantized: those for which runtimes of
quantized networks have kernels."""


def numbered(kind: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the numbered devices among `names` that are of a kind, in order.

    >>> numbered("gpu", ["cpu", "gpu.0", "gpu.1"])
    ('gpu.0', 'gpu.1')
    """
    return tuple(name for name in names if name.rpartition(".")[0] == kind)


def unnumbered(name: str) -> str:
    """Return the name of a device without its number, if it has one.

    >>> unnumbered("gpu.1"), unnumbered("cpu")
    ('gpu', 'cpu')
    """
    kind, dot, number = name.rpartition(".")
    return kind if dot and number.isdigit() else name


def standing_for(name: str, names: Collection[str], where: str = "") -> tuple[str, ...]:
    """Return the devices that a name refers to: itself, or all numbered ones of that kind.

    Raises UsageError for an unknown name; `where` describes the collection.

    >>> standing_for("gpu", ["cpu", "gpu.0", "gpu.1"])
    ('gpu.0', 'gpu.1')
    """
    found = (name,) if name in names else numbered(name, names)
    if not found:
        raise UsageError(f"no device '{name}'{where}", hint=nearest(name, names))
    return found


@dataclass(frozen=True, slots=True)
class SupportRule:
    """Support rule of a device, as data.

    - `ops`: accepted op types (``"Conv"``, or ``"com.microsoft:Gelu"`` outside the standard
    domain); None accepts every op of ONNX but those in `except_ops`, and `foreign`.
    - `except_ops`: refused op types.
    - `foreign`: accepted op types of domains other than ONNX's own, if `ops` is None; None accepts
    all. Functions and operators of libraries are governed by `custom_ops`.
    - `dtypes`: accepted element types of the tensors a node reads and writes; None accepts all.
    - `static_shapes_only`: whether to reject nodes whose tensor shapes are not all known.
    - `opset`: oldest and newest version of the standard operator set; None accepts all.
    - `max_rank`: maximum dimensions of a tensor that a node reads or writes.
    - `max_tensor_bytes`: maximum size of a tensor that a node reads or writes; unknown shapes pass.
    - `attributes`: by op type and attribute: the accepted values. An unstated attribute has the
    default of its op's schema; without one it is accepted.
    """

    ops: frozenset[str] | None = None
    except_ops: frozenset[str] = frozenset()
    foreign: frozenset[str] | None = None
    dtypes: frozenset[str] | None = None
    static_shapes_only: bool = False
    opset: tuple[int, int] | None = None
    max_rank: int | None = None
    max_tensor_bytes: int | None = None
    attributes: Mapping[str, Mapping[str, tuple[AttributeValue, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class DeviceSpec:
    """Kind of device.

    Attributes
    ----------
    name : str
        Catalog name of the kind, e.g. ``nvidia-l4``.
    kind : str
        ``cpu``, ``gpu``, ``npu`` or ``dsp``.
    flops_per_s : mapping of str to float
        Dense peak by element type, FLOP/s (1 MAC = 2 FLOP).
    bytes_per_s : float
        Peak bandwidth of the memory that holds weights and activations.
    memory_bytes : int
        Capacity for weights and live activations.
    launch_s, dispatch_s : float
        Fixed cost of one kernel, and of starting one subgraph.
    streams : int
        Number of concurrent subgraphs.
    idle_w, busy_w : float
        Power when idle, and with all streams busy.
    efficiency : mapping of str to float
        Fraction of peak FLOP/s that an op class reaches, in (0, 1]; ``default`` for the rest.
    memory_efficiency : float
        Fraction of `bytes_per_s` that kernels reach, in (0, 1].
    execution_dtype : mapping of str to str
        Element types that the device computes in another type, e.g. float32 in float16.
    executes : str or None
        Assumed precision of float models, see ``hetsim.hardware.variants``; None: their own types,
        and `execution_dtype`.
    fusions : tuple of tuple of tuple of str
        Chains of op types that run as one kernel, longest first; each element is the
        tuple of op types allowed there, e.g. ``(("Conv",), ("Relu", "Clip"))``.
    patterns : tuple of Pattern
        Patterns that it runs as one kernel, only as a whole, even with ops that `support` does not
        accept individually; earlier ones take precedence. Names are unique.
    quantized : frozenset of str
        Op types that it computes in integers if their inputs come from DequantizeLinear and their
        result goes to QuantizeLinear, as one kernel.
    falls_back : frozenset of str
        Op types without a quantized kernel in its runtime for stored weights and several rows of
        activations per request: it leaves them to another device.
    backend : str
        Executor of its subgraphs: ``simulated`` (ONNX Runtime on the CPU), or one that an installed
        package adds under the entry point ``hetsim.devices``.
    threads : int
        Threads of one kernel in real runs.
    custom_ops : frozenset of str
        Supported operators outside ONNX: ``function``, those with an ONNX body, and ``library``,
        those of onnxruntime custom-op libraries.
    provenance : mapping of str to (status, source)
        Origin of each figure, see ``hetsim.hardware.kernel_figures``; `kernels` have their own.
    kernels : mapping of str to KernelFigures
        Kernel figures by precision, for the cost model ``fitted``, for one runtime; empty without
        measurements.
    runtime : str
        Runtime of `kernels`; empty if its file names none.
    runtimes : mapping of str to mapping
        `kernels` of other measured runtimes, see ``hetsim.hardware.variants``.
    price : Price or None
        Price of the device alone; None if unknown.
    availability : DeviceAvailability or None
        Share of time that it is up; None if unknown.
    measurements : tuple of Measurement
        Latencies of networks that the author of its file measured on it.
    """

    name: str
    kind: str
    full_name: str
    flops_per_s: Mapping[str, float]
    bytes_per_s: float
    memory_bytes: int
    launch_s: float
    dispatch_s: float
    streams: int
    idle_w: float
    busy_w: float
    efficiency: Mapping[str, float]
    memory_efficiency: float
    execution_dtype: Mapping[str, str] = field(default_factory=dict)
    executes: str | None = None
    support: SupportRule = field(default_factory=SupportRule)
    fusions: tuple[tuple[tuple[str, ...], ...], ...] = ()
    patterns: tuple[Pattern, ...] = ()
    quantized: frozenset[str] = frozenset()
    falls_back: frozenset[str] = frozenset()
    backend: str = "simulated"
    threads: int = 1
    custom_ops: frozenset[str] = frozenset(CUSTOM_OPS)
    provenance: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    kernels: Mapping[str, KernelFigures] = field(default_factory=dict)
    runtime: str = ""
    runtimes: Mapping[str, Mapping[str, KernelFigures]] = field(default_factory=dict)
    price: Price | None = None
    availability: DeviceAvailability | None = None
    measurements: tuple[Measurement, ...] = ()

    def __repr__(self) -> str:
        peaks = (f"{dtype} {format_flops(peak)}/s" for dtype, peak in self.flops_per_s.items())
        memory = f"{format_bytes(self.memory_bytes)} at {format_bytes(self.bytes_per_s)}/s"
        return short(
            f"DeviceSpec: {self.name}, {self.kind}, {self.full_name}", ", ".join(peaks), memory
        )

    @property
    def rounding(self) -> Mapping[str, str]:
        """Target types of rounding in real runs, by element type.

        With assumed int8 this includes nodes without an integer kernel.
        """
        if self.executes != "int8":
            return self.execution_dtype
        return dict.fromkeys(FLOATS, "int8")


@dataclass(frozen=True, slots=True)
class Link:
    """Connection between two devices of a platform.

    - `name`: unique in the platform.
    - `a`, `b`: device names of the two ends.
    - `latency_s`, `bytes_per_s`: latency and bandwidth of one transfer in one direction.
    - `duplex`: whether both directions transfer concurrently.
    - `bus`: name of the shared medium; the links of one bus together have one transfer at a time.
    - `of`: catalog name of the kind of link; empty for figures of the platform's own.
    - `sd`: standard deviation of the log error of transfers, if stated.
    - `provenance`: origin of each figure, as for a device.
    """

    name: str
    a: str
    b: str
    latency_s: float
    bytes_per_s: float
    duplex: bool = True
    bus: str | None = None
    of: str = ""
    sd: float | None = None
    provenance: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Memory that several devices share.

    - `devices`: names on the platform.
    - `bytes_per_s`: peak bandwidth of all of them together.
    - `provenance`: status and source of that.
    """

    devices: tuple[str, ...]
    bytes_per_s: float
    provenance: tuple[str, str] = ("estimate", "")


@dataclass(frozen=True, slots=True)
class Supposed:
    """Hypothetical changes of a platform.

    - `changes`, `without`: arguments of ``hetsim.what_if``.
    - `devices`, `links`: devices and links with a hypothetical figure.
    - `read`: the platform before the changes.
    """

    changes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    devices: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()
    read: Platform | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return "; ".join((*self.changes, *(f"without {name}" for name in self.without)))


@dataclass(frozen=True, slots=True, repr=False)
class Platform:
    """Devices connected by links.

    Attributes
    ----------
    devices : mapping of str to DeviceSpec
        Devices by name in plans (``cpu``, ``gpu.1``), in the file's order.
    host : str
        Device on which inputs start and outputs end.
    source : str
        Catalog name or path that it was read from, as given by the user.
    sha256 : str
        Digest of everything above except `source`, prices and availabilities, to match a plan to
        its platform; unaffected by assumed precisions and hypothetical changes.
    power_w : float or None
        Sustained power limit of all devices together; None if unknown.
    memories : tuple of SharedMemory
        Memories shared by several devices; a device is in at most one of them.
    power_provenance : tuple of str
        Status and source of `power_w`.
    supposed : Supposed or None
        Hypothetical changes, see ``hetsim.what_if``.
    price : Price or None
        Price of the whole platform, instead of its devices' prices; None if unknown.
    runtime : mapping of str to str
        Runtimes chosen by the caller, by device, see ``hetsim.hardware.variants``; default: those
        of the file.
    """

    name: str
    devices: Mapping[str, DeviceSpec]
    links: tuple[Link, ...]
    host: str
    source: str
    sha256: str
    power_w: float | None = None
    memories: tuple[SharedMemory, ...] = ()
    power_provenance: tuple[str, str] = ("estimate", "")
    supposed: Supposed | None = None
    price: Price | None = None
    runtime: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        devices = (f"{name} ({spec.name})" for name, spec in self.devices.items())
        return short(f"Platform: {self.name}, host {self.host}", ", ".join(devices))


@dataclass(frozen=True, slots=True)
class Route:
    """Route from one device to another.

    - `latency_s`, `bytes_per_s`: sum of the links' latencies; bandwidth of the narrowest link.
    - `resources`: indices into the resources returned with the routes: link directions and buses
    that a transfer holds from start to end, ascending.
    - `links`: names of the links that it takes, from the first to the last.
    """

    latency_s: float
    bytes_per_s: float
    resources: tuple[int, ...] = ()
    links: tuple[str, ...] = ()

    def seconds(self, nbytes: int) -> float:
        """Return the seconds of one transfer of `nbytes` on the idle route."""
        return self.latency_s + nbytes / self.bytes_per_s
