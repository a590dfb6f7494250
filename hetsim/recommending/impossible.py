"""Whether nothing that can be had meets the objectives, by any plan and any policy."""

from __future__ import annotations

import numpy as np

from hetsim.recommending.any_plan import too_slow
from hetsim.recommending.bounds.bound import Bound, choices
from hetsim.recommending.bounds.capacity import bound_of
from hetsim.recommending.bounds.needs import needs
from hetsim.recommending.question import SLACK, Question


def impossible(question: Question) -> str | None:
    """Return why no vector can meet the objectives, with models cut however one likes.

    None where that is not proved: the bounds of the search are of the plans that are looked at,
    and others may do what these cannot.

    What nothing can run, or not in time, of an ask that is more than may be late; and more work,
    on time, than all devices of the largest vector have seconds for.
    """
    if not question.free:
        return None
    for bound in needs(question):
        ask = question.asks[bound.ask]
        which = bound.slo[ask.stream]
        assert which is not None
        limit_s = question.streams[ask.stream].slos[which].latency_s
        model = question.models[question.classes[ask.of_class].model]
        why = too_slow(model, question.free[ask.of_class], limit_s)
        if why is not None:
            return why
    most = most_devices(question)
    work_s = np.array([one.work_s for one in question.free])
    for slo in choices(question):
        each = np.zeros(question.resources)
        each[: len(question.types)] = 1.0
        busy = bound_of(question, slo, (each, work_s))
        if busy is not None and most < busy.least * (1 - SLACK):
            return _too_much(busy, most)
    return None


def most_devices(question: Question) -> int:
    """Return a number of devices that no vector exceeds."""
    kinds = [len(kind.devices) for kind in question.kinds if not kind.slots]
    hosts = [len(kind.devices) for kind in question.kinds if kind.slots]
    return question.max_devices * max(kinds, default=0) + max(hosts, default=0)


def _too_much(busy: Bound, most: int) -> str:
    return (
        f"what comes keeps {busy.least:.4g} devices busy, cut however one likes, and no platform "
        f"has more than {most}"
    )
