"""Functions on arrays as machine code, which is kept twice (``code_folder``).

As numba keeps what it makes (``made_by_numba``), and as object code that is called without numba
(``object_code``), which takes half a second to load.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hetsim.base import object_code
from hetsim.base.code_folder import LEFT, OBJECT, root, stem_of
from hetsim.base.made_by_numba import Made, alone, made_of
from hetsim.base.object_code import ObjectCode
from hetsim.base.records import Records
from hetsim.base.words import Kinds, laid_out, told_of


def machine_code(
    function: Callable[..., Any], *parts: Callable[..., Any], inline: bool = False
) -> Compiled:
    """Return `function`, of the subset of Python that numba knows, as machine code.

    numba compiles it at the first call with arguments of their types, where it is not kept; then
    what it compiled is called without numba, in this process and in others, where ``object_code``
    can.

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
    return Compiled(function, parts, inline)


class Compiled:
    """A function as machine code, for arguments of any kinds that numba takes."""

    def __init__(
        self, function: Callable[..., Any], parts: Sequence[Callable[..., Any]], inline: bool
    ) -> None:
        self._of = function, tuple(parts), inline
        self._records = Records() if inline else None
        self._loaded: dict[Kinds, ObjectCode | None] = {}
        self._found = 0
        self._made: Made | None = None
        self._making = threading.RLock()

    @property
    def found(self) -> int:
        """For how many kinds of arguments its machine code was kept."""
        stats = None if self._made is None else self._made.call.stats
        return self._found + (0 if stats is None else sum(stats.cache_hits.values()))

    def __call__(self, *arguments: Any) -> Any:
        """Call it. The first call with arguments of their kinds loads or makes it."""
        given = arguments if self._records is None else self._records.given(arguments)
        laid = laid_out(given)
        if laid is None:
            return self._call(arguments, given)
        kinds, words = laid
        if kinds not in self._loaded:
            with self._making:
                if kinds not in self._loaded:
                    self._loaded[kinds] = self._object(kinds, given)
        code = self._loaded[kinds]
        return self._call(arguments, given) if code is None else code(words)

    def _object(self, kinds: Kinds, given: Sequence[Any]) -> ObjectCode | None:
        """Object code for `kinds`: what is kept, or what numba makes now; None where it cannot."""
        if not object_code.is_allowed():
            return None
        folder = root()
        if folder is None:
            return None
        told = hashlib.sha256(told_of(kinds).encode()).hexdigest()[:16]
        path = folder / f"{stem_of(*self._of)}-{told}{OBJECT}"
        if (kept := self._kept(path)) is not None:
            return kept
        left, made = path.with_suffix(LEFT), self._by_numba()
        if left.exists() or made.by_value or made.folder is None:
            return None
        from numba import typeof

        signature = tuple(map(typeof, given))
        with alone(made.folder):
            # Another process may have made it while this one waited.
            if (kept := self._kept(path)) is not None:
                return kept
            if left.exists():
                return None
            made.afresh[0] = True
            try:
                made.call.compile(signature)
            finally:
                made.afresh[0] = False
            # Without room on the disk it is numba's this time.
            with suppress(OSError):
                if object_code.store(path, made.call.overloads[signature], kinds):
                    return object_code.load(path)
                left.touch()
        return None

    def _kept(self, path: Path) -> ObjectCode | None:
        kept = object_code.load(path)
        self._found += kept is not None
        return kept

    def _call(self, arguments: Sequence[Any], given: Sequence[Any]) -> Any:
        made = self._by_numba()
        return made.call(*(arguments if made.by_value else given))

    def _by_numba(self) -> Made:
        with self._making:
            if self._made is None:
                self._made = made_of(*self._of)
            return self._made
