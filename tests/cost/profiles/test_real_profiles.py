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

QUICK = ("squeezenet", "shufflenet", "mobilenet_v2", "resnet18", "bert_small", "gpt2_6layer")
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


@sweep("name", quick=QUICK, full=names())
@pytest.mark.parametrize("optimised", [True, False], ids=["optimised", "plain"])
def test_a_real_profile_is_read_back(name: str, optimised: bool, tmp_path: Path) -> None:
    model = hetsim.load_model(f"zoo:{name}")
    path = real_profile(materialise(name), feeds(model), tmp_path, runs=RUNS, optimised=optimised)
    problem = hetsim.Problem.of(model, hetsim.load_platform("laptop"), profiles={"cpu": path})
    share = problem.profiles["cpu"]
    total_s = kernels_total_s(path)
    assert share.profile.total_s == pytest.approx(total_s)
    assert share.share > 0.95
    assert sum(share.measured) > 0.95 * share.nodes
    assert share.measured_s == pytest.approx(total_s, rel=0.02)
    alone = hetsim.simulate(hetsim.plan(problem, "single:cpu")).latency_s
    assert alone - problem.dispatch_s[0] == pytest.approx(total_s, rel=0.02)
