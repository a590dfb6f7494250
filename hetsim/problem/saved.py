"""Saved plans, loaded with the model and platform that they were made for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from hetsim.core import checks
from hetsim.core.files import no_such_file, read_regular
from hetsim.errors import InvalidInput, NotInstalled, PlanError, PluginError, UsageError
from hetsim.graph.loading import load_model
from hetsim.graph.model import Model
from hetsim.graph.reading.extension import Extension, load_extension, names_library
from hetsim.graph.shapes.observed import read_array, read_observed
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.files.runtimes import platform_by_runtime
from hetsim.hardware.what_if import what_if
from hetsim.problem.parts import check_contention
from hetsim.problem.plan import Plan, parse
from hetsim.problem.problem import Problem
from hetsim.problem.record import read_given


class _Entry(BaseModel):
    """Entry of a plan's record: a file by name and digest, with optional fields."""

    model_config = ConfigDict(strict=True, defer_build=True)

    source: str
    sha256: str


class _ModelEntry(_Entry):
    canonical: str
    dims: dict[str, int]
    shapes: dict[str, list[int]]
    freeze: dict[str, Any] = {}
    observed: Any = None
    extensions: list[str] = []


class _PlatformEntry(_Entry):
    runtime: dict[str, str] = {}
    what_if: list[str] = []
    without: list[str] = []


class _Question(BaseModel):
    """Problem as stated in a plan's record."""

    model_config = ConfigDict(strict=True, defer_build=True)

    platform: _PlatformEntry
    execute: dict[str, str] = {}
    cost: str
    profiles: dict[str, _Entry] = {}
    pessimistic: bool = False


@checks.takes(
    source=checks.path,
    problem=checks.instance("hetsim.problem.problem:Problem"),
    extensions=checks.sequence(
        checks.either(checks.path, checks.instance("hetsim.graph.reading.extension:Extension"))
    ),
)
def load_plan(
    source: str | os.PathLike[str],
    problem: Problem | None = None,
    *,
    extensions: Sequence[str | os.PathLike[str] | Extension] = (),
) -> Plan:
    """Return a plan written by ``Plan.save``.

    Parameters
    ----------
    source : path or str
    problem : Problem, optional
        Problem that it was made for. Absent: the model and platform named in the file are loaded
        again and must not have changed.
    extensions : sequence of path or Extension
        Libraries of custom operators named in the plan: a file alone never causes native code to be
        loaded. Function bodies are read from the plan's paths.

    Raises
    ------
    PlanError
        If the file is missing, is not a plan, does not belong to the problem, or needs a library
        that is not among `extensions`.
    """
    where = os.fspath(source)
    try:
        text = read_regular(source).decode("utf-8")
    except FileNotFoundError:
        raise no_such_file(PlanError, source) from None
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else "not a text file"
        raise PlanError(f"cannot read: {what}", where=where, hint="use a saved plan.json") from None
    if problem is None:
        problem = _problem(text, where, extensions)
    return Plan.from_json(text, problem, where=where)


def stated_model(
    stated: object,
    where: str,
    extensions: Sequence[str | os.PathLike[str] | Extension] = (),
) -> Model:
    """Load the model that a plan's record names, if it is unchanged.

    - `stated`: entry ``model`` of the record, as read.
    - `where`: name of the plan, for messages.
    - `extensions`: as in ``load_plan``.

    Raises PlanError if the entry is invalid, the model changed, or it needs a library that is not
    among `extensions`; ModelError if the model cannot be loaded.
    """
    try:
        entry = _ModelEntry.model_validate(stated)
        frozen = {name: read_array(array) for name, array in entry.freeze.items()}
        seen = read_observed(entry.observed) if "observed" in entry.model_fields_set else None
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise _broken("model", where) from None
    again = _named_again(entry.extensions, extensions, where)
    with _named_by("model", where):
        model = load_model(
            entry.source,
            dims=entry.dims,
            shapes=entry.shapes,
            freeze=frozen,
            canonical=entry.canonical,  # type: ignore[arg-type]
            measure=False,
            observed=seen,
            extensions=again,
        )
    _check_same("model", model.sha256, entry.sha256, where)
    return model


@contextmanager
def _named_by(part: str, where: str) -> Iterator[None]:
    """Attribute errors without a file of their own to the plan at `where`, within the context."""
    try:
        yield
    except (InvalidInput, UsageError) as error:
        # Missing packages, and errors raised by packages, are not the plan's.
        if isinstance(error, (NotInstalled, PluginError)):
            raise
        at = f"{error.where}: " if error.where else ""
        hint = error.hint
        absent = isinstance(error, InvalidInput) and error.missing
        moved = absent and not Path(error.where or "").is_absolute()
        if moved:
            hint = "its paths are relative to the folder where it was made: run hetsim there"
        elif at and isinstance(error, InvalidInput):
            raise
        raise PlanError(
            f"its {part}: {at}{error.what}", where=where, hint=hint, missing=moved
        ) from error


def named_libraries(stated: object) -> tuple[str, ...]:
    """Return the libraries of custom operators named in a plan's record."""
    sources = stated.get("extensions") if isinstance(stated, dict) else None
    if not isinstance(sources, list):
        return ()
    # A value that is not a text cannot be distinguished from a library.
    return tuple(str(s) for s in sources if not isinstance(s, str) or names_library(s))


def _problem(
    text: str, where: str, extensions: Sequence[str | os.PathLike[str] | Extension]
) -> Problem:
    record = parse(text, where)
    if record.get("model") is None or record.get("platform") is None:
        raise PlanError(
            "it names no model or platform", where=where, hint="pass the problem it was made for"
        )
    try:
        asked = _Question.model_validate(record)
    except ValidationError as error:
        raise _broken(str(error.errors()[0]["loc"][0]), where) from None
    try:
        given = read_given(record.get("measured", {}))
    except (AttributeError, KeyError, TypeError, ValueError, UsageError):
        raise _broken("measured", where) from None
    with _named_by("platform", where):
        platform = load_platform(asked.platform.source)
    _check_same("platform", platform.sha256, asked.platform.sha256, where)
    with _named_by("platform", where):
        platform = platform_by_runtime(platform, asked.platform.runtime)
        platform = what_if(platform, *asked.platform.what_if, without=asked.platform.without)
    model = stated_model(record["model"], where, extensions)
    with _named_by("problem", where):
        problem = Problem.of(
            model,
            platform,
            contention=check_contention(record["contention"]),
            profiles={device: entry.source for device, entry in asked.profiles.items()},
            execute=asked.execute,
            cost=asked.cost,
            pessimistic=asked.pessimistic,
            measured={
                device: [one for one, _ in each if not one.in_device_file]
                for device, each in given.items()
            },
        )
    for device, each in given.items():
        known = problem.measured[device].sha256 if device in problem.measured else ()
        if known != tuple(sha256 for _, sha256 in each):
            raise PlanError(
                f"the measured networks of {device} changed since the plan was made",
                where=where,
                hint="plan again",
            )
    for device, entry in asked.profiles.items():
        own = problem.devices[problem.device_index(device)]
        is_now = problem.profiles[own].profile.sha256
        _check_same(f"profile of {device}", is_now, entry.sha256, where)
    return problem


def _named_again(
    stated: Sequence[str],
    given: Sequence[str | os.PathLike[str] | Extension],
    where: str,
) -> list[str | Extension]:
    """Return the extensions to load: libraries as named by the caller, bodies as by the plan."""
    offered = [load_extension(extension) for extension in given]
    chosen: list[str | Extension] = []
    for source in stated:
        again = next((each for each in offered if _means(source, each)), None)
        if again is None and names_library(source):
            raise PlanError(
                f"it needs the library '{source}', which is loaded only where you name it",
                where=where,
                hint=f"if you trust that library, add --extension {source}",
            )
        chosen.append(source if again is None else again)
    for extension in offered:
        if extension not in chosen:
            raise PlanError(
                f"it was made without '{extension.source}'",
                where=where,
                hint="omit that extension, or plan again with it",
            )
    return chosen


def _means(source: str, extension: Extension) -> bool:
    """Return whether `source` names the files of `extension`."""
    mine, others = (
        [Path(part).resolve() for part in text.split("=") if part]
        for text in (source, extension.source)
    )
    return mine == others


def _broken(what: str, where: str) -> PlanError:
    return PlanError(
        f"the plan's {what} entry lacks fields or has some of the wrong type",
        where=where,
        hint="use a plan.json that hetsim wrote",
    )


def _check_same(what: str, is_now: str, was: str, where: str) -> None:
    if is_now != was:
        raise PlanError(
            f"the {what} changed since the plan was made", where=where, hint="plan again"
        )
