"""Which figures of a device, a link or a platform can be changed, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hetsim.core.units import GIB, GIGA, MICRO, TERA
from hetsim.errors import UsageError, closest
from hetsim.hardware.kernel_figures import PARAMETERS


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that a file of hardware states.

    Attributes
    ----------
    key : str
        Of the YAML file, with its unit.
    short : str
        What may be written in its place.
    field : str
        Of the record that holds it, in SI units.
    quantity : str
        What it counts, one of ``amounts.UNITS``; empty: a plain number.
    key_unit : float
        The unit of the key, in SI units.
    zero : bool
        Whether it may be 0.
    most : float
        The largest that it may be, in SI units.
    whole : bool
        Whether it is a whole number.
    table : bool
        Whether it has an entry for each precision, or class of operators.
    """

    key: str
    short: str
    field: str
    quantity: str = ""
    key_unit: float = 1.0
    zero: bool = False
    most: float = 1e24
    whole: bool = False
    table: bool = False


OF_DEVICE = (
    Figure("peak_tflops", "peak", "flops_per_s", "FLOP/s", TERA, table=True),
    Figure("memory_bandwidth_gbytes_s", "bandwidth", "bytes_per_s", "bytes/s", GIGA),
    Figure("memory_gib", "memory", "memory_bytes", "bytes", GIB, whole=True),
    Figure("launch_us", "launch", "launch_s", "s", MICRO, zero=True),
    Figure("dispatch_us", "dispatch", "dispatch_s", "s", MICRO, zero=True),
    Figure("streams", "streams", "streams", whole=True, most=1e6),
    Figure("idle_w", "idle", "idle_w", "W", zero=True),
    Figure("busy_w", "busy", "busy_w", "W", zero=True),
    Figure("efficiency", "efficiency", "efficiency", most=1.0, table=True),
    Figure("memory_efficiency", "memory_efficiency", "memory_efficiency", most=1.0),
)
OF_LINK = (
    Figure("latency_us", "latency", "latency_s", "s", MICRO, zero=True),
    Figure("bandwidth_gbytes_s", "bandwidth", "bytes_per_s", "bytes/s", GIGA),
)
OF_PLATFORM = (
    Figure("power_w", "power", "power_w", "W"),
    Figure("memories", "memories", "memories", "bytes/s", GIGA),
)

SPEED = "speed"
"""All that a device does, or a link: every rate of it times the factor, every time by it."""

POWER = "power"
"""What a device draws, idle and busy."""

KERNELS = "kernels"
"""Of a device: `kernels.PARAMETER` or `kernels.PRECISION.PARAMETER`, as its file has them."""

OF_KERNELS = tuple(
    Figure(known.name, known.name, known.name, known.unit, known.key_unit) for known in PARAMETERS
)


def figure_called(
    name: str, known: Iterable[Figure], more: Iterable[str], of: str, where: str
) -> Figure:
    """Return the figure with this key, or short name.

    Raises
    ------
    UsageError
        Where there is none: with all that there are, `more` among them.
    """
    listed = tuple(known)
    for figure in listed:
        if name in (figure.key, figure.short):
            return figure
    short = {figure.short: None for figure in listed} | dict.fromkeys(more)
    hint = f"{closest(name, short)} it has {', '.join(short)}".lstrip()
    raise UsageError(f"{of} has no figure '{name}'", where=where, hint=hint)
