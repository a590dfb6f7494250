"""Workload and deployment files: reader, checks, writer, JSON Schema."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel

from hetsim.core.checks import path, takes
from hetsim.errors import InvalidInput, WorkloadError
from hetsim.hardware.files.json_schema import definitions_of, document
from hetsim.hardware.files.schema import BrokenFile, broken, parse
from hetsim.hardware.files.yaml_source import YamlFile, YamlPath, read_yaml
from hetsim.workload.arrivals import KINDS, Replay
from hetsim.workload.autoscaling import Autoscaling
from hetsim.workload.deployment import (
    Deployment,
    DynamicBatching,
    Instances,
    QueuePolicy,
    Served,
)
from hetsim.workload.files.schema import DeploymentModel, WorkloadModel
from hetsim.workload.workload import Dims, Workload, variant_of

Sort = Literal["workload", "deployment"]

MODELS: Mapping[Sort, type[BaseModel]] = {"workload": WorkloadModel, "deployment": DeploymentModel}

Replayed = tuple[YamlPath, object, Dims]
"""Where a file says when requests come, what comes, and the dimensions that follow its trace."""


@dataclass(frozen=True, slots=True)
class CheckedWorkload:
    """Result of the check of one file.

    `sort` is None where what it describes cannot be told, `found` where it is broken; `errors` are
    all that is wrong, by line, then what is wrong with the traces that it names.
    """

    file: str
    sort: Sort | None
    found: Workload | Deployment | None
    errors: tuple[InvalidInput, ...]


@takes(source=path)
def load_workload(source: str | os.PathLike[str]) -> Workload:
    """Return the workload of a YAML file. Also reads the traces that it replays.

    Raises
    ------
    WorkloadError
        With file, line and what to do, where it or one of its traces cannot be used.
    """
    found = _loaded(os.fspath(source), "workload")
    assert isinstance(found, Workload)
    return found


@takes(source=path)
def load_deployment(source: str | os.PathLike[str]) -> Deployment:
    """Return the deployment of a YAML file.

    Raises
    ------
    WorkloadError
        With file, line and what to do, where it cannot be used.
    """
    found = _loaded(os.fspath(source), "deployment")
    assert isinstance(found, Deployment)
    return found


def check_workload(given: str) -> CheckedWorkload:
    """Read the file at the path `given` as what its keys describe. Raises nothing for bad input."""
    try:
        source = _source(given)
    except InvalidInput as error:
        return CheckedWorkload(given, None, None, (error,))
    keys = source.data.keys()
    if not keys & {"streams", "models"}:
        unknown = source.error(
            (),
            "the file describes neither a workload nor a deployment",
            "a workload has 'streams', a deployment 'models'",
        )
        return CheckedWorkload(given, None, None, (unknown,))
    sort: Sort = "workload" if "streams" in keys else "deployment"
    found, wrong = _read(source, sort)
    errors = tuple(error for each in wrong for error in each.each)
    return CheckedWorkload(given, sort, None if errors else found, errors)


def _loaded(given: str, sort: Sort) -> Workload | Deployment:
    found, wrong = _read(_source(given), sort)
    for each in wrong:
        raise each.whole
    assert found is not None
    return found


def _source(given: str) -> YamlFile:
    return read_yaml(Path(given), given, holds="a workload or a deployment", kind=WorkloadError)


def _read(
    source: YamlFile, sort: Sort
) -> tuple[Workload | Deployment | None, tuple[BrokenFile, ...]]:
    """Return what a file says, and what is wrong with it and the traces that it names."""
    parsed, complaints = parse(MODELS[sort], source, source.data)
    wrong = broken(source, complaints)
    if wrong is not None:
        return None, (wrong,)
    base = source.path.parent
    if isinstance(parsed, WorkloadModel):
        workload = parsed.to_record(base)
        places: list[Replayed] = [(("arrivals",), workload.arrivals, {})]
        places += [
            (("streams", stream.name, "arrivals"), stream.arrivals, stream.dims)
            for stream in workload.streams
        ]
        return workload, tuple(BrokenFile(one, (one,)) for one in trace_errors(source, places))
    assert isinstance(parsed, DeploymentModel)
    return parsed.to_record(base), ()


def trace_errors(source: YamlFile, places: Iterable[Replayed]) -> Iterator[InvalidInput]:
    """Yield the errors of the traces that a file replays at these places, each once."""
    said: set[str] = set()
    places = list(places)
    # What is wrong with a file is told where it is named, not of those with the same origin.
    alone = not all(
        os.path.exists(arrivals.path) for _, arrivals, _ in places if isinstance(arrivals, Replay)
    )
    for place, arrivals, dims in places:
        if not isinstance(arrivals, Replay):
            continue
        path = (*place, "replay", "path")
        # A Path raises for names that are too long.
        if not os.path.exists(arrivals.path):
            yield source.error(
                path, f"no such file '{arrivals.path}'", "paths are relative to its folder"
            )
            continue
        try:
            variant_of(dims, (replace(arrivals, beside=()) if alone else arrivals).trace())
        except WorkloadError as error:
            if error.where is None:
                error = WorkloadError(
                    error.what,
                    where=f"{source.shown}:{source.line((*place[:-1], 'dims'))}",
                    hint=error.hint,
                )
            if str(error) not in said:
                said.add(str(error))
                yield error


def workload_schema(sort: Sort | None = None) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a workload or deployment file, or of both as one.

    It accepts what the loader accepts, as far as a schema can say it. What it cannot say, and
    ``hetsim inspect`` does: what relates two values (shares that add up, an end,
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


def deployment_yaml(deployment: Deployment, folder: str | os.PathLike[str], about: str = "") -> str:
    """Return the text of a deployment file in `folder`, without default values.

    Models and plans are written as paths from there; `about` is a comment on top.
    """
    made = deployment_record(deployment, Path(folder))
    text = yaml.safe_dump(made, sort_keys=False, width=100, allow_unicode=True)
    head = "".join(f"# {line}\n" for line in about.splitlines())
    return head + text


def deployment_record(deployment: Deployment, folder: Path | None = None) -> dict[str, Any]:
    """Return the content of that file; of no `folder` with absolute paths."""
    return {"models": [_served(served, folder) for served in deployment.models]}


def _served(served: Served, base: Path | None) -> dict[str, Any]:
    plain = Served(served.model)
    found: dict[str, Any] = {"model": _path(served.model, base), "strategy": served.strategy}
    for key in ("batch_dim", "routing", "priority_levels", "default_priority_level", "loading"):
        if getattr(served, key) != getattr(plain, key):
            found[key] = getattr(served, key)
    if served.batch_sizes:
        found["batch_sizes"] = list(served.batch_sizes)
    if served.instances != plain.instances:
        found["instances"] = [_instances(entry, base) for entry in served.instances]
    policy, batching = served.queue_policy, served.dynamic_batching
    if policy != QueuePolicy():
        found["queue_policy"] = _changed(policy, QueuePolicy())
    if batching is not None:
        found["dynamic_batching"] = {
            "max_batch_size": batching.max_batch_size,
            **_changed(batching, DynamicBatching(batching.max_batch_size)),
        }
    if served.autoscaling is not None:
        found["autoscaling"] = _changed(served.autoscaling, Autoscaling())
    return found


def _instances(entry: Instances, base: Path | None) -> dict[str, Any]:
    found = _changed(entry, Instances())
    if entry.plan is not None:
        found["plan"] = _path(entry.plan, base)
    return found


def _changed(one: Any, plain: Any) -> dict[str, Any]:
    """What of a record differs from another, lists in the place of tuples."""
    found = {}
    for key in (field.name for field in fields(one)):
        value = getattr(one, key)
        if value != getattr(plain, key):
            found[key] = list(value) if isinstance(value, tuple) else value
    return found


def _path(given: str, base: Path | None) -> str:
    """A path as a file in `base` names it: from there where it is not absolute itself."""
    if given.startswith("zoo:") or os.path.isabs(given):
        return given
    return str(Path(given).resolve()) if base is None else os.path.relpath(given, base)
