"""What moved between two answers of one kind, and why, as far as they tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hetsim.base.text import Record
from hetsim.errors import UsageError
from hetsim.reporting.pages.differences.headline import headline, points_of
from hetsim.reporting.pages.differences.leaves import Change, beside, changes, same
from hetsim.reporting.pages.differences.placing import Move, Placed, moves, placed, ways
from hetsim.reporting.pages.differences.question import Cause, causes
from hetsim.reporting.pages.island import Island, Section, Tile, Verdict, table
from hetsim.reporting.pages.islands.shared import seconds
from hetsim.reporting.pages.packing import packed
from hetsim.reporting.pages.reading import Left, whole
from hetsim.reporting.words.text import ABSENT, count, listed

ROWS_MOST = 500
"""Figures, and nodes, that are told one by one."""

_NO_FIGURES = ("problem", "served", "schema", "verdict", "profiles", "rows_file")


def difference_island(first: Left, second: Left, command: Sequence[str]) -> Island:
    """Return what moved from the first answer to the second.

    Raises
    ------
    UsageError
        Where they are of two kinds.
    InvalidInput
        Where one is damaged.
    """
    if first.kind != second.kind:
        raise UsageError(
            f"'{first.source}' is of '{first.kind}', '{second.source}' of '{second.kind}'",
            hint="give two of one kind, or --index to have both on one page",
        )
    with whole(first, second):
        why = causes(first, second)
        figures = _figures(first, second)
        top = _headline(first, second)
        plans = _pairs(placed(first), placed(second))
        moved = {(was.plan, now.plan): moves(was, now) for was, now in plans}
        return Island(
            kind="difference",
            title=f"What moved: {first.source} and {second.source}",
            command=tuple(command),
            record=_record(first, second, why, figures, moved),
            verdict=Verdict(
                say=_say(top, figures, moved),
                binds=_because(first, second, why, bool(figures or any(moved.values()))),
            ),
            tiles=tuple(_tiles(top)),
            sections=tuple(_sections(first, second, why, figures, top, plans, moved)),
            pictures=_pictures(first, second),
        )


def _headline(first: Left, second: Left) -> list[Change]:
    """The figures that an answer is about, of both."""
    return beside(headline(first), headline(second))


def _figures(first: Left, second: Left) -> list[Change]:
    was, now = (
        {key: value for key, value in left.record.items() if key not in _NO_FIGURES}
        | ({"rows": points_of(left)} if left.rows else {})
        for left in (first, second)
    )
    return [
        one
        for one in changes(was, now)
        if not {"problem", "fingerprint", "sha256"}.intersection(one.path)
    ]


def _pairs(first: list[Placed], second: list[Placed]) -> list[tuple[Placed, Placed]]:
    """The plans to put beside each other: the best of both, then those of one name."""
    if not first or not second:
        return []
    named = {one.plan: one for one in first}
    pairs = [(first[0], second[0])]
    pairs += [(named[one.plan], one) for one in second if one.plan in named]
    return list({(was.plan, now.plan): (was, now) for was, now in pairs}.values())


Moved = dict[tuple[str, str], list[Move]]


def _say(top: Sequence[Change], figures: Sequence[Change], moved: Moved) -> str:
    best = next(iter(moved.values()), [])
    nodes = f"{count(len(best), 'node')} changed device" if best else ""
    changed = [one for one in top if not same(one.was, one.now)]
    told = [_told(one) for one in changed[:2]]
    if not told and figures:
        told = [f"{count(len(figures), 'figure')} differ" + "s" * (len(figures) == 1)]
    parts = [*told, nodes] if nodes else told
    if not parts:
        return "Nothing moved: every figure and every node is as it was."
    return _sentence("; ".join(parts))


def _told(one: Change) -> str:
    was, now, difference = one.texts()
    more = "" if difference in ("changed", "is new", "is gone") else f", {difference}"
    return f"{one.name}: {was} became {now}{more}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _because(first: Left, second: Left, why: Sequence[Cause], moved: bool) -> str:
    if not why:
        return (
            "Nothing of the question differs: model, platform, figures, options and versions are "
            f"the same, as far as both tell.{_untold(first, second)}"
        )
    sorts = list(dict.fromkeys(one.sort for one in why))
    told = [_cause_text(one) for one in why if not one.change.name.endswith("sha256")][:3]
    told += [f"and {len(why) - len(told)} more"] * (len(why) > len(told))
    effect = "" if moved else " It moved nothing."
    return f"The question differs in its {_and(sorts)}: {'; '.join(told)}.{effect}"


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _untold(first: Left, second: Left) -> str:
    lacks = [left.source for left in (first, second) if left.manifest is None]
    return f" Versions are not told by {' and '.join(lacks)}." if lacks else ""


def _cause_text(one: Cause) -> str:
    was, now, _ = one.change.texts()
    return f"{one.change.name}: {was} became {now}"


def _tiles(top: Sequence[Change]) -> Iterator[Tile]:
    for one in top[:6]:
        was, now, difference = one.texts()
        if same(one.was, one.now):
            yield Tile(one.name, now, "as it was")
        else:
            yield Tile(one.name, now, f"was {was}: {difference}")


def _sections(
    first: Left,
    second: Left,
    why: Sequence[Cause],
    figures: Sequence[Change],
    top: Sequence[Change],
    plans: Sequence[tuple[Placed, Placed]],
    moved: Moved,
) -> Iterator[Section]:
    yield _why_section(why)
    if plans:
        yield _nodes_section(plans, moved)
    yield _figures_section(top, figures)
    yield Section(
        "answers",
        "Both answers",
        "What was put beside each other.",
        (
            table(
                "Both answers",
                ("", "from", "kind", "command"),
                [
                    (which, left.source, left.kind, " ".join(left.command) or ABSENT)
                    for which, left in (("was", first), ("is", second))
                ],
            ),
        ),
        open=True,
        order=95,
    )


def _why_section(why: Sequence[Cause]) -> Section:
    rows = [(one.sort, one.change.name, *one.change.texts()[:2]) for one in why]
    if not rows:
        rows = [("nothing", "of the question differs", ABSENT, ABSENT)]
    return Section(
        "why",
        "Why",
        "What of the question differs: the model, the platform, what its figures rest on, options, "
        "versions. What is not here is the same in both, or not told by them.",
        (table("What of the question differs", ("sort", "what", "was", "is"), rows),),
        open=True,
        order=10,
    )


def _nodes_section(plans: Sequence[tuple[Placed, Placed]], moved: Moved) -> Section:
    overview = []
    for was, now in plans:
        found = moved[was.plan, now.plan]
        overview.append(
            (
                was.plan if was.plan == now.plan else f"{was.plan} became {now.plan}",
                str(was.groups),
                str(now.groups),
                str(len(found)),
                listed(ways(found)) if found else ABSENT,
            )
        )
    tables = [
        table("Plans", ("plan", "#subgraphs, was", "#is", "#nodes that moved", "ways"), overview)
    ]
    for was, now in plans:
        found = moved[was.plan, now.plan]
        if not found:
            continue
        name = was.plan if was.plan == now.plan else f"{was.plan} to {now.plan}"
        rest = len(found) - ROWS_MOST
        tables.append(
            table(
                f"Nodes that changed device, {name}" + f" ({rest} more are not told)" * (rest > 0),
                ("node", "was on", "is on", "#time there", "#time here"),
                [_move_row(one) for one in found[:ROWS_MOST]],
            )
        )
    return Section(
        "graph",
        "Nodes",
        "Which nodes run on another device than before, plan by plan; those of the best plans "
        "first.",
        tuple(tables),
        open=True,
        order=20,
    )


def _move_row(one: Move) -> tuple[str, ...]:
    times = (seconds(one.was_s), seconds(one.now_s))
    return (one.node, one.was or "not there", one.now or "not there", *times)


def _figures_section(top: Sequence[Change], figures: Sequence[Change]) -> Section:
    rest = len(figures) - ROWS_MOST
    tables = [table("The answer", ("figure", "#was", "#is", "#difference"), _rows(top))]
    if figures:
        title = f"All that differs: {count(len(figures), 'figure')}"
        if rest > 0:
            title += f", of which {ROWS_MOST} are told"
        tables.append(
            table(title, ("figure", "#was", "#is", "#difference"), _rows(figures[:ROWS_MOST]))
        )
    return Section(
        "figures",
        "Figures",
        "Every figure that differs, by where it stands in the record; what is not here is the "
        "same.",
        tuple(tables),
        open=True,
        order=30,
    )


def _rows(found: Sequence[Change]) -> list[tuple[str, ...]]:
    return [
        (one.name, *(one.texts() if not same(one.was, one.now) else (*one.texts()[:2], ABSENT)))
        for one in found
    ]


def _record(
    first: Left, second: Left, why: Sequence[Cause], figures: Sequence[Change], moved: Moved
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
                "plans": list(plans),
                "nodes": [
                    {"node": one.node, "was": one.was, "is": one.now} for one in found[:ROWS_MOST]
                ],
                "count": len(found),
            }
            for plans, found in moved.items()
        ],
    }


def _pictures(first: Left, second: Left) -> dict[str, Any]:
    """The graph of the second, with both best plans where nodes are the same.

    Of two platforms the one that has the other's devices, too, is drawn.
    """
    was, now = first.graph(), second.graph()
    if now is None:
        return {}
    if was is None or was["nodes"]["name"] != now["nodes"]["name"]:
        return {"graph": packed(now)}
    if set(was["devices"]) <= set(now["devices"]):
        graph = now
    elif set(now["devices"]) <= set(was["devices"]):
        graph = was
    else:
        return {"graph": packed(now)}
    plans = [
        _plan_in(graph, placed(left)[0], of, told)
        for left, of, told in ((second, now, "as it is"), (first, was, "as it was"))
    ]
    here, there = ([plan["groups"]["device"][g] for g in plan["group"]] for plan in plans)
    moved = [node for node, (a, b) in enumerate(zip(here, there, strict=True)) if a != b]
    return {
        "graph": packed({**graph, "plans": plans, "marked": {"label": "moved", "nodes": moved}})
    }


def _plan_in(graph: Record, one: Placed, own: Record, told: str) -> Record:
    """The best plan of the graph `own` as one of `graph`, with its own times."""
    plan = own["plans"][0]
    names = graph["nodes"]["name"]
    timed = [node for node, name in enumerate(names) if name in one.seconds]
    members = dict(zip(plan["shared"]["node"], plan["shared"]["members"], strict=True))
    devices = [graph["devices"].index(own["devices"][d]) for d in plan["groups"]["device"]]
    return {
        **plan,
        "name": f"{plan['name']}, {told}",
        "groups": {**plan["groups"], "device": devices},
        "shared": {
            "node": timed,
            "seconds": [one.seconds[names[node]] for node in timed],
            "members": [members.get(node, 1) for node in timed],
        },
    }
