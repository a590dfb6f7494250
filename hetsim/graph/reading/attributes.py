"""Attributes of a node as plain Python values; large lists only when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

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

    def large(self, name: str) -> onnx.AttributeProto | None:
        """The list of that name as the file has it, where it is large."""
        return self._large.get(name)

    def __iter__(self) -> Iterator[str]:
        yield from self._small
        yield from self._large

    def __len__(self) -> int:
        return len(self._small) + len(self._large)

    def __repr__(self) -> str:
        return f"Attributes({self._small!r}, large={sorted(self._large)!r})"


def ints_of(attributes: Mapping[str, object], name: str) -> NDArray[np.int64]:
    """Integers of a list as an array, without a tuple of a large one; empty where there is none."""
    large = attributes.large(name) if isinstance(attributes, Attributes) else None
    if large is None:
        return np.asarray(attributes.get(name, ()), np.int64)
    return np.fromiter(large.ints, np.int64, len(large.ints))


def are(attributes: Mapping[str, object], name: str, wanted: str) -> NDArray[np.bool_]:
    """Which texts of a list are `wanted`, as `ints_of` gives integers."""
    large = attributes.large(name) if isinstance(attributes, Attributes) else None
    sought = wanted.encode()
    texts: Any = attributes.get(name, ()) if large is None else large.strings
    return np.fromiter((text in (wanted, sought) for text in texts), np.bool_, len(texts))


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
