"""Odd values: what files say where something else was meant."""

from __future__ import annotations

from random import Random
from typing import Any

TEXTS = (
    "",
    " ",
    "\x00",
    "\x1b[31mred\x1b]0;title\x07",
    "a\nb",
    "\r",
    "\u2028",
    "\u202ertl",
    "\x9b1m",
    "\ufeff",
    "../../etc/passwd",
    "/",
    "/dev/null",
    ".",
    "..",
    "~",
    "C:\\x",
    "a" * 300,
    "long" * 2500,
    "é\u0301",
    "漢字",
    "\U0001f9e0",
    "</script>",
    "[bold]x[/]",
    "%s{}{0}$x",
    "{{ x }}",
    "-1",
    "0",
    "1e999",
    "nan",
    "None",
    "true",
    "*",
    "x[0]",
    "x[-1]",
    "=",
    ":",
    "a:b",
    "cpu",
    "gpu",
    "zoo:alexnet",
    "float32",
    "1ms",
    "p99=1ms",
    "1/0",
    "(" * 60,
    "[" * 60,
    "a" * 40 + "!",
    "0" * 5000,
    "9" * 5000,
    "1" * 400,
)

WHOLE = (
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    255,
    256,
    1000,
    10**6,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    10**12,
    2**53 + 1,
    2**61,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**30,
    10**308,
    10**400,
    -(10**400),
)

REAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-9,
    1e-300,
    5e-324,
    1e9,
    1e15,
    1e18,
    1e300,
    1.7976931348623157e308,
    float("inf"),
    float("-inf"),
    float("nan"),
)


def number(rng: Random, was: float) -> Any:
    """Another number in the place of one: near it, far from it, or of no sense."""
    how = rng.randrange(8)
    if how == 0:
        return -was
    if how == 1:
        return was + rng.choice((1, -1))
    if how == 2:
        factor = 10 ** rng.randrange(1, 25)
        if isinstance(was, int):
            return was * factor
        return was * float(factor) ** rng.choice((1, -1))
    return rng.choice(WHOLE if how < 5 else REAL)


def text(rng: Random, was: str) -> str:
    """Another text in the place of one."""
    how = rng.randrange(8)
    if how == 0 and was:
        at = rng.randrange(len(was))
        return was[:at] + was[at + 1 :]
    if how == 1:
        at = rng.randrange(len(was) + 1)
        return was[:at] + rng.choice(TEXTS)[:40] + was[at:]
    if how == 2:
        return was.upper() if was != was.upper() else was.lower()
    if how == 3 and was:
        at = rng.randrange(len(was))
        return (
            was[:at]
            + chr(rng.randrange(0x110000 - 0x800) if rng.random() < 0.2 else 33 + rng.randrange(94))
            + was[at + 1 :]
        )
    if how == 4 and was:
        return was[: rng.randrange(len(was))]
    if how == 5:
        return was * 2
    return rng.choice(TEXTS)


def any_value(rng: Random) -> Any:
    """A value of any type."""
    how = rng.randrange(9)
    if how < 2:
        return rng.choice(WHOLE)
    if how < 4:
        return rng.choice(REAL)
    if how < 6:
        return rng.choice(TEXTS)
    return rng.choice(
        [None, True, False, [], {}, [[]], [None], {"": None}, [1, "a", None], {"a": {"b": [1]}}]
    )
