"""Options as fields of dataclasses: their types, and conversion of values and texts to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hetsim.core.checks import shown
from hetsim.errors import UsageError, nearest


def field_types(kind: Any) -> dict[str, Any]:
    """Return the type of each field, by name; empty if `kind` is not a dataclass."""
    if not is_dataclass(kind):
        return {}
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def checked(kind: Any, value: Any, name: str) -> Any:
    """Return a value as one of type `kind`. Raises UsageError for other values."""
    from pydantic import PydanticSchemaGenerationError, ValidationError

    try:
        return _reader(kind).validate_python(value)
    except PydanticSchemaGenerationError:
        # A plugin's own type, which nothing here knows.
        return value
    except ValidationError as error:
        first = error.errors()[0]
        if get_origin(kind) is Literal and isinstance(value, str):
            hint = nearest(value, get_args(kind))
            raise UsageError(f"no {name} '{value}'", hint=hint) from None
        at = "".join(f"[{shown(step)}]" for step in first["loc"])
        raise UsageError(
            f"option {name} is {shown(value)}: {first['msg'].lower()}",
            where=f"{name}{at}" if at else None,
        ) from None


@cache
def _reader(kind: Any) -> Any:
    from pydantic import ConfigDict, TypeAdapter

    if is_dataclass(kind):
        return TypeAdapter(kind)
    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))


def checked_fields(kind: type[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `options` that are fields of a dataclass; raises as ``checked``."""
    types = field_types(kind)
    return {key: checked(types[key], given, key) for key, given in options.items() if key in types}


def read(kind: Any, text: str, where: str) -> Any:
    """Read a text as a value of type `kind`. Raises UsageError for other texts."""
    from pydantic import ValidationError

    reader = _reader(kind)
    first: ValidationError | None = None
    parts = [part.strip() for part in text.split(",")]
    for attempt in (
        lambda: reader.validate_python(text),
        lambda: reader.validate_json(text),
        lambda: reader.validate_python(parts),
    ):
        try:
            return attempt()  # type: ignore[no-untyped-call]
        except ValidationError as error:
            first = first or error
    assert first is not None
    raise UsageError(f"'{text}': {first.errors()[0]['msg'].lower()}", where=where)


def read_fields(kind: type[Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Read texts as fields of a dataclass. Raises UsageError for a value of another type."""
    types = field_types(kind)
    return {key: read(types[key], text, f"option {key}") for key, text in texts.items()}
