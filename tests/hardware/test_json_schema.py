"""The JSON Schema accepts what the loader accepts; what it cannot say is listed here."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figure_builders import kernels_block, kin_block
from hetsim.errors import PlatformError
from hetsim.hardware.catalog import device_names, link_names
from hetsim.hardware.files.catalog_files import Sort, catalog_folder
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.files.json_schema import json_schema
from hetsim.hardware.files.kernels_schema import FittedModel, KinModel
from hetsim.hardware.files.platform_schema import LinkModel
from hetsim.hardware.files.reader import survey
from hetsim.hardware.files.schema import parse
from hetsim.hardware.files.yaml_source import YamlFile, read_yaml
from sweeps import examples, sweep

SORTS: tuple[Sort, ...] = get_args(Sort)
BROKEN = Path(__file__).parent / "broken"
CATALOG = sorted(catalog_folder().rglob("*.yaml"))

UNSAYABLE = (
    "must be finite, not nan",
    "is below 'idle_w'",
    "computes in ",
    " above max ",
    " is not a pattern: ",
    "no such file",
    "unknown host ",
    "link to an unknown device ",
    " with itself",
    "two links named ",
    "no link connects ",
    "it has no peak rate for ",
    "is below 'networks'",
    "is below 'median'",
    "is above 'sd'",
    " two entries for batch ",
    "stands without 'chip'",
    "it computes no op in integers",
    " has a line ",
    " lines, ",
)
"""What relates two values, names other files, or is no value of JSON; the loader says these."""


schema_of = cache(json_schema)


@cache
def check(sort: Sort | None = None) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema_of(sort))


def sort_of(path: Path) -> Sort:
    if path.is_relative_to(BROKEN):
        named = path.name.partition("_")[0]
        return next(sort for sort in SORTS if sort == named)
    folders: dict[str, Sort] = {
        "links": "link", "platforms": "platform", "fitted": "fitted", "kin": "kin",
        "prices": "prices",
    }  # fmt: skip
    return folders.get(path.parent.name, "device")


def complaints(sort: Sort, data: dict[str, Any]) -> list[str]:
    """What the loader says of `data`, read outside the catalog."""
    source = YamlFile(BROKEN / "made.yaml", "made.yaml", data, {(): 1})
    if sort == "platform":
        _, wrong = survey(source, "made.yaml")
        return [error.what for file in wrong for error in file.each]
    model = {"device": DeviceModel, "link": LinkModel, "fitted": FittedModel, "kin": KinModel}[sort]
    return [complaint.what for complaint in parse(model, source, data)[1]]


def sayable(found: list[str]) -> list[str]:
    return [what for what in found if not any(part in what for part in UNSAYABLE)]


@sweep("path", quick=CATALOG[::25], full=CATALOG, ids=lambda path: path.stem)
def test_every_file_of_the_catalog_is_accepted(path: Path) -> None:
    data = read_yaml(path).data
    assert list(check(sort_of(path)).iter_errors(data)) == []
    check().validate(data)


def readable(path: Path) -> bool:
    """Whether `path` is YAML of plain data: a schema is not asked about other files."""
    try:
        read_yaml(path)
    except PlatformError:
        return False
    return True


def test_every_broken_file_is_refused_unless_no_schema_can_say_why() -> None:
    refused = 0
    for path in filter(readable, sorted(BROKEN.glob("*.yaml"))):
        data = dict(read_yaml(path).data)
        sort = sort_of(path)
        valid = check(sort).is_valid(data)
        refused += not valid
        if path.name in (
            "platform_device_file_is_broken.yaml",
            "platform_link_file_is_broken.yaml",
        ):
            assert valid
        else:
            found = complaints(sort, data)
            assert found, path
            assert valid == (not sayable(found)), path
    assert refused >= 70


OWN_DEVICE: dict[str, Any] = {
    "name": "own",
    "kind": "npu",
    "full_name": "Own",
    "peak_tflops": {"float16": 4, "int8": {"value": 8, "status": "derived", "source": "twice"}},
    "memory_bandwidth_gbytes_s": 30,
    "memory_gib": 2,
    "launch_us": 3,
    "dispatch_us": {"value": 100},
    "streams": 1,
    "idle_w": 0.1,
    "busy_w": 2,
    "efficiency": {"value": {"default": 0.1, "conv": 0.3}, "source": "measured"},
    "memory_efficiency": 0.5,
    "execution_dtype": {"float32": "float16"},
    "support": {
        "ops": ["Conv", "com.microsoft:Gelu"],
        "dtypes": ["float32", "float16"],
        "static_shapes_only": True,
        "opset": {"min": 7, "max": 21},
        "max_rank": 4,
        "attributes": {"Conv": {"group": [1], "dilations": [[1, 1]]}},
    },
    "fusions": [["Conv", ["Relu", "Clip"]]],
    "patterns": {"gelu": "Mul(Erf)"},
    "backend": "simulated",
    "kernels": {"int8": kernels_block()},
    "measured": {"int8": {"kin": "rknn-int8", "chip": "a chip", "where": {"threads": 4}}},
}
OWN_LINK: dict[str, Any] = {
    "full_name": "Cable",
    "latency_us": 2,
    "bandwidth_gbytes_s": {"value": 3, "status": "estimate", "source": "s"},
    "efficiency": 0.5,
    "duplex": False,
    "sd": 0.2,
}
OWN_PLATFORM: dict[str, Any] = {
    "name": "own",
    "full_name": "Own",
    "host": "cpu",
    "devices": {
        "cpu": device_names()[0],
        "gpu": {
            "device": "nvidia-l4",
            "overrides": {
                "memory_gib": 2,
                "peak_tflops": {"float16": 60},
                "efficiency": {"value": {"conv": 0.9}, "status": "derived", "source": "s"},
                "support": {"except": ["Conv"]},
            },
        },
        "npu": {"device": OWN_DEVICE, "execute": "int8"},
    },
    "links": [
        {"between": ["cpu", "gpu"], "link": link_names()[0], "bus": "b", "name": "a"},
        {"between": ["cpu", "npu"], "latency_us": 2, "bandwidth_gbytes_s": 3, "duplex": True},
    ],
}
WHOLE: tuple[tuple[Sort, dict[str, Any]], ...] = (
    ("device", OWN_DEVICE),
    ("link", OWN_LINK),
    ("platform", OWN_PLATFORM),
    ("fitted", {"kernels": {"float16": kernels_block()}}),
    ("kin", kin_block()),
)
JUNK = (
    None, True, 0, -1, 1, 1.5, 1e12 + 0.5, float("inf"), "", "x", "a b", "nvidia-l4",
    "no/such.yaml", "float16", "int8", "datasheet", "Conv", "default", [], [1], ["Conv"],
    ["cpu", "gpu"], {},
    {"value": 1}, {"value": {}}, {"value": {"default": 1}}, {"value": 1, "sorce": "x"},
    {"float16": 1}, {"default": 0.5}, {"device": "nvidia-l4"}, {"min": 3}, {"a": 1},
)  # fmt: skip
KEYS = (
    "kind", "value", "status", "source", "bus", "link", "latency_us", "ops", "except", "default",
    "int8", "float16", "conv", "device", "overrides", "gpu", "min", "name", "x", "a b",
)  # fmt: skip


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of `data`."""
    found: list[tuple[Any, Any]] = []
    pending = [data]
    while pending:
        part = pending.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part))
        for key in keys:
            found.append((part, key))
            if isinstance(part[key], dict | list):
                pending.append(part[key])
    return found


@examples(quick=20, full=1500)
@given(st.data())
def test_changed_files_are_accepted_by_both_or_by_none(data: st.DataObject) -> None:
    sort, whole = data.draw(st.sampled_from(WHOLE))
    changed = copy.deepcopy(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        part, key = data.draw(st.sampled_from(places(changed)))
        action = data.draw(st.sampled_from(("replace", "remove", "add")))
        if action == "remove":
            del part[key]
        elif action == "replace":
            part[key] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
        elif isinstance(part, dict):
            junk = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
            part[data.draw(st.sampled_from(KEYS))] = junk
        if not changed:
            return
    found = complaints(sort, changed)
    errors = [error.message for error in check(sort).iter_errors(changed)]
    assert (not errors) == (not sayable(found)), (errors, found)


@pytest.mark.parametrize(("sort", "whole"), WHOLE)
def test_the_files_that_are_changed_are_valid(sort: Sort, whole: dict[str, Any]) -> None:
    assert complaints(sort, whole) == []
    check(sort).validate(whole)


def test_names_of_the_catalog_are_offered() -> None:
    definitions = schema_of("platform")["$defs"]
    text = json.dumps(definitions["DeviceUse"])
    assert all(f'"{name}"' in text for name in device_names())
    assert all(f'"{name}"' in json.dumps(definitions["LinkUse"]) for name in link_names())


@pytest.mark.parametrize("sort", SORTS)
def test_every_key_of_a_file_is_explained(sort: Sort) -> None:
    for name, definition in schema_of(sort)["$defs"].items():
        if name.endswith("Model") and name != "OpsetModel":
            for key, rule in definition["properties"].items():
                assert rule.get("description"), (name, key)
