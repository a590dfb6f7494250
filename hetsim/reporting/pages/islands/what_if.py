"""What would change an answer: suppositions, changes that were tried, and sensitivities."""

from __future__ import annotations

from hetsim.reporting.pages.island import Section, Table, table
from hetsim.reporting.pages.islands.shared import Found, seconds
from hetsim.reporting.tables import beside
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.text import ABSENT, count, joules, percent


def changes_section(record: Found) -> tuple[Section, ...]:
    """Return the view of what was supposed and tried; nothing where nothing was asked for."""
    tables = [
        *([_beside(record["what_if"])] if "what_if" in record else []),
        *(_explained(record["explanation"]) if "explanation" in record else []),
        *(_sensitivity(one) for one in record.get("sensitivities", ())),
    ]
    if not tables:
        return ()
    return (
        Section(
            "changes",
            "What if",
            "What the answer is with another platform: as supposed, as tried, and with each device "
            "and link a tenth faster.",
            tuple(tables),
            open=True,
            order=60,
        ),
    )


def _beside(found: Found) -> Table:
    was, kept, now = found["as_it_is"], found["plan_kept"], found["supposed"]
    sides = (was, kept or {}, now)

    def of(name: str) -> tuple[str, ...]:
        return tuple(seconds(side.get(name)) for side in sides)

    def text(name: str) -> tuple[str, ...]:
        return tuple(str(side.get(name) or ABSENT) for side in sides)

    rows = [
        ("latency" if found["objective"] == "latency" else "a request", *of("cost_s"),
         change_text(found["change"])),
        ("strategy", *text("strategy"), ""),
        ("devices", *(", ".join(folded(side.get("devices", ()))) or ABSENT for side in sides), ""),
        ("limited by", *text("limited_by"), ""),
        ("energy", *(ABSENT if side.get("energy_j") is None else joules(side["energy_j"])
                     for side in sides), ""),
        ("lower bound", *of("lower_bound_s"), ""),
        ("best device alone", *text("best_single"), ""),
        ("and its time", *of("best_single_s"), ""),
    ]  # fmt: skip
    supposed = "; ".join([*found["changes"], *(f"without {one}" for one in found["without"])])
    idle = [f"'{one}' changes nothing here" for one in found["without_effect"]]
    names = ("what", "#as it is", "#plan kept", "#supposed", "#change")
    return table("; ".join([f"Supposed: {supposed}", *idle]), names, rows)


def _explained(found: Found) -> list[Table]:
    tables = []
    if found["changes"]:
        rows = [
            (one["what"], seconds(one["cost_s"]), percent(one["gain"]), one["strategy"])
            for one in found["changes"]
        ]
        tried = f"What would help most, of {count(found['changes_tried'], 'change')} tried"
        tables.append(table(tried, ("change", "#then", "#saves", "planned by"), rows))
    steps = [
        (
            seconds(one["start_s"]),
            seconds(one["seconds"]),
            one["where"],
            one["what"],
            " to ".join(dict.fromkeys((one["nodes"][0], one["nodes"][-1]))) if one["nodes"] else "",
        )
        for one in found["critical_path"]
    ]
    names = ("#start", "#takes", "on", "what", "nodes")
    return [*tables, table("The critical path", names, steps)]


def _sensitivity(found: Found) -> Table:
    rows = [
        (one["change"], change_text(one["plan_kept"]), change_text(one["planned_anew"]))
        for one in found["changes"]
    ]
    told = f"What would move {found['figure']}, {seconds(found['value_s'])}"
    return table(told, ("change", "#plan kept", "#planned anew"), rows)


def change_text(share: float | None) -> str:
    """Return a relative change; ``same`` where there is none, a dash where it is not known."""
    return ABSENT if share is None else beside.change_text(share)
