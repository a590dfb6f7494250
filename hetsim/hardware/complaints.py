"""What pydantic refuses, said in the words and on the line of the user's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hetsim.errors import nearest
from hetsim.hardware.figures import FIGURE_HINT
from hetsim.hardware.yaml_source import Complaint, Source, YamlPath

M = TypeVar("M", bound=BaseModel)


def parse(
    model: type[M], source: Source, data: Any, *, at: YamlPath = (), catalog: bool = False
) -> tuple[M | None, list[Complaint]]:
    """Read `data`, which stands at the path `at` of `source`, as a `model`.

    Parameters
    ----------
    catalog : bool
        Whether every figure must carry its status and source.

    Returns
    -------
    The model, or None and everything that is wrong with it.
    """
    try:
        return model.model_validate(data, context={"catalog": catalog}), []
    except ValidationError as error:
        return None, _complaints(model, source, at, error.errors(include_url=False))


def parse_file(model: type[M], source: Source, *, catalog: bool = False) -> M:
    """Read the whole of `source` as a `model`. Raises PlatformError where it is none."""
    parsed, complaints = parse(model, source, source.data, catalog=catalog)
    source.refuse(complaints)
    if parsed is None:
        raise AssertionError("pydantic refused a description without saying why")
    return parsed


def _complaints(
    model: type[BaseModel], source: Source, at: YamlPath, details: Sequence[ErrorDetails]
) -> list[Complaint]:
    found = [(detail, _complaint(model, source, at, detail)) for detail in details]
    # A misspelt key is missing under its right name too: say it once.
    misspelt = {
        (detail["loc"][:-1], complaint.hint)
        for detail, complaint in found
        if detail["type"] == "extra_forbidden"
    }
    return [
        complaint
        for detail, complaint in found
        if detail["type"] != "missing"
        or (detail["loc"][:-1], f"did you mean '{detail['loc'][-1]}'?") not in misspelt
    ]


def _complaint(
    model: type[BaseModel], source: Source, at: YamlPath, detail: ErrorDetails
) -> Complaint:
    # A wrong key of a mapping is reported under a part of its own, "[key]".
    loc: YamlPath = tuple(part for part in detail["loc"] if part != "[key]")
    kind, context = detail["type"], detail.get("ctx", {})
    shown = _dotted((*at, *loc))
    if kind == "hetsim":
        what = str(context["what"])
        if what.startswith("KEY "):
            what = f"'{shown}'{what.removeprefix('KEY')}"
        place = (*loc, *context["at"])
        return Complaint(_line(source, at, place), what, str(context["hint"]))
    line = _line(source, at, loc)
    if kind == "extra_forbidden":
        key = str(loc[-1])
        return Complaint(line, f"unknown key '{key}'", nearest(key, _keys(model, loc[:-1])))
    if kind == "missing":
        if loc[-1] in ("value", "status", "source"):
            return Complaint(line, f"'{_dotted((*at, *loc[:-1]))}' has no {loc[-1]}", FIGURE_HINT)
        return Complaint(line, f"missing key '{shown}'", f"add '{loc[-1]}: ...'")
    given = _display(detail["input"])
    if kind in ("too_short", "too_long"):
        given = str(context["actual_length"])
    if kind not in _WANTED:
        return Complaint(line, f"'{shown}' is {given}: {detail['msg']}")
    wanted, hint = _WANTED[kind]
    return Complaint(line, f"'{shown}' must {wanted.format_map(context)}, not {given}", hint)


_MAPPING = ("be a mapping", "write 'key: value' lines under it")
_WANTED: Mapping[str, tuple[str, str]] = {
    "float_type": ("be a number", "the unit is in the key"),
    "int_type": ("be a whole number", ""),
    "string_type": ("be text", ""),
    "string_too_short": ("be text that says something", ""),
    "bool_type": ("be true or false", ""),
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "tuple_type": ("be a list", "write [a, b], or '- item' lines under it"),
    "too_short": ("have {min_length} or more entries", ""),
    "finite_number": ("be finite", ""),
    "greater_than": ("be above {gt:g}", ""),
    "greater_than_equal": ("be {ge:g} or more", ""),
    "less_than_equal": ("be {le:g} at most", ""),
}
"""What a figure must do and what helps, by pydantic's name of the error; {x} is of its context."""


def _line(source: Source, at: YamlPath, loc: YamlPath) -> int:
    """Line of `loc` below `at`, through the level that a table with one source has more."""
    path = at
    for part in loc:
        if (*path, part) not in source.lines and (*path, "value", part) in source.lines:
            path = (*path, "value")
        path = (*path, part)
    return source.line(path)


def _keys(model: type[BaseModel], loc: YamlPath) -> list[str]:
    """Return the keys that are known at `loc` below `model`."""
    annotation: Any = model
    for part in loc:
        inner = _model_in(annotation)
        if inner is not None:
            annotation = _fields(inner).get(str(part))
        else:
            # The values of a mapping and the items of a tuple stand last, but for "...".
            arguments = [arg for arg in get_args(_bare(annotation)) if arg is not ...]
            annotation = arguments[-1] if arguments else None
    inner = _model_in(annotation)
    return [] if inner is None else list(_fields(inner))


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _bare(annotation: Any) -> Any:
    """Return `annotation` without Annotated and without its None."""
    if hasattr(annotation, "__metadata__"):
        return _bare(annotation.__origin__)
    arguments = get_args(annotation)
    if type(None) in arguments:
        return _bare(next(arg for arg in arguments if arg is not type(None)))
    return annotation


def _model_in(annotation: Any) -> type[BaseModel] | None:
    bare = _bare(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, BaseModel) else None


def _dotted(loc: YamlPath) -> str:
    """Return `loc` as users write it: ``links[1].latency_us``; a figure's value is the figure."""
    text = ""
    for part in loc[:-1] if loc and loc[-1] == "value" else loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def _display(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value[:40]}'"
    if isinstance(value, Mapping):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return repr(value)[:40]
