"""JSON Schema of the files that describe hardware, for editors that check and complete them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from hetsim.hardware.files.availability_schema import AvailabilityModel
from hetsim.hardware.files.catalog_files import Sort, names
from hetsim.hardware.files.device_schema import DeviceModel, SupportModel
from hetsim.hardware.files.figures import Count, Figure, Fraction, NotNegative, Positive
from hetsim.hardware.files.kernels_schema import (
    CoordinateModel,
    CorrectionModel,
    ErrorModel,
    FittedModel,
    KernelsModel,
    MeasuredModel,
    RuntimeModel,
)
from hetsim.hardware.files.kin_schema import ByDatasheetModel, KinModel, LikenessModel
from hetsim.hardware.files.platform_schema import (
    TABLES,
    DeviceUse,
    LinkModel,
    LinkUse,
    MemoryUse,
    PlatformModel,
)
from hetsim.hardware.files.price_schema import PriceModel
from hetsim.hardware.kernel_correction import COORDINATES
from hetsim.hardware.kernel_figures import PARAMETERS
from hetsim.hardware.kin import TRAITS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PATH = r"/|\\|\.ya?ml$"
"""What makes a name a path, as in ``catalog_files.is_path``."""

_MODELS: Mapping[Sort, type[BaseModel]] = {
    "device": DeviceModel,
    "link": LinkModel,
    "platform": PlatformModel,
    "fitted": FittedModel,
    "kin": KinModel,
}
_MEANINGS: Mapping[str, Mapping[str, str]] = {
    DeviceModel.__name__: {
        "name": "Name of the kind; absent: that of the file.",
        "kind": "What it is; reports group devices by it.",
        "full_name": "What people call it.",
        "peak_tflops": "Dense peak by element type, in 1e12 FLOP/s, 1 MAC = 2 FLOP; not the "
        "figure for sparse weights.",
        "memory_bandwidth_gbytes_s": "Peak bandwidth of its memory, in 1e9 bytes/s.",
        "memory_gib": "Memory for weights and live activations, in 2**30 bytes.",
        "launch_us": "Fixed cost of one kernel, in microseconds.",
        "dispatch_us": "Fixed cost of starting one subgraph, in microseconds.",
        "streams": "Subgraphs that run at the same time.",
        "idle_w": "Power while nothing runs, in watts.",
        "busy_w": "Power while all streams run, in watts.",
        "efficiency": "Fraction of the peak that each op class reaches; 'default' for the rest.",
        "memory_efficiency": "Fraction of the memory bandwidth that kernels reach.",
        "execution_dtype": "Element types that it computes in another type, e.g. float32: float16.",
        "support": "What it accepts; absent: every op.",
        "fusions": "Chains of op types that run as one kernel.",
        "patterns": "What it takes as one kernel and as a whole, by name.",
        "quantized": "Op types that it computes in integers between DequantizeLinear and "
        "QuantizeLinear; absent: the customary ones where it has an int8 peak.",
        "backend": "What runs its subgraphs; absent: ONNX Runtime on the CPU.",
        "threads": "Threads that one kernel is spread over when subgraphs are really run.",
        "custom_ops": "Operators outside ONNX that it takes: those with a function as body, "
        "and those of onnxruntime custom-op libraries.",
        "kernels": "What kernels take, by precision, for the cost model 'fitted'.",
        "runtime": "The runtime that 'measured' and 'kernels' are figures of.",
        "measured": "By precision: the published measurements that its figures are fitted to.",
        "runtimes": "By name: other runtimes that it was measured in, for --runtime.",
        "cores": "Of a processor: a list of [cores, GHz, core], the fastest first, for what its "
        "kin say of it.",
        "family": "Of graphics or a processor: the make, e.g. mali, for what its kin say of it.",
        "price": "What it costs alone.",
        "availability": "Which share of its time it is up.",
    },
    FittedModel.__name__: {
        "kernels": "What was fitted for the device of the catalog that the file is named after.",
        "runtimes": "The same by other runtimes than the one that its file names first.",
    },
    KinModel.__name__: {
        "runtime": "What software ran what was measured.",
        "source": "Where the measurements are from.",
        "activation_bytes": "That one element of activations takes.",
        "weight_bytes": "That one element of weights takes.",
        "mean": "Figures of the mean of the kin, all parameters of the formula.",
        "likeness": "What its networks say of others.",
        "by_datasheet": "How figures follow of devices that nobody measured.",
    },
    ByDatasheetModel.__name__: {
        "precision": "In which datasheets are read.",
        "middle": "Usual covariates of its devices: logs of FLOP/s, bytes/s, threads; absent: 0.",
        "slopes": "By covariate: what the logarithm of each parameter gains by one of it.",
        "errors": "Errors over chips that were left out of the fit, by batch size.",
    },
    LikenessModel.__name__: {
        "sd": "Standard deviation of the logarithm of measured over predicted, by network.",
        "shared": "The part of its variance that networks which are alike have in common.",
        "length": "How far along the traits a network says something of another.",
        "noise": "Standard deviation of one device's logarithm about what devices share.",
        "networks": "A line each: name, batch, devices that ran it, logarithm of measured over "
        f"predicted, and its traits: {', '.join(TRAITS)}; where the batch is not 1, then those of "
        "one sample.",
        "heard": "A line each of what others of the maker's runtimes ran: name, batch, share of "
        "the variance that they tell, effect of which that share is expected, traits.",
    },
    KernelsModel.__name__: {
        "kin": "Runtime and precision family whose devices miss alike, e.g. tensorrt-int8.",
        "runtime": "What software ran what was measured.",
        "source": "Where the measurements are from.",
        "parameters": "All parameters of the formula: "
        + " ".join(f"{one.name}: {one.meaning}" for one in PARAMETERS),
        "errors": "Errors over measurements that were left out of the fit, by batch size.",
        "corrections": "By form of kernels: a factor by geometry, where kernels were timed one by "
        "one; 'hetsim calibrate' writes it.",
        "joins": "By form of kernels: the ops that join them; absent: as compilers usually do.",
        "channel_block": "Channels of a block, where the runtime keeps images in blocks of "
        "channels between some kernels and copies them for others; absent: it does not.",
    },
    CorrectionModel.__name__: {
        "offset": "Logarithm of the factor where nothing else adds to it.",
        "coordinates": "What kernels are told apart by; absent: nothing.",
        "centres": "A line each: the place by these coordinates, in the order "
        f"{', '.join(COORDINATES)}, then its weight in the logarithm.",
    },
    CoordinateModel.__name__: {
        "from": "Where measured kernels begin.",
        "to": "Where they end.",
        "scale": "How far a measurement tells of its neighbours.",
        "slope": "What the logarithm of the factor grows by; absent: nothing.",
    },
    ErrorModel.__name__: {
        "batch": "Range of batch sizes.",
        "networks": "Networks that were measured.",
        "rows": "Measurements.",
        "median": "Median of the relative errors of networks left out of the device alone.",
        "p90": "90th percentile of them.",
        "unseen_median": "Median of the relative errors of networks left out of every device of "
        "the kin; absent: the device stands for its kin.",
        "unseen_p90": "90th percentile of them.",
        "spread": "Relative spread of repeated measurements; absent: nothing was repeated.",
        "sd": "Standard deviation of the log by which 80 % intervals cover.",
        "common": "The part of sd that devices of the same kin have in common.",
    },
    MeasuredModel.__name__: {
        "kin": "Runtime and precision family.",
        "computes": "What the runtime computes in, where it is not the precision: tf32.",
        "chip": "Name of the chip in the data; absent: the device has what its kin have.",
        "where": "Further fields that pick one series of rows, e.g. threads: 4.",
    },
    RuntimeModel.__name__: {
        "measured": "By precision: the published measurements that its figures are fitted to.",
        "kernels": "What kernels take, by precision.",
    },
    SupportModel.__name__: {
        "ops": "Accepted op types; absent: all but those of 'except'.",
        "except": "Refused op types.",
        "foreign": "Accepted op types of other domains than ONNX's own, where 'ops' is absent; "
        "absent: all for a CPU, none for others.",
        "dtypes": "Accepted element types of the tensors that a node reads and writes.",
        "static_shapes_only": "Whether it refuses tensors whose shapes are not all known.",
        "opset": "Oldest and newest version of the standard operator set.",
        "max_rank": "Most dimensions of a tensor.",
        "max_tensor_mib": "Largest tensor, in MiB.",
        "attributes": "By op type and attribute: the accepted values.",
    },
    LinkModel.__name__: {
        "full_name": "What people call it.",
        "latency_us": "Of one transfer, in microseconds.",
        "bandwidth_gbytes_s": "Of one direction, in 1e9 bytes/s.",
        "efficiency": "Fraction of the bandwidth that a transfer reaches.",
        "duplex": "Whether both directions carry a transfer at the same time.",
        "sd": "Standard deviation of the logarithm of the factor that transfers are off by.",
    },
    LinkUse.__name__: {
        "between": "The two devices that it joins.",
        "name": "Unique in the platform; absent: made of the two devices.",
        "link": "Link of the catalog, or a path; what stands beside it goes before it.",
        "latency_us": "Of one transfer, in microseconds.",
        "bandwidth_gbytes_s": "Of one direction, in 1e9 bytes/s.",
        "efficiency": "Fraction of the bandwidth that a transfer reaches.",
        "duplex": "Whether both directions carry a transfer at the same time.",
        "sd": "Standard deviation of the logarithm of the factor that transfers are off by.",
        "bus": "Links of one bus carry one transfer at a time together.",
    },
    PlatformModel.__name__: {
        "name": "Name of the platform; absent: that of the file.",
        "full_name": "What people call it.",
        "host": "The device on which inputs start and outputs end.",
        "power_w": "What all devices together may draw for long, in watts.",
        "devices": "By the name that plans use: a device of the catalog, a path, or a mapping.",
        "links": "How the devices are joined.",
        "memories": "What several devices draw on together.",
        "price": "Of all of it, in the place of those of its devices.",
    },
    PriceModel.__name__: {
        "usd_per_hour": "Rented, with its electricity: US dollars an hour.",
        "usd": "Bought: US dollars.",
        "years": "For how long it is bought; absent: --lifetime says it.",
        "of": "The date of the price, e.g. 2024-06.",
        "source": "Where the price is from.",
    },
    AvailabilityModel.__name__: {
        "share": "Of its time that it is up.",
        "mtbf_hours": "In place of it: the mean time that it works until it fails.",
        "mttr_hours": "The mean time until it is back.",
        "source": "Where that is from.",
    },
    MemoryUse.__name__: {
        "devices": "Those that draw on it; each device is in one at most.",
        "bandwidth_gbytes_s": "Peak of all of them together, in 1e9 bytes/s.",
    },
}


def json_schema(sort: Sort | None = None) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of one sort of file, or of all as one.

    It accepts what the loader accepts outside the catalog, as far as a schema can say it. What
    it cannot say, and ``hetsim devices validate`` does: what relates two values (busy and idle
    power, ends of links, peaks of execution dtypes and of what is executed as if, oldest and
    newest operator set), patterns that do not parse, other files, NaN, and that 1.0 is not a
    whole number. The names it offers are those of the installed catalog.
    """
    definitions = _definitions()
    _add_rules(definitions)
    for model, meanings in _MEANINGS.items():
        for key, meaning in meanings.items():
            definitions[model]["properties"][key]["description"] = meaning
    definitions["Overrides"] = _overrides(definitions[DeviceModel.__name__])
    if sort is None:
        top: dict[str, Any] = {
            "title": "hetsim hardware",
            "anyOf": [{"$ref": _ref(model.__name__)} for model in _MODELS.values()],
        }
    else:
        top = {"title": f"hetsim {sort}", "$ref": _ref(_MODELS[sort].__name__)}
    return {"$schema": DIALECT, **top, "$defs": _reached(top, definitions)}


def _definitions() -> dict[str, Any]:
    """Return what pydantic says of each model, under names that a reader can use."""
    named: dict[str, type[BaseModel]] = {
        **{model.__name__: model for model in _MODELS.values()},
        KernelsModel.__name__: KernelsModel,
        ErrorModel.__name__: ErrorModel,
        MeasuredModel.__name__: MeasuredModel,
        RuntimeModel.__name__: RuntimeModel,
        LinkUse.__name__: LinkUse,
        DeviceUse.__name__: DeviceUse,
        "PositiveFigure": Figure[Positive],
        "NotNegativeFigure": Figure[NotNegative],
        "FractionFigure": Figure[Fraction],
        "CountFigure": Figure[Count],
    }
    references, together = models_json_schema(
        [(model, "validation") for model in named.values()],
        by_alias=True,
        schema_generator=SchemaGenerator,
    )
    given = {references[model, "validation"]["$ref"]: _ref(name) for name, model in named.items()}
    definitions: dict[str, Any] = {}
    for key, definition in together["$defs"].items():
        definitions[given.get(_ref(key), _ref(key)).removeprefix(_ref(""))] = definition
        for part in _parts(definition):
            part.pop("title", None)
            if "$ref" in part:
                part["$ref"] = given.get(part["$ref"], part["$ref"])
    return definitions


class SchemaGenerator(GenerateJsonSchema):
    """Without titles that repeat the key, and with keys of mappings checked, not sorted out."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

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
    use["properties"]["execute"]["description"] = (
        "What float models are priced in as if: int8 for quantized."
    )
    use["properties"]["runtime"]["description"] = "The runtime whose figures are taken."
    definitions[DeviceUse.__name__] = {"anyOf": [name, use]}
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
    changes["description"] = "Keys of the device that are other here."
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
