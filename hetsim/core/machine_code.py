"""Machine code of functions on arrays, compiled by numba once and cached per user."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from warnings import warn

from hetsim.core import deadline
from hetsim.core.files import private_folder

NAME = "machine-code"


def folder_of(digest: str) -> Path | None:
    """Return the cache folder of a function's machine code; None if it cannot be created.

    It lies in ``NUMBA_CACHE_DIR`` if that is set, or else in ``files.private_folder``; its name is
    ``digest_of`` the function.
    """
    named = _named()
    if not named:
        return private_folder(NAME, digest)
    folder = Path(named) / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def digest_of(
    function: Callable[..., Any], *parts: Callable[..., Any], inline: bool = False
) -> str:
    """Return 16 hex digits of all that machine code depends on and numba does not compare.

    numba compares types, its own version, the processor and the file of the outermost function, but
    neither functions and constants of other files nor the fields of named tuples, which are found
    by position, nor the layout that ``records`` reads.
    """
    text = repr((inline, [(_contents(one.__code__), _globals(one)) for one in (function, *parts)]))
    extensions = Path(__file__).with_name("records.py").read_bytes() if inline else b""
    return hashlib.sha256(text.encode() + extensions).hexdigest()[:16]


def _named() -> str:
    """Cache folder that the user has set for numba, or an empty text."""
    loaded: Any = sys.modules.get("numba")
    return os.environ.get("NUMBA_CACHE_DIR", "") if loaded is None else loaded.config.CACHE_DIR


def _contents(code: CodeType) -> tuple[Any, ...]:
    """Byte code, names and constants of a function, and of the functions inside it."""
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


_making = threading.RLock()


def machine_code(
    function: Callable[..., Any],
    *parts: Callable[..., Any],
    inline: bool = False,
    forced: bool = True,
) -> Compiled:
    """Return `function`, within the subset of Python that numba compiles, as machine code.

    numba is loaded at the first call, and compiles the function for the types of the arguments
    unless that is cached.

    `parts` are functions that it or other parts call, by their own names, each after those that it
    calls; a part replaces whatever else has its name. `inline` puts the parts' code wherever they
    are called, which pays if they are small and called often; such a function and its parts make no
    arrays, and take named tuples by reference (``records``), of which arrays are read and written
    element by element. Unless `forced`, LLVM decides what to inline: the largest functions are
    compiled in a third of the time. A function without parts that makes no arrays compiles faster
    with `inline`, too.

    Division follows numpy: by zero it gives infinity or NaN. Machine code is cached in a folder of
    the user's own, never next to the package, where others may write; without such a folder every
    process compiles it again. Of processes that need the same function at once, one compiles it.
    """
    return Compiled(function, parts, inline, forced)


class Compiled:
    """Machine code of a function, for arguments of any types that numba accepts."""

    def __init__(
        self,
        function: Callable[..., Any],
        parts: Sequence[Callable[..., Any]],
        inline: bool,
        forced: bool,
    ) -> None:
        self._of = function, tuple(parts), inline
        self._part_options: dict[str, Any] = {"forceinline": True} if inline and forced else {}
        self._made: Any = None
        self._given: Callable[[tuple[Any, ...]], Sequence[Any]] = tuple

    @property
    def found(self) -> int:
        """Number of argument types whose machine code was found in the cache."""
        return 0 if self._made is None else sum(self._made.stats.cache_hits.values())

    @property
    def plain(self) -> Callable[..., Any]:
        """Uncompiled Python function."""
        return self._of[0]

    @property
    def loaded(self) -> bool:
        """Whether this process has called the function."""
        return self._made is not None

    @property
    def kept(self) -> bool:
        """Whether the machine code is most likely cached on disk; numba is not loaded for that.

        Code of another version of numba, or for another processor, counts, though it is made again.
        Code of another copy of the file, or older than the file, does not.
        """
        function, parts, inline = self._of
        folder = folder_of(digest_of(function, *parts, inline=inline))
        if folder is None:
            return False
        # numba names a folder so by the source's, and compares when that was written.
        source = Path(os.path.abspath(function.__code__.co_filename))
        digest = hashlib.sha1(str(source.parent).encode(), usedforsecurity=False).hexdigest()
        place = folder / f"{source.parent.name}_{digest}"
        with suppress(OSError):
            written = source.stat().st_mtime
            return any(index.stat().st_mtime >= written for index in place.glob("*.nbi"))
        return False

    def __call__(self, *arguments: Any) -> Any:
        """Call the function; the first call with new argument types loads or compiles it."""
        if self._made is None:
            with _making:
                if self._made is None:
                    self._load()
        return self._made(*self._given(arguments))

    def _load(self) -> None:
        function, parts, inline = self._of
        part_options = dict(self._part_options)
        whole: dict[str, Any] = {}
        if inline:
            try:
                from hetsim.core.records import InlinedCompiler, InliningCompiler, RecordConverter
            except (ImportError, AttributeError) as error:
                warn(
                    f"hetsim does not know this version of numba ({error}): the first runs of "
                    "large simulations take longer; results are the same",
                    RuntimeWarning,
                    stacklevel=3,
                )
            else:
                part_options["pipeline_class"] = InlinedCompiler
                whole["pipeline_class"] = InliningCompiler
                self._given = RecordConverter().given
        digest = digest_of(function, *parts, inline=inline)
        made = _dispatcher(function, parts, inline, part_options, whole, digest)
        folder = folder_of(digest)
        if folder is not None:
            _keep(made, folder)
        self._made = made


def _dispatcher(
    function: Callable[..., Any],
    parts: Sequence[Callable[..., Any]],
    inline: bool,
    part_options: dict[str, Any],
    whole: dict[str, Any],
    digest: str,
) -> Any:
    """Return numba's dispatcher of `function`; nothing is compiled yet."""
    numba = _numba()

    # Without _nrt nobody counts who holds an array, which costs more than what is inlined.
    options: dict[str, Any] = {"error_model": "numpy", "_nrt": not inline}
    # Wrappers are for calls from Python and C.
    part_options = {
        **options, **part_options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True
    }  # fmt: skip
    linked: dict[str, Any] = {}
    for part in parts:
        linked[part.__name__] = numba.njit(**part_options)(_with(part, linked, digest))
        _compile_once(linked[part.__name__])
    return numba.njit(**options, **whole)(_with(function, linked, digest))


def _numba() -> Any:
    """Return numba, imported without scipy's linear algebra until that is called."""
    import numba

    with suppress(ImportError, AttributeError):
        from numba.np import linalg

        found, linalg.ensure_blas = linalg.ensure_blas, lambda: None
        try:
            import numba.np.arraymath
        finally:
            linalg.ensure_blas = found
    return numba


def _compile_once(part: Any) -> None:
    """Make calls with a constant run the code for any number, instead of compiling a copy."""
    from numba import types

    found = part.get_call_template

    def template(args: Any, kws: dict[str, Any]) -> Any:
        return found(tuple(map(types.unliteral, args)), kws)

    part.get_call_template = template


def _with(function: Callable[..., Any], parts: dict[str, Any], digest: str) -> FunctionType:
    """Return a function that calls `parts` by their names, with `digest` in its own.

    numba distinguishes the symbols of one function compiled twice by a count, which starts again in
    each process. Of two cached under one symbol, the second would run the first.
    """
    scope = {**function.__globals__, **parts}
    made = FunctionType(function.__code__, scope, function.__name__)
    made.__qualname__ = f"{function.__qualname__}_{digest}"
    return made


def _keep(made: Any, folder: Path) -> None:
    """Make numba cache machine code in `folder`; damaged files there are made again."""
    import numba

    config: Any = numba.config
    named, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        made.enable_caching()
    except (RuntimeError, OSError):  # numba finds no place to write to after all
        return
    finally:
        config.CACHE_DIR = named
    compile_now, place = made.compile, Path(made.stats.cache_path)

    def compiled(signature: Any) -> Any:
        with _making, _alone(folder), deadline.stopped():
            for _ in range(2):
                try:
                    return compile_now(signature)
                except Exception:
                    # Damaged files raise anything. Where the disk is full the function is there
                    # by now, and the next call returns it.
                    shutil.rmtree(place, ignore_errors=True)
                    with suppress(OSError):
                        place.mkdir()
            return compile_now(signature)

    made.compile = compiled


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a folder; other processes that compile the same function wait, and then find it."""
    held = -1
    try:
        with suppress(ImportError, OSError):
            import fcntl

            held = os.open(folder, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        if held >= 0:
            os.close(held)
