"""How far measured kernels of a device were from the formula, by their geometry."""

from __future__ import annotations

from dataclasses import dataclass

COORDINATES = (
    "rows", "columns", "channels", "window", "tallness", "groups", "stride", "dilation",
    "columns_by_64", "columns_by_16", "channels_by_16", "channels_by_4", "exponential", "others",
    "read", "written", "weights", "model", "steps",
)  # fmt: skip
"""What a kernel is placed by, in octaves: sizes of its product, padding to whole vectors, elements
that pass a function like exp, bytes, and those of all weights of the model.
``hetsim.cost.kernels.correction`` derives them."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One of the coordinates by which a correction tells kernels apart.

    Attributes
    ----------
    name : str
        One of `COORDINATES`.
    low, high : float
        Where measured kernels lie; what is beyond is taken as at the end.
    scale : float
        How far along it a measurement tells of its neighbours.
    slope : float
        By what the logarithm of the factor grows along it.
    """

    name: str
    low: float
    high: float
    scale: float
    slope: float


@dataclass(frozen=True, slots=True)
class Correction:
    """A factor on the formula for kernels of one form.

    Its logarithm is `offset`, plus `slope` times the place along each coordinate, plus for each
    centre its weight times ``exp(-|(place - centre) / scale|^2 / 2)``.

    Attributes
    ----------
    form : str
        One of ``hetsim.graph.work.rule.FORMS``.
    offset : float
    coordinates : tuple of Coordinate
        In the order of `COORDINATES`.
    centres : tuple of tuple of float
        Places of measured kernels, by coordinate.
    weights : tuple of float
        One a centre.
    """

    form: str
    offset: float
    coordinates: tuple[Coordinate, ...]
    centres: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
