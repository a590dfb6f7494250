"""What is large goes into a page packed: gzip, as base64 text; scripts unpack it when needed."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from functools import cache
from importlib.resources import files
from typing import Any

from hetsim.base.text import Record, to_compact_json

LEVEL = 9


def packed(value: Any) -> Record:
    """Return `value` as a record that the pages' core unpacks again."""
    return {"packed": pack(to_compact_json(value).encode("ascii"))}


def unpacked(value: Any) -> Any:
    """Return what `packed` was given; anything else as it is. Raises ValueError on damage."""
    if not (isinstance(value, dict) and isinstance(value.get("packed"), str)):
        return value
    try:
        return json.loads(gzip.decompress(base64.b64decode(value["packed"], validate=True)))
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from None


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
