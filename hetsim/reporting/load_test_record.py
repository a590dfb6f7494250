"""A workload for real beside what was simulated of it, as a record."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hetsim.execution.serving.load_test import LoadTest
from hetsim.reporting.service_record import service_record
from hetsim.reporting.words.text import relative_change
from hetsim.service.service import StreamService


def load_test_record(found: LoadTest) -> dict[str, Any]:
    """Return the record for ``to_json``; times of `host` are real, others are the workload's."""
    simulated, measured = service_record(found.simulated), service_record(found.measured)
    return {
        "schema": "hetsim-load-test/1",
        "problem": simulated["problem"],
        "emulated": found.emulated,
        "time_scale": found.time_scale,
        "executor": found.executor,
        "start_s": found.start_s,
        "host": asdict(found.host),
        "outputs": None if found.outputs is None else asdict(found.outputs),
        "simulated": simulated,
        "measured": measured,
        "off_by": [
            _off_by(told, real)
            for told, real in zip(found.simulated.streams, found.measured.streams, strict=True)
        ],
    }


def _off_by(told: StreamService, real: StreamService) -> dict[str, Any]:
    """By what share measured figures are above the simulated ones; null where that is no number."""
    sides = [{one.percentile: one.estimate_s for one in side.percentiles} for side in (told, real)]
    return {
        "name": told.name,
        "latency_mean": relative_change(told.mean_s, real.mean_s),
        "percentiles": [
            {"percentile": at, "latency": relative_change(a, sides[1][at])}
            for at, a in sides[0].items()
            if at in sides[1]
        ],
        "queue_mean": relative_change(told.queue.mean_s, real.queue.mean_s),
        "service_mean": relative_change(told.service.mean_s, real.service.mean_s),
        "throughput": relative_change(told.throughput_per_s, real.throughput_per_s),
    }
