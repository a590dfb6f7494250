"""Files of grids: their schema, and the grid they describe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr
from pydantic import model_validator as validated

from hetsim.core import checks
from hetsim.core.text import to_json
from hetsim.errors import HetsimError, SweepError
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.files.catalog_files import is_path
from hetsim.hardware.files.json_schema import definitions_of, document
from hetsim.hardware.files.kernels_schema import Precision
from hetsim.hardware.files.schema import (
    Name,
    NotNegative,
    OneOf,
    OrOne,
    Positive,
    Strict,
    Text,
    parse_file,
    refusal,
)
from hetsim.hardware.files.yaml_source import Complaint, YamlFile, YamlPath, read_yaml
from hetsim.hardware.variants import platform_executing
from hetsim.hardware.what_if import what_if
from hetsim.placement.objective import OBJECTIVES
from hetsim.sweeping.grid import STREAM, Grid, LoadAxis, ModelAxis, PlatformAxis, WhatIfAxis
from hetsim.workload.arrivals import MAX_SEED
from hetsim.workload.files.reader import Replayed, trace_errors, workload_schema
from hetsim.workload.files.schema import (
    ArrivalsModel,
    Described,
    DynamicBatchingModel,
    SloModel,
    model_at,
)
from hetsim.workload.workload import MAX_REQUESTS, Stream, Workload


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
    # Processes that answer points have a working folder of their own.
    grid: Grid = model.to_record(read.path.parent.absolute())
    read.refuse(_complaints(read, grid))
    for error in trace_errors(read, _replayed(grid)):
        raise error
    return grid


def _replayed(grid: Grid) -> Iterator[Replayed]:
    for at, load in enumerate(grid.loads):
        for stream in () if load is None else load.workload.streams:
            yield ("workloads", at, "arrivals"), stream.arrivals, {}


def _complaints(source: YamlFile, grid: Grid) -> list[Complaint]:
    """What no platform takes: a name that is none, a change that fits none of them."""
    found = []
    platforms = []
    for at, axis in enumerate(grid.platforms):
        try:
            platforms.append(load_platform(axis.source))
        except HetsimError as error:
            found.append(source.complaint(("platforms", at), error))
    tries: dict[YamlPath, list[Callable[[], object]]] = {}
    for at, entry in enumerate(grid.what_ifs):
        supposed = partial(what_if, without=entry.without)
        tries["what_ifs", at] = [partial(supposed, one, *entry.changes) for one in platforms]
    for at, execute in enumerate(grid.precisions):
        tries["precisions", at] = [partial(platform_executing, one, execute) for one in platforms]
    for place, each in tries.items():
        wrong = _refused_by_all(each)
        if wrong is not None:
            found.append(source.complaint(place, wrong))
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


MAX_POINTS = 1_000_000
"""More points than anybody waits for: a grid has them by a slip."""

Size = Annotated[StrictInt, Field(ge=0)]


def _in_short(key: str) -> BeforeValidator:
    """Take text in the place of a mapping that has it under `key`."""
    return BeforeValidator(lambda given: {key: given} if isinstance(given, str) else given)


class ModelEntry(Strict):
    """An entry of ``models:``."""

    model: Text
    """Path of an ONNX file, from the folder of this one, or zoo:NAME."""
    dims: dict[Text, Size] = Field(default_factory=dict)
    """Open dimensions, by name."""

    def to_record(self, base: Path) -> ModelAxis:
        """Return the model; a path starts from the folder `base`."""
        bound = ", ".join(f"{name}={size}" for name, size in sorted(self.dims.items()))
        shown = f"{self.model} ({bound})" if bound else self.model
        return ModelAxis(model_at(self.model, base), self.dims, shown)


class WhatIfEntry(Described):
    """An entry of ``what_ifs:``."""

    record: ClassVar[Any] = WhatIfAxis

    changes: Annotated[tuple[Text, ...], OrOne()] = ()
    """WHAT.FIGURE AMOUNT each, as --what-if takes it."""
    without: Annotated[tuple[Text, ...], OrOne()] = ()
    """Devices or links that are not there, as --without takes them."""

    @validated(mode="before")
    @classmethod
    def _none(cls, given: Any) -> Any:
        return {} if given is None else given


class LoadEntry(Described):
    """Entry of ``workloads:``: the requests to each model."""

    name: Name | None = None
    """What rows call it; absent: what it says."""
    arrivals: ArrivalsModel
    """When requests come."""
    slos: Annotated[tuple[SloModel, ...], OrOne()] = ()
    """What is asked of their latencies, e.g. p99=50ms; each must hold."""
    duration_s: Positive | None = None
    """When requests no longer come, in seconds."""
    requests: Annotated[StrictInt, Field(ge=1, le=MAX_REQUESTS)] | None = None
    """How many come in all."""
    warm_up_s: NotNegative = 0.0
    """What comes before it is played and not counted, in seconds."""
    seed: Annotated[StrictInt, Field(ge=0, le=MAX_SEED)] = 0
    """Of all random numbers."""

    def to_record(self, base: Path) -> LoadAxis:
        """Return the workload; paths start from the folder `base`."""
        own = self.given(base)
        del own["name"]
        stream = Stream(STREAM, "model", own.pop("arrivals"), slos=own.pop("slos"))
        workload = Workload((stream,), **own)
        given = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return LoadAxis(workload, self.name or " ".join(to_json(given).split()))


def _none_or(entry: Any) -> Any:
    return None if entry in (None, "none") else entry


class GridModel(Described):
    """The file of a grid."""

    record: ClassVar[Any] = Grid

    models: Annotated[
        tuple[Annotated[ModelEntry, _in_short("model")], ...], Field(min_length=1), OrOne()
    ]
    """Paths of ONNX files, from the folder of this one, or zoo:NAME."""
    platforms: Annotated[tuple[Text, ...], Field(min_length=1), OrOne()]
    """Names of the catalog, or paths; a device stands for the platform of it."""
    what_ifs: Annotated[
        tuple[Annotated[WhatIfEntry, _in_short("changes")], ...], Field(min_length=1)
    ] = (WhatIfEntry(),)
    """What is supposed of each platform; {} is the platform as it is."""
    precisions: Annotated[tuple[dict[Name, Precision], ...], Field(min_length=1)] = ({},)
    """By device, what float models are executed in as if; {}: as they are."""
    strategies: Annotated[tuple[Text, ...], Field(min_length=1), OrOne()] = ("heft",)
    """What plans, as --strategy takes it."""
    batchings: Annotated[
        tuple[Annotated[DynamicBatchingModel | None, BeforeValidator(_none_or)], ...],
        Field(min_length=1),
    ] = (None,)
    """How requests that wait become one batch; none: they do not."""
    workloads: Annotated[
        tuple[Annotated[LoadEntry | None, BeforeValidator(_none_or)], ...], Field(min_length=1)
    ] = (None,)
    """Which requests come; none: one request alone."""
    objective: Annotated[StrictStr, OneOf("objective", OBJECTIVES)] = "latency"
    """What plans are for."""
    bound: StrictBool = False
    """Whether the lower bound of one request is stated, too."""

    @validated(mode="after")
    def _fits(self) -> GridModel:
        size = self.to_record(Path()).size
        if size > MAX_POINTS:
            raise refusal(f"the grid has {size} points, more than {MAX_POINTS}", "split it")
        if any(self.batchings) and None in self.workloads:
            raise refusal(
                "batch sizes need a workload",
                "give workloads: without none, or remove the batch sizes",
                ("batchings",),
            )
        for at, strategy in enumerate(self.strategies):
            try:
                _check_strategy(strategy)
            except HetsimError as error:
                raise refusal(error.what, error.hint or "", ("strategies", str(at))) from None
        return self

    def given(self, base: Path) -> dict[str, Any]:
        """Return the fields of the grid; paths start from the folder `base`."""
        found = super().given(base)
        found["platforms"] = tuple(_platform_at(name, base) for name in self.platforms)
        found["loads"] = found.pop("workloads")
        return found


def _check_strategy(name: str) -> None:
    from hetsim.placement.registry import resolve

    resolve(name)


def _platform_at(given: str, base: Path) -> PlatformAxis:
    """A path starts from the folder of the grid; a name of the catalog is itself."""
    return PlatformAxis(str(base / given) if is_path(given) else given, given)
