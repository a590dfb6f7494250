"""What is wrong with how the links of a platform file join its devices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hetsim.errors import nearest
from hetsim.hardware.files.yaml_source import Complaint, Source, YamlPath
from hetsim.hardware.routes import unreached
from hetsim.hardware.spec import Link


def link_complaints(
    source: Source, entries: Sequence[Any], devices: Collection[str]
) -> list[Complaint]:
    """Return what is wrong with the ends and names of the entries of ``links:``.

    What an entry says in no readable form is left to the model of an entry.
    """
    complaints: list[Complaint] = []
    lines_by_name: dict[str, int] = {}
    for index, entry in enumerate(entries):
        at: YamlPath = ("links", index)
        ends = _ends(entry)
        if ends is None:
            continue
        for position, end in enumerate(ends):
            if devices and end not in devices:
                line = source.line((*at, "between", position))
                what = f"link to an unknown device '{end}'"
                complaints.append(Complaint(line, what, nearest(end, devices)))
        if ends[0] == ends[1]:
            line = source.line((*at, "between"))
            what = f"link of '{ends[0]}' with itself"
            complaints.append(Complaint(line, what, "name two devices that differ"))
        name = entry.get("name") or link_name(ends)
        if not isinstance(name, str):
            continue
        line = source.line((*at, "name"))
        if name in lines_by_name:
            hint = f"the other is on line {lines_by_name[name]}: give each a 'name' of its own"
            complaints.append(Complaint(line, f"two links named '{name}'", hint))
        lines_by_name.setdefault(name, line)
    return complaints


def memory_complaints(source: Source, entries: Any, devices: Collection[str]) -> list[Complaint]:
    """Return what is wrong with the devices of the entries of ``memories:``.

    What an entry says in no readable form is left to the model of an entry.
    """
    complaints: list[Complaint] = []
    lines: dict[str, int] = {}
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        names = entry.get("devices") if isinstance(entry, Mapping) else None
        for position, name in enumerate(names if isinstance(names, list) else ()):
            if not isinstance(name, str):
                continue
            line = source.line(("memories", index, "devices", position))
            if devices and name not in devices:
                what = f"memory of an unknown device '{name}'"
                complaints.append(Complaint(line, what, nearest(name, devices)))
            elif name in lines:
                what = f"'{name}' has a memory already, on line {lines[name]}"
                complaints.append(Complaint(line, what, "name each device once"))
            lines.setdefault(name, line)
    return complaints


def _ends(entry: Any) -> list[str] | None:
    ends = entry.get("between") if isinstance(entry, Mapping) else None
    if not isinstance(ends, list) or len(ends) != 2:
        return None
    return ends if all(isinstance(end, str) for end in ends) else None


def link_name(ends: Sequence[str]) -> str:
    """Return the name of a link that states none."""
    return "-".join(ends)


def unreachable(
    source: Source, host: str, devices: Mapping[str, Any], links: Sequence[Link]
) -> list[Complaint]:
    """Return a complaint for each device that no chain of links joins to `host`. O(P + L)."""
    return [
        Complaint(
            source.line(("devices", name)),
            f"no link leads from the host '{host}' to '{name}'",
            f"add a link with between: [{host}, {name}]",
        )
        for name in unreached(host, devices, links)
    ]
