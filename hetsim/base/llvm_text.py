"""LLVM's text of what numba made: a function with what it calls, and an entry to it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from hetsim.base.words import ERROR, FIRST, REAL, TRUTH, WHOLE, Kinds

ENTRY = "hetsim_entry"

_INTRINSICS = frozenset({
    "abs", "assume", "bswap", "ctlz", "ctpop", "cttz", "experimental", "fmuladd", "fshl", "fshr",
    "is", "lifetime", "masked", "maxnum", "minnum", "sadd", "smax", "smin", "smul", "ssub",
    "stepvector", "uadd", "umax", "umin", "umul", "usub", "vector",
})  # fmt: skip
"""First words of LLVM's own functions that are instructions, whatever the processor."""

_LIBRARY = frozenset({
    "ceil", "copysign", "exp", "exp2", "fabs", "floor", "fma", "fmod", "log", "log10", "log1p",
    "log2", "memcpy", "memmove", "memset", "pow", "rint", "round", "sqrt", "trunc",
})  # fmt: skip
"""Functions of C that code may call, or LLVM may put in place of its own."""


def entry_of(name: str, types: Sequence[str], kinds: Kinds) -> str | None:
    """The function that takes a table of words, as LLVM's text; None where types are others.

    `types` are those of the function that numba made: where it puts its result and an error, and
    then the arguments, an array as seven numbers, or two more for each further dimension.
    """
    lines: list[str] = []
    given: list[str] = []
    word = FIRST

    def load(what: str) -> str:
        nonlocal word
        at, value = f"%p{word}", f"%w{word}"
        lines.append(f"{at} = getelementptr i64, ptr %words, i64 {word}")
        lines.append(f"{value} = load {what}, ptr {at}")
        word += 1
        return f"{what} {value}"

    for kind in kinds:
        if kind == WHOLE:
            given.append(load("i64"))
        elif kind == REAL:
            given.append(load("double"))
        elif kind == TRUTH:
            given.append(load("i8"))
        elif isinstance(kind, tuple) and isinstance(kind[0], np.dtype):
            data, sizes = load("ptr"), [load("i64") for _ in range(kind[1])]
            strides = [f"i64 {kind[0].itemsize}"]
            for at, size in enumerate(reversed(sizes)):
                bytes_ = f"%b{word}_{at}"
                lines.append(f"{bytes_} = mul {strides[-1]}, {size.split()[1]}")
                strides.append(f"i64 {bytes_}")
            count = f"%n{word}"
            lines.append(f"{count} = sdiv {strides.pop()}, {kind[0].itemsize}")
            given += ["ptr null", "ptr null", f"i64 {count}", f"i64 {kind[0].itemsize}", data]
            given += [*sizes, *reversed(strides)]
        else:
            given.append(load("ptr"))
    if types != ["ptr", "ptr", *(one.split()[0] for one in given)]:
        return None
    lines.append(f"%error = getelementptr i64, ptr %words, i64 {ERROR}")
    arguments = ", ".join(("ptr %words", "ptr %error", *given))
    lines.append(f'%status = call i32 @"{name}"({arguments})')
    body = "\n".join(lines)
    return f"define i32 @{ENTRY}(ptr %words) {{\n{body}\nret i32 %status\n}}\n"


def with_callees(text: str, name: str) -> tuple[str, set[str]] | None:
    """LLVM's text of a module with a function and those that it calls, and the C that it needs.

    None where it calls what is neither there, nor of C.
    """
    text = _DEFINED.sub(_without_counting, text)
    bodies = {_name_of(found[0]): found[0] for found in _DEFINED.finditer(text)}
    kept: set[str] = set()
    called: set[str] = set()
    pending = [name]
    while pending:
        one = pending.pop()
        if one in kept:
            continue
        kept.add(one)
        for found in _NAMED.finditer(bodies[one].partition("\n")[2]):
            other = found[1] or found[2]
            if other in bodies:
                pending.append(other)
            else:
                called.add(other)
    needs: set[str] = set()
    declared = {_name_of(found[0]) for found in _DECLARED.finditer(text)}
    for one in called & declared:
        own = one.removeprefix("llvm.").split(".")[0]
        if own in _LIBRARY:
            needs.add(own)
        elif not (one.startswith("llvm.") and own in _INTRINSICS):
            return None
    inner = "".join(bodies[one] for one in bodies if one in kept)
    if " frem " in inner:
        needs.add("fmod")

    def own_body(found: re.Match[str]) -> str:
        return found[0] if _name_of(found[0]) in kept else ""

    return _DEFINED.sub(own_body, text), needs


def _without_counting(found: re.Match[str]) -> str:
    name = _name_of(found[0])
    if name not in _COUNTING:
        return found[0]
    return f"define internal void @{name}(ptr %0) {{\nret void\n}}\n"


_COUNTING = frozenset({"NRT_incref", "NRT_decref"})
"""Who count the holders of arrays: what is given has no owner, and nothing is made."""

_DEFINED = re.compile(r"^define .*?^}\n", re.MULTILINE | re.DOTALL)
_DECLARED = re.compile(r"^declare .*$", re.MULTILINE)
_NAMED = re.compile(r'@(?:"([^"]+)"|([\w.$-]+))')


def _name_of(text: str) -> str:
    found = _NAMED.search(text)
    return "" if found is None else found[1] or found[2]
