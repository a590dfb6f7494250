"""Saved plans, loaded with the model and platform they were made for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeGuard

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
    """Load a plan that ``Plan.save`` wrote.

    Parameters
    ----------
    source : path or str
    problem : Problem, optional
        The problem it was made for. Absent: the model and platform that the file names
        are loaded again and must not have changed.
    extensions : sequence of path or Extension
        The libraries of custom operators that the plan names: a file alone never has
        native code loaded. Function bodies are read where the plan says.

    Raises
    ------
    PlanError
        Where the file is missing, no plan, does not belong to the problem, or needs a
        library that is not among `extensions`.
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

    Parameters
    ----------
    stated : object
        The record's entry ``model``, as it was read.
    where : str
        The plan, for messages.
    extensions : sequence of path or Extension
        As for ``load_plan``.

    Raises
    ------
    PlanError
        Where the entry is broken, the model changed, or it needs a library that is not
        among `extensions`.
    ModelError
        Where the model cannot be loaded.
    """
    entry = _checked_entry(stated, where)
    try:
        frozen = {name: read_array(array) for name, array in entry.get("freeze", {}).items()}
        seen = read_observed(entry["observed"]) if "observed" in entry else None
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise _broken("model", where) from None
    again = _named_again(entry.get("extensions", []), extensions, where)
    with _named_by("model", where):
        model = load_model(
            entry["source"],
            dims=entry["dims"],
            shapes=entry["shapes"],
            freeze=frozen,
            canonical=entry["canonical"],
            measure=False,
            observed=seen,
            extensions=again,
        )
    _check_same("model", model.sha256, entry["sha256"], where)
    return model


@contextmanager
def _named_by(part: str, where: str) -> Iterator[None]:
    """Within, an error that names no file of its own is of what the plan at `where` says."""
    try:
        yield
    except (InvalidInput, UsageError) as error:
        # What is not installed, or a package raises, is not the plan's.
        if isinstance(error, (NotInstalled, PluginError)):
            raise
        at = f"{error.where}: " if error.where else ""
        if at and isinstance(error, InvalidInput):
            raise
        raise PlanError(f"its {part}: {at}{error.what}", where=where, hint=error.hint) from error


def named_libraries(stated: object) -> tuple[str, ...]:
    """Return the libraries of custom operators named in a plan's record."""
    sources = stated.get("extensions") if isinstance(stated, dict) else None
    if not isinstance(sources, list):
        return ()
    # What is no text cannot be told from a library.
    return tuple(str(s) for s in sources if not isinstance(s, str) or names_library(s))


def _problem(
    text: str, where: str, extensions: Sequence[str | os.PathLike[str] | Extension]
) -> Problem:
    record = parse(text, where)
    if record.get("model") is None or record.get("platform") is None:
        raise PlanError(
            "it names no model or platform", where=where, hint="pass the problem it was made for"
        )
    platform_of = record["platform"]
    if not _has_texts(platform_of, ("source", "sha256")):
        raise _broken("platform", where)
    with _named_by("platform", where):
        platform = load_platform(platform_of["source"])
    _check_same("platform", platform.sha256, platform_of["sha256"], where)
    changes, without = platform_of.get("what_if", []), platform_of.get("without", [])
    runtime = platform_of.get("runtime", {})
    if not _are_texts(changes) or not _are_texts(without) or not _by_text(runtime):
        raise _broken("platform", where)
    with _named_by("platform", where):
        platform = platform_by_runtime(platform, runtime)
        platform = what_if(platform, *changes, without=without)
    execute = record.get("execute", {})
    if not _by_text(execute):
        raise _broken("execute", where)
    cost = record.get("cost")
    if not isinstance(cost, str):
        raise _broken("cost", where)
    model = stated_model(record["model"], where, extensions)
    profiles = _checked_profiles(record.get("profiles", {}), where)
    try:
        given = read_given(record.get("measured", {}))
    except (AttributeError, KeyError, TypeError, ValueError, UsageError):
        raise _broken("measured", where) from None
    pessimistic = record.get("pessimistic", False)
    if not isinstance(pessimistic, bool):
        raise _broken("pessimistic", where)
    with _named_by("problem", where):
        problem = Problem.of(
            model,
            platform,
            contention=check_contention(record["contention"]),
            profiles={device: entry["source"] for device, entry in profiles.items()},
            execute=execute,
            cost=cost,
            pessimistic=pessimistic,
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
    for device, entry in profiles.items():
        own = problem.devices[problem.device_index(device)]
        is_now = problem.profiles[own].profile.sha256
        _check_same(f"profile of {device}", is_now, entry["sha256"], where)
    return problem


def _by_text(stated: object) -> TypeGuard[dict[str, str]]:
    """Whether a part of a record has a text for each of its keys."""
    return isinstance(stated, dict) and all(isinstance(one, str) for one in stated.values())


def _checked_profiles(stated: object, where: str) -> dict[str, Mapping[str, str]]:
    """The record of profiles by device, each with its source and digest."""
    if not isinstance(stated, dict) or not all(
        _has_texts(entry, ("source", "sha256")) for entry in stated.values()
    ):
        raise _broken("profiles", where)
    return stated


def _named_again(
    stated: Sequence[str],
    given: Sequence[str | os.PathLike[str] | Extension],
    where: str,
) -> list[str | Extension]:
    """The extensions to load: libraries as the caller names them, bodies as the plan does."""
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
    """Whether `source` names the files of `extension`."""
    mine, others = (
        [Path(part).resolve() for part in text.split("=") if part]
        for text in (source, extension.source)
    )
    return mine == others


def _checked_entry(stated: object, where: str) -> dict[str, Any]:
    """The record of a model, every field of its type."""
    if not isinstance(stated, dict) or not _has_texts(stated, ("source", "sha256", "canonical")):
        raise _broken("model", where)
    dims, shapes = stated.get("dims"), stated.get("shapes")
    extensions = stated.get("extensions", [])
    fits = (
        isinstance(dims, dict)
        and all(type(size) is int for size in dims.values())
        and isinstance(shapes, dict)
        and all(isinstance(shape, list) for shape in shapes.values())
        and all(type(size) is int for shape in shapes.values() for size in shape)
        and _are_texts(extensions)
    )
    if not fits:
        raise _broken("model", where)
    return stated


def _are_texts(entry: object) -> bool:
    return isinstance(entry, list) and all(isinstance(text, str) for text in entry)


def _has_texts(record: object, keys: Sequence[str]) -> bool:
    return isinstance(record, Mapping) and all(isinstance(record.get(key), str) for key in keys)


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
