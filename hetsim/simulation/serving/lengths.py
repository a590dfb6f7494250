"""How long queues are over time, in windows that double in length as time goes on."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from hetsim.simulation.clock.heaps import Ints
from hetsim.simulation.serving.outcomes import Lengths
from hetsim.simulation.serving.tables import BINS, WINDOWS, Spans


class Present(Protocol):
    """Requests of each model that wait, and that are inside: [models] each."""

    @property
    def waiting(self) -> Ints: ...
    @property
    def inside(self) -> Ints: ...


def account(flow: Present, spans: Spans, model: int, now: float) -> None:
    """Count the time since the last call, before something changes. O(windows passed)."""
    since = spans.since[model]
    if now <= since:
        return
    waiting, inside = flow.waiting[model], flow.inside[model]
    kept = waiting if waiting < BINS - 1 else BINS - 1
    spans.at_length[model * BINS + kept] += now - since
    edge = spans.length[1] + (spans.window[model] + 1) * spans.length[0]
    while edge < now:
        if edge > since:
            at = model * WINDOWS + spans.window[model]
            spans.waiting[at] += waiting * (edge - since)
            spans.inside[at] += inside * (edge - since)
            since = edge
        if spans.window[model] == WINDOWS - 1:
            double(spans)
        else:
            spans.window[model] += 1
        edge = spans.length[1] + (spans.window[model] + 1) * spans.length[0]
    at = model * WINDOWS + spans.window[model]
    spans.waiting[at] += waiting * (now - since)
    spans.inside[at] += inside * (now - since)
    spans.since[model] = now


def double(spans: Spans) -> None:
    """Let each window be two. O(windows)."""
    half = WINDOWS // 2
    for model in range(len(spans.window)):
        row = model * WINDOWS
        for at in range(half):
            spans.waiting[row + at] = spans.waiting[row + 2 * at] + spans.waiting[row + 2 * at + 1]
            spans.inside[row + at] = spans.inside[row + 2 * at] + spans.inside[row + 2 * at + 1]
        for at in range(half, WINDOWS):
            spans.waiting[row + at] = 0.0
            spans.inside[row + at] = 0.0
        spans.window[model] //= 2
    spans.length[0] *= 2.0


def lengths_of(present: Present, spans: Any, now_s: float) -> Lengths:
    """Return what was counted, the time until now too."""
    models = len(spans.since)
    for model in range(models):
        account(present, spans, model, now_s)
    used = max(spans.window) + 1
    waiting, inside = (
        np.array(part).reshape(models, WINDOWS).T[:used].copy()
        for part in (spans.waiting, spans.inside)
    )
    at_length = np.array(spans.at_length).reshape(models, BINS)
    window_s, begin_s = map(float, spans.length)
    return Lengths(begin_s, window_s, waiting, inside, at_length)
