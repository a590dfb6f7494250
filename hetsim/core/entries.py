"""What a user chooses by name: one record for merge methods and strategies, own or of a package."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

OWN = "hetsim"
"""Who provides what is no package's."""

PROMISES: Mapping[str, str] = {
    "connected": "each group is weakly connected, constants left out",
    "latency": "plans for the latency of one request",
    "throughput": "plans for seconds a request, with many in flight",
    "replicas": "may put the whole model on several devices, and deal requests out",
    "proof": "says whether the plan is proven the best of its kind, or how far it may be from it",
}
"""What an entry may promise beyond what all hold: no cycles, and memory that suffices."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of an entry, as a user writes it.

    Attributes
    ----------
    name : str
        The keyword in Python, and ``--set NAME=VALUE`` on the command line.
    kind : str
        Which values it takes.
    default : str
        Empty: none.
    meaning : str
        What it does, in plain text; empty where nothing is said of it.
    """

    name: str
    kind: str
    default: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A merge method or a strategy.

    Attributes
    ----------
    name : str
    usage : str
        How it is written, with what may follow a colon.
    summary : str
        What it does, in one line.
    promises : tuple of str
        Of PROMISES.
    needs : tuple of str
        What must be there for it, in words.
    provider : str
        ``hetsim``, or the package that adds it.
    """

    name: str
    usage: str
    summary: str
    promises: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    provider: str = OWN
    _options: Callable[[], tuple[Option, ...]] = field(default=tuple, repr=False, compare=False)

    @property
    def options(self) -> tuple[Option, ...]:
        """Its options, those of its own first; read when asked for, with the code that has them."""
        return self._options()


def meanings(kind: Any) -> dict[str, str]:
    """Return what the ``Attributes`` section of a class, and of its bases, says of each field.

    In one line each; markup is left out. Nothing where docstrings are stripped.
    """
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        lines = inspect.cleandoc(base.__doc__ or "").splitlines()
        if "Attributes" not in lines:
            continue
        names: list[str] = []
        for line in lines[lines.index("Attributes") + 2 :]:
            if line.startswith(" ") and names:
                for name in names:
                    found[name] = f"{found.get(name, '')} {line.strip()}".strip()
            elif re.match(r"\w+(, \w+)*( : |$)", line):
                names = line.partition(" : ")[0].split(", ")
                found.update(dict.fromkeys(names, ""))
            elif line:
                break
    return {name: text.replace("``", "").replace("`", "") for name, text in found.items()}


def kind_in_words(hint: Any) -> str:
    """Return which values a type has, as the command line writes them."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(parts)
    if origin in (UnionType, Union):
        return " or ".join(kind_in_words(part) for part in parts if part is not type(None))
    if origin is tuple:
        return f"list of {kind_in_words(parts[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"JSON of {kind_in_words(parts[1])} by name"
    if is_dataclass(hint):
        return f"JSON of {'/'.join(field.name for field in fields(hint))}"
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    return words.get(hint, f"JSON of {getattr(hint, '__name__', hint)}")
