"""Profiles of real ONNX Runtime sessions: nearly all time is measured, and none is lost."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.graph.zoo.models import materialise, names
from profile_builders import real_profile
from sweeps import sweep

QUICK = ("bert_small",)
RUNS = 3


def feeds(model: hetsim.Model) -> dict[str, Any]:
    """Inputs of a zoo model: token ids, or noise."""
    generator = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for name in model.graph.inputs:
        tensor = model.graph.tensors[name]
        if "int" in tensor.dtype:
            found[name] = generator.integers(0, 2, tensor.static_shape).astype(tensor.dtype)
        else:
            found[name] = generator.standard_normal(tensor.static_shape).astype(tensor.dtype)
    return found


def kernels_total_s(path: Path) -> float:
    """The medians of all kernels but for their first run, added up from the file itself."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in json.loads(path.read_text()):
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            times[event["name"], event["args"]["node_index"]].append(event["dur"] / 1e6)
    assert {len(taken) for taken in times.values()} == {RUNS}
    return sum(median(taken[1:]) for taken in times.values())


def begins(event: dict[str, Any]) -> int:
    return int(event["ts"])


def told_by_sizes(path: Path) -> None:
    """Let every kernel of the file take as long as its sizes say: what it took was the machine's.

    A kernel that another process interrupted would weigh as much as all that a model without
    constant nodes has no match for. The first run takes ten times as long as the others.
    """
    events = json.loads(path.read_text())
    runs = sorted((one for one in events if one["name"] == "model_run"), key=begins)
    kernels = sorted((one for one in events if one["name"].endswith("_kernel_time")), key=begins)
    clock, again = begins(runs[0]), []
    for number, run in enumerate(runs):
        begin, end = begins(run), begins(run) + run["dur"]
        run["ts"] = clock
        for kernel in (one for one in kernels if begin <= begins(one) < end):
            sizes = ("activation_size", "parameter_size", "output_size")
            us = 1 + sum(int(kernel["args"][size]) for size in sizes) // 1000
            again.append({**kernel, "ts": clock, "dur": us * 10 if not number else us + number % 2})
            clock += again[-1]["dur"] + 1
        run["dur"] = clock - run["ts"]
    path.write_text(json.dumps([*runs, *again]))


@sweep("name", quick=QUICK, full=names())
@pytest.mark.parametrize("optimised", [True, False], ids=["optimised", "plain"])
def test_a_real_profile_is_read_back(name: str, optimised: bool, tmp_path: Path) -> None:
    model = hetsim.load_model(f"zoo:{name}")
    path = real_profile(materialise(name), feeds(model), tmp_path, runs=RUNS, optimised=optimised)
    told_by_sizes(path)
    problem = hetsim.Problem.of(model, hetsim.load_platform("laptop"), profiles={"cpu": path})
    share = problem.profiles["cpu"]
    total_s = kernels_total_s(path)
    assert share.profile.total_s == pytest.approx(total_s)
    assert share.share > 0.95
    assert sum(share.measured) > 0.95 * share.nodes
    assert share.measured_s == pytest.approx(total_s, rel=0.02)
    alone = hetsim.simulate(hetsim.plan(problem, "single:cpu")).latency_s
    assert alone - problem.dispatch_s[0] == pytest.approx(total_s, rel=0.02)
