"""JSON that says where it is: every access is checked, and errors carry a pointer (RFC 6901)."""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import stat
import zlib
from collections.abc import Sequence, Sized
from io import BufferedReader
from typing import Any, NoReturn

import numpy as np

MOST_BYTES = 1 << 26
"""Of a file."""

PIECE_BYTES = 1 << 20
"""That are read of it at a time."""


class Broken(Exception):
    """No certificate: what is wrong, and where."""


class Untrue(Exception):
    """A certificate that claims what is not so: what, and where."""


class Node:
    """A value of the file, and its pointer."""

    __slots__ = ("value", "where")

    def __init__(self, value: Any, where: str = "") -> None:
        self.value, self.where = value, where

    def broken(self, what: str) -> NoReturn:
        """Say that this is no certificate."""
        raise Broken(f"{self.where or '/'}: {what}")

    def untrue(self, what: str) -> NoReturn:
        """Say that this is not so."""
        raise Untrue(f"{self.where or '/'}: {what}")

    def __getitem__(self, key: str | int) -> Node:
        # A key may be any text, and long.
        name = ascii(str(key))[1:-1][:80].replace("~", "~0").replace("/", "~1")
        return Node(self.value[key], f"{self.where}/{name}")

    def __contains__(self, key: str) -> bool:
        return key in self.value

    def fields(self, needed: str, further: str = "") -> Node:
        """Check that this is an object of just these fields."""
        if not isinstance(self.value, dict):
            self.broken("no object")
        for key in needed.split():
            if key not in self.value:
                self.broken(f"has no '{key}'")
        for key in self.value:
            if key not in needed.split() and key not in further.split():
                self[key].broken("no such field")
        return self

    def having(self, key: str) -> Node:
        """Check that this is an object that has a field."""
        if not isinstance(self.value, dict) or key not in self.value:
            self.broken(f"no object with '{key}'")
        return self

    def rows(self, most: int = 1 << 20, length: int | None = None) -> Sequence[Node]:
        """Return what is in a list."""
        if not isinstance(self.value, list) or len(self.value) > most:
            self.broken(f"no list of up to {most}")
        if length is not None and len(self.value) != length:
            self.broken(f"{len(self.value)} entries in the place of {length}")
        return [self[k] for k in range(len(self.value))]

    def entries(self) -> list[Node]:
        """Return what is in an object, whatever its keys."""
        if not isinstance(self.value, dict):
            self.broken("no object")
        return [self[key] for key in self.value]

    def whole(self, least: int = 0, most: int = 1 << 53) -> int:
        """Return a whole number."""
        if type(self.value) is not int or not least <= self.value <= most:
            self.broken(f"no whole number from {least} to {most}")
        return self.value

    def place(self, among: Sized) -> int:
        """Return the place of something in a list."""
        return self.whole(0, len(among) - 1)

    def places(self, among: Sized, length: int | None = None) -> list[int]:
        """Return places in a list."""
        return [one.place(among) for one in self.rows(length=length)]

    def number(self, least: float = 0.0, most: float = 1e15) -> float:
        """Return a number."""
        if type(self.value) not in (int, float) or not least <= self.value <= most:
            self.broken(f"no number from {least:g} to {most:g}")
        return float(self.value)

    def above(self, least: float = 0.0, most: float = 1e15) -> float:
        """Return a number above the least."""
        if self.number(least, most) == least:
            self.broken(f"not above {least:g}")
        return float(self.value)

    def text(self, *among: str) -> str:
        """Return a text, one of these where there are any."""
        if not isinstance(self.value, str) or (among and self.value not in among):
            self.broken(f"none of {', '.join(among)}" if among else "no text")
        if not self.value.isprintable():
            self.broken("a text that cannot be printed")
        return self.value

    def array(self, kind: str, length: int) -> np.ndarray[Any, Any]:
        """Return numbers that are packed as base64 of zlib, as many as they should be."""
        size = length * np.dtype(kind).itemsize
        try:
            packed = zlib.decompressobj()
            raw = packed.decompress(base64.b64decode(self.text(), validate=True), size + 1)
        except (binascii.Error, zlib.error, ValueError):
            self.broken("no base64 of zlib")
        if len(raw) != size or packed.unconsumed_tail or packed.unused_data:
            self.broken(f"not {length} numbers of {kind}")
        return np.frombuffer(raw, kind)


def read(path: str) -> Node:
    """Return what is in a file. Raises Broken where it is no JSON, and OSError."""
    # A pipe without a writer would keep even the opening waiting.
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Broken("it is no regular file")
        raw = _most(file, MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise Broken(f"more than {MOST_BYTES >> 20} MiB")
    try:
        return Node(
            json.loads(
                raw.decode("utf-8"),
                object_pairs_hook=_once,
                parse_constant=_never,
                parse_float=_finite,
            )
        )
    except (ValueError, RecursionError) as wrong:
        text = "nested too deep" if isinstance(wrong, RecursionError) else str(wrong)
        raise Broken(f"no JSON: {text[:200]}") from None


def _most(file: BufferedReader, nbytes: int) -> bytes:
    """Return what is left of a file, up to `nbytes`: memory is taken for what there is."""
    parts, left = [], nbytes
    while left and (more := file.read(min(left, PIECE_BYTES))):
        parts.append(more)
        left -= len(more)
    return b"".join(parts)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _never(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:40]} is too large")
    return value
