"""Affinity files: JSON or YAML, with errors located by line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictStr

from hetsim.core import checks
from hetsim.errors import UsageError, closest
from hetsim.hardware.files.schema import Strict, parse, parse_file, refusal
from hetsim.hardware.files.yaml_source import Complaint, YamlFile, read_yaml
from hetsim.partitioning.affinity import Affinity, Exclusion
from hetsim.partitioning.deconflict import parse_priority

SCHEMA = "hetsim-affinity/1"
_HOLDS = "which node runs on which device"
_WITH_GROUPS = ("hetsim-partition/", "hetsim-plan/")
"""Prefixes of schemas whose groups place every node and so serve as complete affinities."""

Names = Annotated[tuple[StrictStr, ...], Field(min_length=1)]


def _priority(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return list(parse_priority(given))
    except UsageError as error:
        raise refusal(error.what, error.hint or "") from None


def _schema(given: Any) -> Any:
    if given != SCHEMA:
        raise refusal(f"KEY is '{given}'", f"write '{SCHEMA}' or leave it out")
    return given


class ExclusionModel(Strict):
    """Entry of ``exclude:``."""

    device: StrictStr | None = None
    ops: tuple[StrictStr, ...] = ()
    nodes: tuple[StrictStr, ...] = ()


class AffinityModel(Strict):
    """Content of an affinity file."""

    schema_: Annotated[StrictStr | None, BeforeValidator(_schema)] = Field(
        default=None, alias="schema"
    )
    pins: dict[str, StrictStr] = Field(default_factory=dict)
    exclude: tuple[ExclusionModel, ...] = ()
    priority: Annotated[Names | None, BeforeValidator(_priority)] = None
    default: StrictStr | None = None


class _GroupModel(Strict):
    device: StrictStr
    nodes: Names


@checks.takes(source=checks.path)
def load_affinity(source: str | os.PathLike[str]) -> Affinity:
    """Return the affinity of a file.

    Parameters
    ----------
    source : path or str
        JSON or YAML file in one of three forms: ``pins`` (node: device), ``exclude`` (a list of
        ``device``, ``ops``, ``nodes``), ``priority`` and ``default``, all optional; or only ``node:
        device`` entries; or the output of ``hetsim partition --json`` or a saved plan of one
        replica, whose groups then are the pins.

    Raises
    ------
    InvalidInput
        If the file is missing, broken, or has other content; the error names the line. Names are
        checked only against a problem, by ``Affinity.on``.
    """
    shown = os.fspath(source)
    file = read_yaml(Path(source), shown, holds=_HOLDS)
    data = file.data
    schema = data.get("schema")
    if isinstance(schema, str) and schema.startswith(_WITH_GROUPS) and "groups" in data:
        return _of_groups(file)
    if not data.keys() & {field.alias or key for key, field in AffinityModel.model_fields.items()}:
        return _of_pairs(file)
    model = parse_file(AffinityModel, file)
    places: dict[tuple[str | int, ...], str] = {
        (): shown,
        **{("pins", name): _at(file, "pins", name) for name in model.pins},
        **{("exclude", index): _at(file, "exclude", index) for index in range(len(model.exclude))},
        ("priority",): _at(file, "priority"),
        ("default",): _at(file, "default"),
    }
    empty = [
        Complaint(file.line(("exclude", index)), "it excludes nothing", "list 'ops' or 'nodes'")
        for index, wish in enumerate(model.exclude)
        if not wish.ops and not wish.nodes
    ]
    file.refuse(empty)
    return Affinity(
        pins=dict(model.pins),
        exclude=tuple(Exclusion(wish.device, wish.ops, wish.nodes) for wish in model.exclude),
        priority=model.priority,
        default=model.default,
        places=places,
    )


KEYS = ("pins", "exclude", "priority", "default")
PAIRS_OR_KEYS = "write node: device, or use the keys pins, exclude, priority and default"


def _of_pairs(source: YamlFile) -> Affinity:
    """Return the affinity of a file with only ``node: device`` entries."""
    complaints = [
        Complaint(
            source.line((name,)),
            f"'{name}' has no device",
            f"{closest(name, KEYS)} {PAIRS_OR_KEYS}".lstrip(),
        )
        for name, device in source.data.items()
        if not isinstance(device, str)
    ]
    source.refuse(complaints)
    places: dict[tuple[str | int, ...], str] = {(): source.shown}
    places.update((("pins", name), _at(source, name)) for name in source.data)
    return Affinity(pins={name: str(device) for name, device in source.data.items()}, places=places)


def _of_groups(source: YamlFile) -> Affinity:
    groups = source.data["groups"]
    if not isinstance(groups, list):
        raise source.error(("groups",), "'groups' is not a list")
    if "deal" in source.data:
        raise source.error(
            ("deal",),
            "the plan distributes requests over several replicas, so a node has a device in each",
            "save the plan of one replica: plan.replicas[0].save(...)",
        )
    pins: dict[str, str] = {}
    places: dict[tuple[str | int, ...], str] = {(): source.shown}
    complaints: list[Complaint] = []
    for index, entry in enumerate(groups):
        at = ("groups", index)
        known = entry
        if isinstance(entry, dict):
            known = {key: entry[key] for key in ("device", "nodes") if key in entry}
        group, wrong = parse(_GroupModel, source, known, at=at)
        complaints += wrong
        for name in group.nodes if group else ():
            pins[name] = group.device if group else ""
            places["pins", name] = _at(source, *at)
    source.refuse(complaints)
    return Affinity(pins=pins, places=places)


def _at(source: YamlFile, *key: str | int) -> str:
    return f"{source.shown}:{source.line(key)}"
