"""Where the published measurements lie, and their rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from hetsim.errors import UsageError

_CHECKOUT = Path(__file__).parents[2] / "data" / "measured"


def measured_folder(given: Path | None = None) -> Path:
    """Return the folder `given`, or the one of this checkout.

    Raises
    ------
    UsageError
        Where it holds no rows: a wheel does not carry the measurements.
    """
    folder = _CHECKOUT if given is None else given
    if not (folder / "rows.jsonl.gz").is_file():
        raise UsageError(
            "there are no published measurements here",
            where=str(folder),
            hint="the source distribution has them, in data/measured",
        )
    return folder


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows, as the README of the folder describes them, in the order of the file."""
    with gzip.open(folder / "rows.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
