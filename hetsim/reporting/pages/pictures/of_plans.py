"""The pictures of plans that were played: timelines and memory, as far as there is room."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.base.text import Record
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Timeline
from hetsim.reporting.pages.pictures.memory import memory_picture
from hetsim.reporting.pages.pictures.timeline import TASKS_MOST, timeline_picture

Played = tuple[str, Plan, Timeline]
"""What it is called, the plan, and what became of it."""


def pictures_of(played: Sequence[Played], most: int = TASKS_MOST) -> Record:
    """Return the timelines and memories of plans, the first first, and what was left out.

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
    return {"timelines": timelines, "memories": memories, "left_out": left_out}
