"""No figure without provenance: every platform and every model, in every report."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import exp
from typing import Any

import pytest

import hetsim
from cli_calls import ok, record_of
from hetsim.graph.model import Model
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import device_names, link_names, platform_names
from hetsim.hardware.kernel_figures import PARAMETERS, STATUSES, FigureError, weakest
from hetsim.hardware.spec import DeviceSpec, Platform
from hetsim.problem.parts import Z80, Evidence
from hetsim.problem.problem import Problem
from hetsim.problem.record import problem_record
from hetsim.reporting.tables.question import (
    evidence_lines,
    evidence_text,
    figures_text,
    question,
    within_text,
)
from loaded_devices import loaded_device
from sweeps import sweep

FIGURES = ("bytes_per_s", "memory_bytes", "launch_s", "dispatch_s", "streams", "idle_w", "busy_w",
           "memory_efficiency")  # fmt: skip
ERROR = FigureError("1", 9, 120, 0.11, 0.31, 0.03, 0.17, 0.12)

loaded = cache(hetsim.load_platform)


@cache
def model(name: str) -> Model:
    return hetsim.load_model(f"zoo:{name}")


def check_sources(stated: Mapping[str, tuple[str, str]]) -> None:
    for figure, (status, source) in stated.items():
        assert status in STATUSES, figure
        assert len(source) >= 8, figure
        assert source != "user", figure


def check_device(spec: DeviceSpec) -> None:
    assert set(spec.provenance) == {
        *FIGURES,
        *(f"flops_per_s.{dtype}" for dtype in spec.flops_per_s),
        *(f"efficiency.{op_class}" for op_class in spec.efficiency),
    }
    check_sources(spec.provenance)
    for precision, figures in spec.kernels.items():
        assert figures.precision == precision
        assert set(figures.provenance) == {one.name for one in PARAMETERS}
        check_sources(figures.provenance)


def check_platform(platform: Platform) -> None:
    for spec in platform.devices.values():
        check_device(spec)
    for link in platform.links:
        assert {"latency_s", "bytes_per_s"} <= set(link.provenance), link.name
        check_sources(link.provenance)


@pytest.mark.parametrize("name", device_names())
def test_every_figure_of_a_device_has_a_source(name: str) -> None:
    check_device(loaded_device(name))


WALK = [(name, platform) for name in zoo.names() for platform in platform_names()]


@sweep("name, platform", quick=WALK[::150], full=WALK)
def test_every_price_has_evidence_and_the_header_tells_it(name: str, platform: str) -> None:
    problem = Problem.of(model(name), loaded(platform))
    assert problem.platform is not None
    check_platform(problem.platform)
    told = dict(question(problem))["figures"]
    record = problem_record(problem)["figures"]
    evidence = (*problem.evidence, *problem.link_evidence)
    assert [one.name for one in problem.evidence] == list(problem.devices)
    assert list(record["devices"]) == list(problem.devices)
    assert list(record["links"]) == [link.name for link in problem.platform.links]
    assert record["weakest"] == weakest(one.status for one in evidence)
    widest = max(exp(Z80 * one.sd) for one in evidence)
    assert told.startswith("least certain: ")
    assert told.endswith(within_text(widest))
    for one in evidence:
        assert one.status in STATUSES
        assert one.sd > 0
        kept = {**record["devices"], **record["links"]}[one.name]
        assert (kept["status"], kept["within_80"]) == (one.status, exp(Z80 * one.sd))


@sweep("name", quick=platform_names()[::18], full=platform_names())
def test_a_platform_and_what_is_simulated_on_it_say_it(name: str) -> None:
    for words in (
        ("devices", "show", name),
        ("simulate", "zoo:squeezenet", "--platform", name, "--strategy", "single"),
    ):
        assert re.search("least certain: |80 % within", ok(*words).stdout)
        record = record_of(*words)
        assert record.get("problem", record)["figures"]["weakest"] in STATUSES


@pytest.mark.parametrize("name", ["nvidia-l4", "intel-core-ultra-155h-cpu"])
def test_a_device_says_it(name: str) -> None:
    assert "80 % within" in " ".join(ok("devices", "show", name).stdout.split())
    record = record_of("devices", "show", name)
    assert record["figures"]["status"] in STATUSES


def test_a_link_says_it() -> None:
    for name in link_names():
        record = record_of("devices", "show", name)
        check_sources({k: (v["status"], v["source"]) for k, v in record["provenance"].items()})


VERBS = [
    "compare",
    "compare --strategy single --explain",
    "compare --strategy single --pessimistic",
    "compare --strategy single --objective throughput",
    "simulate",
    "simulate --requests 3 --strategy heft",
    "simulate --inject 'kill gpu at 1ms' --strategy heft",
    "simulate --rate 50 --requests 100 --strategy heft",
    "nodes",
    "nodes --strategy heft",
    "lint",
    "partition",
    "partition --method all",
    "run --executor threads --strategy heft",
    "run --executor threads --emulate --time-scale 5 --strategy heft",
]


@sweep("verb", quick=VERBS[::4], full=VERBS)
def test_every_report_says_it(verb: str) -> None:
    first, *rest = shlex.split(verb)
    words = (first, "zoo:squeezenet", "--platform", "laptop", *rest)
    assert "\nfigures " in ok(*words).stdout
    record: dict[str, Any] = record_of(*words)
    assert set(record["problem"]["figures"]["devices"]) == {"cpu", "gpu", "npu"}


def test_a_trace_says_it(tmp_path: Any) -> None:
    path = tmp_path / "trace.json"
    ok("simulate", "zoo:squeezenet", "--platform", "laptop", "--trace", str(path))
    assert json.loads(path.read_text())["otherData"]["figures"].startswith("least certain: ")


def test_provenance_of_one_device() -> None:
    plain = Evidence("npu", "n", "estimate", 0.71)
    assert evidence_text(plain) == "estimated"
    fitted = replace(plain, status="fitted", sd=0.17, precision="int8", error=ERROR)
    told = "int8 times fitted to published measurements of 9 networks (median error 11 %)"
    assert evidence_text(fitted) == told
    partly = replace(plain, measured=0.9, sd=0.1)
    assert evidence_text(partly) == "90 % measured by a profile, the rest estimated"


def test_the_least_certain_is_named_and_equals_share_a_line() -> None:
    devices = [Evidence(name, "g", "fitted", 0.2) for name in ("gpu.0", "gpu.1", "cpu")]
    devices[2] = replace(devices[2], status="prior", sd=0.6, precision="int8")
    links = [Evidence(f"l{i}", of, "measured", 0.1) for i, of in enumerate(["pcie", "pcie", "usb"])]
    told = "least certain: cpu, int8 times derived from similar chips, 80 % within 2.2x"
    assert figures_text(devices, links) == told
    assert [name for name, *_ in evidence_lines(devices, links)] == ["gpu.0-1", "cpu", "links"]
    links[2] = replace(links[2], sd=0.5)
    names = [name for name, *_ in evidence_lines(devices, links)]
    assert names[2:] == ["links pcie", "links usb"]


def test_a_profile_measures_a_part(tmp_path: Any) -> None:
    found = Problem.of(model("squeezenet"), loaded("laptop"), cost="roofline")
    assert found.platform is not None
    name = next(n for n, op in zip(found.node_names, found.op_types, strict=True) if op == "Conv")
    layer = {"name": name, "timeMs": 9, "averageMs": 1, "medianMs": 1, "percentage": 100}
    (tmp_path / "npu.json").write_text(json.dumps([{"count": 9}, layer]))
    profiled = Problem.of(
        model("squeezenet"),
        loaded("laptop"),
        cost="roofline",
        profiles={"npu": tmp_path / "npu.json"},
    )
    npu = profiled.evidence[2]
    share = profiled.profiles["npu"].share
    assert 0 < npu.measured == share < 1
    assert npu.sd < found.evidence[2].sd
    assert "measured by a profile, the rest estimated" in evidence_text(npu)
