"""The values that hardware files are made of: names, choices, and figures with their source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
    model_validator,
)
from pydantic import GetCoreSchemaHandler as CoreHandler
from pydantic import GetJsonSchemaHandler as JsonHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from hetsim.errors import nearest
from hetsim.graph.graph import ITEM_BITS
from hetsim.hardware.provenance import STATUSES
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
    """Return the error that says `what`, found `at` below the value; a first KEY is its key."""
    return refusals([(what, hint, at)])


def refusals(found: Sequence[Refusal], kind: str = "hetsim") -> PydanticCustomError:
    """Return one error that stands for all that is `found`, of the type `kind` for pydantic."""
    return PydanticCustomError(kind, "{first}", {"first": found[0][0], "found": tuple(found)})


@dataclass(frozen=True, slots=True)
class OneOf:
    """Accepts a few words; `meant_by` has what people write for them, for hints."""

    noun: str
    choices: tuple[str, ...]
    meant_by: Mapping[str, str] = field(default_factory=dict, hash=False)

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
            raise refusal(f"unknown {self.noun} '{word}'", nearest(meant, self.choices))
        return word


@dataclass(frozen=True, slots=True)
class Matching:
    """Accepts text that a regular expression matches as a whole.

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
        """Return `text`, or raise the error that says what it should look like."""
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
        "write 'com.microsoft:Gelu'; of ONNX's own all but those of 'except' are taken",
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
    """Frozen, and every unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Figure(Strict, Generic[T]):
    """A number, how sure it is, and where it is from.

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
    """Accepts a mapping of figures, also with one status and source for all.

    Attributes
    ----------
    needs : mapping of str to str
        Keys that must be there, and what to do where one is not.
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
    """Accepts text in the place of a list of one."""

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
