"""What a run says of each objective: who is late is counted again, and verdicts taken again."""

from __future__ import annotations

from typing import Any

import numpy as np

from hetsim.verifying.node import Node
from hetsim.verifying.question import Question
from hetsim.verifying.statistic import counted, estimated, latencies, overloaded


def judged_of(node: Node, question: Question, finish: Any, fresh: Any) -> tuple[str, float]:
    """Check what is said of each objective; return what that makes together, and its error."""
    said: dict[tuple[int, int], tuple[str, float]] = {}
    for row in node["judged"].rows(100_000):
        parts = row.rows(length=6)
        stream = parts[0].place(question.streams)
        slo = parts[1].place(question.streams[stream].slos)
        requests = parts[2].whole(1, len(finish))
        if (stream, slo) in said or (not question.sampled and requests != len(finish)):
            row.untrue("judged twice, or not over the whole trace")
        answer = parts[4].text("meets", "misses", "undecided")
        error = parts[5].number(0, 0.5)
        share, limit = question.streams[stream].slos[slo]
        mine = question.judged(stream)[:requests].nonzero()[0]
        if not len(mine):
            row.untrue("no request of this stream")
        waited = latencies(question.time[mine], finish[mine])
        late = int(np.count_nonzero(waited > limit))
        if late != parts[3].whole():
            parts[3].untrue(f"{late} of {len(mine)} are late")
        if not question.sampled:
            found = counted(late, len(mine), share)
        elif answer == "undecided":
            found = answer
        else:
            if not error:
                parts[5].untrue("a verdict of the long run may be wrong")
            found = estimated(waited, fresh[mine], share, limit, error)
            if found == "undecided" and late > (1 - share) * len(mine):
                found = _behind(question, stream, requests, finish, fresh, share)
        if answer not in ("undecided", found):
            parts[4].untrue(f"{late} of {len(mine)} are late: {found}")
        said[stream, slo] = answer, error
    if any(answer == "misses" for answer, _ in said.values()):
        return "misses", max(error for answer, error in said.values() if answer == "misses")
    asked = {(s, k) for s, one in enumerate(question.streams) for k in range(len(one.slos))}
    if set(said) == asked and all(answer == "meets" for answer, _ in said.values()):
        return "meets", max(error for _, error in said.values())
    return "undecided", 0.0


def _behind(
    question: Question, stream: int, requests: int, finish: Any, fresh: Any, share: float
) -> str:
    """What is so of a model that falls behind for good: all is late, or rejected, in the end."""
    model = question.streams[stream].model
    own = [s for s, one in enumerate(question.streams) if one.model == model]
    mine = np.zeros(requests, bool)
    for at in own:
        mine |= question.judged(at)[:requests]
    times, ends = question.time[:requests][mine], finish[:requests][mine]
    rate = sum(question.rate_of(at) for at in own)
    behind, carried = overloaded(times, ends, fresh[:requests][mine], rate)
    rejects = np.isinf(finish[:requests][question.judged(stream)[:requests]]).any()
    return "misses" if behind and (carried if rejects else 0.0) < share else "undecided"
