"""Devices, strategies and cost models that other packages add, by entry points."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from hetsim.core.checks import shown
from hetsim.errors import HetsimError, PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Gives = TypeVar("Gives")

GROUPS = ("hetsim.devices", "hetsim.strategies", "hetsim.cost_models")


def plugin_names(group: str) -> tuple[str, ...]:
    """Names that installed packages add to a group, sorted. Nothing is imported."""
    return tuple(sorted(_found(group)))


def load_plugin(group: str, name: str) -> Any:
    """Import what an installed package calls `name`.

    Raises
    ------
    PluginError
        Where two packages claim the name, or the package cannot be imported; it is named.
    KeyError
        Where no package has the name.
    """
    points = _found(group)[name]
    if len(points) > 1:
        raise PluginError(
            f"two packages add '{name}' to {group}: {' and '.join(map(_owner, points))}",
            hint="uninstall one of them",
        )
    try:
        return points[0].load()
    except Exception as error:
        raise PluginError(
            f"'{name}' of {group} cannot be imported: {type(error).__name__}: {error}",
            where=_owner(points[0]),
            hint="reinstall or uninstall the package",
        ) from error


def plugin_owner(group: str, name: str) -> str:
    """Return the package that adds `name`, or where its code is. Raises KeyError for none."""
    point = _found(group)[name][0]
    return point.dist.name if point.dist is not None else point.value


def plugin_complaints(group: str, own: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Say what is wrong with the installed plugins of a group; the others can be used.

    `own` are the names of hetsim itself, which no package may claim.
    """
    found: list[str] = []
    for name, points in sorted(_found(group).items()):
        if name in own:
            owners = " and ".join(map(_owner, points))
            found.append(f"{owners} adds '{name}' to {group}, which is a name of hetsim's own")
            continue
        try:
            load_plugin(group, name)
        except PluginError as error:
            found.append(str(error))
    return tuple(found)


def asked(group: str, name: str, hook: str, call: Callable[[], Gives]) -> Gives:
    """Return what `call` does, which asks `hook` of what an installed package calls `name`.

    Raises
    ------
    PluginError
        Where the hook raises what is no error of hetsim's; package and hook are named.
    """
    try:
        return call()
    except HetsimError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        raise PluginError(
            f"'{hook}' of '{name}' of {group} raised {said}",
            where=_whose(group, name),
            hint="tell who keeps the package",
        ) from error


def misfit(group: str, name: str, hook: str, gave: object, wanted: str) -> PluginError:
    """Return the error for what a hook gave that nobody can use."""
    return PluginError(
        f"'{hook}' of '{name}' of {group} gave {shown(gave)}, not {wanted}",
        where=_whose(group, name),
        hint="tell who keeps the package",
    )


def answered(
    group: str,
    name: str,
    hook: str,
    call: Callable[[], Gives],
    wanting: Callable[[Gives], str | None],
) -> Gives:
    """Return what ``asked`` does, where `wanting` says that nothing else is wanted.

    Raises
    ------
    PluginError
        As ``asked``; and where what the hook gave is not what `wanting` says that it must be.
    """
    given = asked(group, name, hook, call)
    wanted = wanting(given)
    if wanted is not None:
        raise misfit(group, name, hook, given, wanted)
    return given


def is_amount(given: object) -> bool:
    """Whether what a hook gave is a finite number from 0 on."""
    number = isinstance(given, int | float) and not isinstance(given, bool)
    return number and 0 <= given < math.inf  # type: ignore[operator]


def _whose(group: str, name: str) -> str | None:
    points = _found(group).get(name)
    return None if points is None else _owner(points[0])


@cache
def _found(group: str) -> dict[str, tuple[EntryPoint, ...]]:
    # What is installed is asked for where a name is not hetsim's own.
    from importlib.metadata import entry_points

    by_name: dict[str, dict[tuple[str, str], EntryPoint]] = {}
    for point in entry_points(group=group):
        # The same installation is met twice where two entries of sys.path lead to it.
        by_name.setdefault(point.name, {}).setdefault((_owner(point), point.value), point)
    return {name: tuple(points[key] for key in sorted(points)) for name, points in by_name.items()}


def _owner(point: EntryPoint) -> str:
    return f"package '{point.dist.name}'" if point.dist is not None else f"'{point.value}'"
