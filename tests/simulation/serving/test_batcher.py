"""The batcher against a transcription of Triton's, on random traces."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
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
    model = ModelSetup(
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
    sources = [RequestSource(0, level) for level in range(config.levels)]
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


PARTS = [(0, 50), *((chunk, CASES) for chunk in range(50))]
"""By chunk of seeds: how many of its cases."""


@sweep("chunk, count", quick=PARTS[:1], full=PARTS)
def test_as_triton_batches(chunk: int, count: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(CASES * chunk, CASES * chunk + count):
        config, requests = random_trace(seed)
        expected = served(config, requests)
        assert fates(played(config, requests, 1 + seed % 3, False)) == expected, seed
        seen.update({fate.why or f"batch of {min(fate.size, 3)}" for fate in expected})
    assert min(seen[what] for what in ("full", "expired", "batch of 1", "batch of 3")) > count / 10


@sweep("chunk, count", quick=PARTS[:1], full=PARTS)
def test_the_same_bits_compiled(chunk: int, count: int) -> None:
    for seed in range(CASES * chunk, CASES * chunk + count):
        config, requests = random_trace(seed)
        plain = played(config, requests, 1, False)
        compiled = played(config, requests, 2, True)
        for one, other in zip(plain, compiled, strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("sizes", "limits", "gated"), [(1, (0, 0), False), (1, (0, 1), True), (2, (0, 0), True)]
)
def test_a_request_may_wait_where_batches_or_limits_are(
    sizes: int, limits: tuple[int, ...], gated: bool
) -> None:
    assert ModelSetup(np.zeros((1, 2, sizes), dtype=np.int64), limits).gated is gated
