"""Errors as they go over a channel: their class and what they say, and no code."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import hetsim.errors
from hetsim.errors import ExecutionError


def tell_error(error: ExecutionError) -> bytes:
    """Return an error in JSON: the nearest of hetsim's own classes, and its fields."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == hetsim.errors.__name__)
    names = [entry.name for entry in fields(kind) if entry.name != "key"]
    known = {name: _plain(getattr(error, name)) for name in names}
    return json.dumps([kind.__name__, known]).encode()


def error_of(told: bytes | memoryview) -> ExecutionError:
    """Return the error that is told."""
    name, known = json.loads(bytes(told))
    kind: Any = getattr(hetsim.errors, name, ExecutionError)
    if not (isinstance(kind, type) and issubclass(kind, ExecutionError)):
        kind = ExecutionError
    given = {n: tuple(value) if isinstance(value, list) else value for n, value in known.items()}
    found: ExecutionError = kind(given.pop("what"), **given)
    return found


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return str(value)
