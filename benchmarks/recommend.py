"""How long a search takes over 59,049 vectors, warm: one JSON line a question.

Nine counts of each of five kinds, and three of each of ten; a trace of requests in bursts, of
one model or two, on devices that are unlike in speed, in what batches save, and in price. Each is
searched once to load what is loaded once, then again under the clock.
"""

from __future__ import annotations

import json
import time

import numpy as np

from hetsim.provisioning.platforms.question import (
    Arrivals,
    ClassRequests,
    DeviceType,
    Kind,
    Question,
    QuestionStream,
    RequestClass,
    RequestTask,
    Way,
)
from hetsim.provisioning.platforms.search import Search
from hetsim.provisioning.platforms.vectors import all_vectors
from hetsim.workload.workload import Slo

REQUESTS = 1000


def question(kinds: int, most: int, models: int, rate_per_s: float) -> Question:
    """A question of ``(most + 1) ** kinds`` vectors."""
    draw = np.random.default_rng(kinds)
    types, found, ways = [], [], {}
    for k in range(kinds):
        types.append(DeviceType(f"kind{k}", 1, 1 << 33))
        speed = float(draw.uniform(0.5, 4.0))
        cost = int(1e8 * speed * draw.uniform(0.8, 1.2))
        found.append(Kind(f"kind{k}", (k,), 0, cost, most))
        for model in range(models):
            alone_s = 0.01 / speed * float(draw.uniform(0.7, 1.3))
            ways[k, model] = tuple(
                Way(b, (RequestTask(0, alone_s * b**0.8, (), ()),), alone_s) for b in (1, 2, 4)
            )
    gaps = draw.exponential(4 / rate_per_s, REQUESTS // 4)
    time_s = np.repeat(np.cumsum(gaps), 4)
    return Question(
        "cost",
        kinds * most,
        tuple(types),
        tuple(found),
        tuple(f"model{k}" for k in range(models)),
        tuple(RequestClass(k) for k in range(models)),
        tuple(QuestionStream(f"stream{k}", k, (Slo(0.99, 0.05),)) for k in range(models)),
        tuple(ClassRequests(k, k) for k in range(models)),
        ways,
        given=True,
        arrivals=Arrivals(time_s, draw.integers(0, models, len(time_s))),
    )


def main() -> None:
    """Print a line for each question."""
    for kinds, most, models, rate in ((5, 8, 1, 3000.0), (10, 2, 1, 1000.0), (5, 8, 2, 500.0)):
        asked = question(kinds, most, models, rate)
        Search(asked).found()
        begin_s = time.process_time()
        search = Search(asked)
        found = search.found()
        took_s = time.process_time() - begin_s
        record = {
            "benchmark": "recommend",
            "vectors": all_vectors(asked),
            "kinds": kinds,
            "models": models,
            "requests": REQUESTS,
            "bounds": len(found.bounds),
            "tried": len(found.tried),
            "policies": sum(len(one.runs) for one in found.tried),
            "played": sum(run.played is not None for one in found.tried for run in one.runs),
            "answer": None if found.answer is None else list(found.answer.counts),
            "cpu_s": round(took_s, 3),
        }
        print(json.dumps(record))


if __name__ == "__main__":
    main()
