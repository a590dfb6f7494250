"""Workload and deployment files read: what they say, or everything that is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from hetsim.core.checks import path, takes
from hetsim.errors import InvalidInput, WorkloadError
from hetsim.hardware.files.complaints import Broken, broken, parse
from hetsim.hardware.files.yaml_source import Source, YamlPath, read_yaml
from hetsim.workload.arrivals.replay import Replay
from hetsim.workload.deployment import Deployment
from hetsim.workload.dimensions import Dims, variant_of
from hetsim.workload.files.deployment_schema import DeploymentModel
from hetsim.workload.files.workload_schema import WorkloadModel
from hetsim.workload.workload import Workload

Sort = Literal["workload", "deployment"]

MODELS: Mapping[Sort, type[BaseModel]] = {"workload": WorkloadModel, "deployment": DeploymentModel}

Replayed = tuple[YamlPath, object, Dims]
"""Where a file says when requests come, what comes, and the dimensions that follow its trace."""


@dataclass(frozen=True, slots=True)
class CheckedWorkload:
    """What became of one file.

    Attributes
    ----------
    file : str
        As the user gave it.
    sort : "workload", "deployment" or None
        What it describes; None where that cannot be told.
    found : Workload, Deployment or None
        What was read; None where it is broken.
    errors : tuple of InvalidInput
        All that is wrong, by line; then what is wrong with the traces that it names.
    """

    file: str
    sort: Sort | None
    found: Workload | Deployment | None
    errors: tuple[InvalidInput, ...]


@takes(source=path)
def load_workload(source: str | os.PathLike[str]) -> Workload:
    """Return the workload that a YAML file describes. The traces that it replays are read, too.

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
    """Return the deployment that a YAML file describes.

    Raises
    ------
    WorkloadError
        With file, line and what to do, where it cannot be used.
    """
    found = _loaded(os.fspath(source), "deployment")
    assert isinstance(found, Deployment)
    return found


def check_workload(given: str) -> CheckedWorkload:
    """Read the file at the path `given` as what its keys say. Raises nothing for bad input."""
    try:
        source = _source(given)
    except InvalidInput as error:
        return CheckedWorkload(given, None, None, (error,))
    keys = source.data.keys()
    if not keys & {"streams", "models"}:
        unknown = source.error(
            (),
            "this describes no workload or deployment",
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


def _source(given: str) -> Source:
    return read_yaml(Path(given), given, holds="a workload or a deployment", kind=WorkloadError)


def _read(source: Source, sort: Sort) -> tuple[Workload | Deployment | None, tuple[Broken, ...]]:
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
        return workload, tuple(Broken(one, (one,)) for one in trace_errors(source, places))
    assert isinstance(parsed, DeploymentModel)
    return parsed.to_record(base), ()


def trace_errors(source: Source, places: Iterable[Replayed]) -> Iterator[InvalidInput]:
    """Yield what is wrong with the traces that a file replays at these places, each once."""
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
                path, f"no such file '{arrivals.path}'", "paths start from its folder"
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
