"""What kind of reason a refusal is: the texts of ``rules`` and ``executed``, read again."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Literal

Kind = Literal["op", "attribute", "opset", "type", "shape", "rank", "size", "lone", "other"]
"""The op itself, or one inside of it; an attribute's value; the operator set; the element type of a
tensor; a shape that depends on data; too many dimensions; too many bytes; nothing that computes is
joined to it there; or what a device of another package says."""

_JOINTS = re.compile(r"; (?=taken only as a part of |no match of ')")
"""Where ``rules`` adds to a reason; names of tensors may have semicolons, too."""

_NO_MATCH = re.compile(r"no match of ('.*?'): (.*)", re.DOTALL)
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("lone", re.compile(r"^no node that computes is joined to it there$")),
    ("type", re.compile(r"^op .* has no integer kernel, and it computes no floats")),
    ("op", re.compile(r"^op ")),
    ("attribute", re.compile(r"^attribute (?>.*? of )(?>.*? \(it takes ).*\)")),
    ("opset", re.compile(r"^operator set \d+ \(it takes ")),
    ("shape", re.compile(r"^dynamic shape of tensor ")),
    ("rank", re.compile(r"^rank \d+ of tensor ")),
    ("size", re.compile(r"^\S+ \S+ of tensor '.*' \(it takes ")),
    ("type", re.compile(r"^\S+ tensor '")),
)
_NAMED_VALUE = re.compile(r"\b(tensor|value) '([^']*)'")


def cause_of(reason: str) -> tuple[Kind, str]:
    """Return what kind of reason it is, and its words.

    Of an op in a pattern that did not match, those of the pattern: what keeps the device from
    taking all of it.

    >>> cause_of("op LRN")
    ('op', 'op LRN')
    >>> cause_of("op Erf; no match of 'gelu': float64 tensor 'x'")
    ('type', "pattern 'gelu': float64 tensor 'x'")
    """
    own, *more = _JOINTS.split(reason)
    missed = next(filter(None, map(_NO_MATCH.match, more)), None)
    text = missed[2] if missed else own
    for kind, words in _KINDS:
        if words.search(text):
            return kind, text if missed is None else f"pattern {missed[1]}: {text}"
    return "other", own if missed is None else f"pattern {missed[1]}: {text}"


def without_values(tensors: Container[str], reason: str) -> str:
    """Return `reason` without the names of `tensors`, so that equal reasons read the same."""

    def shorter(found: re.Match[str]) -> str:
        return found[1] if found[2] in tensors else found[0]

    return _NAMED_VALUE.sub(shorter, reason)
