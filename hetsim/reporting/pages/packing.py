"""What is large goes into a page packed: gzip, as base64 text; scripts unpack it when needed."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import accumulate, pairwise
from typing import Any

from hetsim.base.text import Record, to_compact_json

LEVEL = 9


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
    """Return what `packed` was given; anything else as it is. Raises ValueError on damage."""
    if not (isinstance(value, dict) and isinstance(value.get("packed"), str)):
        return value
    try:
        found = json.loads(gzip.decompress(base64.b64decode(value["packed"], validate=True)))
        for name in value.get("differences", ()):
            found[name] = _sums(found[name])
    except (OSError, EOFError, zlib.error, LookupError, TypeError) as error:
        raise ValueError(str(error)) from None
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
