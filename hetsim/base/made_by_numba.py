"""What numba makes of functions on arrays, and keeps; one process makes it for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any
from warnings import warn

from hetsim.base.code_folder import digest_of, root
from hetsim.base.one_at_a_time import one_at_a_time

_configuring = threading.Lock()
_holding: set[Path] = set()
"""Folders of functions that are being compiled here, one inside the other."""


@dataclass(frozen=True, slots=True)
class Made:
    """What numba makes of a function.

    Attributes
    ----------
    call : numba's dispatcher
    by_value : bool
        Whether it takes named tuples by value.
    folder : Path or None
        Where numba keeps it.
    afresh : list of bool
        One: whether what numba keeps is not to be read.
    """

    call: Any
    by_value: bool
    folder: Path | None
    afresh: list[bool]


def made_of(
    function: Callable[..., Any], parts: Sequence[Callable[..., Any]], inline: bool
) -> Made:
    """Have numba make it; nothing is compiled yet."""
    import numba

    digest = digest_of(function, parts, inline)
    # Without _nrt nobody counts who holds an array, which costs more than what is inlined.
    options: dict[str, Any] = {"error_model": "numpy", "_nrt": not inline}
    own, by_value = _inlining() if inline else ({}, False)
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
    afresh = [False]
    kept_in = None
    with _configuring:
        named = config.CACHE_DIR
        folder = root()
        if folder:
            folder /= digest
            config.CACHE_DIR = str(folder)
            try:
                # numba finds no place to write to after all: RuntimeError.
                with suppress(RuntimeError, OSError):
                    made.enable_caching()
                    _forgive(made, afresh)
                    _once(made, folder)
                    kept_in = folder
            finally:
                config.CACHE_DIR = named
    return Made(made, by_value, kept_in, afresh)


def _inlining() -> tuple[dict[str, Any], bool]:
    """How numba puts a part inline, and whether it takes named tuples by value.

    Both rest on what numba does not promise to keep. Where it has moved, parts are compiled and
    records handed on as numba does it: the same machine code in effect, that takes longer to make.
    """
    try:
        from hetsim.base import records_by_reference  # noqa: F401
        from hetsim.base.unoptimised_parts import Part
    except (ImportError, AttributeError) as error:
        warn(
            f"this numba is unlike those that hetsim knows ({error}): the first runs of large "
            "simulations take longer, and give the same answers",
            RuntimeWarning,
            stacklevel=6,
        )
        return {"forceinline": True}, True
    return {"forceinline": True, "pipeline_class": Part}, False


def _once(made: Any, folder: Path) -> None:
    """Let one process make what several need: the others wait, and find it kept."""
    compile_now = made.compile

    def compiled(signature: Any) -> Any:
        with alone(folder):
            return compile_now(signature)

    made.compile = compiled


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder of functions, alone among processes and threads; again within is as well.

    Who holds the folder has numba's own lock, so that no two threads wait for each other.
    """
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        if folder in _holding:
            yield
            return
        _holding.add(folder)
        try:
            with one_at_a_time(folder):
                yield
        finally:
            _holding.discard(folder)


def _forgive(made: Any, afresh: Sequence[bool]) -> None:
    """Let a cache that is damaged, or cannot be written when it comes to that, be no error.

    It is not read while `afresh` says so.
    """
    cache = made._cache
    load, save = cache.load_overload, cache.save_overload

    def loaded(*arguments: Any) -> Any:
        if afresh[0]:
            return None
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
