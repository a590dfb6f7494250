"""JSON Schema of workload and deployment files, for editors that check and complete them."""

from __future__ import annotations

from typing import Any

from hetsim.hardware.files.json_schema import definitions_of, document
from hetsim.workload.files.reader import MODELS, Sort
from hetsim.workload.registry import KINDS


def workload_schema(sort: Sort | None = None) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a workload or deployment file, or of both as one.

    It accepts what the loader accepts, as far as a schema can say it. What it cannot say, and
    ``hetsim workload validate`` does: what relates two values (shares that add up, an end,
    ascending lists, levels of priority), the forms of an objective in short, and traces.
    """
    models = list(MODELS.values()) if sort is None else [MODELS[sort]]
    definitions = definitions_of(*models)
    if "ArrivalsModel" in definitions:
        definitions["ArrivalsModel"]["oneOf"] = [
            {"properties": {kind: {"type": "object"}}, "required": [kind]} for kind in KINDS
        ]
        ways = [{"properties": {"arrivals": {"type": "object"}}, "required": ["arrivals"]}]
        ways.append({"properties": {"share": {"type": "number"}}, "required": ["share"]})
        definitions["StreamModel"]["oneOf"] = ways
    return document(f"hetsim {sort or 'workloads'}", definitions, *models)
