"""Several models on shared devices, with anything in front of them: what always holds."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hetsim.errors import UsageError
from hetsim.simulation.serving import batcher, routing, tables
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Outcomes
from hetsim.simulation.serving.tables import EXPIRED, FULL, SERVED
from oracles.random_deployments import CASES, Deployed, deployed, played
from sweeps import sweep


def obeys(given: Deployed, found: Outcomes, serving: Serving) -> None:
    """What holds of every deployment."""
    kept = found.why == SERVED
    count = len(given.case.arrival)
    assert found.requests == (given.requests or count)
    assert (np.diff(found.arrival_s) >= 0).all()
    assert (found.arrival_s[kept] <= found.sent_s[kept]).all()
    assert (found.sent_s[kept] <= found.begun_s[kept]).all()
    assert (found.begun_s[kept] <= found.finish_s[kept]).all()
    assert np.isnan(found.finish_s[~kept]).all()
    for number, model in enumerate(given.models):
        of_model = np.isin(
            found.stream, [k for k, one in enumerate(given.sources) if one.model == number]
        )
        why = found.why[of_model]
        assert found.size[of_model].max(initial=0) <= model.template.shape[2]
        assert model.max_queue_size is not None or FULL not in why
        rejects = model.timeout_s < math.inf and model.timeout_action == "reject"
        assert rejects or EXPIRED not in why
        if rejects:
            waited = (found.sent_s - found.arrival_s)[of_model & kept]
            assert (waited <= model.timeout_s * (1 + 1e-9)).all()
        for instance, limit in enumerate(model.limits):
            here = of_model & kept & (found.instance == instance)
            if limit == 0 or not here.any():
                continue
            # Each request is 1 / size of its batch; what ends at a moment ends before it.
            moments = found.sent_s[here]
            part = 1.0 / found.size[here]
            for moment in np.unique(moments):
                inside = (moments <= moment) & (found.finish_s[here] > moment)
                assert part[inside].sum() <= limit + 1e-9
    sizes = (1.0 / found.size[kept]).sum()
    assert serving.ran.sum() == pytest.approx(sizes)


def counted(given: Deployed, found: Outcomes, serving: Serving) -> bool:
    """Whether queues were as long as requests waited, and were inside, by window and by length.

    Not asked where some expired: nobody says when a batcher found that.
    """
    if EXPIRED in found.why:
        return False
    entered = found.why == SERVED
    told_of = serving.lengths
    windows, models = told_of.waiting_s.shape
    assert models == len(given.models)
    edges = told_of.begin_s + told_of.window_s * np.arange(windows + 1)
    assert told_of.begin_s == found.arrival_s[0]
    assert edges[-2] <= serving.now_s
    model_of = np.array([source.model for source in given.sources])[found.stream]
    for model in range(models):
        here = entered & (model_of == model)
        came, sent, over = (
            column[here] for column in (found.arrival_s, found.sent_s, found.finish_s)
        )
        for until, told in ((sent, told_of.waiting_s), (over, told_of.inside_s)):
            since, up_to = came[:, None], until[:, None]
            spent = np.minimum(up_to, edges[1:]) - np.maximum(since, edges[:-1])
            assert told[:, model] == pytest.approx(np.clip(spent, 0, None).sum(axis=0), abs=1e-6)
        moments = np.unique([*came, *sent, told_of.begin_s, serving.now_s])
        at_length = np.zeros(told_of.at_length_s.shape[1])
        for begin, end in pairwise(moments.tolist()):
            at_length[((came <= begin) & (sent > begin)).sum()] += end - begin
        assert told_of.at_length_s[model] == pytest.approx(at_length, abs=1e-6)
    return True


@pytest.mark.parametrize("few", [False, True])
def test_queues_are_as_long_as_requests_wait(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where windows are few, they double in length as time goes on."""
    if few:
        for module in (tables, batcher):
            monkeypatch.setattr(module, "WINDOWS", 4)
    seen = []
    for seed in range(CASES // 2):
        given = deployed(seed)
        try:
            found, serving = played(given, 1 + seed % 3, False)
        except UsageError:
            continue
        if counted(given, found, serving):
            seen.append(len(serving.lengths.inside_s))
            assert not few or seen[-1] <= 4
    assert len(seen) > CASES / 8
    assert max(seen) > 2


@sweep("chunk, count", quick=[(0, 12)], full=[(0, 12), *((chunk, CASES) for chunk in range(25))])
def test_what_always_holds(chunk: int, count: int) -> None:
    seen = []
    for seed in range(CASES * chunk, CASES * chunk + count):
        given = deployed(seed)
        try:
            plain, serving = played(given, 1, False)
        except UsageError:
            continue
        obeys(given, plain, serving)
        seen.append(len(plain.arrival_s))
        for pieces, machine_code in ((3, False), (1, True), (2, True)):
            other, again = played(given, pieces, machine_code)
            for one, column in zip(plain, other, strict=True):
                assert one.tobytes() == column.tobytes(), seed
            assert again.lengths.at_length_s.tobytes() == serving.lengths.at_length_s.tobytes()
            assert again.lengths.inside_s.tobytes() == serving.lengths.inside_s.tobytes()
    assert len(seen) > count / 2


@sweep("count", quick=[10], full=[10, CASES])
def test_what_passes_as_a_whole_has_the_bits_of_task_by_task(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "OFTEN", 0)
    said: list[bool] = []
    real = routing.passes

    def passes(*given: Any) -> bool:
        said.append(real(*given))
        return said[-1]

    monkeypatch.setattr(routing, "passes", passes)
    for seed in range(count):
        given = deployed(seed)
        first_s, *_ = given.case.arrival
        apart = given.case._replace(arrival=first_s + 20 * (given.case.arrival - first_s))
        found = []
        for shortens in (True, False):
            monkeypatch.setattr(Serving, "_shortens", shortens)
            try:
                told, serving = played(given._replace(case=apart), 1, machine_code=False)
            except UsageError:
                break
            ran = [*told, *serving.lengths, serving.ran, serving.now_s]
            found.append([np.asarray(one).tobytes() for one in ran])
        assert not found or found[0] == found[1], seed
    assert sum(said) > 5 * count
