"""What ``simulate`` says of a whole network on one device is what the figures were fitted by."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from catalog.fidelity.judged import alone_s, device_of, figures_of
from catalog.measured import ITEM_BYTES, measured_folder
from catalog.points import Graphs, read_graphs
from cost.kernels.test_float_equivalent import quantized_model
from hetsim.cost.kernels.float_equivalent import floats_of
from hetsim.cost.kernels.networks import KernelTable, Networks, log_total, network_table
from hetsim.cost.kernels.similarity import likeness_of
from hetsim.errors import HetsimError
from hetsim.graph.model import Model
from hetsim.hardware.catalog import device_names, load_platform
from hetsim.placement.planning import plan
from hetsim.problem.problem import Problem
from hetsim.simulation.simulate import simulate
from sweeps import sweep

MOST = 0.02


@cache
def graphs() -> Graphs:
    return read_graphs(measured_folder())


def fitted_s(device: str, precision: str, table: KernelTable) -> float:
    """Seconds of a whole network by the fitted table, its inputs and outputs there already."""
    figures = figures_of(device, precision)
    assert figures is not None
    each = ITEM_BYTES[precision]
    rows = table.laid(1, each, each)
    total = math.exp(log_total(np.log(np.array([figures.values])), Networks.of([rows]))[0])
    kernels = total - figures.dispatch_s - table.io_bytes(1, each) / figures.value("io_gbytes_s")
    if figures.likeness:
        likely = likeness_of(figures.kin, figures.likeness).of_table(table, 1)
        kernels *= 1.0 if likely is None else likely.factor
    return figures.dispatch_s + kernels


def differences(model: Model, device: str) -> dict[str, float]:
    """By precision how far ``simulate`` is off; without those that the device cannot run."""
    table = network_table(model.graph)
    found = {}
    for precision in device_of(device).kernels:
        told = alone_s(model, load_platform(device), precision, "fitted")
        if told is not None:
            found[precision] = told / fitted_s(device, precision, table) - 1
    return found


NETWORKS = sorted(path.removesuffix(".onnx") for path in graphs().entries)
QUICK = [
    ("ncnn_blazeface", "raspberry-pi-4-cpu"),
    ("quicksrnet_small_x4_128", "hailo-8"),
    ("bert_base_384", "nvidia-l40s"),
]


@sweep("network, device", quick=QUICK[:1], full=QUICK)
def test_a_whole_network_takes_what_was_fitted(network: str, device: str) -> None:
    found = differences(graphs().load(f"{network}.onnx"), device)
    assert found
    assert {precision: off for precision, off in found.items() if abs(off) > MOST} == {}


@pytest.mark.sweep
@pytest.mark.parametrize("network", NETWORKS)
def test_on_all_devices_in_all_precisions(network: str) -> None:
    model = graphs().load(f"{network}.onnx")
    off = {
        (device, precision): much
        for device in device_names()
        for precision, much in differences(model, device).items()
        if abs(much) > MOST
    }
    assert off == {}


CASES = [("squeezenet", "qdq"), ("resnet18", "qdq"), ("bert_small", "qdq"),
         ("resnet18", "qoperator")]  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_quantized_model_takes_what_was_fitted_of_its_floats(name: str, form: str) -> None:
    integers = quantized_model(name, form)
    # Not of the float file, in which what depends on constants alone is folded.
    table = network_table(floats_of(integers.graph).graph)
    seen = 0
    for device in device_names()[::3]:
        if "int8" not in device_of(device).kernels:
            continue
        try:
            problem = Problem.of(integers, load_platform(device))
            told = simulate(plan(problem, "single")).latency_s
        except HetsimError:
            continue
        seen += 1
        assert told == pytest.approx(fitted_s(device, "int8", table), rel=MOST), device
    assert seen > 6
