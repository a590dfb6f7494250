"""By how much a figure is changed: ``x2``, ``/2``, ``+10%``, ``=64GB``; read, and applied."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hetsim.core.units import GIB, GIGA, KIB, MIB, TERA, in_si
from hetsim.errors import UsageError

_BYTES = {"B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": GIGA, "TB": TERA,
          "KiB": float(KIB), "MiB": float(MIB), "GiB": float(GIB), "TiB": 1024.0 * GIB}  # fmt: skip
_BITS = {"kbit/s": 1e3 / 8, "Mbit/s": 1e6 / 8, "Gbit/s": GIGA / 8, "Tbit/s": TERA / 8}

UNITS: Mapping[str, Mapping[str, float]] = {
    "bytes": _BYTES,
    "bytes/s": {**{f"{unit}/s": size for unit, size in _BYTES.items()}, **_BITS},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "FLOP/s": {
        f"{prefix}{word}": size
        for prefix, size in (("M", 1e6), ("G", GIGA), ("T", TERA), ("P", 1e15))
        for word in ("FLOPS", "FLOP/s", "OPS", "OP/s")
    },
    "W": {"mW": 1e-3, "W": 1.0, "kW": 1e3},
}
"""What people write for the unit of a quantity, and its size in SI units; others have none."""

FORMS = "write x2, /2, +10%, -10% or =VALUE"

_AMOUNT = re.compile(
    r"(?P<what>.*?)(?<!\s)(?:\s++(?P<times>[x*])\s*+|\s*+(?P<sign>[/=+-])\s*+)"
    r"(?P<number>[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*+(?P<unit>%|[A-Za-z][A-Za-z/]*)?\s*+"
)


@dataclass(frozen=True, slots=True)
class Amount:
    """What is done to a figure.

    Attributes
    ----------
    sign : "x", "/", "=", "+" or "-"
    number : float
        From 0 on.
    unit : str
        As it was written: ``%``, ``GB``; empty where none was.
    """

    sign: str
    number: float
    unit: str

    @property
    def relative(self) -> bool:
        """Whether it is a factor, which says the same of every figure."""
        return self.sign in "x/" or self.unit == "%"

    @property
    def factor(self) -> float:
        """The factor, of one that is relative."""
        if self.unit == "%":
            part = self.number / 100
            return 1 + part if self.sign == "+" else 1 - part
        return self.number if self.sign == "x" else 1 / self.number

    def applied(self, value: float, quantity: str, key_unit: float | None, where: str) -> float:
        """Return `value`, in SI units, as it is after the change.

        Parameters
        ----------
        quantity : str
            One of `UNITS`, or empty for a plain number.
        key_unit : float, optional
            The unit that a bare number is in, where the figure was named by its key.

        Raises
        ------
        UsageError
            For a unit of another quantity, or none where one is needed.
        """
        if self.relative:
            return value * self.factor
        stated = in_si(self.number, self._size(quantity, key_unit, where))
        return stated if self.sign == "=" else value + (stated if self.sign == "+" else -stated)

    def _size(self, quantity: str, key_unit: float | None, where: str) -> float:
        known = UNITS.get(quantity, {})
        if self.unit in known:
            return known[self.unit]
        if self.unit:
            have = ", ".join(known) if known else "none: it is a plain number"
            raise UsageError(
                f"'{self.unit}' is no unit of it", where=where, hint=f"its units are {have}"
            )
        if not known:
            return 1.0
        if key_unit is None:
            raise UsageError(
                f"{self.number:g} of what?",
                where=where,
                hint=f"write a unit behind it: {', '.join(known)}",
            )
        return key_unit


def read_amount(text: str) -> tuple[str, Amount]:
    """Return what stands before the amount that ends `text`, and the amount.

    Raises
    ------
    UsageError
        Where it ends in none, or in one that cannot be: times 0, or 100 % less.
    """
    where = f"what if '{text}'"
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            "it does not end in a change",
            where=where,
            hint=f"{FORMS}, e.g. 'gpu.memory =64GB' or 'link cpu-gpu.bandwidth x2'",
        )
    sign = found["sign"] or "x"
    try:
        number = float(found["number"])
    except ValueError:
        number = math.nan
    amount = Amount(sign, number, found["unit"] or "")
    if not math.isfinite(number):
        raise UsageError(f"'{found['number']}' is no number", where=where, hint=FORMS)
    if amount.unit == "%" and sign not in "+-":
        raise UsageError("a percentage is more or less", where=where, hint="write +10% or -10%")
    if sign in "x/" and amount.unit:
        raise UsageError("a factor has no unit", where=where, hint="write x2 or /2")
    if sign in "x/" and number == 0.0:
        raise UsageError("a factor of 0 leaves no figure", where=where, hint=FORMS)
    if amount.relative and amount.factor <= 0:
        raise UsageError("that leaves nothing of it", where=where, hint="take off less than 100%")
    return found["what"].strip(), amount
