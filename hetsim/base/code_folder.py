"""Where machine code is kept, and the names by which it is found again."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any

from hetsim.base import object_code
from hetsim.base.cache import cache_dir, private_folder
from hetsim.version import __version__

NAME = "machine-code"
LAYOUT = 1
"""Of records by reference: another number where machine code that is kept reads them otherwise."""


OBJECT, LEFT = ".o", ".left"
"""Object code, and what stands in its place where numba alone can call a function."""


def is_kept(function: Callable[..., Any], *parts: Callable[..., Any], inline: bool = False) -> bool:
    """Return whether object code of it is most likely kept, without loading anything.

    What was made for another processor counts as well; then it is made anew all the same.
    """
    if not object_code.is_allowed():
        return False
    named = _named()
    try:
        roots = [Path(named)] if named else list((cache_dir() / NAME).glob(_made_by("*")))
        pattern = f"{stem_of(function, parts, inline)}-*{OBJECT}"
        return any(next(root.glob(pattern), None) is not None for root in roots)
    except (OSError, RuntimeError, ValueError):
        return False


def _named() -> str:
    """The folder that the user has named for numba, or nothing."""
    loaded: Any = sys.modules.get("numba")
    if loaded is None:
        return os.environ.get("NUMBA_CACHE_DIR", "")
    return str(loaded.config.CACHE_DIR)


def root() -> Path | None:
    """Where machine code is kept: by what it depends on, what is in a file's name apart."""
    named = _named()
    if named:
        return Path(named)
    import llvmlite.binding

    return private_folder(NAME, _made_by(llvmlite.binding.get_host_cpu_name() or "unknown"))


def _made_by(processor: str) -> str:
    """The name of a folder of machine code: who made it, and for what."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return f"hetsim{__version__}-numba{_numba()}-{python}-{processor}"


@functools.cache
def _numba() -> str:
    """Its version, without loading it."""
    return metadata.version("numba")


def stem_of(function: Callable[..., Any], parts: Sequence[Callable[..., Any]], inline: bool) -> str:
    """The name of object code, but for the kinds of arguments: all that it depends on besides."""
    text = repr((
        function.__module__, function.__qualname__, _contents(function.__code__),
        digest_of(function, parts, inline), inline, object_code.LAYOUT,
    ))  # fmt: skip
    return f"{function.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _contents(code: CodeType) -> tuple[Any, ...]:
    """What a function does, of those inside it, too."""
    inside = tuple(_contents(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.co_code, code.co_names, inside


def digest_of(
    function: Callable[..., Any], parts: Sequence[Callable[..., Any]], inline: bool
) -> str:
    """What the machine code depends on outside the file of `function`; empty where nothing."""
    codes = [_contents(part.__code__) for part in parts]
    constants = [
        (name, one.__globals__[name])
        for one in (function, *parts)
        for name in one.__code__.co_names
        if isinstance(one.__globals__.get(name), int | float | str | tuple)
    ]
    # Fields of named tuples are found by their place.
    records = [
        (name, one.__globals__[name]._fields)
        for one in (function, *parts)
        for name in one.__annotations__.values()
        if isinstance(name, str) and hasattr(one.__globals__.get(name), "_fields")
    ]
    if not codes and not constants and not records:
        return ""
    text = repr((codes, constants, records, inline, LAYOUT))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
