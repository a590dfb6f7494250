"""JSON Schema of the files that users write, for editors that check and complete them."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import (
    GenerateJsonSchema,
    JsonSchemaMode,
    JsonSchemaValue,
    models_json_schema,
)
from pydantic_core import core_schema

from hetsim.hardware.files.catalog_files import Sort, names
from hetsim.hardware.files.device_schema import DeviceModel, SupportModel
from hetsim.hardware.files.kernels_schema import MeasuredModel
from hetsim.hardware.files.platform_schema import (
    MODELS,
    TABLES,
    DeviceUse,
    LinkUse,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PATH = r"/|\\|\.ya?ml$"
"""What makes a name a path, as in ``catalog_files.is_path``."""


def json_schema(sort: Sort | None = None) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of one kind of file, or of all in one.

    It accepts what the loader accepts outside the catalog, as far as a schema can say it. What
    it cannot say, and ``hetsim inspect`` does: what relates two values (busy and idle
    power, ends of links, peaks of execution dtypes and of what is executed as if, oldest and
    newest operator set), patterns that do not parse, other files, NaN, and that 1.0 is not a
    whole number. The names it offers are those of the installed catalog.
    """
    definitions = definitions_of(*MODELS.values())
    _add_rules(definitions)
    definitions["Overrides"] = _overrides(definitions[DeviceModel.__name__])
    if sort is None:
        return document("hetsim hardware", definitions, *MODELS.values())
    return document(f"hetsim {sort}", definitions, MODELS[sort])


def definitions_of(*models: type[BaseModel]) -> dict[str, Any]:
    """Return pydantic's definitions of each model and its nested models, by name."""
    wanted: list[tuple[type[BaseModel], JsonSchemaMode]] = [(one, "validation") for one in models]
    _, together = models_json_schema(wanted, schema_generator=_Generator)
    found: dict[str, Any] = together["$defs"]
    return found


def document(
    title: str, definitions: Mapping[str, Any], *models: type[BaseModel]
) -> dict[str, Any]:
    """Return the JSON Schema of a file of one of `models`, with the definitions it needs."""
    tops = [{"$ref": _ref(model.__name__)} for model in models]
    top: dict[str, Any] = tops[0] if len(tops) == 1 else {"anyOf": tops}
    return {"$schema": DIALECT, "title": title, **top, "$defs": _reached(top, definitions)}


class _Generator(GenerateJsonSchema):
    """Schemas with the meaning of each key, without titles, and with keys of mappings checked."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        model: Any = schema["cls"]
        made = super().model_schema(schema)
        made.pop("title", None)
        for name, meaning in _meanings(model).items():
            key = model.model_fields[name].alias or name
            made["properties"][key].setdefault("description", meaning)
        return made

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        keys = self.generate_inner(schema["keys_schema"])
        values = self.generate_inner(schema["values_schema"])
        table: JsonSchemaValue = {"type": "object", "additionalProperties": values}
        rules = {key: rule for key, rule in keys.items() if key not in ("type", "title")}
        if rules:
            table["propertyNames"] = rules
        if "min_length" in schema:
            table["minProperties"] = schema["min_length"]
        return table


@cache
def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the text below each field of a model in its source, by field."""
    if model.__pydantic_generic_metadata__["origin"] is not None:
        return {}
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(made, ast.ClassDef)
    found = {}
    for field, below in pairwise(made.body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def _add_rules(definitions: dict[str, Any]) -> None:
    """Say what the models say in code: which keys go together, and what names there are."""
    pairs = [
        {"properties": {"ops": {"type": "array"}, other: rule}, "required": ["ops", other]}
        for other, rule in (("except", {"minItems": 1}), ("foreign", {"type": "array"}))
    ]
    definitions[SupportModel.__name__]["not"] = {"anyOf": pairs}
    use = definitions[DeviceUse.__name__]
    name = _name_or_path(names("device"))
    use["properties"]["device"] = {"anyOf": [name, {"$ref": _ref(DeviceModel.__name__)}]}
    use["properties"]["overrides"] = {"$ref": _ref("Overrides")}
    definitions[DeviceUse.__name__] = {"anyOf": [name, use]}
    definitions[MeasuredModel.__name__]["properties"]["kin"]["enum"] = list(names("kin"))
    link = definitions[LinkUse.__name__]
    link["properties"]["link"] = {"anyOf": [_name_or_path(names("link")), {"type": "null"}]}
    figures = ("latency_us", "bandwidth_gbytes_s")
    link["anyOf"] = [
        {"properties": {"link": {"type": "string"}}, "required": ["link"]},
        {
            "properties": {key: {"not": {"type": "null"}} for key in figures},
            "required": list(figures),
        },
    ]


def _name_or_path(names: tuple[str, ...]) -> dict[str, Any]:
    return {"anyOf": [{"enum": list(names)}, {"type": "string", "pattern": PATH}]}


def _overrides(device: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of changes to a device: no key must be there, of a table no entry."""
    changes = copy.deepcopy(dict(device))
    del changes["required"]
    changes["description"] = "Keys of the device that this platform overrides."
    for key in TABLES:
        for form in changes["properties"][key].get("anyOf", ()):
            for table in (form, form.get("properties", {}).get("value", {})):
                table.pop("minProperties", None)
                if table.get("required") != ["value"]:
                    table.pop("required", None)
    return changes


def _ref(name: str) -> str:
    return f"#/$defs/{name}"


def _reached(top: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions that `top` leads to, by name."""
    found: dict[str, Any] = {}
    pending = [top]
    while pending:
        for part in _parts(pending.pop()):
            name = str(part.get("$ref", "")).removeprefix(_ref(""))
            if name and name not in found:
                found[name] = definitions[name]
                pending.append(definitions[name])
    return dict(sorted(found.items()))


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping within `schema`, and `schema` itself."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
