"""Errors of what workload and deployment files say, told with their file and line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hetsim.errors import HetsimError, WorkloadError

if TYPE_CHECKING:
    from hetsim.hardware.files.yaml_source import YamlPath
    from hetsim.workload.deployment import Deployment
    from hetsim.workload.workload import Workload

Place = tuple[str, "YamlPath"]
"""A file, and the keys from its top down to what is meant."""


@contextmanager
def told_where(
    workload: Workload,
    workload_file: str | None,
    deployment: Deployment,
    deployment_file: str | None,
) -> Iterator[None]:
    """Let an error that is of what one of the files says name its line there.

    What tells no place is of the deployment where a model is not served as is asked, else of the
    workload: what comes in all.
    """
    try:
        yield
    except HetsimError as error:
        place = None
        if deployment_file is not None:
            place = _of_deployment(error, deployment, deployment_file)
        if place is None and workload_file is not None:
            place = _of_workload(error, workload, workload_file)
        if place is not None:
            put(error, *place)
        raise


def check_strategies(deployment: Deployment, file: str) -> None:
    """Raise UsageError, with file and line, where a strategy of a deployment does not exist."""
    from hetsim.placement.registry import resolve

    for at, served in enumerate(deployment.models):
        own: YamlPath = ("models", at)
        names = [((*own, "strategy"), served.strategy)]
        for k, entry in enumerate(served.instances):
            if entry.strategy is not None:
                names.append(((*own, "instances", k, "strategy"), entry.strategy))
        for place, name in names:
            try:
                resolve(name)
            except HetsimError as error:
                put(error, file, place)
                raise


def put(error: HetsimError, file: str, place: YamlPath) -> None:
    """Put the line of a place in front of where an error says that it is."""
    from hetsim.hardware.files.yaml_source import read_yaml

    source = read_yaml(Path(file), file, holds="a workload or a deployment", kind=WorkloadError)
    line = f"{source.shown}:{source.line(place)}"
    error.where = line if error.where is None else f"{line}: {error.where}"
    error.args = (str(error),)


def _of_deployment(error: HetsimError, deployment: Deployment, file: str) -> Place | None:
    if error.where is None:
        return (file, error.key) if error.key[:1] == ("models",) else None
    places: list[tuple[str, YamlPath]] = []
    for at, served in enumerate(deployment.models):
        places.append((served.model, ("models", at, "model")))
        for k, entry in enumerate(served.instances):
            if entry.plan is not None:
                places.append((entry.plan, ("models", at, "instances", k, "plan")))
    return _named(error.where, places, file)


def _of_workload(error: HetsimError, workload: Workload, file: str) -> Place | None:
    if error.where is None:
        return file, error.key or ("streams",)
    places: list[tuple[str, YamlPath]] = [
        (stream.model, ("streams", stream.name, "model")) for stream in workload.streams
    ]
    return _named(error.where, places, file)


def _named(where: str, places: list[tuple[str, YamlPath]], file: str) -> Place | None:
    """The place whose name is in `where`; of names that are part of others the longest."""
    found = max(
        (place for place in places if place[0] in where),
        key=lambda place: len(place[0]),
        default=None,
    )
    return None if found is None else (file, found[1])
