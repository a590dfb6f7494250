"""How often 95 % intervals hold the truth, and what verdicts are worth: docs/confidence.md.

- *laws*: queues of known answers (``tests/oracles/queueing``), three loads each, through the engine
  that serves deployments. Each run goes on until its interval is said to be long enough. What
  is outside 93 to 97 % is told again over `MORE` seeds.
- *others*: queues on which nothing was tuned; their truth is that of a few very long runs.
- *verdicts*: objectives of known truth, off by 10 to 50 %, and what they take.

JSON lines on stdout, and the document out of such lines:

    python benchmarks/confidence.py [--seeds N] [--only WORD]
    python benchmarks/confidence.py --document docs/confidence.md < LINES
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hetsim.simulation.service.figures import chosen
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from hetsim.workload.arrivals import Gamma, Mmpp, Poisson
from hetsim.workload.requests import requests_of
from hetsim.workload.workload import Slo, Stream, Workload

sys.path.append(str(Path(__file__).parent.parent / "tests"))
sys.path.append(str(Path(__file__).parent.parent / "tests" / "helpers"))

import interval_coverage  # type: ignore[import-not-found]
import known_queues as known  # type: ignore[import-not-found]
from document_of_confidence import document
from growing_runs import until  # type: ignore[import-not-found]

SEEDS = 40
MORE = 2000
MOST = 2**22
"""Requests after which a run is given up."""
LONG, RUNS = 2**22, 8
"""Requests, and how many such runs, that say what is true where nothing else does."""

LAWS: tuple[tuple[Callable[[float], Any], tuple[float, ...]], ...] = (
    (known.constant, (0.3, 0.5, 0.8)),
    (known.memoryless, (0.3, 0.5, 0.8)),
    (known.general, (0.3, 0.5, 0.7)),
    (known.several_constant, (0.3, 0.5, 0.8)),
    (known.several, (0.3, 0.5, 0.7)),
    (known.losing, (0.3, 0.6, 0.9)),
    (functools.partial(known.prioritised, level=0), (0.3, 0.5, 0.7)),
    (functools.partial(known.prioritised, level=1), (0.3, 0.5, 0.7)),
    (known.batched, (0.5, 0.7, 0.9)),
    (known.repaired, (0.3, 0.6, 0.9)),
)


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "confidence", **record}), flush=True)


def from_workload(
    make: Callable[[], Serving], streams: Sequence[Stream]
) -> Callable[[int], Iterator[Outcomes]]:
    """Return a way to play the requests of a workload, of any seed."""

    def play(seed: int) -> Iterator[Outcomes]:
        serving = make()
        kept: list[Any] = []
        for block in requests_of(Workload(tuple(streams), requests=2 * LONG, seed=seed)):
            for first in range(0, len(block), known.BLOCK):
                piece = slice(first, first + known.BLOCK)
                kept.append(serving.serve(block.arrival_s[piece], block.stream[piece]))
                count = sum(len(part.arrival_s) for part in kept)
                if count >= known.BLOCK:
                    yield Outcomes.joined(kept)
                    kept = []

    return play


def stations(seconds: Sequence[Sequence[float]], **how: Any) -> Callable[[], Serving]:
    """Return a way to make a model of instances on a device each; seconds by size of batch."""

    def make() -> Serving:
        instances, sizes = len(seconds), len(seconds[0])
        table = np.arange(instances * sizes).reshape(1, instances, sizes)
        ranks = how.get("ranks", (0,))
        model = ModelSetup(table, (1,) * instances, **how)
        sources = [RequestSource(0, level) for level in range(len(ranks))]
        layout = known.layout(sizes, (1,) * instances)
        return Serving(layout, np.array(seconds, dtype=float).reshape(-1), [model], sources)

    return make


def others() -> Iterator[Any]:
    """Yield queues on which nothing was tuned, without their truth."""
    one, all_of = ((1.0,),), ("mean", "p99", "waiting", "utilization")
    bursts = Mmpp((0.5, 1.1), (60.0, 30.0))
    cases: tuple[tuple[str, float, Callable[[], Serving], list[Stream], int, int], ...] = (
        ("MMPP arrivals", 0.7, stations(one), [Stream("a", "m", bursts)], -1, 1),
        (
            "gamma arrivals, cv 3, two unlike servers, least finish",
            0.7,
            stations(((1.0,), (2.0,)), routing="least_finish"),
            [Stream("a", "m", Gamma(0.7 * 1.5, 3.0))],
            -1,
            2,
        ),
        (
            "shortest queue of three unlike servers",
            0.8,
            stations(((1.0,), (1.5,), (3.0,)), routing="shortest_queue"),
            [Stream("a", "m", Poisson(0.8 * 2.0))],
            -1,
            3,
        ),
        (
            "batches that wait for others, two levels: the second",
            0.75,
            stations(((1.0, 1.2, 1.4, 1.6),), ranks=(0, 1), preferred=(2, 4), delay_s=0.7),
            [Stream("a", "m", Poisson(0.5)), Stream("b", "m", Poisson(1.4))],
            1,
            1,
        ),
    )
    for law, load, make, streams, stream, servers in cases:
        truth = dict.fromkeys(all_of if stream < 0 else ("mean", "p99"), math.nan)
        yield known.Known(law, load, truth, from_workload(make, streams), stream, servers)


def measure(one: Any, seeds: int, truth_of: str) -> None:
    """Print a line for each figure."""
    before = time.process_time()
    found = interval_coverage.coverage(one, range(seeds), MOST)
    low, high = 0.93 * seeds, 0.97 * seeds
    outside = {
        name: one.truth[name] for name, said in found.items() if not low <= said.held <= high
    }
    again = {}
    if outside and seeds >= 400:
        again = interval_coverage.coverage(one._replace(truth=outside), range(MORE), MOST)
    for name, said in found.items():
        emit(
            kind=truth_of,
            law=one.law,
            load=one.load,
            figure=name,
            truth=round(float(one.truth[name]), 6),
            seeds=seeds,
            **said._asdict(),
            more=again[name]._asdict() if name in again else None,
            cpu_s=round(time.process_time() - before, 1),
        )


def with_truth(one: Any) -> Any:
    """Return a queue with the figures of a few very long runs as its truth."""
    each: dict[str, list[float]] = {name: [] for name in one.truth}
    for seed in range(RUNS):
        parts, count = [], 0
        for part in one.play(10**6 + seed):
            parts.append(part)
            count += part.requests
            if count >= LONG:
                break
        run = Outcomes.joined(parts)
        if one.stream >= 0:
            run = chosen(run, run.stream == one.stream)
        for name, figure in interval_coverage.figures(run, list(one.truth), one.servers).items():
            each[name].append(figure.estimate_s if name == "p99" else figure.estimate)
    truth = {name: float(np.mean(found)) for name, found in each.items()}
    for name, found in each.items():
        error = float(np.std(found, ddof=1)) / math.sqrt(RUNS)
        emit(kind="truth", law=one.law, figure=name, truth=truth[name], error=error / truth[name])
    return one._replace(truth=truth)


def verdicts(cases: int) -> None:
    """Print what verdicts say of objectives of known truth, a line a case."""
    rng = np.random.default_rng(5)
    makers = (
        known.constant,
        known.memoryless,
        known.general,
        known.several_constant,
        known.several,
        known.batched,
    )
    for seed in range(cases):
        make = makers[int(rng.integers(len(makers)))]
        one = make(round(float(rng.uniform(0.3, 0.95)), 3))
        factor = float(rng.choice([0.5, 0.6, 0.75, 0.9, 1.1, 1.25, 1.5]))
        before = time.process_time()
        blocks = ((part.latency_s, part.fresh) for part in one.play(10_000 + seed))
        said = until(blocks, Slo(0.99, factor * one.truth["p99"]), MOST)
        emit(
            kind="verdict",
            law=one.law,
            load=one.load,
            factor=factor,
            answer=said.verdict.answer,
            mlperf=said.verdict.mlperf.valid,
            requests=said.requests,
            cpu_s=round(time.process_time() - before, 3),
        )


def lines() -> Iterable[dict[str, Any]]:
    """Yield the records of stdin."""
    return [json.loads(line) for line in sys.stdin if line.startswith("{")]


def main() -> None:
    """Measure, or write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", default="", help="laws, others or verdicts; or a word of a law")
    parser.add_argument("--document", type=Path)
    given = parser.parse_args()
    if given.document is not None:
        given.document.write_text(document(lines()))
        return
    # The dearest, those of high load, come last.
    for load, make in sorted(
        ((load, make) for make, loads in LAWS for load in loads), key=lambda one: one[0]
    ):
        one = make(load)
        if given.only in ("", "laws") or given.only in one.law:
            measure(one, given.seeds, "law")
    if given.only in ("", "others"):
        for one in others():
            measure(with_truth(one), given.seeds, "other")
    if given.only in ("", "verdicts"):
        verdicts(300 if given.seeds >= 400 else 30)


if __name__ == "__main__":
    main()
