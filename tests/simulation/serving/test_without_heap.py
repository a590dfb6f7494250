"""Plans under load without a heap of events, beside those with one: the same to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hetsim.errors import UsageError
from hetsim.simulation.serving import without_heap
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.outcomes import Outcomes
from hetsim.simulation.serving.setup import ROUTINGS, Clients, Model, Source
from hetsim.simulation.serving.tables import EXPIRED, FULL
from hetsim.simulation.serving.without_heap import WithoutHeap, in_order, why_heap
from hetsim.simulation.stuck import NEVER_START
from oracles.random_layouts import Case, Shape, layout_of, random_case
from sweeps import sweep

CASES = 100
"""Seeds of a chunk; the 100 chunks are 10,000."""


def deployed(seed: int, case: Case) -> tuple[list[Model], list[Source]]:
    """One or two models, each with templates of its own, whose requests go one by one."""
    rng = np.random.default_rng([seed, 29])
    templates = rng.permutation(len(case.layout.first) - 1)
    models, sources = [], []
    count = int(rng.integers(1, 3)) if len(templates) > 1 else 1
    for at in range(count):
        variants, instances = int(rng.choice([1, 1, 2])), int(rng.integers(1, 4))
        limits = (int(rng.integers(3)),) * instances
        if rng.random() < 0.3:
            limits = tuple(rng.integers(0, 3, instances).tolist())
        dealt = not any(limits) and rng.random() < 0.3
        models.append(
            Model(
                rng.choice(templates[at::count], (variants, instances, 1)),
                limits,
                routing=ROUTINGS[rng.integers(3)],
                cycle=tuple(rng.integers(0, instances, 4).tolist()) if dealt else (),
                max_queue_size=(None, None, 1, 3)[rng.integers(4)],
                timeout_s=float(rng.choice([math.inf, 2.0, 7.0])),
            )
        )
        sources += [Source(at)] * int(rng.integers(1, 3))
    return models, sources


def same(seed: int, machine_code: bool) -> bool | None:
    """Play a case both ways; return whether it could be played without a heap, None: refused."""
    rng = np.random.default_rng([seed, 30])
    case = random_case(seed, most_requests=60)
    models, sources = deployed(seed, case)
    if why_heap(case.layout, case.duration, models, sources) is not None:
        return False
    count = len(case.arrival)
    stream = rng.integers(0, len(sources), count)
    variants = np.array([models[one.model].template.shape[0] for one in sources])
    variant = rng.integers(0, variants[stream])
    requests = int(rng.integers(1, count + 1)) if rng.random() < 0.2 else None
    window_s = float(rng.choice([2.0**-20, 1e-3, 0.1]))
    heap = Serving(
        case.layout,
        case.duration,
        models,
        sources,
        requests=requests,
        window_s=window_s,
        machine_code=False,
    )
    tried = WithoutHeap(
        case.layout,
        case.duration,
        models,
        sources,
        requests=requests,
        window_s=window_s,
        machine_code=machine_code,
    )
    parts: list[tuple[Outcomes, Outcomes]] = []
    blocks = (np.array_split(column, 1 + seed % 4) for column in (case.arrival, stream, variant))
    for block in zip(*blocks, strict=True):
        told = tried.serve(*block)
        if told is None:
            return None
        parts.append((heap.serve(*block), told))
    parts.append((heap.close(), tried.close()))
    for one, other in zip(*map(Outcomes.joined, zip(*parts, strict=True)), strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    if case.duration.min(initial=1.0) > 0 and case.arrival[-1] < 1e6:
        # As soon, too, where no end is at the very time of an arrival that it makes no way for.
        assert [len(one.why) for one, _ in parts] == [len(other.why) for _, other in parts]
    assert heap.now_s == tried.now_s
    assert heap.ran.tolist() == tried.ran.tolist()
    for seconds, others in zip(heap.lengths, tried.lengths, strict=True):
        assert np.asarray(seconds).tobytes() == np.asarray(others).tobytes()
    return True


@sweep(
    "chunk, machine_code",
    quick=[(0, False)],
    full=[(chunk, compiled) for chunk in range(100) for compiled in (False, True)],
)
def test_the_same_bits(chunk: int, machine_code: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_heap, "BLOCK", 1 + chunk % 9 if chunk % 3 else 1 << 13)
    found = [same(seed, machine_code) for seed in range(CASES * chunk, CASES * (chunk + 1))]
    assert found.count(True) > CASES // 2


def one_device(*, limit: int = 1, **policy: object) -> tuple[Case, Model]:
    """A model on one device, its requests of a second each."""
    layout = layout_of([Shape([0], [], [[]])], [1], 0)
    case = Case(layout, np.array([1.0]), np.array([0.0, 0.1, 0.2, 0.3, 4.0]), np.zeros(5, np.int64))
    return case, Model(np.zeros((1, 1, 1), dtype=np.int64), (limit,), **policy)  # type: ignore[arg-type]


def test_who_finds_the_queue_full_and_who_waits_too_long() -> None:
    case, model = one_device(max_queue_size=2, timeout_s=1.5)
    engine = WithoutHeap(case.layout, case.duration, [model], [Source(0)], machine_code=False)
    parts = [engine.serve(case.arrival, case.template), engine.close()]
    found = Outcomes.joined([part for part in parts if part is not None])
    assert found.why.tolist() == [0, 0, EXPIRED, FULL, 0]
    assert found.finish_s[found.why == 0].tolist() == [1.0, 2.0, 5.0]
    assert found.fresh.tolist() == [True, False, False, False, True]


def think(block: int) -> NDArray[np.float64]:
    return np.ones((4, 1))


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"timeout_s": 1.0, "timeout_action": "delay"}, "what waited too long goes last"),
        ({"max_queue_size": 0}, "nothing waits"),
        ({}, None),
        ({"limit": 0, "timeout_action": "delay", "max_queue_size": 0}, None),
    ],
)
def test_what_needs_a_heap(policy: dict[str, object], why: str | None) -> None:
    case, model = one_device(**policy)  # type: ignore[arg-type]
    given = (case.layout, case.duration, [model], [Source(0)])
    assert why_heap(*given) == why
    assert why_heap(*given, [Clients(0, 1, think)]) == "clients wait for answers"
    assert in_order(*given) == (why is None)
    assert not in_order(*given, [Clients(0, 1, think)])


def test_batches_priorities_and_shared_devices_need_a_heap() -> None:
    case, model = one_device()
    batched = Model(np.zeros((1, 1, 2), dtype=np.int64), (1,))
    levels = Model(model.template, (1,), ranks=(0, 1))
    given = (case.layout, case.duration)
    assert why_heap(*given, [batched], [Source(0)]) == "requests are batched"
    assert why_heap(*given, [levels], [Source(0, 1), Source(0, 1)]) is None
    of_both = why_heap(*given, [levels], [Source(0), Source(0, 1)])
    assert of_both == "some requests go before others"
    assert why_heap(*given, [model, model], [Source(0)]) is None
    shared = why_heap(*given, [model, model], [Source(0), Source(1)])
    assert shared == "models meet at devices or links"
    assert why_heap(case.layout, np.zeros(1), [model], [Source(0)]) == "some tasks take no time"


def test_what_may_be_overtaken_is_tried_without_a_heap_and_is_in_no_certain_order() -> None:
    """A request's input and its output take one link: those that come later may be between."""
    layout = layout_of([Shape([0], [(0,), (0,)], [[1], [], [0]])], [1], 1)
    model = Model(np.zeros((1, 1, 1), dtype=np.int64), (1,))
    given = (layout, np.ones(3), [model], [Source(0)])
    assert why_heap(*given) is None
    assert not in_order(*given)


def test_what_never_starts_needs_a_heap_to_say_so() -> None:
    layout = layout_of([Shape([0, 0], [], [[1], [0]])], [1], 0)
    model = Model(np.zeros((1, 1, 1), dtype=np.int64), (1,))
    given = (layout, np.ones(2), [model], [Source(0)])
    assert why_heap(*given) == NEVER_START
    assert not in_order(*given)


def test_models_meet_at_links_and_at_devices_alike() -> None:
    """Model 0 has device 0 and link 0; of the others one shares the link, one the device."""
    shapes = [
        Shape([0], [(0,)], [[1], []]),
        Shape([1], [(0,)], [[1], []]),
        Shape([0], [(1,)], [[1], []]),
        Shape([1], [(1,)], [[1], []]),
    ]
    layout = layout_of(shapes, [1, 1], 2)
    models = [Model(np.full((1, 1, 1), k), (0,)) for k in range(4)]
    reasons = [
        why_heap(layout, np.ones(8), [models[0], other], [Source(0), Source(1)])
        for other in models[1:]
    ]
    assert reasons == ["models meet at devices or links"] * 2 + [None]


def test_times_that_go_back_are_told() -> None:
    case, model = one_device()
    engine = WithoutHeap(case.layout, case.duration, [model], [Source(0)], machine_code=False)
    with pytest.raises(UsageError, match="do not ascend"):
        engine.serve(case.arrival[::-1], case.template)
    engine.serve(case.arrival, case.template)
    with pytest.raises(UsageError, match=r"after 4\.0 s"):
        engine.serve(case.arrival, case.template)
