"""What stands beside what: a change of figures that are none is no percentage."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import hetsim
from cli.conftest import tiny_model
from hetsim.reporting.tables.what_if import difference, served_sentence
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import serve
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import Served


@pytest.mark.parametrize(
    ("was", "now", "shown"),
    [
        (2.0, 1.0, "-50 %"), (1.0, 1.0004, "same"), (0.0, 0.0, "same"), (0.0, 1.0, "-"),
        (math.nan, 1.0, "-"), (math.nan, math.nan, "-"), (math.inf, math.inf, "same"),
        (1.0, math.inf, "-"), (math.inf, 1.0, "-"),
    ],
)  # fmt: skip
def test_difference(was: float, now: float, shown: str) -> None:
    assert difference(was, now) == shown


def with_p99(service: Service, seconds: float) -> Service:
    (stream,) = service.streams
    percentiles = tuple(
        replace(one, estimate_s=seconds) if one.percentile == 99 else one
        for one in stream.percentiles
    )
    return replace(service, streams=(replace(stream, percentiles=percentiles),))


def test_requests_that_are_rejected_have_no_percentage(tmp_path: Path) -> None:
    path = tmp_path / "tiny.onnx"
    onnx.save(tiny_model(), path)
    workload = hetsim.Workload((hetsim.Stream("all", str(path), Poisson(100.0)),), requests=50)
    deployment = hetsim.Deployment((Served(str(path), strategy="single"),))
    platform = hetsim.what_if(hetsim.load_platform("laptop"), "cpu.speed /2")
    service = serve(deployment, workload, platform, machine_code=False)
    said = {
        (was, now): served_sentence(with_p99(service, was), with_p99(service, now))
        for was in (0.004, math.inf)
        for now in (0.002, math.inf)
    }
    stay = ". Plans, bottleneck and verdicts stay the same."
    assert said == {
        (0.004, 0.002): f"With cpu.speed /2, p99 goes from 4.00 ms to 2.00 ms (-50 %){stay}",
        (0.004, math.inf): f"With cpu.speed /2, p99 goes from 4.00 ms to rejected{stay}",
        (math.inf, 0.002): f"With cpu.speed /2, p99 goes from rejected to 2.00 ms{stay}",
        (math.inf, math.inf): f"With cpu.speed /2, p99 stays rejected{stay}",
    }
