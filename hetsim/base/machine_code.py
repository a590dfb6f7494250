"""Functions on arrays compiled by numba, and where their machine code is kept."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any

_NAME = "machine-code"
_configuring = threading.Lock()


def machine_code(function: Callable[..., Any], *parts: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, of the subset of Python that numba knows, compiled by numba.

    `parts` are functions of other files that it calls, by their own names. numba keeps machine
    code by the file of the outermost function alone, so the folder is named after the parts and
    the constants that all of them name, which may come from other files, too.

    Division follows numpy: by zero it gives infinity or NaN. The machine code is kept where
    ``NUMBA_CACHE_DIR`` says, or else in a folder of the user's own below hetsim's cache
    folder; never beside the package, which others may use. Where there is no such folder, it
    is made anew by every process.
    """
    import numba

    digest = _digest(function, parts)
    if parts:
        scope = {**function.__globals__, **{part.__name__: machine_code(part) for part in parts}}
        function = FunctionType(function.__code__, scope, function.__name__)
    made = numba.njit(error_model="numpy")(function)
    config: Any = numba.config
    with _configuring:
        named = config.CACHE_DIR
        folder = Path(named) if named else _folder()
        if folder:
            folder /= digest
            config.CACHE_DIR = str(folder)
            try:
                # numba finds no place to write to after all: RuntimeError.
                with suppress(RuntimeError, OSError):
                    made.enable_caching()
                    _forgive(made)
            finally:
                config.CACHE_DIR = named
    compiled: Callable[..., Any] = made
    return compiled


def _folder() -> Path | None:
    """Where machine code is kept: by what it depends on, numba's own checks of it apart."""
    import llvmlite.binding
    import numba

    from hetsim.base.cache import private_folder
    from hetsim.version import __version__

    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    processor = llvmlite.binding.get_host_cpu_name() or "unknown"
    return private_folder(
        _NAME, f"hetsim{__version__}-numba{numba.__version__}-{python}-{processor}"
    )


def _digest(function: Callable[..., Any], parts: Sequence[Callable[..., Any]]) -> str:
    """What the machine code depends on outside the file of `function`; empty where nothing."""
    codes = [part.__code__ for part in parts]
    constants = [
        (name, one.__globals__[name])
        for one in (function, *parts)
        for name in one.__code__.co_names
        if isinstance(one.__globals__.get(name), int | float | str | tuple)
    ]
    if not codes and not constants:
        return ""
    text = repr(([(code.co_code, code.co_consts, code.co_names) for code in codes], constants))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _forgive(made: Any) -> None:
    """Let a cache that is damaged, or cannot be written when it comes to that, be no error."""
    cache = made._cache
    load, save = cache.load_overload, cache.save_overload

    def loaded(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception:  # what unpickling of damaged bytes raises is anything
            return None

    def saved(*arguments: Any) -> None:
        with suppress(OSError):
            try:
                save(*arguments)
            except OSError:
                raise
            except Exception:
                # Of the damaged list of what is kept, too; it is begun anew.
                cache.flush()
                save(*arguments)

    cache.load_overload, cache.save_overload = loaded, saved
