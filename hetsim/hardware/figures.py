"""The values that hardware files are made of: names, choices, and figures with their source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from hetsim.errors import nearest
from hetsim.graph.graph import ITEM_BITS
from hetsim.hardware.spec import OP_CLASSES

KINDS = ("cpu", "gpu", "npu", "dsp")
STATUSES = ("datasheet", "secondary", "derived", "estimate")
FIGURE_HINT = f"write {{value: NUMBER, status: {'|'.join(STATUSES)}, source: TEXT}}"
DTYPE_ABBREVIATIONS = {
    "fp64": "float64", "double": "float64", "fp32": "float32", "float": "float32",
    "fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp8": "float8e4m3fn",
}  # fmt: skip
"""What people write for the names of ONNX element types; used in hints alone."""

T = TypeVar("T")


def refusal(what: str, hint: str = "", at: tuple[str, ...] = ()) -> PydanticCustomError:
    """Return the error that says `what`, with KEY for the key it is found under, `at` below it."""
    return PydanticCustomError("hetsim", "{what}", {"what": what, "hint": hint, "at": at})


def _one_of(
    noun: str, choices: Sequence[str], abbreviations: Mapping[str, str] | None = None
) -> AfterValidator:
    known = frozenset(choices)
    meant_by = abbreviations or {}

    def check(name: str) -> str:
        if name not in known:
            raise refusal(f"unknown {noun} '{name}'", nearest(meant_by.get(name, name), choices))
        return name

    return AfterValidator(check)


def _matching(noun: str, pattern: str, hint: str) -> AfterValidator:
    compiled = re.compile(pattern, re.ASCII)

    def check(name: str) -> str:
        if not compiled.fullmatch(name):
            raise refusal(f"'{name}' cannot be {noun}", hint)
        return name

    return AfterValidator(check)


Kind = Annotated[StrictStr, _one_of("kind", KINDS)]
Status = Annotated[StrictStr, _one_of("status", STATUSES)]
Dtype = Annotated[StrictStr, _one_of("dtype", tuple(ITEM_BITS), DTYPE_ABBREVIATIONS)]
OpClass = Annotated[
    StrictStr, _one_of("op class", ("default", *OP_CLASSES), {"convolution": "conv"})
]
OpType = Annotated[
    StrictStr,
    _matching(
        "an op type",
        r"(?:[A-Za-z_][\w.-]*:)?[A-Za-z_]\w*",
        "write 'Conv', or 'com.microsoft:Gelu' outside the standard domain",
    ),
]
Name = Annotated[
    StrictStr,
    _matching("a name", r"[A-Za-z0-9][\w.-]*", "use letters, digits, '.', '-' and '_'"),
]
Text = Annotated[StrictStr, Field(min_length=1)]

LARGEST = 1e12
"""Of any figure in the unit of its key, so that it stays finite in SI units."""

Positive = Annotated[StrictFloat, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
NotNegative = Annotated[StrictFloat, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Fraction = Annotated[StrictFloat, Field(gt=0, le=1, allow_inf_nan=False)]
Count = Annotated[StrictInt, Field(ge=1, le=2**20)]


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


def spread(table: Any) -> Any:
    """Give each entry of ``{value: {a: 1, b: 2}, status, source}`` the status and source."""
    if not isinstance(table, Mapping) or not isinstance(table.get("value"), Mapping):
        return table
    shared = {key: entry for key, entry in table.items() if key != "value"}
    return {
        key: {**shared, **(entry if isinstance(entry, Mapping) else {"value": entry})}
        for key, entry in table["value"].items()
    }


def _as_list(entry: Any) -> Any:
    return [entry] if isinstance(entry, str) else entry


Rates = Annotated[dict[Dtype, Figure[Positive]], BeforeValidator(spread), Field(min_length=1)]
Efficiencies = Annotated[dict[OpClass, Figure[Fraction]], BeforeValidator(spread)]
Step = Annotated[tuple[OpType, ...], BeforeValidator(_as_list), Field(min_length=1)]
Chain = Annotated[tuple[Step, ...], Field(min_length=2)]
