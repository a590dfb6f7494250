"""YAML files parsed into plain data with the line of each key."""

from __future__ import annotations

import io
import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hetsim.core.files import no_such_file, read_regular
from hetsim.errors import HetsimError, InvalidInput, PlatformError

YamlPath = tuple[str | int, ...]
"""Keys and list positions from the top of a file down to a value."""

MAX_VALUES = 200_000
"""More values than any description needs: what a few nested aliases can expand to is refused."""

MAX_DEPTH = 100
"""Deeper than any description goes: libyaml's trees of thousands of levels overrun the stack."""

_TAG = "tag:yaml.org,2002:"
_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BaseLoader):  # type: ignore[misc]
    """Scalars by the core schema of YAML 1.2: 1e9 is a number, and `no` is text."""

    yaml_implicit_resolvers: Mapping[str, list[Any]] = {}


def _resolve_scalars() -> None:
    import re

    rules = (
        ("null", r"~|null|Null|NULL|", "~nN"),
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("int", r"[-+]?[0-9]+", "-+0123456789"),
        (
            "float",
            r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
            "-+.0123456789",
        ),
    )
    for name, pattern, first in rules:
        starts = [*first, ""] if name == "null" else list(first)
        _Loader.add_implicit_resolver(f"{_TAG}{name}", re.compile(f"^(?:{pattern})$"), starts)


_resolve_scalars()


@dataclass(frozen=True, slots=True, order=True)
class Complaint:
    """Error in a file: its line, the problem, and the remedy."""

    line: int
    what: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class YamlFile:
    """One YAML file.

    - `shown`: the file's name in errors.
    - `data`: its contents as dicts, lists and scalars.
    - `lines`: line of each key or list item, from 1.
    - `kind`: what is raised where something in it is wrong.
    """

    path: Path
    shown: str
    data: Mapping[str, Any]
    lines: Mapping[YamlPath, int] = field(repr=False)
    kind: type[InvalidInput] = PlatformError

    def line(self, path: YamlPath) -> int:
        """Line of `path`, or of the nearest place above it that the file has."""
        for end in range(len(path), 0, -1):
            found = self.lines.get(path[:end])
            if found is not None:
                return found
        return self.lines[()]

    def entries(self, key: str) -> Mapping[str, Any]:
        """Return the mapping under a key of the top level; empty where it is none."""
        entries = self.data.get(key)
        return entries if isinstance(entries, Mapping) else {}

    def error(self, path: YamlPath, what: str, hint: str | None = None) -> InvalidInput:
        """Return the error for a problem at `path`."""
        return self.kind(what, where=f"{self.shown}:{self.line(path)}", hint=hint)

    def complaint(self, path: YamlPath, error: HetsimError) -> Complaint:
        """Return the complaint about the file or name at `path` that led to an error."""
        what = f"{error.where}: {error.what}" if error.where else error.what
        return Complaint(self.line(path), what, error.hint or "")

    def refuse(self, complaints: Iterable[Complaint]) -> None:
        """Raise one error that has the first complaint and lists the lines of the others.

        Does nothing where there is no complaint.
        """
        ordered = sorted(set(complaints))
        if not ordered:
            return
        first, rest = ordered[0], ordered[1:]
        hint = first.hint
        if rest:
            lines = [str(number) for number in dict.fromkeys(item.line for item in rest)]
            shown = ", ".join(lines[:5]) + (", ..." if len(lines) > 5 else "")
            more = f"{len(rest)} more on line{'s' if len(lines) > 1 else ''} {shown}"
            hint = f"{hint} (and {more})" if hint else f"and {more}"
        raise self.kind(first.what, where=f"{self.shown}:{first.line}", hint=hint or None)


def read_yaml(
    path: Path,
    shown: str | None = None,
    *,
    holds: str = "a device or a platform",
    kind: type[InvalidInput] = PlatformError,
) -> YamlFile:
    """Read the mapping in the file at `path`, YAML or JSON.

    - `shown`: what errors call it; absent: the path itself.
    - `holds`: what the mapping should describe, for hints.
    - `kind`: what is raised where the file is wrong.

    Raises InvalidInput of this kind, where it is no readable file, not UTF-8, not YAML, or not one
    mapping; where a key appears twice or is no text, or a value has a tag that plain data does not
    need.
    """
    shown = os.fspath(path) if shown is None else shown
    text = _text(path, shown, holds, kind)
    try:
        _check_size(text, shown, kind)
        root = yaml.compose(text, Loader=_Loader)
        if root is None or (isinstance(root, yaml.ScalarNode) and not root.value):
            raise kind("the file is empty", where=f"{shown}:1", hint=f"describe {holds}")
        if not isinstance(root, yaml.MappingNode):
            raise kind(
                "the top level of the file is not a mapping",
                where=f"{shown}:{_line(root)}",
                hint="write 'key: value' lines",
            )
        builder = _Builder(shown, kind)
        return YamlFile(path, shown, builder.mapping(root, ()), builder.lines, kind)
    except yaml.YAMLError as error:
        raise _syntax_error(error, shown, text, kind) from None
    except RecursionError:
        raise kind(
            "values are nested too deep, or contain themselves", where=f"{shown}:1"
        ) from None


def _text(path: Path, shown: str, holds: str, kind: type[InvalidInput]) -> str:
    # A Path raises for names that are too long.
    if os.path.isdir(path):
        raise kind("this is a directory", where=shown, hint="name a .yaml file in it")
    try:
        # Lines end in one way, as in every file that is opened as text.
        return io.TextIOWrapper(io.BytesIO(read_regular(path)), encoding="utf-8").read()
    except FileNotFoundError:
        raise no_such_file(kind, path, shown) from None
    except UnicodeDecodeError:
        raise kind(
            "not UTF-8 text", where=shown, hint=f"name a YAML description of {holds}"
        ) from None
    except ValueError as error:
        raise kind(f"cannot be read: {error}", where=shown) from None
    except OSError as error:
        raise kind(f"cannot be read: {error.strerror}", where=shown) from None


def _check_size(text: str, shown: str, kind: type[InvalidInput]) -> None:
    """Raise where a text has more values, or deeper ones, than a file may have; keeps nothing."""
    count = depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        count += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        # A key is as good as a value here.
        if count > 2 * MAX_VALUES or depth > MAX_DEPTH:
            line = 1 if event.start_mark is None else event.start_mark.line + 1
            what = f"more than {MAX_VALUES} values"
            if depth > MAX_DEPTH:
                what = f"values are nested too deep: more than {MAX_DEPTH} levels"
            raise kind(what, where=f"{shown}:{line}", hint="shorten the file")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax_error(
    error: yaml.YAMLError, shown: str, text: str, kind: type[InvalidInput]
) -> InvalidInput:
    mark = getattr(error, "problem_mark", None)
    if str(getattr(error, "context", "")).startswith("while parsing a flow"):
        # What an unclosed bracket breaks may stand far below it.
        mark = getattr(error, "context_mark", None) or mark
    if mark is not None:
        line = min(mark.line + 1, max(1, len(text.splitlines())))
        reason = str(getattr(error, "problem", None) or "it cannot be parsed")
    else:
        position = getattr(error, "position", 0)
        line = text.count("\n", 0, position) + 1
        reason = str(getattr(error, "reason", None) or "it cannot be parsed")
    hint = "indent with spaces" if "\\t" in reason or "'\t'" in reason else None
    return kind(f"not YAML: {' '.join(reason.split())}", where=f"{shown}:{line}", hint=hint)


class _Builder:
    """Turns parsed YAML nodes into plain data and notes the line of every key."""

    def __init__(self, shown: str, kind: type[InvalidInput]) -> None:
        self.shown = shown
        self.kind = kind
        self.lines: dict[YamlPath, int] = {}
        self.count = 0

    def mapping(self, node: yaml.MappingNode, path: YamlPath) -> dict[str, Any]:
        self.lines.setdefault(path, _line(node))
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.value(key_node, ()) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                raise self.error(key_node, "a key that is not text", "put the key in quotes")
            here = (*path, key)
            if key in built:
                raise self.error(
                    key_node,
                    f"the key '{key}' appears twice",
                    f"it is also on line {self.lines[here]}: keep one",
                )
            self.lines[here] = _line(key_node)
            built[key] = self.value(value_node, here)
        return built

    def value(self, node: yaml.Node, path: YamlPath) -> Any:
        self.count += 1
        if self.count > MAX_VALUES:
            raise self.error(node, f"more than {MAX_VALUES} values", "use fewer aliases")
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            items: list[Any] = []
            for index, item in enumerate(node.value):
                here = (*path, index)
                self.lines.setdefault(here, _line(item))
                items.append(self.value(item, here))
            return items
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        raise self.error(node, f"the tag '{node.tag}' is not allowed", "use plain data")

    def scalar(self, node: yaml.ScalarNode) -> Hashable:
        text = node.value
        sort = node.tag.removeprefix(_TAG)
        try:
            if sort == "str":
                return str(text)
            if sort == "null":
                return None
            if sort == "bool":
                return bool({"true": True, "false": False}[text.lower()])
            if sort == "int":
                return int(text)
            if sort == "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except (KeyError, ValueError):
            raise self.error(node, f"'{text[:40]}' is not of type {sort}") from None
        raise self.error(node, f"the tag '{node.tag}' is not allowed", "use plain data")

    def error(self, node: yaml.Node, what: str, hint: str | None = None) -> InvalidInput:
        return self.kind(what, where=f"{self.shown}:{_line(node)}", hint=hint)
