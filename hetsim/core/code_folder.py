"""Folder in which numba keeps the machine code of hetsim's functions, for this user alone."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from hetsim.core.cache import private_folder

NAME = "machine-code"


def is_kept(function: Callable[..., Any], *parts: Callable[..., Any], inline: bool = False) -> bool:
    """Return whether machine code of a function is most likely kept, without loading numba.

    What was made by another numba, or for another processor, counts as well; then it is made anew.
    """
    folder = folder_of(function, *parts, inline=inline)
    return folder is not None and any(folder.glob(f"*/*{function.__name__}-*.nbi"))


def folder_of(
    function: Callable[..., Any], *parts: Callable[..., Any], inline: bool = False
) -> Path | None:
    """Return the folder of a function's machine code, which exists; None where there can be none.

    It lies where ``NUMBA_CACHE_DIR`` says, or else in ``cache.private_folder``. Its name is a
    digest of all that the machine code depends on and numba does not look at: numba compares
    types, its own version, the processor and the file of the outermost function, but neither
    functions and constants of other files nor the fields of named tuples, which are found by place.
    """
    text = repr((inline, [(_contents(one.__code__), _globals(one)) for one in (function, *parts)]))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    named = _named()
    if not named:
        return private_folder(NAME, digest)
    folder = Path(named) / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _named() -> str:
    """The folder that the user has named for numba, or nothing."""
    loaded: Any = sys.modules.get("numba")
    return os.environ.get("NUMBA_CACHE_DIR", "") if loaded is None else loaded.config.CACHE_DIR


def _contents(code: CodeType) -> tuple[Any, ...]:
    """What a function does, and the functions inside it."""
    inside = tuple(_contents(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.co_code, code.co_names, inside


def _globals(function: Callable[..., Any]) -> list[Any]:
    """Constants that a function names, and the fields of the named tuples that it takes."""
    scope = function.__globals__
    constants = [
        (name, scope[name])
        for name in function.__code__.co_names
        if isinstance(scope.get(name), int | float | str | tuple)
    ]
    records = [
        (name, scope[name]._fields)
        for name in function.__annotations__.values()
        if isinstance(name, str) and hasattr(scope.get(name), "_fields")
    ]
    return [constants, records]
