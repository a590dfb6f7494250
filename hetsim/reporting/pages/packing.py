"""What is large goes into a page packed: gzip, as base64 text; scripts unpack it when needed."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import accumulate, pairwise
from typing import Any

from hetsim.core.text import Record, to_compact_json
from hetsim.core.units import format_bytes

LEVEL = 9

UNPACKED_MOST = 2**26
"""Bytes that what is packed in a page holds at most, all of it together: as many as a file that is
read for a report, and ten times what the fullest page has."""

_GZIP = 16 + zlib.MAX_WBITS


def packed(value: Any, differences: Sequence[str] = ()) -> Record:
    """Return `value` as a record that the pages' core unpacks again.

    Columns named by `differences`, of whole numbers, or of lists of them, are kept as the steps
    from one to the next: those of times take a third of the room so.
    """
    if differences:
        value = {
            name: _steps(column) if name in differences else column
            for name, column in value.items()
        }
    text = to_compact_json(value).encode("ascii")
    return {"packed": pack(text), "differences": list(differences)}


def _steps(column: Sequence[Any]) -> list[Any]:
    if column and isinstance(column[0], list):
        return [_steps(one) for one in column]
    return [now - before for before, now in pairwise((0, *column))]


def unpacked(value: Any) -> Any:
    """Return what `packed` was given; anything else as it is.

    Raises ValueError on damage, and where it holds more than ``UNPACKED_MOST`` bytes.
    """
    if not _is_packed(value):
        return value
    try:
        found = json.loads(_inflated(value["packed"], UNPACKED_MOST))
        for name in value.get("differences", ()):
            found[name] = _sums(found[name])
    except (zlib.error, LookupError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return found


def check_packed(value: Any) -> None:
    """Raise ValueError where something within `value` that is packed is damaged, or all is large.

    At most ``UNPACKED_MOST`` bytes are unpacked, however little they take packed, and none kept.
    """
    left, waiting = UNPACKED_MOST, [value]
    while waiting:
        one = waiting.pop()
        if _is_packed(one):
            try:
                left -= len(_inflated(one["packed"], left))
            except zlib.error as error:
                raise ValueError(str(error)) from None
        elif isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _is_packed(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("packed"), str)


def _inflated(text: str, most: int) -> bytes:
    """Return the bytes of one whole gzip; raises ValueError or zlib.error where it is none."""
    stream = zlib.decompressobj(_GZIP)
    found = stream.decompress(base64.b64decode(text, validate=True), most + 1)
    if len(found) > most:
        raise ValueError(f"it unpacks to more than {format_bytes(UNPACKED_MOST)}")
    if not stream.eof or stream.unused_data:
        raise ValueError("what is packed is cut, or goes on behind its end")
    return found


def _sums(steps: Sequence[Any]) -> list[Any]:
    if steps and isinstance(steps[0], list):
        return [_sums(one) for one in steps]
    return list(accumulate(steps))


def pack(content: bytes) -> str:
    """Return `content` as text, the same for the same bytes."""
    return base64.b64encode(gzip.compress(content, LEVEL, mtime=0)).decode("ascii")


@cache
def plotly() -> tuple[str, str]:
    """Return plotly's own script packed, and the digest that the page lets it run by."""
    script = (files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    return pack(script), digest(script)


def digest(script: bytes) -> str:
    """Return the source expression of a content security policy for a script of these bytes."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode('ascii')}"
