"""Views of results in Python: data frames, figures, pages, and texts of notebooks and consoles."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetsim.core.text import Record, to_compact_json
from hetsim.core.units import format_seconds
from hetsim.errors import NotInstalled, UsageError
from hetsim.reporting.console import parts
from hetsim.reporting.pages.answers import answer_island
from hetsim.reporting.pages.figures import SECONDS
from hetsim.reporting.pages.page import asset, told, unpacked, write_page
from hetsim.reporting.pages.records import beside, headline, leaves, tiles
from hetsim.reporting.pages.subgraphs import plans_picture
from hetsim.reporting.pages.timeline import pictures_of, played_of
from hetsim.reporting.pages.views import front_picture, rows_picture
from hetsim.reporting.tables.verdicts import title, verdict_of

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects
    from rich.console import RenderableType

    from hetsim.analysis.comparison import Comparison
    from hetsim.analysis.explanation import Explanation
    from hetsim.analysis.nodes.nodes import Nodes
    from hetsim.execution.run import Run
    from hetsim.partitioning.partition import Partition
    from hetsim.problem.plan import Plan
    from hetsim.problem.timeline import Event, Timeline
    from hetsim.provisioning.rates.answer import Availability, Survived
    from hetsim.simulation.service.service import Service
    from hetsim.sweeping.verb import Swept

COMMAND = ("hetsim", "in", "Python")
"""Command that pages made in Python name."""

DRAWN = (
    "platforms", "strategies", "findings", "sensitivities", "units", "placed", "front", "uses"
)  # fmt: skip
"""Pictures of plotly's by the views of a page; the first one present is drawn."""


def _lazy(path: str) -> Callable[..., Any]:
    """Function ``module:name`` of reporting, imported at the first call."""
    module, _, name = path.partition(":")
    return lambda *found: getattr(import_module(f"hetsim.reporting.{module}"), name)(*found)


def _with_plan(path: str) -> Callable[[Any], Any]:
    """Variant of a function that takes the plan of a timeline or run as its first argument."""

    def call(found: Timeline | Run) -> Any:
        timeline: Timeline = getattr(found, "timeline", None) or found  # type: ignore[assignment]
        return _lazy(path)(_plan(timeline), found)

    return call


@dataclass(frozen=True, slots=True)
class View:
    """Views of one class of results.

    `record` is the output of ``--json``, `printed` that of the terminal, `rows` the path of the
    rows in the record: a list, or a mapping by name. `pictures` are data that a page draws and the
    record lacks; `say` is the answer in a sentence, if it is not that of the record.
    """

    record: Callable[[Any], Record]
    printed: Callable[[Any], RenderableType]
    rows: str
    pictures: Callable[[Any], Record] = lambda found: {}
    say: Callable[[Any], str] | None = None


def _comparison_pictures(found: Comparison) -> Record:
    played = played_of(found)
    return {**pictures_of(played), **plans_picture([plan for _, plan, _ in played])}


def _plan(timeline: Timeline) -> Plan:
    if timeline.plan is None:
        raise UsageError("the timeline has no plan", hint="use one that simulate or run gave")
    return timeline.plan


def _timeline_pictures(timeline: Timeline, real: Sequence[Event] = ()) -> Record:
    plan = _plan(timeline)
    return {**pictures_of([(plan.strategy, plan, timeline)], real), **plans_picture([plan])}


def _own_record(found: Plan | Nodes) -> Record:
    return Record(json.loads(found.to_json()))


def _cut(plan: Plan) -> str:
    """Subgraphs of a plan, and the reason for them, in a sentence."""
    reason = f" {plan.reason[:1].upper()}{plan.reason[1:]}." if plan.reason else ""
    return verdict_of(_own_record(plan)) + reason


def _plan_pictures(plan: Plan) -> Record:
    from hetsim.simulation.simulate import simulate

    return _timeline_pictures(simulate(plan))


def _plan_of(partition: Partition) -> Plan:
    from hetsim.problem.plan import Plan

    return Plan(partition.problem, partition.method, partition.groups)


def _explanation_record(found: Explanation) -> Record:
    from hetsim.reporting.tables.analysis import explanation_record
    from hetsim.reporting.tables.plan import simulation_record

    record = simulation_record(found.plan, found.timeline)
    return {**record, "explanation": explanation_record(found)}


def _explained(found: Explanation) -> str:
    """Cost of a plan, its parts, and the most helpful change, in a sentence."""
    from hetsim.reporting.tables.analysis import shares_text

    of = "latency" if found.objective == "latency" else "time a request"
    helps = f" Best change: {found.changes[0].what}." if found.changes else ""
    return f"The {of} is {format_seconds(found.cost_s)}: {shares_text(found, 4)}.{helps}"


def _outage_record(key: str, of: str) -> Callable[[Any], Record]:
    """Function that returns the record of a service with an answer about its outages."""

    def record(found: Survived | Availability) -> Record:
        from hetsim.reporting.tables.service_record import service_record

        return {**service_record(_intact(found)), key: _lazy(f"tables.capacity:{of}")(found)}

    return record


def _intact(found: Survived | Availability) -> Service:
    losses = getattr(found, "states", None) or (found.intact,)  # type: ignore[union-attr]
    service = next((one.service for one in losses if one.service is not None), None)
    if service is None:
        raise UsageError("nothing of it could be served")
    return service


def _sweep_pictures(found: Swept) -> Record:
    return {"points": rows_picture(found.rows, [wish.column for wish in found.wishes])}


def _tables(
    name: str,
    rows: str,
    pictures: Callable[[Any], Record] = lambda found: {},
    *,
    home: str = "",
    records: str = "",
) -> View:
    """View by ``NAME_record`` and ``NAME_report`` of the tables `home`, records of `records`."""
    home = home or name
    record = _lazy(f"tables.{records or home}:{name}_record")
    return View(record, _lazy(f"tables.{home}:{name}_report"), rows, pictures)


VIEWS: Mapping[str, View] = {
    "Availability": View(
        _outage_record("availability", "availability_record"),
        _lazy("tables.capacity:availability_report"),
        "availability.states",
        say=_lazy("tables.capacity:availability_sentence"),
    ),
    "Capacity": _tables("capacity", "rows"),
    "Comparison": _tables("comparison", "rows", _comparison_pictures),
    "Explanation": View(
        _explanation_record,
        _lazy("tables.analysis:explanation_report"),
        "explanation.changes",
        lambda found: _timeline_pictures(found.timeline),
        lambda found: _explained(found),
    ),
    "Lint": _tables("lint", "findings", home="analysis"),
    "LoadTest": _tables("load_test", "measured.streams"),
    "Nodes": View(
        _own_record,
        _lazy("tables.analysis:nodes_report"),
        "nodes",
        lambda found: plans_picture([] if found.plan is None else [found.plan]),
    ),
    "Partition": View(
        lambda found: _own_record(_plan_of(found)),
        _lazy("tables.plan:partition_report"),
        "groups",
        lambda found: _plan_pictures(_plan_of(found)),
        lambda found: _cut(_plan_of(found)),
    ),
    "Placement": _tables("place", "rows", home="placement"),
    "Plan": View(_own_record, _lazy("tables.plan:plan_report"), "groups", _plan_pictures, _cut),
    "PlatformComparison": _tables("platforms", "rows"),
    "Recommendation": _tables("recommendation", "excuses", front_picture),
    "Run": View(
        _with_plan("tables.plan:run_record"),
        _with_plan("tables.plan:run_report"),
        "timeline.devices",
        lambda run: _timeline_pictures(run.timeline, run.events),
    ),
    "Sensitivities": View(
        lambda found: {
            "schema": "hetsim-sensitivities/1",
            **_lazy("tables.what_if:sensitivities_record")(found),
        },
        _lazy("tables.what_if:sensitivities_report"),
        "changes",
    ),
    "Service": _tables("service", "streams", records="service_record"),
    "Survived": View(
        _outage_record("survived", "surviving_record"),
        _lazy("tables.capacity:surviving_report"),
        "survived.losses",
        say=_lazy("tables.capacity:surviving_sentence"),
    ),
    "Swept": _tables("sweep", "", _sweep_pictures),
    "Timeline": View(
        _with_plan("tables.plan:simulation_record"),
        _with_plan("tables.plan:simulation_report"),
        "timeline.devices",
        _timeline_pictures,
    ),
}
"""Views by the class name of a result."""


def _view(found: object) -> View:
    return next(VIEWS[one.__name__] for one in type(found).__mro__ if one.__name__ in VIEWS)


def pictures(found: object) -> Record:
    """Return the data of a result's pictures that its record does not hold."""
    return _view(found).pictures(found)


def record_of(found: object) -> Record:
    """Return a result's record as JSON represents it: infinities are None."""
    return Record(json.loads(to_compact_json(_view(found).record(found))))


def rows_of(found: object) -> list[Record]:
    """Return the rows of a result's record, figures within them by their paths."""
    if type(found).__name__ == "Swept":
        return [dict(row) for row in found.rows]  # type: ignore[attr-defined]
    value: Any = record_of(found)
    # Of what is bought or rented, the choices; else what excludes cheaper platforms.
    bought = getattr(found, "purchase", None) is not None
    for key in ("purchase.choices" if bought else _view(found).rows).split("."):
        value = value[key]
    if isinstance(value, Mapping):
        value = [{"name": name, **one} for name, one in value.items()]
    return [{".".join(path): one for path, one in leaves(row, lists=True)} for row in value]


def frame(found: object) -> pandas.DataFrame:
    """Return the rows of a result as a DataFrame. Raises NotInstalled without pandas."""
    try:
        import pandas
    except ImportError:
        raise NotInstalled(
            "to_pandas needs pandas, which is not installed",
            hint="pip install pandas",
            package="pandas",
        ) from None
    return pandas.DataFrame(rows_of(found))


def report(found: object, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write the page of a result."""
    printed = _view(found).printed(found)
    island = answer_island(record_of(found), COMMAND, pictures(found), printed)
    write_page(island, Path(path), force=force, option="")


def html(found: object) -> str:
    """Return the terminal's answer as HTML, all texts escaped."""
    return "\n".join(map(_html, parts(_view(found).printed(found))))


def _html(part: Record) -> str:
    if "text" in part:
        return f"<p>{escape(told(part['text']))}</p>"

    def row(tag: str, cells: list[str]) -> str:
        return "".join(
            f'<{tag} style="text-align: {"right" if number else "left"}">{cell}</{tag}>'
            for number, cell in zip(numbers, cells, strict=True)
        )

    numbers = [heading.startswith("#") for heading in part["headings"]]
    heads = row("th", [escape(told(one.removeprefix("#"))) for one in part["headings"]])
    cells = [
        ["<br>".join(escape(told(line)) for line in cell) for cell in one] for one in part["rows"]
    ]
    body = "".join(f"<tr>{row('td', one)}</tr>" for one in cells)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def lines(found: object) -> list[str]:
    """Return a result in a few lines: its subject, its answer, and the figures behind it."""
    view, record = _view(found), record_of(found)
    say = verdict_of(record) if view.say is None else view.say(found)
    if record["schema"].startswith("hetsim-plan/"):
        problem = found.problem  # type: ignore[attr-defined]
        return [f"{type(found).__name__}: {record['strategy']} for {problem.name}", say]
    top = {path: value for path, value in headline(record).items() if value is not None}
    figures = ", ".join(f"{tile.label} {tile.figure}" for tile in tiles(beside(top, top)))
    return [f"{type(found).__name__}: {title(record)}", say, figures]


def plot(found: object) -> plotly.graph_objects.Figure:
    """Return the main picture of a result's page as a plotly figure, in the light theme."""
    from plotly.graph_objects import Figure

    record = record_of(found)
    made = answer_island(record, COMMAND, pictures(found)).pictures
    drawn: Any = next((made[name][0] for name in DRAWN if made.get(name)), None)
    if drawn is not None:
        drawn = unpacked(drawn)
    elif made.get("timeline"):
        drawn = _bars_of(made["timeline"][0])
    elif made.get("points", {}).get("first"):
        drawn = _points(made["points"])
    else:
        raise UsageError(f"this {type(found).__name__} has nothing to draw")
    light = dict(re.findall(r"(--[a-z]+): (#\w+);", asset("page.css").partition("}")[0]))
    margin = {**drawn["layout"].get("margin", {}), "t": 80}
    name = {"text": escape(told(title(record)))}
    layout = {"template": "plotly_white", **drawn["layout"], "title": name, "margin": margin}
    return Figure(_coloured({"data": drawn["data"], "layout": layout}, light))


def _coloured(value: Any, theme: Mapping[str, str]) -> Any:
    """Copy of a figure with the theme's colours instead of their names."""
    if isinstance(value, Mapping):
        return {key: _coloured(one, theme) for key, one in value.items()}
    if isinstance(value, list):
        return [_coloured(one, theme) for one in value]
    return theme.get(value, value) if isinstance(value, str) else value


def _bars_of(picture: Record) -> Record:
    """Figure of a timeline's tasks as bars: one row for each stream and link."""

    def traces() -> Iterator[Record]:
        columns = unpacked(picture["tasks"])
        for place, track in enumerate(picture["tracks"]):
            own = [k for k, at in enumerate(columns["track"]) if at == place]
            yield {
                "type": "bar",
                "orientation": "h",
                "name": track["label"],
                "y": [track["label"]] * len(own),
                "base": [columns["start_ns"][k] / 1e9 for k in own],
                "x": [columns["duration_ns"][k] / 1e9 for k in own],
                "marker": {"color": track["colour"], "line": {"width": 1, "color": "--paper"}},
                "hovertext": [escape("".join(picture["texts"][columns["text"][k]])) for k in own],
                "hoverinfo": "text",
            }

    layout = {
        "barmode": "overlay",
        "showlegend": False,
        "xaxis": {"title": {"text": "virtual time"}, **SECONDS},
        "yaxis": {"autorange": "reversed"},
    }
    return {"data": list(traces()), "layout": layout}


def _points(picture: Record) -> Record:
    """Figure of the points of a sweep by the two figures that its page draws first."""
    x, y = picture["first"]
    columns = picture["columns"]
    axes = [name for name in picture["axes"] if name != "key"]
    texts = [
        escape(", ".join(f"{name} {columns[name][k]}" for name in axes))
        for k in range(len(columns[x]))
    ]
    trace = {"type": "scatter", "mode": "markers", "x": columns[x], "y": columns[y],
             "hovertext": texts}  # fmt: skip
    return {
        "data": [trace],
        "layout": {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}},
    }
