"""Field types of files, and pydantic's errors as messages on the line of the user's file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic import GetCoreSchemaHandler as CoreHandler
from pydantic import GetJsonSchemaHandler as JsonHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from hetsim.errors import InvalidInput, PlatformError, nearest
from hetsim.graph.graph import ITEM_BITS
from hetsim.hardware.files.yaml_source import Complaint, YamlFile, YamlPath, read_yaml
from hetsim.hardware.kernel_figures import STATUSES
from hetsim.hardware.spec import OP_CLASSES

KINDS = ("cpu", "gpu", "npu", "dsp")
FIGURE_HINT = f"write {{value: NUMBER, status: {'|'.join(STATUSES)}, source: TEXT}}"
DTYPE_ABBREVIATIONS = {
    "fp64": "float64", "double": "float64", "fp32": "float32", "float": "float32",
    "fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp8": "float8e4m3fn",
}  # fmt: skip
"""What people write for the names of ONNX element types; used in hints alone."""

T = TypeVar("T")
Refusal = tuple[str, str, tuple[str, ...]]
"""What is wrong, what to do, and the keys below the validated value that lead to it."""


def refusal(what: str, hint: str = "", at: tuple[str, ...] = ()) -> PydanticCustomError:
    """Return the error that says `what`, `at` a path below the value; a leading KEY is its key."""
    return refusals([(what, hint, at)])


def refusals(found: Sequence[Refusal], kind: str = "hetsim") -> PydanticCustomError:
    """Return one error of pydantic's type `kind` that stands for all of `found`."""
    return PydanticCustomError(kind, "{first}", {"first": found[0][0], "found": tuple(found)})


@dataclass(frozen=True, slots=True)
class OneOf:
    """Choice of words; `meant_by` maps common misspellings to them, `listed_by` lists them."""

    noun: str
    choices: tuple[str, ...]
    meant_by: Mapping[str, str] = field(default_factory=dict, hash=False)
    listed_by: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: CoreHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: JsonHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "enum": list(self.choices)}

    def check(self, word: str) -> str:
        """Return `word`, or raise the error with the nearest choice."""
        if word not in self.choices:
            meant = self.meant_by.get(word, word)
            hint = nearest(meant, self.choices)
            hint += f" ('{self.listed_by}' lists all)" if self.listed_by else ""
            raise refusal(f"unknown {self.noun} '{word}'", hint)
        return word


@dataclass(frozen=True, slots=True)
class Matching:
    """Text that a regular expression matches as a whole.

    The expression means the same to Python and to JSON Schema: no escaped classes.
    """

    noun: str
    pattern: str
    hint: str

    def __get_pydantic_core_schema__(self, source: Any, handler: CoreHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: JsonHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$"}

    def check(self, text: str) -> str:
        """Return `text`, or raise the error that states the expected form."""
        if not re.fullmatch(self.pattern, text):
            raise refusal(f"'{text}' cannot be {self.noun}", self.hint)
        return text


Kind = Annotated[StrictStr, OneOf("kind", KINDS)]
Status = Annotated[StrictStr, OneOf("status", STATUSES)]
Dtype = Annotated[StrictStr, OneOf("dtype", tuple(ITEM_BITS), DTYPE_ABBREVIATIONS)]
OpClass = Annotated[StrictStr, OneOf("op class", ("default", *OP_CLASSES), {"convolution": "conv"})]
OpType = Annotated[
    StrictStr,
    Matching(
        "an op type",
        r"([A-Za-z_][A-Za-z0-9_.-]*:)?[A-Za-z_][A-Za-z0-9_]*",
        "write 'Conv', or 'com.microsoft:Gelu' outside the standard domain",
    ),
]
ForeignOp = Annotated[
    StrictStr,
    Matching(
        "an op type of another domain",
        r"[A-Za-z_][A-Za-z0-9_.-]*:[A-Za-z_][A-Za-z0-9_]*",
        "write 'com.microsoft:Gelu'; ONNX's own ops all are included except those of 'except'",
    ),
]
Name = Annotated[
    StrictStr,
    Matching("a name", r"[A-Za-z0-9][A-Za-z0-9_.-]*", "use letters, digits, '.', '-' and '_'"),
]
Text = Annotated[StrictStr, Field(min_length=1)]

LARGEST = 1e12
"""Of any figure in the unit of its key, so that it stays finite in SI units."""

Positive = Annotated[StrictFloat, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
NotNegative = Annotated[StrictFloat, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Number = Annotated[StrictFloat, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Fraction = Annotated[StrictFloat, Field(gt=0, le=1, allow_inf_nan=False)]
Count = Annotated[StrictInt, Field(ge=1, le=2**20)]
MOST_AT_ONCE = 1024
"""Of threads and streams, each of which is a thread of this machine in a run."""

AtOnce = Annotated[StrictInt, Field(ge=1, le=MOST_AT_ONCE)]


class Strict(BaseModel):
    """Frozen model that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Figure(Strict, Generic[T]):
    """Number with its status and source.

    A plain number is a figure of the user's own. In the catalog status and source must be
    written out, for the figures there are quoted to people who cannot ask.
    """

    value: T
    status: Status
    source: Text

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any, info: ValidationInfo) -> Any:
        in_catalog = bool(info.context and info.context.get("catalog"))
        if not isinstance(given, Mapping):
            if in_catalog and isinstance(given, int | float) and not isinstance(given, bool):
                raise refusal("KEY has no status and source", FIGURE_HINT)
            return {"value": given, "status": "estimate", "source": "user"}
        return given if in_catalog else {"status": "estimate", "source": "user", **given}

    @property
    def stated(self) -> tuple[str, str]:
        """Status and source of the figure."""
        return self.status, self.source

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: JsonHandler
    ) -> JsonSchemaValue:
        full = dict(handler.resolve_ref_schema(handler(schema)))
        number = full["properties"]["value"]
        return {"anyOf": [number, {**full, "required": ["value"], "description": FIGURE_HINT}]}


class PositiveFigure(Figure[Positive]):
    """Figure above 0."""


class NotNegativeFigure(Figure[NotNegative]):
    """Figure of 0 or more."""


class FractionFigure(Figure[Fraction]):
    """Figure above 0, of 1 at most."""


class AtOnceFigure(Figure[AtOnce]):
    """Figure of threads or streams."""


def spread(table: Any) -> Any:
    """Give each entry of ``{value: {a: 1, b: 2}, status, source}`` the status and source."""
    if not isinstance(table, Mapping) or not isinstance(table.get("value"), Mapping):
        return table
    shared = {key: entry for key, entry in table.items() if key != "value"}
    return {
        key: {**shared, **(entry if isinstance(entry, Mapping) else {"value": entry})}
        for key, entry in table["value"].items()
    }


@dataclass(frozen=True, slots=True)
class Table:
    """Mapping of figures, also with one status and source for all.

    - `needs`: keys that must be there, and what to do where one is not.
    """

    needs: Mapping[str, str] = field(default_factory=dict)

    def __get_pydantic_core_schema__(self, source: Any, handler: CoreHandler) -> CoreSchema:
        table = core_schema.no_info_before_validator_function(spread, handler(source))
        return core_schema.no_info_after_validator_function(self.check, table)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: JsonHandler
    ) -> JsonSchemaValue:
        table = dict(handler(schema))
        if self.needs:
            table["required"] = list(self.needs)
        shared = {
            "value": table,
            "status": {"type": "string", "enum": list(STATUSES)},
            "source": {"type": "string", "minLength": 1},
        }
        whole = {"type": "object", "properties": shared, "required": ["value"]}
        return {"anyOf": [table, {**whole, "additionalProperties": False}]}

    def check(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return `table`, or raise the error that names the keys it lacks."""
        missing = [key for key in self.needs if key not in table]
        if missing:
            names = ", ".join(f"'{key}'" for key in missing)
            raise refusal(f"KEY has no {names}", self.needs[missing[0]])
        return table


@dataclass(frozen=True, slots=True)
class OrOne:
    """Text or a list of texts."""

    def __get_pydantic_core_schema__(self, source: Any, handler: CoreHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.as_list, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: JsonHandler
    ) -> JsonSchemaValue:
        many = handler(schema)
        return {"anyOf": [many["items"], many]}

    @staticmethod
    def as_list(entry: Any) -> Any:
        """Return text as a list of one, anything else as it is."""
        return [entry] if isinstance(entry, str) else entry


Rates = Annotated[dict[Dtype, PositiveFigure], Field(min_length=1), Table()]
Efficiencies = Annotated[
    dict[OpClass, FractionFigure],
    Table({"default": "add the fraction that all other op classes reach"}),
]
Step = Annotated[tuple[OpType, ...], Field(min_length=1), OrOne()]
Chain = Annotated[tuple[Step, ...], Field(min_length=2)]


M = TypeVar("M", bound=BaseModel)


def parse(
    model: type[M], source: YamlFile, data: Any, *, at: YamlPath = (), catalog: bool = False
) -> tuple[M | None, list[Complaint]]:
    """Return `data`, which stands at the path `at` of `source`, as a `model`, or what is wrong.

    - `catalog`: whether every figure must carry its status and source.
    """
    try:
        return model.model_validate(data, context={"catalog": catalog}), []
    except ValidationError as error:
        return None, _complaints(model, source, at, error.errors(include_url=False))


def parse_file(model: type[M], source: YamlFile) -> M:
    """Read the whole of `source` as a `model`. Raises what `source` does where it is none."""
    parsed, complaints = parse(model, source, source.data)
    source.refuse(complaints)
    if parsed is None:
        raise AssertionError("pydantic rejected a description without an error message")
    return parsed


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A file that cannot be used.

    - `whole`: its first complaint, with the lines of the rest.
    - `each`: one for each complaint, by line.
    """

    whole: InvalidInput
    each: tuple[InvalidInput, ...]


def broken(source: YamlFile, complaints: Iterable[Complaint]) -> BrokenFile | None:
    """Return the error for the `complaints` about the file, or None for none."""
    ordered = sorted(set(complaints))
    try:
        source.refuse(ordered)
    except InvalidInput as whole:
        each = tuple(
            source.kind(item.what, where=f"{source.shown}:{item.line}", hint=item.hint or None)
            for item in ordered
        )
        return BrokenFile(whole, each)
    return None


def read_file(
    model: type[M], path: Path, shown: str, *, catalog: bool = False
) -> tuple[M | None, BrokenFile | None]:
    """Read the file at `path` as a `model`: return it, or the file's errors."""
    try:
        source = read_yaml(path, shown)
    except PlatformError as error:
        return None, BrokenFile(error, (error,))
    parsed, complaints = parse(model, source, source.data, catalog=catalog)
    return parsed, broken(source, complaints)


def _complaints(
    model: type[BaseModel], source: YamlFile, at: YamlPath, details: Sequence[ErrorDetails]
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
    model: type[BaseModel], source: YamlFile, at: YamlPath, detail: ErrorDetails
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
    model: type[BaseModel], source: YamlFile, at: YamlPath, loc: YamlPath, detail: ErrorDetails
) -> Complaint:
    kind, context = detail["type"], detail.get("ctx", {})
    shown = _dotted((*at, *loc))
    line = _line(source, at, loc)
    if kind == "extra_forbidden":
        key = str(loc[-1])
        return Complaint(line, f"unknown key '{key}'", nearest(key, _keys(model, loc[:-1])))
    if kind == "missing":
        if loc[-1] in ("value", "status") or (loc[-1] == "source" and "value" in detail["input"]):
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
    "float_type": ("be a number", "the key states the unit"),
    "int_type": ("be a whole number", ""),
    "string_type": ("be text", ""),
    "string_too_short": ("be non-empty text", ""),
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


def _line(source: YamlFile, at: YamlPath, loc: YamlPath) -> int:
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
