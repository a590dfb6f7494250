"""The pictures of plans that were played: timelines, memory, graph, as far as there is room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hetsim.base.text import Record, to_compact_json
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Timeline
from hetsim.reporting.pages.pictures.memory import memory_picture
from hetsim.reporting.pages.subgraphs import graph_picture
from hetsim.reporting.pages.timeline import TASKS_MOST, timeline_picture

if TYPE_CHECKING:
    from hetsim.analysis.comparison import Comparison

ROOM_BYTES = 340_000
"""What timelines, memories and the graph together may take of a page."""

GRAPH_LEAST_BYTES = 120_000
"""What the graph gets of it, though timelines take more."""

Played = tuple[str, Plan, Timeline]
"""What it is called, the plan, and what became of it."""


def played_of(comparison: Comparison) -> list[Played]:
    """Return the plans of a comparison, the best first; strategies without one are left out."""
    return [
        (row.strategy, row.plan, row.timeline)
        for row in comparison.rows
        if row.plan is not None and row.timeline is not None
    ]


def pictures_of(played: Sequence[Played], most: int = TASKS_MOST) -> Record:
    """Return the timelines, memories and graph of plans, the first first, and what was left out.

    All plans together get `most` tasks; the first gets as many as it has, up to that.
    """
    timelines: list[Record] = []
    memories: list[Record] = []
    left_out: list[str] = []
    for name, plan, timeline in played:
        tasks = len(timeline.events)
        if timelines and tasks > most:
            left_out.append(name)
            continue
        timelines.append(timeline_picture(plan, timeline, name, most=most))
        most -= min(tasks, most)
        memory = memory_picture(plan, timeline, name)
        if memory is not None:
            memories.append(memory)
    taken = len(to_compact_json([timelines, memories]))
    plans = [plan for _, plan, _ in played]
    graph = graph_picture(plans, max(GRAPH_LEAST_BYTES, ROOM_BYTES - taken))
    return {
        "timelines": timelines,
        "memories": memories,
        "left_out": left_out,
        **({} if graph is None else {"graph": graph}),
    }
