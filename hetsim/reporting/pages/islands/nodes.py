"""What the report of ``hetsim nodes`` shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hetsim.core.text import tally, to_compact_json
from hetsim.reporting.pages.figures import Bar, bars, colour, pattern
from hetsim.reporting.pages.island import Island, Section, Table, Tile, Verdict, table
from hetsim.reporting.pages.islands.shared import Found, nbytes, provenance_section, seconds
from hetsim.reporting.pages.subgraphs import subgraphs_section
from hetsim.reporting.words.text import ABSENT, count, difference_text, listed, percent

ROOM_BYTES = 200_000
"""What the record may take of a page; above, only nodes are in it that are worth a line."""

NAMED = 6
"""Devices that the verdict names."""

ROWS_MOST = 300
"""Nodes, and reasons, that are told one by one."""


def nodes_island(record: Found, command: Sequence[str], pictures: Mapping[str, Any]) -> Island:
    """Return what a record of nodes shows, as ``nodes_record`` gives it and JSON holds it.

    Parameters
    ----------
    record : mapping
    command : sequence of str
    pictures : mapping
        ``subgraphs``: of the plan, where there is one.
    """
    nodes = record["nodes"]
    devices = record["problem"]["devices"]
    sections = [_units(record, devices), _nodes(record), _refusals(record)]
    return Island(
        kind="nodes",
        title=f"Which unit runs each node of {record['problem']['name']}",
        command=tuple(command),
        record=_lean(record),
        verdict=Verdict(
            _say(record, devices), _binds(record), tuple(_levers(record)), _sure(record)
        ),
        tiles=tuple(_tiles(record, devices)),
        sections=(*sections, *subgraphs_section(pictures), provenance_section(record["problem"])),
        pictures={**pictures, **_bars(record, nodes, devices)},
    )


def _lean(record: Found) -> Found:
    """Return the record without what follows from the rest, then with fewer nodes, as they fit."""
    if len(to_compact_json(record)) <= ROOM_BYTES:
        return record
    less = {**record, "file_nodes": [], "kernels": [], "transfers": [], "groups": []}
    room = ROOM_BYTES - len(to_compact_json({**less, "nodes": []}))
    kept = []
    for node in _in_order(record["nodes"]):
        room -= len(to_compact_json(node)) + 1
        if room < 0:
            break
        kept.append(node)
    return {**less, "nodes": kept, "nodes_left_out": len(record["nodes"]) - len(kept)}


def _in_order(nodes: Sequence[Found]) -> list[Found]:
    """What falls back, the dearest first; then what is refused somewhere; then what takes long."""
    return sorted(
        nodes,
        key=lambda node: (
            not node["falls_back"],
            -(node["cost_s"] or 0.0),
            not any(one["takes"] == "no" for one in node["devices"]),
            -(node["seconds"] or node["preferred_s"] or 0.0),
        ),
    )


def _able(node: Found) -> list[str]:
    return [one["device"] for one in node["devices"] if one["takes"] != "no"]


def _takes(nodes: Sequence[Found], devices: Sequence[str]) -> list[int]:
    """By device: how many nodes it takes. O(nodes x devices)."""
    found = Counter(name for node in nodes for name in _able(node))
    return [found[name] for name in devices]


def _say(record: Found, devices: Sequence[str]) -> str:
    nodes = record["nodes"]
    if record["strategy"] is None:
        numbers = zip(devices, _takes(nodes, devices), strict=True)
        takes = [f"{name} {number}" for name, number in numbers]
        more = f", and {len(takes) - NAMED} more devices" if len(takes) > NAMED else ""
        told = f"{', '.join(takes[:NAMED])}{more}"
        text = f"How many of {count(len(nodes), 'node')} each device takes: {told}"
        none = sum(not _able(node) for node in nodes)
        return f"{text}; {none} by none." if none else f"{text}."
    fallen = [node for node in nodes if node["falls_back"]]
    runs = tally(str(node["device"]) for node in nodes)
    text = f"{record['strategy']} has {count(len(nodes), 'node')} on {listed(runs)}"
    if not fallen:
        return f"{text}; none falls back."
    falls = "falls" if len(fallen) == 1 else "fall"
    wanted = "the device that is best for them" if record["wanted"] is None else record["wanted"]
    return f"{text}; {len(fallen)} {falls} back from {wanted}."


def _binds(record: Found) -> str:
    fallen = [node for node in record["nodes"] if node["falls_back"]]
    if not fallen:
        return ""
    kernels_s = sum(node["cost_s"] - node["moves_s"] for node in fallen
                    if node["cost_s"] is not None)  # fmt: skip
    moves_s = sum(node["moves_s"] for node in fallen)
    moved = round(sum(node["moved_bytes"] for node in fallen))
    return (
        f"Falling back costs {difference_text(kernels_s)} in kernels and "
        f"{difference_text(moves_s)} in transfers ({nbytes(moved)}), "
        "if all others stay where they are."
    )


def _levers(record: Found) -> list[str]:
    reasons = _reasons(record["nodes"])
    found = [
        f"{device} takes {count(number, 'node more', 'nodes more')} without this: {why}."
        for (device, why), number in reasons.most_common(3)
    ]
    found.append("hetsim lint says which change would save time, planned again.")
    return found


def _reasons(nodes: Sequence[Found]) -> Counter[tuple[str, str]]:
    return Counter(
        (one["device"], str(one["why_not"] or ABSENT))
        for node in nodes
        for one in node["devices"]
        if one["takes"] == "no"
    )


def _sure(record: Found) -> str:
    if record["strategy"] is None:
        return "Times are those of a node by itself, or its share of a kernel of several."
    return "Times are shares of the kernels that the plan launches; they add up to them."


def _tiles(record: Found, devices: Sequence[str]) -> list[Tile]:
    nodes = record["nodes"]
    found = [Tile("nodes", str(len(nodes)), f"on {count(len(devices), 'device')}")]
    everywhere = sum(len(_able(node)) == len(devices) for node in nodes)
    found.append(
        Tile("taken everywhere", str(everywhere), percent(everywhere / max(len(nodes), 1)))
    )
    if record["strategy"] is not None:
        fallen = [node for node in nodes if node["falls_back"]]
        cost_s = sum(node["cost_s"] or 0.0 for node in fallen)
        note = f"{difference_text(cost_s)} in all" if fallen else "every node is where it is best"
        found.append(Tile("fall back", str(len(fallen)), note))
    return found


def _units(record: Found, devices: Sequence[str]) -> Section:
    nodes = record["nodes"]
    rows = []
    for name, takes in zip(devices, _takes(nodes, devices), strict=True):
        here = [node for node in nodes if node["device"] == name]
        preferred = sum(node["preferred"] == name for node in nodes)
        rows.append(
            (
                name,
                str(takes),
                str(preferred),
                ABSENT if record["strategy"] is None else str(len(here)),
                seconds(sum(node["seconds"] or 0.0 for node in here))
                if record["strategy"] is not None
                else ABSENT,
            )
        )
    return Section(
        "units",
        "Units",
        "How many nodes each device takes, by itself or within a kernel of several."
        if record["strategy"] is None
        else "What the plan has on each device, by the time of its kernels.",
        (table("Devices", ("device", "#takes", "#is best for", "#runs", "#time"), rows),),
        open=True,
        order=5,
    )


def _bars(record: Found, nodes: Sequence[Found], devices: Sequence[str]) -> dict[str, Any]:
    if record["strategy"] is None:
        figures = [(float(at), f"{at} of {len(nodes)}") for at in _takes(nodes, devices)]
    else:
        spent = [[node["seconds"] or 0.0 for node in nodes if node["device"] == name]
                 for name in devices]  # fmt: skip
        figures = [
            (float(sum(own)), f"{seconds(sum(own))}, {count(len(own), 'node')}") for own in spent
        ]
    made = [
        Bar(name, value, text, colour(place), pattern(place))
        for place, (name, (value, text)) in enumerate(zip(devices, figures, strict=True))
    ]
    if record["strategy"] is None:
        return {"units": bars(made, axis="nodes that it takes", unit="count")}
    return {"units": bars(made, axis="time of its kernels", unit="seconds")}


def _nodes(record: Found) -> Section:
    nodes = _in_order(record["nodes"])
    more = f", {ROWS_MOST} of {len(nodes)}" if len(nodes) > ROWS_MOST else ""
    names = (
        "node", "op", "runs on", "best on", "#moves", "#cost", "why not there", "elsewhere",
    )  # fmt: skip
    rows = [
        (
            node["name"],
            node["op"],
            _on(node["device"], node["seconds"]),
            _on(node["preferred"], node["preferred_s"]),
            seconds(node["moves_s"]) if node["falls_back"] else ABSENT,
            difference_text(node["cost_s"]) if node["falls_back"] else ABSENT,
            node["why"] or ABSENT,
            _elsewhere(node),
        )
        for node in nodes[:ROWS_MOST]
    ]
    left = record.get("nodes_left_out", 0)
    told = f" {count(left, 'node')} more did not fit the page that this is of." if left else ""
    return Section(
        "nodes",
        "Nodes",
        "Every node of the canonical model: what falls back first, the dearest on top, then what "
        f"some device refuses.{told}",
        (table(f"Nodes{more}", names, rows),),
        open=True,
        order=10,
    )


def _on(device: str | None, taken_s: float | None) -> str:
    if device is None:
        return ABSENT
    return device if taken_s is None else f"{device} {seconds(taken_s)}"


def _elsewhere(node: Found) -> str:
    told = [
        f"{one['device']}: {one['why_not'] or 'refused'}"
        if one["takes"] == "no"
        else f"{one['device']} {seconds(one['seconds'])}"
        for one in node["devices"]
        if one["device"] not in (node["device"], node["preferred"])
    ]
    return "; ".join(told) or ABSENT


def _refusals(record: Found) -> Section:
    reasons = _reasons(record["nodes"]).most_common()
    more = f", {ROWS_MOST} of {len(reasons)}" if len(reasons) > ROWS_MOST else ""
    tables: tuple[Table, ...] = (
        table(
            f"Reasons{more}",
            ("device", "#nodes", "why not"),
            [(device, str(number), why) for (device, why), number in reasons[:ROWS_MOST]],
        ),
    )
    return Section(
        "refusals",
        "Refusals",
        "Why devices do not take nodes, by how many nodes that is so of.",
        tables,
        open=True,
        order=15,
    )
