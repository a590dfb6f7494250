"""What pydantic refuses, said in the words and on the line of the user's file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hetsim.errors import InvalidInput, PlatformError, nearest
from hetsim.hardware.files.figures import FIGURE_HINT, Refusal
from hetsim.hardware.files.yaml_source import Complaint, Source, YamlPath, read_yaml

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


def parse_file(model: type[M], source: Source) -> M:
    """Read the whole of `source` as a `model`. Raises what `source` does where it is none."""
    parsed, complaints = parse(model, source, source.data)
    source.refuse(complaints)
    if parsed is None:
        raise AssertionError("pydantic refused a description without saying why")
    return parsed


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that cannot be used.

    Attributes
    ----------
    whole : InvalidInput
        Its first complaint, with the lines of the rest.
    each : tuple of InvalidInput
        One for each complaint, by line.
    """

    whole: InvalidInput
    each: tuple[InvalidInput, ...]


def broken(source: Source, complaints: Iterable[Complaint]) -> Broken | None:
    """Return what `complaints` make of the file, or None where there is none."""
    ordered = sorted(set(complaints))
    try:
        source.refuse(ordered)
    except InvalidInput as whole:
        each = tuple(
            source.kind(item.what, where=f"{source.shown}:{item.line}", hint=item.hint or None)
            for item in ordered
        )
        return Broken(whole, each)
    return None


def read_file(
    model: type[M], path: Path, shown: str, *, catalog: bool = False
) -> tuple[M | None, Broken | None]:
    """Read the file at `path` as a `model`: return it, or what is wrong with the file."""
    try:
        source = read_yaml(path, shown)
    except PlatformError as error:
        return None, Broken(error, (error,))
    parsed, complaints = parse(model, source, source.data, catalog=catalog)
    return parsed, broken(source, complaints)


def _complaints(
    model: type[BaseModel], source: Source, at: YamlPath, details: Sequence[ErrorDetails]
) -> list[Complaint]:
    # A wrong entry does not count to pydantic; that the rest is too short then says nothing.
    wrong_below = {detail["loc"][:end] for detail in details for end in range(len(detail["loc"]))}
    found = [
        (detail, _complaints_of(model, source, at, detail))
        for detail in details
        if detail["type"] != "too_short" or detail["loc"] not in wrong_below
    ]
    # A misspelt key is missing under its right name too: say it once.
    misspelt = {
        (detail["loc"][:-1], complaint.hint)
        for detail, complaints in found
        for complaint in complaints
        if detail["type"] == "extra_forbidden"
    }
    return [
        complaint
        for detail, complaints in found
        for complaint in complaints
        if detail["type"] not in ("missing", "hetsim_missing")
        or (detail["loc"][:-1], f"did you mean '{detail['loc'][-1]}'?") not in misspelt
    ]


def _complaints_of(
    model: type[BaseModel], source: Source, at: YamlPath, detail: ErrorDetails
) -> list[Complaint]:
    """Return what one error of pydantic's stands for: one of our own may stand for several."""
    # A wrong key of a mapping is reported under a part of its own, "[key]".
    loc: YamlPath = tuple(part for part in detail["loc"] if part != "[key]")
    if detail["type"] not in ("hetsim", "hetsim_missing"):
        return [_complaint(model, source, at, loc, detail)]
    found: Sequence[Refusal] = detail["ctx"]["found"]
    complaints: list[Complaint] = []
    for what, hint, below in found:
        if what.startswith("KEY "):
            what = f"'{_dotted((*at, *loc, *below))}'{what.removeprefix('KEY')}"
        complaints.append(Complaint(_line(source, at, (*loc, *below)), what, hint))
    return complaints


def _complaint(
    model: type[BaseModel], source: Source, at: YamlPath, loc: YamlPath, detail: ErrorDetails
) -> Complaint:
    kind, context = detail["type"], detail.get("ctx", {})
    shown = _dotted((*at, *loc))
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
    "less_than": ("be below {lt:g}", ""),
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
