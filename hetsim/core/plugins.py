"""Registry of entries by name: hetsim's own and those of other packages' entry points."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin

from hetsim.core.checks import shown
from hetsim.errors import HetsimError, PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


OWN = "hetsim"
"""Provider of hetsim's own entries."""

PROMISES: Mapping[str, str] = {
    "connected": "each group is weakly connected, ignoring constants",
    "latency": "minimizes the latency of one request",
    "throughput": "minimizes the time per request with many in flight",
    "replicas": "may place replicas of the whole model on several devices and distribute requests",
    "proof": "reports whether the plan is proven optimal of its kind, or its optimality gap",
}
"""Promises that an entry may make beyond those of all: no cycles, and sufficient memory."""


@dataclass(frozen=True, slots=True)
class Option:
    """Option of an entry, as a user writes it.

    Attributes
    ----------
    name : str
        The keyword in Python, and ``--set NAME=VALUE`` on the command line.
    kind : str
        Values that it takes.
    default : str
        Default value; empty without one.
    meaning : str
        Effect in plain text; empty if undocumented.
    """

    name: str
    kind: str
    default: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """Merge method or strategy.

    Attributes
    ----------
    name : str
    usage : str
        Syntax, with what may follow a colon.
    summary : str
        Description in one line.
    promises : tuple of str
        Keys of PROMISES.
    needs : tuple of str
        Requirements, in words.
    provider : str
        ``hetsim``, or the package that adds it.
    """

    name: str
    usage: str
    summary: str
    promises: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    provider: str = OWN
    _options: Callable[[], tuple[Option, ...]] = field(default=tuple, repr=False, compare=False)

    @property
    def options(self) -> tuple[Option, ...]:
        """Options of the entry, its own first; read on demand with the code that defines them."""
        return self._options()


def meanings(kind: Any) -> dict[str, str]:
    """Return the text of each field from the ``Attributes`` section of a class and its bases.

    Each is one line without markup. Empty if docstrings are stripped.
    """
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        lines = inspect.cleandoc(base.__doc__ or "").splitlines()
        if "Attributes" not in lines:
            continue
        names: list[str] = []
        for line in lines[lines.index("Attributes") + 2 :]:
            if line.startswith(" ") and names:
                for name in names:
                    found[name] = f"{found.get(name, '')} {line.strip()}".strip()
            elif re.match(r"\w+(, \w+)*( : |$)", line):
                names = line.partition(" : ")[0].split(", ")
                found.update(dict.fromkeys(names, ""))
            elif line:
                break
    return {name: text.replace("``", "").replace("`", "") for name, text in found.items()}


def kind_in_words(hint: Any) -> str:
    """Return the values that a type accepts, as the command line writes them."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(parts)
    if origin in (UnionType, Union):
        return " or ".join(kind_in_words(part) for part in parts if part is not type(None))
    if origin is tuple:
        return f"list of {kind_in_words(parts[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"JSON of {kind_in_words(parts[1])} by name"
    if is_dataclass(hint):
        return f"JSON of {'/'.join(field.name for field in fields(hint))}"
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    return words.get(hint, f"JSON of {getattr(hint, '__name__', hint)}")


Gives = TypeVar("Gives")

GROUPS = ("hetsim.devices", "hetsim.strategies", "hetsim.cost_models")


def plugin_names(group: str) -> tuple[str, ...]:
    """Return the names that installed packages add to a group, sorted, without importing them."""
    return tuple(sorted(_found(group)))


def load_plugin(group: str, name: str) -> Any:
    """Import the object that an installed package registers as `name`.

    Raises
    ------
    PluginError
        If two packages claim the name, or the package cannot be imported; the error names it.
    KeyError
        If no package has the name.
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
    """Return the package that adds `name`, or the path of its code. Raises KeyError for none."""
    point = _found(group)[name][0]
    return point.dist.name if point.dist is not None else point.value


def plugin_complaints(group: str, own: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return one message for each broken plugin of a group; the others can be used.

    `own` are the names of hetsim itself, which no package may claim.
    """
    found: list[str] = []
    for name, points in sorted(_found(group).items()):
        if name in own:
            owners = " and ".join(map(_owner, points))
            found.append(f"{owners} adds '{name}' to {group}, which hetsim itself defines")
            continue
        try:
            load_plugin(group, name)
        except PluginError as error:
            found.append(str(error))
    return tuple(found)


def asked(group: str, name: str, hook: str, call: Callable[[], Gives]) -> Gives:
    """Return the result of `call`, which calls `hook` of a plugin; its errors name the plugin.

    Raises
    ------
    PluginError
        If the hook raises an error other than hetsim's; it names package and hook.
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
            hint="report it to the package's maintainers",
        ) from error


def wrong_type_error(group: str, name: str, hook: str, gave: object, wanted: str) -> PluginError:
    """Return the error for a hook's result of the wrong type."""
    return PluginError(
        f"'{hook}' of '{name}' of {group} returned {shown(gave)}, not {wanted}",
        where=_whose(group, name),
        hint="report it to the package's maintainers",
    )


def checked_answer(
    group: str,
    name: str,
    hook: str,
    call: Callable[[], Gives],
    wanting: Callable[[Gives], str | None],
) -> Gives:
    """Return the result of ``asked`` if `wanting` accepts it.

    Raises
    ------
    PluginError
        As in ``asked``; also if `wanting` rejects the result, with the type that it requires.
    """
    given = asked(group, name, hook, call)
    wanted = wanting(given)
    if wanted is not None:
        raise wrong_type_error(group, name, hook, given, wanted)
    return given


def is_amount(given: object) -> bool:
    """Return whether a hook's result is a finite number of at least 0."""
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
