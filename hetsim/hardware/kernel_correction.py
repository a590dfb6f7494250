"""How far measured kernels of a device were from the formula, by their geometry."""

from __future__ import annotations

from dataclasses import dataclass

COORDINATES = (
    "rows", "columns", "channels", "window", "tallness", "groups", "stride", "dilation",
    "columns_by_16", "channels_by_16", "channels_by_4", "exponential", "others", "read",
    "written", "weights", "model", "steps",
)  # fmt: skip
"""What a kernel is placed by, in octaves: sizes of its product, padding to whole vectors, elements
that pass a function like exp, bytes, and those of all weights of the model.
``hetsim.cost.kernels.correction`` derives them."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A factor on the formula for kernels of one form.

    Its logarithm is `offset` plus, for each centre, its weight times
    ``exp(-|(place - centre) / scales|^2 / 2)``.

    Attributes
    ----------
    form : str
        One of ``hetsim.cost.kernels.features.FORMS``.
    offset : float
        What holds far from all centres.
    coordinates : tuple of str
        Those of `COORDINATES` that count.
    scales : tuple of float
        How far along each of them a measurement tells of its neighbours.
    centres : tuple of tuple of float
        Places of measured kernels, by coordinate.
    weights : tuple of float
        One a centre.
    """

    form: str
    offset: float
    coordinates: tuple[str, ...]
    scales: tuple[float, ...]
    centres: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
