"""Attributes of a node as plain Python values; large lists only when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx

LARGE_BYTES = 65536
"""From here on a list stays as the file has it: Python takes ten times that for its numbers."""

_INT, _FLOAT, _STRING, _INTS, _FLOATS, _STRINGS = (
    int(onnx.AttributeProto.AttributeType.Value(name))
    for name in ("INT", "FLOAT", "STRING", "INTS", "FLOATS", "STRINGS")
)
_LISTS = frozenset({_INTS, _FLOATS, _STRINGS})


class Attributes(Mapping[str, object]):
    """The attributes of one node by name: int, float, str, tuples of them.

    Tensors, sparse tensors and graph bodies are left out. Large lists are read each time that
    they are asked for, in O(length).
    """

    __slots__ = ("_large", "_small")

    def __init__(self, node: onnx.NodeProto) -> None:
        self._small: dict[str, object] = {}
        self._large: dict[str, onnx.AttributeProto] = {}
        for attribute in node.attribute:
            if is_large(attribute):
                self._large[attribute.name] = attribute
                continue
            value = _plain(attribute)
            if value is not None:
                self._small[attribute.name] = value

    def __getitem__(self, name: str) -> object:
        if name in self._small:
            return self._small[name]
        return _plain(self._large[name])

    def __iter__(self) -> Iterator[str]:
        yield from self._small
        yield from self._large

    def __len__(self) -> int:
        return len(self._small) + len(self._large)

    def __repr__(self) -> str:
        return f"Attributes({self._small!r}, large={sorted(self._large)!r})"


def is_large(attribute: onnx.AttributeProto) -> bool:
    """Whether it is a list of numbers or texts that is better left where it is."""
    return attribute.type in _LISTS and (
        max(len(attribute.ints), len(attribute.floats), len(attribute.strings)) * 8 > LARGE_BYTES
    )


def _plain(attribute: onnx.AttributeProto) -> Any:
    kind = attribute.type
    if kind == _INT:
        return attribute.i
    if kind == _FLOAT:
        return attribute.f
    if kind == _STRING:
        return _text(attribute.s)
    if kind == _INTS:
        return tuple(attribute.ints)
    if kind == _FLOATS:
        return tuple(attribute.floats)
    if kind == _STRINGS:
        # Modes of tree nodes are few words, millions of times.
        known: dict[bytes, str] = {}
        return tuple(
            known[text] if text in known else known.setdefault(text, _text(text))
            for text in attribute.strings
        )
    return None


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="replace")
