"""Whether two values are the same to the last bit, and how far apart they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far an output is from what it should be.

    Attributes
    ----------
    output : str
    max_abs : float
        Largest difference of an element, over those that are finite in both.
    max_rel : float
        `max_abs` over the largest magnitude of the reference; 0 where both are 0.
    lost : int
        Elements that are finite in the reference alone.
    """

    output: str
    max_abs: float
    max_rel: float
    lost: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether outputs are what they should be."""

    bitwise_equal: bool
    mismatches: tuple[str, ...]


def judged(found: Mapping[str, Any], reference: Mapping[str, Any], tolerance: float) -> Verdict:
    """Hold `found` against `reference`.

    `tolerance` is how far an element of a float array may be off, over the largest magnitude
    of its reference; 0 allows nothing but the same bits.
    """
    told = differences(found, reference)
    if not told or not tolerance:
        return Verdict(not told, told)
    off: dict[str, float] = {}
    for deviation in deviations(found, {k: v for k, v in reference.items() if k in found}):
        off[deviation.output] = np.inf if deviation.lost else deviation.max_rel
    within = {name for name, largest in off.items() if largest <= tolerance}
    beyond = {name: value for name, value in reference.items() if name not in within}
    rest = {name: value for name, value in found.items() if name not in within}
    return Verdict(False, differences(rest, beyond))


def deviations(found: Mapping[str, Any], reference: Mapping[str, Any]) -> tuple[Deviation, ...]:
    """Return how far each float array of `found` is from `reference`, in its order."""
    told: list[Deviation] = []
    for name, wanted in reference.items():
        have = found[name]
        if not isinstance(wanted, np.ndarray) or wanted.dtype.kind not in "fV":
            continue
        if not isinstance(have, np.ndarray) or have.shape != wanted.shape:
            told.append(Deviation(name, np.inf, np.inf, wanted.size))
            continue
        a, b = have.astype(np.float64), wanted.astype(np.float64)
        both = np.isfinite(a) & np.isfinite(b)
        largest = float(np.abs(a[both] - b[both]).max(initial=0.0))
        scale = float(np.abs(b[both]).max(initial=0.0))
        lost = int((np.isfinite(b) & ~np.isfinite(a)).sum())
        told.append(Deviation(name, largest, largest / scale if scale else largest, lost))
    return tuple(told)


def differences(found: Mapping[str, Any], reference: Mapping[str, Any]) -> tuple[str, ...]:
    """Describe, by name in the order of `reference`, each value that `found` has differently.

    Arrays are equal where dtype, shape and bytes are: NaN equals the same NaN, 0.0 is not -0.0.
    """
    told: list[str] = []
    for name, wanted in reference.items():
        what = difference(found[name], wanted) if name in found else "it is missing"
        if what is not None:
            told.append(f"{name} ({what})")
    told.extend(f"{name} (it is not wanted)" for name in found if name not in reference)
    return tuple(told)


def difference(found: Any, wanted: Any) -> str | None:
    """Say in what `found` differs from `wanted`, or None where it does not."""
    if isinstance(wanted, np.ndarray):
        if not isinstance(found, np.ndarray):
            return f"a {type(found).__name__}, not an array"
        return _array_difference(found, wanted)
    if type(found) is not type(wanted):
        return f"a {type(found).__name__}, not a {type(wanted).__name__}"
    if isinstance(wanted, list | tuple):
        if len(found) != len(wanted):
            return f"{len(found)} entries, not {len(wanted)}"
        pairs = enumerate(zip(found, wanted, strict=True))
        return _first((f"entry {place}", difference(a, b)) for place, (a, b) in pairs)
    if isinstance(wanted, dict):
        if list(found) != list(wanted):
            return "other keys"
        return _first((f"key {key!r}", difference(found[key], wanted[key])) for key in wanted)
    if isinstance(wanted, float):
        return difference(np.float64(found).reshape(1), np.float64(wanted).reshape(1))
    return None if found == wanted else f"{found!r}, not {wanted!r}"


def _first(parts: Iterable[tuple[str, str | None]]) -> str | None:
    for where, what in parts:
        if what is not None:
            return f"{where}: {what}"
    return None


def _array_difference(found: NDArray[Any], wanted: NDArray[Any]) -> str | None:
    if found.dtype != wanted.dtype:
        return f"{found.dtype}, not {wanted.dtype}"
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    if found.dtype == object:
        different = sum(a != b for a, b in zip(found.flat, wanted.flat, strict=True))
        return f"{different} of {wanted.size} entries differ" if different else None
    a, b = (np.ascontiguousarray(x).reshape(-1) for x in (found, wanted))
    if a.tobytes() == b.tobytes():
        return None
    item = a.dtype.itemsize
    rows = (x.view(np.uint8).reshape(-1, item) for x in (a, b))
    different = int(np.any(np.not_equal(*rows), axis=1).sum())
    text = f"{different} of {a.size} elements differ"
    if a.dtype.kind == "b":
        return text
    kind = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        deviation = np.abs(a.astype(kind) - b.astype(kind))
    finite = deviation[np.isfinite(deviation)]
    largest = finite.max(initial=0.0)
    return f"{text}, by at most {largest:.3g}" if largest > 0 else text
