"""Functions on arrays compiled by numba, and where their machine code is kept."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import FunctionType
from typing import Any
from warnings import warn

from hetsim.base.cache import cache_dir, private_folder
from hetsim.base.one_at_a_time import one_at_a_time
from hetsim.version import __version__

_NAME = "machine-code"
LAYOUT = 1
"""Of records by reference: another number where machine code that is kept reads them otherwise."""
_configuring = threading.Lock()
_holding: set[Path] = set()
"""Folders of functions that are being compiled here, one inside the other."""


def machine_code(
    function: Callable[..., Any], *parts: Callable[..., Any], inline: bool = False
) -> Callable[..., Any]:
    """Return `function`, of the subset of Python that numba knows, compiled by numba.

    `parts` are functions that it or other parts call, by their own names, each after those that
    it calls; a part takes the place of whatever else bears its name. numba keeps machine code by
    the file of the outermost function alone, so the folder is named after the parts and the
    constants and fields of named tuples that all of them name, which may come from other files,
    too. `inline` puts the parts' code wherever they are called, which pays where they are small
    and called often; such a function and its parts make no arrays, and take named tuples by
    reference (``records_by_reference``), or, with a RuntimeWarning, by value where numba is not
    as that wants it.

    Division follows numpy: by zero it gives infinity or NaN. The machine code is kept where
    ``NUMBA_CACHE_DIR`` says, or else in a folder of the user's own below hetsim's cache
    folder; never beside the package, which others may use. Where there is no such folder, it
    is made anew by every process.
    """
    import numba

    digest = _digest(function, parts, inline)
    # Without _nrt nobody counts who holds an array, which costs more than what is inlined.
    options: dict[str, Any] = {"error_model": "numpy", "_nrt": not inline}
    own, hand_on = _inlining() if inline else ({}, None)
    if parts:
        linked: dict[str, Any] = {}
        for part in parts:
            scope = {**part.__globals__, **linked}
            one = FunctionType(part.__code__, scope, part.__name__)
            linked[part.__name__] = numba.njit(**own, **options)(one)
        scope = {**function.__globals__, **linked}
        function = FunctionType(function.__code__, scope, function.__name__)
    made = numba.njit(**options)(function)
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
                    _once(made, folder)
            finally:
                config.CACHE_DIR = named
    compiled: Callable[..., Any] = made
    return compiled if hand_on is None else hand_on(made)


def _inlining() -> tuple[dict[str, Any], Callable[[Any], Callable[..., Any]] | None]:
    """How numba puts a part inline, and what hands records on to what it made; None: as they are.

    Both rest on what numba does not promise to keep. Where it has moved, parts are compiled and
    records handed on as numba does it: the same machine code in effect, that takes longer to make.
    """
    try:
        from hetsim.base.records_by_reference import by_reference
        from hetsim.base.unoptimised_parts import Part
    except (ImportError, AttributeError) as error:
        warn(
            f"this numba is unlike those that hetsim knows ({error}): the first runs of large "
            "simulations take longer, and give the same answers",
            RuntimeWarning,
            stacklevel=3,
        )
        return {"forceinline": True}, None
    return {"forceinline": True, "pipeline_class": Part}, by_reference


def is_kept(function: Callable[..., Any], *parts: Callable[..., Any], inline: bool = False) -> bool:
    """Return whether machine code of it is most likely kept, without loading numba.

    What was made for another processor counts as well; then it is made anew all the same.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    try:
        if named:
            roots = [Path(named)]
        else:
            roots = list((cache_dir() / _NAME).glob(_made_by(metadata.version("numba"), "*")))
        digest = _digest(function, parts, inline)
        pattern = f"{digest or '.'}/*/*.{function.__name__}-*.nbi"
        return any(next(root.glob(pattern), None) is not None for root in roots)
    except (OSError, RuntimeError, ValueError):
        return False


def _folder() -> Path | None:
    """Where machine code is kept: by what it depends on, numba's own checks of it apart."""
    import llvmlite.binding
    import numba

    processor = llvmlite.binding.get_host_cpu_name() or "unknown"
    return private_folder(_NAME, _made_by(numba.__version__, processor))


def _made_by(numba_version: str, processor: str) -> str:
    """The name of a folder of machine code: who made it, and for what."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return f"hetsim{__version__}-numba{numba_version}-{python}-{processor}"


def _digest(function: Callable[..., Any], parts: Sequence[Callable[..., Any]], inline: bool) -> str:
    """What the machine code depends on outside the file of `function`; empty where nothing."""
    codes = [part.__code__ for part in parts]
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
    text = repr(
        ([(c.co_code, c.co_consts, c.co_names) for c in codes], constants, records, inline, LAYOUT)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _once(made: Any, folder: Path) -> None:
    """Let one process make what several need: the others wait, and find it kept.

    Who holds the folder has numba's own lock, so that no two threads wait for each other.
    """
    from numba.core.compiler_lock import global_compiler_lock

    compile_now = made.compile

    def compiled(signature: Any) -> Any:
        with global_compiler_lock:
            if folder in _holding:
                return compile_now(signature)
            _holding.add(folder)
            try:
                with one_at_a_time(folder):
                    return compile_now(signature)
            finally:
                _holding.discard(folder)

    made.compile = compiled


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
