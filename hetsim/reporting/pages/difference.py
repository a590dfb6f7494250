"""Difference of two answers of one kind, and of their questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hetsim.core.text import Record, tally
from hetsim.core.units import format_seconds
from hetsim.errors import InvalidInput, UsageError
from hetsim.reporting.formatting import ABSENT, count, listed, time_text
from hetsim.reporting.pages.page import Island, PageVerdict, Section, table
from hetsim.reporting.pages.records import RecordChange, beside, changes, headline, same, tiles
from hetsim.reporting.pages.saved import SavedAnswer, whole
from hetsim.sweeping.rows import ASKED

ROWS_MOST = 500
"""Maximum number of figures, and of nodes, that are listed one by one."""

_NO_FIGURES = ("problem", "served", "arrivals", "schema", "verdict", "profiles", "measured",
               "rows_file")  # fmt: skip

_OPTIONS = (
    "objective", "objectives", "draws", "draw_seed", "sustained", "seed", "requests", "target_s",
    "arrivals", "rate_per_s", "max_devices", "unit", "kinds", "policies", "executor", "precision",
)  # fmt: skip
"""Entries of a record that state the question or the method."""

_SORTS = {
    "model": "model", "platform": "platform", "devices": "platform", "host": "platform",
    "figures": "figures", "profiles": "figures", "measured": "figures",
    "contention": "options", "execute": "options", "cost": "options", "pessimistic": "options",
}  # fmt: skip
"""Sort of difference of each entry of a problem."""

_EVIDENCE = ("of", "source", "status", "before", "precision", "runtime", "kin", "within_80",
             "measured_share", "sha256")  # fmt: skip
"""Fields of the evidence of a device or link."""

_TARGETS = ("--report", "--trace", "--out", "-o", "--force", "--json", "--quiet", "-q", "--wide")
"""Options for output, which are no part of the question."""


def difference_island(first: SavedAnswer, second: SavedAnswer, command: Sequence[str]) -> Island:
    """Return the difference of two answers as a page.

    Raises UsageError if they are of two kinds, InvalidInput if one is damaged.
    """
    if first.kind != second.kind:
        raise UsageError(
            f"'{first.source}' is of '{first.kind}', '{second.source}' of '{second.kind}'",
            hint="give two of one kind, or use --index for both on one page",
        )
    with whole(first, second):
        why = causes(first, second)
        figures = [one for one in changes(_figures(first), _figures(second))
                   if not {"problem", "fingerprint", "sha256"}.intersection(one.path)]  # fmt: skip
        top = beside(headline(first.record), headline(second.record))
        moved = _moved(placed(first), placed(second))
        tables = [_figures_table("The answer", top)]
        if figures:
            rest = f", the first {ROWS_MOST} listed" * (len(figures) > ROWS_MOST)
            title = f"All differences: {count(len(figures), 'figure')}{rest}"
            tables.append(_figures_table(title, figures[:ROWS_MOST]))
        return Island(
            kind="difference",
            title=f"Difference of {first.source} and {second.source}",
            command=tuple(command),
            record=_record(first, second, why, figures, moved),
            verdict=PageVerdict(_say(top, figures, moved), _because(first, second, why, bool(
                figures or any(one.nodes for one in moved)))),
            tiles=tuple(tiles(top, _note)),
            sections=(
                _why_section(why),
                *([_nodes_section(moved)] if moved else []),
                Section(
                    "figures",
                    "Figures",
                    "Every figure that differs, by its place in the record; all others are equal.",
                    tuple(tables),
                    open=True,
                    order=30,
                ),
                _answers_section(first, second),
            ),
        )  # fmt: skip


def _figures(left: SavedAnswer) -> Record:
    """Answer of a record without its question; for a sweep its rows by question."""
    found = {key: value for key, value in left.record.items() if key not in _NO_FIGURES}
    if left.rows:
        found["rows"] = {}
        for row in left.rows:
            asked = ", ".join(str(row[name]) for name in ASKED if row.get(name) is not None)
            answer = {key: value for key, value in row.items()
                      if key not in (*ASKED, "key") and value is not None}  # fmt: skip
            found["rows"].setdefault(asked, answer)
    return found


@dataclass(frozen=True, slots=True)
class Cause:
    """Difference in one part of the question.

    ``sort`` is ``model``, ``platform``, ``figures``, ``options`` or ``versions``.
    """

    sort: str
    change: RecordChange


def causes(first: SavedAnswer, second: SavedAnswer) -> list[Cause]:
    """Return the differences of two questions, model and platform first."""
    was, now = (_question(left) for left in (first, second))
    commands = [_words(left.command) for left in (first, second)]
    if all(commands):
        for one, words in zip((was, now), commands, strict=True):
            one["options"].update(words)
    # An entry that only one record has is no difference.
    for one, other in ((was, now), (now, was)):
        one["versions"] = {key: one["versions"][key] for key in sorted(one["versions"])
                           if key in other["versions"]}  # fmt: skip
        # A device that only one of both has counts as one difference.
        for name, part in one["figures"].items():
            if name not in other["figures"] and isinstance(part, dict):
                told = (part.get(key) for key in ("of", "source", "status", "precision"))
                one["figures"][name] = ", ".join(str(word) for word in told if word)
    return [Cause(sort, change) for sort in was for change in changes(was[sort], now[sort])]


def _question(left: SavedAnswer) -> dict[str, Record]:
    """Question of an answer by sort: model, platform, figures, options, versions."""
    record = left.record
    found: dict[str, Record] = {
        sort: {} for sort in ("model", "platform", "figures", "options", "versions")
    }
    for number, problem in enumerate(_problems(left)):
        for key, value in _entries(problem):
            part, name = found[_SORTS[key[0]]], key[1]
            if part.setdefault(name, value) != value:
                part[f"{name}, problem {number + 1}"] = value
    found["options"].update({key: record[key] for key in _OPTIONS if key in record})
    served = record.get("served")
    for one in served if isinstance(served, list) else []:
        found["options"][f"served {one['model']}"] = one["text"]
    plan = record.get("plan", record if left.kind == "plan" else {})
    if isinstance(plan, dict) and "strategy" in plan:
        if "--strategy" not in left.command:
            found["options"]["strategy"] = plan["strategy"]
        found["options"].update(plan["options"] if isinstance(plan.get("options"), dict) else {})
    versions = (left.manifest or {}).get("versions")
    found["versions"] = dict(versions) if isinstance(versions, dict) else {}
    return found


def _problems(left: SavedAnswer) -> list[Record]:
    record = left.record
    if left.kind == "plan":
        return [{key: value for key, value in record.items() if value is not None}]
    served, answer = record.get("served"), record.get("answer")
    service = answer.get("service") if isinstance(answer, dict) else None
    holders = [record, *(served if isinstance(served, list) else []), service]
    found = [one.get("problem") for one in holders if isinstance(one, dict)]
    # The platform of a recommendation is its answer.
    asked = _SORTS if service is None else ("model", "contention", "cost", "pessimistic")
    return [
        {key: one[key] for key in asked if key in one} for one in found if isinstance(one, dict)
    ]


def _entries(problem: Record) -> Iterator[tuple[tuple[str, str], Any]]:
    """Entries of a problem with their names in a difference."""
    for key in _SORTS:
        value = problem.get(key)
        if key in ("model", "platform"):
            yield from (((key, name), one) for name, one in (value or {}).items()
                        if name != "observed")  # fmt: skip
        elif key == "devices" and value is not None:
            yield (key, key), ", ".join(value)
        elif key == "figures":
            for sort in ("devices", "links"):
                parts = (value or {}).get(sort)
                yield from _evidence(key, "", parts if isinstance(parts, dict) else {})
        elif key == "profiles":
            yield from _evidence(key, "profile of ", value or {})
        elif key == "measured":
            for name, each in (value or {}).items():
                told = (f"{one['model']} {format_seconds(one['seconds'])}" for one in each)
                yield (key, f"measured on {name}"), ", ".join(told)
        elif key in problem:
            yield (key, key), value


def _evidence(key: str, prefix: str, parts: Record) -> Iterator[tuple[tuple[str, str], Any]]:
    for name, one in parts.items():
        if isinstance(one, dict):
            kept = {word: one[word] for word in _EVIDENCE if word in one}
            yield (key, f"{prefix}{name}"), kept


def _words(command: Sequence[str]) -> dict[str, str]:
    """Words of a command by option, arguments by position; options about output are left out.

    >>> _words(("hetsim", "compare", "zoo:a", "--platform", "laptop", "--json"))
    {'verb': 'compare', 'argument 1': 'zoo:a', '--platform': 'laptop'}
    """
    found: dict[str, str] = {}
    places, skip = 0, False
    for word, after in pairwise([*command[1:], ""] if command else []):
        if skip:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            name, equals, value = word.partition("=")
            if not equals:
                skip = bool(after) and not after.startswith("-")
                value = after if skip else "yes"
            if name not in _TARGETS:
                found[name] = f"{found[name]}, {value}" if name in found else value
        else:
            found["verb" if places == 0 else f"argument {places}"] = word
            places += 1
    return found


@dataclass(frozen=True, slots=True)
class PlacedNodes:
    """Devices of a plan's nodes, and their times where known."""

    plan: str
    device: Mapping[str, str]
    seconds: Mapping[str, float]
    groups: int


def placed(left: SavedAnswer) -> list[PlacedNodes]:
    """Return the placement of each plan of an answer, the first plan first.

    Empty if the answer has no nodes. Raises InvalidInput if its plans are damaged.
    """
    found, record = left.subgraphs(), left.record
    try:
        if found is not None:
            return [_of_columns(found, plan) for plan in found["plans"]]
        if left.kind == "nodes":
            nodes = [one for one in record["nodes"] if one["replica"] == 0 and one["device"]]
            where = {one["name"]: one["device"] for one in nodes}
            taken = {one["name"]: one["seconds"] for one in nodes if one["seconds"] is not None}
            groups = len({one["group"] for one in nodes})
            return [PlacedNodes(str(record["strategy"]), where, taken, groups)] if nodes else []
        plan = left.plan if left.plan is not None else record
        if "groups" not in plan or "deal" in plan:
            return []
        where = {name: group["device"] for group in plan["groups"] for name in group["nodes"]}
        return [PlacedNodes(str(plan["strategy"]), where, {}, len(plan["groups"]))]
    except (KeyError, IndexError, TypeError):
        raise InvalidInput(
            "its plans are damaged", where=left.source, hint="write it again"
        ) from None


def _of_columns(found: Record, plan: Record) -> PlacedNodes:
    names, of = found["name"], plan["device"]
    on = [found["devices"][of[group]] for group in plan["group"]]
    taken = dict(zip(names, plan["seconds"], strict=True))
    return PlacedNodes(plan["name"], dict(zip(names, on, strict=True)), taken, len(of))


@dataclass(frozen=True, slots=True)
class MovedNodes:
    """Two plans, and the nodes that changed device."""

    was: PlacedNodes
    now: PlacedNodes
    nodes: tuple[RecordChange, ...]

    @property
    def name(self) -> str:
        """Name of the pair."""
        was, now = self.was.plan, self.now.plan
        return was if was == now else f"{was} to {now}"

    def row(self, one: RecordChange) -> tuple[str, ...]:
        """Return a node's devices and times before and now."""
        [node], on = one.path, (str(each or "not there") for each in (one.was, one.now))
        return (node, *on, *(time_text(each.seconds.get(node)) for each in (self.was, self.now)))


def _moved(first: list[PlacedNodes], second: list[PlacedNodes]) -> list[MovedNodes]:
    """Pairs of the best plans, then of plans with one name."""
    named = {one.plan: one for one in first}
    pairs = [(first[0], second[0])] if first and second else []
    pairs += [(named[one.plan], one) for one in second if one.plan in named]
    unique = {(was.plan, now.plan): (was, now) for was, now in pairs}
    return [
        MovedNodes(was, now, tuple(changes(was.device, now.device))) for was, now in unique.values()
    ]


def _say(
    top: Sequence[RecordChange], figures: Sequence[RecordChange], moved: Sequence[MovedNodes]
) -> str:
    parts = []
    for one in [each for each in top if not same(each.was, each.now)][:2]:
        by = one.difference()
        more = "" if by in ("changed", "is new", "is gone") else f", {by}"
        parts.append(f"{_became(one)}{more}")
    if not parts and figures:
        parts = [f"{count(len(figures), 'figure')} differ" + "s" * (len(figures) == 1)]
    if moved and moved[0].nodes:
        parts.append(f"{count(len(moved[0].nodes), 'node')} changed device")
    if not parts:
        return "No figure and no node changed."
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _became(one: RecordChange) -> str:
    was, now, _ = one.texts()
    return f"{one.name} changed from {was} to {now}"


def _because(first: SavedAnswer, second: SavedAnswer, why: Sequence[Cause], moved: bool) -> str:
    if not why:
        lacks = [left.source for left in (first, second) if left.manifest is None]
        unknown = f" The versions of {' and '.join(lacks)} are unknown." if lacks else ""
        return f"Model, platform, figures, options and versions are the same.{unknown}"
    *others, last = dict.fromkeys(one.sort for one in why)
    sorts = f"{', '.join(others)} and {last}" if others else last
    told = [_became(one.change) for one in why if not one.change.name.endswith("sha256")][:3]
    told += [f"and {len(why) - len(told)} more"] * (len(why) > len(told))
    effect = "" if moved else " The answer stays the same."
    return f"The questions differ in {sorts}: {'; '.join(told)}.{effect}"


def _note(one: RecordChange) -> str:
    was, _, by = one.texts()
    return "unchanged" if same(one.was, one.now) else f"was {was}: {by}"


def _why_section(why: Sequence[Cause]) -> Section:
    rows = [(one.sort, one.change.name, *one.change.texts()[:2]) for one in why]
    rows = rows or [("none", "no difference", ABSENT, ABSENT)]
    return Section(
        "why",
        "Why",
        "Differences of model, platform, provenance, options and versions; all else is the same or "
        "unknown.",
        (table("Differences of the questions", ("sort", "what", "was", "is"), rows),),
        open=True,
        order=10,
    )


def _nodes_section(moved: Sequence[MovedNodes]) -> Section:
    overview = []
    tables = []
    for one in moved:
        pairs = tally(f"{each.was or 'nowhere'} to {each.now or 'nowhere'}" for each in one.nodes)
        overview.append((one.name, str(one.was.groups), str(one.now.groups), str(len(one.nodes)),
                         listed(pairs) if pairs else ABSENT))  # fmt: skip
        if one.nodes:
            rest = len(one.nodes) - ROWS_MOST
            more = f" ({rest} more are not listed)" * (rest > 0)
            heads = ("node", "was on", "is on", "#time before", "#time now")
            rows = [one.row(node) for node in one.nodes[:ROWS_MOST]]
            tables.append(table(f"Nodes that changed device, {one.name}{more}", heads, rows))
    heads = ("plan", "#subgraphs before", "#now", "#moved nodes", "moves")
    return Section(
        "moved",
        "Nodes",
        "Nodes that changed device, plan by plan, the best plans first.",
        (table("Plans", heads, overview), *tables),
        open=True,
        order=20,
    )


def _figures_table(title: str, found: Sequence[RecordChange]) -> Any:
    rows = [(one.name, *one.texts()[:2], ABSENT if same(one.was, one.now) else one.difference())
            for one in found]  # fmt: skip
    return table(title, ("figure", "#was", "#is", "#difference"), rows)


def _answers_section(first: SavedAnswer, second: SavedAnswer) -> Section:
    rows = [(which, left.source, left.kind, " ".join(left.command) or ABSENT)
            for which, left in (("was", first), ("is", second))]  # fmt: skip
    return Section(
        "answers",
        "Both answers",
        "The two answers and their commands.",
        (table("Both answers", ("", "from", "kind", "command"), rows),),
        open=True,
        order=95,
    )


def _record(
    first: SavedAnswer,
    second: SavedAnswer,
    why: Sequence[Cause],
    figures: Sequence[RecordChange],
    moved: Sequence[MovedNodes],
) -> Record:
    return {
        "schema": "hetsim-difference/1",
        "kind": first.kind,
        "first": first.source,
        "second": second.source,
        "question": [
            {"sort": one.sort, "what": one.change.name, "was": one.change.was, "is": one.change.now}
            for one in why
        ],
        "figures": [{"what": one.name, "was": one.was, "is": one.now} for one in figures],
        "moved": [
            {
                "plans": [one.was.plan, one.now.plan],
                "nodes": [
                    {"node": each.path[0], "was": each.was, "is": each.now}
                    for each in one.nodes[:ROWS_MOST]
                ],
                "count": len(one.nodes),
            }
            for one in moved
        ],
    }
