"""A file of Ray's cluster launcher, read without Ray: which devices its nodes stand for.

Its form is checked against the JSON Schema that Ray ships; what a device needs is checked here.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hetsim.errors import InvalidInput, PlatformError, nearest
from hetsim.execution.cluster_offers import LABEL_VALUE, RESOURCE_PREFIX, Means, offers
from hetsim.hardware.files.complaints import broken
from hetsim.hardware.files.yaml_source import Complaint, Source, YamlPath, read_yaml

_OF_START = re.compile(r"--(resources|labels)(?:=|$)(.*)", re.DOTALL)
_SHELL = re.compile(r"[$`]")
_EXTRA = re.compile(r"\('(.+?)'.* unexpected\)")


@dataclass(frozen=True, slots=True)
class NodeType:
    """One kind of node that the file starts.

    Attributes
    ----------
    name : str
        As the file calls it; ``head`` and ``workers`` where it has no names.
    least : int
        How many start without being asked for.
    offers : mapping of str to "resource" or "label"
        The devices that it stands for.
    stated : bool
        False where the machines themselves say a part of what they offer.
    line : int
    """

    name: str
    least: int
    offers: dict[str, Means]
    stated: bool
    line: int


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """A cluster file: its name in errors, its own name, the provider, the head's type first."""

    shown: str
    name: str
    provider: str
    node_types: tuple[NodeType, ...]


def read_cluster_file(given: str) -> tuple[ClusterFile | None, tuple[InvalidInput, ...]]:
    """Read the file at the path `given`: what it says, or everything that is wrong with it.

    Complexity: linear in the file.
    """
    try:
        source = read_yaml(Path(given), given, holds="a Ray cluster")
    except PlatformError as error:
        return None, (error,)
    wrong = broken(source, _of_schema(source)) or broken(source, _of_offers(source))
    if wrong is not None:
        return None, wrong.each
    data: Mapping[str, Any] = source.data
    types = tuple(_node_types(source, data))
    return ClusterFile(given, data["cluster_name"], data["provider"]["type"], types), ()


def _of_schema(source: Source) -> Iterator[Complaint]:
    """What Ray's own schema says against the file."""
    from jsonschema import Draft7Validator

    ray = find_spec("ray")
    if ray is None or ray.origin is None:
        raise PlatformError("ray is not installed", hint="pip install ray")
    schema = json.loads((Path(ray.origin).parent / "autoscaler" / "ray-schema.json").read_text())
    # Before it checks the form the launcher takes this key of own machines away, and adds defaults.
    schema["properties"]["min_workers"] = {"type": "integer", "minimum": 0}
    schema["properties"]["available_node_types"]["patternProperties"][".*"]["required"] = []
    for error in Draft7Validator(schema).iter_errors(source.data):
        path: YamlPath = tuple(error.absolute_path)
        extra = _EXTRA.search(error.message)
        if error.validator == "additionalProperties" and extra is not None:
            known = sorted(error.schema.get("properties", ()))
            what = f"unknown key '{extra[1]}'"
            yield Complaint(source.line((*path, extra[1])), what, nearest(extra[1], known))
        else:
            at = f"'{'.'.join(map(str, path))}': " if path else ""
            yield Complaint(source.line(path), f"{at}{error.message}")


def _of_offers(source: Source) -> Iterator[Complaint]:
    """Faults by which no node, or another one, would stand for a device."""
    data: Mapping[str, Any] = source.data
    types = data.get("available_node_types")
    at: YamlPath
    if types is not None and data.get("head_node_type") not in types:
        head = data.get("head_node_type")
        what = "missing key 'head_node_type'" if head is None else f"unknown node type '{head}'"
        at = ("available_node_types",) if head is None else ("head_node_type",)
        yield Complaint(source.line(at), what, nearest(str(head or ""), types))
    for name, node in (types or {}).items():
        at = ("available_node_types", name)
        for resource, amount in node.get("resources", {}).items():
            if resource.startswith(RESOURCE_PREFIX) and not amount:
                line = source.line((*at, "resources", resource))
                yield Complaint(line, f"'{resource}' is 0: it offers nothing", "write 1")
        for label, value in node.get("labels", {}).items():
            if label.startswith(RESOURCE_PREFIX) and str(value) != LABEL_VALUE:
                line = source.line((*at, "labels", label))
                what = f"the label '{label}' is '{value}': it offers nothing"
                yield Complaint(line, what, f'write {label}: "{LABEL_VALUE}"')
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        for index, command in enumerate(data.get(key) or ()):
            try:
                _started(command)
            except ValueError as error:
                line = source.line((key, index))
                yield Complaint(line, str(error), "write what `ray start` takes")


def _node_types(source: Source, data: Mapping[str, Any]) -> Iterator[NodeType]:
    """Node types, the head's first; of own machines, the head and the workers."""
    started = {
        key: _of_commands(data.get(f"{key}_start_ray_commands") or ()) for key in ("head", "worker")
    }
    types = data.get("available_node_types")
    if types is None:
        workers = data.get("min_workers", len(data["provider"].get("worker_ips") or ()))
        for name, key, least in (("head", "head", 1), ("workers", "worker", workers)):
            resources, labels, stated = started[key]
            line = source.line((f"{key}_start_ray_commands",))
            yield NodeType(name, least, offers(resources, labels), stated, line)
        return
    head = data["head_node_type"]
    for name in sorted(types, key=lambda name: name != head):
        node = types[name]
        resources, labels, stated = started["head" if name == head else "worker"]
        found = offers(
            {**resources, **node.get("resources", {})},
            {**labels, **{key: str(value) for key, value in node.get("labels", {}).items()}},
        )
        least = max(node.get("min_workers", 0), int(name == head))
        yield NodeType(name, least, found, stated, source.line(("available_node_types", name)))


def _of_commands(commands: Sequence[str]) -> tuple[dict[str, float], dict[str, str], bool]:
    """Resources and labels of the last ``ray start``, and whether all of them are stated."""
    found: tuple[dict[str, float], dict[str, str], bool] = ({}, {}, True)
    for command in commands:
        found = _started(command) or found
    return found


def _started(command: str) -> tuple[dict[str, float], dict[str, str], bool] | None:
    """The same of one shell command; None where it starts no Ray. Raises ValueError."""
    if "ray start" not in command:
        return None
    words = shlex.split(command)
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    stated = not any(word.startswith("--labels-file") for word in words)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        match = _OF_START.fullmatch(word)
        if match is None:
            continue
        said = match[2] or following
        if _SHELL.search(said):
            stated = False
        elif match[1] == "resources":
            resources = _resources(said)
        else:
            pairs = (entry.partition("=") for entry in said.split(",") if entry)
            labels = {name.strip(): value.strip() for name, _, value in pairs}
    return resources, labels, stated


def _resources(said: str) -> dict[str, float]:
    try:
        return {name: float(amount) for name, amount in json.loads(said).items()}
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"--resources={said} is no JSON of names and numbers") from None
