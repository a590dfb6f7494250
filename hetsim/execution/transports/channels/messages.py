"""What the two ends of a device's channel say to each other, as bytes.

Numbers are in the order of bytes of this machine, which both ends are on. Places are flat: of each
its segment's number, then an offset. Values are told one after the other, see ``values``.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Sequence

CALL, FORGET, FREEZE, SEGMENTS, ENDED, FAILED, OTHER = range(7)
"""Kinds of frames. What others come, the owners of the ends know."""

_CALL_FORM = "=QqqQII"
_ENDED_FORM = "=QdII"
_ENDED_ENTRIES = 4
_CALL = struct.Struct(_CALL_FORM)
_FORGET = struct.Struct("=qq")
_ENDED = struct.Struct(_ENDED_FORM)
_FAILED = struct.Struct("=QI")


def pack_call(
    number: int,
    version: int,
    request: int,
    step: int,
    returned: Sequence[int],
    gone: Sequence[int],
    told: Sequence[bytes],
) -> bytes:
    """Return the header of a call.

    `number` is what its end names; `returned` are places of the device whose values nobody reads
    any more, `gone` segments that nobody has any more, `told` the values that it receives.
    """
    count, more = len(returned), len(gone)
    form = _call_form(count + more)
    head = form.pack(number, version, request, step, count, more, *returned, *gone)
    return b"".join((head, *told))


@functools.lru_cache(maxsize=1024)
def _call_form(numbers: int) -> struct.Struct:
    return struct.Struct(f"{_CALL_FORM}{numbers}Q")


Opened = tuple[int, int, int, int, tuple[int, ...], tuple[int, ...], int]


def unpack_call(header: bytes) -> Opened:
    """Return what ``pack_call`` was given; in place of the values, where the first begins."""
    number, version, request, step, count, more = _CALL.unpack_from(header)
    if not count + more:
        return number, version, request, step, (), (), _CALL.size
    numbers = _numbers(count + more).unpack_from(header, _CALL.size)
    after = _CALL.size + 8 * (count + more)
    return number, version, request, step, numbers[:count], numbers[count:], after


def pack_ended(
    number: int,
    arrived_s: float,
    parts: Sequence[tuple[float, float]],
    unread: Sequence[int],
    told: Sequence[bytes],
) -> bytes:
    """Return the header of a call's end: its timing, places that are not read here any more."""
    form = _ended_form(len(parts), len(unread))
    spans = itertools.chain.from_iterable(parts)
    head = form.pack(number, arrived_s, len(parts), len(unread), *spans, *unread)
    return b"".join((head, *told))


def unpack_ended(
    header: bytes,
) -> tuple[int, float, tuple[tuple[float, float], ...], tuple[int, ...], int]:
    """Return what ``pack_ended`` was given; in place of the values, where the first begins."""
    number, arrived_s, parts, count = _ENDED.unpack_from(header)
    form = _ended_form(parts, count)
    all_of_it = form.unpack_from(header)
    unread = _ENDED_ENTRIES + 2 * parts
    begins, ends = all_of_it[_ENDED_ENTRIES:unread:2], all_of_it[_ENDED_ENTRIES + 1 : unread : 2]
    spans = tuple(zip(begins, ends, strict=True))
    return number, arrived_s, spans, all_of_it[unread:], form.size


@functools.lru_cache(maxsize=1024)
def _ended_form(parts: int, unread: int) -> struct.Struct:
    return struct.Struct(f"{_ENDED_FORM}{2 * parts}d{unread}Q")


def pack_failed(number: int, unread: Sequence[int]) -> bytes:
    """Return the header of a call that failed; its error is the payload."""
    return _FAILED.pack(number, len(unread)) + pack_numbers(unread)


def unpack_failed(header: bytes) -> tuple[int, tuple[int, ...]]:
    """Return what ``pack_failed`` was given."""
    number, count = _FAILED.unpack_from(header)
    return number, _numbers(count).unpack_from(header, _FAILED.size)


def pack_forget(version: int, request: int) -> bytes:
    """Return the header that says of which request nothing is to be held."""
    return _FORGET.pack(version, request)


def unpack_forget(header: bytes) -> tuple[int, int]:
    """Return what ``pack_forget`` was given."""
    version, request = _FORGET.unpack(header)
    return version, request


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Return so many whole numbers."""
    return _numbers(len(numbers)).pack(*numbers) if numbers else b""


def unpack_numbers(content: bytes) -> tuple[int, ...]:
    """Return all of ``pack_numbers``."""
    return _numbers(len(content) // 8).unpack(content)


@functools.lru_cache(maxsize=1024)
def _numbers(count: int) -> struct.Struct:
    return struct.Struct(f"={count}Q")
