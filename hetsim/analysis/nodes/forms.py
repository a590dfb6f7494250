"""Which file of nodes a name asks for, by its end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from hetsim.errors import UsageError

What = Literal["device", "seconds", "cost", "why"]
WHATS: tuple[What, ...] = get_args(What)
EXPLORER = ".model-explorer.json"
ENDINGS = (".json", ".csv", EXPLORER)


@dataclass(frozen=True, slots=True)
class Form:
    """What a file of nodes is: ``json``, ``csv``, or ``explorer``, which tells `what`."""

    kind: Literal["json", "csv", "explorer"]
    what: What | None = None


def form_of(path: str | os.PathLike[str]) -> Form:
    """Return what the name of a file asks for. Raises UsageError for an unknown end."""
    name = Path(path).name.lower()
    if name.endswith(EXPLORER):
        asked = Path(name.removesuffix(EXPLORER)).suffix.removeprefix(".")
        what: What = next((what for what in WHATS if what == asked), "device")
        return Form("explorer", what)
    if name.endswith(".json"):
        return Form("json")
    if name.endswith(".csv"):
        return Form("csv")
    raise UsageError(
        f"'{os.fspath(path)}' does not say what to write",
        hint=f"end it with one of: {', '.join(ENDINGS)}; {', '.join(WHATS[1:])} may stand before "
        f"the last, as in nodes.cost{EXPLORER}",
    )
