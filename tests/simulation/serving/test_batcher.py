"""The batcher against a transcription of Triton's, on random traces."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from hetsim.errors import UsageError
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Model, Outcomes, Source
from hetsim.simulation.serving.tables import EXPIRED, FULL, SERVED
from oracles.random_layouts import Shape, layout_of
from oracles.triton_batcher import Config, Fate, Request, served
from sweeps import sweep

CASES = 200
"""Seeds of a chunk; the 50 chunks are 10,000."""
WHY = {SERVED: "", FULL: "full", EXPIRED: "expired"}


def random_trace(seed: int) -> tuple[Config, list[Request]]:
    """A configuration with anything that one may say, and requests in bursts and gaps.

    A third are wide: large batches, many instances, levels and shapes, and long queues.
    """
    rng = np.random.default_rng([seed, 15])
    wide = seed % 3 == 0
    largest = int(rng.integers(1, 33 if wide else 9))
    preferred: list[int] = []
    if rng.random() < 0.5:
        count = int(rng.integers(1, largest + 1))
        preferred = sorted((1 + rng.permutation(largest)[:count]).tolist())
    variants = int(rng.choice([1, 2, 5] if wide else [1, 1, 2, 3]))
    instances = int(rng.integers(1, 7 if wide else 4))
    most = int(rng.choice([1, 4, 30]))
    service = np.cumsum(rng.integers(0, 4, (variants, instances, largest)), axis=2) + rng.integers(
        1, 1 + most, (variants, instances, 1)
    )
    delay = int(rng.choice([0, 0, 1, 3, 10, 40]))
    timeout = int(rng.choice([0, 0, 1, 4, 10, 30, delay, delay + 1]))
    config = Config(
        max_batch_size=largest,
        preferred=preferred,
        delay=delay,
        levels=int(rng.choice([1, 3, 6] if wide else [1, 1, 2, 3])),
        max_queue_size=int(rng.choice([0, 0, 1, 2, 5, 10, largest])),
        timeout=timeout,
        reject=bool(rng.random() < 0.5),
        service=service.tolist(),
        round_robin=bool(rng.random() < 0.5),
    )
    requests = int(rng.integers(1, 160 if wide else 80))
    gaps = rng.integers(0, int(rng.choice([2, 4, 12])), requests)
    gaps[rng.random(requests) < rng.choice([0.0, 0.3, 0.7, 0.95])] = 0
    gaps[rng.random(requests) < 0.05] += 60
    likely = rng.dirichlet(np.full(variants, 0.7))
    ticks = np.cumsum(gaps).tolist()
    levels = rng.integers(0, config.levels, requests).tolist()
    shapes = rng.choice(variants, requests, p=likely).tolist()
    if rng.random() < 0.2:
        # Shapes that come in runs, as sizes of one client do.
        shapes = np.sort(shapes).tolist()
    return config, [
        Request(number, *which)
        for number, which in enumerate(zip(ticks, levels, shapes, strict=True))
    ]


def played(config: Config, requests: list[Request], pieces: int, machine_code: bool) -> Outcomes:
    """The same with the engine: every instance a device, every batch size a template."""
    service = np.array(config.service)
    variants, instances, largest = service.shape
    places = np.arange(service.size).reshape(service.shape)
    layout = layout_of(
        [
            Shape([instance], [], [[]])
            for _ in range(variants)
            for instance in range(instances)
            for _ in range(largest)
        ],
        [1] * instances,
        0,
    )
    model = Model(
        places,
        (1,) * instances,
        routing="round_robin" if config.round_robin else "shortest_queue",
        ranks=tuple(range(config.levels)),
        max_queue_size=config.max_queue_size or None,
        timeout_s=config.timeout or float("inf"),
        timeout_action="reject" if config.reject else "delay",
        preferred=tuple(config.preferred),
        delay_s=config.delay,
    )
    sources = [Source(0, level) for level in range(config.levels)]
    engine = Serving(
        layout,
        service.reshape(-1).astype(float),
        [model],
        sources,
        machine_code=machine_code,
    )
    told = []
    for part in np.array_split(np.arange(len(requests)), pieces):
        some = [requests[k] for k in part]
        told.append(
            engine.serve(
                np.array([one.tick for one in some], dtype=float),
                np.array([one.level for one in some], dtype=np.int64),
                np.array([one.shape for one in some], dtype=np.int64),
            )
        )
    return Outcomes.joined([*told, engine.close()])


def fates(found: Outcomes) -> list[Fate]:
    """As the transcription tells it."""
    return [
        Fate(int(sent), int(end), int(instance), int(size)) if why == SERVED else Fate(why=WHY[why])
        for sent, end, instance, size, why in zip(
            np.nan_to_num(found.sent_s),
            np.nan_to_num(found.finish_s),
            found.instance,
            found.size,
            found.why.tolist(),
            strict=True,
        )
    ]


@sweep("chunk", quick=[0, 1], full=range(50))
def test_as_triton_batches(chunk: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(CASES * chunk, CASES * (chunk + 1)):
        config, requests = random_trace(seed)
        expected = served(config, requests)
        assert fates(played(config, requests, 1 + seed % 3, False)) == expected, seed
        seen.update({fate.why or f"batch of {min(fate.size, 3)}" for fate in expected})
    assert min(seen[what] for what in ("full", "expired", "batch of 1", "batch of 3")) > CASES / 10


@sweep("chunk", quick=[0], full=range(50))
def test_the_same_bits_compiled(chunk: int) -> None:
    for seed in range(CASES * chunk, CASES * (chunk + 1)):
        config, requests = random_trace(seed)
        plain = played(config, requests, 1, False)
        compiled = played(config, requests, 2, True)
        for one, other in zip(plain, compiled, strict=True):
            assert one.tobytes() == other.tobytes()


def one_by_one(config: Config, ticks: list[int]) -> list[Fate]:
    """Requests of one shape and level at these ticks, by both."""
    requests = [Request(number, tick, 0, 0) for number, tick in enumerate(ticks)]
    found = fates(played(config, requests, 1, False))
    assert found == served(config, requests)
    return found


def configured(**said: object) -> Config:
    """A model of batches of up to 8, each of 10 ticks, on one instance."""
    base: dict[str, object] = {
        "max_batch_size": 8,
        "preferred": [],
        "delay": 0,
        "levels": 1,
        "max_queue_size": 0,
        "timeout": 0,
        "reject": True,
        "service": [[[10] * 8]],
        "round_robin": False,
    }
    return Config(**{**base, **said})  # type: ignore[arg-type]


def test_what_waits_goes_when_an_instance_is_free() -> None:
    found = one_by_one(configured(), [0, 1, 2, 3])
    assert [(fate.sent, fate.size) for fate in found] == [(0, 1), (10, 3), (10, 3), (10, 3)]


def test_a_preferred_size_goes_at_once() -> None:
    found = one_by_one(configured(preferred=[2, 4], delay=100), [0, 3, 4])
    assert [(fate.sent, fate.size) for fate in found] == [(3, 2), (3, 2), (104, 1)]


def test_when_the_delay_is_over_all_that_waits_goes() -> None:
    found = one_by_one(configured(delay=5), [0, 3])
    assert [(fate.sent, fate.size) for fate in found] == [(5, 2), (5, 2)]


def test_the_delay_overrides_a_preferred_size() -> None:
    # At 10 the first waited its delay: five go, though four are preferred.
    found = one_by_one(configured(preferred=[1, 4], delay=6), [0, 1, 2, 3, 4, 5])
    assert [(fate.sent, fate.size) for fate in found] == [(0, 1)] + [(10, 5)] * 5


def test_an_expired_request_is_rejected_or_goes_last() -> None:
    alone: dict[str, object] = {"max_batch_size": 1, "service": [[[10]]], "timeout": 5}
    found = one_by_one(configured(**alone), [0, 1, 6])
    assert [fate.why or fate.sent for fate in found] == [0, "expired", 10]
    found = one_by_one(configured(**alone, reject=False), [0, 1, 6])
    assert [fate.sent for fate in found] == [0, 20, 10]


def test_a_full_queue_rejects() -> None:
    found = one_by_one(configured(max_queue_size=2), [0, 1, 2, 3])
    assert [fate.why or fate.size for fate in found] == [1, 2, 2, "full"]


def test_what_cannot_be_served_is_told() -> None:
    table = np.zeros((1, 1, 1), dtype=np.int64)
    for said in (
        {"limits": (1, 1)},
        {"limits": (1,), "routing": "random"},
        {"limits": (1,), "timeout_s": 0.0},
        {"limits": (1,), "delay_s": -1.0},
        {"limits": (1,), "preferred": (2,)},
        {"limits": (1,), "max_queue_size": -1},
        {"limits": (1,), "ranks": ()},
        {"limits": (1,), "cycle": (1,)},
        {"limits": (1,), "timeout_action": "drop"},
    ):
        with pytest.raises(UsageError):
            Model(table, **said)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        Model(table[0], (1,))


def test_requests_that_make_no_sense_are_told() -> None:
    layout = layout_of([Shape([0], [], [[]])], [1], 0)
    model = Model(np.zeros((1, 1, 1), dtype=np.int64), (1,))
    seconds = np.ones(1)
    serving = Serving(layout, seconds, [model], [Source(0)], machine_code=False)
    one = np.zeros(1, dtype=np.int64)
    for arrival, stream, variant in (
        (np.array([1.0, 0.5]), np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)),
        (np.array([np.nan]), one, one),
        (np.array([1.0]), one + 1, one),
        (np.array([1.0]), one, one + 1),
        (np.array([1.0]), one, one - 1),
        (np.array([1.0, 2.0]), one, one),
    ):
        with pytest.raises(UsageError):
            serving.serve(arrival, stream, variant)
    serving.serve(np.array([1.0]), one)
    with pytest.raises(UsageError, match="after"):
        serving.serve(np.array([0.5]), one)
    with pytest.raises(UsageError, match="none of 1"):
        Serving(layout, seconds, [Model(model.template + 1, (1,))], [Source(0)])
    with pytest.raises(UsageError, match="asks for model"):
        Serving(layout, seconds, [model], [Source(1)])
    with pytest.raises(UsageError, match="has level"):
        Serving(layout, seconds, [model], [Source(0, 1)])
