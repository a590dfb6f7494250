"""The file of a grid read, with everything that is wrong with it by line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hetsim.core import checks
from hetsim.errors import HetsimError, SweepError
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.changing.platform import what_if
from hetsim.hardware.executing import platform_executing
from hetsim.hardware.files.complaints import parse_file
from hetsim.hardware.files.json_schema import definitions_of, document
from hetsim.hardware.files.yaml_source import Complaint, Source, YamlPath, read_yaml
from hetsim.sweeping.files.grid_schema import GridModel
from hetsim.sweeping.grid import Grid
from hetsim.workload.files.reader import Replayed, trace_errors, workload_schema


@checks.takes(source=checks.path)
def load_grid(source: str | os.PathLike[str]) -> Grid:
    """Return the grid that a YAML file describes.

    Its platforms and traces are read, and what is supposed and executed on each platform is tried:
    where one does not fit another place of an axis, that is no mistake, and the points say so.

    Raises
    ------
    SweepError
        With file, line and what to do, where it cannot be used.
    WorkloadError
        So, where a trace that it replays cannot be.
    """
    given = os.fspath(source)
    read = read_yaml(Path(given), given, holds="a grid of a sweep", kind=SweepError)
    model = parse_file(GridModel, read)
    grid = model.to_record(read.path.parent)
    read.refuse(_complaints(read, grid))
    for error in trace_errors(read, _replayed(grid)):
        raise error
    return grid


def _replayed(grid: Grid) -> Iterator[Replayed]:
    for at, load in enumerate(grid.loads):
        for stream in () if load is None else load.workload.streams:
            yield ("workloads", at, "arrivals"), stream.arrivals, {}


def _complaints(source: Source, grid: Grid) -> list[Complaint]:
    """What no platform takes: a name that is none, a change that fits none of them."""
    found = []
    platforms = []
    for at, axis in enumerate(grid.platforms):
        try:
            platforms.append(load_platform(axis.source))
        except HetsimError as error:
            found.append(_complaint(source, ("platforms", at), error))
    tries: dict[YamlPath, list[Callable[[], object]]] = {}
    for at, entry in enumerate(grid.what_ifs):
        supposed = partial(what_if, without=entry.without)
        tries["what_ifs", at] = [partial(supposed, one, *entry.changes) for one in platforms]
    for at, execute in enumerate(grid.precisions):
        tries["precisions", at] = [partial(platform_executing, one, execute) for one in platforms]
    for place, each in tries.items():
        wrong = _refused_by_all(each)
        if wrong is not None:
            found.append(_complaint(source, place, wrong))
    return found


def _refused_by_all(tries: Iterable[Callable[[], object]]) -> HetsimError | None:
    """The first error, where all of these end with one."""
    first = None
    for attempt in tries:
        try:
            attempt()
        except HetsimError as error:
            first = first or error
        else:
            return None
    return first


def _complaint(source: Source, place: YamlPath, error: HetsimError) -> Complaint:
    what = f"{error.where}: {error.what}" if error.where else error.what
    return Complaint(source.line(place), what, error.hint or "")


SHORT: Mapping[str, Mapping[str, Any]] = {
    "models": {"type": "string"},
    "what_ifs": {"type": "string"},
    "batchings": {"enum": ["none"]},
    "workloads": {"enum": ["none"]},
}
"""What may stand in the place of an entry."""


def grid_schema() -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a grid's file.

    It accepts what the loader accepts, as far as a schema can say it: names of platforms and
    strategies, and what relates two values, the loader alone knows.
    """
    known = workload_schema()["$defs"]
    definitions = definitions_of(GridModel)
    definitions |= {name: known[name] for name in definitions if name in known}
    properties = definitions["GridModel"]["properties"]
    for key, short in SHORT.items():
        whole = properties[key]
        # A list, or text in the place of a list of one.
        listed = whole if "items" in whole else whole["anyOf"][1]
        before = listed["items"]
        listed["items"] = {"anyOf": [short, before]}
        if listed is not whole:
            whole["anyOf"][0] = listed["items"]
    return document("hetsim sweep", definitions, GridModel)
